//! A relay: two connections of one engine joined to one (split connection, RFC 3135 section 3.1).
//! A peer has asked for the *near* one, and gets its answer only when the *far* one, which we
//! opened, has got one: a refusal is passed back as a refusal.
//!
//! What can be read from one is written to the other, by reference, until its send buffer is
//! full; then nothing more is read, and the receive window closes. Thus a relay holds at most a
//! receive buffer, a send buffer and one piece for each direction. The end of a stream is passed
//! on when all of it has been; the other direction goes on. An end with an error is passed on at
//! once, as a reset, and what is still buffered is lost, as it would be end to end.

use bytes::Bytes;
use tabane_engine::record::CloseReason;
use tabane_engine::{ConnId, Endpoint, Event, Instant};

/// Two connections joined.
#[derive(Debug)]
pub struct Relay {
    /// Near and far; `None` once gone.
    conns: [Option<ConnId>; 2],
    /// What came from near, and what came from far.
    directions: [Direction; 2],
}

/// Which of a relay's connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// The one that a peer opened.
    Near,
    /// The one that we opened.
    Far,
}

/// One direction.
#[derive(Debug, Default)]
struct Direction {
    /// Read and not taken by the other's send buffer.
    waiting: Bytes,
    /// The end of the stream has come.
    finished: bool,
    /// And has been passed on.
    closed: bool,
    /// Bytes passed on.
    passed: u64,
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
        Self {
            conns: [Some(near), Some(far)],
            directions: [Direction::default(), Direction::default()],
        }
    }

    /// One of its connections, unless it is gone.
    pub fn conn(&self, side: Side) -> Option<ConnId> {
        self.conns[side as usize]
    }

    /// Bytes that came from `side` and went out on the other.
    pub fn passed(&self, side: Side) -> u64 {
        self.directions[side as usize].passed
    }

    /// Whether both connections are gone.
    pub fn is_over(&self) -> bool {
        self.conns == [None, None]
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
                self.directions[side as usize].finished = true;
                self.pass(now, endpoint, side);
            }
            Event::Closed(reason) => {
                self.conns[side as usize] = None;
                // Regular is an end that has been passed on to it. If somebody has closed its
                // subflows instead, what the other still brings has nowhere to go.
                let ended = self.directions[side.other() as usize].closed;
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
        let (from, to) = (self.conn(side), self.conn(side.other()));
        let Some(to) = to else { return };
        let way = &mut self.directions[side as usize];
        loop {
            if way.waiting.is_empty() {
                let source = from.and_then(|id| endpoint.connection(id));
                let Some(piece) = source.and_then(|source| source.read(usize::MAX)) else { break };
                way.waiting = piece;
            }
            let Some(sink) = endpoint.connection(to) else { return };
            way.passed += sink.write(&mut way.waiting) as u64;
            if !way.waiting.is_empty() {
                // `Event::Writable` follows.
                return;
            }
        }
        if way.finished
            && !std::mem::replace(&mut way.closed, true)
            && let Some(sink) = endpoint.connection(to)
        {
            sink.close(now);
        }
    }
}

#[cfg(test)]
mod tests;
