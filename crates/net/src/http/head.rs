//! Heads of requests and responses (RFC 9112 sections 2 to 6): bytes to the few values that the
//! server and the client act on. Parsing is the crate `httparse`'s.

use super::body::Framing;
use super::{FIELDS_MAX, HEAD_MAX};
use bytes::{Buf, Bytes, BytesMut};
use std::time::SystemTime;
use thiserror::Error;

/// Collects a head until it is complete.
#[derive(Default, Debug)]
pub struct HeadReader {
    buffer: BytesMut,
}

/// The head of a request.
#[derive(Clone, PartialEq, Debug)]
pub struct Request {
    /// As sent: methods are case-sensitive.
    pub method: String,
    /// Path and query, without scheme and authority.
    pub target: String,
    /// Whether the connection goes on after the response.
    pub keep_alive: bool,
    /// How the body ends; `Length(0)` if there is none.
    pub framing: Framing,
    /// The client waits for a 100 before it sends the body.
    pub expect_continue: bool,
    /// `Range`, if it is in bytes and one range.
    pub range: Option<RangeSpec>,
    /// `If-Range`: the range is only wanted of this version.
    pub if_range: Option<String>,
    /// `If-Modified-Since`.
    pub if_modified_since: Option<SystemTime>,
}

/// The head of a response.
#[derive(Clone, PartialEq, Debug)]
pub struct Response {
    /// Status code.
    pub status: u16,
    /// What the server calls it.
    pub reason: String,
    /// How the body ends, were there one.
    pub framing: Framing,
    /// `Content-Range`: first byte and, if known, the length of the whole.
    pub content_range: Option<(u64, Option<u64>)>,
    /// `Location`.
    pub location: Option<String>,
}

/// A range asked for (RFC 9110 section 14.1.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RangeSpec {
    /// From, and up to and with.
    From(u64, Option<u64>),
    /// The last bytes.
    Last(u64),
}

/// What is wrong with a head.
#[derive(Error, Clone, PartialEq, Eq, Debug)]
pub enum HeadError {
    /// Not HTTP.
    #[error("not HTTP/1.x: {0}")]
    Syntax(String),
    /// More than [`HEAD_MAX`] bytes or [`FIELDS_MAX`] fields.
    #[error("the head is longer than {HEAD_MAX} bytes or has more than {FIELDS_MAX} fields")]
    TooLong,
    /// HTTP/1.1 wants one Host field (RFC 9112 section 3.2).
    #[error("there must be one Host field")]
    Host,
    /// Two ways to end the body, or one that makes no sense (RFC 9112 section 6.3).
    #[error("the length of the body is not clear: {0}")]
    Length(&'static str),
    /// A transfer coding other than `chunked`.
    #[error("transfer coding '{0}' is not supported")]
    Coding(String),
    /// An expectation other than `100-continue`.
    #[error("expectation '{0}' is not supported")]
    Expectation(String),
}

impl RangeSpec {
    /// First byte and length within a file of `size` bytes; `None` if there is nothing in it.
    #[must_use]
    pub fn within(self, size: u64) -> Option<(u64, u64)> {
        let (first, last) = match self {
            Self::From(first, last) => (first, last.unwrap_or(u64::MAX).min(size.checked_sub(1)?)),
            Self::Last(0) => return None,
            Self::Last(count) => (size.saturating_sub(count), size.checked_sub(1)?),
        };
        (first <= last).then(|| (first, last - first + 1))
    }

    /// `bytes=0-99`, `bytes=100-` or `bytes=-100`; `None` for anything else, which a server may
    /// ignore, several ranges too.
    fn parse(text: &str) -> Option<Self> {
        let (unit, range) = text.split_once('=')?;
        if !unit.trim().eq_ignore_ascii_case("bytes") {
            return None;
        }
        match range.trim().split_once('-')? {
            ("", count) => Some(Self::Last(number(count)?)),
            (first, "") => Some(Self::From(number(first)?, None)),
            (first, last) => {
                let (first, last) = (number(first)?, number(last)?);
                (first <= last).then_some(Self::From(first, Some(last)))
            }
        }
    }
}

impl HeadReader {
    /// Whether nothing of a head has come.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }

    /// Takes `input`; the head and what follows it once it is complete.
    ///
    /// # Errors
    /// [`HeadError`].
    pub fn request(&mut self, input: Bytes) -> Result<Option<(Request, Bytes)>, HeadError> {
        self.append(input);
        let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
        let mut parsed = httparse::Request::new(&mut fields);
        let length = match parsed.parse(&self.buffer) {
            Ok(httparse::Status::Complete(length)) if length <= HEAD_MAX => length,
            Ok(httparse::Status::Partial) if self.buffer.len() < HEAD_MAX => return Ok(None),
            Ok(_) | Err(httparse::Error::TooManyHeaders) => return Err(HeadError::TooLong),
            Err(error) => return Err(HeadError::Syntax(error.to_string())),
        };
        let request = Request::from_parsed(&parsed)?;
        Ok(Some((request, self.rest(length))))
    }

    /// As `request`, for a response.
    ///
    /// # Errors
    /// [`HeadError`].
    pub fn response(&mut self, input: Bytes) -> Result<Option<(Response, Bytes)>, HeadError> {
        self.append(input);
        let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
        let mut parsed = httparse::Response::new(&mut fields);
        let length = match parsed.parse(&self.buffer) {
            Ok(httparse::Status::Complete(length)) if length <= HEAD_MAX => length,
            Ok(httparse::Status::Partial) if self.buffer.len() < HEAD_MAX => return Ok(None),
            Ok(_) | Err(httparse::Error::TooManyHeaders) => return Err(HeadError::TooLong),
            Err(error) => return Err(HeadError::Syntax(error.to_string())),
        };
        let response = Response::from_parsed(&parsed)?;
        Ok(Some((response, self.rest(length))))
    }

    fn append(&mut self, input: Bytes) {
        if self.buffer.is_empty() {
            // Empty lines before a request are skipped (RFC 9112 section 2.2).
            let blank = input.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
            self.buffer.extend_from_slice(&input[blank..]);
        } else {
            self.buffer.extend_from_slice(&input);
        }
    }

    fn rest(&mut self, length: usize) -> Bytes {
        let mut all = std::mem::take(&mut self.buffer).freeze();
        all.advance(length);
        all
    }
}

impl Request {
    fn from_parsed(parsed: &httparse::Request<'_, '_>) -> Result<Self, HeadError> {
        let fields = Fields(parsed.headers);
        let version_1_1 = parsed.version == Some(1);
        let hosts = fields.all("host").count();
        if hosts > 1 || (version_1_1 && hosts == 0) {
            return Err(HeadError::Host);
        }
        let expect_continue = match fields.one("expect") {
            None => false,
            Some(text) if text.eq_ignore_ascii_case("100-continue") => version_1_1,
            Some(text) => return Err(HeadError::Expectation(text)),
        };
        let keep_alive = if version_1_1 {
            !fields.has_token("connection", "close")
        } else {
            fields.has_token("connection", "keep-alive")
        };
        Ok(Self {
            method: parsed.method.unwrap_or_default().to_owned(),
            target: origin_form(parsed.path.unwrap_or_default()).to_owned(),
            keep_alive,
            framing: framing(fields.0)?.unwrap_or(Framing::Length(0)),
            expect_continue,
            range: fields.one("range").and_then(|text| RangeSpec::parse(&text)),
            if_range: fields.one("if-range"),
            if_modified_since: fields
                .one("if-modified-since")
                .and_then(|text| httpdate::parse_http_date(&text).ok()),
        })
    }
}

impl Response {
    fn from_parsed(parsed: &httparse::Response<'_, '_>) -> Result<Self, HeadError> {
        let fields = Fields(parsed.headers);
        Ok(Self {
            status: parsed.code.unwrap_or_default(),
            reason: parsed.reason.unwrap_or_default().to_owned(),
            framing: framing(fields.0)?.unwrap_or(Framing::UntilClose),
            content_range: fields.one("content-range").and_then(|text| content_range(&text)),
            location: fields.one("location"),
        })
    }
}

/// Header fields of a head.
struct Fields<'h>(&'h [httparse::Header<'h>]);

impl Fields<'_> {
    /// Values of every field of that name; what is not UTF-8 is left out.
    fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0
            .iter()
            .filter(move |field| field.name.eq_ignore_ascii_case(name))
            .filter_map(|field| std::str::from_utf8(field.value).ok())
            .map(str::trim)
    }

    fn one(&self, name: &str) -> Option<String> {
        self.all(name).next().map(str::to_owned)
    }

    fn has_token(&self, name: &str, token: &str) -> bool {
        self.all(name).flat_map(|v| v.split(',')).any(|v| v.trim().eq_ignore_ascii_case(token))
    }
}

/// How the body ends that comes after a head with these fields (RFC 9112 section 6.3); `None` if
/// they do not say. Both ways at once, and lengths that differ, are refused: that is how requests
/// are smuggled.
///
/// # Errors
/// [`HeadError::Length`] and [`HeadError::Coding`].
pub fn framing(fields: &[httparse::Header<'_>]) -> Result<Option<Framing>, HeadError> {
    let of = |name: &'static str| {
        let named = fields.iter().filter(move |field| field.name.eq_ignore_ascii_case(name));
        let values = named.map(|field| str::from_utf8(field.value.trim_ascii()));
        values.collect::<Result<Vec<&str>, _>>()
    };
    let (Ok(codings), Ok(lengths)) = (of("transfer-encoding"), of("content-length")) else {
        return Err(HeadError::Length("the field that says it is no text"));
    };
    // Nothing but the blanks of RFC 9110 section 5.6.3 may stand beside a number.
    let blank = |c| matches!(c, ' ' | '\t');
    let values = lengths.into_iter().flat_map(|value| value.split(','));
    let mut lengths = values.map(|value| value.trim_matches(blank));
    let first = lengths.next();
    if lengths.any(|length| Some(length) != first) {
        return Err(HeadError::Length("several Content-Length"));
    }
    match (codings.as_slice(), first) {
        ([], None) => Ok(None),
        ([], Some(length)) => match number(length) {
            Some(length) => Ok(Some(Framing::Length(length))),
            None => Err(HeadError::Length("Content-Length is no number")),
        },
        ([coding], None) if coding.eq_ignore_ascii_case("chunked") => Ok(Some(Framing::Chunked)),
        (_, Some(_)) => Err(HeadError::Length("Content-Length and Transfer-Encoding")),
        (codings, None) => Err(HeadError::Coding(codings.join(", "))),
    }
}

/// Digits only: Rust's own parser takes a sign.
fn number(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

/// Path and query of a target in origin or absolute form (RFC 9112 section 3.2).
fn origin_form(target: &str) -> &str {
    let Some((_, rest)) = target.split_once("://").filter(|_| !target.starts_with('/')) else {
        return target;
    };
    rest.find('/').map_or("/", |slash| &rest[slash..])
}

/// `bytes 0-99/1000` or `bytes 0-99/*`.
fn content_range(text: &str) -> Option<(u64, Option<u64>)> {
    let (range, size) = text.strip_prefix("bytes ")?.split_once('/')?;
    let first = number(range.split_once('-')?.0)?;
    Some((first, number(size)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(text: &str) -> Result<Request, HeadError> {
        let whole = HeadReader::default().request(Bytes::copy_from_slice(text.as_bytes()));
        // Cut into single bytes, the answer is the same.
        let mut reader = HeadReader::default();
        let mut cut = Ok(None);
        for byte in text.as_bytes() {
            cut = reader.request(Bytes::copy_from_slice(&[*byte]));
            if !matches!(cut, Ok(None)) {
                break;
            }
        }
        let whole = whole.map(|head| head.expect("complete").0);
        assert_eq!(whole, cut.map(|head| head.expect("complete").0));
        whole
    }

    #[test]
    fn requests_say_what_is_wanted() {
        let get = request("\r\nGET /a?b HTTP/1.1\r\nHost: x\r\nRange: bytes=5-9\r\n\r\n").unwrap();
        assert_eq!((get.method.as_str(), get.target.as_str()), ("GET", "/a?b"));
        assert!(get.keep_alive && !get.expect_continue);
        assert_eq!(
            (get.framing, get.range),
            (Framing::Length(0), Some(RangeSpec::From(5, Some(9))))
        );
        let put = request(
            "PUT http://h/x HTTP/1.1\r\nHost: h\r\nConnection: foo, Close\r\n\
             Transfer-Encoding: Chunked\r\nExpect: 100-continue\r\n\r\n",
        )
        .unwrap();
        assert_eq!((put.target.as_str(), put.framing), ("/x", Framing::Chunked));
        assert!(!put.keep_alive && put.expect_continue);
        assert!(!request("GET / HTTP/1.0\r\n\r\n").unwrap().keep_alive);
        assert!(request("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").unwrap().keep_alive);
    }

    #[test]
    fn what_follows_the_head_is_kept() {
        let two = "GET /1 HTTP/1.1\r\nHost: x\r\n\r\nGET /2 HTTP/1.1\r\nHost: x\r\n\r\n";
        let mut reader = HeadReader::default();
        let (first, rest) = reader.request(Bytes::from(two)).unwrap().unwrap();
        assert_eq!(first.target, "/1");
        let (second, rest) = reader.request(rest).unwrap().unwrap();
        assert_eq!((second.target.as_str(), rest.len()), ("/2", 0));
    }

    #[test]
    fn bad_requests_are_refused() {
        let refused =
            |fields: &str| request(&format!("POST / HTTP/1.1\r\n{fields}\r\n")).unwrap_err();
        assert_eq!(refused(""), HeadError::Host);
        assert_eq!(refused("Host: a\r\nHost: b\r\n"), HeadError::Host);
        let smuggled = "Host: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n";
        assert!(matches!(refused(smuggled), HeadError::Length(_)));
        let unclear = "Host: a\r\nContent-Length: 3\r\nContent-Length: 4\r\n";
        assert!(matches!(refused(unclear), HeadError::Length(_)));
        for length in ["+3", "3\u{a0}", "3 3", "", "3,", "0x3", "99999999999999999999"] {
            let refused = refused(&format!("Host: a\r\nContent-Length: {length}\r\n"));
            assert!(matches!(refused, HeadError::Length(_)), "{length:?}");
        }
        assert!(matches!(refused("Host: a\r\nTransfer-Encoding: gzip\r\n"), HeadError::Coding(_)));
        assert!(matches!(refused("Host: a\r\nExpect: cake\r\n"), HeadError::Expectation(_)));
        assert!(matches!(refused("no field\r\n"), HeadError::Syntax(_)));
        let huge = format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(HEAD_MAX));
        assert_eq!(request(&huge).unwrap_err(), HeadError::TooLong);
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "X: y\r\n".repeat(FIELDS_MAX + 1));
        assert_eq!(request(&many).unwrap_err(), HeadError::TooLong);
    }

    #[test]
    fn ranges_are_cut_to_the_file() {
        use RangeSpec::{From, Last};
        assert_eq!(From(5, Some(9)).within(100), Some((5, 5)));
        assert_eq!(From(5, Some(900)).within(100), Some((5, 95)));
        assert_eq!(From(99, None).within(100), Some((99, 1)));
        assert_eq!(From(100, None).within(100), None);
        assert_eq!(Last(10).within(100), Some((90, 10)));
        assert_eq!(Last(1000).within(100), Some((0, 100)));
        assert_eq!(
            (Last(0).within(100), Last(5).within(0), From(0, None).within(0)),
            (None, None, None)
        );
        for (text, range) in [
            ("bytes=0-99", Some(From(0, Some(99)))),
            ("bytes=7-", Some(From(7, None))),
            ("bytes=-7", Some(Last(7))),
            ("bytes=9-1", None),
            ("bytes=0-1,5-6", None),
            ("lines=0-1", None),
        ] {
            assert_eq!(RangeSpec::parse(text), range, "{text}");
        }
    }

    #[test]
    fn responses_are_understood() {
        let text = "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 10-19/20\r\n\
                    Content-Length: 10\r\n\r\nrest";
        let (head, rest) = HeadReader::default().response(Bytes::from(text)).unwrap().unwrap();
        assert_eq!((head.status, head.framing), (206, Framing::Length(10)));
        assert_eq!((head.content_range, &rest[..]), (Some((10, Some(20))), &b"rest"[..]));
        let (head, _) = HeadReader::default()
            .response(Bytes::from("HTTP/1.0 200 OK\r\n\r\n"))
            .unwrap()
            .unwrap();
        assert_eq!(head.framing, Framing::UntilClose);
    }
}
