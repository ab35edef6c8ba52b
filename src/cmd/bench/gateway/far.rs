//! Row `far`: a download over a good link and one that is slow and far away, which must not cost
//! anything.

use super::figure::{Figure, Target, Unit};
use super::scene::{Load, Scene, Span};
use super::tell;
use tabane_sim::attainable::PAYLOAD;

const ROW: &str = "far";
/// Of what the good link carries.
const SHARE: Target = Target::new(0.98, 1.00);
/// The longest time without a byte: without the slow link there is none.
const STALL: Target = Target::new(0.25, 0.10);
/// Bits per second of the good link.
const NEAR: f64 = 100e6;

const TEXT: &str = include_str!("../../../../scenarios/links/far.toml");

/// One download.
///
/// # Errors
/// It fails.
pub(super) fn measure(quick: bool) -> anyhow::Result<Vec<Figure>> {
    let span = Span::new(2.5, if quick { 7.5 } else { 27.5 });
    let outcome = Scene::new("far", TEXT)?.run(&Load { bulk: 1, ..Load::default() }, span)?;
    let share = outcome.bps / (NEAR * PAYLOAD);
    let what = "2@1000 + 100@20 ms: of what the second carries alone";
    let figures = vec![
        Figure::new(ROW, what, (share, Unit::Share), SHARE).note(outcome.note()),
        Figure::new(ROW, "longest stall", (outcome.stall, Unit::Seconds), STALL),
    ];
    figures.iter().for_each(tell);
    Ok(figures)
}
