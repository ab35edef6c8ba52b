//! TCP segments of a capture, one after the other.

use super::link::ip_packet;
use super::reader::{End, OpenError, Reader};
use super::skips::{Skip, Skips};
use super::source::Source;
use super::tunnel::{DEPTH, inside};
use std::io;
use tabane_wire::{Headers, ParseError};

/// Reads segments, and counts what is none.
#[derive(Debug)]
pub struct Segments<S> {
    reader: Reader<S>,
    skips: Skips,
    /// Latest time seen: that of packets that have none of their own.
    last: u64,
    frames: u64,
    captured: u64,
    untimed: u64,
}

/// When and where a segment was seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seen {
    /// Nanoseconds since the Unix epoch; that of the packet before it if it has none itself.
    pub time: u64,
    /// Number of its frame in the file, from 1, as Wireshark counts.
    pub number: u64,
}

impl<S: Source> Segments<S> {
    /// Starts with the header of the file.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(source: S) -> Result<Self, OpenError> {
        let reader = Reader::open(source)?;
        let skips = Skips::default();
        Ok(Self { reader, skips, last: 0, frames: 0, captured: 0, untimed: 0 })
    }

    /// Reads the next TCP segment into `headers`; `None` at the end of the file.
    ///
    /// # Errors
    /// Those of the source.
    #[inline]
    pub fn next_segment(&mut self, headers: &mut Headers) -> io::Result<Option<Seen>> {
        while let Some(frame) = self.reader.next_frame()? {
            self.frames += 1;
            self.captured += frame.data.len() as u64;
            self.untimed += u64::from(frame.time.is_none());
            let time = frame.time.unwrap_or(self.last);
            self.last = time;
            let packet =
                frame.link_type.and_then(|link| ip_packet(link, frame.data, frame.wire_len));
            match packet.and_then(|(packet, wire_len)| read(headers, packet, wire_len)) {
                Ok(()) => return Ok(Some(Seen { time, number: frame.number })),
                Err(skip) => self.skips.add(skip),
            }
        }
        Ok(None)
    }

    /// What was skipped until now.
    pub fn skips(&self) -> &Skips {
        &self.skips
    }

    /// Frames until now, skipped ones included.
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// Bytes of frames until now, as kept in the file.
    pub fn captured(&self) -> u64 {
        self.captured
    }

    /// Frames without a time until now.
    pub fn untimed(&self) -> u64 {
        self.untimed
    }

    /// How the file ended, once it has.
    pub fn end(&self) -> Option<&End> {
        self.reader.end()
    }

    /// Bytes of the file that were read until now.
    pub fn position(&self) -> u64 {
        self.reader.position()
    }

    /// `pcap` or `pcapng`.
    pub fn format(&self) -> &'static str {
        self.reader.format()
    }
}

/// Reads the segment in a packet, or in the packet that it carries through a tunnel.
#[inline]
fn read(headers: &mut Headers, mut packet: &[u8], mut wire_len: usize) -> Result<(), Skip> {
    for _ in 0..=DEPTH {
        match headers.read(packet, wire_len) {
            Err(ParseError::Protocol(n)) => (packet, wire_len) = inside(n, packet, wire_len)?,
            other => return other.map_err(Skip::from),
        }
    }
    Err(Skip::TooDeep)
}
