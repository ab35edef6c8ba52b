//! Devices: what carries the IP packets of one path. One file each.
//!
//! A device never blocks and never queues: a packet it cannot take now is dropped and counted by
//! the driver, as a NIC with a full ring would.

pub mod tun;
pub mod udp;
pub mod virtio;

use std::io;
use std::os::fd::BorrowedFd;

pub use tun::{TunConfig, TunDevice, TunError};
pub use udp::UdpDevice;

/// Carries whole IP packets of one path.
pub trait PathDevice: Send {
    /// The next packet, written to the start of `buf`; its length, or `None` when there is none
    /// now. What does not fit is cut off.
    ///
    /// # Errors
    /// When the device is gone; a passing trouble is `Ok(None)`.
    fn recv(&mut self, buf: &mut [u8]) -> io::Result<Option<usize>>;

    /// Sends one packet; whether the device took it.
    ///
    /// # Errors
    /// When the device is gone; a passing trouble (full, down, nobody listening) is `Ok(false)`.
    fn send(&mut self, packet: &[u8]) -> io::Result<bool>;

    /// To wait for packets on.
    fn fd(&self) -> BorrowedFd<'_>;
}
