//! The two ends of a session.

use crate::listener::ConnectError;
use bytes::Bytes;
use std::collections::VecDeque;
use std::net::SocketAddr;
use tabane_engine::pipe::{ConnectionStream, Read, Sink, Source, Stream, Written};
use tabane_engine::{ConnId, Endpoint, Instant};

/// Those who ask for connections, whoever keeps them.
pub(crate) trait Near {
    /// Names one of them; never used twice.
    type Id: Copy + Ord;

    /// The far end has been reached, from `local` if that is known: whoever asked is told.
    fn admit(&mut self, now: Instant, id: Self::Id, local: Option<SocketAddr>) -> Admitted;

    /// The far end could not be reached: whoever asked is told, and gone.
    fn refuse(&mut self, now: Instant, id: Self::Id, why: ConnectError);

    /// Its stream; `None` once it is gone.
    fn stream(&mut self, now: Instant, id: Self::Id) -> Option<impl Program>;

    /// The session has ended; an engine's connection finishes by itself.
    fn close(&mut self, id: Self::Id);
}

/// When bytes may flow after [`Near::admit`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Admitted {
    /// At once.
    Now,
    /// When whoever asked has heard of it: an event tells.
    Later,
}

/// The stream of a near end.
pub(crate) trait Program: Stream {
    /// By its own protocol the program has all that it asked for, and has been told that this is
    /// the end: whatever both streams go on to say. Once.
    fn take_verdict(&mut self) -> Option<Verdict> {
        None
    }

    /// Throws away what the program says.
    fn discard(&mut self) -> Discarded {
        Discarded::Ended
    }
}

/// How a program's request ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// With a response.
    Complete,
    /// Not as its protocol wants it.
    Failed,
}

/// What came of [`Program::discard`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Discarded {
    /// The program says nothing more now.
    Waits,
    /// There may be more: others have their turn first.
    More,
    /// The program has ended its stream.
    Ended,
}

/// Where connections go.
pub(crate) trait Far {
    /// Names one of them; never used twice.
    type Id: Copy + Eq;

    /// Its stream; `None` once it is gone.
    fn stream(&mut self, now: Instant, id: Self::Id) -> Option<impl Stream>;

    /// The address that it has on this side.
    fn local(&mut self, now: Instant, id: Self::Id) -> Option<SocketAddr>;

    /// The session has ended; an engine's connection finishes by itself.
    fn close(&mut self, id: Self::Id);
}

/// The stream of an end that may be a socket or a connection of an engine.
pub(crate) enum EndStream<'a, S> {
    Socket(S),
    Connection(ConnectionStream<'a>),
}

impl Program for ConnectionStream<'_> {}

impl<S: Source> Source for EndStream<'_, S> {
    fn read(&mut self) -> Read {
        match self {
            Self::Socket(stream) => stream.read(),
            Self::Connection(stream) => stream.read(),
        }
    }
}

impl<S: Sink> Sink for EndStream<'_, S> {
    fn write(&mut self, chunks: &mut VecDeque<Bytes>) -> Written {
        match self {
            Self::Socket(stream) => stream.write(chunks),
            Self::Connection(stream) => stream.write(chunks),
        }
    }

    fn shutdown(&mut self) {
        match self {
            Self::Socket(stream) => stream.shutdown(),
            Self::Connection(stream) => stream.shutdown(),
        }
    }

    fn batch(&self) -> usize {
        match self {
            Self::Socket(stream) => stream.batch(),
            Self::Connection(stream) => stream.batch(),
        }
    }
}

impl<S: Stream> Stream for EndStream<'_, S> {
    fn reset(&mut self) {
        match self {
            Self::Socket(stream) => stream.reset(),
            Self::Connection(stream) => stream.reset(),
        }
    }
}

impl<S: Program> Program for EndStream<'_, S> {
    fn take_verdict(&mut self) -> Option<Verdict> {
        match self {
            Self::Socket(stream) => stream.take_verdict(),
            Self::Connection(stream) => stream.take_verdict(),
        }
    }

    fn discard(&mut self) -> Discarded {
        match self {
            Self::Socket(stream) => stream.discard(),
            Self::Connection(stream) => stream.discard(),
        }
    }
}

/// A bond.
impl Far for Endpoint {
    type Id = ConnId;

    fn stream(&mut self, now: Instant, id: ConnId) -> Option<impl Stream> {
        Some(ConnectionStream { connection: self.connection(id)?, now })
    }

    fn local(&mut self, now: Instant, id: ConnId) -> Option<SocketAddr> {
        self.connection(id)?.info(now).subflows.first().map(|subflow| subflow.local)
    }

    fn close(&mut self, _: ConnId) {}
}
