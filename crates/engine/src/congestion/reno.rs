//! `reno`: RFC 5681 and 6582 as Linux does them.
//!
//! Growth counts bytes (RFC 3465): those newly delivered below ssthresh, without a limit per ACK,
//! so that an ACK which jumps over what was selectively acknowledged brings no burst; those
//! cumulatively acknowledged above it, at most a window per ACK, so that the ACK which ends a
//! recovery counts for the round it took (as in ns-3; Linux counts what it newly delivers).
//!
//! A loss or an ECN echo halves the window (from cwnd, as Linux, not from FlightSize as the RFC:
//! the two differ only when something else limits sending, and then cwnd has not grown); a
//! timeout also restarts from one segment. The inflation of cwnd by duplicate ACKs that the RFC
//! describes is left to PRR (RFC 6937) in the subflow.

use super::window::Window;
use super::{Ack, CcState, Congestion, CongestionController, Start};
use crate::policy::{PolicyError, Values};
use crate::time::Instant;
use crate::view::SubflowView;

pub(super) struct Reno {
    window: Window,
    /// Before the last reduction of ssthresh.
    before: Option<Window>,
}

impl Reno {
    pub(super) fn build(
        _: &Values<'_>,
        start: Start,
    ) -> Result<Box<dyn CongestionController>, PolicyError> {
        Ok(Box::new(Self { window: Window::new(start), before: None }))
    }
}

impl CongestionController for Reno {
    fn on_ack(&mut self, ack: &Ack, _siblings: &[SubflowView]) {
        if !self.window.may_grow(ack) {
            return;
        }
        if !self.window.in_slow_start() {
            return self.window.additive(ack.acked);
        }
        let bytes = self.window.slow_start(ack.delivered);
        if bytes > 0 {
            self.window.additive(bytes);
        }
    }

    fn on_congestion(&mut self, event: &Congestion, _siblings: &[SubflowView]) {
        if self.window.is_new(event) {
            self.before = Some(self.window);
        }
        self.window.reduce(event, self.window.cwnd / 2);
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
