//! pcapng files (draft-ietf-opsawg-pcapng), written only: one section, one interface block a
//! path, packets as raw IP with nanosecond times and optional comments.
//!
//! Times are given as nanoseconds since the start and written on top of a base that is not
//! zero: Wireshark takes an absolute time of 0 as "unknown" and then never finds the initial
//! RTT, with which it tells out-of-order segments from retransmissions.

use std::io::{self, Write};

/// Base time of captures whose clock starts at zero: 2000-01-01T00:00:00Z, in nanoseconds since
/// the Unix epoch.
pub const BASE_TIME: u64 = 946_684_800_000_000_000;

/// Writes a capture. Every packet is several small writes: give it a [`io::BufWriter`].
#[derive(Debug)]
pub struct PcapngWriter<W> {
    out: W,
    base: u64,
    /// Snap lengths of the interfaces so far.
    snap_lens: Vec<u32>,
}

/// An interface of one [`PcapngWriter`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct InterfaceId(u32);

impl<W: Write> PcapngWriter<W> {
    /// Starts a file with the name of the program that wrote it, on [`BASE_TIME`].
    pub fn new(out: W, application: &str) -> io::Result<Self> {
        Self::with_base(out, application, BASE_TIME)
    }

    /// As [`PcapngWriter::new`], with the time in nanoseconds since the Unix epoch that time 0
    /// of the packets stands for; refuses 0.
    pub fn with_base(mut out: W, application: &str, base: u64) -> io::Result<Self> {
        if base == 0 {
            return Err(invalid("base time 0: Wireshark would take it as unknown"));
        }
        let application = TextOption::new(option::APPLICATION, application);
        let len = 12 + 16 + application.len() + END_OF_OPTIONS.len();
        block(&mut out, block_type::SECTION, len, |out| {
            out.write_all(&BYTE_ORDER_MAGIC.to_le_bytes())?;
            // Version 1.0, and a section length that is not known.
            out.write_all(&[1, 0, 0, 0])?;
            out.write_all(&u64::MAX.to_le_bytes())?;
            application.write(out)?;
            out.write_all(&END_OF_OPTIONS)
        })?;
        Ok(Self { out, base, snap_lens: Vec::new() })
    }

    /// Adds an interface. At most `snap_len` bytes of each of its packets are written; 0 means
    /// all.
    pub fn interface(&mut self, name: &str, snap_len: u32) -> io::Result<InterfaceId> {
        let name = TextOption::new(option::INTERFACE_NAME, name);
        let len = 12 + 8 + name.len() + TIME_RESOLUTION.len() + END_OF_OPTIONS.len();
        block(&mut self.out, block_type::INTERFACE, len, |out| {
            out.write_all(&LINKTYPE_RAW.to_le_bytes())?;
            out.write_all(&[0, 0])?;
            out.write_all(&snap_len.to_le_bytes())?;
            name.write(out)?;
            out.write_all(&TIME_RESOLUTION)?;
            out.write_all(&END_OF_OPTIONS)
        })?;
        self.snap_lens.push(if snap_len == 0 { u32::MAX } else { snap_len });
        Ok(InterfaceId(self.snap_lens.len() as u32 - 1))
    }

    /// Writes an IP packet seen `at` nanoseconds after the start. An empty comment is no
    /// comment; one longer than 65535 bytes is cut.
    ///
    /// # Errors
    /// Those of the writer; and `InvalidInput` for an interface of another file or a packet of
    /// 4 GiB.
    pub fn packet(
        &mut self,
        interface: InterfaceId,
        at: u64,
        packet: &[u8],
        comment: &str,
    ) -> io::Result<()> {
        let snap_len =
            self.snap_lens.get(interface.0 as usize).ok_or_else(|| invalid("no such interface"))?;
        let original_len = u32::try_from(packet.len()).map_err(|_| invalid("packet of 4 GiB"))?;
        let captured = &packet[..original_len.min(*snap_len) as usize];
        let time = self.base.saturating_add(at);
        let comment = TextOption::new(option::COMMENT, comment);
        let comment_len = match comment.text {
            "" => 0,
            _ => comment.len() + END_OF_OPTIONS.len(),
        };
        let len = 12 + 20 + captured.len().next_multiple_of(4) + comment_len;
        block(&mut self.out, block_type::ENHANCED_PACKET, len, |out| {
            let mut head = [0; 20];
            let fields = [
                interface.0,
                (time >> 32) as u32,
                time as u32,
                captured.len() as u32,
                original_len,
            ];
            for (to, field) in head.as_chunks_mut().0.iter_mut().zip(fields) {
                *to = field.to_le_bytes();
            }
            out.write_all(&head)?;
            out.write_all(captured)?;
            out.write_all(padding(captured.len()))?;
            if comment_len > 0 {
                comment.write(out)?;
                out.write_all(&END_OF_OPTIONS)?;
            }
            Ok(())
        })
    }

    /// Flushes the writer underneath.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// The writer underneath.
    pub fn into_inner(self) -> W {
        self.out
    }
}

/// Length of a block stands at its start and at its end.
fn block<W: Write>(
    out: &mut W,
    block_type: u32,
    len: usize,
    body: impl FnOnce(&mut W) -> io::Result<()>,
) -> io::Result<()> {
    let len = u32::try_from(len).map_err(|_| invalid("block of 4 GiB"))?;
    out.write_all(&block_type.to_le_bytes())?;
    out.write_all(&len.to_le_bytes())?;
    body(out)?;
    out.write_all(&len.to_le_bytes())
}

/// An option whose value is text, cut to the 65535 bytes that its length field can say.
struct TextOption<'a> {
    code: u16,
    text: &'a str,
}

impl<'a> TextOption<'a> {
    fn new(code: u16, text: &'a str) -> Self {
        let text = &text[..text.floor_char_boundary(usize::from(u16::MAX))];
        Self { code, text }
    }

    fn len(&self) -> usize {
        4 + self.text.len().next_multiple_of(4)
    }

    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        out.write_all(&self.code.to_le_bytes())?;
        out.write_all(&(self.text.len() as u16).to_le_bytes())?;
        out.write_all(self.text.as_bytes())?;
        out.write_all(padding(self.text.len()))
    }
}

/// Zeros up to a multiple of four bytes.
fn padding(len: usize) -> &'static [u8] {
    &[0; 3][..len.next_multiple_of(4) - len]
}

fn invalid(reason: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, reason)
}

const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
/// Raw IP, version 4 or 6 by its first four bits.
const LINKTYPE_RAW: u16 = 101;
/// if_tsresol: units of 10^-9 s.
const TIME_RESOLUTION: [u8; 8] = [9, 0, 1, 0, 9, 0, 0, 0];
const END_OF_OPTIONS: [u8; 4] = [0; 4];

mod block_type {
    pub(super) const SECTION: u32 = 0x0a0d_0d0a;
    pub(super) const INTERFACE: u32 = 1;
    pub(super) const ENHANCED_PACKET: u32 = 6;
}

mod option {
    pub(super) const COMMENT: u16 = 1;
    pub(super) const INTERFACE_NAME: u16 = 2;
    pub(super) const APPLICATION: u16 = 4;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Walks the blocks by both of their length fields.
    fn blocks(mut file: &[u8]) -> Vec<(u32, &[u8])> {
        let word = |bytes: &[u8]| u32::from_le_bytes(bytes[..4].try_into().unwrap());
        let mut found = Vec::new();
        while !file.is_empty() {
            let len = word(&file[4..]) as usize;
            assert_eq!(len % 4, 0);
            assert_eq!(word(&file[len - 4..]) as usize, len);
            found.push((word(file), &file[8..len - 4]));
            file = &file[len..];
        }
        found
    }

    #[test]
    fn blocks_are_whole_whatever_the_lengths() {
        let mut file = PcapngWriter::new(Vec::new(), "tabane").unwrap();
        let whole = file.interface("wifi", 0).unwrap();
        let cut = file.interface("lte, first 40 bytes", 40).unwrap();
        for len in 0..50 {
            let comment = "é".repeat(len % 7);
            file.packet(whole, len as u64, &vec![0x45; len], &comment).unwrap();
            file.packet(cut, u64::MAX, &vec![0x45; len], "").unwrap();
        }
        file.packet(whole, 0, &[], &"é".repeat(40_000)).unwrap();
        let file = file.into_inner();
        let blocks = blocks(&file);
        assert_eq!(blocks.len(), 3 + 101);
        let (kind, last_cut) = blocks[102];
        assert_eq!(kind, block_type::ENHANCED_PACKET);
        assert_eq!(last_cut[12..20], [40, 0, 0, 0, 49, 0, 0, 0]);
        assert_eq!(last_cut.len(), 20 + 40);
    }

    #[test]
    fn misuse_is_an_error() {
        assert!(PcapngWriter::with_base(Vec::new(), "tabane", 0).is_err());
        let mut one = PcapngWriter::new(Vec::new(), "tabane").unwrap();
        let mut other = PcapngWriter::new(Vec::new(), "tabane").unwrap();
        let interface = one.interface("wifi", 0).unwrap();
        let refused = other.packet(interface, 0, &[], "").unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
    }
}
