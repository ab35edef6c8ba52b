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
                self.board.push(TxSegment::new(self.nxt, chunk, false));
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
