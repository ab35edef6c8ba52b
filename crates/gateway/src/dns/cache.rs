//! What the client remembers of names, for as long as their answers say, within bounds.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use tabane_engine::{Duration, Instant};

/// Names and their addresses; none: there are none.
#[derive(Default, Debug)]
pub(super) struct Cache {
    names: BTreeMap<String, (Instant, Vec<IpAddr>)>,
    /// The same by the end of their time.
    ends: BTreeSet<(Instant, String)>,
}

/// Names remembered; beyond, the one that would be forgotten first goes.
const NAMES_MAX: usize = 4096;
/// Addresses of a name.
const ADDRESSES_MAX: usize = 32;
/// Bounds of how long: an answer is used at least for the connections of one page, and the
/// longest is not trusted for ever.
const SHORTEST: Duration = Duration::from_secs(5);
const LONGEST: Duration = Duration::from_secs(3600);
/// That a name does not exist may be wrong sooner than that it does (RFC 2308 section 5 has it
/// from the zone, which the answers of a resolver library do not carry).
const NEGATIVE: Duration = Duration::from_secs(10);

impl Cache {
    /// The addresses of a name, if they are known at `now`.
    pub(super) fn get(&self, now: Instant, name: &str) -> Option<&[IpAddr]> {
        let (end, addresses) = self.names.get(name)?;
        (now < *end).then_some(addresses)
    }

    /// Remembers the answer for `ttl` seconds.
    pub(super) fn put(&mut self, now: Instant, name: &str, addresses: &[IpAddr], ttl: u32) {
        let time = match addresses.is_empty() {
            true => NEGATIVE,
            false => Duration::from_secs(u64::from(ttl)).max(SHORTEST).min(LONGEST),
        };
        let addresses = addresses[..addresses.len().min(ADDRESSES_MAX)].to_vec();
        if let Some((end, _)) = self.names.insert(name.to_owned(), (now + time, addresses)) {
            self.ends.remove(&(end, name.to_owned()));
        }
        self.ends.insert((now + time, name.to_owned()));
        while self.names.len() > NAMES_MAX {
            let Some((_, name)) = self.ends.pop_first() else { return };
            self.names.remove(&name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_forgotten_in_time() {
        let (mut cache, address) = (Cache::default(), [IpAddr::from([192, 0, 2, 1])]);
        let at = |secs| Instant::ZERO + Duration::from_secs(secs);
        cache.put(at(0), "short", &address, 0);
        cache.put(at(0), "long", &address, u32::MAX);
        cache.put(at(0), "minute", &address, 60);
        cache.put(at(0), "none", &[], 60);
        for (name, last) in [("short", 4), ("long", 3599), ("minute", 59), ("none", 9)] {
            assert!(cache.get(at(last), name).is_some(), "{name}");
            assert!(cache.get(at(last + 1), name).is_none(), "{name}");
        }
        // Written anew, it stays longer.
        cache.put(at(50), "minute", &address, 60);
        assert!(cache.get(at(109), "minute").is_some());
        assert_eq!(cache.names.len(), cache.ends.len());
    }

    #[test]
    fn memory_is_bounded() {
        let mut cache = Cache::default();
        let addresses = [IpAddr::from([192, 0, 2, 1]); 100];
        for i in 0..2 * NAMES_MAX {
            cache.put(Instant::ZERO, &format!("{i}.example"), &addresses, 60 + i as u32 % 1000);
        }
        assert_eq!((cache.names.len(), cache.ends.len()), (NAMES_MAX, NAMES_MAX));
        assert!(cache.names.values().all(|(_, addresses)| addresses.len() == ADDRESSES_MAX));
    }
}
