//! Which stream a packet belongs to: a hash table of 4-tuples, both directions under one key.
//!
//! The hash has a fixed key, so that the same capture costs the same each time; nothing iterates
//! over the table.

use super::classify::Side;
use hashbrown::HashTable;
use siphasher::sip::SipHasher13;
use std::hash::Hasher;
use std::net::{IpAddr, SocketAddr};

/// The two ends of a stream, the lower one first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Ends {
    pub(super) ends: [SocketAddr; 2],
}

/// The table; values are indices of streams. Its owner limits the number of streams.
#[derive(Debug)]
pub(super) struct Table {
    table: HashTable<(Ends, u32)>,
    /// The last two that were found: traffic comes in bursts, and by two paths.
    recent: [Option<(Ends, u32)>; 2],
}

impl Ends {
    /// The ends of a packet, and which of them sent it.
    #[inline]
    pub(super) fn of(src: SocketAddr, dst: SocketAddr) -> (Self, Side) {
        if src <= dst { (Self { ends: [src, dst] }, 0) } else { (Self { ends: [dst, src] }, 1) }
    }

    #[inline]
    fn hash(&self) -> u64 {
        let mut hasher = SipHasher13::new_with_keys(0x7461_6261_6e65, 0x7063_6170);
        for end in &self.ends {
            match end.ip() {
                IpAddr::V4(ip) => {
                    hasher.write_u64(u64::from(u32::from(ip)) << 16 | u64::from(end.port()));
                }
                IpAddr::V6(ip) => {
                    hasher.write_u64(ip.to_bits() as u64);
                    hasher.write_u64((ip.to_bits() >> 64) as u64);
                    hasher.write_u16(end.port());
                }
            }
        }
        hasher.finish()
    }
}

impl Table {
    pub(super) fn new() -> Self {
        Self { table: HashTable::new(), recent: [None; 2] }
    }

    #[inline]
    pub(super) fn find(&mut self, ends: &Ends) -> Option<u32> {
        for (known, stream) in self.recent.iter().flatten() {
            if known == ends {
                return Some(*stream);
            }
        }
        let found = *self.table.find(ends.hash(), |(known, _)| known == ends)?;
        self.recent = [Some(found), self.recent[0]];
        Some(found.1)
    }

    /// Adds a stream, in place of an older one between the same ends.
    pub(super) fn insert(&mut self, ends: Ends, stream: u32) {
        self.recent = [None; 2];
        let hash = ends.hash();
        if let Some(entry) = self.table.find_mut(hash, |(known, _)| *known == ends) {
            entry.1 = stream;
        } else {
            self.table.insert_unique(hash, (ends, stream), |(known, _)| known.hash());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_directions_are_one_stream() {
        let ends =
            |n: u16| -> [SocketAddr; 2] { [([10, 0, 0, 2], n).into(), ([10, 0, 0, 1], 80).into()] };
        let mut table = Table::new();
        for n in 0..500 {
            let [a, b] = ends(n);
            table.insert(Ends::of(a, b).0, n.into());
        }
        for n in 0..500 {
            let [a, b] = ends(n);
            let ((there, from), (back, to)) = (Ends::of(a, b), Ends::of(b, a));
            assert_eq!((table.find(&there), table.find(&back)), (Some(n.into()), Some(n.into())));
            assert_eq!((from, to), (1, 0));
        }
        let [a, b] = ends(500);
        assert_eq!(table.find(&Ends::of(a, b).0), None);
        let [a, b] = ends(7);
        table.insert(Ends::of(a, b).0, 900);
        assert_eq!(table.find(&Ends::of(b, a).0), Some(900));
        assert_eq!(table.table.len(), 500);
    }
}
