//! A table of what is known of flows of datagrams, bounded in number and in time.
//!
//! Two maps: what is used goes into the young one; when that is full, or a minute old, it becomes
//! the old one, and what nobody has used since the time before is forgotten. So a flow in use is
//! kept, and a flood of new ones costs no more than the bound.

use std::collections::BTreeMap;
use std::mem;
use tabane_engine::{Duration, Instant};

/// Addresses and ports of a UDP packet: version, source, destination, ports.
pub(super) type FlowKey = [u8; 37];

/// The table.
#[derive(Debug)]
pub(super) struct Generations<V> {
    young: BTreeMap<FlowKey, V>,
    old: BTreeMap<FlowKey, V>,
    turned: Instant,
}

/// Flows in each of the two maps.
pub(super) const FLOWS_MAX: usize = 1024;
/// After which the young map becomes the old one.
const PERIOD: Duration = Duration::from_secs(60);

impl<V> Default for Generations<V> {
    fn default() -> Self {
        Self { young: BTreeMap::new(), old: BTreeMap::new(), turned: Instant::ZERO }
    }
}

impl<V> Generations<V> {
    /// Makes room for one more; returns what is forgotten by that.
    pub(super) fn turn(&mut self, now: Instant) -> Option<BTreeMap<FlowKey, V>> {
        if self.young.len() < FLOWS_MAX && now.saturating_since(self.turned) < PERIOD {
            return None;
        }
        self.turned = now;
        let young = mem::take(&mut self.young);
        Some(mem::replace(&mut self.old, young))
    }

    /// A flow, made if it is not known.
    pub(super) fn entry(&mut self, key: FlowKey, make: impl FnOnce() -> V) -> &mut V {
        let old = &mut self.old;
        self.young.entry(key).or_insert_with(|| old.remove(&key).unwrap_or_else(make))
    }

    /// A flow, if it is known.
    pub(super) fn get_mut(&mut self, key: &FlowKey) -> Option<&mut V> {
        self.young.get_mut(key).or_else(|| self.old.get_mut(key))
    }
}

/// The key of a whole UDP packet; `None` for all others, fragments among them.
pub(super) fn key(packet: &[u8]) -> Option<FlowKey> {
    const UDP: u8 = 17;
    let mut key = [0; 37];
    key[0] = packet.first()? >> 4;
    let ports = match key[0] {
        4 => {
            let header_len = usize::from(packet[0] & 15) * 4;
            let whole = packet.len() >= 20 && !super::fragment::is_fragment(packet);
            if !whole || packet[9] != UDP || header_len < 20 {
                return None;
            }
            key[1..9].copy_from_slice(&packet[12..20]);
            header_len
        }
        6 => {
            if packet.len() < 40 || packet[6] != UDP {
                return None;
            }
            key[1..33].copy_from_slice(&packet[8..40]);
            40
        }
        _ => return None,
    };
    key[33..].copy_from_slice(packet.get(ports..ports + 4)?);
    Some(key)
}

/// The key of what comes back in a flow.
pub(super) fn back(key: &FlowKey) -> FlowKey {
    let len = if key[0] == 4 { 4 } else { 16 };
    let mut back = *key;
    back[1..=len].copy_from_slice(&key[1 + len..=2 * len]);
    back[1 + len..=2 * len].copy_from_slice(&key[1..=len]);
    back[33..35].copy_from_slice(&key[35..37]);
    back[35..37].copy_from_slice(&key[33..35]);
    back
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_is_kept_and_the_rest_is_bounded() {
        let mut table = Generations::default();
        let key = |n: u32| {
            let mut key = [0; 37];
            key[..4].copy_from_slice(&n.to_be_bytes());
            key
        };
        let mut forgotten = 0;
        for n in 1..=10 * FLOWS_MAX as u32 {
            forgotten += table.turn(Instant::ZERO).map_or(0, |dropped| dropped.len());
            assert_eq!(*table.entry(key(0), || if n == 1 { 7 } else { 8 }), 7, "{n}");
            table.entry(key(n), || 0);
        }
        assert!(table.young.len() + table.old.len() <= 2 * FLOWS_MAX + 2);
        assert!(forgotten > 7 * FLOWS_MAX);
        // And time passes.
        let later = |n| Instant::ZERO + Duration(PERIOD.0 * n);
        table.turn(later(1));
        table.turn(later(2));
        assert!(table.get_mut(&key(0)).is_none());
    }
}
