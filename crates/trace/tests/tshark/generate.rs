//! Random packets that look enough like TCP to reach every rule of the classifier.

use bytes::Bytes;
use std::net::SocketAddr;
use tabane_wire::mptcp::{AddAddr, MpCapable, MpJoin, MptcpOption};
use tabane_wire::{DataNumber, Dss, Ecn, Flags, Mapping, Segment, SeqNum, TcpOptions};

/// What kind of traffic is generated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// No MPTCP.
    Plain,
    /// Half of the streams in connections, options of all kinds.
    Mptcp,
    /// Sequence numbers around 0 and lengths of a few bytes.
    Tiny,
}

/// A packet and its time in nanoseconds since the start of the capture.
pub(crate) type Timed = (u64, Segment);

/// A small generator: splitmix64.
pub(crate) struct Rng(pub(crate) u64);

impl Rng {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    pub(crate) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }
}

/// One end of a stream.
#[derive(Clone)]
struct End {
    addr: SocketAddr,
    isn: u32,
    next: u32,
    ack: u32,
    window: u16,
    shift: Option<u8>,
    key: u64,
    last: Option<Segment>,
}

struct Stream {
    kind: Kind,
    ends: [End; 2],
    mptcp: bool,
    /// Joins the connection of which the server has this key.
    join: Option<u64>,
    shaken: u32,
    handshake: bool,
}

/// Packets of `streams` streams, interleaved.
pub(crate) fn generate(kind: Kind, seed: u64, streams: usize) -> Vec<Timed> {
    let mut rng = Rng(seed);
    let mut time = 1_000_000_000u64;
    let mut out = Vec::new();
    let mut made = 0;
    let mut keys = Vec::new();
    let mut alive: Vec<Stream> = Vec::new();
    while made < streams || !alive.is_empty() {
        if made < streams && alive.len() < 12 {
            let stream = Stream::new(kind, made, &mut rng, &mut keys);
            alive.push(stream);
            made += 1;
        }
        let steps = [0, 1, 1_000, 40_000, 500_000, 1_000_000, 2_900_000, 3_100_000, 9_000_000];
        time += rng.pick(&steps);
        if rng.one_in(60) {
            time += rng.pick(&[19_900_000, 20_000_000, 25_000_000, 200_000_000, 1_500_000_000]);
        }
        let at = if rng.one_in(70) { time - rng.below(4_000_000) } else { time };
        // Mostly the same few streams, so that their packets come close together.
        let len = alive.len() as u64;
        let n = (rng.below(len) * rng.below(len) / len.max(1)) as usize;
        let segment = alive[n].step(&mut rng);
        out.push((at, segment));
        if rng.one_in(90) {
            alive.swap_remove(n);
        }
    }
    out
}

impl Stream {
    fn new(kind: Kind, number: usize, rng: &mut Rng, keys: &mut Vec<u64>) -> Self {
        let isn = |rng: &mut Rng| match (kind, rng.below(4)) {
            (Kind::Tiny, _) => (rng.below(8) as u32).wrapping_sub(4),
            (_, 0) => u32::MAX - rng.below(6_000) as u32,
            (_, 1) => 0x7fff_ffff - rng.below(6_000) as u32,
            _ => rng.next() as u32,
        };
        let mut end = |host: u8, port: u16| {
            let isn = isn(rng);
            let addr = if number % 5 == 4 {
                SocketAddr::new([0xfd, 0, 0, 0, 0, 0, 0, u16::from(host)].into(), port)
            } else {
                SocketAddr::new([10, 0, 0, host].into(), port)
            };
            let shift = (!rng.one_in(4)).then(|| rng.below(9) as u8);
            let key = rng.next();
            let window = rng.pick(&[0, 1, 3, 500, 29_200, 65_535]);
            End { addr, isn, next: isn, ack: 0, window, shift, key, last: None }
        };
        let ends = [end(1, 20_000 + number as u16), end(2, 15_001)];
        let mptcp = kind == Kind::Mptcp && rng.one_in(2);
        let join = (mptcp && !keys.is_empty() && rng.one_in(2)).then(|| rng.pick(keys));
        let join = join.map(|key| if rng.one_in(8) { rng.next() } else { key });
        if mptcp && join.is_none() {
            keys.push(ends[1].key);
        }
        let handshake = !rng.one_in(4);
        Self { kind, ends, mptcp, join, shaken: 0, handshake }
    }

    fn step(&mut self, rng: &mut Rng) -> Segment {
        if self.handshake && self.shaken < 3 {
            self.shaken += 1;
            return self.shake(self.shaken, rng);
        }
        if self.shaken < 3 {
            self.shaken = 3;
            for end in 0..2 {
                self.ends[end].ack = self.ends[1 - end].next;
            }
        }
        let side = rng.below(2) as usize;
        let segment = match rng.below(40) {
            0 => return self.shake(1 + rng.below(3) as u32, rng),
            1 => self.special(side, Flags::FIN | Flags::ACK, rng),
            2 => self.special(side, Flags::RST | rng.pick(&[Flags(0), Flags::ACK]), rng),
            3 | 4 => self.keep_alive(side, rng),
            5 | 6 => self.data(side, 1, rng),
            7..=9 => self.repeat(side, rng),
            10..=15 => self.again(side, rng),
            16..=18 => self.window(side, rng),
            19 => self.full(side, rng),
            20..=27 => self.ack(side, rng),
            _ => {
                let most = if self.kind == Kind::Tiny { 3 } else { 1400 };
                let len = 1 + rng.below(most) as u32;
                self.data(side, len, rng)
            }
        };
        self.ends[side].last = Some(segment.clone());
        segment
    }

    fn segment(&self, side: usize, flags: Flags, seq: u32, len: u32) -> Segment {
        let (from, to) = (&self.ends[side], &self.ends[1 - side]);
        Segment {
            src: from.addr,
            dst: to.addr,
            seq: SeqNum(seq),
            ack: SeqNum(from.ack),
            flags,
            window: from.window,
            ecn: Ecn::NotEct,
            options: TcpOptions::default(),
            payload: Bytes::from(vec![0; len as usize]),
        }
    }

    fn shake(&mut self, step: u32, rng: &mut Rng) -> Segment {
        let side = usize::from(step == 2);
        let flags = [Flags::SYN, Flags::SYN | Flags::ACK, Flags::ACK][step as usize - 1];
        if step > 1 {
            self.ends[side].ack = self.ends[1 - side].isn.wrapping_add(1);
        }
        let reused = step == 1 && self.shaken == 3 && rng.one_in(2);
        if reused {
            self.ends[0].isn = self.ends[0].isn.wrapping_add(rng.pick(&[1, 77, 1 << 30, 1 << 31]));
        }
        let isn = self.ends[side].isn;
        let seq = isn.wrapping_add(u32::from(step == 3));
        let mut segment = self.segment(side, flags, seq, 0);
        if step == 1 && rng.one_in(3) {
            segment.ack = SeqNum(0);
        }
        if step < 3 {
            segment.options.window_scale = self.ends[side].shift;
            if self.shaken < 3 || reused {
                self.ends[side].next = isn.wrapping_add(1);
            }
        }
        // tshark gives up on a packet that shows the key of a connection which it took for one
        // without: a handshake that comes late is not generated.
        if self.mptcp && self.handshake {
            self.opening_option(step, side, &mut segment.options, rng);
        }
        if reused {
            self.shaken = 1;
        }
        segment
    }

    fn opening_option(&self, step: u32, side: usize, options: &mut TcpOptions, rng: &mut Rng) {
        let (own, peer) = (self.ends[side].key, self.ends[1 - side].key);
        let nonce = rng.next() as u32;
        let option = match (self.join, step) {
            (Some(key), 1) => {
                let token = tabane_engine::mptcp::crypto::Key(key).token_and_idsn().0;
                MptcpOption::Join(MpJoin::Syn { backup: false, address_id: 2, token, nonce })
            }
            (Some(_), 2) => {
                MptcpOption::Join(MpJoin::SynAck { backup: false, address_id: 2, hmac: 7, nonce })
            }
            (Some(_), _) => MptcpOption::Join(MpJoin::Ack { hmac: [1; 20] }),
            (None, _) => MptcpOption::Capable(MpCapable {
                version: 1,
                hmac_sha256: true,
                sender_key: (step > 1).then_some(own),
                receiver_key: (step > 2).then_some(peer),
                ..MpCapable::default()
            }),
        };
        options.push_mptcp(option);
    }

    /// Options of an MPTCP segment after the handshake.
    fn decorate(&mut self, side: usize, segment: &mut Segment, rng: &mut Rng) {
        if !self.mptcp || rng.one_in(5) {
            return;
        }
        match rng.below(24) {
            0 => segment.options.push_mptcp(MptcpOption::AddAddr(AddAddr {
                address_id: 2,
                address: [10, 0, 0, 9].into(),
                port: None,
                hmac: rng.one_in(2).then_some(5),
            })),
            1 => segment.options.push_mptcp(MptcpOption::RemoveAddr(vec![2])),
            2 => segment.options.push_mptcp(MptcpOption::Prio { backup: true }),
            3 => segment.options.push_mptcp(MptcpOption::Fail(77)),
            4 => segment.options.push_mptcp(MptcpOption::FastClose(self.ends[side].key)),
            5 if self.join.is_none() && self.handshake => {
                let (own, peer) = (self.ends[side].key, self.ends[1 - side].key);
                segment.options.push_mptcp(MptcpOption::Capable(MpCapable {
                    version: 1,
                    hmac_sha256: true,
                    sender_key: Some(own),
                    receiver_key: Some(peer),
                    data: Some((9, rng.one_in(2).then_some(3))),
                    ..MpCapable::default()
                }));
            }
            _ => {
                let length = segment.payload.len() as u16;
                let mapping = (length > 0).then_some(Mapping {
                    dsn: DataNumber::Long(u64::from(segment.seq.0)),
                    ssn: 1,
                    length,
                    checksum: None,
                });
                let data_ack = Some(DataNumber::Long(5));
                segment.options.dss = Some(Dss { data_ack, mapping, data_fin: false });
            }
        }
    }

    fn data(&mut self, side: usize, len: u32, rng: &mut Rng) -> Segment {
        if rng.one_in(9) {
            // A hole.
            let gap = self.ends[side].next.wrapping_add(1 + rng.below(2_000) as u32);
            self.ends[side].next = gap;
        }
        self.acknowledge(side, rng);
        let seq = self.ends[side].next;
        self.ends[side].next = seq.wrapping_add(len);
        let mut segment = self.segment(side, Flags::ACK, seq, len);
        self.decorate(side, &mut segment, rng);
        segment
    }

    fn ack(&mut self, side: usize, rng: &mut Rng) -> Segment {
        if rng.one_in(3) {
            self.acknowledge(side, rng);
        }
        let mut segment = self.segment(side, Flags::ACK, self.ends[side].next, 0);
        self.decorate(side, &mut segment, rng);
        segment
    }

    fn acknowledge(&mut self, side: usize, rng: &mut Rng) {
        let peer = self.ends[1 - side].next;
        let ahead = match rng.below(16) {
            0 => rng.below(3_000) as u32,
            1..=4 => (rng.below(3_000) as u32).wrapping_neg(),
            5 | 6 => return,
            _ => 0,
        };
        self.ends[side].ack = peer.wrapping_add(ahead);
    }

    /// Something older, at a place that matters.
    fn again(&mut self, side: usize, rng: &mut Rng) -> Segment {
        let end = &self.ends[side];
        let acked = self.ends[1 - side].ack;
        let back = 1 + rng.below(if self.kind == Kind::Tiny { 4 } else { 4_000 }) as u32;
        let seq = rng.pick(&[acked, acked, end.next.wrapping_sub(back), acked.wrapping_sub(back)]);
        let to_end = end.next.wrapping_sub(seq);
        let len = match rng.below(4) {
            0 if to_end < 4_000 => to_end,
            1 => 1,
            2 => 2,
            _ => back.min(1_400),
        };
        let mut segment = self.segment(side, Flags::ACK, seq, len);
        self.decorate(side, &mut segment, rng);
        segment
    }

    /// The same packet once more, as duplication on the way gives it.
    fn repeat(&mut self, side: usize, rng: &mut Rng) -> Segment {
        match self.ends[side].last.clone() {
            Some(last) => last,
            None => self.ack(side, rng),
        }
    }

    fn keep_alive(&mut self, side: usize, rng: &mut Rng) -> Segment {
        let seq = self.ends[side].next.wrapping_sub(1);
        self.segment(side, Flags::ACK, seq, rng.below(2) as u32)
    }

    fn window(&mut self, side: usize, rng: &mut Rng) -> Segment {
        self.ends[side].window = rng.pick(&[0, 0, 0, 1, 500, 501, 65_535]);
        self.ack(side, rng)
    }

    /// Data up to the end of the peer's window.
    fn full(&mut self, side: usize, rng: &mut Rng) -> Segment {
        let peer = &self.ends[1 - side];
        let shift = rng.pick(&[0, peer.shift.unwrap_or(0)]);
        let edge = peer.ack.wrapping_add(u32::from(peer.window) << shift);
        let len = 1 + rng.below(900) as u32;
        let seq = edge.wrapping_sub(len);
        if rng.one_in(2) {
            self.ends[side].next = edge;
        }
        self.segment(side, Flags::ACK, seq, len)
    }

    fn special(&mut self, side: usize, flags: Flags, rng: &mut Rng) -> Segment {
        let seq = self.ends[side].next;
        let len = if rng.one_in(3) { rng.below(50) as u32 } else { 0 };
        if flags.contains(Flags::FIN) && !rng.one_in(4) {
            self.ends[side].next = seq.wrapping_add(len + 1);
        }
        self.segment(side, flags, seq, len)
    }
}
