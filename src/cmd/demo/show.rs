//! What the demo shows while it runs: a bar for each link on a terminal, a line a second
//! elsewhere; on standard error.

use super::links::DemoLink;
use super::transfer::Progress;
use crate::say;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::sync::atomic::Ordering;

/// The display of one run.
pub(crate) struct Display {
    bars: Vec<(usize, ProgressBar)>,
    lines: Option<Lines>,
}

/// For logs and pipes.
struct Lines {
    titles: Vec<String>,
    last: Vec<u64>,
    ticks: u32,
}

/// Calls of [`Display::tick`] a second.
pub(crate) const TICKS: u32 = 10;

impl Display {
    /// A display of a run over these links, of a file of `size` bytes.
    pub(crate) fn new(title: &str, links: &[&DemoLink], size: u64, terminal: bool) -> Self {
        say::note(&format!("\n{title}"));
        if say::is_quiet() {
            return Self { bars: Vec::new(), lines: None };
        }
        if !terminal {
            let titles: Vec<_> = links.iter().map(|link| link.title.clone()).collect();
            let last = vec![0; titles.len()];
            return Self { bars: Vec::new(), lines: Some(Lines { titles, last, ticks: 0 }) };
        }
        let multi = MultiProgress::with_draw_target(ProgressDrawTarget::stderr());
        let bars = links.iter().enumerate().map(|(i, link)| {
            let bar = multi.add(ProgressBar::new(size).with_style(style()));
            bar.set_prefix(format!("{:>6}", link.title));
            (i, bar)
        });
        Self { bars: bars.collect(), lines: None }
    }

    /// Shows how far it is; to be called [`TICKS`] times a second.
    pub(crate) fn tick(&mut self, progress: &Progress) {
        for (i, bar) in &self.bars {
            bar.set_position(progress.links[*i].load(Ordering::Relaxed));
        }
        let Some(lines) = &mut self.lines else { return };
        lines.ticks += 1;
        if lines.ticks % TICKS != 0 {
            return;
        }
        let mut text = format!("{:4} s", lines.ticks / TICKS);
        for (i, title) in lines.titles.iter().enumerate() {
            let bytes = progress.links[i].load(Ordering::Relaxed);
            let rate = (bytes - lines.last[i].min(bytes)) as f64 * 8.0 / 1e6;
            lines.last[i] = bytes;
            text.push_str(&format!("  {title} {:.1} MB ({rate:.1} Mbit/s)", bytes as f64 / 1e6));
        }
        say::note(&text);
    }

    /// The run has ended.
    pub(crate) fn finish(self, progress: &Progress) {
        for (i, bar) in &self.bars {
            bar.set_position(progress.links[*i].load(Ordering::Relaxed));
            bar.abandon();
        }
        if !self.bars.is_empty() {
            // The cursor is behind the last bar.
            say::note("");
        }
    }
}

fn style() -> ProgressStyle {
    let template = "{prefix} {bar:36} {bytes:>9} {bytes_per_sec:>12}";
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
