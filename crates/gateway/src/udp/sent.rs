//! What the sending end knows of a flow of datagrams.

use super::call::CallWatch;
use super::protect::Protection;
use super::tag::{self, Kind, NUMBERS, TRAIL};
use tabane_engine::Instant;
use tabane_engine::view::PathId;

#[derive(Debug)]
pub(crate) struct SentFlow {
    next: u16,
    /// The paths of the last packets, the newest first.
    paths: [Option<PathId>; TRAIL as usize],
    /// Bytes that may overtake others, as of a time.
    credit: f64,
    as_of: Instant,
    pub(super) call: CallWatch,
    /// It is QUIC, as far as its packets have shown that go this way.
    pub(super) quic: bool,
    pub(super) protection: Option<Box<Protection>>,
}

/// A flow below this rate overtakes what waits: names, calls, games, acknowledgements. Four times
/// what a call in high definition needs (Opus at 510 kbit/s would be the most).
const SPARSE_BPS: f64 = 1e6;
/// And this at once.
const SPARSE_BURST: f64 = 8192.0;

impl SentFlow {
    /// One whose first number is this.
    pub(crate) fn new(first: u16) -> Self {
        let paths = [None; TRAIL as usize];
        Self {
            next: first,
            paths,
            credit: SPARSE_BURST,
            as_of: Instant::ZERO,
            call: CallWatch::default(),
            quic: false,
            protection: None,
        }
    }

    /// The path of its last packet.
    pub(crate) fn path(&self) -> Option<PathId> {
        self.paths[0]
    }

    /// Whether it sends little, so that its next packet of `len` may overtake those of others.
    pub(crate) fn is_sparse(&mut self, now: Instant, len: usize) -> bool {
        let earned = now.saturating_since(self.as_of).as_secs_f64() * SPARSE_BPS / 8.0;
        self.as_of = now;
        self.credit = (self.credit + earned).min(SPARSE_BURST) - len as f64;
        let sparse = self.credit >= 0.0;
        // What is spent beyond is not owed for long.
        self.credit = self.credit.max(-SPARSE_BURST);
        sparse
    }

    /// Writes its next number into a packet that goes by `path`, or by several; returns it.
    pub(crate) fn number(&mut self, packet: &mut [u8], kind: Kind, path: Option<PathId>) -> u16 {
        let number = self.next;
        self.next = (number + 1) % NUMBERS;
        let same = |(i, before): (usize, &Option<PathId>)| {
            if path.is_some() && *before == path { 1 << i } else { 0 }
        };
        let trail = self.paths.iter().enumerate().map(same).fold(0, |all, bit: u8| all | bit);
        tag::put(packet, number, kind, trail);
        self.paths.rotate_right(1);
        self.paths[0] = path;
        number
    }
}

/// Whether a packet shows that its flow is QUIC: handshakes have long headers with a version (RFC
/// 8999 section 5.1; 1 and 2 of RFC 9000 and 9369). Only the first bit is always set: the next one
/// is not where ends have agreed to grease it (RFC 9287).
pub(super) fn is_quic(packet: &[u8]) -> bool {
    const VERSIONS: [[u8; 4]; 2] = [[0, 0, 0, 1], [0x6b, 0x33, 0x43, 0xcf]];
    let Some([first, version @ ..]) = packet.get(payload_at(packet)..) else { return false };
    let known = |version: &[u8]| VERSIONS.iter().any(|known| known == version);
    first & 0x80 != 0 && version.get(..4).is_some_and(known)
}

/// Where the payload of a UDP packet begins.
fn payload_at(packet: &[u8]) -> usize {
    let header = match packet.first() {
        Some(first) if first >> 4 == 4 => usize::from(first & 15) * 4,
        _ => 40,
    };
    header + 8
}
