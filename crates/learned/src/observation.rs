//! What a learned scheduler sees and what its answer means: one home for the environments in which
//! it is trained and the program in which it decides.
//!
//! An observation is a row of numbers from 0 to 1: [`CONNECTION`] of the connection, then
//! [`SUBFLOW`] of each subflow in order of their slots, so many as the policy was trained with.
//! Subflows beyond are neither seen nor chosen; places of subflows that are not there are 0. Its
//! answer is a slot, or one number more: wait.

use tabane_engine::scheduler::{Reason, Work};
use tabane_engine::view::{RecoveryPhase, SubflowSet, SubflowView};

/// Of the meaning of the numbers: changed whenever they are. A file says for which it was trained.
pub const VERSION: &str = "2";
/// Numbers of the connection.
pub const CONNECTION: usize = 3;
/// Numbers of a subflow.
pub const SUBFLOW: usize = 10;
/// Most subflows that a policy may be trained with.
pub const SUBFLOWS_MAX: usize = 8;

/// Numbers of an observation with so many subflows.
pub const fn width(subflows: usize) -> usize {
    CONNECTION + SUBFLOW * subflows
}

/// How many subflows an observation of `width` numbers has; `None` if it is of no such length.
pub fn subflows(width: usize) -> Option<usize> {
    let places = width.checked_sub(CONNECTION)?;
    let subflows = places / SUBFLOW;
    (places.is_multiple_of(SUBFLOW) && (1..=SUBFLOWS_MAX).contains(&subflows)).then_some(subflows)
}

/// From 0 to 1; `half` gives a half.
pub fn saturating(value: f64, half: f64) -> f32 {
    if value.is_finite() { (value / (value + half)) as f32 } else { 1.0 }
}

/// 1 if it is so, else 0.
pub fn flag(is: bool) -> f32 {
    f32::from(u8::from(is))
}

/// Whether a subflow could carry this data now, and has not carried it before.
fn is_able(work: &Work, view: &SubflowView) -> bool {
    view.usable && view.sendable > 0 && !work.carried.contains(view.id)
}

/// The first subflow that could carry the data; a policy is asked only if there is one.
pub fn first_able<'v>(work: &Work, subflows: &'v [SubflowView]) -> Option<&'v SubflowView> {
    subflows.iter().find(|view| is_able(work, view))
}

/// Writes the observation; its length says how many subflows are seen.
pub fn observe(work: &Work, subflows: &[SubflowView], seen: &mut [f32]) {
    seen.fill(0.0);
    let Some((connection, places)) = seen.split_first_chunk_mut::<CONNECTION>() else { return };
    *connection = [
        saturating(work.unsent as f64, 100_000.0),
        saturating(work.window_space as f64, 100_000.0),
        flag(work.reinjection),
    ];
    let known = subflows.iter().filter(|s| s.usable && s.srtt.0 > 0);
    let fastest = known.map(|s| s.srtt.0).min().unwrap_or(0) as f64;
    let (places, _) = places.as_chunks_mut::<SUBFLOW>();
    for view in subflows {
        let Some(place) = places.get_mut(usize::from(view.id.0)) else { continue };
        let mss = view.mss.max(1) as f64;
        let cwnd = view.cwnd.max(1) as f64;
        *place = [
            flag(view.usable),
            flag(is_able(work, view)),
            flag(view.backup || view.potentially_failed),
            saturating(view.srtt.as_secs_f64(), 0.1),
            (view.in_flight as f64 / cwnd).min(1.0) as f32,
            saturating(view.cwnd as f64 / mss, 50.0),
            saturating(view.sendable as f64 / mss, 10.0),
            flag(view.phase != RecoveryPhase::Open),
            // How far it is from the fastest, and in how many of its windows all would be gone:
            // what schedulers that wait compare.
            (fastest / view.srtt.0.max(1) as f64).min(1.0) as f32,
            saturating(work.unsent as f64 / cwnd, 1.0),
        ];
    }
}

/// What an answer means: the slot of a subflow, anything else is to wait. `first` is of
/// [`first_able`]. A subflow that could not carry the data now is one to wait for.
pub fn answer(
    action: i64,
    work: &Work,
    first: &SubflowView,
    subflows: &[SubflowView],
) -> (SubflowSet, Reason) {
    let named = subflows.iter().find(|s| i64::from(s.id.0) == action);
    match named.filter(|view| is_able(work, view)) {
        Some(chosen) => (SubflowSet::only(chosen.id), Reason::Turn),
        None => (SubflowSet::NONE, Reason::AwaitsTurn(named.unwrap_or(first).id)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tabane_engine::Duration;
    use tabane_engine::view::SubflowId;

    fn view(id: u8, rtt_ms: u64, sendable: u64) -> SubflowView {
        SubflowView::default().with(|v| {
            (v.id, v.usable, v.mss, v.cwnd) = (SubflowId(id), true, 1000, 100_000);
            (v.srtt, v.sendable, v.in_flight) = (Duration::from_millis(rtt_ms), sendable, 50_000);
        })
    }

    fn work() -> Work {
        Work::default().with(|w| (w.unsent, w.window_space) = (100_000, 300_000))
    }

    #[test]
    fn lengths_say_how_many_subflows_are_seen() {
        for n in 1..=SUBFLOWS_MAX {
            assert_eq!(subflows(width(n)), Some(n));
        }
        for width in [0, 2, CONNECTION, width(1) + 1, width(SUBFLOWS_MAX + 1), usize::MAX] {
            assert_eq!(subflows(width), None, "{width}");
        }
    }

    /// By hand. Who changes this changes [`VERSION`].
    #[test]
    fn an_observation_is_what_it_is_said_to_be() {
        let mut seen = [7.0; width(3)];
        observe(&work(), &[view(1, 100, 10_000), view(0, 25, 0), view(5, 1, 0)], &mut seen);
        let [a, b, c] = [0.5, 0.75, 0.0];
        assert_eq!(seen[..3], [a, b, c]);
        // The subflow in slot 5 is beyond, but it is the fastest.
        assert_eq!(seen[3..13], [1.0, 0.0, 0.0, 0.2, 0.5, 2.0 / 3.0, 0.0, 0.0, 0.04, 0.5]);
        assert_eq!(seen[13..23], [1.0, 1.0, 0.0, 0.5, 0.5, 2.0 / 3.0, 0.5, 0.0, 0.01, 0.5]);
        assert_eq!(seen[23..], [0.0; SUBFLOW]);
    }

    #[test]
    fn answers_are_slots_or_waiting() {
        let views = [view(0, 10, 0), view(1, 20, 1000)];
        let first = first_able(&work(), &views).expect("one has space");
        assert_eq!(first.id, SubflowId(1));
        let ask = |action| answer(action, &work(), first, &views);
        assert_eq!(ask(1), (SubflowSet::only(SubflowId(1)), Reason::Turn));
        assert_eq!(ask(0), (SubflowSet::NONE, Reason::AwaitsTurn(SubflowId(0))));
        assert_eq!(ask(2), (SubflowSet::NONE, Reason::AwaitsTurn(SubflowId(1))));
        // What it has carried already it does not carry again.
        let again = work().with(|w| w.carried = SubflowSet::only(SubflowId(1)));
        assert!(first_able(&again, &views).is_none());
    }
}
