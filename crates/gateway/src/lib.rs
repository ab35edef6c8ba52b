//! The gateway: a client and a server agent that bond links for programs that know nothing of it.
//!
//! ```text
//! program -- SOCKS5, HTTP, TUN --> client ==(paths: WireGuard over UDP)==> server --> anywhere
//! ```
//! Each agent is one thread that owns an [`Endpoint`](tabane_engine::Endpoint), the paths and the
//! sockets of programs ([`client`], [`server`]); nothing is shared, so nothing is locked. What may
//! wait (names, files, people) lives on other threads and talks to it through a
//! [`request_channel`]. What is a state machine is one, and is tested in virtual time: path health
//! (`path`), listeners (`listener`), names (`dns`), datagrams (`udp`).

#![warn(unreachable_pub)]
pub(crate) mod access;
pub mod address;
pub mod agent;
pub(crate) mod bond;
pub mod client;
pub mod config;
pub mod control;
pub(crate) mod deadlines;
pub(crate) mod dns;
pub mod doctor;
pub(crate) mod engine_config;
pub mod enrol;
pub(crate) mod event_log;
#[cfg(feature = "internals")]
pub(crate) mod fuzz;
pub(crate) mod index;
pub(crate) mod inner;
pub mod invite;
pub(crate) mod kernel_memory;
pub mod keys;
pub(crate) mod listener;
pub mod many_clients;
pub mod model;
pub(crate) mod moderation;
pub(crate) mod path;
pub(crate) mod policy_requests;
pub(crate) mod reactor;
pub(crate) mod record_counters;
pub(crate) mod recording;
pub mod request_channel;
pub mod server;
pub(crate) mod session;
pub(crate) mod shares;
pub(crate) mod snapshots;
pub(crate) mod tun;
pub(crate) mod udp;
pub(crate) mod web;
pub(crate) mod whole_file;

// Tests of whole agents, which know more of them than their users do.
#[cfg(test)]
#[path = "../tests/agents.rs"]
mod agents_tests;
#[cfg(test)]
#[path = "../tests/control.rs"]
mod control_tests;
#[cfg(test)]
#[path = "../tests/fake/mod.rs"]
mod fake;
#[cfg(test)]
#[path = "../tests/pages.rs"]
mod pages_tests;
#[cfg(test)]
extern crate self as tabane_gateway;

use bytes::Bytes;
use std::io;
use std::net::SocketAddr;
use tabane_engine::Duration;
use tabane_wire::segment::Ecn;
use tabane_wire::udp::Datagram;

/// Between an agent's looks at everything that is not hurried.
const TICK: Duration = Duration::from_millis(250);
/// Largest packet, bytes.
const PACKET_MAX: usize = 65_536;
/// Calls of the system to receive from one port before an agent gives others their turn: 2 MiB of
/// datagrams at most.
const RECEIVE_CALLS: usize = 4;
/// Rounds of sending before an agent gives others, or what has come, their turn.
const ROUNDS: usize = 4;

/// The fuzz targets of this crate: each with its name and inputs to start from.
#[cfg(feature = "internals")]
pub const FUZZ: [fuzz::Target; 6] = fuzz::ALL;

/// The bench `udp`: what copies of datagrams cost.
#[cfg(feature = "internals")]
pub fn bench_udp() {
    udp::bench::run();
}

/// Random bytes from the system, as a seed.
///
/// # Errors
/// The system has none.
fn seed() -> io::Result<[u8; 32]> {
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(seed)
}

/// A random number from the system, by which the lives of an agent are told apart.
///
/// # Errors
/// The system has none.
fn draw() -> io::Result<u32> {
    let [a, b, c, d, ..] = seed()?;
    Ok(u32::from_le_bytes([a, b, c, d]))
}

/// An IP packet with a datagram; empty if it is too long for one.
fn udp_packet(src: SocketAddr, dst: SocketAddr, payload: Bytes) -> Vec<u8> {
    let datagram = Datagram { src, dst, ecn: Ecn::NotEct, payload };
    let mut packet = vec![0; datagram.wire_len()];
    match datagram.emit(&mut packet) {
        Ok(len) => packet.truncate(len),
        Err(_) => packet.clear(),
    }
    packet
}
