//! Copies that a peer sends by several paths (bicast), dropped before the stack sees them: no
//! DSACK, no PAWS, no duplicate ACKs.
//!
//! A segment is a copy if another path has brought as many equal segments as this path has now
//! brought. Repeats on one path (retransmissions, genuine duplicate ACKs) are therefore no copies.
//! Segments are equal if a keyed hash of their headers is, without the fields that depend on the
//! path. Segments that carry MPTCP signals always pass. Nothing is remembered, and no work done,
//! until a segment comes by another path than its subflow's own.

use siphasher::sip::SipHasher13;
use std::hash::{Hash, Hasher};
use tabane_wire::{DataNumber, Segment};

/// What has come lately, and by which paths.
pub(super) struct Copies {
    key: (u64, u64),
    /// Direct-mapped: a newer entry replaces an older one, and then a copy may pass, which does
    /// no harm.
    table: Box<[Entry]>,
}

/// A hash and how often it was seen.
#[derive(Clone, Copy, Default)]
struct Entry {
    tag: u64,
    count: u32,
}

impl Copies {
    /// Remembers about `limit` segments.
    pub(super) fn new(key: (u64, u64), limit: usize) -> Self {
        // Three entries a segment with one copy: for both paths together, and for each.
        let entries = limit.max(1).saturating_mul(4).next_power_of_two();
        Self { key, table: vec![Entry::default(); entries].into_boxed_slice() }
    }

    /// Takes note of a segment that came by `path`; whether it is a copy.
    pub(super) fn is_copy(&mut self, path: u8, segment: &Segment) -> bool {
        if segment.options.mptcp.is_some() {
            return false;
        }
        let mut hasher = SipHasher13::new_with_keys(self.key.0, self.key.1);
        hash(segment, &mut hasher);
        let any = hasher.finish();
        hasher.write_u8(path);
        let here = hasher.finish();
        let on_path = self.entry(here);
        on_path.count += 1;
        let count = on_path.count;
        let most = self.entry(any);
        let copy = count <= most.count;
        most.count = most.count.max(count);
        copy
    }

    fn entry(&mut self, tag: u64) -> &mut Entry {
        let at = tag as usize & (self.table.len() - 1);
        let entry = &mut self.table[at];
        if entry.tag != tag {
            *entry = Entry { tag, count: 0 };
        }
        entry
    }
}

fn hash(segment: &Segment, hasher: &mut impl Hasher) {
    (segment.src, segment.dst).hash(hasher);
    hasher.write_u64(u64::from(segment.seq.0) << 32 | u64::from(segment.ack.0));
    hasher.write_u64(
        u64::from(segment.window) << 40
            | u64::from(segment.flags.0) << 32
            | segment.payload.len() as u64,
    );
    let options = &segment.options;
    if let Some(timestamps) = options.timestamps {
        hasher.write_u64(u64::from(timestamps.value) << 32 | u64::from(timestamps.echo));
    }
    for (start, end) in options.sack.as_slice() {
        hasher.write_u64(u64::from(start.0) << 32 | u64::from(end.0));
    }
    if let Some(dss) = &options.dss {
        let number = |number: DataNumber| match number {
            DataNumber::Short(n) => u64::from(n),
            DataNumber::Long(n) => n,
        };
        hasher.write_u64(dss.data_ack.map_or(0, number));
        hasher.write_u64(dss.mapping.as_ref().map_or(0, |m| number(m.dsn)));
        hasher.write_u8(u8::from(dss.data_fin));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tabane_wire::{Ecn, Flags, SeqNum, TcpOptions};

    fn ack(number: u32) -> Segment {
        Segment {
            src: "10.0.0.1:5".parse().unwrap(),
            dst: "10.0.0.2:80".parse().unwrap(),
            seq: SeqNum(7),
            ack: SeqNum(number),
            flags: Flags::ACK,
            window: 100,
            ecn: Ecn::NotEct,
            options: TcpOptions::default(),
            payload: bytes::Bytes::new(),
        }
    }

    #[test]
    fn drops_what_another_path_has_brought_and_nothing_else() {
        let mut copies = Copies::new((1, 2), 64);
        assert!(!copies.is_copy(0, &ack(1)));
        assert!(copies.is_copy(1, &ack(1)));
        assert!(copies.is_copy(2, &ack(1)));
        // Two genuine duplicate ACKs, the first lost on path 1, then their copies.
        assert!(!copies.is_copy(1, &ack(2)));
        assert!(copies.is_copy(0, &ack(2)));
        assert!(!copies.is_copy(0, &ack(2)));
        assert!(copies.is_copy(1, &ack(2)));
        assert!(!copies.is_copy(1, &ack(2)));
    }

    #[test]
    fn remembers_a_bounded_number() {
        let mut copies = Copies::new((1, 2), 64);
        assert_eq!(copies.table.len(), 256);
        for number in 0..10_000 {
            assert!(!copies.is_copy(0, &ack(number)), "{number} was never there");
        }
        assert!(copies.is_copy(1, &ack(9_999)), "the latest is remembered");
    }
}
