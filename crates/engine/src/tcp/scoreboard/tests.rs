//! The scoreboard against a recount of the whole window, under random operations.

use super::*;
use crate::seq::Dsn;
use bytes::Bytes;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Op {
    Send(u16),
    Ack(u8),
    Sack(u8, u8),
    Detect,
    Timeout,
    Resend,
    Probe,
    Split(u8, u16),
    Unmark,
    Wait(u8),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (1..2000_u16).prop_map(Op::Send),
        2 => any::<u8>().prop_map(Op::Ack),
        4 => (any::<u8>(), any::<u8>()).prop_map(|(a, b)| Op::Sack(a, b)),
        3 => Just(Op::Detect),
        1 => Just(Op::Timeout),
        3 => Just(Op::Resend),
        1 => Just(Op::Probe),
        1 => (any::<u8>(), 1..1000_u16).prop_map(|(a, b)| Op::Split(a, b)),
        1 => Just(Op::Unmark),
        2 => any::<u8>().prop_map(Op::Wait),
    ]
}

struct Model {
    board: Scoreboard,
    una: u64,
    nxt: u64,
    now: Instant,
    newest: Newest,
}

impl Model {
    fn context(&self) -> AckContext {
        AckContext { now: self.now, echo_covers: None, min_rtt: Duration(5), high: 0 }
    }

    fn delivered(&mut self, delta: &Delta) {
        if let Some((newest, _)) = delta.newest
            && newest.after(self.newest.sent_at, self.newest.end)
        {
            self.newest = newest;
        }
    }

    fn apply(&mut self, op: &Op) {
        let at = |m: &Self, n: u8| m.una + (m.nxt - m.una) * u64::from(n) / 255;
        match *op {
            Op::Send(len) => {
                let data = Bytes::from(vec![0; usize::from(len)]);
                let chunk = Chunk { dsn: Dsn(self.nxt), data };
                self.board.push(TxSegment::new(self.nxt, chunk, Span::OWN, false));
                self.board.sent_next(self.now);
                self.nxt += u64::from(len);
            }
            Op::Ack(n) => {
                let to = at(self, n);
                let mut delta = Delta::default();
                self.board.acknowledge(to, &self.context(), &mut delta);
                assert_eq!(delta.acked, to - self.una);
                assert!(delta.delivered <= delta.acked);
                self.una = to;
                self.delivered(&delta);
            }
            Op::Sack(a, b) => {
                let (a, b) = (at(self, a.min(b)), at(self, a.max(b)));
                let mut delta = Delta::default();
                self.board.sack((a, b), &self.context(), &mut delta);
                assert!(delta.delivered <= self.nxt - self.una);
                self.delivered(&delta);
            }
            Op::Detect => {
                let (_, again) = self.board.detect(self.now, self.newest, Duration(20));
                assert!(again.is_none_or(|t| t > self.now));
            }
            Op::Timeout => {
                self.board.mark_timeout(self.now, Duration(20));
            }
            Op::Resend => {
                if let Some(ssn) = self.board.next_lost().map(|s| s.ssn) {
                    self.board.resent(ssn, self.now);
                }
            }
            Op::Probe => {
                if let Some(ssn) = self.board.last_sent().filter(|s| !s.sacked).map(|s| s.ssn) {
                    self.board.resent(ssn, self.now);
                }
            }
            Op::Split(n, max) => {
                let ssn = at(self, n);
                let at = self.board.segments.partition_point(|s| s.end() <= ssn);
                if let Some(ssn) = self.board.segments.get(at).map(|s| s.ssn) {
                    self.board.split(ssn, usize::from(max));
                }
            }
            Op::Unmark => self.board.unmark_lost(),
            Op::Wait(ns) => self.now += Duration(u64::from(ns)),
        }
    }

    fn check(&mut self) {
        let board = &self.board;
        let copies = |s: &TxSegment| u64::from(s.copies) * s.len();
        assert_eq!(board.pipe, board.segments.iter().map(copies).sum::<u64>());
        let sacked = board.segments.iter().filter(|s| s.sacked).count();
        assert_eq!(board.sacked_segments as usize, sacked);
        let mut next = self.una;
        for segment in &board.segments {
            assert_eq!(segment.ssn, next, "contiguous");
            next = segment.end();
            assert!(!(segment.sacked && segment.lost));
            assert!(!segment.lost || segment.copies == 0);
            if segment.lost {
                assert!(board.lost.contains(&segment.ssn), "a lost segment is never forgotten");
            }
        }
        assert_eq!(next, self.nxt);
        assert!(board.lost.iter().is_sorted());
    }
}

proptest! {
    #[test]
    fn agrees_with_a_recount(ops in prop::collection::vec(op(), 1..200)) {
        let mut model = Model {
            board: Scoreboard::default(),
            una: 1,
            nxt: 1,
            now: Instant(100),
            newest: Newest::default(),
        };
        for op in &ops {
            model.apply(op);
            model.check();
        }
        // Whatever happened, repeated timeouts and retransmissions empty the queue.
        for _ in 0..1000 {
            model.now += Duration(1000);
            model.board.mark_timeout(model.now, Duration(20));
            while let Some(ssn) = model.board.next_lost().map(|s| s.ssn) {
                model.board.resent(ssn, model.now);
                model.check();
            }
            prop_assert_eq!(model.board.lost.len(), 0);
            model.apply(&Op::Ack(200));
            if model.una == model.nxt {
                break;
            }
        }
    }
}

const CONTEXT: AckContext =
    AckContext { now: Instant(1000), echo_covers: None, min_rtt: Duration(100), high: 0 };

/// Segments of ten bytes, at these times.
fn board(sent_at: &[u64]) -> Scoreboard {
    let mut board = Scoreboard::default();
    for (n, at) in (0..).zip(sent_at) {
        let data = (0..10).map(|i| n as u8 * 10 + i).collect();
        let chunk = Chunk { dsn: Dsn(501 + n * 10), data };
        board.push(TxSegment::new(1 + n * 10, chunk, Span::OWN, false));
        board.sent_next(Instant(*at));
    }
    board
}

fn sack(board: &mut Scoreboard, block: (u64, u64), context: &AckContext) -> Delta {
    let mut delta = Delta::default();
    board.sack(block, context, &mut delta);
    delta
}

fn acknowledge(board: &mut Scoreboard, una: u64, context: &AckContext) -> Delta {
    let mut delta = Delta::default();
    board.acknowledge(una, context, &mut delta);
    delta
}

// RFC 8985 section 6.2 step 3: an original below what has been delivered.
#[test]
fn rfc8985_reordering_is_seen_on_originals_alone() {
    let mut b = board(&[1, 2, 3, 4]);
    assert!(!sack(&mut b, (21, 31), &CONTEXT).reordered);
    assert!(sack(&mut b, (11, 21), &CONTEXT).reordered);
    b.resent(1, Instant(5));
    let delta = acknowledge(&mut b, 31, &CONTEXT);
    assert!(!delta.reordered && delta.retransmitted, "{delta:?}");
    let delta = acknowledge(&mut b, 41, &CONTEXT);
    assert!(!delta.reordered && !delta.retransmitted, "{delta:?}");
}

// Karn's algorithm (RFC 6298 section 3): samples are of what was sent once.
#[test]
fn rfc6298_samples_are_of_what_was_sent_once() {
    let mut b = board(&[10, 30, 20, 40]);
    b.resent(31, Instant(50));
    let delta = acknowledge(&mut b, 41, &CONTEXT);
    assert_eq!((delta.oldest, delta.latest), (Some(Instant(10)), Some(Instant(30))));
    assert_eq!((delta.acked, delta.delivered), (40, 40));
}

// RFC 8985 section 6.2 step 2: an answer that may be to the original says nothing of when the
// retransmission arrived.
#[test]
fn rfc8985_ambiguous_retransmissions_are_skipped() {
    let newest = |sent_at: u64, echo: Option<u64>| {
        let mut b = board(&[10, 20]);
        b.resent(11, Instant(sent_at));
        let context = AckContext { echo_covers: echo.map(Instant), ..CONTEXT };
        sack(&mut b, (11, 21), &context).newest.map(|(newest, rtt)| (newest.end, rtt.0))
    };
    assert_eq!(newest(900, None), Some((21, 100)));
    assert_eq!(newest(901, None), None, "sooner than the smallest RTT");
    assert_eq!(newest(901, Some(901)), Some((21, 99)), "the echo tells");
    assert_eq!(newest(901, Some(900)), None);
}

#[test]
fn rack_segment_is_the_one_sent_last() {
    let mut b = board(&[10, 30, 30, 20]);
    let delta = acknowledge(&mut b, 41, &CONTEXT);
    let newest = Newest { sent_at: Instant(30), end: 31 };
    assert_eq!(delta.newest, Some((newest, Duration(970))));
    assert_eq!(delta.rate.map(|r| r.sent_at), Some(Instant(30)));
}

// RFC 5682 section 3.1: what was sent once, before the timeout.
#[test]
fn rfc5682_evidence_is_an_original_from_before_the_timeout() {
    for (high, again, original) in [(21, false, true), (20, false, false), (21, true, false)] {
        let mut b = board(&[1, 2]);
        if again {
            b.resent(11, Instant(5));
        }
        let context = AckContext { high, ..CONTEXT };
        assert_eq!(sack(&mut b, (11, 21), &context).original, original, "{high} {again}");
    }
}

/// Positions in the subflow, whether what they wait for is lost, and bytes in flight.
fn undelivered(board: &Scoreboard) -> Vec<(u64, bool, u64)> {
    let all = board.undelivered();
    all.map(|data| (data.chunk.dsn.0 - 500, data.lost, data.in_flight)).collect()
}

/// RFC 8684 section 3.3.1: what a mapping covers is of no use before the segment that carries it.
#[test]
fn what_is_sacked_without_its_mapping_is_not_delivered() {
    let mut b = board(&[1, 2, 3, 4]);
    for (segment, span) in b.segments.iter_mut().zip([Span::first(30), Span::WITHIN]) {
        segment.span = span;
    }
    b.segments[2].span = Span::WITHIN;
    sack(&mut b, (11, 41), &CONTEXT);
    assert_eq!(undelivered(&b), [(21, false, 0), (11, false, 0), (1, false, 10)]);
    b.mark_first_lost();
    assert_eq!(undelivered(&b), [(21, true, 0), (11, true, 0), (1, true, 10)]);
    acknowledge(&mut b, 11, &CONTEXT);
    assert_eq!(undelivered(&b), []);
}

#[test]
fn what_is_pending_comes_newest_first() {
    let mut b = board(&[1, 2, 3, 4]);
    sack(&mut b, (21, 31), &CONTEXT);
    b.mark_first_lost();
    let chunk = Chunk { dsn: Dsn(541), data: Bytes::from_static(b"unsent") };
    b.push(TxSegment::new(41, chunk, Span::OWN, false));
    assert_eq!(undelivered(&b), [(41, false, 6), (31, false, 10), (11, false, 10), (1, true, 10)]);
    assert_eq!((b.outstanding_segments(), b.unsent_bytes()), (4, 6));
    assert_eq!(b.oldest_sent(), Instant(1));
    assert_eq!(Scoreboard::default().oldest_sent(), Instant::FAR_FUTURE);
}

#[test]
fn what_is_acknowledged_in_part_keeps_its_rest() {
    for lost in [false, true] {
        let mut b = board(&[1, 2]);
        if lost {
            b.mark_first_lost();
        }
        let delta = acknowledge(&mut b, 5, &CONTEXT);
        assert_eq!((delta.acked, delta.delivered), (4, 4));
        let first = b.first().unwrap();
        assert_eq!((first.ssn, first.end(), first.chunk.dsn), (5, 11, Dsn(505)));
        assert_eq!(first.chunk.data[..], [4, 5, 6, 7, 8, 9]);
        assert_eq!(b.next_lost().map(|s| s.ssn), lost.then_some(5));
        assert_eq!(b.pipe(), if lost { 10 } else { 16 });
    }
}

// RFC 8985 section 6.2 step 5: RACK_detect_loss.
#[test]
fn rfc8985_lost_is_what_has_had_its_time() {
    let newest = Newest { sent_at: Instant(300), end: 41 };
    let mut b = board(&[100, 110, 120, 300]);
    assert_eq!(b.detect(Instant(149), newest, Duration(50)), (0, Some(Instant(150))));
    assert_eq!(b.detect(Instant(150), newest, Duration(50)), (10, Some(Instant(160))));
    assert_eq!(b.detect(Instant(170), newest, Duration(50)), (20, None), "not the newest itself");
    for ssn in [1, 11] {
        b.resent(ssn, Instant(200 + ssn));
    }
    // Retransmissions that were sent before `newest`, the first of them first.
    assert_eq!(b.detect(Instant(240), newest, Duration(50)), (0, Some(Instant(251))));
    assert_eq!(b.detect(Instant(251), newest, Duration(50)), (10, Some(Instant(261))));
    assert_eq!(b.detect(Instant(900), newest, Duration(50)), (10, None));
    assert_eq!(b.pipe(), 10);
    let mut b = board(&[100, 205, 300]);
    b.resent(1, Instant(210));
    assert_eq!(b.detect(Instant(250), newest, Duration(50)), (0, Some(Instant(255))));
}

// RFC 8985 section 6.3: the first, and what has had its time.
#[test]
fn rfc8985_timeout_marks() {
    let mut b = board(&[100, 110, 120, 130]);
    sack(&mut b, (11, 21), &CONTEXT);
    assert_eq!(b.mark_timeout(Instant(170), Duration(50)), 20);
    assert_eq!(undelivered(&b), [(31, false, 10), (21, true, 10), (1, true, 10)]);
    b.resent(1, Instant(171));
    assert_eq!(b.mark_timeout(Instant(172), Duration(50)), 10, "the first, always");
}

fn bind(board: &mut Scoreboard, ssn: u64) {
    let chunk = Chunk { dsn: Dsn(500 + ssn), data: Bytes::from_static(&[0; 10]) };
    board.push(TxSegment::new(ssn, chunk, Span::OWN, false));
}

#[test]
fn what_is_bound_and_not_sent_is_no_loss_and_no_probe() {
    let mut b = board(&[1, 2]);
    bind(&mut b, 21);
    assert_eq!(b.last_sent().map(|s| s.ssn), Some(11));
    assert_eq!(b.mark_timeout(Instant(900), Duration(1)), 20);
    b.split(21, 4);
    assert_eq!((b.outstanding_segments(), b.unsent_bytes()), (2, 10));
    assert_eq!(b.next_unsent().map(|s| (s.ssn, s.len())), Some((21, 4)));
}

#[test]
fn the_first_is_marked_lost_once_and_if_it_is_under_way() {
    let mut b = board(&[1, 2]);
    assert_eq!((b.mark_first_lost(), b.mark_first_lost()), (10, 0));
    let mut b = board(&[1, 2]);
    sack(&mut b, (1, 11), &CONTEXT);
    assert_eq!(b.mark_first_lost(), 0);
    let mut b = board(&[]);
    bind(&mut b, 1);
    assert_eq!(b.mark_first_lost(), 0);
}

// RFC 2018 section 3: a block is of bytes received; of a segment received in part nothing is known.
#[test]
fn rfc2018_a_segment_that_is_reported_in_part_is_not_delivered() {
    let mut b = board(&[1, 2, 3, 4]);
    let delta = sack(&mut b, (5, 35), &CONTEXT);
    assert_eq!((delta.sacked, delta.delivered, b.pipe()), (2, 20, 20));
    let delta = sack(&mut b, (1, 35), &CONTEXT);
    assert_eq!((delta.sacked, delta.delivered, b.pipe()), (1, 10, 10));
}

// RFC 8985 section 6.2: retransmissions stay under watch, whatever is acknowledged before them.
#[test]
fn rfc8985_retransmissions_that_are_lost_are_found() {
    let newest = Newest { sent_at: Instant(100), end: 41 };
    for order in [[11, 21], [21, 11]] {
        let mut b = board(&[1, 2, 3, 100]);
        b.mark_timeout(Instant(40), Duration(10));
        order.into_iter().for_each(|ssn| b.resent(ssn, Instant(50 + ssn)));
        acknowledge(&mut b, 11, &CONTEXT);
        assert_eq!(b.detect(Instant(900), newest, Duration(50)).0, 20, "{order:?}");
    }
    let mut b = board(&[1, 100]);
    b.resent(1, Instant(50));
    b.split(1, 4);
    let newest = Newest { end: 21, ..newest };
    assert_eq!(b.detect(Instant(900), newest, Duration(50)).0, 10, "both halves");
}
