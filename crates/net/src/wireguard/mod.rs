//! WireGuard over UDP: what a path of the gateway consists of.
//!
//! [`Session`] is one peer's Noise state, [`Peers`] a server's table of them, [`UdpPort`] the
//! socket below. The cryptography is crate boringtun's and the wire format WireGuard's, unchanged,
//! so that a stock peer can be the far end (<https://www.wireguard.com/papers/wireguard.pdf>). A
//! listening port may have a companion for whatever is no data ([`UdpPort::open_handshakes`]): the
//! kernel then keeps two queues, and a flood of handshakes cannot push data out of its own. Nothing
//! here knows what the packets inside mean, keeps routes, or decides which source addresses a peer
//! may use: [`Opened::Packet`] tells the source, the caller checks it.

mod batch;
mod gso_batches;
mod guard;
mod peers;
mod port;
mod session;
mod socket;

pub use batch::Batch;
pub use boringtun::noise::rate_limiter::RateLimiter;
pub use boringtun::x25519::{PublicKey, StaticSecret};
pub use peers::{
    AddPeerError, PEERS_MAX, PeerId, Peers, PeersConfig, PeersCounters, Received, SESSION_BYTES,
};
pub use port::{Bind, PortConfig, PortCounters, PortError, UdpPort};
pub use session::{Bad, Opened, Sealed, Session, SessionCounters, random_index};

use std::net::{IpAddr, SocketAddr};

/// Where a datagram came from and goes back to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FourTuple {
    /// The far end. IPv4 is IPv4 here, also on a socket of both families.
    pub remote: SocketAddr,
    /// The address of ours that the far end knows, on a port that listens on all of them.
    /// Answers must leave from it, or address translation on the way does not let them in.
    pub local: Option<IpAddr>,
    /// Which port ([`PortConfig::id`]).
    pub port: u8,
}

/// Bytes that sealing adds to a packet (the outer IP and UDP headers are 28 or 48 more).
pub const OVERHEAD: usize = 32;
/// Call [`Session::on_timer`] this often, in milliseconds.
pub const TIMER_MS: u64 = 250;

/// Size of the first message of a handshake, the largest that a session makes of itself.
const INITIATION: usize = 148;
/// Message types (section 5.4 of the WireGuard paper).
const TYPE_INITIATION: u8 = 1;
const TYPE_RESPONSE: u8 = 2;
const TYPE_DATA: u8 = 4;

/// Whether a datagram claims to be a message of a handshake: what costs more to look at than data,
/// and what strangers can send.
#[must_use]
pub fn is_handshake(datagram: &[u8]) -> bool {
    matches!(datagram.first(), Some(1..=3))
}

/// Bytes that [`Session::seal`] needs to write to for a packet of `len` bytes.
#[must_use]
pub const fn seal_space(len: usize) -> usize {
    let sealed = len + OVERHEAD;
    if sealed > INITIATION { sealed } else { INITIATION }
}

impl FourTuple {
    /// To `remote`, from whichever address of port 0 the kernel chooses.
    #[must_use]
    pub fn to(remote: SocketAddr) -> Self {
        Self { remote, local: None, port: 0 }
    }
}
