//! `wvegas`: weighted Vegas (Cao, Xu, Fu, ICNP 2012; draft-xu-mptcp-congestion-control, as Linux
//! MPTCP 0.9x has it). Each subflow keeps a share of ten segments in the queues on its way, in
//! proportion to its share of the connection's rate, so that traffic moves to where queues are
//! shorter.
//!
//! Once a round, from the mean RTT of at least three samples, the backlog is
//! cwnd (rtt - base_rtt) / rtt: in slow start more than `gamma` of it ends slow start, at the
//! window without a queue and one segment more; later less than alpha adds a segment and more
//! takes one away. A queueing delay of twice its smallest value calls for a drain of the queue,
//! which costs half the window and more (`drain=0`: off). Losses are Reno's. base_rtt is the
//! smallest RTT ever seen on the subflow: a route that becomes longer for good looks like a queue
//! for ever, as in Vegas.

use super::classic::{Classic, Rule};
use super::coupled;
use super::window::Window;
use super::{Ack, Congestion, CongestionController, Start};
use crate::policy::{Param, PolicyError, Values};
use crate::view::{RecoveryPhase, SubflowView};

/// Parameters of the table row.
pub(super) const PARAMS: &[Param] = &[
    Param::new("total", 10.0, 2.0..=1000.0, "backlog of all subflows together, segments"),
    Param::new("gamma", 1.0, 0.1..=100.0, "backlog that ends slow start, segments"),
    Param::switch("drain", true, "1: drain the queue when its delay has doubled; 0: never"),
];

/// The rule of `wvegas`.
pub(super) struct WVegas {
    total: f64,
    gamma: f64,
    drains: bool,
    /// Backlog aimed at, segments.
    alpha: f64,
    /// Smallest RTT, ns.
    base: u64,
    /// Samples of this round: sum in ns and number.
    sum: u64,
    count: u64,
    /// The round ends when this is acknowledged.
    round_end: u64,
    /// Smallest queueing delay since the last drain, ns.
    least_queue: Option<u64>,
    /// The window held data for all of the round.
    limited: bool,
    /// The last round had too few samples: small windows, delayed acknowledgements.
    sparse: bool,
}

impl WVegas {
    /// Samples below which a round says nothing.
    const SAMPLES: u64 = 3;

    pub(super) fn build(
        values: &Values<'_>,
        start: Start,
    ) -> Result<Box<dyn CongestionController>, PolicyError> {
        let rule = Self {
            total: values.get("total"),
            gamma: values.get("gamma"),
            drains: values.is_on("drain"),
            alpha: 2.0,
            base: u64::MAX,
            sum: 0,
            count: 0,
            round_end: 0,
            least_queue: None,
            limited: false,
            sparse: true,
        };
        Ok(Box::new(Classic::new(start, rule)))
    }

    /// A round is over; `rtt` is its mean, ns.
    fn round(&mut self, ack: &Ack, rtt: u64, window: &mut Window, siblings: &[SubflowView]) {
        let cwnd = window.segments() as f64;
        let backlog = cwnd * (rtt - self.base) as f64 / rtt as f64;
        if window.in_slow_start() {
            if backlog > self.gamma {
                let without = cwnd * self.base as f64 / rtt as f64;
                window.lower((without as u64 + 1).min(window.segments()));
            }
            return;
        }
        if backlog >= self.alpha {
            let flows = coupled::flows(ack, window, siblings);
            let own = window.cwnd as f64 * 1e9 / ack.srtt.0.max(1) as f64;
            self.alpha = (self.total * own / coupled::total_rate(flows)).max(2.0);
        }
        if backlog > self.alpha {
            window.lower(window.segments() - 1);
        } else if backlog < self.alpha && self.limited && ack.phase != RecoveryPhase::Recovery {
            window.cwnd = window.cwnd.saturating_add(window.mss);
        }
        self.drain(rtt, window);
    }

    fn drain(&mut self, rtt: u64, window: &mut Window) {
        let queue = rtt - self.base;
        let least = self.least_queue.map_or(queue, |least| least.min(queue));
        self.least_queue = Some(least);
        if self.drains && least > 0 && queue >= 2 * least {
            let left = window.segments() as f64 * self.base as f64 / (2.0 * rtt as f64);
            window.lower((left as u64 + 1).min(window.segments()));
            self.least_queue = None;
        }
    }
}

impl Rule for WVegas {
    fn observe(&mut self, ack: &Ack, window: &mut Window, siblings: &[SubflowView]) {
        if let Some(rtt) = ack.rtt {
            self.base = self.base.min(rtt.0.max(1));
            self.sum = self.sum.saturating_add(rtt.0);
            self.count += 1;
        }
        if ack.snd_una <= self.round_end {
            return;
        }
        self.round_end = ack.snd_nxt;
        self.limited = ack.cwnd_limited && ack.acked > 0;
        self.sparse = self.count < Self::SAMPLES;
        if !self.sparse {
            let mean = (self.sum / self.count).max(self.base);
            self.round(ack, mean, window, siblings);
        }
        (self.sum, self.count) = (0, 0);
    }

    /// Growth is a matter of rounds; with too few samples in them, of Reno (as Vegas in Linux):
    /// else three segments and delayed acknowledgements would be a window for ever.
    fn avoid(&mut self, window: &mut Window, _: &Ack, bytes: u64, _: &[SubflowView]) {
        if self.sparse {
            window.additive(bytes);
        }
    }

    fn rtts_restart(&mut self) {
        (self.base, self.least_queue) = (u64::MAX, None);
        (self.sum, self.count) = (0, 0);
    }

    fn reduced(&mut self, window: &Window, _: &Congestion, _: &[SubflowView]) -> u64 {
        (self.sum, self.count) = (0, 0);
        window.cwnd / 2
    }
}
