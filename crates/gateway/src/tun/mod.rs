//! TUN mode of the client: the host's own packets go through the bond.
//!
//! ```text
//! program -- kernel --[Device]-- Packets --> TCP: LocalStack --> sessions --> the bond
//!                                        --> UDP, names, echo: the agent
//! ```
//! [`Packets`] tells what a packet is; [`LocalStack`] ends the host's TCP, whose connections
//! [`crate::session`] join to connections of the bond. All are state machines. [`Device`] moves
//! packets, [`Host`] leads the host's traffic to it and takes that back. Not here: what becomes of
//! datagrams ([`crate::udp`]) and names ([`crate::dns`]).

pub mod bench;
pub(crate) mod device;
pub mod frame;
pub(crate) mod gso;
pub mod host;
pub(crate) mod local;
pub(crate) mod packets;

pub use device::{Device, DeviceConfig, DeviceCounters};
pub use frame::{Checksumming, Frame, Segmentation};
pub use host::{Host, HostConfig, HostError, Reconciled, Undone};
pub use local::{LocalConfig, LocalStack, Outgoing, ProgramId};
pub use packets::{Counts, Datagrams, Inbound, Packets, PacketsConfig};

#[cfg(test)]
mod tests;
