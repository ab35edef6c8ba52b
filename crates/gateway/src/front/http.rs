//! HTTP proxy: CONNECT (RFC 9110 section 9.3.6), and plain `http://` requests (RFC 9112 section
//! 3.2.2), each of which becomes a connection of its own that ends with the response. Head only:
//! bodies are the tunnel's. `Proxy-Authorization: Basic` (RFC 7617) where a login is asked for.
//! No caching, no `Via`, no trailers, no second request on a connection.

use super::target::{TargetError, parse_port};
use super::{Front, HEAD_MAX, Login, Refusal, Step, Target};
use base64::Engine;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use bytes::{Buf, Bytes, BytesMut};
use httparse::{EMPTY_HEADER, Header, Status};
use std::net::SocketAddr;

/// The proxy's side of one request.
#[derive(Debug)]
pub struct HttpConnect {
    login: Option<Login>,
    /// Bytes that have been searched for the end of the head.
    scanned: usize,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Head,
    /// A tunnel was asked for: the answer is ours.
    Tunnel,
    /// A resource was asked for: the answer is the origin's, if there is one.
    Resource,
    Done,
}

/// Fields of a head.
const FIELDS_MAX: usize = 100;

impl HttpConnect {
    /// For one program.
    #[must_use]
    pub fn new(login: Option<Login>) -> Self {
        Self { login, scanned: 0, state: State::Head }
    }

    /// Where the head ends, once it does.
    fn head_end(&mut self, input: &[u8]) -> Option<usize> {
        let from = self.scanned.saturating_sub(2);
        self.scanned = input.len();
        let ends = |at: &usize| input[*at..].starts_with(b"\n\r\n");
        let at = (from..input.len()).find(|at| ends(at) || input[*at..].starts_with(b"\n\n"))?;
        Some(at + if ends(&at) { 3 } else { 2 })
    }

    fn head(&mut self, input: &mut BytesMut) -> Step {
        // Empty lines before a request are ignored (RFC 9112 section 2.2).
        while self.scanned == 0 && matches!(input.first(), Some(b'\r' | b'\n')) {
            input.advance(1);
        }
        let end = self.head_end(&input[..input.len().min(HEAD_MAX)]);
        let Some(end) = end else {
            if input.len() < HEAD_MAX {
                return Step::More;
            }
            self.state = State::Done;
            return Step::Close(answer(431, "", "the head of the request is too long"));
        };
        let head = input.split_to(end);
        match self.request(&head) {
            Ok(Asked::Tunnel(target)) => {
                self.state = State::Tunnel;
                Step::Connect(target)
            }
            Ok(Asked::Resource(target, head)) => {
                self.state = State::Resource;
                let rest = input.split();
                input.extend_from_slice(&head);
                input.unsplit(rest);
                Step::Connect(target)
            }
            Err(answer) => {
                self.state = State::Done;
                Step::Close(answer)
            }
        }
    }

    fn request(&self, head: &[u8]) -> Result<Asked, Bytes> {
        let bad = |reason| answer(400, "", reason);
        let mut fields = [EMPTY_HEADER; FIELDS_MAX];
        let mut request = httparse::Request::new(&mut fields);
        match request.parse(head) {
            Ok(Status::Complete(_)) => {}
            Err(httparse::Error::TooManyHeaders) => {
                return Err(answer(431, "", "the request has too many fields"));
            }
            Ok(Status::Partial) | Err(_) => return Err(bad("this is no HTTP request")),
        }
        let (Some(method), Some(uri)) = (request.method, request.path) else {
            return Err(bad("this is no HTTP request"));
        };
        if !self.admits(request.headers) {
            let field = "Proxy-Authenticate: Basic realm=\"tabane\", charset=\"UTF-8\"\r\n";
            return Err(answer(407, field, "this proxy asks for a user and a password"));
        }
        if method == "CONNECT" {
            return Target::parse(uri).map(Asked::Tunnel).map_err(|error| bad_target(&error));
        }
        let Some(rest) = strip_scheme(uri) else {
            return Err(bad("a proxy takes CONNECT host:port, or http:// and a host"));
        };
        let at = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(at);
        let target = origin(authority).map_err(|error| bad_target(&error))?;
        Ok(Asked::Resource(target, rewritten(method, authority, path, request.headers)))
    }

    fn admits(&self, fields: &[Header<'_>]) -> bool {
        let Some(login) = &self.login else { return true };
        let fits = |field: &Header<'_>| {
            let credentials = field.value.split_first_chunk::<6>();
            credentials.is_some_and(|(scheme, encoded)| {
                let decoded = BASIC.decode(encoded.trim_ascii());
                scheme.eq_ignore_ascii_case(b"Basic ")
                    && decoded.is_ok_and(|text| login.fits_text(&text))
            })
        };
        let mut given = fields.iter().filter(|field| is(field, "Proxy-Authorization"));
        given.next().is_some_and(fits) && given.next().is_none()
    }
}

impl Front for HttpConnect {
    fn feed(&mut self, input: &mut BytesMut) -> Step {
        match self.state {
            State::Head => self.head(input),
            State::Tunnel | State::Resource | State::Done => Step::More,
        }
    }

    fn connected(&mut self, _bound: SocketAddr) -> Bytes {
        match self.state {
            State::Tunnel => Bytes::from_static(b"HTTP/1.1 200 Connection established\r\n\r\n"),
            State::Head | State::Resource | State::Done => Bytes::new(),
        }
    }

    fn failed(&mut self, why: Refusal) -> Bytes {
        let field = format!("Proxy-Status: tabane; error={}\r\n", why.proxy_status());
        answer(why.http(), &field, &why.to_string())
    }
}

enum Asked {
    Tunnel(Target),
    /// The target and the head that it gets.
    Resource(Target, Vec<u8>),
}

/// Padded or not: programs differ.
const BASIC: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Fields between two hops (RFC 9110 section 7.6.1), and those written anew.
const NOT_FORWARDED: [&str; 7] = [
    "Connection",
    "Host",
    "Keep-Alive",
    "Proxy-Authorization",
    "Proxy-Connection",
    "TE",
    "Upgrade",
];

/// The head as the origin gets it: its own form of the target, `Host` from the target, and the
/// connection ends after the response.
fn rewritten(method: &str, authority: &str, path: &str, fields: &[Header<'_>]) -> Vec<u8> {
    let slash = if path.starts_with('/') { "" } else { "/" };
    let start = format!("{method} {slash}{path} HTTP/1.1\r\nHost: {authority}\r\n");
    let mut head = start.into_bytes();
    let named = |name: &str| {
        let mut connection = fields.iter().filter(|field| is(field, "Connection"));
        connection.any(|field| {
            let mut names = field.value.split(|byte| *byte == b',');
            names.any(|token| token.trim_ascii().eq_ignore_ascii_case(name.as_bytes()))
        })
    };
    // What says how long the body is must stay, whatever the program says about it.
    let framing =
        |field: &Header<'_>| is(field, "Content-Length") || is(field, "Transfer-Encoding");
    for field in fields {
        let dropped = NOT_FORWARDED.iter().any(|name| is(field, name)) || named(field.name);
        if !dropped || framing(field) {
            head.extend_from_slice(field.name.as_bytes());
            head.extend_from_slice(b": ");
            head.extend_from_slice(field.value);
            head.extend_from_slice(b"\r\n");
        }
    }
    head.extend_from_slice(b"Connection: close\r\n\r\n");
    head
}

fn is(field: &Header<'_>, name: &str) -> bool {
    field.name.eq_ignore_ascii_case(name)
}

/// What follows `http://`, schemes being case-insensitive.
fn strip_scheme(uri: &str) -> Option<&str> {
    let (scheme, rest) = uri.split_once("://")?;
    scheme.eq_ignore_ascii_case("http").then_some(rest)
}

/// The authority of an `http://` URI: port 80 unless it says another; no user information.
fn origin(authority: &str) -> Result<Target, TargetError> {
    let host_ends_it = authority.ends_with(']') || !authority.contains(':');
    if host_ends_it {
        return Target::new(authority.as_bytes(), 80);
    }
    match authority.rsplit_once(':') {
        Some((host, "")) => Target::new(host.as_bytes(), 80),
        Some((_, port)) => parse_port(port).and_then(|_| Target::parse(authority)),
        None => Err(TargetError::Host),
    }
}

fn bad_target(error: &TargetError) -> Bytes {
    answer(400, "", &error.to_string())
}

/// A response of the proxy itself, for people and for programs; it ends the connection.
fn answer(status: u16, fields: &str, text: &str) -> Bytes {
    let reason = match status {
        400 => "Bad Request",
        403 => "Forbidden",
        407 => "Proxy Authentication Required",
        431 => "Request Header Fields Too Large",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        _ => "Error",
    };
    let length = text.len() + 1;
    format!(
        "HTTP/1.1 {status} {reason}\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\n\
         Connection: close\r\n{fields}\r\n{text}\n"
    )
    .into()
}
