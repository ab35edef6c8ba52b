//! Reports of a client's paths ([`Reports`]): what came, and what is due.

use super::client_sessions::{ClientSessions, seal};
use crate::index::{ClientIndex, PathIndex};
use crate::path::Count;
use tabane_engine::Instant;
use tabane_net::wireguard::{PeerId, Peers, SessionCounters, UdpPort};

impl ClientSessions {
    /// Takes a packet that came by a client's path, if it is a report.
    pub(super) fn take_report(
        &mut self,
        now: Instant,
        (at, path): (ClientIndex, PathIndex),
        packet: &[u8],
    ) -> bool {
        let Self { all, peers, .. } = self;
        let Some(Some(session)) = all.get_mut(at.get()) else { return false };
        let counters = counters(peers, session.peers[path]);
        let received = Count { packets: counters.rx_packets, bytes: counters.rx_bytes };
        session.reports[path].handle_packet(now, packet, received)
    }

    /// Sends the reports of a client's paths that are due.
    pub(super) fn report(
        &mut self,
        now: Instant,
        at: ClientIndex,
        ports: &mut [UdpPort],
        scratch: &mut [u8],
    ) {
        let Self { all, peers, .. } = self;
        let Some(Some(session)) = all.get_mut(at.get()) else { return };
        for path in PathIndex::all() {
            let Some(peer) = session.peers[path] else { continue };
            let reports = &mut session.reports[path];
            reports.set_known(session.responders[path].knows_reports());
            let counters = counters(peers, Some(peer));
            let sent = Count { packets: counters.tx_packets, bytes: counters.tx_bytes };
            if let Some(len) = reports.poll(now, sent, scratch) {
                let taken = seal(peers, peer, &scratch[..len], ports);
                session.bond.counters[path].sent(len, taken);
            }
        }
    }
}

fn counters(peers: &Peers, peer: Option<PeerId>) -> SessionCounters {
    let session = peer.and_then(|peer| peers.session(peer));
    session.map_or_else(SessionCounters::default, |session| *session.counters())
}
