//! What schedulers share: which subflows count (backups, potentially failed ones, those that have
//! carried the data already), the choice of Linux's `default` that most others start from, and its
//! opportunistic retransmission and penalisation (Raiciu et al., NSDI 2012, section 4.2).
//!
//! Of the availability tests of Linux MPTCP v0.9x, what `sendable` says already (congestion window,
//! queue, the peer's window) is not repeated here. It sends no new data at all on a subflow that
//! has had a retransmission timeout until all of it is repaired; here such a subflow is avoided
//! while it is potentially failed, and afterwards its window (one segment after a timeout) is the
//! limit.

use super::{Blocked, OpportunisticRetransmission, Reason, Work};
use crate::policy::{Param, Values};
use crate::time::{Duration, Instant, mul_div};
use crate::view::{RecoveryPhase, SubflowId, SubflowSet, SubflowView};
use std::collections::BTreeMap;

/// What Linux's `default` would choose: the smallest smoothed RTT among those with space, active
/// ones before backups, such as have not carried the data before such as have.
#[derive(Clone, Copy)]
pub(super) struct Choice<'v> {
    /// The subflow; `None` if the data waits.
    pub(super) view: Option<&'v SubflowView>,
    pub(super) reason: Reason,
    class: Class,
}

/// Subflows that are as good as the one chosen, but for space and RTT.
#[derive(Clone, Copy)]
struct Class {
    backup: bool,
    any_sound: bool,
    /// Those that are out because they have carried the data.
    carried: SubflowSet,
}

impl<'v> Choice<'v> {
    /// Data that every candidate has carried may be carried again, hence the second pass, in
    /// which all count as unused.
    pub(super) fn of(carried: SubflowSet, subflows: &'v [SubflowView]) -> Self {
        let any_sound = any_sound(subflows);
        let mut carried = carried;
        loop {
            let active = best(subflows, false, carried, any_sound);
            if active.conclusive {
                return Self::made(&active, Class { backup: false, any_sound, carried }, subflows);
            }
            let backup = best(subflows, true, carried, any_sound);
            if backup.conclusive || carried.is_empty() {
                return Self::made(&backup, Class { backup: true, any_sound, carried }, subflows);
            }
            carried = SubflowSet::NONE;
        }
    }

    fn made(best: &Best<'v>, class: Class, subflows: &'v [SubflowView]) -> Self {
        let reason = match best.view {
            Some(_) if best.candidates > 1 => Reason::LowestRtt,
            Some(_) => Reason::OnlyChoice,
            None => why_held(subflows),
        };
        Self { view: best.view, reason, class }
    }

    /// The subflows of the class, in list order, those without space included.
    pub(super) fn peers(
        self,
        subflows: &'v [SubflowView],
    ) -> impl Iterator<Item = &'v SubflowView> + Clone {
        let Class { backup, any_sound, carried } = self.class;
        let counts = move |v: &SubflowView| {
            v.backup == backup && available(v, any_sound) && !carried.contains(v.id)
        };
        subflows.iter().filter(move |v| counts(v))
    }

    /// The peer with the smallest smoothed RTT, if that is not the one chosen: without space, but
    /// an ACK of what it has in flight will give it some.
    pub(super) fn faster(self, subflows: &'v [SubflowView]) -> Option<&'v SubflowView> {
        let chosen = self.view?;
        let peers = self.peers(subflows).filter(|v| v.id == chosen.id || is_awaitable(v));
        peers.min_by_key(|v| v.srtt).filter(|v| v.id != chosen.id && v.srtt < chosen.srtt)
    }
}

/// Whether something in flight will give a full subflow space again.
pub(super) fn is_awaitable(view: &SubflowView) -> bool {
    view.sendable == 0 && view.in_flight > 0
}

/// Whether some usable subflow is not potentially failed: then those that are count as unavailable.
pub(super) fn any_sound(subflows: &[SubflowView]) -> bool {
    subflows.iter().any(|v| v.usable && !v.potentially_failed)
}

/// Whether `view` may carry data at all (it may still lack space).
pub(super) fn available(view: &SubflowView, any_sound: bool) -> bool {
    view.usable && !(view.potentially_failed && any_sound)
}

/// Why nothing was picked, told from those that do have space.
pub(super) fn why_held(subflows: &[SubflowView]) -> Reason {
    let sound = any_sound(subflows);
    let with_space = |v: &&SubflowView| v.usable && v.sendable > 0;
    if subflows.iter().filter(with_space).any(|v| v.backup && available(v, sound)) {
        return Reason::BackupHeld;
    }
    if subflows.iter().any(|v| with_space(&v)) {
        Reason::PotentiallyFailedHeld
    } else {
        Reason::NoSpace
    }
}

/// The best subflow of one class (active or backup).
struct Best<'v> {
    view: Option<&'v SubflowView>,
    /// The other class need not be asked: a subflow that has not carried the data was picked, or
    /// there is one, which has no space at the moment.
    conclusive: bool,
    /// How many were compared.
    candidates: u32,
}

fn best(subflows: &[SubflowView], backup: bool, carried: SubflowSet, any_sound: bool) -> Best<'_> {
    let mut best: Option<&SubflowView> = None;
    let (mut unused_found, mut unused_busy) = (false, false);
    let mut candidates = 0;
    for view in subflows.iter().filter(|v| v.backup == backup && available(v, any_sound)) {
        let unused = !carried.contains(view.id);
        if !unused && unused_found {
            continue;
        }
        if view.sendable == 0 {
            unused_busy |= unused;
            continue;
        }
        if unused && !unused_found {
            (best, candidates) = (None, 0);
            unused_found = true;
        }
        candidates += 1;
        if best.is_none_or(|b| view.srtt < b.srtt) {
            best = Some(view);
        }
    }
    let conclusive = if best.is_some() { unused_found } else { unused_busy };
    Best { view: best, conclusive, candidates }
}

/// Opportunistic retransmission and penalisation.
#[derive(Default)]
pub(super) struct Opportunistic {
    /// When each subflow, as the fast one, last had another penalised. At most 64 entries.
    penalised: BTreeMap<SubflowId, Instant>,
}

impl Opportunistic {
    /// What Linux's `default` does for data that blocks the connection.
    pub(super) fn answer(
        &mut self,
        blocked: &Blocked,
        subflows: &[SubflowView],
    ) -> OpportunisticRetransmission {
        let Some(fast) = subflows.iter().find(|v| v.id == blocked.fast) else {
            return OpportunisticRetransmission::default();
        };
        if subflows.len() < 2 {
            return OpportunisticRetransmission::default();
        }
        let penalise = self.penalty(blocked, fast, subflows);
        let available = fast.usable && fast.sendable > 0 && !blocked.carried.contains(fast.id);
        let resend = available && worth_resending(blocked.carried, fast, subflows);
        OpportunisticRetransmission {
            resend: if resend { SubflowSet::only(fast.id) } else { SubflowSet::NONE },
            penalise,
        }
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

/// The parameter that [`Backlog`] is made of.
pub(super) const BACKLOG: Param = Param::count(
    "backlog",
    0.0,
    0.0..=1e12,
    "bytes that count at most as waiting, where a send buffer holds only what is not sent; 0: all",
);

/// What waits to be sent, as ECF is told. In the ns-3.19 model of MPTCP data leaves the send buffer
/// (131072 bytes) when it is sent, so that no more than that ever waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Backlog(u64);

impl Default for Backlog {
    fn default() -> Self {
        Self(u64::MAX)
    }
}

impl Backlog {
    pub(super) fn of(values: &Values<'_>) -> Self {
        match values.get(BACKLOG.name) as u64 {
            0 => Self::default(),
            bytes => Self(bytes),
        }
    }

    /// Bytes.
    pub(super) fn see(self, work: &Work) -> u64 {
        work.unsent.min(self.0)
    }
}

/// Time in which `bytes` pass at `cwnd` a round trip, nanoseconds.
pub(super) fn drain_time(bytes: u64, view: &SubflowView) -> Duration {
    Duration(mul_div(bytes, view.srtt.0, view.cwnd.max(1)))
}
