//! The data plane: runs an [`Endpoint`](tabane_engine::Endpoint) behind real devices and a real
//! clock, the programs that use it (an HTTP file server and client, a control socket), and the
//! tunnels that the gateway's paths are.
//!
//! Everything that touches the world is here: sockets, TUN, files, time. What the engine decides
//! is never decided again here.

pub mod clock;
pub mod datagrams;
pub mod device;
pub mod driver;
pub mod http;
pub mod icmp;
pub mod netlink;
pub mod prefix;
pub mod wireguard;

pub use clock::Clock;
pub use device::PathDevice;
pub use driver::{App, Driver, Path};
