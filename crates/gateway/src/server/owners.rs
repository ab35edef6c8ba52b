//! Whose path a WireGuard peer is.

use crate::index::{ClientIndex, PathIndex};
use std::collections::{BTreeMap, BTreeSet};
use tabane_net::wireguard::PeerId;

/// Client and path of each peer. What concerns one client costs as much as that has peers: there
/// may be thousands of others, and any of them may change its keys.
#[derive(Default)]
pub(super) struct Owners {
    of: BTreeMap<PeerId, (ClientIndex, PathIndex)>,
    by_client: BTreeSet<(ClientIndex, PeerId)>,
}

impl Owners {
    /// Whose path a peer is, if it is one.
    pub(super) fn get(&self, peer: PeerId) -> Option<(ClientIndex, PathIndex)> {
        self.of.get(&peer).copied()
    }

    /// A peer is a client's path from now on.
    pub(super) fn insert(&mut self, peer: PeerId, (at, path): (ClientIndex, PathIndex)) {
        self.remove(peer);
        self.of.insert(peer, (at, path));
        self.by_client.insert((at, peer));
    }

    /// A peer is no path any more; whose it was.
    pub(super) fn remove(&mut self, peer: PeerId) -> Option<(ClientIndex, PathIndex)> {
        let owner = self.of.remove(&peer)?;
        self.by_client.remove(&(owner.0, peer));
        Some(owner)
    }

    /// A client's peers, and the path of each.
    pub(super) fn of_client(
        &self,
        at: ClientIndex,
    ) -> impl Iterator<Item = (PeerId, PathIndex)> + use<'_> {
        let own = self.by_client.range((at, PeerId(0))..=(at, PeerId(u32::MAX)));
        own.filter_map(|(_, peer)| Some((*peer, self.get(*peer)?.1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_say_the_same() {
        let mut owners = Owners::default();
        let (client, path) =
            (ClientIndex::new, PathIndex::enumerate([(); 3]).map(|(path, ())| path));
        let path: Vec<PathIndex> = path.collect();
        for peer in 0..30 {
            owners.insert(PeerId(peer), (client(peer as usize % 10), path[peer as usize / 10]));
        }
        let own = |owners: &Owners, at| owners.of_client(client(at)).collect::<Vec<_>>();
        assert_eq!(
            own(&owners, 3),
            [(PeerId(3), path[0]), (PeerId(13), path[1]), (PeerId(23), path[2])]
        );
        assert_eq!(owners.remove(PeerId(13)), Some((client(3), path[1])));
        assert_eq!(owners.remove(PeerId(13)), None);
        // One that is given to another client is the first one's no more.
        owners.insert(PeerId(23), (client(4), path[0]));
        assert_eq!(own(&owners, 3), [(PeerId(3), path[0])]);
        assert_eq!(own(&owners, 4).len(), 4);
        assert_eq!(owners.get(PeerId(23)), Some((client(4), path[0])));
    }
}
