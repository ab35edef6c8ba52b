//! `lia`: Linked Increases (RFC 6356). Over all subflows the connection grows like one TCP on its
//! best path, and no subflow faster than a TCP; a loss halves the subflow's own window.
//!
//! alpha is computed at every ACK from the subflows' windows and smoothed RTTs, and growth counts
//! acknowledged bytes (Linux counts ACKs). A subflow that the application or the peer's window
//! limits counts with its cwnd, not with its flight size (section 3): cwnd does not grow then.

use super::classic::{Classic, Rule};
use super::coupled::{self, Flow};
use super::window::Window;
use super::{Ack, Congestion, CongestionController, Start};
use crate::policy::{PolicyError, Values};
use crate::view::SubflowView;

/// The rule of `lia`.
pub(super) struct Lia {
    /// Segments grown and not yet added.
    credit: f64,
}

impl Lia {
    pub(super) fn build(
        _: &Values<'_>,
        start: Start,
    ) -> Result<Box<dyn CongestionController>, PolicyError> {
        Ok(Box::new(Classic::new(start, Self { credit: 0.0 })))
    }
}

impl Rule for Lia {
    fn avoid(&mut self, window: &mut Window, ack: &Ack, bytes: u64, siblings: &[SubflowView]) {
        let flows = coupled::flows(ack, window, siblings);
        self.credit += increase(flows, window.cwnd as f64) * bytes as f64;
        window.drift(&mut self.credit);
    }

    fn reduced(&mut self, window: &Window, _: &Congestion, _: &[SubflowView]) -> u64 {
        self.credit = 0.0;
        window.cwnd / 2
    }

    fn reset(&mut self, _: &Window) {
        self.credit = 0.0;
    }
}

/// alpha of section 3 over the windows' total, at most 1 over the own window: growth in MSS per
/// byte acknowledged.
fn increase(flows: impl Iterator<Item = Flow> + Clone, own: f64) -> f64 {
    let best = flows.clone().map(|f| f.rate() / f.rtt).fold(0.0, f64::max);
    let rate = coupled::total_rate(flows);
    // alpha / total; the total cancels out.
    (best / (rate * rate)).min(1.0 / own)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{ack, views, window};
    use super::*;

    /// Growth in segments for an acknowledged segment on each of the subflows, to six digits.
    fn increases(flows: &[(u64, u64)]) -> Vec<f64> {
        let views = views(flows);
        let one = |i: usize| {
            let (w, rtt) = flows[i];
            let (window, ack) = (window(w), ack(i as u8, rtt));
            let flows = coupled::flows(&ack, &window, &views);
            increase(flows, window.cwnd as f64) * 1000.0
        };
        (0..flows.len()).map(|i| (one(i) * 1e6).round() / 1e6).collect()
    }

    /// Windows of 20 and 40 segments, RTTs of 20 and 100 ms: alpha is 1.530612, and over 60
    /// segments 0.025510; the second is capped by what a TCP would do, 1 / 40.
    #[test]
    fn increases_by_hand() {
        assert_eq!(increases(&[(20, 20), (40, 100)]), [0.025510, 0.025000]);
        assert_eq!(increases(&[(10, 50), (10, 50)]), [0.025, 0.025]);
    }

    #[test]
    fn alone_it_is_reno() {
        assert_eq!(increases(&[(20, 30)]), [0.05]);
        assert_eq!(increases(&[(1, 1)]), [1.0]);
    }
}
