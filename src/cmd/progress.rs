//! A progress bar on standard error, for a person who waits longer than a second.

use crate::say;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::time::Instant;
use tabane_sim::observe::Observer;

/// Shows how far work has come; silent unless standard error is a terminal.
pub(crate) struct Progress {
    bar: ProgressBar,
    began: Instant,
    label: String,
}

/// Shorter work shows no bar.
const PATIENCE_MS: u128 = 700;

impl Progress {
    /// A bar of `steps`, not yet shown.
    #[allow(clippy::disallowed_methods)] // The patience of a person is real time.
    pub(crate) fn new(label: &str, steps: u64) -> Self {
        let bar = ProgressBar::with_draw_target(Some(steps), ProgressDrawTarget::hidden());
        Self { bar, began: Instant::now(), label: label.to_owned() }
    }

    /// So many steps are done.
    pub(crate) fn set(&self, step: u64) {
        if self.bar.is_hidden() {
            if self.began.elapsed().as_millis() < PATIENCE_MS || !is_watched() {
                return;
            }
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
            let style = ProgressStyle::with_template("{msg} {wide_bar} {percent:>3} %  {eta} left");
            self.bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            self.bar.set_message(self.label.clone());
        }
        self.bar.set_position(step);
    }

    /// Takes it away.
    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

fn is_watched() -> bool {
    !say::is_quiet() && std::io::stderr().is_terminal()
}

/// Parts of a run.
pub(crate) const STEPS: u64 = 1_000;

impl Observer for Progress {
    fn progress(&mut self, now: tabane_engine::Instant, end: tabane_engine::Instant) {
        self.set((now.0 as u128 * u128::from(STEPS) / u128::from(end.0.max(1))) as u64);
    }

    fn end(&mut self, _now: tabane_engine::Instant) {
        self.finish();
    }
}
