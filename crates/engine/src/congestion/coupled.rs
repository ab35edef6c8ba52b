//! What coupled controllers look at: the subflows of a connection as pairs of window and RTT.

use super::Ack;
use super::window::Window;
use crate::view::SubflowView;

/// A subflow in a coupled formula.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Flow {
    /// Window, bytes.
    pub(super) w: f64,
    /// Smoothed RTT, seconds; positive.
    pub(super) rtt: f64,
    /// `SubflowView::loss_interval`, bytes.
    pub(super) loss_interval: f64,
    /// The one that the ACK is for.
    pub(super) own: bool,
}

impl Flow {
    /// Window over RTT, bytes/s.
    pub(super) fn rate(&self) -> f64 {
        self.w / self.rtt
    }
}

/// Sum of window over RTT, bytes/s.
pub(super) fn total_rate(flows: impl Iterator<Item = Flow>) -> f64 {
    flows.map(|f| f.rate()).sum()
}

/// The subflow of `window` as it is now, `rtt_ns` its smoothed RTT.
fn own(window: &Window, rtt_ns: u64, loss_interval: u64) -> Flow {
    let rtt = rtt_ns.max(1) as f64 / 1e9;
    Flow { w: window.cwnd as f64, rtt, loss_interval: loss_interval as f64, own: true }
}

/// All subflows of the connection that take part, the one of `ack` as `window` has it. The others
/// are those that may carry data and have measured an RTT (as Linux), less backups that carry
/// nothing: their windows would count as traffic.
pub(super) fn flows<'a>(
    ack: &Ack,
    window: &Window,
    siblings: &'a [SubflowView],
) -> impl Iterator<Item = Flow> + Clone + use<'a> {
    let id = ack.subflow;
    let interval = siblings.iter().find(|v| v.id == id).map_or(0, |v| v.loss_interval);
    let own = own(window, ack.srtt.0, interval);
    let counts = |v: &SubflowView| v.usable && !v.srtt.is_zero() && !(v.backup && v.in_flight == 0);
    let others = siblings.iter().filter(move |v| v.id != id && counts(v)).map(|v| Flow {
        w: v.cwnd as f64,
        rtt: v.srtt.as_secs_f64(),
        loss_interval: v.loss_interval as f64,
        own: false,
    });
    std::iter::once(own).chain(others)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{ack, views, window};
    use super::*;

    #[test]
    fn backups_that_carry_nothing_do_not_count() {
        let mut views = views(&[(20, 20), (40, 100), (10, 5)]);
        views[1].backup = true;
        views[2].usable = false;
        assert_eq!(flows(&ack(0, 20), &window(20), &views).count(), 2);
        views[1].in_flight = 0;
        assert_eq!(flows(&ack(0, 20), &window(20), &views).count(), 1);
    }
}
