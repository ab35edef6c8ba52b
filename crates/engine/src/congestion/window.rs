//! What all window-based controllers share: cwnd and ssthresh in bytes, slow start, additive
//! increase by counted bytes (RFC 3465), and the arithmetic of congestion signals (RFC 5681,
//! RFC 6298). Which factor a loss costs, and how the window grows afterwards, is not decided here.

use super::{Ack, CcPhase, CcState, Congestion, CongestionKind, Start};
use crate::view::RecoveryPhase;

/// The window of a loss-based controller, and how it grows and shrinks (RFC 5681).
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    /// Payload of a full segment, bytes; never 0.
    pub(super) mss: u64,
    /// Congestion window, bytes; never below `mss`.
    pub(super) cwnd: u64,
    /// Slow start threshold, bytes.
    pub(super) ssthresh: u64,
    /// Bytes counted towards the next segment of additive increase.
    counted: u64,
    /// The congestion signal that is being answered.
    episode: Option<Episode>,
}

/// From a congestion signal until what was in flight then is acknowledged.
#[derive(Clone, Copy, Debug)]
struct Episode {
    /// Over when everything below this is acknowledged (RFC 6582's recover).
    end: u64,
    /// It began with a timeout. Then any progress ends it, because a timeout after progress is a
    /// new event (RFC 5681 section 3.1 keeps ssthresh only for a segment that times out again).
    timeout: bool,
}

impl Window {
    pub(super) fn new(start: Start) -> Self {
        let mss = start.mss.max(1);
        let cwnd = start.cwnd.max(mss);
        Self { mss, cwnd, ssthresh: start.ssthresh, counted: 0, episode: None }
    }

    /// Whole segments of cwnd, at least one.
    pub(super) fn segments(&self) -> u64 {
        (self.cwnd / self.mss).max(1)
    }

    /// cwnd and ssthresh to so many segments, at least two, if that is less.
    pub(super) fn lower(&mut self, segments: u64) {
        let bytes = segments.max(2).saturating_mul(self.mss);
        self.cwnd = self.cwnd.min(bytes);
        self.ssthresh = self.ssthresh.min(bytes);
    }

    pub(super) fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// Takes note of `ack`; whether the window may grow by it. Not in fast recovery, not when
    /// something else limits sending, and not by SACK alone (as Linux).
    pub(super) fn may_grow(&mut self, ack: &Ack) -> bool {
        if self.episode.is_some_and(|e| ack.snd_una >= e.end || (e.timeout && ack.acked > 0)) {
            self.episode = None;
        }
        ack.cwnd_limited && ack.acked > 0 && ack.phase != RecoveryPhase::Recovery
    }

    /// Exponential growth by `bytes` up to ssthresh, without a limit per ACK (RFC 3465 with L
    /// infinite, as Linux). What is left of `bytes` above ssthresh.
    pub(super) fn slow_start(&mut self, bytes: u64) -> u64 {
        let grown = bytes.min(self.ssthresh.saturating_sub(self.cwnd));
        self.cwnd = self.cwnd.saturating_add(grown);
        bytes - grown
    }

    /// One segment more per window of counted bytes; an ACK counts for a window at most. Only
    /// whole segments are ever in flight, so a window that is none (after conservative slow start,
    /// or another MSS) is counted as they are: else 8.5 segments would take two round trips to
    /// grow, of eight segments each.
    pub(super) fn additive(&mut self, bytes: u64) {
        self.additive_by(bytes, 1.0);
    }

    /// As `additive`, by `increase` of a segment.
    pub(super) fn additive_by(&mut self, bytes: u64, increase: f64) {
        let window = self.segments() * self.mss;
        self.counted += (bytes.min(window) as f64 * increase + 0.5) as u64;
        if self.counted >= window {
            self.counted -= window;
            self.cwnd = self.cwnd.saturating_add(self.mss);
        }
    }

    /// Moves cwnd by the whole segments in `credit`, up or down, and leaves the rest there. Ten
    /// tenths are a whole, whatever the last binary digit says.
    pub(super) fn drift(&mut self, credit: &mut f64) {
        let whole = (*credit + credit.signum() * 1e-9) as i64;
        if whole != 0 {
            *credit -= whole as f64;
            let by = whole.unsigned_abs() * self.mss;
            let up = self.cwnd.saturating_add(by);
            self.cwnd = if whole > 0 { up } else { self.cwnd.saturating_sub(by).max(self.mss) };
        }
    }

    /// Whether `event` calls for a reduction of ssthresh. A timeout in a window of data that has
    /// been answered already does not.
    pub(super) fn is_new(&self, event: &Congestion) -> bool {
        event.kind != CongestionKind::Rto || self.episode.is_none()
    }

    /// Answers `event`: ssthresh to `reduced` (at least two segments) if it is new, cwnd to that
    /// or, after a timeout, to one segment. cwnd never grows by it. Whole segments, as Linux:
    /// what is beyond them cannot be sent, but would have to be acknowledged to grow.
    pub(super) fn reduce(&mut self, event: &Congestion, reduced: u64) {
        self.reduce_to(event, reduced, 2);
    }

    /// As `reduce`, with another least ssthresh in segments.
    pub(super) fn reduce_to(&mut self, event: &Congestion, reduced: u64, least: u64) {
        let reduced = reduced - reduced % self.mss;
        if self.is_new(event) {
            self.ssthresh = reduced.max(least * self.mss);
        }
        let timeout = event.kind == CongestionKind::Rto;
        let cwnd = match event.kind {
            CongestionKind::Rto => self.mss,
            CongestionKind::Loss => self.ssthresh,
            CongestionKind::Ecn => reduced,
        };
        self.cwnd = cwnd.min(self.cwnd).max(self.mss);
        self.counted = 0;
        let end = self.episode.map_or(event.snd_nxt, |e| e.end.max(event.snd_nxt));
        self.episode = Some(Episode { end, timeout });
    }

    /// Back to what was before a spurious signal, where that is more.
    pub(super) fn restore(&mut self, before: &Self) {
        self.cwnd = self.cwnd.max(before.cwnd);
        self.ssthresh = self.ssthresh.max(before.ssthresh);
        self.counted = before.counted.min(self.cwnd);
        self.episode = None;
    }

    /// Restart after idleness (RFC 5681 section 4.1); ssthresh remembers three quarters of the
    /// window that had been reached (RFC 2861).
    pub(super) fn idle_restart(&mut self, restart: u64) {
        self.ssthresh = self.ssthresh.max(self.cwnd / 4 * 3);
        self.cwnd = self.cwnd.min(restart).max(self.mss);
        self.counted = 0;
    }

    /// Penalisation by the scheduler, to whole segments. ssthresh is halved from itself, and only
    /// outside slow start.
    pub(super) fn penalise(&mut self) {
        let half = |bytes: u64| bytes / 2 - bytes / 2 % self.mss;
        if self.cwnd >= self.ssthresh {
            self.ssthresh = half(self.ssthresh).max(2 * self.mss);
        }
        self.cwnd = half(self.cwnd).max(self.mss);
    }

    pub(super) fn set_mss(&mut self, mss: u64) {
        self.mss = mss.max(1);
        self.cwnd = self.cwnd.max(self.mss);
    }

    /// Without pacing; the phase is what cwnd and ssthresh say.
    pub(super) fn report(&self, state: &mut CcState) {
        let slow_start = self.in_slow_start();
        state.cwnd = self.cwnd;
        state.ssthresh = self.ssthresh;
        state.pacing_rate = None;
        state.phase = if slow_start { CcPhase::SlowStart } else { CcPhase::Avoidance };
    }
}
