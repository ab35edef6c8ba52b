//! Names. Programs that name their destination, and those of a host in TUN mode, get it resolved
//! at the far end: the client asks the server's service address through the tunnel
//! ([`Client`]), the server its own system ([`Service`]). Nothing is asked beside the tunnel.
//!
//! Answers are not filtered: the access list is applied where it cannot be gone round, when the
//! server connects ([`crate::access`]). What a name of the server's own network means is thus
//! visible to clients; what is there is not reachable.

mod cache;
mod client;
mod message;
mod order;
mod service;

pub(crate) use client::Client;
pub(crate) use client::LookupId;
pub(crate) use service::Asker;
#[cfg(feature = "internals")]
pub(crate) use service::LookupFn;
pub(crate) use service::Service;

/// The port of the service.
pub(crate) const PORT: u16 = 53;
