//! A program that sends datagrams through the gateway, and a far end that sends them back.

use crate::bed::associate;
use anyhow::{Context, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::thread;
use std::time::Duration;
use tabane_engine::Instant;
use tabane_net::Clock;

pub(super) struct Program {
    socket: UdpSocket,
    /// What SOCKS5 puts before a datagram (RFC 1928 section 7).
    head: Vec<u8>,
    _control: TcpStream,
}

impl Program {
    /// One that sends to `far`.
    ///
    /// # Errors
    /// No sockets, or a client that refuses.
    pub(super) fn new(socks: SocketAddr, far: SocketAddr) -> anyhow::Result<Self> {
        let (control, relay) = associate(socks)?;
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).context("no socket")?;
        socket.connect(relay)?;
        let SocketAddr::V4(far) = far else { bail!("{far} is not IPv4") };
        let head = [&[0, 0, 0, 1][..], &far.ip().octets(), &far.port().to_be_bytes()].concat();
        Ok(Self { socket, head, _control: control })
    }

    /// Sends a datagram of `size` bytes that says when it left. One that is not taken is lost.
    pub(super) fn send(&self, now: Instant, size: usize) {
        let mut datagram = self.head.clone();
        datagram.extend_from_slice(&now.0.to_be_bytes());
        datagram.resize(self.head.len() + size, 0);
        let _ = self.socket.send(&datagram);
    }

    /// Sends what it is given.
    #[cfg(feature = "quic")]
    pub(super) fn send_bytes(&self, payload: &[u8]) {
        let _ = self.socket.send(&[&self.head[..], payload].concat());
    }

    /// For [`Program::recv`], and so many bytes of what has come and not been taken.
    ///
    /// # Errors
    /// The system's.
    #[cfg(feature = "quic")]
    pub(super) fn receives(&self, bytes: usize) -> anyhow::Result<()> {
        self.socket.set_nonblocking(true)?;
        Ok(socket2::SockRef::from(&self.socket).set_recv_buffer_size(bytes)?)
    }

    /// Waits for a datagram, not longer than `patience`; its payload.
    #[cfg(feature = "quic")]
    pub(super) fn recv<'a>(
        &self,
        patience: Duration,
        buffer: &'a mut [u8],
    ) -> anyhow::Result<Option<&'a [u8]>> {
        if !patience.is_zero() {
            wait(&self.socket, patience)?;
        }
        let Ok(len) = self.socket.recv(buffer) else { return Ok(None) };
        Ok(buffer[..len].get(self.head.len()..))
    }

    /// What comes back, until nothing has for so long: when each datagram left, and when it was
    /// at the far end.
    ///
    /// # Errors
    /// The socket's.
    pub(super) fn collect(&self, patience: Duration) -> anyhow::Result<Vec<(Instant, Instant)>> {
        self.socket.set_read_timeout(Some(patience))?;
        let (mut all, mut buffer) = (Vec::new(), [0; 2048]);
        while let Ok(len) = self.socket.recv(&mut buffer) {
            let time = |at: usize| {
                let at = self.head.len() + at;
                let bytes = buffer[..len].get(at..at + 8)?.try_into().ok()?;
                Some(Instant(u64::from_be_bytes(bytes)))
            };
            if let (Some(left), Some(turned)) = (time(0), time(8)) {
                all.push((left, turned));
            }
        }
        Ok(all)
    }
}

/// Waits until there is something to read, or for so long: less than a second, to the microsecond
/// (a socket's own timeout is kept to some milliseconds, in which a paced sender falls behind).
///
/// # Errors
/// The system's.
pub(super) fn wait(fd: impl AsFd, limit: Duration) -> anyhow::Result<()> {
    let limit = Timespec { tv_sec: 0, tv_nsec: limit.as_nanos() as i64 };
    poll(&mut [PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN)], Some(&limit))?;
    Ok(())
}

/// A far end that notes in each datagram when it came and sends it back; as long as this process.
///
/// # Errors
/// No socket.
pub(super) fn echo(clock: Clock) -> anyhow::Result<SocketAddr> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).context("no socket")?;
    let at = socket.local_addr()?;
    thread::Builder::new().name("echo".into()).spawn(move || {
        let mut buffer = [0; 2048];
        while let Ok((len, from)) = socket.recv_from(&mut buffer) {
            if let Some(place) = buffer[..len].get_mut(8..16) {
                place.copy_from_slice(&clock.now().0.to_be_bytes());
            }
            let _ = socket.send_to(&buffer[..len], from);
        }
    })?;
    Ok(at)
}
