//! What the packets of a capture, or of a simulation, say about their connections.
//!
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
//! ```

pub mod classify;
mod groups;
mod labels;
mod table;
mod watch;

pub use classify::{Classifier, Side, Verdict};
pub use labels::{Counts, LABELS, Label, Labels};
pub use watch::Watch;

use groups::{Groups, Member};
use std::net::SocketAddr;
use tabane_wire::Headers;
use table::{Ends, Table};

/// Analyses packets, one after the other.
#[derive(Debug)]
pub struct Analyzer {
    settings: Settings,
    table: Table,
    streams: Vec<Stream>,
    groups: Groups,
    beyond_limit: u64,
}

/// How much is looked at.
#[derive(Clone, PartialEq, Debug)]
pub struct Settings {
    /// Streams that are kept apart; packets of further ones are counted and ignored.
    pub streams: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self { streams: 1 << 20 }
    }
}

/// One TCP stream: what passed between two ends from one SYN to the next that differs.
#[derive(Debug)]
pub struct Stream {
    ends: Ends,
    classifier: Classifier,
    member: Option<Member>,
    counts: [Counts; 2],
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
        Self {
            settings,
            table: Table::new(),
            streams: Vec::new(),
            groups: Groups::default(),
            beyond_limit: 0,
        }
    }

    /// Takes in a packet that passed at `time`, nanoseconds since the Unix epoch. `None` for one
    /// of a stream beyond the limit.
    #[inline]
    pub fn packet(&mut self, time: u64, headers: &Headers) -> Option<Outcome> {
        let (ends, side) = Ends::of(headers.src, headers.dst);
        let id = self.stream_of(ends, side, headers)?;
        let stream = &mut self.streams[id as usize];
        let operations = self.groups.operations(stream.member);
        let verdict = stream.classifier.packet(side, time, headers, operations);
        stream.counts[side].add(verdict.labels);
        if headers.options.has_mptcp() {
            self.groups.options(&mut stream.member, side, &headers.options);
        }
        Some(Outcome { stream: id, side, verdict })
    }

    /// All streams, in order of their first packets.
    pub fn streams(&self) -> impl ExactSizeIterator<Item = &Stream> {
        self.streams.iter()
    }

    /// Packets of streams beyond the limit.
    pub fn beyond_limit(&self) -> u64 {
        self.beyond_limit
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
        let counts = [Counts::default(); 2];
        self.streams.push(Stream { ends, classifier: Classifier::default(), member: None, counts });
        Some(id)
    }
}

impl Stream {
    /// Address and port of its two sides.
    pub fn ends(&self) -> [SocketAddr; 2] {
        self.ends.ends
    }

    /// How often each label was given, both directions together.
    pub fn labels(&self) -> Counts {
        let mut sum = self.counts[0];
        sum.merge(&self.counts[1]);
        sum
    }

    /// How often each label was given to packets that `side` sent.
    pub fn labels_of(&self, side: Side) -> Counts {
        self.counts[side]
    }
}
