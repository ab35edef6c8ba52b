//! `gentle`: Reno that keeps a share of its window at a loss. Ours; no paper.

use super::window::Window;
use super::{Ack, CcState, Congestion, CongestionController, Start};
use crate::policy::{Param, PolicyError, Values};
use crate::time::Instant;
use crate::view::SubflowView;

/// Parameters: name, default, meaning.
pub(super) const PARAMS: &[Param] = &[Param::new("keep", 0.5, 0.1..=0.9, "share kept at a loss")];

/// The controller `gentle`.
pub(super) struct Gentle {
    window: Window,
    /// In thousandths: the engine computes in integers.
    keep: u64,
    /// Before the last loss.
    before: Option<Window>,
}

impl Gentle {
    pub(super) fn build(
        values: &Values<'_>,
        start: Start,
    ) -> Result<Box<dyn CongestionController>, PolicyError> {
        let keep = (values.get("keep") * 1000.0) as u64;
        Ok(Box::new(Self { window: Window::new(start), keep, before: None }))
    }
}

impl CongestionController for Gentle {
    fn on_ack(&mut self, ack: &Ack, _siblings: &[SubflowView]) {
        if !self.window.may_grow(ack) {
            return;
        }
        let left = match self.window.in_slow_start() {
            true => self.window.slow_start(ack.delivered),
            false => ack.acked,
        };
        if left > 0 {
            self.window.additive(left);
        }
    }

    fn on_congestion(&mut self, event: &Congestion, _siblings: &[SubflowView]) {
        if self.window.is_new(event) {
            self.before = Some(self.window);
        }
        self.window.reduce(event, self.window.cwnd / 1000 * self.keep);
    }

    fn on_spurious(&mut self, _now: Instant) {
        if let Some(before) = self.before.take() {
            self.window.restore(&before);
        }
    }

    fn on_idle_restart(&mut self, _now: Instant, restart: u64) {
        self.window.idle_restart(restart);
    }

    fn on_penalty(&mut self) {
        self.window.penalise();
    }

    fn on_mss(&mut self, mss: u64) {
        self.window.set_mss(mss);
    }

    fn report(&self, state: &mut CcState) {
        self.window.report(state);
    }
}
