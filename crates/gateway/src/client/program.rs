//! A program at a front end, from its first byte to its last.

use crate::index::AssociationIndex;
use crate::listener::{ConnectError, Exchange, INPUT_MAX, Negotiation, PATIENCE, Step, Target};
use crate::session::{self, Discarded, Pool, Socket, Verdict};
use bytes::{Bytes, BytesMut};
use mio::net::TcpStream;
use std::collections::VecDeque;
use std::io::{self, Read as _, Write};
use std::net::SocketAddr;
use tabane_engine::Instant;
use tabane_engine::pipe::{Read, Sink, Source, Stream, Written};

pub(super) struct Program {
    socket: Socket,
    negotiation: Box<dyn Negotiation>,
    input: BytesMut,
    /// Its own address.
    pub(super) source: SocketAddr,
    /// Since when it is there.
    pub(super) since: Instant,
    pub(super) stage: Stage,
    /// Read before its connection stood.
    early: Bytes,
    /// To be given to it before anything else.
    out: VecDeque<Bytes>,
    /// Its stream is one request of HTTP and the response: nothing is read after the former, and
    /// both ends end after the latter.
    exchange: Option<Box<Exchange>>,
}

/// How far it has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stage {
    /// It says what it wants.
    Talking,
    /// The name that it wants is being asked for.
    Resolving,
    /// It has a session.
    Connecting,
    /// Its datagrams are relayed as long as it is there.
    Associated(AssociationIndex),
}

/// What a program wants of the agent.
#[derive(Debug)]
pub(super) enum ProgramRequest {
    /// Nothing for now.
    Nothing,
    /// A connection.
    Connect(Target),
    /// A relay of datagrams.
    Associate,
    /// Its session is to be stepped.
    Step,
    /// It is over.
    Gone,
    /// There may be more to throw away: others have their turn first.
    Again,
}

/// A program's socket, as its session sees it.
pub(super) struct ProgramStream<'a> {
    pub(super) program: &'a mut Program,
    pub(super) pool: &'a mut Pool,
}

/// Read at a time from a program that has nothing to say.
const DISCARDED: usize = 64 << 10;
/// Pieces given to a program in one call.
const CHUNKS: usize = 64;

impl Program {
    pub(super) fn new(
        now: Instant,
        stream: TcpStream,
        source: SocketAddr,
        negotiation: Box<dyn Negotiation>,
    ) -> Self {
        Self {
            socket: Socket::new(stream),
            negotiation,
            input: BytesMut::new(),
            source,
            since: now,
            stage: Stage::Talking,
            early: Bytes::new(),
            out: VecDeque::new(),
            exchange: None,
        }
    }

    /// To be put into the poll, and taken out.
    pub(super) fn stream(&mut self) -> &mut TcpStream {
        self.socket.inner()
    }

    /// Until when it must have said what it wants.
    pub(super) fn deadline(&self) -> Option<Instant> {
        (self.stage == Stage::Talking).then(|| self.since + PATIENCE)
    }

    /// The poll says that its socket is ready.
    pub(super) fn ready(&mut self, readable: bool, writable: bool) -> ProgramRequest {
        self.socket.ready(readable, writable);
        match self.stage {
            Stage::Talking if readable => self.talk(),
            // It has nothing to say here: what comes is its end.
            Stage::Associated(_) if readable => self.listen(),
            Stage::Connecting => ProgramRequest::Step,
            Stage::Talking | Stage::Resolving | Stage::Associated(_) => ProgramRequest::Nothing,
        }
    }

    fn talk(&mut self) -> ProgramRequest {
        loop {
            let mut block = [0; 4096];
            let space = INPUT_MAX.saturating_sub(self.input.len()).min(block.len());
            let ended = match self.stream().read(&mut block[..space]) {
                Ok(0) => true,
                Ok(len) => {
                    self.input.extend_from_slice(&block[..len]);
                    false
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return ProgramRequest::Nothing;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => return ProgramRequest::Gone,
            };
            match self.negotiate() {
                ProgramRequest::Nothing if ended => return ProgramRequest::Gone,
                ProgramRequest::Nothing => {}
                request => return request,
            }
        }
    }

    fn negotiate(&mut self) -> ProgramRequest {
        loop {
            match self.negotiation.feed(&mut self.input) {
                Step::More => return ProgramRequest::Nothing,
                Step::Send(answer) => {
                    if self.say(&answer).is_err() {
                        return ProgramRequest::Gone;
                    }
                }
                Step::Connect(target) => return ProgramRequest::Connect(target),
                // Where it means to send from does not matter: its host does.
                Step::Associate(_) => return ProgramRequest::Associate,
                Step::Close(answer) => {
                    // The answer may be lost if the program has gone; nobody misses it then.
                    let _ = self.say(&answer);
                    return ProgramRequest::Gone;
                }
            }
        }
    }

    /// A short answer: a socket that has no room for it is not worth keeping.
    fn say(&mut self, answer: &[u8]) -> io::Result<()> {
        self.stream().write_all(answer)
    }

    /// Looks for the end of what a program says that has nothing to say.
    pub(super) fn listen(&mut self) -> ProgramRequest {
        match self.discard() {
            Discarded::Waits => ProgramRequest::Nothing,
            Discarded::More => ProgramRequest::Again,
            Discarded::Ended => ProgramRequest::Gone,
        }
    }

    fn discard(&mut self) -> Discarded {
        let mut block = [0; 4096];
        let mut discarded = 0;
        while discarded < DISCARDED {
            match self.stream().read(&mut block) {
                Ok(0) => return Discarded::Ended,
                Ok(len) => discarded += len,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Discarded::Waits,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Discarded::Ended,
            }
        }
        Discarded::More
    }

    /// Its connection stands: it is told, and bytes flow.
    pub(super) fn connected(&mut self, bound: SocketAddr) {
        self.socket.begin();
        let answer = self.negotiation.connected(bound);
        self.out.extend((!answer.is_empty()).then_some(answer));
        let early = std::mem::take(&mut self.input).freeze();
        self.exchange = self.negotiation.exchange().map(Box::new);
        self.early = match &mut self.exchange {
            Some(exchange) => exchange.begin(early, &mut self.out),
            None => early,
        };
    }

    /// Its datagrams are relayed at `bound`.
    pub(super) fn associated(&mut self, index: AssociationIndex, bound: SocketAddr) -> bool {
        let answer = self.negotiation.connected(bound);
        self.stage = Stage::Associated(index);
        self.say(&answer).is_ok()
    }

    /// It does not get what it wanted, and is told.
    pub(super) fn failed(&mut self, why: ConnectError) {
        let answer = self.negotiation.failed(why);
        // As in `say`.
        let _ = self.say(&answer);
    }
}

impl Source for ProgramStream<'_> {
    fn read(&mut self) -> Read {
        let Program { socket, early, out, exchange, .. } = &mut *self.program;
        if !early.is_empty() {
            return Read::Data(std::mem::take(early));
        }
        loop {
            let Some(exchange) = exchange else { return socket.read(self.pool) };
            if !exchange.takes() {
                return socket.watch();
            }
            match socket.read(self.pool) {
                Read::Data(data) => {
                    let body = exchange.request(data, out);
                    if !body.is_empty() {
                        return Read::Data(body);
                    }
                }
                other => return other,
            }
        }
    }
}

impl Sink for ProgramStream<'_> {
    fn write(&mut self, chunks: &mut VecDeque<Bytes>) -> Written {
        let Program { socket, out, exchange, .. } = &mut *self.program;
        match (socket.write(out), exchange) {
            (Written::All, None) => socket.write(chunks),
            (Written::All, Some(exchange)) => {
                for chunk in chunks.drain(..) {
                    exchange.response(chunk, out);
                }
                socket.write(out)
            }
            (other, _) => other,
        }
    }

    fn shutdown(&mut self) {
        match &mut self.program.exchange {
            // The end follows what the program is still to be told: see `take_verdict`.
            Some(exchange) => exchange.end(&mut self.program.out),
            None => self.program.socket.shutdown(),
        }
    }

    fn batch(&self) -> usize {
        CHUNKS
    }
}

impl Stream for ProgramStream<'_> {
    fn reset(&mut self) {
        self.program.socket.reset();
    }
}

impl session::Program for ProgramStream<'_> {
    fn take_verdict(&mut self) -> Option<Verdict> {
        let Program { socket, out, exchange, .. } = &mut *self.program;
        let over = exchange.as_ref().is_some_and(|exchange| exchange.is_over());
        let exchange = exchange.take_if(|_| over && out.is_empty())?;
        socket.shutdown();
        Some(if exchange.has_failed() { Verdict::Failed } else { Verdict::Complete })
    }

    fn discard(&mut self) -> Discarded {
        self.program.discard()
    }
}
