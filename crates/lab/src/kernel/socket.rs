//! A TCP or MPTCP socket of the kernel as applications see it.
#![expect(unsafe_code, reason = "one ioctl that no crate has")]

use crate::translate::KernelSettings;
use bytes::{Buf, Bytes};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use tabane_engine::Instant;
use tabane_sim::app::Transport;

/// Does not block.
#[derive(Debug)]
pub(crate) struct KernelSocket {
    socket: Socket,
    /// Asked for MPTCP.
    mptcp: bool,
    /// The last write was cut short.
    short: bool,
    finished: bool,
    closed: bool,
    /// Why it can go no further.
    error: Option<io::Error>,
    buffer: Vec<u8>,
    pub(crate) written: u64,
    pub(crate) received: u64,
}

/// `IPPROTO_MPTCP`, which `socket2` knows by its number only.
const MPTCP: i32 = 262;
/// Read at once.
const CHUNK: usize = 1 << 17;
/// Connections that wait to be accepted: one a flow is expected.
const BACKLOG: i32 = 16;

fn protocol(mptcp: bool) -> Protocol {
    if mptcp { Protocol::from(MPTCP) } else { Protocol::TCP }
}

/// Whether this kernel makes MPTCP sockets.
///
/// # Errors
/// What it says instead.
pub(crate) fn has_mptcp() -> io::Result<()> {
    Socket::new(Domain::IPV4, Type::STREAM, Some(protocol(true))).map(|_| ())
}

/// A socket with a host's settings, bound.
fn bound(settings: &KernelSettings, local: SocketAddr) -> io::Result<Socket> {
    let domain = Domain::for_address(local);
    let socket = Socket::new(domain, Type::STREAM, Some(protocol(settings.mptcp)))?;
    socket.set_nonblocking(true)?;
    socket.set_reuse_address(true)?;
    socket.set_tcp_congestion(settings.congestion.as_bytes())?;
    if settings.nodelay {
        socket.set_tcp_nodelay(true)?;
    }
    if let [Some(receive), _] = settings.buffers {
        socket.set_recv_buffer_size(receive)?;
    }
    if let [_, Some(send)] = settings.buffers {
        socket.set_send_buffer_size(send)?;
    }
    socket.bind(&SockAddr::from(local))?;
    Ok(socket)
}

/// A socket that listens at `local`. What it accepts has its congestion control, also on subflows
/// that join later.
pub(super) fn listen(settings: &KernelSettings, local: SocketAddr) -> io::Result<Socket> {
    let socket = bound(settings, local)?;
    socket.listen(BACKLOG)?;
    Ok(socket)
}

impl KernelSocket {
    /// One that has begun to connect.
    pub(super) fn connect(
        settings: &KernelSettings,
        local: IpAddr,
        remote: SocketAddr,
    ) -> io::Result<Self> {
        let socket = bound(settings, SocketAddr::new(local, 0))?;
        match socket.connect(&SockAddr::from(remote)) {
            Ok(()) => {}
            Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => {}
            Err(error) => return Err(error),
        }
        Ok(Self::new(socket, settings.mptcp))
    }

    /// One that a listener has accepted.
    pub(super) fn accepted(socket: Socket, settings: &KernelSettings) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        if settings.nodelay {
            socket.set_tcp_nodelay(true)?;
        }
        Ok(Self::new(socket, settings.mptcp))
    }

    fn new(socket: Socket, mptcp: bool) -> Self {
        Self {
            socket,
            mptcp,
            short: false,
            finished: false,
            closed: false,
            error: None,
            buffer: vec![0; CHUNK],
            written: 0,
            received: 0,
        }
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    pub(super) fn is_mptcp(&self) -> bool {
        self.mptcp
    }

    /// Addresses of its first subflow.
    pub(super) fn ends(&self) -> Option<(SocketAddr, SocketAddr)> {
        let local = self.socket.local_addr().ok()?.as_socket()?;
        Some((local, self.socket.peer_addr().ok()?.as_socket()?))
    }

    /// What became of `connect`.
    pub(super) fn connected(&self) -> io::Result<()> {
        match self.socket.take_error()? {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// Whether to wait for room to write, and for something to read.
    pub(super) fn waits(&self) -> (bool, bool) {
        (self.short && !self.closed, !self.finished)
    }

    pub(super) fn error(&mut self) -> Option<io::Error> {
        self.error.take()
    }

    pub(super) fn set_congestion(&self, name: &str) -> io::Result<()> {
        self.socket.set_tcp_congestion(name.as_bytes())
    }

    /// Ends it with a reset.
    pub(super) fn abort(&mut self) {
        let _ = self.socket.set_linger(Some(std::time::Duration::ZERO));
        self.error = Some(io::Error::from(ErrorKind::ConnectionAborted));
    }

    /// Bytes written that the peer has not acknowledged.
    pub(super) fn outstanding(&self) -> u64 {
        let mut bytes: libc::c_int = 0;
        // SAFETY: the descriptor is open, and the number lives through the call.
        let done = unsafe { libc::ioctl(self.socket.as_raw_fd(), libc::TIOCOUTQ, &mut bytes) };
        if done == 0 { u64::try_from(bytes).unwrap_or(0) } else { 0 }
    }
}

impl Transport for KernelSocket {
    fn write(&mut self, data: &mut Bytes) -> usize {
        if self.closed || self.error.is_some() {
            return 0;
        }
        match (&self.socket).write(data) {
            Ok(taken) => {
                data.advance(taken);
                self.short = !data.is_empty();
                self.written += taken as u64;
                taken
            }
            Err(error) => {
                self.short = true;
                if !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) {
                    self.error = Some(error);
                }
                0
            }
        }
    }

    fn writable(&self) -> u64 {
        let size = self.socket.send_buffer_size().unwrap_or(0) as u64;
        // The kernel counts memory, about twice the payload.
        (size / 2).saturating_sub(self.outstanding())
    }

    fn read(&mut self, max: usize) -> Option<Bytes> {
        if self.finished || self.error.is_some() {
            return None;
        }
        let most = max.min(self.buffer.len());
        match (&self.socket).read(&mut self.buffer[..most]) {
            Ok(0) => {
                self.finished = true;
                None
            }
            Ok(len) => {
                self.received += len as u64;
                Some(Bytes::copy_from_slice(&self.buffer[..len]))
            }
            Err(error) => {
                if !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) {
                    self.error = Some(error);
                }
                None
            }
        }
    }

    fn is_finished(&self) -> bool {
        self.finished
    }

    fn close(&mut self, _: Instant) {
        self.closed = true;
        // A connection that is gone already tells so when it is read.
        let _ = self.socket.shutdown(Shutdown::Write);
    }
}
