//! A relay: two connections of one engine joined to one (split connection, RFC 3135 section 3.1).
//! A peer has asked for the *near* one, and gets its answer only when the *far* one, which we
//! opened, has got one: a refusal is passed back as a refusal.
//!
//! What can be read from one is written to the other, by reference, until its send buffer is
//! full; then nothing more is read, and the receive window closes. Thus a relay holds at most a
//! receive buffer, a send buffer and one chunk for each direction. The end of a stream is passed
//! on when all of it has been; the other direction goes on. An end with an error is passed on at
//! once, as a reset, and what is still buffered is lost, as it would be end to end.

use tabane_engine::pipe::{ConnectionStream, Direction, Pipe, Read, Source};
use tabane_engine::record::CloseReason;
use tabane_engine::{ConnId, Connection, Endpoint, Event, Instant};

/// Two connections joined.
#[derive(Debug)]
pub struct Relay {
    /// Near and far; `None` once gone.
    conns: [Option<ConnId>; 2],
    pipe: Pipe,
    /// Whose stream has ended.
    finished: [bool; 2],
}

/// Which of a relay's connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// The one that a peer opened.
    Near,
    /// The one that we opened.
    Far,
}

/// Where a direction comes from: a connection, unless it is gone.
struct Origin<'a> {
    connection: Option<&'a mut Connection>,
    /// Its end has come.
    finished: bool,
}

impl Side {
    fn other(self) -> Self {
        match self {
            Self::Near => Self::Far,
            Self::Far => Self::Near,
        }
    }
}

impl Relay {
    /// Joins a connection that waits for an answer (`Event::Incoming`) to one just opened.
    pub fn new(near: ConnId, far: ConnId) -> Self {
        Self { conns: [Some(near), Some(far)], pipe: Pipe::default(), finished: [false; 2] }
    }

    /// One of its connections, unless it is gone.
    pub fn conn(&self, side: Side) -> Option<ConnId> {
        self.conns[side as usize]
    }

    /// Bytes that came from `side` and went out on the other.
    pub fn passed(&self, side: Side) -> u64 {
        self.direction(side).passed()
    }

    /// Whether both connections are gone.
    pub fn is_over(&self) -> bool {
        self.conns == [None, None]
    }

    fn direction(&self, from: Side) -> &Direction {
        match from {
            Side::Near => &self.pipe.up,
            Side::Far => &self.pipe.down,
        }
    }

    /// An event of the connection on `side`.
    pub fn on_event(&mut self, now: Instant, endpoint: &mut Endpoint, side: Side, event: &Event) {
        match event {
            Event::Connected => {
                if let Some(near) = self.conn(Side::Near) {
                    endpoint.admit(near);
                }
            }
            Event::Readable => self.pass(now, endpoint, side),
            Event::Writable => self.pass(now, endpoint, side.other()),
            Event::PeerFinished => {
                self.finished[side as usize] = true;
                self.pass(now, endpoint, side);
            }
            Event::Closed(reason) => {
                self.conns[side as usize] = None;
                // Regular is an end that has been passed on to it. If somebody has closed its
                // subflows instead, what the other still brings has nowhere to go.
                let ended = self.direction(side.other()).has_ended();
                let regular = *reason == CloseReason::Finished && ended;
                let other = self.conn(side.other()).filter(|_| !regular);
                if let Some(other) = other.and_then(|id| endpoint.connection(id)) {
                    other.abort(now);
                }
            }
            _ => {}
        }
    }

    /// Passes on what has come from `side`, as far as the other takes it.
    fn pass(&mut self, now: Instant, endpoint: &mut Endpoint, side: Side) {
        let Some(to) = self.conn(side.other()) else { return };
        let from = self.conn(side).filter(|from| endpoint.connection(*from).is_some());
        let (from, to) = match from {
            Some(from) => match endpoint.connections_mut([from, to]) {
                Some([from, to]) => (Some(from), to),
                None => return,
            },
            None => match endpoint.connection(to) {
                Some(to) => (None, to),
                None => return,
            },
        };
        let mut from = Origin { connection: from, finished: self.finished[side as usize] };
        let mut to = ConnectionStream { connection: to, now };
        let direction = match side {
            Side::Near => &mut self.pipe.up,
            Side::Far => &mut self.pipe.down,
        };
        direction.step(&mut from, &mut to, u64::MAX);
    }
}

impl Source for Origin<'_> {
    fn read(&mut self) -> Read {
        match self.connection.as_mut().and_then(|connection| connection.read(usize::MAX)) {
            Some(chunk) => Read::Data(chunk),
            None if self.finished => Read::End,
            None => Read::Pending,
        }
    }
}

#[cfg(test)]
mod tests;
