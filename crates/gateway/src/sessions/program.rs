//! A program's connection as the relay sees it.

use crate::listener::ConnectError;
use bytes::Bytes;
use std::net::SocketAddr;
use tabane_engine::record::CloseReason;
use tabane_engine::{Connection, Event, Instant};
use tabane_wire::Unreachable;

/// The near end of a relayed connection. Nothing blocks: whoever owns it tells the relay when
/// there is something to read or room to write again.
///
/// Back-pressure: what is not read stays with the program (its window closes), what `write` does
/// not take stays with the relay.
pub trait Program {
    /// The next bytes that the program sent, at most `max`; not copied where possible.
    fn read(&mut self, max: usize) -> Read;

    /// Gives bytes to the program; takes what there is room for, advances `data` past it and
    /// returns how much it was.
    fn write(&mut self, data: &mut Bytes) -> usize;

    /// Bytes that `write` would take.
    fn writable(&self) -> u64;

    /// The program gets everything written so far and then the end; it may go on sending.
    fn shutdown(&mut self);

    /// Ends the connection at once, both ways; the program sees a reset.
    fn reset(&mut self);
}

/// The near ends of all sessions, whoever keeps them.
pub trait Near {
    /// Names one of them; never used twice.
    type Id: Copy + Ord;

    /// The destination has been reached: the program's SYN is answered.
    fn admit(&mut self, now: Instant, id: Self::Id);

    /// The destination could not be reached: the program is told how.
    fn refuse(&mut self, now: Instant, id: Self::Id, how: Denial);

    /// One of them; `None` once it is gone.
    fn program(&mut self, now: Instant, id: Self::Id) -> Option<impl Program>;
}

/// A program's connection that one of our own engines ends.
pub struct EngineProgram<'a> {
    /// Its end.
    pub connection: &'a mut Connection,
    /// The time of what is done with it.
    pub now: Instant,
}

/// What happened to a program's connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProgramEvent {
    /// A program wants to connect: [`Near::admit`] or [`Near::refuse`].
    Incoming {
        /// Where to.
        destination: SocketAddr,
        /// Its own address.
        source: SocketAddr,
    },
    /// After `admit`: it is connected.
    Connected,
    /// There is something to read. Comes again only after `read` has found nothing.
    Readable,
    /// There is room again after a `write` was cut short.
    Writable,
    /// The program will send no more.
    Finished,
    /// Over; the id is gone after this event. After [`CloseReason::Finished`] every byte has
    /// arrived both ways.
    Closed(CloseReason),
}

/// What [`Program::read`] found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Read {
    /// Bytes; never empty.
    Data(Bytes),
    /// Nothing now; the owner tells when there is.
    Pending,
    /// The program will send no more, and everything has been read. It may go on receiving.
    End,
    /// The program has reset the connection, or it broke.
    Gone,
}

/// How a program's attempt to connect is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Denial {
    /// As by a host where nobody listens: "connection refused".
    Reset,
    /// As by a router: "no route to host", "network is unreachable".
    Unreachable(Unreachable),
}

impl Program for EngineProgram<'_> {
    fn read(&mut self, max: usize) -> Read {
        match self.connection.read(max) {
            Some(data) => Read::Data(data),
            None if self.connection.is_finished() => Read::End,
            None => Read::Pending,
        }
    }

    fn write(&mut self, data: &mut Bytes) -> usize {
        self.connection.write(data)
    }

    fn writable(&self) -> u64 {
        self.connection.writable()
    }

    fn shutdown(&mut self) {
        self.connection.close(self.now);
    }

    fn reset(&mut self) {
        self.connection.abort(self.now);
    }
}

impl ProgramEvent {
    /// What an event of an engine means for a program; `None` if it is of MPTCP, or of no use here.
    #[must_use]
    pub fn of(event: Event) -> Option<Self> {
        Some(match event {
            Event::Incoming { local, remote } => {
                Self::Incoming { destination: local, source: remote }
            }
            Event::Accepted { .. } => Self::Connected,
            Event::Readable => Self::Readable,
            Event::Writable => Self::Writable,
            Event::PeerFinished => Self::Finished,
            Event::Closed(why) => Self::Closed(why),
            _ => return None,
        })
    }
}

impl From<ConnectError> for Denial {
    fn from(why: ConnectError) -> Self {
        match why {
            ConnectError::HostUnreachable | ConnectError::TimedOut | ConnectError::TtlExpired => {
                Self::Unreachable(Unreachable::Host)
            }
            ConnectError::NetUnreachable | ConnectError::NoPath => {
                Self::Unreachable(Unreachable::Network)
            }
            ConnectError::NotAllowed => Self::Unreachable(Unreachable::Prohibited),
            _ => Self::Reset,
        }
    }
}
