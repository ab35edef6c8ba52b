//! Which subflow a segment belongs to: a hash table of 4-tuples, O(1) whatever their number.
//!
//! The hash is SipHash under a secret key, so that a peer cannot choose colliding ports. Nothing
//! ever iterates over the table: its order has no influence on anything.

use crate::view::SubflowId;
use hashbrown::HashTable;
use siphasher::sip::SipHasher13;
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
    table: HashTable<(Tuple, Owner)>,
    /// The last tuple found: traffic comes in bursts.
    last: Option<(Tuple, Owner)>,
    /// Tuples that have been looked up for segments to come, oldest first.
    expected: VecDeque<(Tuple, Owner)>,
}

impl FlowTable {
    pub(crate) fn new(secret: (u64, u64)) -> Self {
        Self { secret, table: HashTable::new(), last: None, expected: VecDeque::new() }
    }

    #[inline]
    pub(crate) fn find(&mut self, tuple: &Tuple) -> Option<Owner> {
        if let Some((last, owner)) = &self.last
            && last == tuple
        {
            return Some(*owner);
        }
        if let Some((next, _)) = self.expected.front()
            && next == tuple
        {
            self.last = self.expected.pop_front();
            return self.last.map(|(_, owner)| owner);
        }
        let found = self.table.find(hash(self.secret, tuple), |(t, _)| t == tuple)?;
        self.last = Some(*found);
        Some(found.1)
    }

    /// Whether `tuple` is what was found last.
    #[inline]
    pub(crate) fn is_last(&self, tuple: &Tuple) -> bool {
        self.last.as_ref().is_some_and(|(last, _)| last == tuple)
    }

    /// Looks up `tuple` for a segment to come.
    pub(crate) fn expect(&mut self, tuple: Tuple) -> Option<Owner> {
        let found = *self.table.find(hash(self.secret, &tuple), |(t, _)| *t == tuple)?;
        if self.expected.len() >= EXPECTED {
            // They did not come in this order.
            self.expected.clear();
        }
        self.expected.push_back(found);
        Some(found.1)
    }

    /// Owners of the segments to come that were looked up last and last but one.
    pub(crate) fn expected(&self) -> (Option<Owner>, Option<Owner>) {
        let mut latest = self.expected.iter().rev().map(|(_, owner)| *owner);
        (latest.next(), latest.next())
    }

    fn forget_hints(&mut self) {
        self.last = None;
        self.expected.clear();
    }

    /// Adds or replaces.
    pub(crate) fn insert(&mut self, tuple: Tuple, owner: Owner) {
        self.forget_hints();
        let secret = self.secret;
        let at = hash(secret, &tuple);
        if let Some(entry) = self.table.find_mut(at, |(t, _)| *t == tuple) {
            entry.1 = owner;
        } else {
            self.table.insert_unique(at, (tuple, owner), |(t, _)| hash(secret, t));
        }
    }

    /// Removes the tuple if it still belongs to `owner`.
    pub(crate) fn remove(&mut self, tuple: &Tuple, owner: Owner) {
        self.forget_hints();
        let at = hash(self.secret, tuple);
        if let Ok(entry) = self.table.find_entry(at, |(t, o)| t == tuple && *o == owner) {
            entry.remove();
        }
    }
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
