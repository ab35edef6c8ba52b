//! `olia`: the opportunistic linked increases algorithm (draft-khalili-mptcp-congestion-control,
//! Khalili et al., CoNEXT 2012). Growth is LIA's without its cap, plus a term that moves window
//! from the subflows with the largest windows to the best ones that have small windows; that term
//! may shrink a window on an ACK. A loss halves the subflow's own window.
//!
//! The best subflows are those with the largest l / rtt^2, l being the larger of the bytes
//! acknowledged since the last loss and those between the last two. Growth counts acknowledged
//! bytes. With several subflows ssthresh may be one segment (section 3 of the draft).

use super::classic::{Classic, Rule};
use super::coupled::{self, Flow};
use super::window::Window;
use super::{Ack, Congestion, CongestionController, Start};
use crate::policy::{PolicyError, Values};
use crate::view::SubflowView;

/// The rule of `olia`.
pub(super) struct Olia {
    /// Segments to add, or to take away, that are not whole yet.
    credit: f64,
}

impl Olia {
    pub(super) fn build(
        _: &Values<'_>,
        start: Start,
    ) -> Result<Box<dyn CongestionController>, PolicyError> {
        Ok(Box::new(Classic::new(start, Self { credit: 0.0 })))
    }
}

impl Rule for Olia {
    fn avoid(&mut self, window: &mut Window, ack: &Ack, bytes: u64, siblings: &[SubflowView]) {
        let flows = coupled::flows(ack, window, siblings);
        self.credit += increase(flows) * bytes as f64;
        window.drift(&mut self.credit);
    }

    fn reduced(&mut self, window: &Window, _: &Congestion, _: &[SubflowView]) -> u64 {
        self.credit = 0.0;
        window.cwnd / 2
    }

    fn least_ssthresh(&self, siblings: &[SubflowView]) -> u64 {
        if siblings.iter().filter(|v| v.usable).count() > 1 { 1 } else { 2 }
    }

    fn reset(&mut self, _: &Window) {
        self.credit = 0.0;
    }
}

/// Growth of the own subflow in MSS per byte acknowledged; may be negative.
fn increase(flows: impl Iterator<Item = Flow> + Clone) -> f64 {
    let Some(own) = flows.clone().find(|f| f.own) else { return 0.0 };
    let rate = coupled::total_rate(flows.clone());
    own.rate() / own.rtt / (rate * rate) + shift(flows, &own) / own.w
}

/// alpha of the draft: positive for the best subflows whose windows are not the largest, negative
/// for those with the largest windows, if there are any of the first.
fn shift(flows: impl Iterator<Item = Flow> + Clone, own: &Flow) -> f64 {
    let quality = |f: &Flow| f.loss_interval / (f.rtt * f.rtt);
    let best = flows.clone().map(|f| quality(&f)).fold(0.0, f64::max);
    let largest = flows.clone().map(|f| f.w).fold(0.0, f64::max);
    let collected = |f: &Flow| quality(f) >= best && f.w < largest;
    let count = |is: &dyn Fn(&Flow) -> bool| flows.clone().filter(|f| is(f)).count() as f64;
    let small = count(&collected);
    if small == 0.0 {
        return 0.0;
    }
    let all = count(&|_| true);
    if collected(own) {
        1.0 / (all * small)
    } else if own.w >= largest {
        -1.0 / (all * count(&|f| f.w >= largest))
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{ack, views, window};
    use super::*;

    fn round(x: f64) -> f64 {
        (x * 1e6).round() / 1e6
    }

    /// Growth in segments for an acknowledged segment, and the part that shifts.
    fn increases(flows: &[(u64, u64)], intervals: &[u64]) -> Vec<(f64, f64)> {
        let mut views = views(flows);
        for (view, interval) in views.iter_mut().zip(intervals) {
            view.loss_interval = *interval;
        }
        let one = |i: usize| {
            let (w, rtt) = flows[i];
            let (window, ack) = (window(w), ack(i as u8, rtt));
            let flows = coupled::flows(&ack, &window, &views);
            let own = flows.clone().find(|f| f.own).unwrap();
            (round(increase(flows.clone()) * 1000.0), round(shift(flows, &own)))
        };
        (0..flows.len()).map(one).collect()
    }

    /// Windows of 20 and 40 segments, RTTs of 20 and 100 ms, equal l: the first is the best, the
    /// second has the largest window. Base 0.025510 and 0.002041; shifts of 0.5 / 20, -0.5 / 40.
    #[test]
    fn increases_by_hand() {
        let got = increases(&[(20, 20), (40, 100)], &[1_000_000, 1_000_000]);
        assert_eq!(got, [(0.050510, 0.5), (-0.010459, -0.5)]);
    }

    #[test]
    fn the_best_with_the_largest_window_shifts_nothing() {
        let got = increases(&[(40, 20), (20, 100)], &[1_000_000, 1_000_000]);
        assert_eq!((got[0].1, got[1].1), (0.0, 0.0));
        // Losses on the first make the second the best.
        let got = increases(&[(40, 20), (20, 20)], &[1_000, 1_000_000]);
        assert_eq!((got[0].1, got[1].1), (-0.5, 0.5));
    }

    #[test]
    fn several_of_a_kind_share() {
        let equal = [1_000_000; 4];
        let got = increases(&[(20, 20), (20, 20), (40, 80), (40, 80)], &equal);
        assert_eq!(got.iter().map(|g| g.1).collect::<Vec<_>>(), [0.125, 0.125, -0.125, -0.125]);
    }

    #[test]
    fn alone_it_is_reno() {
        assert_eq!(increases(&[(20, 30)], &[5]), [(0.05, 0.0)]);
        assert_eq!(increases(&[(20, 30)], &[0]), [(0.05, 0.0)]);
    }
}
