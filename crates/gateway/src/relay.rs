//! Moves bytes between a socket of a program (or of a server far away) and a connection of the
//! engine.
//!
//! What the connection does not take stays in the socket, what the socket does not take stays in
//! the connection, whose receive window then closes: a relay itself holds one block of what was
//! read from the socket and some pieces of what goes there at most ([`Relay::held`]). The end of a
//! stream is passed on when all of it has been; the other direction goes on. An end with an error
//! is passed on as a reset.
//!
//! With an [`Exchange`] the stream is one request of HTTP and its response: nothing is read from
//! the socket after the former, and both ends end after the latter.

use crate::kernel_memory;
use crate::listener::Exchange;
use bytes::{Bytes, BytesMut};
use mio::net::TcpStream;
use std::collections::VecDeque;
use std::io::{self, IoSlice, Read, Write};
use std::net::Shutdown;
use tabane_engine::Instant;
use tabane_engine::mptcp::Connection;

/// A socket and what is between it and a connection.
pub(crate) struct Relay {
    stream: TcpStream,
    /// Read from the socket and not taken by the connection.
    up: Bytes,
    /// Read from the connection and not taken by the socket.
    down: VecDeque<Bytes>,
    /// As the poll said last; edges, so they hold until the system says otherwise.
    readable: bool,
    writable: bool,
    /// The socket's stream has ended, and that was passed on.
    up_ended: bool,
    up_closed: bool,
    /// The connection's stream has ended, and that was passed on.
    down_closed: bool,
    exchange: Option<Box<Exchange>>,
}

/// How a relay stands after a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RelayState {
    /// Waits for the socket or the connection.
    Open,
    /// There may be more to do at once: others have their turn first.
    More,
    /// Both streams have ended in order.
    Finished,
    /// The response has been given to the socket, and both ends have been told that it is the
    /// end. Neither needs to agree soon.
    Answered,
    /// The socket has failed: the connection is to be reset.
    Broken,
}

/// Read from a socket at a time: enough for a batch of segments.
const BLOCK: usize = 64 << 10;
/// Pieces given to the socket in one call.
const CHUNKS: usize = 64;
/// Bytes moved in one step in one direction, before others have their turn.
const TURN: usize = 512 << 10;

impl Relay {
    /// A relay of a socket.
    #[must_use]
    pub(crate) fn new(stream: TcpStream) -> Self {
        // Without it small answers wait for the ACK of those before. It can be missing.
        let _ = stream.set_nodelay(true);
        Self {
            stream,
            up: Bytes::new(),
            down: VecDeque::new(),
            readable: true,
            writable: true,
            up_ended: false,
            up_closed: false,
            down_closed: false,
            exchange: None,
        }
    }

    /// `first` is given to the socket before anything else; `early` has been read from it already.
    pub(crate) fn prime(&mut self, first: Bytes, early: Bytes, exchange: Option<Exchange>) {
        if !first.is_empty() {
            self.down.push_back(first);
        }
        self.exchange = exchange.map(Box::new);
        self.up = match &mut self.exchange {
            Some(exchange) => exchange.begin(early, &mut self.down),
            None => early,
        };
    }

    /// The poll says so.
    pub(crate) fn ready(&mut self, readable: bool, writable: bool) {
        self.readable |= readable;
        self.writable |= writable;
    }

    /// The socket, to be taken out of the poll.
    pub(crate) fn stream(&mut self) -> &mut TcpStream {
        &mut self.stream
    }

    /// Bytes that wait in it and in the kernel's queues of its socket, both directions.
    #[must_use]
    pub(crate) fn held(&self) -> u64 {
        let own = self.up.len() + self.down.iter().map(Bytes::len).sum::<usize>();
        own as u64 + kernel_memory::held(&self.stream)
    }

    /// Moves what can be moved.
    pub(crate) fn step(
        &mut self,
        now: Instant,
        conn: &mut Connection,
        pool: &mut Pool,
    ) -> RelayState {
        let up = self.upwards(now, conn, pool);
        let down = up.and_then(|more| Ok(more | self.downwards(conn)?));
        match down {
            Err(_) => RelayState::Broken,
            Ok(true) => RelayState::More,
            Ok(false) if self.is_answered() => self.part(now, conn),
            Ok(false) if self.up_closed && self.down_closed => RelayState::Finished,
            Ok(false) => RelayState::Open,
        }
    }

    fn is_answered(&self) -> bool {
        self.down.is_empty() && self.exchange.as_ref().is_some_and(|exchange| exchange.is_over())
    }

    /// The response is over: so is all else.
    fn part(&mut self, now: Instant, conn: &mut Connection) -> RelayState {
        if self.exchange.as_ref().is_some_and(|exchange| exchange.has_failed()) {
            conn.abort(now);
        } else {
            conn.close(now);
        }
        // As in `downwards`.
        let _ = self.stream.shutdown(Shutdown::Write);
        RelayState::Answered
    }

    /// From the socket to the connection; whether there may be more.
    fn upwards(
        &mut self,
        now: Instant,
        conn: &mut Connection,
        pool: &mut Pool,
    ) -> io::Result<bool> {
        let mut moved = 0;
        while moved < TURN {
            if !self.up.is_empty() {
                moved += conn.write(&mut self.up);
                if !self.up.is_empty() {
                    return Ok(false);
                }
            }
            if self.up_ended {
                if !std::mem::replace(&mut self.up_closed, true) {
                    conn.close(now);
                }
                return Ok(false);
            }
            // Read even without room: what is left over makes the connection tell of room.
            if !self.readable {
                return Ok(false);
            }
            if self.exchange.as_ref().is_some_and(|exchange| !exchange.takes()) {
                self.watch()?;
                continue;
            }
            match pool.read(&mut self.stream) {
                Ok(data) if data.is_empty() => self.up_ended = true,
                Ok(data) => {
                    self.up = match &mut self.exchange {
                        Some(exchange) => exchange.request(data, &mut self.down),
                        None => data,
                    };
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.readable = false,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// The request is complete: of what follows only the end is looked for.
    fn watch(&mut self) -> io::Result<()> {
        match self.stream.peek(&mut [0]) {
            Ok(0) => self.up_ended = true,
            Ok(_) => self.readable = false,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.readable = false,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// From the connection to the socket; whether there may be more.
    fn downwards(&mut self, conn: &mut Connection) -> io::Result<bool> {
        let mut moved = 0;
        while moved < TURN {
            while self.down.len() < CHUNKS
                && self.exchange.as_ref().is_none_or(|exchange| !exchange.is_over())
                && let Some(chunk) = conn.read(BLOCK)
            {
                match &mut self.exchange {
                    Some(exchange) => exchange.response(chunk, &mut self.down),
                    None => self.down.push_back(chunk),
                }
            }
            if let Some(exchange) = &mut self.exchange
                && conn.is_finished()
            {
                exchange.end(&mut self.down);
            }
            if self.down.is_empty() {
                if self.exchange.is_some() {
                    return Ok(false);
                }
                if conn.is_finished() && !std::mem::replace(&mut self.down_closed, true) {
                    // The program may be gone already, which its reading side will tell.
                    let _ = self.stream.shutdown(Shutdown::Write);
                }
                return Ok(false);
            }
            if !self.writable {
                return Ok(false);
            }
            moved += self.give()?;
        }
        Ok(true)
    }

    /// One write of what has been read from the connection.
    fn give(&mut self) -> io::Result<usize> {
        let mut slices = [IoSlice::new(&[]); CHUNKS];
        for (slice, chunk) in slices.iter_mut().zip(&self.down) {
            *slice = IoSlice::new(chunk);
        }
        let count = self.down.len().min(CHUNKS);
        match self.stream.write_vectored(&slices[..count]) {
            Ok(len) => {
                advance(&mut self.down, len);
                return Ok(len);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.writable = false,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        Ok(0)
    }

    /// The connection is gone, in order: what the socket has not yet taken is still given to it.
    pub(crate) fn drain(&mut self) -> RelayState {
        loop {
            if self.down.is_empty() {
                let _ = self.stream.shutdown(Shutdown::Write);
                return RelayState::Finished;
            }
            if !self.writable {
                return RelayState::Open;
            }
            if self.give().is_err() {
                return RelayState::Broken;
            }
        }
    }

    /// The connection ended with an error: so does the program's, as a reset.
    pub(crate) fn reset(&mut self) {
        let stream = socket2::SockRef::from(&self.stream);
        // A close without lingering sends RST; best effort.
        let _ = stream.set_linger(Some(std::time::Duration::ZERO));
    }
}

fn advance(chunks: &mut VecDeque<Bytes>, mut len: usize) {
    while len > 0 {
        let Some(first) = chunks.front_mut() else { return };
        if first.len() > len {
            bytes::Buf::advance(first, len);
            return;
        }
        len -= first.len();
        chunks.pop_front();
    }
}

/// Memory that is read into: one block. A read that fills at least half of it gives it away; of a
/// shorter one a copy, so that nobody keeps more than twice of what he holds.
#[derive(Default)]
pub(crate) struct Pool {
    block: BytesMut,
    /// Bytes read, all together.
    pub(crate) taken: u64,
}

impl Pool {
    /// Reads at most a block; empty at the end of the stream.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn read(&mut self, stream: &mut impl Read) -> io::Result<Bytes> {
        if self.block.len() < BLOCK {
            self.block = BytesMut::zeroed(BLOCK);
        }
        let len = stream.read(&mut self.block)?;
        self.taken += len as u64;
        if len < BLOCK / 2 {
            return Ok(Bytes::copy_from_slice(&self.block[..len]));
        }
        let mut filled = std::mem::take(&mut self.block);
        filled.truncate(len);
        Ok(filled.freeze())
    }
}
