//! Blocks of a pcapng file (draft-ietf-opsawg-pcapng): section header, interface description,
//! enhanced, simple and obsolete packet blocks. All others are passed over.
//!
//! Options other than the time resolution and offset of interfaces are not read.

use super::reader::{LARGEST, Step, word};
use super::skips::Skip;

/// The section that is being read.
#[derive(Default, Debug)]
pub(super) struct Section {
    big_endian: bool,
    interfaces: Vec<Interface>,
}

/// A block's type and length.
pub(super) struct Block {
    kind: u32,
    /// All of it, both length fields included.
    pub(super) len: usize,
}

#[derive(Clone, Copy, Debug)]
struct Interface {
    link_type: u32,
    snap_len: u32,
    unit: Unit,
    /// Seconds added to its times.
    offset: i64,
}

/// Length of a unit of time.
#[derive(Clone, Copy, Debug)]
enum Unit {
    /// So many nanoseconds.
    Nanoseconds(u64),
    /// A nanosecond has so many of them.
    PerNanosecond(u64),
    /// 2^-n seconds.
    Binary(u32),
}

/// Interfaces of a section; packets of further ones are skipped.
const INTERFACES: usize = 65_536;

impl Block {
    /// What is needed to know a block's type, length and, of a section, byte order.
    pub(super) const HEAD: usize = 12;

    /// Whether its content matters; the others may be of any length.
    pub(super) fn is_read(&self) -> bool {
        [SECTION, INTERFACE, OBSOLETE_PACKET, SIMPLE_PACKET, ENHANCED_PACKET].contains(&self.kind)
    }
}

impl Section {
    /// The block that starts here, `None` if too little is there to tell.
    pub(super) fn block(&mut self, bytes: &[u8]) -> Option<Result<Block, String>> {
        let head = bytes.get(..Block::HEAD)?;
        if word(head, 0, false) == SECTION {
            self.big_endian = match word(head, 8, false) {
                0x1a2b_3c4d => false,
                0x4d3c_2b1a => true,
                other => return Some(Err(format!("a section with byte order {other:#010x}"))),
            };
        }
        let block = Block {
            kind: word(head, 0, self.big_endian),
            len: word(head, 4, self.big_endian) as usize,
        };
        if block.len < Block::HEAD || !block.len.is_multiple_of(4) {
            return Some(Err(format!("a block of {} bytes", block.len)));
        }
        if block.is_read() && block.len > LARGEST + 4096 {
            return Some(Err(format!("a packet block of {} bytes", block.len)));
        }
        Some(Ok(block))
    }

    /// Reads a block that is all there.
    #[inline]
    pub(super) fn read(&mut self, block: &Block, bytes: &[u8]) -> Step {
        let len = block.len;
        let again = word(bytes, len - 4, self.big_endian) as usize;
        if again != len {
            return Step::Damaged(format!("a block of {len} bytes that ends as one of {again}"));
        }
        let body = &bytes[8..len - 4];
        match block.kind {
            ENHANCED_PACKET | OBSOLETE_PACKET => self.packet(block, body),
            SIMPLE_PACKET => self.simple(block, body),
            SECTION => {
                self.interfaces.clear();
                Step::Other(len as u64)
            }
            _ => {
                if let Some(interface) = self.interface(body)
                    && self.interfaces.len() < INTERFACES
                {
                    self.interfaces.push(interface);
                }
                Step::Other(len as u64)
            }
        }
    }

    /// Enhanced, or obsolete: the interface then has 16 bits, and 16 more count drops.
    #[inline]
    fn packet(&self, block: &Block, body: &[u8]) -> Step {
        if body.len() < 20 {
            return bad(block);
        }
        let word = |at| word(body, at, self.big_endian);
        let mut interface = word(0);
        if block.kind == OBSOLETE_PACKET {
            interface = if self.big_endian { interface >> 16 } else { interface & 0xffff };
        }
        let kept = word(12) as usize;
        let wire_len = (word(16) as usize).max(kept);
        if kept > body.len() - 20 {
            return bad(block);
        }
        let data = (28, 28 + kept);
        let Some(interface) = self.interfaces.get(interface as usize) else {
            let link = Err(Skip::NoInterface);
            return Step::Frame { len: block.len, data, wire_len, time: None, link };
        };
        let time = interface.time(u64::from(word(4)) << 32 | u64::from(word(8)));
        let link = Ok(interface.link_type);
        Step::Frame { len: block.len, data, wire_len, time: Some(time), link }
    }

    fn simple(&self, block: &Block, body: &[u8]) -> Step {
        if body.len() < 4 {
            return bad(block);
        }
        let wire_len = word(body, 0, self.big_endian) as usize;
        let interface = self.interfaces.first();
        // The padding is not told apart from the data but by the snap length.
        let snap_len = interface.map_or(0, |i| i.snap_len as usize);
        let snap_len = if snap_len == 0 { usize::MAX } else { snap_len };
        let kept = wire_len.min(snap_len).min(body.len() - 4);
        Step::Frame {
            len: block.len,
            data: (12, 12 + kept),
            wire_len,
            time: None,
            link: interface.map(|i| i.link_type).ok_or(Skip::NoInterface),
        }
    }

    fn interface(&self, body: &[u8]) -> Option<Interface> {
        let half = |at: usize| -> Option<u16> {
            let two = *body.get(at..)?.first_chunk()?;
            Some(if self.big_endian { u16::from_be_bytes(two) } else { u16::from_le_bytes(two) })
        };
        let link_type = u32::from(half(0)?);
        let snap_len = body.get(4..8).map(|b| word(b, 0, self.big_endian))?;
        let unit = Unit::Nanoseconds(1_000);
        let mut found = Interface { link_type, snap_len, unit, offset: 0 };
        let mut at = 8;
        while let (Some(code), Some(len)) = (half(at), half(at + 2)) {
            let value = body.get(at + 4..at + 4 + usize::from(len));
            match (code, value) {
                (END_OF_OPTIONS, _) | (_, None) => break,
                (TIME_RESOLUTION, Some(&[n])) => found.unit = Unit::of(n),
                (TIME_OFFSET, Some(value)) => {
                    if let Some(eight) = value.first_chunk::<8>() {
                        let (le, be) = (i64::from_le_bytes(*eight), i64::from_be_bytes(*eight));
                        found.offset = if self.big_endian { be } else { le };
                    }
                }
                _ => {}
            }
            at += 4 + usize::from(len).next_multiple_of(4);
        }
        Some(found)
    }
}

impl Interface {
    /// Nanoseconds since the epoch; what does not fit stays at the end of what does.
    #[inline]
    fn time(&self, units: u64) -> u64 {
        let since = match self.unit {
            Unit::Nanoseconds(n) => units.saturating_mul(n),
            Unit::PerNanosecond(n) => units / n,
            Unit::Binary(n) => {
                let shifted = (u128::from(units) * 1_000_000_000) >> n.min(127);
                u64::try_from(shifted).unwrap_or(u64::MAX)
            }
        };
        if self.offset == 0 {
            return since;
        }
        since.saturating_add_signed(self.offset.saturating_mul(1_000_000_000))
    }
}

impl Unit {
    /// Option if_tsresol: a power of ten, or of two if the highest bit is set.
    fn of(resolution: u8) -> Self {
        let power = u32::from(resolution & 0x7f);
        if resolution & 0x80 != 0 {
            return Self::Binary(power);
        }
        match 9u32.checked_sub(power) {
            Some(more) => Self::Nanoseconds(10u64.pow(more)),
            None => Self::PerNanosecond(10u64.checked_pow(power - 9).unwrap_or(u64::MAX)),
        }
    }
}

/// A packet block that says more than it has; the next one can still be found.
#[cold]
fn bad(block: &Block) -> Step {
    let link = Err(Skip::BadBlock);
    Step::Frame { len: block.len, data: (0, 0), wire_len: 0, time: None, link }
}

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const OBSOLETE_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;
const END_OF_OPTIONS: u16 = 0;
const TIME_RESOLUTION: u16 = 9;
const TIME_OFFSET: u16 = 14;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_of_time() {
        let at = |resolution, units| {
            let unit = Unit::of(resolution);
            Interface { link_type: 1, snap_len: 0, unit, offset: 0 }.time(units)
        };
        assert_eq!(at(6, 1_500_000), 1_500_000_000);
        assert_eq!(at(9, 7), 7);
        assert_eq!(at(3, 7), 7_000_000);
        assert_eq!(at(0, 2), 2_000_000_000);
        assert_eq!(at(12, 7_999), 7);
        assert_eq!(at(0x80 | 10, 1_536), 1_500_000_000);
        assert_eq!(at(0x80, 3), 3_000_000_000);
        assert_eq!((at(127, u64::MAX), at(0, u64::MAX), at(0xff, 5)), (1, u64::MAX, 0));
    }
}
