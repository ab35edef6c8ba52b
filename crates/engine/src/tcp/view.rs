//! A subflow as policies see it.

use super::{State, Tcb};
use crate::time::{Instant, mul_div};
use crate::view::SubflowView;

impl Tcb {
    /// The snapshot for policies. The connection fills in `backup` and `potentially_failed`.
    pub(crate) fn view(&self, now: Instant) -> SubflowView {
        let mut view = SubflowView::default();
        self.fill_view(&mut view);
        view.usable =
            matches!(self.state, State::Established | State::CloseWait) && !self.fin_bound;
        view.sendable = self.sendable(now);
        view
    }

    /// As `view`, into `view`, but for what the connection knows better: several are made for each
    /// segment that is scheduled.
    #[inline]
    pub(crate) fn fill_view(&self, view: &mut SubflowView) {
        let cc = &self.window;
        let srtt = self.rtt.srtt();
        view.id = self.setup.id;
        view.path = self.setup.path;
        view.phase = self.recovery.phase;
        view.cwnd = cc.cwnd;
        view.ssthresh = cc.ssthresh;
        view.in_flight = self.pipe();
        view.unacked = self.bound - self.snd_una;
        view.oldest_sent = self.tx.oldest_sent();
        view.mss = self.mss;
        view.srtt = srtt;
        view.rttvar = self.rtt.rttvar();
        view.latest_rtt = self.rtt.latest();
        view.min_rtt = self.rtt.min();
        view.max_rtt = self.rtt.max();
        let estimate = || mul_div(cc.cwnd, 1_000_000_000, srtt.0.max(1));
        view.pacing_rate = cc.pacing_rate.unwrap_or_else(estimate);
        view.delivery_rate = self.rate.estimate();
        view.capacity = self.rate.capacity();
        view.train_at = self.rate.train_at();
        view.busy_until = self.rate.busy_until();
        view.cross_traffic = self.rate.is_behind_cross_traffic();
        view.loss_rate = self.rate.loss_rate();
        view.reduced_at = self.reduced_at;
        view.loss_interval = self.loss_interval.get(self.stats.bytes_acked);
    }

    /// Whether nothing is under way or bound, and the peer's window on this subflow has no space
    /// for a full segment: only a probe brings its answer.
    #[inline]
    pub(crate) fn is_shut(&self) -> bool {
        self.bound == self.snd_una && self.snd_wnd < self.mss && !self.fin_bound
    }

    /// Whether everything that was bound has been acknowledged.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.bound == self.snd_una
    }
}
