//! SOCKS5 (RFC 1928) with CONNECT and UDP ASSOCIATE, and its user and password (RFC 1929). BIND
//! is refused: nothing can be reached behind the server's shared address. No GSSAPI.

use super::target::{v4, v6};
use super::{ConnectError, Login, Negotiation, Step, Target};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// The server's side of a negotiation.
#[derive(Debug)]
pub(crate) struct Socks5 {
    login: Option<Login>,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Greeting,
    Password,
    Request,
    /// The request is being carried out, or all is said.
    RequestHead,
}

const VERSION: u8 = 5;
/// Methods (RFC 1928 section 3).
const NO_LOGIN: u8 = 0;
const PASSWORD: u8 = 2;
const NO_METHOD: u8 = 0xff;
/// Commands (section 4).
const CONNECT: u8 = 1;
const ASSOCIATE: u8 = 3;
/// Types of addresses (section 5).
pub(super) const V4: u8 = 1;
pub(super) const NAME: u8 = 3;
pub(super) const V6: u8 = 4;
/// Replies (section 6) that are no [`ConnectError`].
const SUCCEEDED: u8 = 0;
const GENERAL_FAILURE: u8 = 1;
const COMMAND_NOT_SUPPORTED: u8 = 7;
const ADDRESS_TYPE_NOT_SUPPORTED: u8 = 8;

impl Socks5 {
    /// For one program. With `login` a program that does not offer one is turned away.
    #[must_use]
    pub(crate) fn new(login: Option<Login>) -> Self {
        Self { login, state: State::Greeting }
    }

    /// Version, number of methods, methods.
    fn greeting(&mut self, input: &mut BytesMut) -> Option<Step> {
        if *input.first()? != VERSION {
            self.state = State::RequestHead;
            return Some(Step::Close(Bytes::new()));
        }
        let count = usize::from(*input.get(1)?);
        let wanted = if self.login.is_some() { PASSWORD } else { NO_LOGIN };
        let offered = input.get(2..2 + count)?.contains(&wanted);
        input.advance(2 + count);
        if !offered {
            return Some(self.close(&[VERSION, NO_METHOD]));
        }
        self.state = if wanted == PASSWORD { State::Password } else { State::Request };
        Some(Step::Send(Bytes::copy_from_slice(&[VERSION, wanted])))
    }

    /// Version 1, user, password, each after its length (RFC 1929 section 2).
    fn password(&mut self, input: &mut BytesMut) -> Option<Step> {
        if *input.first()? != 1 {
            return Some(self.close(&[1, 1]));
        }
        let user_end = 2 + usize::from(*input.get(1)?);
        let end = user_end + 1 + usize::from(*input.get(user_end)?);
        let (user, password) = (input.get(2..user_end)?, input.get(user_end + 1..end)?);
        let fits = self.login.as_ref().is_none_or(|login| login.fits(user, password));
        input.advance(end);
        if !fits {
            return Some(self.close(&[1, 1]));
        }
        self.state = State::Request;
        Some(Step::Send(Bytes::from_static(&[1, 0])))
    }

    /// Version, command, reserved, destination.
    fn request(&mut self, input: &mut BytesMut) -> Option<Step> {
        if *input.first()? != VERSION {
            return Some(self.refuse(GENERAL_FAILURE));
        }
        let command = *input.get(1)?;
        let kind = *input.get(3)?;
        if ![V4, V6, NAME].contains(&kind) {
            return Some(self.refuse(ADDRESS_TYPE_NOT_SUPPORTED));
        }
        let (host, port, end) = destination(input.get(3..)?)?;
        input.advance(3 + end);
        self.state = State::RequestHead;
        let target = || match &host {
            Host::Address(_) if port == 0 => None,
            Host::Address(address) => Some(Target::Address(SocketAddr::new(*address, port))),
            Host::Name(name) => Target::new(name, port).ok(),
        };
        Some(match (command, &host) {
            (CONNECT, _) => target().map_or_else(|| self.refuse(GENERAL_FAILURE), Step::Connect),
            (ASSOCIATE, Host::Address(address)) if !address.is_unspecified() && port != 0 => {
                Step::Associate(Some(SocketAddr::new(*address, port)))
            }
            (ASSOCIATE, _) => Step::Associate(None),
            _ => self.refuse(COMMAND_NOT_SUPPORTED),
        })
    }

    fn refuse(&mut self, code: u8) -> Step {
        self.close(&reply(code, NOWHERE))
    }

    fn close(&mut self, last: &[u8]) -> Step {
        self.state = State::RequestHead;
        Step::Close(Bytes::copy_from_slice(last))
    }
}

impl Negotiation for Socks5 {
    fn feed(&mut self, input: &mut BytesMut) -> Step {
        let step = match self.state {
            State::Greeting => self.greeting(input),
            State::Password => self.password(input),
            State::Request => self.request(input),
            State::RequestHead => None,
        };
        step.unwrap_or(Step::More)
    }

    fn connected(&mut self, bound: SocketAddr) -> Bytes {
        reply(SUCCEEDED, bound)
    }

    fn failed(&mut self, why: ConnectError) -> Bytes {
        reply(why.socks5(), NOWHERE)
    }
}

pub(super) enum Host {
    Address(IpAddr),
    Name(Vec<u8>),
}

/// Type, address and port (RFC 1928 section 5), and how many bytes they take; `None` if there
/// are too few, or of an unknown type.
pub(super) fn destination(bytes: &[u8]) -> Option<(Host, u16, usize)> {
    let (host, end) = match *bytes.first()? {
        V4 => (Host::Address(v4(&bytes[1..])?), 5),
        V6 => (Host::Address(v6(&bytes[1..])?), 17),
        NAME => {
            let end = 2 + usize::from(*bytes.get(1)?);
            (Host::Name(bytes.get(2..end)?.to_vec()), end)
        }
        _ => return None,
    };
    let port = u16::from_be_bytes(bytes.get(end..)?.first_chunk().copied()?);
    Some((host, port, end + 2))
}

/// What a reply names that has nothing to name.
const NOWHERE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

fn reply(code: u8, bound: SocketAddr) -> Bytes {
    let mut out = BytesMut::with_capacity(22);
    out.put_slice(&[VERSION, code, 0]);
    put_address(&mut out, bound);
    out.freeze()
}

/// The inverse of [`destination`] for addresses.
pub(super) fn put_address(out: &mut impl BufMut, address: SocketAddr) {
    match address.ip() {
        IpAddr::V4(v4) => {
            out.put_u8(V4);
            out.put_slice(&v4.octets());
        }
        IpAddr::V6(v6) => {
            out.put_u8(V6);
            out.put_slice(&v6.octets());
        }
    }
    out.put_u16(address.port());
}
