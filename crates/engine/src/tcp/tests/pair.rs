//! Two subflows and a link between them, in virtual time.

use crate::config::TcpConfig;
use crate::policy::Spec;
use crate::seq::Dsn;
use crate::tcp::{Chunk, Setup, State, Tcb};
use crate::time::{Duration, Instant};
use crate::view::{PathId, SubflowId};
use bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};
use tabane_wire::{
    DataNumber, Dss, Ecn, Flags, MptcpOption, Segment, SeqNum, TcpOptions, Timestamps,
};

/// The next segment of a subflow, in place of another of which nothing may be left.
pub(crate) fn poll(tcb: &mut Tcb, now: Instant, window: u64) -> Option<Segment> {
    let mut segment = used();
    tcb.poll_segment(now, window, &mut segment)?;
    assert!(!segment.options.has_mptcp(), "{segment:?}");
    Some(segment)
}

/// A segment that has everything.
fn used() -> Segment {
    let nowhere = "192.0.2.1:9".parse().unwrap();
    let mut options = TcpOptions {
        mss: Some(77),
        window_scale: Some(13),
        sack_permitted: true,
        timestamps: Some(Timestamps { value: 7, echo: 7 }),
        dss: Some(Dss { data_ack: Some(DataNumber::Long(7)), ..Dss::default() }),
        ..TcpOptions::default()
    };
    options.sack.push(SeqNum(1), SeqNum(2));
    options.push_mptcp(MptcpOption::FastClose(7));
    Segment {
        src: nowhere,
        dst: nowhere,
        seq: SeqNum(7),
        ack: SeqNum(7),
        flags: Flags(0xff),
        window: 7,
        ecn: Ecn::Ce,
        options,
        payload: Bytes::from_static(b"used"),
    }
}

/// What the link does to the n-th segment in a direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    Deliver,
    Drop,
    /// Delivered so much later.
    Late(Duration),
    /// Delivered twice, the copy so much later.
    Twice(Duration),
}

/// One end: a subflow, what it shall send, what it has got.
pub(crate) struct End {
    pub(crate) tcb: Tcb,
    pub(crate) to_send: u64,
    pub(crate) close_when_sent: bool,
    pub(crate) window: u64,
    pushed: u64,
    received: BTreeMap<u64, u64>,
    pub(crate) closed: bool,
}

/// Position-dependent contents.
pub(crate) fn byte(position: u64) -> u8 {
    (position.wrapping_mul(31) ^ (position >> 7)) as u8
}

impl End {
    pub(crate) fn new(tcb: Tcb) -> Self {
        Self {
            tcb,
            to_send: 0,
            close_when_sent: false,
            window: 1 << 20,
            pushed: 0,
            received: BTreeMap::new(),
            closed: false,
        }
    }

    /// Contiguous bytes received.
    pub(crate) fn got(&self) -> u64 {
        let mut end = 1;
        for (&start, &stop) in &self.received {
            if start > end {
                break;
            }
            end = end.max(stop);
        }
        end - 1
    }

    pub(crate) fn take(&mut self, now: Instant, segment: &Segment) {
        let accepted = self.tcb.on_segment(now, segment, &[]);
        if let Some((ssn, data)) = accepted.payload {
            for (i, b) in data.iter().enumerate() {
                assert_eq!(*b, byte(ssn.0 + i as u64), "byte {} is wrong", ssn.0 + i as u64);
            }
            let stop = ssn.0 + data.len() as u64;
            let entry = self.received.entry(ssn.0).or_insert(stop);
            *entry = (*entry).max(stop);
        }
    }

    pub(crate) fn fill(&mut self, now: Instant) {
        loop {
            let rest = self.to_send - self.pushed;
            let len = rest.min(self.tcb.mss()).min(self.tcb.sendable(now));
            if len == 0 || (len < self.tcb.mss() && len < rest) {
                break;
            }
            let start = 1 + self.pushed;
            let data: Vec<u8> = (start..start + len).map(byte).collect();
            self.tcb.push(now, Chunk { dsn: Dsn(start), data: Bytes::from(data) });
            self.pushed += len;
        }
        let open = matches!(self.tcb.state(), State::Established | State::CloseWait);
        if self.close_when_sent && self.pushed == self.to_send && open && !self.closed {
            self.closed = true;
            self.tcb.close(now);
        }
    }
}

/// Decides by side, count in that direction and contents.
pub(crate) type Fates = Box<dyn FnMut(usize, u64, &Segment) -> Fate>;

pub(crate) struct Pair {
    pub(crate) now: Instant,
    pub(crate) ends: [Option<End>; 2],
    pub(crate) config: TcpConfig,
    pub(crate) delay: Duration,
    /// Time on the wire per byte, in ns.
    pub(crate) per_byte: u64,
    pub(crate) fate: Fates,
    pub(crate) log: VecDeque<(Instant, usize, Segment)>,
    flying: BTreeMap<(Instant, u64), (usize, Segment)>,
    busy: [Instant; 2],
    count: [u64; 2],
    serial: u64,
}

pub(crate) fn setup(side: usize, congestion: &str) -> Setup {
    let addresses = ["10.0.0.1:1000".parse().unwrap(), "10.0.0.2:2000".parse().unwrap()];
    Setup {
        id: SubflowId(0),
        path: PathId(0),
        mtu: 1500,
        local: addresses[side],
        remote: addresses[1 - side],
        iss: if side == 0 { 0xffff_f000 } else { 77 },
        timestamp_offset: 1000 * side as u32,
        congestion: Spec::named(congestion),
        window_max: 4 << 20,
        expected: None,
        patience: None,
    }
}

impl Pair {
    pub(crate) fn new(config: TcpConfig) -> Self {
        Self {
            now: Instant::ZERO + Duration::from_secs(5),
            ends: [None, None],
            config,
            delay: Duration::from_millis(10),
            per_byte: 80,
            fate: Box::new(|_, _, _| Fate::Deliver),
            log: VecDeque::new(),
            flying: BTreeMap::new(),
            busy: [Instant::ZERO; 2],
            count: [0; 2],
            serial: 0,
        }
    }

    pub(crate) fn connect(config: TcpConfig) -> Self {
        let mut pair = Self::new(config);
        let name = pair.config.congestion.name.clone();
        let tcb = Tcb::connect(pair.now, &pair.config.clone().into(), setup(0, &name)).unwrap();
        pair.ends[0] = Some(End::new(tcb));
        pair
    }

    pub(crate) fn end(&mut self, side: usize) -> &mut End {
        self.ends[side].as_mut().unwrap()
    }

    fn launch(&mut self, side: usize, segment: Segment) {
        self.log.push_back((self.now, side, segment.clone()));
        self.count[side] += 1;
        let fate = (self.fate)(side, self.count[side], &segment);
        let start = self.busy[side].max(self.now);
        let bytes = 40 + segment.payload.len() as u64;
        self.busy[side] = start + Duration(bytes * self.per_byte);
        let at = self.busy[side] + self.delay;
        let mut put = |at, segment| {
            self.serial += 1;
            self.flying.insert((at, self.serial), (1 - side, segment));
        };
        match fate {
            Fate::Deliver => put(at, segment),
            Fate::Drop => {}
            Fate::Late(by) => put(at + by, segment),
            Fate::Twice(by) => {
                put(at, segment.clone());
                put(at + by, segment);
            }
        }
    }

    fn drain(&mut self) {
        for side in 0..2 {
            let now = self.now;
            while let Some(end) = &mut self.ends[side] {
                end.fill(now);
                let window = end.window;
                let Some(segment) = poll(&mut end.tcb, now, window) else { break };
                self.launch(side, segment);
            }
        }
    }

    /// One step of virtual time; false when nothing will ever happen again.
    pub(crate) fn step(&mut self) -> bool {
        self.drain();
        let arrival = self.flying.keys().next().map(|k| k.0);
        let timer = self.ends.iter().flatten().filter_map(|e| e.tcb.next_timeout()).min();
        let Some(next) = arrival.into_iter().chain(timer).min() else { return false };
        self.now = self.now.max(next);
        if arrival == Some(next) {
            let (_, (side, segment)) = self.flying.pop_first().unwrap();
            self.deliver(side, &segment);
        } else {
            let now = self.now;
            for end in self.ends.iter_mut().flatten() {
                end.tcb.on_timeout(now, &[]);
            }
        }
        self.drain();
        true
    }

    fn deliver(&mut self, side: usize, segment: &Segment) {
        let now = self.now;
        if self.ends[side].is_none() {
            assert!(segment.flags.contains(Flags::SYN));
            let name = self.config.congestion.name.clone();
            let tcb =
                Tcb::accept(now, &self.config.clone().into(), setup(side, &name), segment).unwrap();
            self.ends[side] = Some(End::new(tcb));
            return;
        }
        self.end(side).take(now, segment);
    }

    /// Runs until `done` or `limit`; panics with what hangs.
    pub(crate) fn run(&mut self, limit: Duration, mut done: impl FnMut(&mut Self) -> bool) {
        let until = self.now + limit;
        while !done(self) {
            assert!(self.step() && self.now < until, "stalled at {:?}: {}", self.now, self.state());
        }
    }

    pub(crate) fn state(&self) -> String {
        let state = |e: &Option<End>| {
            e.as_ref().map(|e| {
                let v = e.tcb.view(self.now);
                let numbers = (e.got(), e.pushed, e.tcb.snd_una(), e.tcb.snd_nxt());
                format!("{:?} {:?} {:?} {:?}", e.tcb.state(), numbers, v, e.tcb.stats())
            })
        };
        format!("{:#?}\n{:#?}", state(&self.ends[0]), state(&self.ends[1]))
    }

    /// Starts `bytes` from side 0 to 1 once both ends exist.
    pub(crate) fn transfer(&mut self, bytes: u64) {
        self.run(Duration::from_secs(30), |p| p.ends[1].is_some());
        self.end(0).to_send = bytes;
        self.run(Duration::from_secs(3600), |p| p.end(1).got() == bytes);
    }
}
