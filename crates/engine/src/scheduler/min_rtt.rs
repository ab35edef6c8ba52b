//! `minrtt`, the `default` scheduler of Linux MPTCP v0.9x: smallest smoothed RTT among the
//! subflows with room, active ones before backups; with its opportunistic retransmission and
//! penalisation (Raiciu et al., NSDI 2012, section 4.2).
//!
//! Of that scheduler's availability tests, what its `room` says already (congestion window,
//! queue, the peer's window) is not repeated here. It sends no new data at all on a subflow that
//! has had a retransmission timeout until all of it is repaired; here such a subflow is avoided
//! while it is suspect, and afterwards its window (one segment after a timeout) is the limit.

use super::{Blocked, Reason, Rescue, Scheduler, Work};
use crate::policy::{Params, PolicyError};
use crate::time::{Duration, Instant};
use crate::view::{RecoveryPhase, SubflowId, SubflowSet, SubflowView};
use std::collections::BTreeMap;

/// The scheduler `minrtt`.
#[derive(Default)]
pub(super) struct MinRtt {
    reason: Reason,
    /// When each subflow, as the fast one, last had another penalised. At most 64 entries.
    penalised: BTreeMap<SubflowId, Instant>,
}

impl MinRtt {
    pub(super) fn build(_: &Params) -> Result<Box<dyn Scheduler>, PolicyError> {
        Ok(Box::<Self>::default())
    }

    /// The rule itself. Data that every candidate has carried may be carried again, hence the
    /// second pass, in which all count as unused.
    fn choose(&mut self, carried: SubflowSet, subflows: &[SubflowView]) -> Option<SubflowId> {
        let sound = any_sound(subflows);
        let mut carried = carried;
        loop {
            let active = best(subflows, false, carried, sound);
            if active.settled {
                return self.answer(&active, subflows);
            }
            let backup = best(subflows, true, carried, sound);
            if backup.settled || carried.is_empty() {
                return self.answer(&backup, subflows);
            }
            carried = SubflowSet::NONE;
        }
    }

    fn answer(&mut self, found: &Best, subflows: &[SubflowView]) -> Option<SubflowId> {
        self.reason = match found.id {
            Some(_) if found.candidates > 1 => Reason::LowestRtt,
            Some(_) => Reason::OnlyChoice,
            None => why_held(subflows),
        };
        found.id
    }

    /// Penalises the first carrier, at most once per round trip of the fast subflow.
    fn penalty(
        &mut self,
        blocked: &Blocked,
        fast: &SubflowView,
        all: &[SubflowView],
    ) -> SubflowSet {
        let recent = self.penalised.get(&fast.id);
        if !blocked.window_full || recent.is_some_and(|&at| blocked.now - at < fast.srtt) {
            return SubflowSet::NONE;
        }
        let first = all.iter().find(|v| v.id != fast.id && blocked.carried.contains(v.id));
        match first {
            Some(slow) if fast.srtt < slow.srtt && slow.phase == RecoveryPhase::Open => {
                self.penalised.insert(fast.id, blocked.now);
                SubflowSet::only(slow.id)
            }
            _ => SubflowSet::NONE,
        }
    }
}

impl Scheduler for MinRtt {
    fn select(&mut self, work: &Work, subflows: &[SubflowView]) -> SubflowSet {
        self.choose(work.carried, subflows).map_or(SubflowSet::NONE, SubflowSet::only)
    }

    fn rescue(&mut self, blocked: &Blocked, subflows: &[SubflowView]) -> Rescue {
        let Some(fast) = subflows.iter().find(|v| v.id == blocked.fast) else {
            return Rescue::default();
        };
        if subflows.len() < 2 {
            return Rescue::default();
        }
        let penalise = self.penalty(blocked, fast, subflows);
        let available = fast.usable && fast.room > 0 && !blocked.carried.contains(fast.id);
        let resend = available && worth_resending(blocked.carried, fast, subflows);
        Rescue {
            resend: if resend { SubflowSet::only(fast.id) } else { SubflowSet::NONE },
            penalise,
        }
    }

    fn reason(&self) -> Reason {
        self.reason
    }
}

/// Whether some usable subflow is not suspect: then suspects count as unavailable.
pub(super) fn any_sound(subflows: &[SubflowView]) -> bool {
    subflows.iter().any(|v| v.usable && !v.suspect)
}

/// Whether `view` may carry data at all (it may still lack room).
pub(super) fn available(view: &SubflowView, any_sound: bool) -> bool {
    view.usable && !(view.suspect && any_sound)
}

/// Why nothing was picked, told from those that do have room.
pub(super) fn why_held(subflows: &[SubflowView]) -> Reason {
    let sound = any_sound(subflows);
    let with_room = |v: &&SubflowView| v.usable && v.room > 0;
    if subflows.iter().filter(with_room).any(|v| v.backup && available(v, sound)) {
        return Reason::BackupHeld;
    }
    if subflows.iter().any(|v| with_room(&v)) { Reason::SuspectHeld } else { Reason::NoRoom }
}

/// What one class (active or backup) has to offer.
struct Best {
    id: Option<SubflowId>,
    /// Picked one that has not carried the data, or there is such a one but without room: the
    /// other class is not asked.
    settled: bool,
    /// How many were compared.
    candidates: u32,
}

fn best(subflows: &[SubflowView], backup: bool, carried: SubflowSet, any_sound: bool) -> Best {
    let mut best: Option<SubflowId> = None;
    let mut min_rtt = Duration::MAX;
    let (mut unused_found, mut unused_busy) = (false, false);
    let mut candidates = 0;
    for view in subflows.iter().filter(|v| v.backup == backup && available(v, any_sound)) {
        let unused = !carried.contains(view.id);
        if !unused && unused_found {
            continue;
        }
        if view.room == 0 {
            unused_busy |= unused;
            continue;
        }
        if unused && !unused_found {
            (best, min_rtt, candidates) = (None, Duration::MAX, 0);
            unused_found = true;
        }
        candidates += 1;
        if best.is_none() || view.srtt < min_rtt {
            (best, min_rtt) = (Some(view.id), view.srtt);
        }
    }
    let settled = if best.is_some() { unused_found } else { unused_busy };
    Best { id: best, settled, candidates }
}

/// Worth it if the first carrier is almost stopped, or if all are more than four times slower.
/// The first carrier of either kind decides, in list order.
fn worth_resending(carried: SubflowSet, fast: &SubflowView, subflows: &[SubflowView]) -> bool {
    let mut worth = false;
    for slow in subflows.iter().filter(|v| v.id != fast.id && carried.contains(v.id)) {
        if slow.cwnd <= 4 * slow.mss {
            return true;
        }
        if fast.srtt * 4 >= slow.srtt {
            return false;
        }
        worth = true;
    }
    worth
}
