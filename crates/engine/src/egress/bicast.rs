//! `bicast` and `bicast-ack`: a copy by every path that is up (client-side constant bicast for
//! MPTCP, the paper `bicast` of docs/papers.md). A copy keeps addresses, ports and TCP header,
//! and only travels another path, so it needs paths that carry foreign source addresses: tunnels,
//! one operator, a laboratory.
//!
//! Not as in the paper: SYNs leave by their own path alone unless `syn=1`, because a server with
//! several paths and one address takes the path by which a SYN comes for the subflow's own.

use super::{Egress, Outgoing};
use crate::policy::{Param, PolicyError, Values};
use crate::view::{PathSet, PathView};

pub(super) const PARAMS: &[Param] = &[Param::switch(
    "syn",
    false,
    "1: SYNs too, for servers with one path; 0: by their own path alone",
)];

/// The egress policies `bicast` and `bicast-ack`.
pub(super) struct Bicast {
    acks_only: bool,
    syn: bool,
}

impl Bicast {
    pub(super) fn all(values: &Values<'_>) -> Result<Box<dyn Egress>, PolicyError> {
        let syn = values.is_on("syn");
        Ok(Box::new(Self { acks_only: false, syn }))
    }

    pub(super) fn acks(_: &Values<'_>) -> Result<Box<dyn Egress>, PolicyError> {
        Ok(Box::new(Self { acks_only: true, syn: false }))
    }
}

impl Egress for Bicast {
    fn route(&mut self, segment: &Outgoing, paths: &[PathView]) -> PathSet {
        let own = PathSet::only(segment.own);
        if segment.handshake && !self.syn || self.acks_only && !segment.pure_ack {
            return own;
        }
        let up: PathSet = paths.iter().filter(|p| p.up).map(|p| p.id).collect();
        if up.is_empty() || segment.own_required { up.union(own) } else { up }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::{Duration, Instant};
    use crate::view::{PathId, SubflowId};

    fn paths(up: [bool; 3]) -> Vec<PathView> {
        let (rtt, heard) = (Duration::ZERO, Instant::ZERO);
        let view = |(i, up)| PathView { id: PathId(i as u8), up, rtt, heard };
        up.into_iter().enumerate().map(view).collect()
    }

    fn segment(handshake: bool, pure_ack: bool) -> Outgoing {
        Outgoing {
            now: Instant::ZERO,
            subflow: SubflowId(0),
            own: PathId(0),
            handshake,
            pure_ack,
            own_required: handshake,
            len: 40,
        }
    }

    fn ids(set: PathSet) -> Vec<u8> {
        set.iter().map(|p| p.0).collect()
    }

    #[test]
    fn bicast_takes_every_path_that_is_up() {
        let mut bicast = Bicast { acks_only: false, syn: false };
        let up = [true, false, true];
        assert_eq!(ids(bicast.route(&segment(false, false), &paths(up))), [0, 2]);
        assert_eq!(ids(bicast.route(&segment(false, true), &paths([false, true, false]))), [1]);
        assert_eq!(ids(bicast.route(&segment(false, true), &paths([false; 3]))), [0]);
        assert_eq!(ids(bicast.route(&segment(true, false), &paths(up))), [0]);
        bicast.syn = true;
        assert_eq!(ids(bicast.route(&segment(true, false), &paths(up))), [0, 2]);
    }

    #[test]
    fn bicast_ack_leaves_data_alone() {
        let mut bicast = Bicast { acks_only: true, syn: false };
        assert_eq!(ids(bicast.route(&segment(false, false), &paths([true; 3]))), [0]);
        assert_eq!(ids(bicast.route(&segment(false, true), &paths([true; 3]))), [0, 1, 2]);
    }
}
