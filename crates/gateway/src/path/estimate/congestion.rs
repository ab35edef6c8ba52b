//! Whether packets are lost because there were too many: policers and short queues, which leave no
//! delay to be seen.
//!
//! Loss by chance does not ask how much is sent. So loss is by congestion only if it is more than
//! twice what was lost before, beyond what chance explains, while more was sent than ever came
//! through without; or if a fifth and more is lost twice in a row and the same rate comes through
//! both times (the detector of token-bucket policers in BBR version 1, after Flach et al., "An
//! Internet-Wide Analysis of Traffic Policing", SIGCOMM 2016).

use super::{GAP_US, Step};

/// What was sent and lost, in intervals of [`TIME_US`] or [`PACKETS`], whichever is longer.
#[derive(Default, Debug)]
pub(super) struct Congestion {
    now: Interval,
    last: Interval,
    /// What else was seen, in the present and the last [`PART_US`].
    calm: [Calm; 2],
    part_us: u64,
}

#[derive(Clone, Copy, Default, Debug)]
struct Interval {
    micros: u64,
    sent_packets: u64,
    sent_bytes: u64,
    received_bytes: u64,
    lost: f64,
}

/// Intervals without congestion.
#[derive(Clone, Copy, Default, Debug)]
struct Calm {
    sent: f64,
    lost: f64,
    /// The fastest rate that came through with no more loss than usual, bits per second.
    most_bps: f64,
}

/// An interval is as long at least.
const TIME_US: u64 = 200_000;
const PACKETS: u64 = 50;
/// How long calm intervals are remembered, once and once more.
const PART_US: u64 = 15_000_000;
/// Loss is no chance above so many times what is usual (losses come in bursts), so many standard
/// deviations, and so much more.
const TIMES: f64 = 2.0;
const DEVIATIONS: f64 = 3.0;
const MARGIN: f64 = 0.01;
/// More was sent than came through without loss, by this factor.
const BEYOND: f64 = 1.05;
/// A policer: at least so much is lost, and rates agree so well.
const POLICED_LOSS: f64 = 0.2;
const POLICED_AGREE: f64 = 0.125;

impl Congestion {
    /// Takes what lies between two markers. `Some`: an interval has ended in which packets were
    /// lost by congestion; what came through, bits per second, and its length, microseconds.
    pub(super) fn handle_step(&mut self, step: &Step) -> Option<(f64, u64)> {
        if step.received_us > GAP_US {
            // An outage is no congestion.
            (self.now, self.last) = Default::default();
            return None;
        }
        self.now.add(step);
        if self.now.micros < TIME_US || self.now.sent_packets < PACKETS {
            return None;
        }
        let interval = std::mem::take(&mut self.now);
        let before = std::mem::replace(&mut self.last, interval);
        self.part_us += interval.micros;
        if self.part_us >= PART_US {
            self.calm = [Calm::default(), self.calm[0]];
            self.part_us = 0;
        }
        let [sent, lost] = self.calm.iter().fold([0.0; 2], |[s, l], c| [s + c.sent, l + c.lost]);
        let usual = if sent > 0.0 { (lost / sent).clamp(0.0, 1.0) } else { 0.0 };
        let spread = (usual * (1.0 - usual) / interval.sent_packets as f64).sqrt();
        let loss = interval.loss();
        let more = loss > usual * TIMES + DEVIATIONS * spread + MARGIN;
        let most = self.calm.iter().map(|calm| calm.most_bps).fold(0.0, f64::max);
        let beyond = most > 0.0 && interval.sent_bps() > most * BEYOND;
        let (now, then) = (interval.delivered_bps(), before.delivered_bps());
        let policed = loss >= POLICED_LOSS
            && before.loss() >= POLICED_LOSS
            && (now - then).abs() <= now * POLICED_AGREE;
        if more && (beyond || policed) {
            return Some((now, interval.micros));
        }
        let calm = &mut self.calm[0];
        if !more {
            calm.most_bps = calm.most_bps.max(now);
        }
        if loss < POLICED_LOSS {
            calm.sent += interval.sent_packets as f64;
            calm.lost += interval.lost.max(0.0);
        }
        None
    }
}

impl Interval {
    fn add(&mut self, step: &Step) {
        self.micros += step.received_us;
        self.sent_packets += step.sent_packets;
        self.sent_bytes += step.sent_bytes;
        self.received_bytes += step.received_bytes;
        self.lost += step.lost;
    }

    fn loss(&self) -> f64 {
        (self.lost / (self.sent_packets as f64).max(1.0)).clamp(0.0, 1.0)
    }

    fn delivered_bps(&self) -> f64 {
        self.received_bytes as f64 * 8e6 / self.micros.max(1) as f64
    }

    /// By the receiver's clock, as what came: over an interval both are as long.
    fn sent_bps(&self) -> f64 {
        self.sent_bytes as f64 * 8e6 / self.micros.max(1) as f64
    }
}
