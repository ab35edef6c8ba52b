//! Row `bloated`: a program that asks for 10 KB again and again beside a download, on links with
//! queues of 2 s, and on two with usual ones.

use super::beside::Beside;
use super::figure::{Figure, Target, Unit};
use super::scene::{Load, Scene, Span};
use super::{quantile, tell};
use crate::bed::requests::Habit;
use anyhow::Context;
use std::time::Duration;

const ROW: &str = "bloated";
/// Of what is attainable.
const BULK: Target = Target::new(0.92, 0.97);
/// Half of the answers, beyond the best link's round trip without a queue.
const HALF: [f64; 2] = [0.040, 0.020];
/// 95 % of them.
const MOST: [f64; 2] = [0.120, 0.060];

const SIZE: u64 = 10_000;
const TEXTS: [(&str, &str, &str, u64); 2] = [
    (
        "bloated",
        include_str!("../../../../scenarios/links/bloated.toml"),
        "LTE 40@50 + 4G 20@60 ms, queues of 2 s",
        200,
    ),
    (
        "beside-bulk",
        include_str!("../../../../scenarios/links/beside-bulk.toml"),
        "100@10 + 100@60 ms",
        100,
    ),
];

/// One scenario after the other.
///
/// # Errors
/// The download or a request fails.
pub(super) fn measure(quick: bool) -> anyhow::Result<Vec<Figure>> {
    let span = Span::new(4.0, if quick { 8.0 } else { 26.0 });
    let mut figures = Vec::new();
    for (name, text, links, think) in TEXTS {
        let scene = Scene::new(name, text)?;
        let (think, wait) = (Duration::from_millis(think), Duration::from_secs(2));
        let requests = vec![Habit { size: SIZE, think, wait }];
        let mut outcome = scene.run(&Load { bulk: 1, upload: false, requests }, span)?;
        let beside = Beside::kernel(&scene, span.whole(), &[], quick);
        let count = outcome.answers.len();
        for (name, share, [must, aim]) in [("half", 0.5, HALF), ("95 %", 0.95, MOST)] {
            let value = quantile(&mut outcome.answers, share).context("no answer came")?;
            let rtt = scene.least_rtt();
            let target = Target::new(rtt + must, rtt + aim);
            let what = format!("{links}: {name} of the answers of 10 KB within");
            let figure = Figure::new(ROW, what, (value, Unit::Seconds), target);
            figures.push(beside.latency(share, figure.note(format!("{count} answers"))));
        }
        let what = format!("{links}: the download, of attainable");
        let figure = Figure::new(ROW, what, (outcome.share(), Unit::Share), BULK);
        figures.push(beside.goodput(figure.note(outcome.note())));
    }
    figures.iter().for_each(tell);
    Ok(figures)
}
