//! One `http://` request through the proxy and its response (RFC 9112 sections 6 and 9): where each
//! of them ends, so that the origin gets this request and nothing that the program says after it,
//! and so that the program's connection ends with the response, whatever the origin does with its
//! own.
//!
//! Bytes in, bytes out: no sockets. Bodies are passed on as they are. No caching, no upgrade, and
//! no second request on a connection: programs are told so by `Connection: close`.

use bytes::{Bytes, BytesMut};
use httparse::{EMPTY_HEADER, Header, ParserConfig};
use std::collections::{BTreeSet, VecDeque};
use tabane_net::http::body::{BodyError, BodyReader, Framing};
use tabane_net::http::head::{HeadError, framing};

/// A request whose head has been read, and the response to it.
#[derive(Debug)]
pub(crate) struct Exchange {
    /// What the origin gets first.
    head: Bytes,
    request: BodyReader,
    /// The response has no body (RFC 9110 section 9.3.2).
    asks_head: bool,
    /// The program understands chunks and interim responses.
    version_1_1: bool,
    response: Response,
    /// Responses so far that are not the last.
    interim: u32,
    /// Either side has sent what is no HTTP.
    failed: bool,
}

/// Responses before the last one; more are nobody's wish.
const INTERIM_MAX: u32 = 16;

/// How far the response is.
#[derive(Debug)]
enum Response {
    Head {
        buffer: BytesMut,
        end: HeadEnd,
    },
    Body {
        reader: BodyReader,
        /// Chunks are taken apart for a program of HTTP/1.0.
        unpack: bool,
    },
    Over,
}

/// Looks for the end of a head in what has come so far, each byte once.
#[derive(Default, Debug)]
pub(super) struct HeadEnd {
    scanned: usize,
}

/// A request as its head says it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestHead {
    pub(super) framing: Framing,
    pub(super) asks_head: bool,
    pub(super) version_1_1: bool,
}

/// Longest head of a response, bytes: origins set more cookies than programs send.
const RESPONSE_HEAD_MAX: usize = 64 << 10;
/// Most fields of a response's head.
const FIELDS_MAX: usize = 256;
/// Fields between two hops (RFC 9110 sections 7.6.1 and 11.7), which end here.
const NOT_FORWARDED: [&str; 6] = [
    "Connection",
    "Keep-Alive",
    "Proxy-Authenticate",
    "Proxy-Authentication-Info",
    "Proxy-Connection",
    "Upgrade",
];

impl HeadEnd {
    /// Whether nothing has been looked at.
    pub(super) fn is_new(&self) -> bool {
        self.scanned == 0
    }

    /// Where the head ends, once it does.
    pub(super) fn find(&mut self, input: &[u8]) -> Option<usize> {
        let from = self.scanned.saturating_sub(2);
        self.scanned = input.len();
        let ends = |at: &usize| input[*at..].starts_with(b"\n\r\n");
        let at = (from..input.len()).find(|at| ends(at) || input[*at..].starts_with(b"\n\n"))?;
        Some(at + if ends(&at) { 3 } else { 2 })
    }
}

impl Exchange {
    pub(super) fn new(head: Vec<u8>, request_head: RequestHead) -> Self {
        Self {
            head: head.into(),
            request: BodyReader::new(request_head.framing),
            asks_head: request_head.asks_head,
            version_1_1: request_head.version_1_1,
            response: Response::new(),
            interim: 0,
            failed: false,
        }
    }

    /// What the origin gets first: the head, and what is of the body in `early`, which came with
    /// it. `answer` gets what the program is told if that is no body.
    pub(crate) fn begin(&mut self, early: Bytes, answer: &mut VecDeque<Bytes>) -> Bytes {
        let head = std::mem::take(&mut self.head);
        let body = self.request(early, answer);
        if body.is_empty() { head } else { [head, body].concat().into() }
    }

    /// Whether more of the program's bytes belong to the request: others are not to be read.
    #[must_use]
    pub(crate) fn takes(&self) -> bool {
        !self.request.is_done() && !self.is_over()
    }

    /// Whether the program has all of the response, or will get no more of it.
    #[must_use]
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.response, Response::Over)
    }

    /// Whether it is over because one of the two did not speak HTTP: the origin's connection is
    /// then of no more use.
    #[must_use]
    pub(crate) fn has_failed(&self) -> bool {
        self.failed
    }

    /// What the origin gets of what the program sent. `answer` gets what the program is told if
    /// that is no body: it is over then.
    pub(crate) fn request(&mut self, mut data: Bytes, answer: &mut VecDeque<Bytes>) -> Bytes {
        if self.is_over() {
            return Bytes::new();
        }
        self.request.pass(&mut data).unwrap_or_else(|error| {
            self.fail(400, &format!("the request: {error}"), answer);
            Bytes::new()
        })
    }

    /// What the program gets of what the origin sent; added to `out`.
    pub(crate) fn response(&mut self, mut data: Bytes, out: &mut VecDeque<Bytes>) {
        loop {
            match &mut self.response {
                Response::Over => return,
                Response::Head { buffer, end } => {
                    buffer.extend_from_slice(&data);
                    let seen = buffer.len().min(RESPONSE_HEAD_MAX);
                    match end.find(&buffer[..seen]) {
                        Some(end) => {
                            let mut head = std::mem::take(buffer);
                            data = head.split_off(end).freeze();
                            self.head(&head, out);
                        }
                        None if seen < RESPONSE_HEAD_MAX => return,
                        None => return self.fail(502, "the origin's response has no end", out),
                    }
                }
                Response::Body { reader, unpack } => {
                    if let Err(error) = pass(reader, *unpack, data, out) {
                        return self.fail(502, &format!("the origin's response: {error}"), out);
                    }
                    if reader.is_done() {
                        self.response = Response::Over;
                    }
                    return;
                }
            }
        }
    }

    /// The origin sends no more: it is over. What the program is told if that is too early; of a
    /// response that has begun it sees that it is cut short.
    pub(crate) fn end(&mut self, out: &mut VecDeque<Bytes>) {
        match &self.response {
            Response::Over => {}
            Response::Head { .. } => self.fail(502, "the origin ended without a response", out),
            Response::Body { .. } => self.response = Response::Over,
        }
    }

    fn fail(&mut self, status: u16, text: &str, out: &mut VecDeque<Bytes>) {
        if let Response::Head { .. } = self.response {
            out.push_back(super::http::answer(status, "", text));
        }
        self.response = Response::Over;
        self.failed = true;
    }

    /// The head of a response, whole.
    fn head(&mut self, head: &[u8], out: &mut VecDeque<Bytes>) {
        let mut fields = [EMPTY_HEADER; FIELDS_MAX];
        let mut parsed = httparse::Response::new(&mut fields);
        let mut lenient = ParserConfig::default();
        // A proxy takes the blank away (RFC 9112 section 5.1).
        lenient.allow_spaces_after_header_name_in_responses(true);
        let complete = lenient.parse_response(&mut parsed, head).is_ok_and(|s| s.is_complete());
        let (true, Some(status)) = (complete, parsed.code) else {
            return self.fail(502, "the origin's response is no HTTP", out);
        };
        let body = match body_of(status, self.asks_head, parsed.headers) {
            Ok(body) => body,
            Err(why) => return self.fail(502, &format!("the origin's response: {why}"), out),
        };
        let unpack = body == Some(Framing::Chunked) && !self.version_1_1;
        if body.is_none() {
            self.interim += 1;
            if self.interim > INTERIM_MAX {
                return self.fail(502, "the origin sends interim responses without end", out);
            }
        }
        // Interim responses are unknown to HTTP/1.0 (RFC 9110 section 15.2).
        if body.is_some() || self.version_1_1 {
            out.push_back(rewritten(&parsed, status, (body.is_some(), unpack)));
        }
        self.response = match body.map(BodyReader::new) {
            None => Response::new(),
            Some(reader) if reader.is_done() => Response::Over,
            Some(reader) => Response::Body { reader, unpack },
        };
    }
}

impl Response {
    fn new() -> Self {
        Self::Head { buffer: BytesMut::new(), end: HeadEnd::default() }
    }
}

/// How the body of a response ends (RFC 9112 section 6.3); `None` of an interim response.
fn body_of(status: u16, asks_head: bool, fields: &[Header<'_>]) -> Result<Option<Framing>, String> {
    // No program was offered another protocol: `Upgrade` is not forwarded.
    if status == 101 {
        return Err("it changes to another protocol, which nobody asked for".into());
    }
    let said = match framing(fields) {
        Ok(said) => said.unwrap_or(Framing::UntilClose),
        // A coding is the program's matter; whether it is within chunks is ours.
        Err(HeadError::Coding(codings)) => match codings.rsplit(',').next().map(str::trim) {
            Some(last) if last.eq_ignore_ascii_case("chunked") => Framing::Chunked,
            _ => Framing::UntilClose,
        },
        Err(error) => return Err(error.to_string()),
    };
    Ok(match status {
        100..=199 => None,
        204 | 304 => Some(Framing::Length(0)),
        _ if asks_head => Some(Framing::Length(0)),
        _ => Some(said),
    })
}

/// The head as the program gets it: without what is between the origin and the proxy. A `last`
/// one says that the connection ends with it.
fn rewritten(
    parsed: &httparse::Response<'_, '_>,
    status: u16,
    (last, unpack): (bool, bool),
) -> Bytes {
    let reason = parsed.reason.unwrap_or_default();
    let mut head = format!("HTTP/1.1 {status} {reason}\r\n").into_bytes();
    let dropped = |field: &Header<'_>| {
        let named = NOT_FORWARDED.iter().any(|name| field.name.eq_ignore_ascii_case(name));
        named || (unpack && field.name.eq_ignore_ascii_case("Transfer-Encoding"))
    };
    forward(&mut head, parsed.headers, dropped);
    head.extend_from_slice(if last { b"Connection: close\r\n\r\n" } else { b"\r\n" });
    head.into()
}

/// Writes the fields that are not dropped, nor named by `Connection` as between two hops.
pub(super) fn forward(
    head: &mut Vec<u8>,
    fields: &[Header<'_>],
    dropped: impl Fn(&Header<'_>) -> bool,
) {
    // Once: as many fields as there may be, each against as many names as a head has space for,
    // would take its time.
    let connection = fields.iter().filter(|field| field.name.eq_ignore_ascii_case("Connection"));
    let names = connection.flat_map(|field| field.value.split(|byte| *byte == b','));
    let names: BTreeSet<Vec<u8>> =
        names.map(|name| name.trim_ascii().to_ascii_lowercase()).collect();
    let named = |name: &str| names.contains(&name.as_bytes().to_ascii_lowercase());
    // What says how long the body is must stay, whatever `Connection` says about it.
    let framing = ["Content-Length", "Transfer-Encoding"];
    let framing = |name: &str| framing.iter().any(|one| one.eq_ignore_ascii_case(name));
    for field in fields {
        if !dropped(field) && (framing(field.name) || !named(field.name)) {
            head.extend_from_slice(field.name.as_bytes());
            head.extend_from_slice(b": ");
            head.extend_from_slice(field.value);
            head.extend_from_slice(b"\r\n");
        }
    }
}

/// Passes on what is of the body.
fn pass(
    reader: &mut BodyReader,
    unpack: bool,
    mut data: Bytes,
    out: &mut VecDeque<Bytes>,
) -> Result<(), BodyError> {
    if !unpack {
        let part = reader.pass(&mut data)?;
        out.extend((!part.is_empty()).then_some(part));
        return Ok(());
    }
    while let Some(part) = reader.next(&mut data)? {
        out.push_back(part);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
