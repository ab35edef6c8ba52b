//! Row `train`: bulk over two LTE links in a train, whose rates are others each second, some of
//! them nothing at all.

use super::beside::Beside;
use super::figure::{Figure, Target, Unit};
use super::scene::{Load, Scene, Span};
use super::tell;

const ROW: &str = "train";
/// Of what is attainable. The best of what else was measured was the kernel's TCP on one link, 84
/// to 90 % of what that carries; our simulator has 97 and 98 % of both.
const SHARE: Target = Target::new(0.90, 0.97);

const TEXT: &str = include_str!("../../../../scenarios/links/train.toml");

/// Down, then up.
///
/// # Errors
/// The flow fails.
pub(super) fn measure(quick: bool) -> anyhow::Result<Vec<Figure>> {
    let span = Span::new(2.5, if quick { 12.5 } else { 30.0 });
    let scene = Scene::new("train", TEXT)?;
    let mut figures = Vec::new();
    for (upload, what) in [(false, "download"), (true, "upload")] {
        let outcome = scene.run(&Load { bulk: 1, upload, ..Load::default() }, span)?;
        let figure = Figure::new(
            ROW,
            format!("{what}: of attainable"),
            (outcome.share(), Unit::Share),
            SHARE,
        );
        let sets = [format!("flow.bulk.direction={what}")];
        let beside = Beside::kernel(&scene, span.whole(), &sets, quick);
        figures.push(beside.goodput(figure.note(outcome.note())));
    }
    figures.iter().for_each(tell);
    Ok(figures)
}
