//! `blest`, blocking estimation (Ferlin et al., IFIP Networking 2016), as in Linux MPTCP v0.9x
//! (`mptcp_blest.c`): a slower subflow gets no data if, while that is in flight, the fastest could
//! fill the peer's window, which the slower one would then block.
//!
//! Two things differ from Linux. The smallest and largest RTT are those of the last ten seconds or
//! so, not of the connection's whole life. And the fastest subflow is sought among those that the
//! default choice may use; Linux also counts backups and potentially failed subflows, for which it
//! can wait forever.

use super::common::{Choice, Opportunistic};
use super::{Blocked, OpportunisticRetransmission, Reason, Scheduler, Work};
use crate::policy::{Param, PolicyError, Values};
use crate::time::Instant;
use crate::view::{SubflowSet, SubflowView};

/// Parameters of the table row.
pub(super) const PARAMS: &[Param] = &[
    Param::new(
        "lambda",
        1.2,
        1.0..=1.3,
        "weight of what the fastest may send meanwhile, at the start",
    ),
    Param::new(
        "up",
        0.04,
        0.0..=0.3,
        "added to lambda after a round in which the window was blocked",
    ),
    Param::new("down", 0.01, 0.0..=0.3, "taken off it after a round in which it was not"),
];

pub(super) struct Blest {
    /// In thousandths, as the following two.
    lambda: u64,
    up: u64,
    down: u64,
    /// The window was blocked since `judged`.
    blocked: bool,
    judged: Instant,
    reason: Reason,
    opportunistic: Opportunistic,
}

impl Blest {
    pub(super) fn build(values: &Values<'_>) -> Result<Box<dyn Scheduler>, PolicyError> {
        Ok(Box::new(Self::new(values)))
    }

    fn new(values: &Values<'_>) -> Self {
        Self {
            lambda: (values.get("lambda") * 1000.0 + 0.5) as u64,
            up: (values.get("up") * 1000.0 + 0.5) as u64,
            down: (values.get("down") * 1000.0 + 0.5) as u64,
            blocked: false,
            judged: Instant::ZERO,
            reason: Reason::default(),
            opportunistic: Opportunistic::default(),
        }
    }

    /// Once in a round trip of the slower one.
    fn adapt(&mut self, now: Instant, slow: &SubflowView) {
        if now - self.judged < slow.min_rtt {
            return;
        }
        self.judged = now;
        let lambda = if std::mem::take(&mut self.blocked) {
            self.lambda + self.up
        } else {
            self.lambda.saturating_sub(self.down)
        };
        self.lambda = lambda.clamp(1000, 1300);
    }
}

impl Scheduler for Blest {
    fn select(&mut self, work: &Work, subflows: &[SubflowView]) -> SubflowSet {
        let choice = Choice::of(work.carried, subflows);
        self.reason = choice.reason;
        let Some(slow) = choice.view else { return SubflowSet::NONE };
        let Some(fast) = choice.faster(subflows) else { return SubflowSet::only(slow.id) };
        self.adapt(work.now, slow);
        let space = work.window.saturating_sub(work.len + slow.unacked);
        if meanwhile(fast, slow, self.lambda) <= u128::from(space) {
            return SubflowSet::only(slow.id);
        }
        self.reason = Reason::WouldBlock { for_subflow: fast.id };
        SubflowSet::NONE
    }

    fn opportunistic_retransmission(
        &mut self,
        blocked: &Blocked,
        subflows: &[SubflowView],
    ) -> OpportunisticRetransmission {
        self.blocked = true;
        self.opportunistic.answer(blocked, subflows)
    }

    fn places_runs(&self) -> bool {
        true
    }

    fn reason(&self) -> Reason {
        self.reason
    }
}

/// Bytes that `fast` may send, weighted, while one more segment is under way on `slow`.
fn meanwhile(fast: &SubflowView, slow: &SubflowView, lambda: u64) -> u128 {
    let segments = |bytes: u64, view: &SubflowView| bytes / view.mss.max(1);
    let cwnd = segments(slow.cwnd, slow).max(1);
    let in_flight = segments(slow.in_flight, slow) + 1;
    let (least, most) = (slow.min_rtt.0, slow.max_rtt.0.max(slow.min_rtt.0));
    let estimate = if in_flight >= cwnd {
        most
    } else {
        least + (u128::from(most - least) * u128::from(in_flight) / u128::from(cwnd)) as u64
    };
    let linger = slow.srtt.0.max(estimate);
    let round = u64::midpoint(fast.min_rtt.0, fast.max_rtt.0);
    let rounds = linger.checked_div(round).unwrap_or(0) + 1;
    let cwnd = segments(fast.cwnd, fast).max(1);
    let packets = if fast.ssthresh == u64::MAX {
        u128::from(cwnd) * ((1 << rounds.min(16)) - 1)
    } else {
        let window = cwnd.max(segments(fast.ssthresh, fast) + 1);
        (u128::from(window) + u128::from(rounds - 1) / 2) * u128::from(rounds)
    };
    packets * u128::from(fast.mss) * u128::from(lambda) / 1000
}

#[cfg(test)]
mod tests {
    use super::super::tests::{ids, view, work};
    use super::*;
    use crate::time::Duration;

    /// A fast subflow without space and a slow one with space. The bytes that the tests expect were
    /// computed by hand from `mptcp_blest.c`.
    fn vector() -> [SubflowView; 2] {
        let us = Duration::from_micros;
        let f = SubflowView {
            sendable: 0,
            cwnd: 14_000,
            ssthresh: 8 * 1400,
            mss: 1400,
            min_rtt: us(20_000),
            max_rtt: us(24_000),
            ..view(0, 22)
        };
        let s = SubflowView {
            cwnd: 14_000,
            in_flight: 4 * 1400,
            unacked: 7000,
            mss: 1400,
            min_rtt: us(90_000),
            max_rtt: us(110_000),
            ..view(1, 100)
        };
        [f, s]
    }

    #[test]
    fn the_window_decides() {
        let [f, s] = vector();
        assert_eq!(meanwhile(&f, &s, 1200), 100_800);
        let slow_start = SubflowView { ssthresh: u64::MAX, ..f };
        assert_eq!(meanwhile(&slow_start, &s, 1200), 520_800);
        let mut blest = Blest::new(&Values::defaults(PARAMS));
        let mut select = |window| {
            // The same instant each time, in which lambda does not move.
            let work = crate::scheduler::Work { len: 1400, window, ..work() };
            blest.judged = work.now;
            blest.select(&work, &[f, s])
        };
        assert_eq!(select(100_000), ids(&[]), "space 91 600");
        assert_eq!(select(150_000), ids(&[1]), "space 141 600");
        assert_eq!(blest.reason(), Reason::OnlyChoice);
    }

    #[test]
    fn lambda_moves_once_a_round_within_its_range() {
        let mut blest = Blest::new(&Values::defaults(PARAMS));
        let [f, s] = vector();
        let at = |ms: u64| crate::scheduler::Work { now: Instant(ms * 1_000_000), ..work() };
        blest.select(&at(90), &[f, s]);
        assert_eq!(blest.lambda, 1190);
        blest.blocked = true;
        blest.select(&at(179), &[f, s]);
        assert_eq!(blest.lambda, 1190, "not yet");
        blest.select(&at(180), &[f, s]);
        assert_eq!(blest.lambda, 1230);
        (0..40).for_each(|i| _ = blest.select(&at(1000 + i * 90), &[f, s]));
        assert_eq!(blest.lambda, 1000);
        for i in 0..9 {
            blest.blocked = true;
            blest.select(&at(10_000 + i * 90), &[f, s]);
        }
        assert_eq!(blest.lambda, 1300);
    }
}
