//! Which subflow a segment belongs to: a hash table of 4-tuples, O(1) whatever their number.
//!
//! The hash is SipHash under a secret key, so that a peer cannot choose colliding ports. Nothing
//! ever iterates over the table: its order has no influence on anything.

use crate::view::SubflowId;
use hashbrown::HashTable;
use siphasher::sip::SipHasher13;
use slab::Slab;
use std::collections::VecDeque;
use std::hash::Hasher;
use std::net::{IpAddr, SocketAddr};

/// A 4-tuple, seen from here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Tuple {
    pub(crate) local: SocketAddr,
    pub(crate) remote: SocketAddr,
}

/// Whose it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Owner {
    /// A subflow of the connection in this slot.
    Subflow(u32, SubflowId),
    /// An entry of the TIME-WAIT table.
    TimeWait(u32),
}

/// Segments to come that are remembered.
const EXPECTED: usize = 8;

/// The table.
pub(crate) struct FlowTable {
    secret: (u64, u64),
    /// Small, so that it stays in the caches when thousands of connections do not.
    table: HashTable<Place>,
    entries: Slab<(Tuple, Owner)>,
    /// The last tuple found: traffic comes in bursts.
    last: Option<(Tuple, Owner)>,
    /// Tuples of segments to come and whose they probably are, oldest first.
    expected: VecDeque<(Tuple, Guess)>,
}

/// The subflow that a tuple belongs to, by its hash alone: slot of its connection, and its id.
pub(crate) type Guess = (u32, SubflowId);

/// Where a tuple with this hash is.
#[derive(Clone, Copy)]
struct Place {
    /// The upper half.
    hash: u32,
    at: u32,
    /// `NOBODY` in TIME-WAIT.
    key: u32,
    id: SubflowId,
}

/// No connection's slot.
const NOBODY: u32 = u32::MAX;

impl FlowTable {
    pub(crate) fn new(secret: (u64, u64)) -> Self {
        Self {
            secret,
            table: HashTable::new(),
            entries: Slab::new(),
            last: None,
            expected: VecDeque::new(),
        }
    }

    #[inline]
    pub(crate) fn find(&mut self, tuple: &Tuple) -> Option<Owner> {
        if let Some((last, owner)) = &self.last
            && last == tuple
        {
            return Some(*owner);
        }
        let hash = hash(self.secret, tuple);
        let same = |p: &Place| self.is_at(p, hash, tuple);
        let at = self.table.find(hash, same)?.at;
        let found = self.entries[at as usize];
        self.last = Some(found);
        Some(found.1)
    }

    /// Whose `tuple` probably is, if it was announced; the caller knows better than the table,
    /// whose entry is in no cache, and says so by `confirm`.
    #[inline]
    pub(crate) fn guess(&mut self, tuple: &Tuple) -> Option<Guess> {
        let n = self.expected.iter().position(|(other, _)| other == tuple)?;
        self.expected.remove(n).map(|(_, guess)| guess)
    }

    /// The guess was right.
    #[inline]
    pub(crate) fn confirm(&mut self, tuple: Tuple, (key, id): Guess) {
        self.last = Some((tuple, Owner::Subflow(key, id)));
    }

    #[inline]
    fn is_at(&self, place: &Place, hash: u64, tuple: &Tuple) -> bool {
        place.hash == upper(hash) && self.entries[place.at as usize].0 == *tuple
    }

    /// Whether `tuple` is what has been announced last, or found if nothing has.
    #[inline]
    pub(crate) fn is_latest(&self, tuple: &Tuple) -> bool {
        let latest = match self.expected.back() {
            Some((expected, _)) => Some(expected),
            None => self.last.as_ref().map(|(last, _)| last),
        };
        latest == Some(tuple)
    }

    /// Looks up `tuple` for a segment to come.
    pub(crate) fn expect(&mut self, tuple: Tuple) -> Option<Guess> {
        let hash = hash(self.secret, &tuple);
        let place = *self.table.find(hash, |p| p.hash == upper(hash) && p.key != NOBODY)?;
        if self.expected.len() >= EXPECTED {
            // It did not come.
            self.expected.pop_front();
        }
        let guess = (place.key, place.id);
        self.expected.push_back((tuple, guess));
        Some(guess)
    }

    fn forget_hints(&mut self) {
        self.last = None;
        self.expected.clear();
    }

    /// Adds or replaces.
    pub(crate) fn insert(&mut self, tuple: Tuple, owner: Owner) {
        self.forget_hints();
        let secret = self.secret;
        let hash_of = |tuple: &Tuple| hash(secret, tuple);
        let hash = hash_of(&tuple);
        let (key, id) = match owner {
            Owner::Subflow(key, id) => (key, id),
            Owner::TimeWait(_) => (NOBODY, SubflowId(0)),
        };
        let (table, entries) = (&mut self.table, &mut self.entries);
        let same = |p: &Place| p.hash == upper(hash) && entries[p.at as usize].0 == tuple;
        if let Some(place) = table.find_mut(hash, same) {
            (place.key, place.id) = (key, id);
            entries[place.at as usize].1 = owner;
        } else {
            let at = entries.insert((tuple, owner)) as u32;
            let place = Place { hash: upper(hash), at, key, id };
            table.insert_unique(hash, place, |p| hash_of(&entries[p.at as usize].0));
        }
    }

    /// Removes the tuple if it still belongs to `owner`.
    pub(crate) fn remove(&mut self, tuple: &Tuple, owner: Owner) {
        self.forget_hints();
        let hash = hash(self.secret, tuple);
        let entries = &self.entries;
        let same = |p: &Place| p.hash == upper(hash) && entries[p.at as usize] == (*tuple, owner);
        if let Ok(entry) = self.table.find_entry(hash, same) {
            let (place, _) = entry.remove();
            self.entries.remove(place.at as usize);
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

    #[test]
    fn finds_what_was_inserted_and_forgets_what_was_removed() {
        let mut table = FlowTable::new((1, 2));
        let owner = |n| Owner::Subflow(u32::from(n), SubflowId(0));
        for n in 0..500 {
            table.insert(tuple(n), owner(n));
        }
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
}
