//! Paths: whether each works, how fast, how large a packet, and what it may be used for.
//!
//! [`Monitor`] (client) and [`Responder`] (server) find out by probes inside the tunnel; what the
//! probes carry is in [`probe`]. `Roles` decides what each is used for; `Shaper` keeps a rate
//! cap, `Quota` counts bytes, and [`Links`] follows the host's interfaces.

mod damping;
mod history;
mod links;
mod lives;
mod monitor;
mod mtu;
pub mod probe;
mod quota;
mod reason;
mod responder;
mod roles;
mod shaper;
#[cfg(test)]
mod world;

pub use links::{Binding, Found, Links, LinksError};
pub use lives::Lives;
pub use monitor::{
    Announcement, Demand, Far, Health, INTERVAL, MIN_GAP, Monitor, MonitorConfig, ONE_WAY,
    PathEvent, SILENCE,
};
pub use probe::{Ends, ServerInfo};
pub(crate) use quota::{Period, Quota, QuotaError, QuotaFile, SAVE_EVERY};
pub use reason::{Absence, LinkState, inner_limit};
pub use responder::Responder;
pub(crate) use roles::{Decision, PathFacts, Roles, Use};
pub(crate) use shaper::Shaper;
