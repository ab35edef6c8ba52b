//! Which port each flow connects to: how a node that accepts a connection knows whose it is.
//!
//! A node gives out its ports one after the other; once all have been given, those that the same
//! peer does not have yet. So the limit is of flows between two nodes, not of flows to a node.

use std::collections::BTreeMap;

/// Ports of nodes that accept connections.
#[derive(Default)]
pub(crate) struct Ports {
    /// Ports given out by each node, up to [`Ports::MOST`].
    given: BTreeMap<u32, u32>,
    /// For nodes that have given all, by peer: those looked at a second time.
    again: BTreeMap<(u32, u32), u32>,
    /// By node, peer and port: a flow, and the number of its connection from the client on.
    legs: BTreeMap<(u32, u32, u16), (u32, u32)>,
}

/// First port that flows connect to.
const FIRST: u32 = 5_001;

impl Ports {
    /// Flows between two nodes.
    pub(crate) const MOST: u32 = (u16::MAX as u32) + 1 - FIRST;

    /// A port of `node` for the connection `leg` (a flow, and the number of its connection) that
    /// `peer` opens to it; `None` if it has [`Ports::MOST`] of them.
    pub(super) fn assign(&mut self, node: usize, peer: usize, leg: (usize, usize)) -> Option<u16> {
        let (node, peer) = (node as u32, peer as u32);
        let given = self.given.entry(node).or_default();
        let (from, is_new) = if *given < Self::MOST {
            *given += 1;
            (*given - 1, true)
        } else {
            (*self.again.entry((node, peer)).or_default(), false)
        };
        let port = |n: u32| (FIRST + n) as u16;
        let n = (from..Self::MOST).find(|n| !self.legs.contains_key(&(node, peer, port(*n))))?;
        if !is_new {
            self.again.insert((node, peer), n + 1);
        }
        self.legs.insert((node, peer, port(n)), (leg.0 as u32, leg.1 as u32));
        Some(port(n))
    }

    /// The flow, and the number of its connection, that comes from `peer` to a port of `node`.
    pub(super) fn find(&self, node: usize, port: u16, peer: usize) -> Option<(usize, usize)> {
        let leg = self.legs.get(&(node as u32, peer as u32, port));
        leg.map(|(flow, number)| (*flow as usize, *number as usize))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_has_as_many_ports_for_each_of_its_peers() {
        let mut ports = Ports::default();
        let most = Ports::MOST as usize;
        // Peers 1 and 2 in turn use them up once.
        for n in 0..most {
            assert_eq!(ports.assign(0, 1 + n % 2, (n, 0)), Some((5_001 + n) as u16));
        }
        let again = most / 2;
        for n in 0..again {
            let port = ports.assign(0, 1, (most + n, 0));
            assert_eq!(port, Some((5_002 + 2 * n) as u16), "one that only peer 2 has");
        }
        assert_eq!(ports.assign(0, 1, (0, 0)), None, "it has all");
        assert_eq!(ports.assign(0, 3, (7, 1)), Some(5_001));
        assert_eq!(ports.find(0, 5_001, 3), Some((7, 1)));
        assert_eq!(ports.find(0, 5_001, 1), Some((0, 0)));
        assert_eq!(ports.find(0, 5_002, 1), Some((most, 0)));
        assert_eq!(ports.find(0, 5_001, 2), None);
        assert_eq!(ports.assign(9, 1, (0, 0)), Some(5_001), "another node");
    }
}
