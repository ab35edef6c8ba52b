//! What the packets of a capture, or of a simulation, say about their connections.
//!
//! ```text
//! Headers --> Analyzer --> Stream: Classifier (labels) + Flow (bytes, RTT, window) a direction
//!                     |--> Groups: which streams are one MPTCP connection
//!                     '--> Connection: data level, events        Analyzer --> Analysis (report)
//! ```
//! ```
//! use tabane_trace::analysis::{Analyzer, Label, Settings};
//! use tabane_wire::{Flags, Headers, SeqNum};
//!
//! let mut analyzer = Analyzer::new(Settings::default());
//! let (client, server) = ("10.0.0.1:1000".parse().unwrap(), "10.0.0.2:80".parse().unwrap());
//! let data = Headers { src: client, dst: server, payload_len: 100, ..Headers::default() };
//! for (ms, seq) in [(0, 1), (1, 101), (300, 1)] {
//!     let headers = Headers { seq: SeqNum(seq), flags: Flags::ACK, window: 9, ..data.clone() };
//!     // Nanoseconds since the Unix epoch.
//!     analyzer.packet(1_700_000_000_000_000_000 + ms * 1_000_000, &headers);
//! }
//! let stream = analyzer.streams().next().unwrap();
//! assert_eq!(stream.labels().get(Label::Retransmission), 1);
//! assert_eq!(analyzer.analysis().connections[0].forward.new_bytes, 200);
//! ```
//! Memory grows with the number of streams, up to [`Settings::streams`], not with that of packets.

pub mod classify;
mod connection;
mod data;
mod document;
pub mod fair;
pub mod files;
mod flow;
mod groups;
mod labels;
mod opening;
pub mod plots;
mod ranges;
pub mod report;
mod rtt;
mod stream;
mod table;
mod watch;

pub use classify::{Classifier, Rules, Side, Verdict};
pub use connection::{Event, What};
pub use document::{About, Document, ReadError};
pub use labels::{Counts, LABELS, Label, Labels};
pub use opening::Opened;
pub use report::Analysis;
pub use stream::Stream;
pub use watch::Watch;

use crate::track::{Clock, Track};
use connection::{Connection, Place};
use flow::PayloadRange;
use groups::Groups;
use tabane_engine::{Duration, Instant};
use tabane_wire::Headers;
use table::{Ends, Table};

/// Analyses packets, one after the other.
#[derive(Debug)]
pub struct Analyzer {
    settings: Settings,
    table: Table,
    streams: Vec<Stream>,
    groups: Groups,
    /// One a group.
    connections: Vec<Connection>,
    packets: u64,
    beyond_limit: u64,
    /// Time of the first packet.
    start: Option<u64>,
    /// Since the first packet; never goes back.
    now: u64,
    clock: Clock,
    /// End of the bin that is being filled.
    bin_end: u64,
    dirty: Vec<u32>,
}

/// How much is looked at.
#[derive(Clone, PartialEq, Debug)]
pub struct Settings {
    /// Whose labels are given.
    pub rules: Rules,
    /// Streams that are kept apart; packets of further ones are counted and ignored.
    pub streams: usize,
    /// The first so many streams get series.
    pub tracked: usize,
    /// Length of a bin of the series at first. Bins double when there are too many.
    pub interval: Duration,
    /// Bins of a series at most.
    pub bins: usize,
    /// Window of Jain's index; `None`: ten RTTs, at least 1 s.
    pub window: Option<Duration>,
    /// Left out of Jain's index from the moment on at which a second flow has begun; `None`: 5 s,
    /// or a tenth of the capture if that is shorter.
    pub skip: Option<Duration>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            rules: Rules::default(),
            streams: 1 << 18,
            tracked: 256,
            interval: Duration::from_millis(10),
            bins: 2_000,
            window: None,
            skip: None,
        }
    }
}

/// What was found out about a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// Its stream, in order of their first packets from 0, as Wireshark numbers them.
    pub stream: u32,
    /// Which end sent it.
    pub side: Side,
    /// How Wireshark labels it.
    pub verdict: Verdict,
}

impl Analyzer {
    /// Knows nothing yet.
    pub fn new(settings: Settings) -> Self {
        let clock = Clock::new(settings.interval, settings.bins);
        Self {
            table: Table::new(),
            streams: Vec::new(),
            groups: Groups::default(),
            connections: Vec::new(),
            packets: 0,
            beyond_limit: 0,
            start: None,
            now: 0,
            clock,
            bin_end: 0,
            dirty: Vec::new(),
            settings,
        }
    }

    /// Takes in a packet that passed at `time`, nanoseconds since the Unix epoch. `None` for one
    /// of a stream beyond the limit.
    #[inline]
    pub fn packet(&mut self, time: u64, headers: &Headers) -> Option<Outcome> {
        self.packets += 1;
        self.advance(time);
        let (ends, side) = Ends::of(headers.src, headers.dst);
        let id = self.stream_of(ends, side, headers)?;
        let now = self.now;
        let stream = &mut self.streams[id as usize];
        stream.last = now;
        if !stream.dirty {
            stream.dirty = true;
            self.dirty.push(id);
        }
        let operations = self.groups.operations(stream.member);
        let verdict = stream.classifier.packet(side, time, headers, operations);
        let shift = stream.classifier.shift(side);
        let range = stream.flows[side].sent(now, headers, &verdict, shift);
        stream.flows[side ^ 1].received(now, headers);
        if stream.opening.is_open(headers.flags) {
            let (groups, member) = (&self.groups, stream.member);
            stream.opening.packet(side, headers, |side| groups.key(member, side));
        }
        if headers.options.has_mptcp() || stream.member.is_some() {
            self.mptcp(id, side, headers, &range);
        }
        Some(Outcome { stream: id, side, verdict })
    }

    /// All streams, in order of their first packets.
    pub fn streams(&self) -> impl ExactSizeIterator<Item = &Stream> {
        self.streams.iter()
    }

    /// Packets that were taken in.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// Packets of streams beyond the limit.
    pub fn beyond_limit(&self) -> u64 {
        self.beyond_limit
    }

    /// What it all comes to, until now.
    pub fn analysis(&mut self) -> Analysis {
        self.flush();
        report::analysis(self)
    }

    #[inline]
    fn advance(&mut self, time: u64) {
        let start = *self.start.get_or_insert(time);
        self.now = self.now.max(time.saturating_sub(start));
        if self.now > self.bin_end {
            self.next_bin();
        }
    }

    /// Closes the bin: whatever had packets in it gets a row.
    #[cold]
    fn next_bin(&mut self) {
        self.flush();
        if self.clock.is_beyond(Instant(self.now)) {
            while self.clock.is_beyond(Instant(self.now)) {
                self.clock.double();
            }
            let clock = self.clock;
            self.streams.iter_mut().for_each(|s| s.coarsen(&clock));
            let tracks = self.connections.iter_mut().filter_map(|c| c.track.as_mut());
            tracks.for_each(|track| track.coarsen(&clock));
        }
        self.bin_end = self.clock.bin(Instant(self.now)) * self.clock.interval().0;
    }

    fn flush(&mut self) {
        let at = Instant(self.bin_end);
        for id in std::mem::take(&mut self.dirty) {
            let stream = &mut self.streams[id as usize];
            stream.row(&self.clock, at);
            if let Some(member) = stream.member {
                self.connections[member.group as usize].row(&self.clock, at);
            }
        }
    }

    #[inline]
    fn stream_of(&mut self, ends: Ends, side: Side, headers: &Headers) -> Option<u32> {
        let found = self.table.find(&ends);
        match found {
            Some(id) if !self.streams[id as usize].classifier.is_new_stream(side, headers) => found,
            _ => self.open(ends),
        }
    }

    #[cold]
    fn open(&mut self, ends: Ends) -> Option<u32> {
        if self.streams.len() >= self.settings.streams {
            self.beyond_limit += 1;
            return None;
        }
        let id = self.streams.len() as u32;
        self.table.insert(ends, id);
        let tracked = self.streams.len() < self.settings.tracked;
        let stream = Stream::new(ends, self.now, self.settings.rules, tracked);
        self.streams.push(stream);
        Some(id)
    }

    /// A packet of an MPTCP connection.
    #[inline]
    fn mptcp(&mut self, id: u32, side: Side, headers: &Headers, range: &PayloadRange) {
        let stream = &mut self.streams[id as usize];
        if headers.options.has_mptcp() {
            let before = stream.member;
            self.groups.options(&mut stream.member, side, &headers.options);
            if stream.member != before {
                self.moved(id, before.map(|m| m.group));
            }
        }
        let stream = &mut self.streams[id as usize];
        let Some(member) = stream.member else { return };
        let by_client = side == stream.client();
        let connection = &mut self.connections[member.group as usize];
        let maps = &mut stream.maps.get_or_insert_default()[side];
        let host = member.host(side);
        if headers.options.has_mptcp() {
            let place = Place {
                stream: id,
                side,
                host,
                by_client,
                now: self.now,
                syn: stream.flows[side].syn,
            };
            let group = self.groups.get(member.group);
            connection.options(place, group, maps, headers, range);
        }
        if range.len > 0 {
            maps.payload(&mut connection.data[host], range, self.now);
        }
    }

    /// A stream has found its connection, or another than it seemed.
    #[cold]
    fn moved(&mut self, id: u32, before: Option<u32>) {
        let Some(member) = self.streams[id as usize].member else { return };
        self.connections.resize_with(self.groups.len(), Connection::default);
        if let Some(before) = before {
            self.connections[before as usize].streams.remove(&id);
        }
        let connection = &mut self.connections[member.group as usize];
        connection.streams.insert(id);
        if self.streams[id as usize].flows[0].track.is_some() && connection.track.is_none() {
            connection.track = Some(Box::new(Track::default()));
        }
    }
}
