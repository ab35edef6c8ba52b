//! TUN mode of the client: the host's own packets go through the bond.
//!
//! ```text
//! program -- kernel --[Device]-- Packets --> TCP: LocalStack --> sessions --> the bond
//!                                        --> UDP, names, echo: the agent
//! ```
//! `Packets` tells what a packet is; `LocalStack` ends the host's TCP, whose connections
//! `session` join to connections of the bond. All are state machines. `Device` moves
//! packets, [`Host`] leads the host's traffic to it and takes that back. Not here: what becomes of
//! datagrams ([`crate::udp`]) and names (`dns`).

pub(crate) mod device;
pub(crate) mod gso;
pub(crate) mod host;
pub(crate) mod local;
pub(crate) mod packets;
pub(crate) mod uso;

pub(crate) use device::Device;
pub(crate) use device::DeviceConfig;
pub(crate) use host::Host;
pub(crate) use host::HostConfig;
pub(crate) use host::LanHosts;
pub(crate) use host::OnLink;
pub(crate) use host::Reconciled;
pub(crate) use host::on_link;
pub(crate) use local::LocalConfig;
pub(crate) use local::LocalStack;
pub(crate) use local::Outgoing;
pub(crate) use local::ProgramId;
pub(crate) use packets::Inbound;
pub(crate) use packets::Packets;
pub(crate) use packets::PacketsConfig;
pub(crate) use tabane_net::device::virtio::Frame;

#[cfg(test)]
mod tests;
