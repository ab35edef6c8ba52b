//! Row `bursts`: a download over two links that lose packets in bursts.

use super::beside::Beside;
use super::figure::{Figure, Target, Unit};
use super::scene::{Load, Scene, Span};
use super::tell;

const ROW: &str = "bursts";
/// Of what is attainable. The best of what else was measured was shadowsocks over the kernel's
/// MPTCP with BBR: 280 of 310 Mbit/s, all that is attainable through a tunnel.
const SHARE: Target = Target::new(0.90, 1.00);

const NEAR: &str = include_str!("../../../../scenarios/links/bursts.toml");
const FAR: &str = include_str!("../../../../scenarios/links/bursts-far.toml");

/// One scenario after the other.
///
/// # Errors
/// The download fails.
pub(super) fn measure(quick: bool) -> anyhow::Result<Vec<Figure>> {
    let span = Span::new(2.5, if quick { 5.0 } else { 12.5 });
    let mut figures = Vec::new();
    for (name, text, what) in
        [("bursts", NEAR, "230@20 + 80@50"), ("bursts-far", FAR, "100@10 + 100@60")]
    {
        let scene = Scene::new(name, text)?;
        let outcome = scene.run(&Load { bulk: 1, ..Load::default() }, span)?;
        let what = format!("{what} ms, 0.5 % lost in bursts of ten: of attainable");
        let figure = Figure::new(ROW, what, (outcome.share(), Unit::Share), SHARE);
        let beside = Beside::kernel(&scene, span.whole(), &[], quick);
        figures.push(beside.goodput(figure.note(outcome.note())));
    }
    figures.iter().for_each(tell);
    Ok(figures)
}
