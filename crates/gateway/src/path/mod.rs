//! Paths: whether each works, how fast, how large a packet, and what it may be used for.
//!
//! [`Monitor`] (client) and [`Responder`] (server) find out by probes inside the tunnel; what the
//! probes carry is in [`probe`]. By [`Reports`] both ends know how much a path carries and how long
//! its queue is ([`Estimate`]). `Roles` decides what each is used for; `Shaper` keeps a rate
//! cap, `Quota` counts bytes, and [`Links`] follows the host's interfaces.

mod damping;
mod estimate;
mod history;
mod links;
mod lives;
mod monitor;
mod mtu;
pub(crate) mod probe;
mod quota;
mod reason;
mod reports;
mod responder;
mod roles;
mod shaper;
#[cfg(test)]
mod world;

pub(crate) use estimate::{Estimate, Reading, Sample};
pub(crate) use links::Binding;
pub(crate) use links::Found;
pub(crate) use links::Links;
pub(crate) use lives::Lives;
pub(crate) use monitor::Announcement;
pub(crate) use monitor::Demand;
pub(crate) use monitor::Health;
pub(crate) use monitor::INTERVAL;
pub(crate) use monitor::Monitor;
pub(crate) use monitor::MonitorConfig;
pub(crate) use monitor::PathEvent;
pub(crate) use monitor::first_seq;
pub(crate) use probe::Ends;
pub(crate) use probe::ServerInfo;
pub(crate) use quota::{Period, Quota, QuotaError, QuotaFile, SAVE_EVERY};
pub(crate) use reason::Absence;
pub(crate) use reason::LinkState;
pub(crate) use reason::inner_limit;
pub(crate) use reports::{Count, News, Reports};
pub(crate) use responder::Responder;
pub(crate) use roles::{Decision, PathFacts, Roles, Use};
pub(crate) use shaper::Shaper;
