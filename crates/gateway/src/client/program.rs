//! A program at a front end, from its first byte to its last.

use crate::listener::{ConnectError, INPUT_MAX, Negotiation, PATIENCE, Step, Target};
use crate::relay::{Pool, Relay, RelayState};
use bytes::BytesMut;
use mio::net::TcpStream;
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use tabane_engine::mptcp::Connection;
use tabane_engine::{ConnId, Instant};

/// See the module.
pub(super) struct Program {
    relay: Relay,
    negotiation: Box<dyn Negotiation>,
    input: BytesMut,
    /// Its own address.
    pub(super) source: SocketAddr,
    /// What it asked for.
    pub(super) target: Option<Target>,
    /// Since when it is there.
    pub(super) since: Instant,
    pub(super) stage: Stage,
}

/// How far it has come.
#[derive(Debug)]
pub(super) enum Stage {
    /// It says what it wants.
    Talking,
    /// The name that it wants is being asked for.
    Resolving,
    /// No path works: waits for one, with the addresses to try then.
    Waiting(VecDeque<SocketAddr>),
    /// A connection is being opened; the addresses to try if it fails, and the path it began on.
    Opening { conn: ConnId, path: usize, rest: VecDeque<SocketAddr> },
    /// Bytes flow.
    Relaying(ConnId),
    /// Its datagrams are relayed as long as it is there.
    Associated(usize),
    /// All is said; what it has not taken is still given to it.
    Leaving,
    /// It has its response, and what it says now is thrown away: were it closed with that unread,
    /// the system would reset the connection, and the response might be lost with it (RFC 9112
    /// section 9.6).
    Answered(ConnId),
}

/// What a program wants of the agent.
#[derive(Debug)]
pub(super) enum ConnectRequest {
    /// Nothing for now.
    Nothing,
    /// A connection.
    Connect(Target),
    /// A relay of datagrams.
    Associate,
    /// It is over.
    Gone,
    /// There may be more to throw away: others have their turn first.
    Again,
}

/// Read at a time from a program that has nothing to say.
const DISCARDED: usize = 64 << 10;

impl Program {
    pub(super) fn new(
        now: Instant,
        stream: TcpStream,
        source: SocketAddr,
        negotiation: Box<dyn Negotiation>,
    ) -> Self {
        Self {
            relay: Relay::new(stream),
            negotiation,
            input: BytesMut::new(),
            source,
            target: None,
            since: now,
            stage: Stage::Talking,
        }
    }

    /// To be put into the poll, and taken out.
    pub(super) fn stream(&mut self) -> &mut TcpStream {
        self.relay.stream()
    }

    /// Until when it must have said what it wants.
    pub(super) fn deadline(&self) -> Option<Instant> {
        matches!(self.stage, Stage::Talking).then(|| self.since + PATIENCE)
    }

    /// The poll says that its socket is ready.
    pub(super) fn ready(&mut self, readable: bool, writable: bool) -> ConnectRequest {
        self.relay.ready(readable, writable);
        match self.stage {
            Stage::Talking if readable => self.talk(),
            // It has nothing to say here: what comes is its end.
            Stage::Associated(_) | Stage::Answered(_) if readable => self.discard(),
            Stage::Leaving => self.leave(),
            _ => ConnectRequest::Nothing,
        }
    }

    fn talk(&mut self) -> ConnectRequest {
        loop {
            let mut block = [0; 4096];
            let space = INPUT_MAX.saturating_sub(self.input.len()).min(block.len());
            let ended = match self.relay.stream().read(&mut block[..space]) {
                Ok(0) => true,
                Ok(len) => {
                    self.input.extend_from_slice(&block[..len]);
                    false
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return ConnectRequest::Nothing;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => return ConnectRequest::Gone,
            };
            match self.negotiate() {
                ConnectRequest::Nothing if ended => return ConnectRequest::Gone,
                ConnectRequest::Nothing => {}
                connect_request => return connect_request,
            }
        }
    }

    fn negotiate(&mut self) -> ConnectRequest {
        loop {
            match self.negotiation.feed(&mut self.input) {
                Step::More => return ConnectRequest::Nothing,
                Step::Send(answer) => {
                    if self.say(&answer).is_err() {
                        return ConnectRequest::Gone;
                    }
                }
                Step::Connect(target) => {
                    self.target = Some(target.clone());
                    return ConnectRequest::Connect(target);
                }
                // Where it means to send from does not matter: its host does.
                Step::Associate(_) => return ConnectRequest::Associate,
                Step::Close(answer) => {
                    // The answer may be lost if the program has gone; nobody misses it then.
                    let _ = self.say(&answer);
                    return ConnectRequest::Gone;
                }
            }
        }
    }

    /// A short answer: a socket that has no room for it is not worth keeping.
    fn say(&mut self, answer: &[u8]) -> io::Result<()> {
        self.relay.stream().write_all(answer)
    }

    /// Throws away what it says.
    pub(super) fn discard(&mut self) -> ConnectRequest {
        let mut block = [0; 4096];
        let mut discarded = 0;
        while discarded < DISCARDED {
            match self.relay.stream().read(&mut block) {
                Ok(0) => return ConnectRequest::Gone,
                Ok(len) => discarded += len,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return ConnectRequest::Nothing;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return ConnectRequest::Gone,
            }
        }
        ConnectRequest::Again
    }

    /// Its connection stands: it is told, and bytes flow.
    pub(super) fn connected(&mut self, conn: ConnId, bound: SocketAddr) {
        let answer = self.negotiation.connected(bound);
        let early = std::mem::take(&mut self.input).freeze();
        self.relay.prime(answer, early, self.negotiation.exchange());
        self.stage = Stage::Relaying(conn);
    }

    /// Its datagrams are relayed at `bound`.
    pub(super) fn associated(&mut self, index: usize, bound: SocketAddr) -> bool {
        let answer = self.negotiation.connected(bound);
        self.stage = Stage::Associated(index);
        self.say(&answer).is_ok()
    }

    /// It does not get what it wanted, and is told.
    pub(super) fn failed(&mut self, why: ConnectError) {
        let answer = self.negotiation.failed(why);
        // As in `say`.
        let _ = self.relay.stream().write_all(&answer);
    }

    /// Moves what can be moved.
    pub(super) fn step(
        &mut self,
        now: Instant,
        conn: &mut Connection,
        pool: &mut Pool,
    ) -> RelayState {
        self.relay.step(now, conn, pool)
    }

    /// Its connection is gone, in order; whether it is over.
    pub(super) fn leave(&mut self) -> ConnectRequest {
        self.stage = Stage::Leaving;
        if self.relay.drain() == RelayState::Open {
            ConnectRequest::Nothing
        } else {
            ConnectRequest::Gone
        }
    }

    /// Its connection ended with an error.
    pub(super) fn reset(&mut self) {
        self.relay.reset();
    }
}
