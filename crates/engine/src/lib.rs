//! TCP (RFC 9293) and MPTCP v1 (RFC 8684), both roles, as a state machine: fed with time and
//! segments, drained of segments, events and records. No I/O, no clock, no threads.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod cache;
pub mod config;
pub mod congestion;
pub mod egress;
pub mod endpoint;
pub mod event;
pub mod mptcp;
pub mod policy;
pub mod record;
pub mod scheduler;
pub mod seq;
pub mod tcp;
pub mod time;
pub mod view;

pub use config::{Config, Profile};
pub use endpoint::{Departure, Endpoint, Transmit};
pub use event::{ConnId, Event};
pub use mptcp::Connection;
pub use time::{Duration, Instant};
