//! Events for the application. They are few, and each is reported once.

use crate::record::{CloseReason, FallbackReason};
use crate::view::SubflowId;
use std::net::SocketAddr;

/// A connection of one endpoint. Never used twice within an endpoint.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ConnId(pub u64);

/// An event of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Event {
    /// The handshake that `connect` began is done: data can be sent.
    Connected,
    /// A peer's SYN waits for an answer: `Endpoint::admit`, or `abort` (only where
    /// `Endpoint::listen_held`).
    Incoming {
        /// Address that it wants to connect to.
        local: SocketAddr,
        /// The peer's address and port.
        remote: SocketAddr,
    },
    /// A peer connected to a listener.
    Accepted {
        /// Address that it connected to.
        local: SocketAddr,
        /// The peer's address and port.
        remote: SocketAddr,
    },
    /// Data can be read. Comes again only after `read` has returned `None`.
    Readable,
    /// The send buffer has space again after a `write` was cut short.
    Writable,
    /// The peer will send no more: everything readable and then the end.
    PeerFinished,
    /// All data we wrote, and our close, have been acknowledged.
    Flushed,
    /// The connection is over; its id is invalid after this event.
    Closed(CloseReason),
    /// A subflow may carry data.
    SubflowEstablished(SubflowId),
    /// A subflow has closed.
    SubflowClosed(SubflowId, CloseReason),
    /// The peer announced an address.
    AddressAnnounced {
        /// The id that the peer gave the address.
        address_id: u8,
        /// Address, with the connection's port if it named none.
        address: SocketAddr,
    },
    /// The peer withdrew an address.
    AddressRemoved {
        /// The id that the peer gave the address.
        address_id: u8,
    },
    /// The connection is plain TCP from now on.
    Fallback(FallbackReason),
}
