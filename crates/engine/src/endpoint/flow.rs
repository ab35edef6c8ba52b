//! Which subflow a segment belongs to: a hash table of 4-tuples, O(1) whatever their number.
//!
//! The hash is SipHash under a secret key, so that a peer cannot choose colliding ports. Nothing
//! ever iterates over the table: its order has no influence on anything.
//!
//! Beside it are hints, small and quick to find: with thousands of connections the table itself is
//! in no cache. A hint is never believed: the connection it leads to knows its own tuples.

use crate::view::SubflowId;
use hashbrown::HashTable;
use siphasher::sip::SipHasher13;
use slab::Slab;
use std::hash::Hasher;
use std::net::{IpAddr, SocketAddr};

/// A 4-tuple, seen from here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Tuple {
    pub(crate) local: SocketAddr,
    pub(crate) remote: SocketAddr,
}

/// Who takes the segments of a 4-tuple.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Owner {
    /// A subflow of the connection in this slot.
    Subflow(u32, SubflowId),
    /// An entry of the TIME-WAIT table.
    TimeWait(u32),
}

impl Owner {
    /// The connection's; `NOBODY` in TIME-WAIT.
    fn key(self) -> u32 {
        match self {
            Self::Subflow(key, _) => key,
            Self::TimeWait(_) => NOBODY,
        }
    }
}

/// A hash table from 4-tuples to their owners.
pub(crate) struct FlowTable {
    secret: (u64, u64),
    /// Small, so that it stays in the caches when thousands of connections do not.
    table: HashTable<Place>,
    entries: Slab<(Tuple, Owner)>,
    /// The last tuple found: traffic comes in bursts.
    last: Option<(Tuple, Owner)>,
    hints: Hints,
}

/// Where a tuple with this hash is.
#[derive(Clone, Copy)]
struct Place {
    /// The upper half of the 4-tuple's hash.
    hash: u32,
    at: u32,
}

/// A key that no connection has.
pub(super) const NOBODY: u32 = u32::MAX;

/// Hints: the keys of the connections whose tuples hash to a group, the most recent ones. A peer
/// that chooses tuples of one group only makes its own look-ups slower.
struct Hints(Vec<Group>);

/// Hints that share half a cache line.
#[derive(Clone)]
#[repr(align(32))]
struct Group([Hint; Group::SIZE]);

/// A hint: a tuple with this mark probably belongs to the connection with this key.
#[derive(Clone, Copy)]
struct Hint {
    mark: u32,
    key: u32,
}

impl Group {
    const SIZE: usize = 4;
    const EMPTY: Self = Self([Hint { mark: 0, key: NOBODY }; Self::SIZE]);
}

impl Hints {
    /// Groups at first: a power of two, as they are doubled.
    const GROUPS: usize = 16;

    fn with_groups(count: usize) -> Self {
        Self(vec![Group::EMPTY; count])
    }

    /// Whether few of so many tuples find their group full.
    fn suffice_for(&self, tuples: usize) -> bool {
        tuples <= self.0.len()
    }

    /// Where the hint for a tuple is, and its mark.
    #[inline]
    fn place(&self, tuple: &Tuple) -> (usize, u32) {
        let ports = u64::from(tuple.local.port()) << 16 | u64::from(tuple.remote.port());
        let peer = match tuple.remote.ip() {
            IpAddr::V4(a) => a.to_bits(),
            IpAddr::V6(a) => a.to_bits() as u32,
        };
        // Fibonacci hashing: the uppermost bits depend on all.
        let mixed = (u64::from(peer) << 32 | ports).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        ((mixed >> (u64::BITS - self.0.len().trailing_zeros())) as usize, (mixed >> 16) as u32)
    }

    #[inline]
    fn get(&self, tuple: &Tuple) -> u32 {
        let (at, mark) = self.place(tuple);
        let found = |key, hint: &Hint| if hint.mark == mark { hint.key } else { key };
        self.0[at].0.iter().fold(NOBODY, found)
    }

    /// `NOBODY` makes space for others.
    fn set(&mut self, tuple: &Tuple, key: u32) {
        let (at, mark) = self.place(tuple);
        let group = &mut self.0[at].0;
        let same = group.iter().position(|hint| hint.mark == mark);
        if key == NOBODY && same.is_none() {
            return;
        }
        let free = || group.iter().position(|hint| hint.key == NOBODY);
        let place = same.or_else(free).unwrap_or(mark as usize % Group::SIZE);
        group[place] = Hint { mark, key };
    }
}

impl FlowTable {
    pub(crate) fn new(secret: (u64, u64)) -> Self {
        Self {
            secret,
            table: HashTable::new(),
            entries: Slab::new(),
            last: None,
            hints: Hints::with_groups(Hints::GROUPS),
        }
    }

    /// The owner of `tuple`.
    pub(crate) fn find(&mut self, tuple: &Tuple) -> Option<Owner> {
        let hash = hash(self.secret, tuple);
        let same = |p: &Place| self.is_at(p, hash, tuple);
        let at = self.table.find(hash, same)?.at;
        let found = self.entries[at as usize];
        self.last = Some(found);
        Some(found.1)
    }

    /// Whose `tuple` is, if it is the one found last.
    #[inline]
    pub(crate) fn latest(&self, tuple: &Tuple) -> Option<Owner> {
        self.last.as_ref().filter(|(last, _)| last == tuple).map(|(_, owner)| *owner)
    }

    /// The key of the connection that `tuple` probably belongs to. The key may be stale.
    #[inline]
    pub(crate) fn hint(&self, tuple: &Tuple) -> u32 {
        self.hints.get(tuple)
    }

    /// A hint was right.
    #[inline]
    pub(crate) fn confirm(&mut self, tuple: Tuple, owner: Owner) {
        self.last = Some((tuple, owner));
    }

    fn grow_hints(&mut self) {
        let mut hints = Hints::with_groups(2 * self.hints.0.len());
        self.entries.iter().for_each(|(_, (tuple, owner))| hints.set(tuple, owner.key()));
        self.hints = hints;
    }

    #[inline]
    fn is_at(&self, place: &Place, hash: u64, tuple: &Tuple) -> bool {
        place.hash == upper(hash) && self.entries[place.at as usize].0 == *tuple
    }

    /// Makes `owner` the owner of `tuple`.
    pub(crate) fn insert(&mut self, tuple: Tuple, owner: Owner) {
        self.last = None;
        self.hints.set(&tuple, owner.key());
        let secret = self.secret;
        let hash_of = |tuple: &Tuple| hash(secret, tuple);
        let hash = hash_of(&tuple);
        let (table, entries) = (&mut self.table, &mut self.entries);
        let same = |p: &Place| p.hash == upper(hash) && entries[p.at as usize].0 == tuple;
        if let Some(place) = table.find(hash, same) {
            entries[place.at as usize].1 = owner;
        } else {
            let at = entries.insert((tuple, owner)) as u32;
            let place = Place { hash: upper(hash), at };
            table.insert_unique(hash, place, |p| hash_of(&entries[p.at as usize].0));
            if !self.hints.suffice_for(entries.len()) {
                self.grow_hints();
            }
        }
    }

    /// Removes the tuple if it still belongs to `owner`.
    pub(crate) fn remove(&mut self, tuple: &Tuple, owner: Owner) {
        self.last = None;
        let hash = hash(self.secret, tuple);
        let entries = &self.entries;
        let same = |p: &Place| p.hash == upper(hash) && entries[p.at as usize] == (*tuple, owner);
        if let Ok(entry) = self.table.find_entry(hash, same) {
            let (place, _) = entry.remove();
            self.entries.remove(place.at as usize);
            self.hints.set(tuple, NOBODY);
        }
    }
}

/// The table itself goes by the lower half.
fn upper(hash: u64) -> u32 {
    (hash >> 32) as u32
}

/// SipHash of a 4-tuple under a key: for the table, for ISNs (RFC 6528) and ports (RFC 6056).
#[inline]
pub(crate) fn hash(secret: (u64, u64), tuple: &Tuple) -> u64 {
    let mut hasher = SipHasher13::new_with_keys(secret.0, secret.1);
    write(&mut hasher, &tuple.local);
    write(&mut hasher, &tuple.remote);
    hasher.finish()
}

#[inline]
fn write(hasher: &mut SipHasher13, address: &SocketAddr) {
    match address.ip() {
        IpAddr::V4(a) => {
            hasher.write_u64(u64::from(u32::from(a)) << 16 | u64::from(address.port()));
        }
        IpAddr::V6(a) => {
            hasher.write_u64(a.to_bits() as u64);
            hasher.write_u64((a.to_bits() >> 64) as u64);
            hasher.write_u16(address.port());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tuple(n: u16) -> Tuple {
        Tuple {
            local: SocketAddr::new("10.0.0.1".parse().unwrap(), n),
            remote: SocketAddr::new("2001:db8::1".parse().unwrap(), 80),
        }
    }

    fn owner(n: u16) -> Owner {
        Owner::Subflow(u32::from(n), SubflowId(0))
    }

    /// With these, whose owners have their numbers.
    fn filled(tuples: impl IntoIterator<Item = Tuple>) -> FlowTable {
        let mut table = FlowTable::new((1, 2));
        tuples.into_iter().zip(0..).for_each(|(tuple, n)| table.insert(tuple, owner(n)));
        table
    }

    #[test]
    fn finds_what_was_inserted_and_forgets_what_was_removed() {
        let mut table = filled((0..500).map(tuple));
        for n in 0..500 {
            assert_eq!(table.find(&tuple(n)), Some(owner(n)));
        }
        assert_eq!(table.find(&tuple(500)), None);
        table.insert(tuple(7), Owner::TimeWait(3));
        table.remove(&tuple(7), owner(7));
        assert_eq!(table.find(&tuple(7)), Some(Owner::TimeWait(3)), "belongs to another now");
        table.remove(&tuple(7), Owner::TimeWait(3));
        assert_eq!(table.find(&tuple(7)), None);
        assert_eq!(table.table.len(), 499);
    }

    #[test]
    fn nearly_every_tuple_has_a_hint_and_those_in_time_wait_have_none() {
        // Whatever it is that they differ in.
        let peers = (0..5000_u32).map(|n| Tuple {
            local: "10.0.0.1:80".parse().unwrap(),
            remote: SocketAddr::new(IpAddr::V4((n << 16).into()), 80),
        });
        for tuples in [(0..5000).map(tuple).collect::<Vec<_>>(), peers.collect()] {
            let table = filled(tuples.iter().copied());
            let hinted = tuples.iter().zip(0..).filter(|(tuple, n)| table.hint(tuple) == *n);
            let hinted = hinted.count();
            assert!(hinted > 4900, "{hinted} of 5000");
        }
        let mut table = filled((0..8).map(tuple));
        table.insert(tuple(7), Owner::TimeWait(3));
        assert_eq!(table.hint(&tuple(7)), NOBODY);
    }

    #[test]
    fn hints_of_closed_flows_are_replaced() {
        let mut table = filled((0..8).map(tuple));
        for n in 8..5000 {
            table.insert(tuple(n), owner(n));
            assert_eq!(table.hint(&tuple(n)), u32::from(n));
            table.remove(&tuple(n), owner(n));
            assert_eq!(table.hint(&tuple(n)), NOBODY);
        }
        let left = table.hints.0.iter().flat_map(|group| group.0).filter(|h| h.key != NOBODY);
        assert_eq!(left.count(), 8);
    }
}
