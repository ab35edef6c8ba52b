//! `hayack` and `hayack-fair`: pure ACKs by the path with the smallest RTT (the paper `hayack` of
//! docs/papers.md). Mode `raw`: an ACK keeps the addresses of its subflow and only
//! travels another path.
//!
//! Ours, not the paper's: a path is left only for one that is faster by a fifth in three decisions
//! in a row, since changes of the return path look like changes of the forward path; every eighth
//! ACK, or one in half a round trip (100 ms at most), goes by the subflow's own path as well, which
//! keeps middleboxes content and lets the sender measure what RTT that path has. As in the paper,
//! where the smallest RTT always wins and no ACK goes by its own path too, is
//! `hayack:own=0,margin=0,decisions=1`.
//!
//! `hayack-fair` differs at the host that *gets* such ACKs: there congestion control grows as if
//! they had come by the subflow's own path ([`Egress::compensates`]).

use super::{Egress, Outgoing};
use crate::policy::{Param, PolicyError, Values};
use crate::time::{Duration, Instant};
use crate::view::{PathId, PathSet, PathView};

/// Parameters of both.
pub(super) const PARAMS: &[Param] = &[
    Param::count("every", 8.0, 1.0..=1000.0, "one ACK of so many goes by its own path too"),
    Param::switch("own", true, "0: no ACK goes by its own path too, whatever it reports"),
    Param::count("margin", 20.0, 0.0..=99.0, "by so many percent another path must be faster"),
    Param::count("decisions", 3.0, 1.0..=100.0, "for so many ACKs in a row"),
    Param::count(
        "path",
        -1.0,
        -1.0..=63.0,
        "the path that ACKs take, by its number from 0; -1: the fastest",
    ),
];

/// The egress policies `hayack` and `hayack-fair`.
pub(super) struct HayAck {
    every: u32,
    own: bool,
    margin: u64,
    decisions: u32,
    path: Option<PathId>,
    fair: bool,
    /// Indexed by the subflow's slot.
    choices: Vec<AckPathChoice>,
}

/// The path that a subflow's ACKs take.
#[derive(Clone, Copy, Default)]
struct AckPathChoice {
    /// `None` before the first ACK.
    path: Option<PathId>,
    /// Decisions in a row in which another was better.
    better: u32,
    /// ACKs since the last by its own path, and when that was.
    since_own: u32,
    own_at: Instant,
}

/// By its own path at least this often while ACKs leave at all.
const OWN_INTERVAL: Duration = Duration::from_millis(100);
/// A path from which nothing has come for this long, and four round trips, may be dead.
const UNRESPONSIVE: Duration = Duration::from_secs(1);

impl HayAck {
    pub(super) fn raw(values: &Values<'_>) -> Result<Box<dyn Egress>, PolicyError> {
        Ok(Box::new(Self::new(values, false)))
    }

    pub(super) fn fair(values: &Values<'_>) -> Result<Box<dyn Egress>, PolicyError> {
        Ok(Box::new(Self::new(values, true)))
    }

    fn new(values: &Values<'_>, fair: bool) -> Self {
        let path = values.get("path");
        Self {
            every: values.get("every") as u32,
            own: values.is_on("own"),
            margin: values.get("margin") as u64,
            decisions: values.get("decisions") as u32,
            path: (path >= 0.0).then_some(PathId(path as u8)),
            fair,
            choices: Vec::new(),
        }
    }

    /// The path for the next ACK, by hysteresis.
    fn choose(&mut self, segment: &Outgoing, paths: &[PathView]) -> PathId {
        let own = paths.iter().find(|p| p.id == segment.own);
        if let Some(path) = self.path {
            let up = paths.iter().any(|p| p.id == path && p.up);
            return if up { path } else { segment.own };
        }
        let heard = own.map_or(Instant::ZERO, |p| p.heard);
        let alive =
            |p: &&PathView| p.up && !p.rtt.is_zero() && !is_unresponsive(p, segment.now, heard);
        let choice = &mut self.choices[usize::from(segment.subflow.0)];
        let now = choice.path.unwrap_or(segment.own);
        let Some(present) = paths.iter().filter(alive).find(|p| p.id == now) else {
            // Unknown or dead: its own path, of which more is known soon.
            choice.path = Some(segment.own);
            choice.better = 0;
            return segment.own;
        };
        let best = paths.iter().filter(alive).min_by_key(|p| (p.rtt, p.id != segment.own));
        let enough = present.rtt.0 * (100 - self.margin);
        match best.filter(|best| best.rtt.0 * 100 < enough) {
            Some(best) => {
                choice.better += 1;
                if choice.better >= self.decisions {
                    choice.path = Some(best.id);
                    choice.better = 0;
                }
            }
            None => choice.better = 0,
        }
        choice.path.unwrap_or(now)
    }
}

/// Whether nothing has come by `path` although the subflow's own path, last heard at `own`, has
/// brought something since.
fn is_unresponsive(path: &PathView, now: Instant, own: Instant) -> bool {
    path.heard < own && now - path.heard > UNRESPONSIVE.max(path.rtt * 4)
}

impl Egress for HayAck {
    fn route(&mut self, segment: &Outgoing, paths: &[PathView]) -> PathSet {
        let own = PathSet::only(segment.own);
        if !segment.pure_ack {
            return own;
        }
        let at = usize::from(segment.subflow.0);
        if self.choices.len() <= at {
            self.choices.resize(at + 1, AckPathChoice::default());
        }
        let path = self.choose(segment, paths);
        let choice = &mut self.choices[at];
        choice.since_own += 1;
        let rtt = paths.iter().find(|p| p.id == segment.own).map_or(Duration::ZERO, |p| p.rtt);
        let interval = if rtt.is_zero() { OWN_INTERVAL } else { OWN_INTERVAL.min(rtt / 2) };
        let by_own = path == segment.own
            || segment.own_required
            || self.own
                && (choice.since_own >= self.every || segment.now - choice.own_at >= interval);
        let mut answer = PathSet::only(path);
        if by_own {
            (choice.since_own, choice.own_at) = (0, segment.now);
            answer.insert(segment.own);
        }
        answer
    }

    fn compensates(&self) -> bool {
        self.fair
    }

    fn reports_losses_by_own(&self) -> bool {
        self.own
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::SubflowId;

    fn paths(rtts: [u64; 2], now: Instant) -> [PathView; 2] {
        let view = |id, ms| PathView {
            id: PathId(id),
            up: true,
            rtt: Duration::from_millis(ms),
            heard: now,
        };
        [view(0, rtts[0]), view(1, rtts[1])]
    }

    fn ack(ms: u64) -> Outgoing {
        Outgoing {
            now: Instant(ms * 1_000_000),
            subflow: SubflowId(0),
            own: PathId(0),
            handshake: false,
            pure_ack: true,
            own_required: false,
            len: 52,
        }
    }

    fn policy() -> HayAck {
        HayAck::new(&Values::defaults(PARAMS), false)
    }

    fn ids(set: PathSet) -> Vec<u8> {
        set.iter().map(|p| p.0).collect()
    }

    /// Three decisions, then every eighth by its own path, or one in 50 ms at an RTT of 100.
    #[test]
    fn changes_after_three_decisions_and_keeps_a_thin_stream() {
        let mut hayack = policy();
        let mut ask = |ms| ids(hayack.route(&ack(ms), &paths([100, 5], Instant(ms * 1_000_000))));
        assert_eq!([ask(1000), ask(1001)], [[0], [0]]);
        let next: Vec<_> = (1002..1011).map(&mut ask).collect();
        let by_own = next.iter().filter(|set| set.contains(&0)).count();
        assert!(next.iter().all(|set| set.contains(&1)), "{next:?}");
        assert_eq!(by_own, 1, "{next:?}");
        assert_eq!(ask(1100), [0, 1], "50 ms without");
        assert_eq!(ask(1101), [1]);
    }

    /// As the paper has it: the smallest RTT at once, and nothing by its own path beside that.
    #[test]
    fn the_papers_form_changes_at_once_and_keeps_nothing() {
        let mut hayack = HayAck { own: false, margin: 0, decisions: 1, ..policy() };
        for ms in 0..1000 {
            let faster = ms / 100 % 2;
            let views = paths([100 + faster, 101 - faster], Instant(ms * 1_000_000));
            assert_eq!(ids(hayack.route(&ack(ms), &views)), [faster as u8], "{ms}");
        }
    }

    #[test]
    fn a_little_faster_is_no_reason() {
        let mut hayack = policy();
        for ms in 0..50 {
            assert_eq!(ids(hayack.route(&ack(ms), &paths([100, 81], Instant::ZERO))), [0]);
        }
    }

    #[test]
    fn acks_return_to_their_own_path_when_the_other_fails() {
        let mut hayack = policy();
        for ms in 0..5 {
            hayack.route(&ack(ms), &paths([100, 5], Instant(ms * 1_000_000)));
        }
        let mut views = paths([100, 5], Instant(4_000_000));
        views[0].heard = Instant(1_200_000_000);
        assert_eq!(ids(hayack.route(&ack(1200), &views)), [0], "silent for 1.2 s");
        for ms in 1200..1205 {
            hayack.route(&ack(ms), &paths([100, 5], Instant(ms * 1_000_000)));
        }
        let mut views = paths([100, 5], Instant(1_205_000_000));
        assert_eq!(ids(hayack.route(&ack(1205), &views)), [1]);
        views[1].up = false;
        assert_eq!(ids(hayack.route(&ack(1206), &views)), [0]);
    }

    #[test]
    fn data_and_what_must_be_seen_go_by_their_own_path() {
        let mut hayack = HayAck { path: Some(PathId(1)), ..policy() };
        let views = paths([5, 100], Instant::ZERO);
        hayack.route(&ack(0), &views);
        assert_eq!(ids(hayack.route(&ack(1), &views)), [1], "as told");
        let needed = Outgoing { own_required: true, ..ack(2) };
        assert_eq!(ids(hayack.route(&needed, &views)), [0, 1]);
        let data = Outgoing { pure_ack: false, ..ack(3) };
        assert_eq!(ids(hayack.route(&data, &views)), [0]);
    }
}
