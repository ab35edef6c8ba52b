//! Loss recovery state of a subflow: RACK (RFC 8985 section 6), proportional rate reduction
//! (RFC 6937, 9937), F-RTO (RFC 5682), and undoing what was spurious (RFC 3522, 3708).
//!
//! The scoreboard knows which segments are where; this decides what that means. Tail loss probes
//! are in `probe.rs`.

use super::scoreboard::{Delta, Newest};
use crate::time::{Duration, Instant};
use crate::view::RecoveryPhase;
use std::collections::VecDeque;

/// Loss recovery: its phase, and what tells whether a timeout was spurious.
#[derive(Debug, Default)]
pub(super) struct Recovery {
    pub(super) phase: RecoveryPhase,
    /// SND.NXT when the present recovery began: it ends when this is acknowledged.
    pub(super) high: u64,
    pub(super) prr: Prr,
    pub(super) rack: Rack,
    pub(super) undo: Undo,
    /// Retransmissions that leave whatever the window says: the first after a loss signal, and
    /// those of a timeout.
    pub(super) forced: u32,
    /// F-RTO is trying to find out whether the timeout was spurious.
    pub(super) frto: bool,
    /// F-RTO step 2: until then new data goes first.
    pub(super) frto_hold: Option<Instant>,
    pub(super) frto_held: bool,
    /// Without SACK: duplicate ACKs in a row, and the bytes they stand for.
    pub(super) dupacks: u32,
    pub(super) dup_credit: u64,
    /// ECN: one cut per window; it ends when this is acknowledged.
    pub(super) ecn_high: u64,
    /// Bytes found lost by the reordering timer; the next ACK reports them to congestion control.
    pub(super) untold: u64,
    /// When the first path came up since data was last acknowledged.
    pub(super) retried: Option<Instant>,
}

/// Proportional rate reduction, in bytes.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Prr {
    delivered: u64,
    out: u64,
    recover_fs: u64,
    allowance: u64,
}

impl Prr {
    /// Recovery begins with `flight` bytes outstanding (RecoverFS: without what was SACKed before,
    /// and with what the ACK that begins it delivers).
    pub(super) fn begin(&mut self, flight: u64) {
        *self = Self { recover_fs: flight.max(1), ..Self::default() };
    }

    /// An ACK in recovery, the first included (RFC 9937 section 6). `safe`: SND.UNA advanced and
    /// nothing more was found lost.
    pub(super) fn on_ack(
        &mut self,
        delivered: u64,
        pipe: u64,
        ssthresh: u64,
        mss: u64,
        safe: bool,
    ) {
        self.delivered += delivered;
        self.allowance = if pipe > ssthresh {
            let due = (u128::from(self.delivered) * u128::from(ssthresh))
                .div_ceil(u128::from(self.recover_fs)) as u64;
            due.saturating_sub(self.out)
        } else {
            let conservative = self.delivered.saturating_sub(self.out).max(delivered);
            (ssthresh - pipe).min(conservative + if safe { mss } else { 0 })
        };
        // The first retransmission leaves in any case. So does what is next with nothing in flight:
        // no acknowledgement will come that lets it.
        if self.allowance == 0 && (self.out == 0 || pipe == 0) {
            self.allowance = mss;
        }
    }

    /// Counts `bytes` sent during recovery.
    pub(super) fn on_sent(&mut self, bytes: u64) {
        self.out += bytes;
        self.allowance = self.allowance.saturating_sub(bytes);
    }

    /// A segment may leave while this is not zero: rounding up to whole segments is the formula's
    /// CEIL, and what goes over is charged to the next ACKs.
    pub(super) fn allowance(&self) -> u64 {
        self.allowance
    }
}

/// RACK: time-based loss detection.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Rack {
    pub(super) newest: Newest,
    pub(super) rtt: Duration,
    reordering_seen: bool,
    dsack_round: Option<u64>,
    mult: u32,
    persist: u32,
}

impl Rack {
    /// Recoveries for which a widened reordering window is kept (RFC 8985 section 6.2 step 4).
    const PERSIST: u32 = 16;

    pub(super) fn on_delivered(&mut self, delta: &Delta) {
        if let Some((newest, rtt)) = delta.newest {
            self.rtt = rtt;
            if newest.after(self.newest.sent_at, self.newest.end) {
                self.newest = newest;
            }
        }
        self.reordering_seen |= delta.reordered;
    }

    /// A DSACK for something that we sent again: we were too quick. Once per round.
    pub(super) fn on_dsack(&mut self, una: u64, nxt: u64) {
        if self.dsack_round.is_some_and(|end| una >= end) {
            self.dsack_round = None;
        }
        if self.dsack_round.is_none() {
            self.dsack_round = Some(nxt);
            self.mult = self.mult.max(1).saturating_add(1);
            self.persist = Self::PERSIST;
        }
    }

    pub(super) fn on_recovery_end(&mut self) {
        self.persist = self.persist.saturating_sub(1);
        if self.persist == 0 {
            self.mult = 1;
        }
    }

    pub(super) fn saw_reordering(&mut self) {
        self.reordering_seen = true;
    }

    /// Time after which something sent before `newest` is lost: RACK.rtt + RACK.reo_wnd.
    pub(super) fn wait(&self, hasty: bool, min_rtt: Duration, srtt: Duration) -> Duration {
        let window = if !self.reordering_seen && hasty {
            Duration::ZERO
        } else {
            (min_rtt * u64::from(self.mult.max(1)) / 4).min(srtt)
        };
        self.rtt + window
    }
}

/// Evidence for and against the last congestion response.
#[derive(Debug, Default)]
pub(super) struct Undo {
    /// The episode that may be undone.
    episode: Option<Episode>,
    /// Ranges sent again in it for which no DSACK has come.
    pending: Vec<(u64, u64)>,
    /// Ranges sent again recently, for whatever reason, and whether a DSACK has come for them. A
    /// DSACK for any other range means that the network duplicates segments.
    resent: VecDeque<((u64, u64), bool)>,
    /// The network duplicates segments: duplicates prove nothing (RFC 3708 section 3.4).
    network_duplicates: bool,
}

#[derive(Debug, Default)]
struct Episode {
    /// Timestamp of the first that it sent again, and where it ends.
    first: Option<(u32, u64)>,
    /// Too many to keep track of.
    overflow: bool,
}

impl Undo {
    /// Retransmissions remembered per episode, and in all.
    const LIMIT: usize = 256;

    /// A new congestion response begins.
    pub(super) fn begin(&mut self) {
        self.episode = Some(Episode::default());
        self.pending.clear();
    }

    /// `[start, end)` leaves again, with TSval `stamp`; `probe`: not because of a loss mark.
    pub(super) fn on_resent(&mut self, start: u64, end: u64, stamp: u32, probe: bool) {
        if self.resent.len() == Self::LIMIT {
            self.resent.pop_front();
        }
        self.resent.push_back(((start, end), false));
        if probe {
            return;
        }
        if let Some(episode) = &mut self.episode {
            episode.first.get_or_insert((stamp, end));
            if self.pending.len() < Self::LIMIT {
                self.pending.push((start, end));
            } else {
                episode.overflow = true;
            }
        }
    }

    /// A DSACK for `[start, end)`. Whether it is for something that we sent again. One that has
    /// been answered says nothing when it comes again: the ACK has, by another path perhaps.
    pub(super) fn on_dsack(&mut self, start: u64, end: u64) -> bool {
        let covers = |&(s, e): &(u64, u64)| start <= s && e <= end || s <= start && end <= e;
        let mut here = self.resent.iter_mut().filter(|(range, _)| covers(range)).peekable();
        if here.peek().is_none() {
            self.network_duplicates = true;
            return false;
        }
        match here.find(|(_, answered)| !answered) {
            Some((_, answered)) => *answered = true,
            None => return false,
        }
        if self.episode.is_some()
            && let Some(at) = self.pending.iter().position(covers)
        {
            self.pending.swap_remove(at);
        }
        true
    }

    /// Every retransmission of the episode was answered by a DSACK.
    pub(super) fn all_dsacked(&self) -> bool {
        let answered = |e: &Episode| e.first.is_some() && self.pending.is_empty() && !e.overflow;
        !self.network_duplicates && self.episode.as_ref().is_some_and(answered)
    }

    /// The echo on an ACK that advances to `una` is older than the first retransmission, which it
    /// covers (Eifel, RFC 3522 section 3.2). One that ends before may be for what an earlier
    /// episode has sent again: its echo is older, and says nothing of this one.
    pub(super) fn echo_is_older(&self, echo: u32, una: u64) -> bool {
        !self.network_duplicates
            && self
                .episode
                .as_ref()
                .and_then(|e| e.first)
                .is_some_and(|(stamp, end)| una >= end && (echo.wrapping_sub(stamp) as i32) < 0)
    }

    /// Whether the episode has sent anything again.
    pub(super) fn sent_again(&self) -> bool {
        self.episode.as_ref().is_some_and(|e| e.first.is_some())
    }

    /// Over: undone, or not to be.
    pub(super) fn end(&mut self) {
        self.episode = None;
    }

    pub(super) fn sees_duplication(&self) -> bool {
        self.network_duplicates
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 6937 section 3.1: 20 segments in flight, the first lost, ssthresh 10.
    #[test]
    fn prr_follows_the_trace_of_rfc_6937() {
        let mut prr = Prr::default();
        // ACKs 1 and 2 are limited transmit (new data, pipe stays 20); the third starts recovery.
        let mut pipe = 20_i64 - 1; // lost segment left the pipe
        prr.begin(20);
        let mut after = Vec::new();
        for ack in 3..=19 {
            pipe -= 1;
            prr.on_ack(1, pipe as u64, 10, 1, false);
            let mut sent = 0;
            while prr.allowance() > 0 {
                prr.on_sent(1);
                pipe += 1;
                sent += 1;
            }
            after.push((ack, sent, pipe));
        }
        let sends: Vec<i32> = after.iter().map(|a| a.1).collect();
        let pipes: Vec<i64> = after.iter().map(|a| a.2).collect();
        assert_eq!(sends[..16], [1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0]);
        assert_eq!(pipes, [19, 18, 18, 17, 17, 16, 16, 15, 15, 14, 14, 13, 13, 12, 12, 11, 10]);
    }

    /// Three holes, nothing else in flight: each repair lets the next one leave, also if the
    /// acknowledgement of one is what finds the next.
    #[test]
    fn with_nothing_in_flight_something_may_always_leave() {
        let mut prr = Prr::default();
        prr.begin(20);
        prr.on_sent(1);
        prr.on_ack(1, 0, 10, 1, false);
        assert!(prr.allowance() > 0);
        prr.on_sent(1);
        prr.on_ack(0, 0, 10, 1, false);
        assert_eq!(prr.allowance(), 1, "by the reordering timer");
    }

    #[test]
    fn dsack_for_what_was_never_sent_again_disables_undo() {
        let mut undo = Undo::default();
        undo.begin();
        undo.on_resent(100, 200, 7, false);
        assert!(!undo.all_dsacked());
        assert!(!undo.on_dsack(500, 600));
        assert!(undo.on_dsack(100, 200));
        assert!(!undo.all_dsacked(), "the network duplicates: no proof");
        let mut undo = Undo::default();
        undo.begin();
        undo.on_resent(100, 200, 7, false);
        assert!(undo.on_dsack(100, 200));
        assert!(undo.all_dsacked());
        assert!(undo.echo_is_older(6, 200) && !undo.echo_is_older(7, 200));
        assert!(!undo.echo_is_older(6, 199), "for something else");
    }

    /// RFC 6937 section 3: no more than ssthresh; RFC 9937: what was delivered, and a segment
    /// more if that is safe.
    #[test]
    fn prr_below_ssthresh_follows_what_is_delivered() {
        let mut prr = Prr::default();
        prr.begin(20_000);
        prr.on_ack(1000, 3000, 10_000, 1000, false);
        assert_eq!(prr.allowance(), 1000);
        prr.on_ack(1000, 3000, 10_000, 1000, true);
        assert_eq!(prr.allowance(), 3000, "none of it sent, and one more");
        prr.on_sent(3000);
        assert_eq!(prr.allowance(), 0);
        prr.on_ack(1000, 6000, 10_000, 1000, false);
        assert_eq!(prr.allowance(), 1000);
        prr.on_ack(5000, 9500, 10_000, 1000, true);
        assert_eq!(prr.allowance(), 500);
        prr.on_ack(5000, 10_000, 10_000, 1000, true);
        assert_eq!(prr.allowance(), 0);
    }

    /// RFC 8985 section 6.2 steps 2 and 4.
    #[test]
    fn rfc8985_dsacks_widen_the_reordering_window() {
        let window = |rack: &Rack| rack.wait(false, Duration(400), Duration(10_000)).0 - 1000;
        let mut rack = Rack { rtt: Duration(1000), ..Rack::default() };
        assert_eq!(window(&rack), 100, "a quarter of the smallest RTT");
        assert_eq!(rack.wait(true, Duration(400), Duration(10_000)), Duration(1000));
        rack.saw_reordering();
        assert_eq!(rack.wait(true, Duration(400), Duration(10_000)), Duration(1100));
        assert_eq!(rack.wait(true, Duration(400), Duration(50)), Duration(1050), "at most SRTT");
        rack.on_dsack(10, 50);
        assert_eq!(window(&rack), 200);
        rack.on_dsack(49, 60);
        assert_eq!(window(&rack), 200, "once a round");
        rack.on_dsack(50, 90);
        assert_eq!(window(&rack), 300);
        for _ in 0..15 {
            rack.on_recovery_end();
        }
        assert_eq!(window(&rack), 300);
        rack.on_recovery_end();
        assert_eq!(window(&rack), 100, "after sixteen recoveries as in the beginning");
    }

    #[test]
    fn rack_keeps_the_segment_that_was_sent_last() {
        let mut rack = Rack::default();
        let delta = |sent_at, end, rtt, reordered| {
            let newest = Newest { sent_at: Instant(sent_at), end };
            Delta { newest: Some((newest, Duration(rtt))), reordered, ..Delta::default() }
        };
        let quarter = |rack: &Rack| rack.wait(true, Duration(4), Duration(100)) - rack.rtt;
        rack.on_delivered(&delta(10, 100, 7, false));
        assert_eq!((rack.newest.end, rack.rtt), (100, Duration(7)));
        rack.on_delivered(&delta(9, 200, 8, false));
        assert_eq!((rack.newest.end, rack.rtt), (100, Duration(8)), "the RTT is the latest");
        rack.on_delivered(&delta(10, 101, 9, false));
        assert_eq!(rack.newest.end, 101, "of those sent at once, the one with the higher number");
        assert_eq!(quarter(&rack), Duration::ZERO);
        rack.on_delivered(&delta(5, 50, 9, true));
        assert_eq!(quarter(&rack), Duration(1), "reordering has been seen");
    }

    /// What is not remembered proves nothing.
    #[test]
    fn more_retransmissions_than_are_remembered_are_no_proof() {
        let resend = |undo: &mut Undo, n: u64| {
            undo.begin();
            (0..n).for_each(|i| undo.on_resent(i * 10, i * 10 + 10, 1, false));
            (0..n).for_each(|i| {
                undo.on_dsack(i * 10, i * 10 + 10);
            });
        };
        let mut undo = Undo::default();
        resend(&mut undo, Undo::LIMIT as u64);
        assert!(undo.all_dsacked());
        let mut undo = Undo::default();
        resend(&mut undo, Undo::LIMIT as u64 + 1);
        assert!(!undo.all_dsacked());
    }

    /// RFC 2883 section 4: the ranges need not be those of our segments.
    #[test]
    fn a_dsack_may_cover_more_or_less_than_what_was_sent_again() {
        for (start, end, ours) in [(90, 210, true), (120, 150, true), (50, 150, false)] {
            let mut undo = Undo::default();
            undo.begin();
            undo.on_resent(100, 200, 7, false);
            assert!(undo.sent_again());
            assert_eq!(undo.on_dsack(start, end), ours, "{start}..{end}");
            assert_eq!((undo.all_dsacked(), undo.sees_duplication()), (ours, !ours));
        }
        let mut undo = Undo::default();
        undo.begin();
        undo.on_resent(100, 200, 7, true);
        assert!(undo.on_dsack(100, 200), "a probe's");
        assert!(!undo.all_dsacked() && !undo.sent_again(), "which is no loss that could be undone");
        assert!(!undo.on_dsack(100, 200), "answered already");
        assert!(!undo.sees_duplication());
    }
}
