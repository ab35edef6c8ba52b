//! `balia`: balanced linked adaptation (draft-walid-mptcp-congestion-control; Peng, Walid, Hwang,
//! Low, ToN 2016): between LIA, which is slow to yield, and OLIA, which is slow to respond. With
//! x = w / rtt and alpha = max x / x of the subflow, growth per acknowledged segment is
//! x / (rtt (sum x)^2) (1 + alpha)/2 (4 + alpha)/5, and a loss costs half the window times alpha,
//! at most three quarters of it.
//!
//! Growth counts acknowledged bytes; alpha at a loss is that of the last ACK before it. Linux
//! truncates alpha to an integer at a loss, so that it costs either half or three quarters.

use super::classic::{Classic, Rule};
use super::coupled::{self, Flow};
use super::window::Window;
use super::{Ack, Congestion, CongestionController, Start};
use crate::policy::{PolicyError, Values};
use crate::view::SubflowView;

/// The rule of `balia`.
pub(super) struct Balia {
    /// Segments grown and not yet added.
    credit: f64,
    /// Rate of the best subflow over the own.
    alpha: f64,
}

impl Balia {
    pub(super) fn build(
        _: &Values<'_>,
        start: Start,
    ) -> Result<Box<dyn CongestionController>, PolicyError> {
        Ok(Box::new(Classic::new(start, Self { credit: 0.0, alpha: 1.0 })))
    }
}

impl Rule for Balia {
    fn observe(&mut self, ack: &Ack, window: &mut Window, siblings: &[SubflowView]) {
        self.alpha = alpha(coupled::flows(ack, window, siblings));
    }

    fn avoid(&mut self, window: &mut Window, ack: &Ack, bytes: u64, siblings: &[SubflowView]) {
        let flows = coupled::flows(ack, window, siblings);
        self.credit += increase(flows, self.alpha) * bytes as f64;
        window.drift(&mut self.credit);
    }

    fn reduced(&mut self, window: &Window, _: &Congestion, _: &[SubflowView]) -> u64 {
        self.credit = 0.0;
        (window.cwnd as f64 * (1.0 - decrease(self.alpha))) as u64
    }

    fn reset(&mut self, _: &Window) {
        self.credit = 0.0;
    }
}

fn alpha(flows: impl Iterator<Item = Flow> + Clone) -> f64 {
    let own = flows.clone().find(|f| f.own).map_or(0.0, |f| f.rate());
    let best = flows.map(|f| f.rate()).fold(0.0, f64::max);
    if own > 0.0 { best / own } else { 1.0 }
}

/// MSS per byte acknowledged.
fn increase(flows: impl Iterator<Item = Flow> + Clone, alpha: f64) -> f64 {
    let Some(own) = flows.clone().find(|f| f.own) else { return 0.0 };
    let rate = coupled::total_rate(flows);
    own.rate() / (own.rtt * rate * rate) * (1.0 + alpha) / 2.0 * (4.0 + alpha) / 5.0
}

/// Share of the window that a loss costs.
fn decrease(alpha: f64) -> f64 {
    alpha.min(1.5) / 2.0
}

#[cfg(test)]
mod tests {
    use super::super::tests::{ack, views, window};
    use super::*;

    fn figures(flows: &[(u64, u64)]) -> Vec<(f64, f64)> {
        let views = views(flows);
        let one = |i: usize| {
            let (w, rtt) = flows[i];
            let (window, ack) = (window(w), ack(i as u8, rtt));
            let flows = coupled::flows(&ack, &window, &views);
            let alpha = alpha(flows.clone());
            ((increase(flows, alpha) * 1e10).round() / 1e7, decrease(alpha))
        };
        (0..flows.len()).map(one).collect()
    }

    /// Windows of 20 and 40 segments, RTTs of 20 and 100 ms: alpha is 1 and 2.5.
    #[test]
    fn increases_and_decreases_by_hand() {
        let got = figures(&[(20, 20), (40, 100)]);
        assert_eq!(got, [(0.025_510_2, 0.5), (0.004_642_9, 0.75)]);
    }

    #[test]
    fn alone_it_is_reno() {
        assert_eq!(figures(&[(20, 30)]), [(0.05, 0.5)]);
    }
}
