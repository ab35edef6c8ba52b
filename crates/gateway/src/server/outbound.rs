//! Ordinary sockets to where connections of clients go.
//!
//! A client's SYN is answered only once the far end has answered ours, so that "refused" and
//! "unreachable" reach the program.

use super::carried::Id;
use crate::kernel_memory;
use crate::listener::ConnectError;
use crate::reactor::{EventSource, SocketId};
use crate::session::{Pool, Socket, SocketStream};
use mio::net::TcpStream;
use mio::{Interest, Registry};
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use tabane_engine::Duration;

/// All of them.
pub(super) struct Outbound {
    all: BTreeMap<SocketId, OutboundSocket>,
    /// The name of the next one.
    next: SocketId,
    registry: Registry,
    pool: Pool,
    /// A target that this machine had no port left to connect to.
    no_port: Option<SocketAddr>,
}

struct OutboundSocket {
    socket: Socket,
    /// The session that it is for.
    owner: Id,
    /// The far end has not answered.
    connecting: bool,
    /// The kernel's buffers are to be small.
    tight: bool,
}

/// What the poll's word about a socket means for its session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Change {
    /// The far end has answered.
    Connected,
    /// It will not.
    Failed(ConnectError),
    /// It can be read or written.
    Ready,
}

/// How long connecting may take; then the host counts as unreachable.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);
/// The kernel's buffers of a tight socket, in each direction; it takes twice as much.
const TIGHT: usize = 32 << 10;

impl Outbound {
    /// None yet.
    pub(super) fn new(registry: Registry) -> Self {
        let (all, pool) = (BTreeMap::new(), Pool::default());
        Self { all, next: SocketId::default(), registry, pool, no_port: None }
    }

    /// Begins to connect.
    ///
    /// # Errors
    /// How it failed at once.
    pub(super) fn connect(
        &mut self,
        owner: Id,
        target: SocketAddr,
    ) -> Result<SocketId, ConnectError> {
        let mut stream = TcpStream::connect(target).map_err(|error| {
            // All ports of this machine towards the target are in use: see `Core::note_ports`.
            if error.kind() == io::ErrorKind::AddrNotAvailable {
                self.no_port = Some(target);
            }
            reason(&error)
        })?;
        let both = Interest::READABLE | Interest::WRITABLE;
        let token = EventSource::Socket(self.next).token();
        let registered = self.registry.register(&mut stream, token, both);
        registered.map_err(|_| ConnectError::HostUnreachable)?;
        let socket = Socket::new(stream);
        let new = OutboundSocket { socket, owner, connecting: true, tight: false };
        let id = self.next;
        self.next = id.next();
        self.all.insert(id, new);
        Ok(id)
    }

    /// The poll says that a socket is ready: whose it is, and what that means.
    pub(super) fn ready(
        &mut self,
        id: SocketId,
        (readable, writable): (bool, bool),
    ) -> Option<(Id, Change)> {
        let OutboundSocket { socket, owner, connecting, .. } = self.all.get_mut(&id)?;
        socket.ready(readable, writable);
        if !*connecting {
            return Some((*owner, Change::Ready));
        }
        let stream = socket.inner();
        let error = match stream.take_error() {
            Ok(Some(error)) | Err(error) => error,
            Ok(None) => match stream.peer_addr() {
                Ok(_) => {
                    *connecting = false;
                    socket.begin();
                    return Some((*owner, Change::Connected));
                }
                // Writable without being connected happens; the peer's address tells.
                Err(error) if error.kind() == io::ErrorKind::NotConnected => return None,
                Err(error) => error,
            },
        };
        Some((*owner, Change::Failed(reason(&error))))
    }

    /// Its stream.
    pub(super) fn stream(&mut self, id: SocketId) -> Option<SocketStream<'_>> {
        let socket = &mut self.all.get_mut(&id)?.socket;
        Some(SocketStream { socket, pool: &mut self.pool })
    }

    /// The address that it has on this side.
    pub(super) fn local(&mut self, id: SocketId) -> Option<SocketAddr> {
        self.all.get_mut(&id)?.socket.inner().local_addr().ok()
    }

    /// It is over.
    pub(super) fn close(&mut self, id: SocketId) {
        if let Some(mut outbound) = self.all.remove(&id) {
            // Closing takes it out of the poll too.
            let _ = self.registry.deregister(outbound.socket.inner());
        }
    }

    /// Bytes that wait in the kernel for it.
    pub(super) fn held(&self, id: SocketId) -> u64 {
        self.all.get(&id).map_or(0, |outbound| outbound.socket.held())
    }

    /// Makes the kernel's buffers small, or lets the kernel choose again.
    pub(super) fn tighten(&mut self, id: SocketId, tight: bool) {
        if let Some(outbound) = self.all.get_mut(&id)
            && std::mem::replace(&mut outbound.tight, tight) != tight
        {
            kernel_memory::limit(outbound.socket.inner(), tight.then_some(TIGHT));
        }
    }

    /// A target that this machine had no port left to connect to, since the last call.
    pub(super) fn take_no_port(&mut self) -> Option<SocketAddr> {
        self.no_port.take()
    }

    /// The poll.
    pub(super) fn registry(&self) -> &Registry {
        &self.registry
    }
}

fn reason(error: &io::Error) -> ConnectError {
    use io::ErrorKind as K;
    match error.kind() {
        K::ConnectionRefused | K::ConnectionReset => ConnectError::Refused,
        K::NetworkUnreachable | K::NetworkDown => ConnectError::NetUnreachable,
        K::PermissionDenied | K::InvalidInput => ConnectError::NotAllowed,
        _ => ConnectError::HostUnreachable,
    }
}
