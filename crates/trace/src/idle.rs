//! "Why was this link not used?": decision records folded into counts per subflow and reason.
//!
//! Users ask above all why a link idles. A decision says which subflows could have carried the
//! data, which did, and why; here each subflow that did not is given its reason.

use crate::histogram::Histogram;
use std::collections::BTreeMap;
use tabane_engine::mptcp::Info;
use tabane_engine::record::{Record, SubflowChange, What};
use tabane_engine::scheduler::Reason;
use tabane_engine::view::{SubflowId, SubflowSet};

/// Why a subflow did not carry data that was placed or held.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Why {
    /// It had no space (window full, repairing losses) or was not usable.
    NoSpace,
    /// It had space, and another had the smaller RTT.
    Slower,
    /// It had space, and it was another's turn.
    NotItsTurn,
    /// It is a backup while an active subflow lives.
    Backup,
    /// Its data went unanswered, and a better one lives.
    PotentiallyFailed,
    /// It had space, and waiting for this subflow beats using it.
    WaitingFor(SubflowId),
    /// It had space, and its data would have held up what this subflow delivers.
    WouldBlock(SubflowId),
    /// It had space, and another's data arrives sooner or drains first.
    Later,
    /// It had space and another was chosen, for a reason that names none of the above.
    OtherChosen,
}

impl Why {
    /// Name in files: one word.
    pub fn name(self) -> &'static str {
        match self {
            Self::NoSpace => "no_room",
            Self::Slower => "slower",
            Self::NotItsTurn => "not_its_turn",
            Self::Backup => "backup",
            Self::PotentiallyFailed => "suspect",
            Self::WaitingFor(_) => "waiting_is_faster",
            Self::WouldBlock(_) => "would_block",
            Self::Later => "later",
            Self::OtherChosen => "other_chosen",
        }
    }
}

/// Decisions of one connection at its sender. Grows with subflows and reasons only.
#[derive(Clone, Default, Debug)]
pub struct Decisions {
    /// Subflows that there are, as far as records have said.
    known: SubflowSet,
    /// How many the connection had before the latest in each slot.
    numbers: BTreeMap<SubflowId, u32>,
    total: u64,
    held: u64,
    /// By number: a slot is given out again when its subflow has closed.
    subflows: BTreeMap<u32, Fate>,
}

/// What became of the decisions for one subflow.
#[derive(Clone, Default, Debug)]
pub struct Fate {
    /// Decisions that chose it.
    pub chosen: u64,
    /// Decisions that did not, by reason.
    pub not: BTreeMap<Why, u64>,
    /// What waiting gained, nanoseconds, where that was the reason.
    pub gain: Histogram,
}

impl Decisions {
    /// Takes a record of the connection: counts decisions, and follows which subflows there are.
    pub fn record(&mut self, record: &Record) {
        match record.what {
            What::Decision { eligible, chosen, reason, .. } => {
                self.known = self.known.union(eligible).union(chosen);
                self.add(self.known.iter(), eligible, chosen, reason);
            }
            What::Subflow(change) => {
                let Some(id) = record.subflow else { return };
                match change {
                    SubflowChange::Opening => {
                        // Who accepts may have missed the first, and slots are given out from
                        // the lowest on.
                        let next = self.numbers.values().max().map_or(0, |latest| latest + 1);
                        self.numbers.insert(id, next.max(u32::from(id.0)));
                    }
                    SubflowChange::Established => self.known.insert(id),
                    SubflowChange::Closed(_) => self.known.remove(id),
                    _ => {}
                }
            }
            _ => {}
        }
    }

    /// A further connection goes on for this one, with subflows of its own.
    pub fn start_over(&mut self) {
        self.known = SubflowSet::NONE;
        self.numbers.clear();
    }

    /// Counts anew from now on, among the subflows that there are.
    pub fn clear(&mut self) {
        let numbers = std::mem::take(&mut self.numbers);
        *self = Self { known: self.known, numbers, ..Self::default() };
    }

    /// What a connection says of its subflows: it knows their numbers.
    pub fn take_numbers(&mut self, info: &Info) {
        self.numbers.extend(info.subflows.iter().map(|subflow| (subflow.view.id, subflow.number)));
    }

    /// How many subflows the connection had before the one that is in this slot now, as
    /// `SubflowInfo::number`.
    pub fn number(&self, id: SubflowId) -> u32 {
        self.numbers.get(&id).copied().unwrap_or_else(|| u32::from(id.0))
    }

    /// Counts a decision among the `known` subflows.
    fn add(
        &mut self,
        known: impl IntoIterator<Item = SubflowId>,
        eligible: SubflowSet,
        chosen: SubflowSet,
        reason: Reason,
    ) {
        self.total += 1;
        self.held += u64::from(chosen.is_empty());
        for id in known {
            let number = self.number(id);
            let fate = self.subflows.entry(number).or_default();
            if chosen.contains(id) {
                fate.chosen += 1;
                continue;
            }
            let why = why_not(eligible.contains(id), reason);
            *fate.not.entry(why).or_default() += 1;
            if let (Why::WaitingFor(_), Reason::WaitingIsFaster { gain, .. }) = (why, reason) {
                fate.gain.add(gain.0);
            }
        }
    }

    /// Decisions in all.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Decisions that held the data back.
    pub fn held(&self) -> u64 {
        self.held
    }

    /// By the subflows' numbers.
    pub fn subflows(&self) -> impl Iterator<Item = (u32, &Fate)> {
        self.subflows.iter().map(|(&number, fate)| (number, fate))
    }

    /// One sentence about the subflow of that number, which is called `own`. `name` says what the
    /// one in a slot is called.
    pub fn explain(&self, number: u32, own: &str, name: impl Fn(SubflowId) -> String) -> String {
        let Some(fate) = self.subflows.get(&number) else {
            return format!("{own}: no decision was recorded");
        };
        let placed = self.total - self.held;
        let share = 100.0 * fate.chosen as f64 / placed.max(1) as f64;
        let mut text = format!("{own}: carried {} of {placed} pieces", fate.chosen);
        text += &format!(" ({share:.1} %)");
        let mut reasons: Vec<_> = fate.not.iter().collect();
        reasons.sort_by_key(|&(_, n)| std::cmp::Reverse(*n));
        for (i, (&why, n)) in reasons.into_iter().enumerate() {
            let words = fate.words(why, &name);
            let times = if *n == 1 { "once".to_owned() } else { format!("{n} times") };
            text += &format!("{} {words} ({times})", if i == 0 { "; not, as" } else { "," });
        }
        text
    }
}

impl Fate {
    /// The reason as a part of a sentence: "its window was full". `name` says what a subflow is
    /// called.
    pub fn words(&self, why: Why, name: impl Fn(SubflowId) -> String) -> String {
        match why {
            Why::NoSpace => "its window was full".to_owned(),
            Why::Slower => "another had the smaller RTT".to_owned(),
            Why::NotItsTurn => "it was not its turn".to_owned(),
            Why::Backup => "it is a backup and an active one lives".to_owned(),
            Why::PotentiallyFailed => "its data went unanswered".to_owned(),
            Why::OtherChosen => "another was chosen".to_owned(),
            Why::Later => "another was sooner".to_owned(),
            Why::WouldBlock(other) => {
                format!("its data would have held up what {} delivers", name(other))
            }
            Why::WaitingFor(other) => {
                let gain = self.gain.mean().unwrap_or(0.0) / 1e6;
                format!("waiting for {} beat it by {gain:.1} ms on average", name(other))
            }
        }
    }
}

fn why_not(eligible: bool, reason: Reason) -> Why {
    match (eligible, reason) {
        (true, Reason::BackupHeld) => Why::Backup,
        (true, Reason::PotentiallyFailedHeld) => Why::PotentiallyFailed,
        (false, _) | (true, Reason::NoSpace) => Why::NoSpace,
        (true, Reason::LowestRtt) => Why::Slower,
        (true, Reason::Turn | Reason::AwaitsTurn(_)) => Why::NotItsTurn,
        (true, Reason::WaitingIsFaster { for_subflow, .. }) => Why::WaitingFor(for_subflow),
        (true, Reason::WouldBlock { for_subflow }) => Why::WouldBlock(for_subflow),
        (true, Reason::SoonestArrival | Reason::ShortestQueue) => Why::Later,
        // `OnlyChoice`, `Replicated`, and reasons that are not told apart here.
        (true, _) => Why::OtherChosen,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tabane_engine::record::CloseReason;
    use tabane_engine::{Duration, Instant};

    const WIFI: SubflowId = SubflowId(0);
    const LTE: SubflowId = SubflowId(1);

    fn set(ids: &[SubflowId]) -> SubflowSet {
        ids.iter().copied().collect()
    }

    #[test]
    fn says_what_a_link_waited_for() {
        let mut decisions = Decisions::default();
        let wait =
            |ms| Reason::WaitingIsFaster { for_subflow: WIFI, gain: Duration::from_millis(ms) };
        decisions.add([WIFI, LTE], set(&[WIFI, LTE]), set(&[WIFI]), Reason::LowestRtt);
        decisions.add([WIFI, LTE], set(&[LTE]), SubflowSet::NONE, wait(10));
        decisions.add([WIFI, LTE], set(&[LTE]), SubflowSet::NONE, wait(18));
        decisions.add([WIFI, LTE], set(&[LTE]), set(&[LTE]), Reason::OnlyChoice);
        let name = |id: SubflowId| ["wifi", "lte"][usize::from(id.0)].to_owned();
        assert_eq!(decisions.held(), 2);
        assert_eq!(
            decisions.explain(1, "lte", name),
            "lte: carried 1 of 2 pieces (50.0 %); not, as waiting for wifi beat it by 14.0 ms on \
             average (2 times), another had the smaller RTT (once)"
        );
        assert_eq!(
            decisions.explain(0, "wifi", name),
            "wifi: carried 1 of 2 pieces (50.0 %); not, as its window was full (3 times)"
        );
    }

    /// A slot is given out again: its new subflow has decisions of its own.
    #[test]
    fn a_subflow_that_replaces_another_begins_anew() {
        let mut decisions = Decisions::default();
        let record = |what| Record::new(Instant::ZERO, None, Some(WIFI), what);
        for _ in 0..2 {
            decisions.record(&record(What::Subflow(SubflowChange::Opening)));
            decisions.add([WIFI], set(&[WIFI]), set(&[WIFI]), Reason::OnlyChoice);
            decisions.record(&record(What::Subflow(SubflowChange::Closed(CloseReason::Aborted))));
        }
        let chosen: Vec<_> = decisions.subflows().map(|(n, fate)| (n, fate.chosen)).collect();
        assert_eq!(chosen, [(0, 1), (1, 1)]);
        assert_eq!((decisions.number(WIFI), decisions.number(LTE)), (1, 1));
        // Of a connection that is accepted the first is not seen to open.
        let mut decisions = Decisions::default();
        let opening = What::Subflow(SubflowChange::Opening);
        decisions.record(&Record::new(Instant::ZERO, None, Some(LTE), opening));
        assert_eq!((decisions.number(WIFI), decisions.number(LTE)), (0, 1));
    }

    #[test]
    fn backups_are_told_apart_from_full_windows() {
        let mut decisions = Decisions::default();
        decisions.add([WIFI, LTE], set(&[LTE]), SubflowSet::NONE, Reason::BackupHeld);
        decisions.add([WIFI, LTE], set(&[WIFI]), set(&[WIFI]), Reason::OnlyChoice);
        let (_, lte) = decisions.subflows().nth(1).unwrap();
        assert_eq!(lte.not, BTreeMap::from([(Why::Backup, 1), (Why::NoSpace, 1)]));
        let (_, wifi) = decisions.subflows().next().unwrap();
        assert_eq!((wifi.chosen, &wifi.not), (1, &BTreeMap::from([(Why::NoSpace, 1)])));
    }
}
