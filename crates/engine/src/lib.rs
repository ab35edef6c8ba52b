//! TCP (RFC 9293) and MPTCP v1 (RFC 8684), both roles, as a state machine without I/O: no sockets,
//! no clock, no threads. A driver feeds an [`Endpoint`] with time and packets, and takes packets,
//! events and records out of it. The same engine runs in a simulator, over UDP and in a gateway.
//!
//! Three things can be chosen by name, or added by [registering](policy::Registry) them:
//! *which subflow* carries data ([`scheduler`]), *how much* is in flight ([`congestion`]), and
//! *by which paths* a segment leaves ([`egress`]).
//!
//! # The run loop
//!
//! Feed inputs (`handle_packet`, `handle_timeout`), then take what there is by `poll_transmit` and
//! `poll_event` until each returns `None`, then wait until a packet arrives or `poll_timeout` is
//! due; the exact rules are in [`endpoint`]. Here the network is a function, and time passes at
//! once:
//!
//! ```
//! use bytes::Bytes;
//! use tabane_engine::config::{Config, PathConfig};
//! use tabane_engine::view::PathId;
//! use tabane_engine::{Endpoint, Event, Instant};
//!
//! fn endpoint(host: u8) -> Endpoint {
//!     let path = |n| PathConfig::new(PathId(n), vec![[10, n, 0, host].into()], 1500);
//!     let config = Config::default().with(|c| c.paths = vec![path(0), path(1)]);
//!     Endpoint::new(config, [host; 32]).expect("the default policies exist")
//! }
//!
//! /// Everything that `from` wants to send arrives at `to`, by the path that `from` chose.
//! fn deliver(now: Instant, from: &mut Endpoint, to: &mut Endpoint) {
//!     let mut packet = [0; 1500];
//!     while let Some(transmit) = from.poll_transmit(now, &mut packet) {
//!         for path in transmit.paths.iter() {
//!             to.handle_packet(now, path, &packet[..transmit.len]);
//!         }
//!     }
//! }
//!
//! let (mut client, mut server) = (endpoint(1), endpoint(2));
//! server.listen("10.0.0.2:80".parse()?)?;
//! let mut now = Instant::ZERO;
//! let id = client.connect(now, "10.0.0.1:0".parse()?, "10.0.0.2:80".parse()?)?;
//! let (mut unsent, mut received) = (Bytes::from(vec![7; 100_000]), Vec::new());
//! while received.len() < 100_000 {
//!     client.connection(id).expect("it is open").write(&mut unsent);
//!     deliver(now, &mut client, &mut server);
//!     while client.poll_event().is_some() {}
//!     while let Some((id, event)) = server.poll_event() {
//!         if event == Event::Readable {
//!             let connection = server.connection(id).expect("it is open");
//!             while let Some(data) = connection.read(usize::MAX) {
//!                 received.extend_from_slice(&data);
//!             }
//!         }
//!     }
//!     deliver(now, &mut server, &mut client);
//!     let timeouts = [client.poll_timeout(), server.poll_timeout()];
//!     now = timeouts.into_iter().flatten().min().expect("something is due");
//!     client.handle_timeout(now);
//!     server.handle_timeout(now);
//! }
//! let subflows = client.connection(id).expect("it is open").info(now).subflows;
//! assert_eq!(subflows.len(), 2, "one by each path");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! `examples/` has the same with delays and rates, over UDP sockets, and with a scheduler and a
//! congestion controller of its own.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod cache;
pub mod config;
pub mod congestion;
pub mod egress;
pub mod endpoint;
pub mod event;
pub mod mptcp;
mod names;
pub mod pipe;
pub mod policy;
pub mod record;
pub mod scheduler;
pub mod seq;
pub mod tcp;
pub mod time;
pub mod view;
mod with;

pub use config::{Config, Profile};
pub use endpoint::{Departure, Endpoint, Transmit};
pub use event::{ConnId, Event};
pub use mptcp::Connection;
pub use time::{Duration, Instant};

/// Compiles and runs what the README shows.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
