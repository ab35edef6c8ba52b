//! Hostile and random segments, timers and application calls in any order: nothing panics, what
//! is sent stays within what is known, and memory stays bounded.

use super::pair::setup;
use crate::config::TcpConfig;
use crate::policy::Spec;
use crate::seq::Dsn;
use crate::tcp::{Chunk, State, Tcb};
use crate::time::{Duration, Instant};
use bytes::Bytes;
use proptest::prelude::*;
use tabane_wire::{Ecn, Flags, Segment, SeqNum, TcpOptions, Timestamps};

const PEER_ISS: u32 = 0x7fff_fff0;

#[derive(Clone, Debug)]
enum Op {
    Segment { seq: i32, ack: i32, flags: u8, window: u16, len: u16, echo: i32, ts: Option<i32> },
    Sack(Vec<(i32, i32)>),
    Push(u8),
    Wait(u32),
    Poll(u32),
    Close,
    Abort,
    Mtu(u16),
    Blocked(bool),
    RequestAck,
    Penalise,
}

fn near() -> impl Strategy<Value = i32> {
    prop_oneof![6 => -3000..6000_i32, 2 => -70_000..140_000_i32, 1 => any::<i32>()]
}

fn op() -> impl Strategy<Value = Op> {
    let flags = prop_oneof![6 => Just(16_u8), 2 => Just(17), 1 => Just(4), 1 => any::<u8>()];
    let segment =
        (near(), near(), flags, any::<u16>(), 0..3000_u16, near(), prop::option::of(near()))
            .prop_map(|(seq, ack, flags, window, len, echo, ts)| Op::Segment {
                seq,
                ack,
                flags,
                window,
                len,
                echo,
                ts,
            });
    prop_oneof![
        8 => segment,
        4 => prop::collection::vec((near(), near()), 0..4).prop_map(Op::Sack),
        4 => (1..20_u8).prop_map(Op::Push),
        4 => (0..2_000_000_000_u32).prop_map(Op::Wait),
        4 => any::<u32>().prop_map(Op::Poll),
        1 => Just(Op::Close),
        1 => Just(Op::Abort),
        1 => any::<u16>().prop_map(Op::Mtu),
        1 => any::<bool>().prop_map(Op::Blocked),
        1 => Just(Op::RequestAck),
        1 => Just(Op::Penalise),
    ]
}

struct Victim {
    tcb: Tcb,
    now: Instant,
    window: u64,
}

impl Victim {
    fn base(&self) -> Segment {
        let ours = setup(0, "reno");
        Segment {
            src: ours.remote,
            dst: ours.local,
            seq: SeqNum(PEER_ISS),
            ack: SeqNum(0),
            flags: Flags::ACK,
            window: 10_000,
            ecn: Ecn::Ce,
            options: TcpOptions::default(),
            payload: Bytes::new(),
        }
    }

    fn theirs(&self, offset: i32) -> SeqNum {
        SeqNum(PEER_ISS).plus(self.tcb.rcv_nxt().0 as u32).plus(offset as u32)
    }

    fn ours(&self, offset: i32) -> SeqNum {
        SeqNum(setup(0, "reno").iss).plus(self.tcb.snd_una().0 as u32).plus(offset as u32)
    }

    fn apply(&mut self, op: &Op) {
        match op {
            Op::Segment { seq, ack, flags, window, len, echo, ts } => {
                let mut s = self.base();
                (s.seq, s.ack) = (self.theirs(*seq), self.ours(*ack));
                (s.flags, s.window) = (Flags(*flags), *window);
                s.payload = Bytes::from(vec![0; usize::from(*len)]);
                let clock = self.now.as_millis() as u32;
                s.options.timestamps = ts.map(|ts| Timestamps {
                    value: clock.wrapping_add_signed(ts),
                    echo: clock.wrapping_add_signed(*echo),
                });
                self.give(&s);
            }
            Op::Sack(blocks) => {
                let mut s = self.base();
                (s.seq, s.ack) = (self.theirs(0), self.ours(0));
                for &(a, b) in blocks {
                    s.options.sack.push(self.ours(a), self.ours(b));
                }
                self.give(&s);
            }
            Op::Push(n) => {
                for _ in 0..*n {
                    let len = self.tcb.mss().min(self.tcb.sendable(self.now)) as usize;
                    if len == 0 {
                        break;
                    }
                    let chunk = Chunk { dsn: Dsn(1), data: Bytes::from(vec![0; len]) };
                    self.tcb.push(self.now, chunk);
                }
            }
            Op::Wait(ns) => {
                self.now += Duration(u64::from(*ns));
                self.tcb.on_timeout(self.now, &[]);
                assert!(self.tcb.next_timeout().is_none_or(|t| t > self.now), "a timer is stuck");
            }
            Op::Poll(window) => self.window = u64::from(*window),
            Op::Close => self.tcb.close(self.now),
            Op::Abort => self.tcb.abort(),
            Op::Mtu(mtu) => self.tcb.set_mtu(*mtu),
            Op::Blocked(b) => self.tcb.set_blocked(self.now, *b),
            Op::RequestAck => self.tcb.request_ack(),
            Op::Penalise => self.tcb.penalise(self.now),
        }
        self.drain();
    }

    fn give(&mut self, segment: &Segment) {
        let before = (self.tcb.snd_una(), self.tcb.rcv_nxt());
        let accepted = self.tcb.on_segment(self.now, segment, &[]);
        assert!(self.tcb.snd_una() >= before.0 && self.tcb.rcv_nxt() >= before.1);
        assert!(self.tcb.snd_una() <= self.tcb.snd_nxt());
        if let Some((_, data)) = accepted.payload {
            assert!(!data.is_empty() && data.len() <= segment.payload.len());
        }
    }

    fn drain(&mut self) {
        let mut left = 0;
        let mut segment = Segment::blank();
        while let Some(out) = self.tcb.poll_segment(self.now, self.window, &mut segment) {
            left += 1;
            assert!(left < 2000, "no end of segments: {:?}", out.segment);
            assert!(out.segment.payload.len() as u64 <= 1460);
            let end = out.ssn.0 + u64::from(out.segment.seq_len());
            let limit = self.tcb.snd_nxt().0.max(1);
            assert!(end <= limit, "{end} beyond what was bound, {limit}");
        }
        let view = self.tcb.view(self.now);
        assert!(view.cwnd >= view.mss || view.cwnd >= 88);
        if self.tcb.state() == State::Closed {
            assert_eq!((self.tcb.next_timeout(), view.sendable), (None, 0));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn nothing_panics_and_nothing_runs_away(
        passive: bool,
        sack: bool,
        controller in prop::sample::select(vec!["reno", "cubic"]),
        ops in prop::collection::vec(op(), 1..120),
    ) {
        let config = TcpConfig {
            sack,
            ecn: true,
            keepalive: Some(Duration::from_secs(100)),
            congestion: Spec::named(controller),
            ..TcpConfig::default()
        };
        let now = Instant::ZERO + Duration::from_secs(3600);
        let ours = setup(0, controller);
        let mut syn = Segment {
            src: ours.remote,
            dst: ours.local,
            seq: SeqNum(PEER_ISS),
            ack: SeqNum(ours.iss).plus(1),
            flags: Flags::SYN,
            window: 65_000,
            ecn: Ecn::NotEct,
            options: TcpOptions {
                mss: Some(1460),
                window_scale: Some(7),
                sack_permitted: sack,
                ..TcpOptions::default()
            },
            payload: Bytes::new(),
        };
        let tcb = if passive {
            Tcb::accept(now, &config.clone().into(), ours, &syn).unwrap()
        } else {
            Tcb::connect(now, &config.clone().into(), ours).unwrap()
        };
        let mut victim = Victim { tcb, now, window: 100_000 };
        victim.drain();
        syn.flags = if passive { Flags::ACK } else { Flags::SYN | Flags::ACK };
        syn.seq = if passive { syn.seq.plus(1) } else { syn.seq };
        victim.give(&syn);
        prop_assert_eq!(victim.tcb.state(), State::Established);
        for op in &ops {
            victim.apply(op);
        }
    }
}
