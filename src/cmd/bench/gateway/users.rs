//! Row `users`: 200 people who open pages beside five downloads.

use super::figure::{Figure, Target, Unit};
use super::scene::{Load, Scene, Span};
use super::{quantile, tell};
use crate::bed::requests::Habit;
use anyhow::Context;
use std::time::Duration;

const ROW: &str = "users";
/// 99 % of the answers. The best of what else was measured was the kernel's CUBIC on one link:
/// 0.5 s.
const LATE: Target = Target::new(0.5, 0.3);
/// Of what is attainable, downloads and pages together.
const BULK: Target = Target::new(0.90, 0.97);

const USERS: u32 = 200;
const DOWNLOADS: usize = 5;
const SIZE: u64 = 20_000;
const THINK: Duration = Duration::from_secs(5);

const TEXT: &str = include_str!("../../../../scenarios/links/users.toml");

/// One run.
///
/// # Errors
/// A flow fails.
pub(super) fn measure(quick: bool) -> anyhow::Result<Vec<Figure>> {
    let span = Span::new(6.0, if quick { 8.0 } else { 24.0 });
    let scene = Scene::new("users", TEXT)?;
    // Spread over the time between two pages of one of them.
    let habit = |n| Habit { size: SIZE, think: THINK, wait: THINK * n / USERS };
    let requests = (0..USERS).map(habit).collect();
    let mut outcome = scene.run(&Load { bulk: DOWNLOADS, upload: false, requests }, span)?;
    let count = outcome.answers.len();
    let mut at = |share| quantile(&mut outcome.answers, share).context("no answer came");
    let [half, most, late] = [at(0.5)?, at(0.95)?, at(0.99)?];
    let pages = (count as u64 * SIZE * 8) as f64 / span.length.as_secs_f64();
    let share = (outcome.bps + pages) / outcome.attainable;
    let [p50, p95] = [half, most].map(|value| Unit::Seconds.text(value));
    let what = "50@30 + 20@50 ms: 99 % of 200 users' pages within";
    let figures = vec![
        Figure::new(ROW, what, (late, Unit::Seconds), LATE)
            .note(format!("{count} pages of 20 KB; half within {p50}, 95 % within {p95}")),
        Figure::new(ROW, "five downloads and the pages, of attainable", (share, Unit::Share), BULK)
            .note(format!("downloads: {}; pages {:.1} Mbit/s", outcome.note(), pages / 1e6)),
    ];
    figures.iter().for_each(tell);
    Ok(figures)
}
