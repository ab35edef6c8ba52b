//! The connections, by keys that are used again, the one given back last first.

use super::flow::{Owner, Tuple};
use super::{ConnId, Endpoint, Slot};
use crate::cache::fetch;
use std::net::SocketAddr;

impl Endpoint {
    /// The connection that has a subflow from `remote` to `local`; it may be over
    /// ([`Endpoint::connection`]).
    #[must_use]
    pub fn connection_of(&mut self, local: SocketAddr, remote: SocketAddr) -> Option<ConnId> {
        match self.flows.find(&Tuple { local, remote })? {
            Owner::Subflow(key, _) => Some(self.connections.get(key)?.connection.id()),
            Owner::TimeWait(_) => None,
        }
    }

    /// The connections there are, in whatever state.
    pub fn connection_ids(&self) -> impl Iterator<Item = ConnId> {
        let slots = self.connections.keys().filter_map(|key| self.connections.get(key));
        slots.map(|slot| slot.connection.id())
    }
}

/// The connections of an endpoint, by a key that is used again.
#[derive(Default)]
pub(super) struct Slots {
    /// Boxed: they stay where they are, and a key leads to them by one word.
    places: Vec<Option<Box<Slot>>>,
    free: Vec<u32>,
}

impl Slots {
    #[inline]
    pub(super) fn get(&self, key: u32) -> Option<&Slot> {
        self.places.get(key as usize)?.as_deref()
    }

    #[inline]
    pub(super) fn get_mut(&mut self, key: u32) -> Option<&mut Slot> {
        self.places.get_mut(key as usize)?.as_deref_mut()
    }

    /// Two at once, unless they are the same.
    pub(super) fn get_two(&mut self, keys: [u32; 2]) -> Option<[&mut Slot; 2]> {
        let places = self.places.get_disjoint_mut(keys.map(|key| key as usize)).ok()?;
        let [a, b] = places.map(Option::as_deref_mut);
        Some([a?, b?])
    }

    /// Asks for what `get` will need: see `cache.rs`.
    #[inline]
    pub(super) fn prefetch(&self, key: u32) {
        if let Some(place) = self.places.get(key as usize) {
            fetch(place);
        }
    }

    pub(super) fn insert(&mut self, slot: Slot) -> u32 {
        let slot = Some(Box::new(slot));
        if let Some(key) = self.free.pop() {
            self.places[key as usize] = slot;
            return key;
        }
        self.places.push(slot);
        self.places.len() as u32 - 1
    }

    pub(super) fn remove(&mut self, key: u32) -> Option<Box<Slot>> {
        let slot = self.places.get_mut(key as usize)?.take();
        if slot.is_some() {
            self.free.push(key);
        }
        slot
    }

    /// How many there are.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// Their keys, ascending.
    pub(super) fn keys(&self) -> impl Iterator<Item = u32> {
        let taken = |(key, place): (usize, &Option<_>)| place.is_some().then_some(key as u32);
        self.places.iter().enumerate().filter_map(taken)
    }
}
