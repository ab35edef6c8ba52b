//! What the driver, or earlier connections, say of paths: whether they are up, what they carry, how
//! long a round trip takes.

use super::Endpoint;
use crate::mptcp::{Connection, Mtus, PathRtts};
use crate::time::Instant;
use crate::view::{PathId, PathRtt};

impl Endpoint {
    /// A path went down or came up (link state): subflows on it count as potentially
    /// failed, or are tried again.
    pub fn set_path_up(&mut self, now: Instant, path: PathId, up: bool) {
        self.advance(now);
        if up {
            self.paths_down.remove(path);
        } else {
            self.paths_down.insert(path);
        }
        self.for_each(|connection| connection.set_path_up(now, path, up));
    }

    /// Whether a path is up, as far as [`set_path_up`](Self::set_path_up) has told.
    pub fn is_path_up(&self, path: PathId) -> bool {
        !self.paths_down.contains(path)
    }

    /// What the driver knows of a path's round trips; `None`: nothing, or openings are not to be
    /// hedged by it ([`MptcpConfig::hedging`](crate::config::MptcpConfig::hedging)).
    /// Once it has said
    /// something of any path, what connections measure does not count.
    pub fn set_path_rtt(&mut self, path: PathId, rtt: Option<PathRtt>) {
        if !self.rtts_given {
            self.rtts_given = true;
            self.path_rtts = PathRtts::default();
        }
        let rtts = PathRtts::make_mut(&mut self.path_rtts);
        rtts.retain(|(id, _)| *id != path);
        rtts.extend(rtt.map(|rtt| (path, rtt)));
    }

    /// What connections of ours have measured is known to the next (RFC 9040).
    pub(super) fn learn_rtts(&mut self, key: u32) {
        let Some(slot) = self.connections.get_mut(key) else { return };
        for (path, rtt) in slot.connection.take_opening_rtts() {
            if self.rtts_given {
                continue;
            }
            let rtts = PathRtts::make_mut(&mut self.path_rtts);
            match rtts.iter_mut().find(|(id, _)| *id == path) {
                Some((_, known)) => known.add(rtt),
                None => rtts.push((path, PathRtt::first(rtt))),
            }
        }
    }

    /// The MTU of a path changed.
    pub fn set_path_mtu(&mut self, now: Instant, path: PathId, mtu: u16) {
        self.advance(now);
        let mtus = Mtus::make_mut(&mut self.mtus);
        mtus.retain(|(id, _)| *id != path);
        mtus.push((path, mtu));
        let mtus = Mtus::clone(&self.mtus);
        self.for_each(|connection| connection.set_path_mtu(now, path, mtu, &mtus));
    }

    fn for_each(&mut self, change: impl Fn(&mut Connection)) {
        for key in self.connections.keys().collect::<Vec<_>>() {
            if let Some(slot) = self.connections.get_mut(key) {
                change(&mut slot.connection);
                self.enqueue(key);
            }
        }
    }
}
