//! The scheduler of a connection, and what is remembered between its answers.

use crate::policy::{PolicyError, Spec};
use crate::scheduler::{self, Blocked, OpportunisticRetransmission, Reason, Scheduler, Work};
use crate::time::{Duration, Instant};
use crate::view::{SubflowSet, SubflowView};

/// A scheduler; whoever asks it checks the answer.
pub(super) struct Scheduling {
    policy: Box<dyn Scheduler>,
    looks_ahead: bool,
    places_runs: bool,
    /// Whose turn it is in the rotation of replicas.
    rotation: u8,
    /// When it last asked for an opportunistic retransmission or a penalty.
    opportunistic_at: Instant,
    last_decision: Option<(SubflowSet, Reason)>,
    /// Who has carried the last new segments, and how many in a row.
    run: (SubflowSet, u32),
    /// How many each subflow has carried in its last run that ended.
    runs: [u8; 64],
}

impl Scheduling {
    /// # Errors
    /// There is no such scheduler.
    pub(super) fn new(spec: &Spec) -> Result<Self, PolicyError> {
        let policy = scheduler::build(spec)?;
        Ok(Self {
            looks_ahead: policy.looks_ahead(),
            places_runs: policy.places_runs(),
            policy,
            rotation: 0,
            opportunistic_at: Instant::ZERO,
            last_decision: None,
            run: (SubflowSet::NONE, 0),
            runs: [0; 64],
        })
    }

    /// Another scheduler from now on.
    ///
    /// # Errors
    /// There is no such scheduler.
    pub(super) fn change(&mut self, spec: &Spec) -> Result<(), PolicyError> {
        self.policy = scheduler::build(spec)?;
        self.looks_ahead = self.policy.looks_ahead();
        self.places_runs = self.policy.places_runs();
        (self.run, self.runs) = ((SubflowSet::NONE, 0), [0; 64]);
        Ok(())
    }

    /// The subflows that are to carry every byte.
    #[inline]
    pub(super) fn replicas(&mut self, views: &[SubflowView]) -> SubflowSet {
        self.policy.replicas(views)
    }

    /// Which of `n` subflows comes first this time.
    pub(super) fn first(&self) -> usize {
        usize::from(self.rotation)
    }

    /// The subflow at `at` of `n` has had its turn.
    pub(super) fn rotate(&mut self, at: usize, n: usize) {
        self.rotation = ((at + 1) % n) as u8;
    }

    #[inline]
    pub(super) fn select(&mut self, work: &Work, views: &[SubflowView]) -> SubflowSet {
        self.policy.select(work, views)
    }

    /// Whether what follows goes where it sent the last, unasked.
    #[inline]
    pub(super) fn places_runs(&self) -> bool {
        self.places_runs
    }

    /// New segments go to `chosen`: how many have gone there in a row before, or in the run before
    /// that if those were more. A run is as long as the last one, most likely.
    #[inline]
    pub(super) fn in_a_row(&mut self, chosen: SubflowSet, segments: u32) -> u32 {
        let (last, count) = &mut self.run;
        let mut before = *count;
        if *last != chosen {
            if let Some(id) = last.first() {
                self.runs[usize::from(id.0)] = u8::try_from(before).unwrap_or(u8::MAX);
            }
            (*last, *count, before) = (chosen, 0, 0);
        }
        *count = count.saturating_add(segments);
        let usual = chosen.first().map_or(0, |id| self.runs[usize::from(id.0)]);
        before.max(usual.into())
    }

    /// How far ahead of the next data the subflow that it chose last is to take its own, bytes.
    #[inline]
    pub(super) fn gap(&self) -> u64 {
        if self.looks_ahead { self.policy.gap() } else { 0 }
    }

    /// Why it has chosen so, if that differs from its last decision in more than figures.
    pub(super) fn news(&mut self, chosen: SubflowSet) -> Option<Reason> {
        let reason = self.policy.reason();
        if self.last_decision.is_some_and(|(c, r)| c == chosen && same_kind(r, reason)) {
            return None;
        }
        self.last_decision = Some((chosen, reason));
        Some(reason)
    }

    /// Whether `round_trip` has passed since it last asked for an opportunistic retransmission.
    pub(super) fn may_retransmit(&self, now: Instant, round_trip: Duration) -> bool {
        now >= self.opportunistic_at + round_trip
    }

    /// What is to be done about a full window or send buffer.
    pub(super) fn unblock(
        &mut self,
        blocked: &Blocked,
        views: &[SubflowView],
    ) -> OpportunisticRetransmission {
        let answer = self.policy.opportunistic_retransmission(blocked, views);
        if !answer.resend.is_empty() || !answer.penalise.is_empty() {
            self.opportunistic_at = blocked.now;
        }
        answer
    }
}

/// Whether two reasons differ only in figures.
fn same_kind(a: Reason, b: Reason) -> bool {
    std::mem::discriminant(&a) == std::mem::discriminant(&b)
}
