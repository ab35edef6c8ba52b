//! Row `leo`: a download over a link by satellites in low orbit, beside DSL and by itself.

use super::beside::Beside;
use super::figure::{Figure, Target, Unit};
use super::scene::{Load, Scene, Span};
use super::tell;

const ROW: &str = "leo";
/// Of what is attainable. The best of what else was measured was the satellites' link alone with
/// the kernel's BBR: 134 Mbit/s, 74 % of what both carry.
const BOTH: Target = Target::new(0.90, 1.00);
/// Of what is attainable, where each outage is one of all that there is.
const ALONE: Target = Target::new(0.80, 0.90);

const TEXTS: [(&str, &str, &str, Target); 2] = [
    ("leo", include_str!("../../../../scenarios/links/leo.toml"), "150@40 + DSL 50@30 ms", BOTH),
    ("leo-alone", include_str!("../../../../scenarios/links/leo-alone.toml"), "150@40 ms", ALONE),
];

/// Over two reconfigurations; one in a quick run.
///
/// # Errors
/// The download fails.
pub(super) fn measure(quick: bool) -> anyhow::Result<Vec<Figure>> {
    let span = Span::new(2.5, if quick { 17.5 } else { 30.0 });
    let mut figures = Vec::new();
    for (name, text, what, target) in &TEXTS[..if quick { 1 } else { 2 }] {
        let scene = Scene::new(name, text)?;
        let outcome = scene.run(&Load { bulk: 1, ..Load::default() }, span)?;
        let what = format!("{what}: of attainable");
        let figure = Figure::new(ROW, what, (outcome.share(), Unit::Share), *target);
        let beside = Beside::kernel(&scene, span.whole(), &[], quick);
        figures.push(beside.goodput(figure.note(outcome.note())));
    }
    figures.iter().for_each(tell);
    Ok(figures)
}
