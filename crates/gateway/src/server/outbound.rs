//! Connecting on: what a client's connection asks for, with ordinary sockets.
//!
//! The client's SYN is answered only once the far end has answered ours, so that "refused" and
//! "unreachable" reach the program. A connection that does not come about within [`PATIENCE`] is
//! reported as an unreachable host.

use crate::relay::{Pool, Relay, RelayState};
use mio::net::TcpStream;
use std::io;
use std::net::SocketAddr;
use tabane_engine::mptcp::Connection;
use tabane_engine::{ConnId, Duration, Instant};
use tabane_wire::Unreachable;

/// A connection of a client and the socket that it leads to.
pub(super) struct OutboundConnection {
    /// Whose: index of the member.
    pub(super) session: usize,
    /// The client's connection.
    pub(super) conn: ConnId,
    /// Where it wants to go.
    pub(super) target: SocketAddr,
    /// The client's inner address.
    pub(super) source: SocketAddr,
    /// Since when it is there.
    pub(super) since: Instant,
    /// Since when the client's connection is gone, in order.
    pub(super) orphaned: Option<Instant>,
    /// The kernel's buffers are to be small.
    pub(super) tight: bool,
    relay: Relay,
    /// The far end has not answered.
    connecting: bool,
}

/// How connecting on went.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Attempt {
    /// Not known yet.
    Pending,
    /// The far end has answered.
    Connected,
    /// It has refused.
    Refused,
    /// It cannot be reached.
    Unreachable(Unreachable),
    /// This machine has no port left to connect to it from.
    NoPort,
}

/// How long connecting on may take.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);

impl OutboundConnection {
    /// Begins to connect on.
    ///
    /// # Errors
    /// How it failed at once.
    pub(super) fn begin(
        now: Instant,
        session: usize,
        conn: ConnId,
        (source, target): (SocketAddr, SocketAddr),
    ) -> Result<Self, Attempt> {
        let stream = TcpStream::connect(target).map_err(|error| reason(&error))?;
        let relay = Relay::new(stream);
        let (orphaned, tight, connecting) = (None, false, true);
        Ok(Self { session, conn, target, source, since: now, orphaned, tight, relay, connecting })
    }

    /// To be put into the poll, and taken out.
    pub(super) fn stream(&mut self) -> &mut TcpStream {
        self.relay.stream()
    }

    /// Bytes that it holds, in the kernel too.
    pub(super) fn held(&self) -> u64 {
        self.relay.held()
    }

    /// From where, to where, and since when.
    pub(super) fn four_tuple(&self) -> (SocketAddr, SocketAddr, Instant) {
        (self.source, self.target, self.since)
    }

    /// Still waiting for the far end.
    pub(super) fn is_connecting(&self) -> bool {
        self.connecting
    }

    /// The poll says that the socket is ready. `Attempt::Connected` comes once.
    pub(super) fn ready(&mut self, readable: bool, writable: bool) -> Attempt {
        self.relay.ready(readable, writable);
        if !self.connecting {
            return Attempt::Pending;
        }
        let stream = self.relay.stream();
        match stream.take_error() {
            Ok(Some(error)) | Err(error) => return reason(&error),
            Ok(None) => {}
        }
        // Writable without being connected happens; the peer's address tells.
        match stream.peer_addr() {
            Ok(_) => {
                self.connecting = false;
                Attempt::Connected
            }
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Attempt::Pending,
            Err(error) => reason(&error),
        }
    }

    /// Moves what can be moved.
    pub(super) fn step(
        &mut self,
        now: Instant,
        conn: &mut Connection,
        pool: &mut Pool,
    ) -> RelayState {
        if self.connecting {
            return RelayState::Open;
        }
        self.relay.step(now, conn, pool)
    }

    /// The client's connection is gone, in order: what is still to be given to the far end.
    pub(super) fn orphan(&mut self) -> RelayState {
        if self.connecting { RelayState::Broken } else { self.relay.drain() }
    }

    /// The client's connection ended with an error: so does the one to the far end.
    pub(super) fn reset(&mut self) {
        if !self.connecting {
            self.relay.reset();
        }
    }
}

fn reason(error: &io::Error) -> Attempt {
    use io::ErrorKind as K;
    match error.kind() {
        K::ConnectionRefused | K::ConnectionReset => Attempt::Refused,
        K::NetworkUnreachable | K::NetworkDown => Attempt::Unreachable(Unreachable::Network),
        // All ports of this machine towards the target are in use: see `Core::note_ports`.
        K::AddrNotAvailable => Attempt::NoPort,
        K::PermissionDenied | K::InvalidInput => Attempt::Unreachable(Unreachable::Prohibited),
        _ => Attempt::Unreachable(Unreachable::Host),
    }
}
