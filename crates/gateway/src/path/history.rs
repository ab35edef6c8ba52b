//! The probes sent last: which were answered, how fast, and what that says about loss. Round-trip
//! times are smoothed as RFC 6298 section 2 does.

use tabane_engine::{Duration, Instant};

/// The last [`REMEMBERED`] probes.
#[derive(Debug)]
pub(super) struct History {
    ring: [Option<Sent>; REMEMBERED],
    next_seq: u32,
    /// Sequence number after that of the newest probe that was answered.
    after_answered: u32,
    srtt: Option<Duration>,
    rttvar: Duration,
}

/// An answer to a probe that had none yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Answered {
    /// Bytes of the probe.
    pub(super) size: u16,
    /// Whether it was padded to learn whether such a packet passes.
    pub(super) large: bool,
    /// From the probe to the answer.
    pub(super) rtt: Duration,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Sent {
    seq: u32,
    at: Instant,
    size: u16,
    large: bool,
    answered: bool,
}

/// Probes remembered; an answer to one before them is only a sign of life.
pub(super) const REMEMBERED: usize = 64;
/// An answer may take this long beyond what is usual before it counts as lost.
const GRACE: Duration = Duration::from_millis(500);
/// Round trips longer than this are waited for no longer.
const BOUND_MAX: Duration = Duration::from_secs(2);
const BOUND_MIN: Duration = Duration::from_millis(100);

impl Default for History {
    fn default() -> Self {
        Self {
            ring: [None; REMEMBERED],
            next_seq: 0,
            after_answered: 0,
            srtt: None,
            rttvar: Duration::ZERO,
        }
    }
}

impl History {
    /// Of a path that nothing is known of; its first probe has this sequence number.
    pub(super) fn new(first_seq: u32) -> Self {
        Self { next_seq: first_seq, after_answered: first_seq, ..Self::default() }
    }

    /// Notes a probe; returns its sequence number.
    pub(super) fn sent(&mut self, now: Instant, size: u16, large: bool) -> u32 {
        let seq = self.next_seq;
        self.next_seq = seq.wrapping_add(1);
        self.ring[seq as usize % REMEMBERED] =
            Some(Sent { seq, at: now, size, large, answered: false });
        seq
    }

    /// Notes an answer; `None` if the probe is not remembered or had one.
    pub(super) fn answered(&mut self, now: Instant, seq: u32) -> Option<Answered> {
        let sent = self.ring[seq as usize % REMEMBERED].as_mut()?;
        if sent.seq != seq || sent.answered {
            return None;
        }
        sent.answered = true;
        let Sent { at, size, large, .. } = *sent;
        if !large {
            self.sample(now - at);
        }
        let after = seq.wrapping_add(1);
        // Both are within 64 of `next_seq`, or the older one is long ago.
        if self.next_seq.wrapping_sub(after) < self.next_seq.wrapping_sub(self.after_answered) {
            self.after_answered = after;
        }
        Some(Answered { size, large, rtt: now - at })
    }

    /// Forgets what was not answered: nobody was there to hear it.
    pub(super) fn forgive(&mut self) {
        for slot in &mut self.ring {
            *slot = slot.filter(|sent| sent.answered);
        }
    }

    /// Forgets all but the sequence number, and returns what it was.
    pub(super) fn clear(&mut self) -> Self {
        let next_seq = self.next_seq;
        std::mem::replace(self, Self::new(next_seq))
    }

    /// Takes over the sequence number of a later one, whose probes are forgotten.
    pub(super) fn go_on(&mut self, later: &Self) {
        self.next_seq = later.next_seq;
        self.after_answered = later.next_seq;
    }

    /// How long an answer takes at most, as a rule.
    pub(super) fn bound(&self) -> Duration {
        let usual = self.srtt.unwrap_or(Duration::ZERO);
        (usual + usual / 4 + Duration::from_millis(50)).clamp(BOUND_MIN, BOUND_MAX)
    }

    /// Small probes after the last answered one whose answers are overdue.
    pub(super) fn overdue(&self, now: Instant) -> usize {
        let bound = self.bound();
        let late = |sent: &&Sent| {
            let age = self.next_seq.wrapping_sub(sent.seq);
            let newer = age <= self.next_seq.wrapping_sub(self.after_answered);
            newer && !sent.large && !sent.answered && now - sent.at >= bound
        };
        self.ring.iter().flatten().filter(late).count()
    }

    /// When the first small probe after the last answered one was sent.
    pub(super) fn first_open(&self) -> Option<Instant> {
        let unanswered = self.next_seq.wrapping_sub(self.after_answered).min(REMEMBERED as u32);
        let open = |back: u32| {
            let seq = self.next_seq.wrapping_sub(back);
            self.ring[seq as usize % REMEMBERED].filter(|s| s.seq == seq && !s.large)
        };
        (1..=unanswered).rev().find_map(open).map(|sent| sent.at)
    }

    /// Share of the small probes without an answer among those that have had their time.
    pub(super) fn loss(&self, now: Instant) -> Option<f64> {
        let patience = self.bound() + GRACE;
        let due = |sent: &&Sent| !sent.large && (sent.answered || now - sent.at >= patience);
        self.share(due)
    }

    /// The same among the probes before the last answered one: what is usual, whatever happens
    /// now.
    pub(super) fn usual_loss(&self) -> f64 {
        let before = |sent: &&Sent| {
            let age = self.next_seq.wrapping_sub(sent.seq);
            !sent.large && age > self.next_seq.wrapping_sub(self.after_answered)
        };
        self.share(before).unwrap_or(0.0)
    }

    fn share(&self, counts: impl Fn(&&Sent) -> bool) -> Option<f64> {
        let counted = self.ring.iter().flatten().filter(|sent| counts(sent));
        let (all, lost) =
            counted.fold((0u32, 0u32), |(all, lost), s| (all + 1, lost + u32::from(!s.answered)));
        (all > 0).then(|| f64::from(lost) / f64::from(all))
    }

    /// Smoothed round-trip time.
    pub(super) fn srtt(&self) -> Option<Duration> {
        self.srtt
    }

    fn sample(&mut self, rtt: Duration) {
        let Some(srtt) = self.srtt else {
            self.srtt = Some(rtt);
            self.rttvar = rtt / 2;
            return;
        };
        let off = Duration(srtt.0.abs_diff(rtt.0));
        self.rttvar = (self.rttvar * 3 + off) / 4;
        self.srtt = Some((srtt * 7 + rtt) / 8);
    }

    /// Mean deviation of the round-trip time.
    pub(super) fn rttvar(&self) -> Duration {
        self.rttvar
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    #[test]
    fn loss_counts_what_has_had_its_time() {
        let mut history = History::default();
        for i in 0..40 {
            let seq = history.sent(ms(i * 250), 60, false);
            if i % 4 != 0 {
                assert!(history.answered(ms(i * 250 + 20), seq).is_some());
            }
        }
        assert_eq!(history.answered(ms(10_000), 39), None, "twice");
        let loss = history.loss(ms(10_000)).unwrap();
        assert!((loss - 0.25).abs() < 0.01, "{loss}");
        assert!((history.usual_loss() - 0.25).abs() < 0.01);
        assert_eq!(history.srtt(), Some(Duration::from_millis(20)));
        assert_eq!(history.overdue(ms(10_000)), 0);
        assert_eq!(history.first_open(), None);
        history.sent(ms(10_000), 60, false);
        history.sent(ms(10_010), 1400, true);
        history.sent(ms(10_090), 60, false);
        assert_eq!(history.first_open(), Some(ms(10_000)));
        assert_eq!(history.overdue(ms(10_100)), 1);
        assert_eq!(history.overdue(ms(10_190)), 2, "large ones do not count");
    }

    #[test]
    fn a_late_answer_is_no_loss() {
        let mut history = History::default();
        let seq = history.sent(ms(0), 60, false);
        assert_eq!(history.loss(ms(5_000)), Some(1.0));
        assert!(history.answered(ms(5_000), seq).is_some());
        assert_eq!(history.loss(ms(5_000)), Some(0.0));
    }

    #[test]
    fn what_is_forgotten_is_not_answered() {
        let mut history = History::default();
        let first = history.sent(ms(0), 60, false);
        for _ in 0..REMEMBERED {
            history.sent(ms(1), 60, false);
        }
        assert_eq!(history.answered(ms(2), first), None);
        assert_eq!(history.overdue(ms(500)), REMEMBERED);
        history.forgive();
        assert_eq!(history.overdue(ms(500)), 0);
    }
}
