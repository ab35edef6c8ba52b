//! `roundrobin`, as in Linux MPTCP v0.9x: each subflow in turn carries `num_segments` segments.
//!
//! With `cwnd_limited` (the default) subflows without space are passed over: under saturation the
//! ACK clock then decides the split, as with `minrtt`. Without it the order is strict: a subflow
//! whose turn it is but which has no space blocks the rest, so that goodput is that of the slowest
//! times their number. Unlike there, backups wait until no active subflow is left (RFC 8684
//! section 3.3.8), and a subflow that nothing in flight will ever free is passed over even in
//! strict order.

use super::common::{any_sound, available, why_held};
use super::{Reason, Scheduler, Work};
use crate::policy::{Param, PolicyError, Values};
use crate::view::{SubflowId, SubflowSet, SubflowView};

/// Parameters of the table row.
pub(super) const PARAMS: &[Param] = &[
    Param::count("num_segments", 1.0, 1.0..=255.0, "segments in a row on one subflow"),
    Param::switch(
        "cwnd_limited",
        true,
        "1: pass over subflows without room; 0: strict order, wait for them",
    ),
];

pub(super) struct RoundRobin {
    num_segments: u8,
    strict: bool,
    /// Segments each has carried in this round; at `num_segments` its turn is over.
    quota: [u8; 64],
    reason: Reason,
}

impl RoundRobin {
    pub(super) fn build(values: &Values<'_>) -> Result<Box<dyn Scheduler>, PolicyError> {
        let num_segments = values.get("num_segments") as u8;
        let strict = !values.is_on("cwnd_limited");
        let (quota, reason) = ([0; 64], Reason::default());
        Ok(Box::new(Self { num_segments, strict, quota, reason }))
    }

    /// Reinjections go to the last in the list that has not carried the data, or else that has.
    fn reinject(&mut self, work: &Work, takers: SubflowSet, all: &[SubflowView]) -> SubflowSet {
        let with_space = || all.iter().filter(|v| takers.contains(v.id) && v.sendable > 0);
        let unused = with_space().rfind(|v| !work.carried.contains(v.id));
        let chosen = unused.or_else(|| with_space().next_back());
        self.reason = match chosen {
            Some(_) if with_space().count() > 1 => Reason::Turn,
            Some(_) => Reason::OnlyChoice,
            None => why_held(all),
        };
        chosen.map_or(SubflowSet::NONE, |v| SubflowSet::only(v.id))
    }

    /// The one whose turn it is among `takers`, starting a new round when all have had theirs.
    fn turn(&mut self, takers: SubflowSet, all: &[SubflowView]) -> Option<SubflowId> {
        let takers = || all.iter().map(|v| v.id).filter(|&id| takers.contains(id));
        let quota = |id: SubflowId| usize::from(id.0) & 63;
        if takers().all(|id| self.quota[quota(id)] >= self.num_segments) {
            takers().for_each(|id| self.quota[quota(id)] = 0);
        }
        let begun = |id: &SubflowId| (1..self.num_segments).contains(&self.quota[quota(*id)]);
        let begun = takers().find(begun);
        begun.or_else(|| takers().rfind(|&id| self.quota[quota(id)] == 0))
    }
}

impl Scheduler for RoundRobin {
    fn select(&mut self, work: &Work, subflows: &[SubflowView]) -> SubflowSet {
        let sound = any_sound(subflows);
        let backups = !subflows.iter().any(|v| !v.backup && available(v, sound));
        let candidates = subflows.iter().filter(|v| v.backup == backups && available(v, sound));
        let takes = |v: &&SubflowView| v.sendable > 0 || (self.strict && v.in_flight > 0);
        let takers: SubflowSet = candidates.filter(takes).map(|v| v.id).collect();
        if work.reinjection {
            return self.reinject(work, takers, subflows);
        }
        let Some(id) = self.turn(takers, subflows) else {
            self.reason = why_held(subflows);
            return SubflowSet::NONE;
        };
        let with_space = |v: &&SubflowView| takers.contains(v.id) && v.sendable > 0;
        let Some(view) = subflows.iter().filter(with_space).find(|v| v.id == id) else {
            let held = subflows.iter().any(|v| with_space(&v));
            self.reason = if held { Reason::AwaitsTurn(id) } else { why_held(subflows) };
            return SubflowSet::NONE;
        };
        self.reason = if takers.len() > 1 { Reason::Turn } else { Reason::OnlyChoice };
        let segments = work.len.div_ceil(view.mss.max(1)).clamp(1, 255) as u8;
        let quota = &mut self.quota[usize::from(id.0) & 63];
        *quota = quota.saturating_add(segments);
        SubflowSet::only(id)
    }

    fn reason(&self) -> Reason {
        self.reason
    }
}
