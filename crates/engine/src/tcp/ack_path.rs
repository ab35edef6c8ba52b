//! Acknowledgements that return by another path than the subflow's own (the peer's `egress` is
//! `hayack` or the like): separate RTT estimates for the two ACK paths.
//!
//! The subflow's ordinary estimate is of the RTT that acknowledgements really have. The second one
//! is of its own path, from those ACKs that return there as well: such an ACK was overtaken by its
//! copy and acknowledges nothing new, but its delay behind the copy is what the other ACK path
//! saves.

use super::Tcb;
use super::rtt::RttEstimator;
use crate::congestion::{self, AckPath, Compensated, CongestionController, Start};
use crate::policy::{PolicyError, Spec};
use crate::time::{Duration, Instant};
use std::collections::VecDeque;
use tabane_wire::Segment;

/// What is known of the ACK paths of one subflow.
#[derive(Debug)]
pub(super) struct AckPathState {
    /// The segment being processed came by another path.
    pub(super) elsewhere: bool,
    /// RTT with data and ACKs on the own path.
    pub(super) own: RttEstimator,
    /// How much later ACKs come by the own path, smoothed; `None` before the first measurement.
    lag: Option<Duration>,
    /// What has been acknowledged by other paths and not yet by the own ([`AckPathState::MARKS`]).
    marks: VecDeque<Mark>,
    /// The last mark that the own path has passed.
    passed: Option<Mark>,
    /// Whether most acknowledgements come by another path, and how many in a row did the opposite.
    mostly_elsewhere: bool,
    against: u32,
    turned: bool,
    /// The controller is wrapped.
    compensated: bool,
    compensate: bool,
}

/// An acknowledgement that came by another path.
#[derive(Clone, Copy, Debug)]
struct Mark {
    /// The position it acknowledged.
    ack: u64,
    /// When what it acknowledged had been sent.
    sent_at: Instant,
    /// When it came.
    came_at: Instant,
}

impl AckPathState {
    /// Marks kept; beyond, the oldest is forgotten.
    const MARKS: usize = 256;
    /// Acknowledgements in a row by the other ACK path that make it the usual one.
    const TURN: u32 = 8;

    fn new(rtt: &RttEstimator) -> Self {
        Self {
            elsewhere: true,
            own: rtt.clone(),
            lag: None,
            marks: VecDeque::new(),
            passed: None,
            mostly_elsewhere: false,
            against: 0,
            turned: false,
            compensated: false,
            compensate: false,
        }
    }

    /// Counts an advancing acknowledgement; returns whether the usual ACK path has changed with it.
    fn turns(&mut self) -> bool {
        if self.elsewhere == self.mostly_elsewhere {
            self.against = 0;
            return false;
        }
        self.against += 1;
        // The first time it is the peer's policy that begins, not a copy that won.
        if self.against < Self::TURN && self.turned {
            return false;
        }
        (self.against, self.turned) = (0, true);
        self.mostly_elsewhere = self.elsewhere;
        if !self.elsewhere {
            self.lag = None;
            self.marks.clear();
        }
        true
    }

    /// Remembers when `ack` came by another path, unless the last mark is very near.
    fn mark(&mut self, now: Instant, ack: u64, sent_at: Instant) {
        let spacing = self.own.srtt() / 128;
        if self.marks.back().is_some_and(|m| now - m.came_at < spacing) {
            return;
        }
        if self.marks.len() == Self::MARKS {
            self.marks.pop_front();
        }
        self.marks.push_back(Mark { ack, sent_at, came_at: now });
    }

    /// `ack` has come by the own path after other paths had brought it: when what it acknowledges
    /// was sent, and when they brought it (between marks: interpolated).
    fn pass(&mut self, ack: u64) -> Option<(Instant, Instant)> {
        while let Some(mark) = self.marks.front().copied()
            && mark.ack < ack
        {
            self.passed = Some(mark);
            self.marks.pop_front();
        }
        let next = *self.marks.front()?;
        if next.ack == ack {
            self.passed = Some(next);
            self.marks.pop_front();
            return Some((next.sent_at, next.came_at));
        }
        let last = self.passed.filter(|last| last.ack < ack)?;
        let part = |from: Instant, to: Instant| {
            let span = u128::from((to - from).0) * u128::from(ack - last.ack);
            from + Duration((span / u128::from(next.ack - last.ack)) as u64)
        };
        Some((part(last.sent_at, next.sent_at), part(last.came_at, next.came_at)))
    }
}

impl Tcb {
    /// The next segment came by the subflow's own path or not. `compensate`: what ACKs save by
    /// other paths is not to speed up congestion control.
    #[inline]
    pub(crate) fn arrives(&mut self, own: bool, compensate: bool) {
        if own && self.ack_path.is_none() {
            return;
        }
        if self.ack_path.is_none() {
            let ack_path = self.ack_path.insert(Box::new(AckPathState::new(&self.rtt)));
            self.rtt.set_least(ack_path.own.base());
        }
        let Some(ack_path) = &mut self.ack_path else { return };
        ack_path.elsewhere = !own;
        ack_path.compensate = compensate;
        if compensate && !ack_path.compensated {
            ack_path.compensated = true;
            let (mss, now) = (self.smss, self.window);
            let start = Start { mss, cwnd: now.cwnd, ssthresh: now.ssthresh };
            // The name was checked when the subflow was made.
            if let Ok(cc) = self.make_controller(&self.setup.congestion, start) {
                self.cc = cc;
                self.cc.report(&mut self.window);
            }
        }
    }

    /// The controller that `spec` names, wrapped if its growth is to be compensated.
    pub(super) fn make_controller(
        &self,
        spec: &Spec,
        start: Start,
    ) -> Result<Box<dyn CongestionController>, PolicyError> {
        let cc = congestion::build(spec, start)?;
        if self.ack_path.as_ref().is_some_and(|r| r.compensated) {
            return Ok(Box::new(Compensated::new(cc, start.mss)));
        }
        Ok(cc)
    }

    /// Whether the segment being processed came by another path.
    #[inline]
    pub(super) fn is_elsewhere(&self) -> bool {
        self.ack_path.as_ref().is_some_and(|r| r.elsewhere)
    }

    /// RTT with data and ACKs on the own path; zero before the first sample.
    pub(crate) fn own_rtt(&self) -> Duration {
        match &self.ack_path {
            Some(ack_path) if ack_path.mostly_elsewhere => self.describe_ack_path(ack_path).own_rtt,
            _ => self.rtt.srtt(),
        }
    }

    /// Smallest RTT that ACKs have had which came as this one does.
    pub(super) fn min_rtt_here(&self) -> Duration {
        match &self.ack_path {
            Some(ack_path) if !ack_path.elsewhere => ack_path.own.min(),
            _ => self.rtt.min(),
        }
    }

    fn describe_ack_path(&self, ack_path: &AckPathState) -> AckPath {
        let rtt = self.rtt.srtt();
        // Forward queues are in both: the difference is steadier than two estimates.
        let own_rtt = match ack_path.lag {
            Some(lag) => rtt + lag,
            None if ack_path.mostly_elsewhere => ack_path.own.srtt().max(rtt),
            // They come by the own path: two estimates of the same.
            None => rtt,
        };
        AckPath { own_rtt, rtt, moved: false, compensate: ack_path.compensate }
    }

    /// An acknowledgement brought something new, and whether SND.UNA has advanced by it; `sent_at`
    /// is of the oldest that it delivers.
    pub(super) fn sample_ack_path(&mut self, now: Instant, sent_at: Instant, advanced: bool) {
        let ack = self.snd_una;
        let Some(ack_path) = &mut self.ack_path else { return };
        if ack_path.elsewhere && advanced {
            ack_path.mark(now, ack, sent_at);
        } else if !ack_path.elsewhere {
            ack_path.pass(ack);
            ack_path.own.on_sample(now, now - sent_at);
            ack_path.own.on_recent(now, now - sent_at, || false);
            self.rtt.set_least(ack_path.own.base());
        }
    }

    /// A copy of an acknowledgement, by the own path: only its time says something.
    pub(crate) fn on_copy(&mut self, now: Instant, segment: &Segment) {
        if let Some(ack) = segment.ack.unwrap_near(self.iss, self.snd_una)
            && let Some(ack_path) = &mut self.ack_path
        {
            ack_path.elsewhere = false;
            self.overtaken(now, segment, ack);
        }
    }

    /// An acknowledgement that brought nothing new has come by the own path: it may be one that
    /// was overtaken by its copy.
    pub(super) fn overtaken(&mut self, now: Instant, segment: &Segment, ack: u64) {
        let Some(ack_path) = &mut self.ack_path else { return };
        // Repeats of an acknowledgement, which say that something is missing, are later.
        if ack_path.elsewhere || !segment.options.sack.is_empty() || !segment.payload.is_empty() {
            return;
        }
        let Some((sent_at, came_at)) = ack_path.pass(ack) else { return };
        ack_path.own.on_sample(now, now - sent_at);
        ack_path.own.on_recent(now, now - sent_at, || false);
        let sample = now - came_at;
        ack_path.lag = Some(match ack_path.lag {
            Some(lag) => Duration((lag.0 * 7 + sample.0) / 8),
            None => sample,
        });
        self.rtt.set_least(ack_path.own.base());
    }

    /// Reports the ACK path to the controller, before it gets the acknowledgement itself.
    pub(super) fn notify_ack_path(&mut self, now: Instant, advanced: bool) {
        let Some(ack_path) = &mut self.ack_path else { return };
        let moved = advanced && ack_path.turns();
        if moved {
            self.rtt.restart();
        }
        let Some(ack_path) = &self.ack_path else { return };
        let report = AckPath { moved, ..self.describe_ack_path(ack_path) };
        self.cc.on_ack_path(now, &report);
        self.cc.report(&mut self.window);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::TcpConfig;

    fn ack_path(srtt: Duration) -> AckPathState {
        let mut rtt = RttEstimator::new(&TcpConfig::default());
        rtt.on_sample(Instant(1), srtt);
        AckPathState::new(&rtt)
    }

    #[test]
    fn between_marks_times_are_interpolated() {
        let mut r = ack_path(Duration(128));
        r.mark(Instant(100), 1000, Instant(10));
        r.mark(Instant(200), 2000, Instant(60));
        assert_eq!(r.pass(500), None, "nothing before it to start from");
        assert_eq!(r.pass(1000), Some((Instant(10), Instant(100))));
        assert_eq!(r.pass(1500), Some((Instant(35), Instant(150))));
        assert_eq!(r.pass(1000), None, "it has passed that already");
        r.mark(Instant(300), 3000, Instant(160));
        assert_eq!(r.pass(2250), Some((Instant(85), Instant(225))), "over a mark");
        assert_eq!(r.pass(3000), Some((Instant(160), Instant(300))));
        assert_eq!(r.pass(3000), None, "once");
        assert_eq!(r.pass(9000), None);
    }

    #[test]
    fn marks_are_some_way_apart_and_not_too_many() {
        let mut r = ack_path(Duration(1280));
        for (at, kept) in [(100, 1), (109, 1), (110, 2), (120, 3)] {
            r.mark(Instant(at), at, Instant(1));
            assert_eq!(r.marks.len(), kept, "at {at}: a 128th of the round trip");
        }
        (0..300).for_each(|n| r.mark(Instant(1000 + 10 * n), 1000 + n, Instant(1)));
        assert_eq!(r.marks.len(), AckPathState::MARKS);
        assert_eq!(r.marks.back().map(|m| m.ack), Some(1299), "the oldest is forgotten");
    }

    #[test]
    fn the_usual_ack_path_changes_after_eight_in_a_row() {
        let mut r = ack_path(Duration(128));
        assert!(r.turns(), "the first time at once");
        assert!(!r.turns());
        r.mark(Instant(5), 5, Instant(1));
        r.lag = Some(Duration(3));
        for came_between in [true, false] {
            r.elsewhere = false;
            assert!((0..7).all(|_| !r.turns()));
            if came_between {
                r.elsewhere = true;
                assert!(!r.turns());
            }
        }
        assert!(r.lag.is_some() && !r.marks.is_empty());
        assert!(r.turns());
        assert!(r.lag.is_none() && r.marks.is_empty(), "they were of the other ACK path");
    }
}
