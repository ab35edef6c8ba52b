//! The frame of loss-based controllers: slow start, recovery, timeouts, undo, idleness and
//! penalties as `reno` does them. A [`Rule`] says how congestion avoidance grows and what a loss
//! costs; it knows nothing of the rest.

use super::window::Window;
use super::{Ack, AckPath, CcState, Congestion, CongestionController, Start};
use crate::time::Instant;
use crate::view::SubflowView;

/// What distinguishes a loss-based controller from Reno.
pub(super) trait Rule: Send {
    /// An ACK came, whether or not the window may grow by it. For measuring; the window may be
    /// lowered here, never raised.
    fn observe(&mut self, _ack: &Ack, _window: &mut Window, _siblings: &[SubflowView]) {}

    /// Congestion avoidance: `bytes` were acknowledged, at most a window.
    fn avoid(&mut self, window: &mut Window, ack: &Ack, bytes: u64, siblings: &[SubflowView]);

    /// What `event` leaves of the window, bytes.
    fn reduced(&mut self, window: &Window, event: &Congestion, siblings: &[SubflowView]) -> u64;

    /// Least ssthresh, segments.
    fn least_ssthresh(&self, _siblings: &[SubflowView]) -> u64 {
        2
    }

    /// RTTs from now on are not comparable with earlier ones.
    fn rtts_restart(&mut self) {}

    /// The window was set from outside (undo, idleness, penalty, another segment size).
    fn reset(&mut self, _window: &Window) {}
}

pub(super) struct Classic<R> {
    window: Window,
    rule: R,
    /// Before the last reduction of ssthresh.
    before: Option<Window>,
}

impl<R: Rule> Classic<R> {
    pub(super) fn new(start: Start, rule: R) -> Self {
        Self { window: Window::new(start), rule, before: None }
    }
}

impl<R: Rule> CongestionController for Classic<R> {
    fn on_ack_path(&mut self, _now: Instant, ack_path: &AckPath) {
        if ack_path.moved {
            self.rule.rtts_restart();
        }
    }

    fn on_ack(&mut self, ack: &Ack, siblings: &[SubflowView]) {
        let grows = self.window.may_grow(ack);
        self.rule.observe(ack, &mut self.window, siblings);
        if !grows {
            return;
        }
        let bytes = if self.window.in_slow_start() {
            self.window.slow_start(ack.delivered)
        } else {
            ack.acked.min(self.window.cwnd)
        };
        if bytes > 0 {
            self.rule.avoid(&mut self.window, ack, bytes, siblings);
        }
    }

    fn on_congestion(&mut self, event: &Congestion, siblings: &[SubflowView]) {
        if self.window.is_new(event) {
            self.before = Some(self.window);
        }
        let reduced = self.rule.reduced(&self.window, event, siblings);
        let least = self.rule.least_ssthresh(siblings);
        self.window.reduce_to(event, reduced, least);
    }

    fn on_spurious(&mut self, _now: Instant) {
        if let Some(before) = self.before.take() {
            self.window.restore(&before);
            self.rule.reset(&self.window);
        }
    }

    fn on_idle_restart(&mut self, _now: Instant, restart: u64) {
        self.window.idle_restart(restart);
        self.rule.reset(&self.window);
    }

    fn on_penalty(&mut self) {
        self.window.penalise();
        self.rule.reset(&self.window);
    }

    fn on_mss(&mut self, mss: u64) {
        self.window.set_mss(mss);
        self.rule.reset(&self.window);
    }

    fn report(&self, state: &mut CcState) {
        self.window.report(state);
    }
}
