//! HTTP proxy: CONNECT (RFC 9110 section 9.3.6), and plain `http://` requests (RFC 9112 section
//! 3.2.2), each of which becomes a connection of its own that ends with the response. Heads of
//! requests only: what follows is [`Exchange`]'s. `Proxy-Authorization: Basic` (RFC 7617) where a
//! login is asked for. No caching, no `Via`, no second request on a connection.

use super::exchange::{HeadEnd, RequestHead, forward};
use super::target::{TargetError, parse_port};
use super::{ConnectError, Exchange, HEAD_MAX, Login, Negotiation, Step, Target};
use base64::Engine;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use bytes::{Buf, Bytes, BytesMut};
use httparse::{EMPTY_HEADER, Header, Status};
use std::net::SocketAddr;
use tabane_net::http::body::Framing;
use tabane_net::http::head::{HeadError, framing};

/// The proxy's side of one request.
#[derive(Debug)]
pub(crate) struct HttpConnect {
    login: Option<Login>,
    end: HeadEnd,
    /// The request, if it is for a resource.
    exchange: Option<Exchange>,
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
    pub(crate) fn new(login: Option<Login>) -> Self {
        Self { login, end: HeadEnd::default(), exchange: None, state: State::Head }
    }

    fn head(&mut self, input: &mut BytesMut) -> Step {
        // Empty lines before a request are ignored (RFC 9112 section 2.2).
        while self.end.is_new() && matches!(input.first(), Some(b'\r' | b'\n')) {
            input.advance(1);
        }
        let end = self.end.find(&input[..input.len().min(HEAD_MAX)]);
        let Some(end) = end else {
            if input.len() < HEAD_MAX {
                return Step::More;
            }
            self.state = State::Done;
            return Step::Close(answer(431, "", "the head of the request is too long"));
        };
        let head = input.split_to(end);
        match self.request(&head) {
            Ok(Wanted::Tunnel(target)) => {
                self.state = State::Tunnel;
                Step::Connect(target)
            }
            Ok(Wanted::Resource(target, exchange)) => {
                self.state = State::Resource;
                self.exchange = Some(exchange);
                Step::Connect(target)
            }
            Err(answer) => {
                self.state = State::Done;
                Step::Close(answer)
            }
        }
    }

    fn request(&self, head: &[u8]) -> Result<Wanted, Bytes> {
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
            return Target::parse(uri).map(Wanted::Tunnel).map_err(|error| bad_target(&error));
        }
        let Some(rest) = strip_scheme(uri) else {
            return Err(bad("a proxy takes CONNECT host:port, or http:// and a host"));
        };
        let at = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(at);
        let target = origin(authority).map_err(|error| bad_target(&error))?;
        let version_1_1 = request.version != Some(0);
        let framing = body(version_1_1, request.headers)?;
        let head = rewritten((method, authority, path), &request, framing);
        let request_head = RequestHead {
            framing: framing.unwrap_or(Framing::Length(0)),
            asks_head: method == "HEAD",
            version_1_1,
        };
        Ok(Wanted::Resource(target, Exchange::new(head, request_head)))
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

impl Negotiation for HttpConnect {
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

    fn exchange(&mut self) -> Option<Exchange> {
        self.exchange.take()
    }

    fn failed(&mut self, why: ConnectError) -> Bytes {
        let field = format!("Proxy-Status: tabane; error={}\r\n", why.proxy_status());
        answer(why.http(), &field, &why.to_string())
    }
}

enum Wanted {
    Tunnel(Target),
    Resource(Target, Exchange),
}

/// Padded or not: programs differ.
const BASIC: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Fields between two hops (RFC 9110 section 7.6.1), and those written anew.
const NOT_FORWARDED: [&str; 9] = [
    "Connection",
    "Content-Length",
    "Host",
    "Keep-Alive",
    "Proxy-Authorization",
    "Proxy-Connection",
    "TE",
    "Transfer-Encoding",
    "Upgrade",
];

/// How the body of a request ends, if it has one (RFC 9112 section 6.3). What one reader takes for
/// the end and another does not is refused.
fn body(version_1_1: bool, fields: &[Header<'_>]) -> Result<Option<Framing>, Bytes> {
    match framing(fields) {
        // HTTP/1.0 has no chunks (RFC 9112 section 6.1).
        Ok(Some(Framing::Chunked)) if !version_1_1 => {
            Err(answer(400, "", "a request of HTTP/1.0 cannot be chunked"))
        }
        Ok(framing) => Ok(framing),
        Err(error @ HeadError::Coding(_)) => Err(answer(501, "", &error.to_string())),
        Err(error) => Err(answer(400, "", &error.to_string())),
    }
}

/// The head as the origin gets it: its own form of the target, `Host` from the target, one field
/// that says how long the body is, and the connection ends after the response.
fn rewritten(
    (method, authority, path): (&str, &str, &str),
    request: &httparse::Request<'_, '_>,
    framing: Option<Framing>,
) -> Vec<u8> {
    let path = match path {
        // RFC 9112 section 3.2.4: of the origin itself.
        "" if method == "OPTIONS" => "*".into(),
        _ if path.starts_with('/') => path.to_owned(),
        _ => format!("/{path}"),
    };
    let mut head = format!("{method} {path} HTTP/1.1\r\nHost: {authority}\r\n").into_bytes();
    // HTTP/1.0 waits for nobody (RFC 9110 section 10.1.1).
    let waits = request.version != Some(0);
    forward(&mut head, request.headers, |field| {
        NOT_FORWARDED.iter().any(|name| is(field, name)) || (is(field, "Expect") && !waits)
    });
    match framing {
        Some(Framing::Length(length)) => {
            head.extend_from_slice(format!("Content-Length: {length}\r\n").as_bytes());
        }
        Some(Framing::Chunked) => head.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
        Some(Framing::UntilClose) | None => {}
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
pub(super) fn answer(status: u16, fields: &str, text: &str) -> Bytes {
    let reason = match status {
        400 => "Bad Request",
        403 => "Forbidden",
        407 => "Proxy Authentication Required",
        431 => "Request Header Fields Too Large",
        501 => "Not Implemented",
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
