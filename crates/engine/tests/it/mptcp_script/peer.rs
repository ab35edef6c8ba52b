//! A hand-made MPTCP peer of one endpoint: it says exactly what a test tells it, by positions (SYN
//! is 0 on a subflow, the first byte of data is 1 at data level), and decodes the answers likewise.

use bytes::Bytes;
use std::net::SocketAddr;
use tabane_engine::config::{Config, PathConfig};
use tabane_engine::event::{ConnId, Event};
use tabane_engine::mptcp::crypto::{Key, Keys};
use tabane_engine::policy::Spec;
use tabane_engine::view::PathId;
use tabane_engine::{Connection, Duration, Endpoint, Instant};
use tabane_wire::mptcp::{MpCapable, MpJoin};
use tabane_wire::{
    DataNumber, Dss, Ecn, Flags, Mapping, MptcpOption, Segment, SeqNum, TcpOptions, Timestamps,
};

pub(crate) const THEIR_KEY: Key = Key(2);
pub(crate) const THEIR_ISS: SeqNum = SeqNum(7000);

/// One subflow as the peer sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leg {
    /// The endpoint's end.
    pub(crate) ours: SocketAddr,
    pub(crate) theirs: SocketAddr,
    /// The endpoint's initial sequence number.
    pub(crate) iss: SeqNum,
}

/// An endpoint under test, its connection, and the peer's knowledge.
pub(crate) struct Script {
    pub(crate) endpoint: Endpoint,
    pub(crate) now: Instant,
    pub(crate) events: Vec<Event>,
    pub(crate) id: Option<ConnId>,
    /// The endpoint's key.
    pub(crate) key: Key,
    pub(crate) first: Leg,
}

/// A segment of the endpoint in positions.
#[derive(PartialEq, Debug)]
pub(crate) struct Said {
    pub(crate) flags: Flags,
    /// Position of its first byte, and of what it acknowledges.
    pub(crate) seq: u32,
    pub(crate) ack: u32,
    pub(crate) len: usize,
    /// Position of the DATA_ACK.
    pub(crate) data_ack: Option<u32>,
    /// Data position, subflow position, length of the mapping.
    pub(crate) mapping: Option<(u32, u32, u16)>,
    pub(crate) data_fin: bool,
    pub(crate) options: Vec<MptcpOption>,
    pub(crate) timestamps: bool,
}

pub(crate) fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

pub(crate) fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

pub(crate) fn capable() -> MpCapable {
    MpCapable { version: 1, hmac_sha256: true, ..MpCapable::default() }
}

fn config() -> Config {
    let path = |id: u8| PathConfig::new(PathId(id), vec![[10, id, 0, 1].into()], 1500);
    let mut config = Config::default().with(|c| c.paths = vec![path(0)]);
    config.tcp.congestion = Spec::named("reno");
    config.tcp.quick_acks = 0;
    config
}

impl Script {
    fn new(config: Config) -> Self {
        let nowhere = Leg {
            ours: "10.0.0.1:80".parse().unwrap(),
            theirs: "10.9.0.9:5000".parse().unwrap(),
            iss: SeqNum(0),
        };
        Self {
            endpoint: Endpoint::new(config, [5; 32]).unwrap(),
            now: Instant(10_000_000_000),
            events: Vec::new(),
            id: None,
            key: Key(0),
            first: nowhere,
        }
    }

    /// The endpoint accepts; `third` is the MP_CAPABLE of the third packet, keys filled in here.
    pub(crate) fn accepted(third: MpCapable) -> Self {
        let mut s = Self::new(config());
        s.endpoint.listen("0.0.0.0:80".parse().unwrap()).unwrap();
        let syn = s.opening(s.first, Flags::SYN, MptcpOption::Capable(capable()));
        s.give(syn);
        let answer = s.raw().expect("a SYN+ACK");
        s.first.iss = answer.seq;
        s.learn_key(&answer);
        let mut ack = s.segment(1, 1, Flags::ACK);
        let keys = (Some(THEIR_KEY.0), Some(s.key.0));
        let third = MpCapable { sender_key: keys.0, receiver_key: keys.1, ..third };
        ack.options.push_mptcp(MptcpOption::Capable(third));
        s.give(ack);
        s
    }

    /// As `accepted`, and what it says of it is heard.
    pub(crate) fn server() -> Self {
        let mut s = Self::accepted(capable());
        let hello = s.only();
        assert_eq!((hello.data_ack, hello.len), (Some(1), 0), "it is fully established: {hello:?}");
        s
    }

    /// The endpoint has connected, and its third packet has left. Nothing has come since.
    pub(crate) fn client() -> Self {
        let mut s = Self::new(config());
        let (local, remote) = (SocketAddr::new(s.first.ours.ip(), 0), s.first.theirs);
        s.id = Some(s.endpoint.connect(s.now, local, remote).unwrap());
        let syn = s.raw().expect("a SYN");
        (s.first.ours, s.first.iss) = (syn.src, syn.seq);
        s.now += ms(100);
        let key = MpCapable { sender_key: Some(THEIR_KEY.0), ..capable() };
        let answer = s.opening(s.first, Flags::SYN | Flags::ACK, MptcpOption::Capable(key));
        s.give(answer);
        let third = s.raw().expect("the third packet");
        let [MptcpOption::Capable(third)] = third.options.mptcp() else { panic!("{third}") };
        assert_eq!(third.receiver_key, Some(THEIR_KEY.0));
        s.key = Key(third.sender_key.unwrap());
        s
    }

    fn learn_key(&mut self, segment: &Segment) {
        let [MptcpOption::Capable(capable)] = segment.options.mptcp() else { panic!("{segment}") };
        self.key = Key(capable.sender_key.unwrap());
    }

    /// A SYN or SYN+ACK of the peer.
    pub(crate) fn opening(&self, leg: Leg, flags: Flags, option: MptcpOption) -> Segment {
        let mut segment = self.on(leg, 0, u32::from(flags.contains(Flags::ACK)), flags);
        segment.options.mss = Some(1460);
        segment.options.window_scale = Some(0);
        segment.options.sack_permitted = true;
        segment.options.push_mptcp(option);
        segment
    }

    /// A segment of the peer on the first subflow.
    pub(crate) fn segment(&self, seq: u32, ack: u32, flags: Flags) -> Segment {
        self.on(self.first, seq, ack, flags)
    }

    /// A segment of the peer on a subflow.
    pub(crate) fn on(&self, leg: Leg, seq: u32, ack: u32, flags: Flags) -> Segment {
        let value = self.now.as_millis() as u32;
        let timestamps = Some(Timestamps { value, echo: value });
        Segment {
            src: leg.theirs,
            dst: leg.ours,
            seq: THEIR_ISS.plus(seq),
            ack: if flags.contains(Flags::ACK) { leg.iss.plus(ack) } else { SeqNum(0) },
            flags,
            window: 65_535,
            ecn: Ecn::NotEct,
            options: TcpOptions { timestamps, ..TcpOptions::default() },
            payload: Bytes::new(),
        }
    }

    /// With a DSS: DATA_ACK, and (data position, subflow position, length) with or without F.
    pub(crate) fn dss(&self, mut s: Segment, ack: u32, map: Option<(u32, u32, u16)>) -> Segment {
        let theirs = |at: u32| THEIR_KEY.token_and_idsn().1.wrapping_add(u64::from(at)) as u32;
        let ours = self.key.token_and_idsn().1.wrapping_add(u64::from(ack)) as u32;
        let mapping = map.map(|(dsn, ssn, length)| Mapping {
            dsn: DataNumber::Short(theirs(dsn)),
            ssn,
            length,
            checksum: None,
        });
        let data_fin = mapping.is_some_and(|m| usize::from(m.length) > s.payload.len());
        s.options.dss = Some(Dss { data_ack: Some(DataNumber::Short(ours)), mapping, data_fin });
        s
    }

    /// Gives a segment to the endpoint.
    pub(crate) fn give(&mut self, segment: Segment) {
        self.endpoint.handle_segment(self.now, PathId(0), &segment);
        self.take_events();
    }

    fn take_events(&mut self) {
        while let Some((id, event)) = self.endpoint.poll_event() {
            self.id = Some(id);
            self.events.push(event);
        }
    }

    pub(crate) fn has(&self, event: &Event) -> bool {
        self.events.contains(event)
    }

    pub(crate) fn conn(&mut self) -> &mut Connection {
        let id = self.id.expect("a connection");
        self.endpoint.connection(id).expect("still there")
    }

    pub(crate) fn write(&mut self, len: usize) {
        let mut data = Bytes::from(vec![7; len]);
        self.conn().write(&mut data);
        assert!(data.is_empty());
    }

    pub(crate) fn close(&mut self) {
        let now = self.now;
        self.conn().close(now);
    }

    /// Lets time pass; timers run when they are due. What is said meanwhile.
    pub(crate) fn wait(&mut self, by: Duration) -> Vec<Said> {
        let until = self.now + by;
        let mut said = self.heard();
        while let Some(at) = self.endpoint.poll_timeout().filter(|&at| at <= until) {
            self.now = self.now.max(at);
            self.endpoint.handle_timeout(self.now);
            said.extend(self.heard());
        }
        self.now = until;
        said
    }

    /// The next segment as it is.
    pub(crate) fn raw(&mut self) -> Option<Segment> {
        let departure = self.endpoint.poll_segment(self.now);
        self.take_events();
        departure.map(|d| d.segment)
    }

    /// Everything that wants to leave now.
    pub(crate) fn heard(&mut self) -> Vec<Said> {
        let mut all = Vec::new();
        while let Some(segment) = self.raw() {
            all.push(self.decode(&segment));
        }
        all
    }

    /// The one segment that wants to leave now.
    pub(crate) fn only(&mut self) -> Said {
        let mut all = self.heard();
        assert_eq!(all.len(), 1, "{all:?}");
        all.remove(0)
    }

    fn decode(&self, s: &Segment) -> Said {
        let short = |n: DataNumber| match n {
            DataNumber::Short(n) => n,
            DataNumber::Long(n) => n as u32,
        };
        let ours = |n| short(n).wrapping_sub(self.key.token_and_idsn().1 as u32);
        let theirs = |n| short(n).wrapping_sub(THEIR_KEY.token_and_idsn().1 as u32);
        let dss = s.options.dss;
        Said {
            flags: s.flags,
            seq: s.seq.0.wrapping_sub(self.first.iss.0),
            ack: s.ack.0.wrapping_sub(THEIR_ISS.0),
            len: s.payload.len(),
            data_ack: dss.and_then(|d| d.data_ack).map(theirs),
            mapping: dss.and_then(|d| d.mapping).map(|m| (ours(m.dsn), m.ssn, m.length)),
            data_fin: dss.is_some_and(|d| d.data_fin),
            options: s.options.mptcp().to_vec(),
            timestamps: s.options.timestamps.is_some(),
        }
    }

    /// The SYN of a join from another port and address of the peer, and its subflow once the
    /// endpoint has answered; what it answered.
    pub(crate) fn join_syn(&mut self, number: u8) -> (Leg, Segment) {
        let theirs = SocketAddr::new([10, 9, 0, 10 + number].into(), 5000);
        let mut leg = Leg { theirs, iss: SeqNum(0), ..self.first };
        let (token, nonce) = (self.key.token_and_idsn().0, u32::from(number));
        let join = MpJoin::Syn { backup: false, address_id: number + 1, token, nonce };
        let syn = self.opening(leg, Flags::SYN, MptcpOption::Join(join));
        self.give(syn);
        let answer = self.raw().expect("an answer to the join");
        leg.iss = answer.seq;
        (leg, answer)
    }

    /// The third packet of a join that `answer` answered.
    pub(crate) fn join_ack(&mut self, number: u8, leg: Leg, answer: &Segment) -> Segment {
        let [MptcpOption::Join(MpJoin::SynAck { nonce, .. })] = answer.options.mptcp() else {
            panic!("{answer}")
        };
        let keys = Keys { local: THEIR_KEY, remote: self.key };
        let hmac = keys.join_ack(u32::from(number), *nonce);
        let mut ack = self.on(leg, 1, 1, Flags::ACK);
        ack.options.push_mptcp(MptcpOption::Join(MpJoin::Ack { hmac }));
        ack
    }

    /// A further subflow of the peer, joined.
    pub(crate) fn joined(&mut self, number: u8) -> Leg {
        let (leg, answer) = self.join_syn(number);
        let ack = self.join_ack(number, leg, &answer);
        self.give(ack);
        assert!(!self.heard().is_empty(), "the fourth packet");
        leg
    }
}
