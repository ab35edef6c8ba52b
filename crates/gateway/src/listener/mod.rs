//! Front ends that need no privilege: what programs speak to reach the tunnel. SOCKS5
//! (`Socks5`), HTTP proxy (`HttpConnect`), or whichever of the two the first byte tells
//! ([`Auto`]).
//!
//! A [`Negotiation`] is a state machine over bytes: no sockets, no clock. Its loop does this:
//! 1. Read what the program sent into one buffer, at most `INPUT_MAX` bytes while the answer to
//!    the program is open, and [`Negotiation::feed`] it.
//! 2. [`Step::Send`]: write, and feed again at once, also without new input. [`Step::Close`]:
//!    write, then close. [`Step::More`]: read on.
//! 3. [`Step::Connect`] or [`Step::Associate`]: try it; write what [`Negotiation::connected`] or
//!    [`Negotiation::failed`] returns, and close after the latter. What is left in the buffer, and
//!    all that follows, is the program's data: as much of it as [`Negotiation::exchange`] lets
//!    through.
//! 4. A program that has not asked for anything `PATIENCE` after it was accepted, however busily
//!    it trickles, is closed; at most `NEGOTIATING_MAX` programs negotiate at a time.

mod connect_error;
mod exchange;
mod http;
mod socks5;
mod target;
pub(crate) mod udp_header;

#[cfg(test)]
mod tests;

pub(crate) use connect_error::ConnectError;
pub(crate) use exchange::Exchange;
pub(crate) use http::HttpConnect;
pub(crate) use socks5::Socks5;
pub(crate) use target::Target;
pub(crate) use target::TargetError;

use bytes::{Bytes, BytesMut};
use sha2::{Digest, Sha256};
use std::net::SocketAddr;
use tabane_engine::Duration;

/// A negotiation with one program, from its first byte to its answer.
pub(crate) trait Negotiation: Send {
    /// Takes from the start of `input` what it understands; what belongs to the tunnel stays.
    /// After [`Step::Connect`], [`Step::Associate`] and [`Step::Close`] it takes nothing more.
    fn feed(&mut self, input: &mut BytesMut) -> Step;

    /// The target is connected (or the association is ready): what to tell the program. `bound`
    /// is the local address towards the target, or where the association takes datagrams.
    fn connected(&mut self, bound: SocketAddr) -> Bytes;

    /// After [`Negotiation::connected`]: what limits the stream to one request and its response,
    /// once. `None`: everything is passed on both ways.
    fn exchange(&mut self) -> Option<Exchange> {
        None
    }

    /// It is not: what to tell the program before closing.
    fn failed(&mut self, why: ConnectError) -> Bytes;
}

/// What is to be done next.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// Read on.
    More,
    /// Write this and feed again.
    Send(Bytes),
    /// Open a stream.
    Connect(Target),
    /// Open an association for datagrams (SOCKS5); the program means to send from that address,
    /// if it said so. It lives as long as the program's connection, and takes datagrams from the
    /// address of that connection only (RFC 1928 section 7).
    Associate(Option<SocketAddr>),
    /// Write this, then close.
    Close(Bytes),
}

/// What programs must know, where they must know anything.
#[derive(Clone, Debug)]
pub(crate) struct Login {
    /// `user:password`, hashed: comparing takes the same time whatever is wrong.
    digest: [u8; 32],
}

/// Longest head of an HTTP request, bytes; SOCKS5 messages are shorter by their format.
pub(crate) const HEAD_MAX: usize = 16 << 10;
/// Most that is read from a program before it is answered: a head and some early data.
pub(crate) const INPUT_MAX: usize = 2 * HEAD_MAX;
/// From accepting a program to its request.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
/// Programs that negotiate at a time, at one listener; a further one replaces the oldest.
pub(crate) const NEGOTIATING_MAX: usize = 256;

impl Login {
    /// From `user:password`; the user's name has no colon.
    #[must_use]
    pub(crate) fn new(text: &str) -> Self {
        Self { digest: Sha256::digest(text).into() }
    }

    fn fits(&self, user: &[u8], password: &[u8]) -> bool {
        let given = Sha256::new().chain_update(user).chain_update(b":").chain_update(password);
        self.is(&given.finalize().into())
    }

    /// As [`Login::fits`], for both in one.
    fn fits_text(&self, text: &[u8]) -> bool {
        self.is(&Sha256::digest(text).into())
    }

    fn is(&self, digest: &[u8; 32]) -> bool {
        self.digest.iter().zip(digest).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
    }
}

/// SOCKS5 or HTTP on one port: the first byte tells.
#[derive(Debug)]
pub(crate) enum Auto {
    /// Nothing has come.
    Unknown(Option<Login>),
    /// SOCKS5: the first byte was 5.
    Socks5(Socks5),
    /// Anything else that can begin a request.
    Http(HttpConnect),
    /// SOCKS4, which has no names resolved at the far end and no IPv6: rejected.
    Socks4,
}

impl Auto {
    /// For one program.
    #[must_use]
    pub(crate) fn new(login: Option<Login>) -> Self {
        Self::Unknown(login)
    }
}

impl Negotiation for Auto {
    fn feed(&mut self, input: &mut BytesMut) -> Step {
        if let Self::Unknown(login) = self {
            *self = match input.first() {
                None => return Step::More,
                Some(5) => Self::Socks5(Socks5::new(login.take())),
                Some(4) => Self::Socks4,
                Some(_) => Self::Http(HttpConnect::new(login.take())),
            };
        }
        match self {
            Self::Socks5(negotiation) => negotiation.feed(input),
            Self::Http(negotiation) => negotiation.feed(input),
            // "Request rejected" in the old protocol's words.
            Self::Socks4 | Self::Unknown(_) => {
                Step::Close(Bytes::from_static(&[0, 0x5b, 0, 0, 0, 0, 0, 0]))
            }
        }
    }

    fn connected(&mut self, bound: SocketAddr) -> Bytes {
        match self {
            Self::Socks5(negotiation) => negotiation.connected(bound),
            Self::Http(negotiation) => negotiation.connected(bound),
            Self::Socks4 | Self::Unknown(_) => Bytes::new(),
        }
    }

    fn exchange(&mut self) -> Option<Exchange> {
        match self {
            Self::Http(negotiation) => negotiation.exchange(),
            Self::Socks5(_) | Self::Socks4 | Self::Unknown(_) => None,
        }
    }

    fn failed(&mut self, why: ConnectError) -> Bytes {
        match self {
            Self::Socks5(negotiation) => negotiation.failed(why),
            Self::Http(negotiation) => negotiation.failed(why),
            Self::Socks4 | Self::Unknown(_) => Bytes::new(),
        }
    }
}
