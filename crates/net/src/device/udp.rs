//! A path over UDP: every datagram is one whole IP packet, as it is, unencrypted.
//!
//! For loopback and for experiments between trusted machines: nothing is authenticated.

use super::PathDevice;
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

/// Asked of the kernel for each direction, bytes; it may give less (`net.core.rmem_max`).
const SOCKET_BUFFER: usize = 4 << 20;

/// A connected UDP socket.
#[derive(Debug)]
pub struct UdpDevice {
    socket: UdpSocket,
}

impl UdpDevice {
    /// A socket on `local` (port 0: any). Sends nothing until it is connected.
    ///
    /// # Errors
    /// The system's.
    pub fn bind(local: SocketAddr) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(local), Type::DGRAM, Some(Protocol::UDP))?;
        socket.set_nonblocking(true)?;
        // Best effort: smaller buffers only drop more.
        let _ = socket.set_recv_buffer_size(SOCKET_BUFFER);
        let _ = socket.set_send_buffer_size(SOCKET_BUFFER);
        socket.bind(&local.into())?;
        Ok(Self { socket: socket.into() })
    }

    /// Takes packets from, and sends them to, this address only.
    ///
    /// # Errors
    /// The system's.
    pub fn connect(&self, remote: SocketAddr) -> io::Result<()> {
        self.socket.connect(remote)
    }

    /// Where it is bound.
    ///
    /// # Errors
    /// The system's.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }
}

impl PathDevice for UdpDevice {
    fn recv(&mut self, buf: &mut [u8]) -> io::Result<Option<usize>> {
        // A refusal is the ICMP answer to something sent before: packets may lie behind it. Four
        // tries, so that a socket that only ever fails cannot hold the caller.
        for _ in 0..4 {
            match self.socket.recv(buf) {
                Ok(len) => return Ok(Some(len)),
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(e) if is_passing(&e) => {}
                Err(e) => return Err(e),
            }
        }
        Ok(None)
    }

    fn send(&mut self, packet: &[u8]) -> io::Result<bool> {
        match self.socket.send(packet) {
            Ok(_) => Ok(true),
            Err(e) if is_passing(&e) => Ok(false),
            Err(e) => Err(e),
        }
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Troubles of the way, not of the socket.
fn is_passing(error: &io::Error) -> bool {
    use ErrorKind as K;
    matches!(
        error.kind(),
        K::WouldBlock
            | K::Interrupted
            | K::ConnectionRefused
            | K::HostUnreachable
            | K::NetworkUnreachable
            | K::NetworkDown
            | K::NotConnected
            | K::PermissionDenied
    ) || matches!(
        rustix::io::Errno::from_io_error(error),
        Some(
            rustix::io::Errno::NOBUFS | rustix::io::Errno::MSGSIZE | rustix::io::Errno::DESTADDRREQ
        )
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (UdpDevice, UdpDevice) {
        let any = "127.0.0.1:0".parse().unwrap();
        let (a, b) = (UdpDevice::bind(any).unwrap(), UdpDevice::bind(any).unwrap());
        a.connect(b.local_addr().unwrap()).unwrap();
        b.connect(a.local_addr().unwrap()).unwrap();
        (a, b)
    }

    #[test]
    fn packets_cross_whole_and_in_order() {
        let (mut a, mut b) = pair();
        let mut buf = [0; 2000];
        assert_eq!(b.recv(&mut buf).unwrap(), None);
        for len in [1, 1500, 40] {
            assert!(a.send(&vec![len as u8; len]).unwrap());
        }
        for len in [1, 1500, 40] {
            assert_eq!(b.recv(&mut buf).unwrap(), Some(len));
            assert!(buf[..len].iter().all(|&byte| byte == len as u8));
        }
    }

    #[test]
    fn a_peer_that_is_gone_is_a_drop_and_not_an_error() {
        let (mut a, b) = pair();
        drop(b);
        let mut buf = [0; 64];
        for _ in 0..4 {
            a.send(b"x").unwrap();
            assert_eq!(a.recv(&mut buf).unwrap(), None);
        }
    }
}
