//! Frames of a capture file, one after the other: pcap (as tcpdump writes it since 1987) here,
//! pcapng in the module beside it.

use super::pcapng::{Block, Section};
use super::skips::Skip;
use super::source::Source;
use std::fmt;
use std::io;
use thiserror::Error;

/// Reads frames. Keeps the buffer of its source and a description of each interface.
#[derive(Debug)]
pub struct Reader<S> {
    source: S,
    format: Format,
    /// Consumed so far: position in the file of the first byte that the source shows.
    at: u64,
    /// Bytes of the frame that was given out last.
    given: usize,
    frames: u64,
    end: Option<End>,
}

/// One packet as captured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Frame<'a> {
    /// Nanoseconds since the Unix epoch; `None` in simple packet blocks, which have no time.
    pub time: Option<u64>,
    /// Its link type, or why the frame is no good.
    pub link_type: Result<u32, Skip>,
    /// What was kept of it.
    pub data: &'a [u8],
    /// Bytes it had on the wire.
    pub wire_len: usize,
    /// Its number in the file, from 1, as Wireshark counts.
    pub number: u64,
}

/// Why a file is not read at all.
#[derive(Error, Debug)]
pub enum OpenError {
    #[error("reading failed: {0}")]
    Io(#[from] io::Error),
    /// Nothing in it.
    #[error("the file is empty: was the capture stopped before it began?")]
    Empty,
    /// Neither pcap nor pcapng.
    #[error("neither pcap nor pcapng (it begins with {begins}): {remedy}")]
    Unknown {
        /// First bytes in hexadecimal.
        begins: String,
        /// What can be done.
        remedy: &'static str,
    },
}

/// How a file ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum End {
    /// After a whole packet.
    Whole,
    /// In the middle of a packet or block.
    Cut {
        /// Where in the file the incomplete piece starts.
        offset: u64,
        /// Bytes of it that are there.
        have: u64,
        /// Bytes that it says it has.
        want: u64,
    },
    /// At a piece that contradicts itself: what follows cannot be found.
    Damaged {
        /// Where in the file the piece starts.
        offset: u64,
        /// What is wrong with it.
        what: String,
    },
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole => write!(f, "whole"),
            Self::Cut { offset, have, want } => write!(
                f,
                "cut off in the piece at offset {offset} ({have} of {want} bytes are there)"
            ),
            Self::Damaged { offset, what } => write!(f, "damaged at offset {offset}: {what}"),
        }
    }
}

#[derive(Debug)]
enum Format {
    Classic(Classic),
    Ng(Section),
}

/// What the header of a pcap file says.
#[derive(Clone, Copy, Debug)]
struct Classic {
    big_endian: bool,
    /// Nanoseconds a unit of the fraction.
    unit: u64,
    /// Bytes of a packet's header.
    head: usize,
    link_type: u32,
}

/// What comes next in the source.
pub(super) enum Step {
    /// A packet: bytes to consume for all of it, and where in them its data is.
    Frame { len: usize, data: (usize, usize), wire_len: usize, time: Option<u64>, link: LinkType },
    /// Something else, of this many bytes.
    Other(u64),
    /// More bytes than are there are needed.
    Incomplete { want: u64 },
    /// It contradicts itself.
    Damaged(String),
}

type LinkType = Result<u32, Skip>;

/// No packet has more bytes than this: the largest snap length that programs use is 256 KiB, but
/// for USB and D-Bus (128 MiB), which carry no IP.
pub(super) const LARGEST: usize = 16 << 20;

impl<S: Source> Reader<S> {
    /// Starts with the header of the file.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(mut source: S) -> Result<Self, OpenError> {
        let bytes = source.fill(FILE_HEADER)?;
        let start = bytes.get(..bytes.len().min(FILE_HEADER)).unwrap_or_default();
        let Some(magic) = start.first_chunk::<4>() else {
            return Err(if start.is_empty() { OpenError::Empty } else { unknown(start) });
        };
        let swapped = u32::from_be_bytes(*magic);
        let format = match (u32::from_le_bytes(*magic), swapped) {
            (SECTION_HEADER, _) => Format::Ng(Section::default()),
            (magic, _) if is_pcap(magic) => Format::Classic(Classic::parse(start, false)?),
            (_, magic) if is_pcap(magic) => Format::Classic(Classic::parse(start, true)?),
            _ => return Err(unknown(start)),
        };
        let header = match format {
            Format::Classic(_) => FILE_HEADER,
            Format::Ng(_) => 0,
        };
        source.consume(header);
        Ok(Self { source, format, at: header as u64, given: 0, frames: 0, end: None })
    }

    /// The next frame; `None` at the end, of which [`Reader::end`] then tells.
    ///
    /// # Errors
    /// Those of the source.
    #[inline]
    pub fn next_frame(&mut self) -> io::Result<Option<Frame<'_>>> {
        self.source.consume(std::mem::take(&mut self.given));
        while self.end.is_none() {
            match self.step()? {
                Step::Frame { len, data, wire_len, time, link: link_type } => {
                    self.at += len as u64;
                    self.given = len;
                    self.frames += 1;
                    let number = self.frames;
                    let bytes = self.source.fill(len)?;
                    let data = bytes.get(data.0..data.1).unwrap_or_default();
                    return Ok(Some(Frame { time, link_type, data, wire_len, number }));
                }
                Step::Other(len) => self.pass(len)?,
                Step::Incomplete { want } => {
                    let have = self.source.fill(LARGEST.min(want as usize))?.len() as u64;
                    let offset = self.at;
                    let cut = End::Cut { offset, have, want };
                    self.end = Some(if have == 0 { End::Whole } else { cut });
                }
                Step::Damaged(what) => self.end = Some(End::Damaged { offset: self.at, what }),
            }
        }
        Ok(None)
    }

    /// How the file ended, once it has.
    pub fn end(&self) -> Option<&End> {
        self.end.as_ref()
    }

    /// Bytes of the file that were read until now, the current frame included.
    pub fn position(&self) -> u64 {
        self.at
    }

    /// `pcap` or `pcapng`.
    pub fn format(&self) -> &'static str {
        match self.format {
            Format::Classic(_) => "pcap",
            Format::Ng(_) => "pcapng",
        }
    }

    #[inline]
    fn step(&mut self) -> io::Result<Step> {
        match &mut self.format {
            Format::Classic(classic) => classic.step(&mut self.source),
            Format::Ng(section) => {
                let bytes = self.source.fill(Block::HEAD)?;
                let Some(block) = section.block(bytes) else {
                    return Ok(Step::Incomplete { want: Block::HEAD as u64 });
                };
                match block {
                    Ok(block) if block.is_read() => {
                        let bytes = self.source.fill(block.len)?;
                        match bytes.get(..block.len) {
                            Some(bytes) => Ok(section.read(&block, bytes)),
                            None => Ok(Step::Incomplete { want: block.len as u64 }),
                        }
                    }
                    Ok(block) => Ok(Step::Other(block.len as u64)),
                    Err(what) => Ok(Step::Damaged(what)),
                }
            }
        }
    }

    /// Passes over `len` bytes, however many these are.
    fn pass(&mut self, len: u64) -> io::Result<()> {
        let mut left = len;
        while left > 0 {
            let shown = self.source.fill(1)?.len() as u64;
            if shown == 0 {
                let offset = self.at;
                self.end = Some(End::Cut { offset, have: len - left, want: len });
                return Ok(());
            }
            let now = shown.min(left);
            self.source.consume(now as usize);
            left -= now;
        }
        self.at += len;
        Ok(())
    }
}

impl Classic {
    fn parse(header: &[u8], big_endian: bool) -> Result<Self, OpenError> {
        if header.len() < FILE_HEADER {
            return Err(unknown(header));
        }
        let word = |at: usize| word(header, at, big_endian);
        let magic = word(0);
        Ok(Self {
            big_endian,
            unit: if magic == NANOSECONDS { 1 } else { 1_000 },
            head: if magic == WITH_INTERFACE { 24 } else { 16 },
            // The other bits say how long the FCS is.
            link_type: word(20) & 0x03ff_ffff,
        })
    }

    #[inline]
    fn step<S: Source>(&self, source: &mut S) -> io::Result<Step> {
        let bytes = source.fill(self.head)?;
        if bytes.len() < self.head {
            return Ok(Step::Incomplete { want: self.head as u64 });
        }
        let word = |at: usize| word(bytes, at, self.big_endian);
        let (seconds, fraction) = (u64::from(word(0)), u64::from(word(4)));
        let (kept, wire_len) = (word(8) as usize, word(12) as usize);
        if kept > LARGEST {
            return Ok(Step::Damaged(format!("a packet of {kept} bytes")));
        }
        let len = self.head + kept;
        if source.fill(len)?.len() < len {
            return Ok(Step::Incomplete { want: len as u64 });
        }
        let time = seconds * 1_000_000_000 + fraction * self.unit;
        Ok(Step::Frame {
            len,
            data: (self.head, len),
            wire_len: wire_len.max(kept),
            time: Some(time),
            link: Ok(self.link_type),
        })
    }
}

#[inline]
pub(super) fn word(bytes: &[u8], at: usize, big_endian: bool) -> u32 {
    let four = *bytes[at..].first_chunk().expect("invariant: the caller checked the length");
    if big_endian { u32::from_be_bytes(four) } else { u32::from_le_bytes(four) }
}

fn is_pcap(magic: u32) -> bool {
    [MICROSECONDS, NANOSECONDS, WITH_INTERFACE].contains(&magic)
}

fn unknown(start: &[u8]) -> OpenError {
    let shown = &start[..start.len().min(8)];
    let begins: Vec<String> = shown.iter().map(|b| format!("{b:02x}")).collect();
    let remedy = match start {
        [0x1f, 0x8b, ..] => "it is compressed by gzip, unpack it with gunzip",
        [0x28, 0xb5, 0x2f, 0xfd, ..] => "it is compressed by zstd, unpack it with unzstd",
        [0xfd, b'7', b'z', b'X', ..] => "it is compressed by xz, unpack it with unxz",
        [0x04, 0x22, 0x4d, 0x18, ..] => "it is compressed by lz4, unpack it with unlz4",
        _ if start.len() < FILE_HEADER && start.first_chunk().is_some_and(is_magic) => {
            "it ends inside its header"
        }
        _ => "`editcap FILE new.pcapng` converts what Wireshark can read",
    };
    OpenError::Unknown { begins: begins.join(" "), remedy }
}

fn is_magic(four: &[u8; 4]) -> bool {
    is_pcap(u32::from_le_bytes(*four)) || is_pcap(u32::from_be_bytes(*four))
}

const FILE_HEADER: usize = 24;
const MICROSECONDS: u32 = 0xa1b2_c3d4;
const NANOSECONDS: u32 = 0xa1b2_3c4d;
/// Packet headers with interface, protocol and direction (Kuznetzov's patch of libpcap).
const WITH_INTERFACE: u32 = 0xa1b2_cd34;
/// The same in both byte orders.
const SECTION_HEADER: u32 = 0x0a0d_0d0a;
