//! How many connections hosts that share a client may have: each as many as any other, so that
//! one of them, or what has taken it over, does not take those of all.

use std::collections::BTreeMap;
use std::net::IpAddr;

/// Connections of one address at a time. Half of what a server grants a client by default, and more
/// than a host has that shares files with hundreds of others.
pub(crate) const OF_ADDRESS: usize = 2048;

/// The connections, by their name `I`, that count for their address.
#[derive(Debug)]
pub(crate) struct Shares<I> {
    most: usize,
    all: BTreeMap<I, IpAddr>,
    of: BTreeMap<IpAddr, usize>,
    /// Connections that were not taken.
    pub(crate) refused: u64,
}

impl<I: Ord> Shares<I> {
    /// For up to `most` connections of an address.
    pub(crate) fn new(most: usize) -> Self {
        Self { most, all: BTreeMap::new(), of: BTreeMap::new(), refused: 0 }
    }

    /// Whether an address has all that it may have; if so, who asks counts as refused.
    pub(crate) fn is_over(&mut self, address: IpAddr) -> bool {
        let over = self.of.get(&address).is_some_and(|count| *count >= self.most);
        self.refused += u64::from(over);
        over
    }

    /// A new connection of an address.
    pub(crate) fn add(&mut self, id: I, address: IpAddr) {
        if self.all.insert(id, address).is_none() {
            *self.of.entry(address).or_default() += 1;
        }
    }

    /// A connection is over, if it was one of these.
    pub(crate) fn remove(&mut self, id: &I) {
        let Some(address) = self.all.remove(id) else { return };
        if let Some(count) = self.of.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                self.of.remove(&address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_its_share_and_leaves_no_trace() {
        let [one, other]: [IpAddr; 2] = ["192.0.2.1", "2001:db8::1"].map(|a| a.parse().unwrap());
        let mut shares = Shares::new(2);
        shares.add(1, one);
        shares.add(1, one);
        assert!(!shares.is_over(one));
        shares.add(2, one);
        assert!(shares.is_over(one));
        assert!(!shares.is_over(other));
        assert_eq!(shares.refused, 1);
        shares.remove(&1);
        shares.remove(&1);
        assert!(!shares.is_over(one));
        shares.remove(&2);
        assert!(shares.of.is_empty() && shares.all.is_empty());
    }
}
