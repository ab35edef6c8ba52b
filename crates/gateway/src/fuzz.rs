//! Fuzz targets: what takes bytes from strangers, as functions of bytes that panic if something is
//! wrong, each with inputs that lead deep into it. `crates/fuzz` runs them.

mod agent;
mod inner;
mod negotiation;

use std::net::SocketAddr;

/// A target's name, what it does with bytes, and inputs to start from.
pub(crate) type Target = (&'static str, fn(&[u8]), fn() -> Vec<Vec<u8>>);

/// Every target.
pub(crate) const ALL: [Target; 6] = [
    ("negotiation", negotiation::negotiation, negotiation::talks),
    ("names", negotiation::names, negotiation::messages),
    ("inner", inner::inner, inner::seeds),
    ("client_config", agent::client_config, agent::client_configs),
    ("server_config", agent::server_config, agent::server_configs),
    ("invitation", agent::invitation, agent::invitations),
];

fn somewhere(host: u8, port: u16) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, host], port))
}
