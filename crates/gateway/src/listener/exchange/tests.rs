//! Requests and responses, whole and in pieces: what each side gets of the other.

use super::super::{HttpConnect, Negotiation, Step};
use super::*;
use proptest::prelude::*;

/// What came of an exchange.
#[derive(PartialEq, Debug)]
struct Outcome {
    /// The origin's.
    request: String,
    /// The program's.
    response: String,
    over: bool,
    failed: bool,
}

/// The program says `sent`, of which the first `early` bytes come before the connection stands,
/// in pieces of `part` bytes; then the origin `answered`, likewise, and ends if `ends`.
fn run(sent: &[u8], early: usize, answered: &[u8], part: usize, ends: bool) -> Outcome {
    let mut negotiation = HttpConnect::new(None);
    let (mut input, mut rest) = (BytesMut::new(), sent);
    loop {
        let (now, later) = rest.split_at(part.min(rest.len()));
        input.extend_from_slice(now);
        rest = later;
        match negotiation.feed(&mut input) {
            Step::More => assert!(!rest.is_empty(), "no request"),
            Step::Connect(_) => break,
            other => panic!("{other:?}"),
        }
    }
    let more = early.saturating_sub(sent.len() - rest.len()).min(rest.len());
    input.extend_from_slice(&rest[..more]);
    rest = &rest[more..];
    let mut exchange = negotiation.exchange().unwrap();
    assert!(negotiation.exchange().is_none(), "once");
    let mut down = VecDeque::new();
    let mut request = exchange.begin(input.freeze(), &mut down).to_vec();
    for part in rest.chunks(part) {
        if exchange.takes() {
            request.extend(exchange.request(Bytes::copy_from_slice(part), &mut down));
        }
    }
    for part in answered.chunks(part) {
        exchange.response(Bytes::copy_from_slice(part), &mut down);
    }
    if ends {
        exchange.end(&mut down);
    }
    assert!(down.iter().all(|part| !part.is_empty()));
    let response = down.into_iter().flatten().collect::<Vec<u8>>();
    Outcome {
        request: String::from_utf8(request).unwrap(),
        response: String::from_utf8(response).unwrap(),
        over: exchange.is_over(),
        failed: exchange.has_failed(),
    }
}

/// The same must come of it however it is cut.
#[track_caller]
fn any(sent: &str, answered: &str, ends: bool) -> Outcome {
    let whole = run(sent.as_bytes(), usize::MAX, answered.as_bytes(), usize::MAX, ends);
    for (early, part) in [(0, 1), (usize::MAX, 1), (60, 2), (70, 3), (0, 7), (0, 64)] {
        let cut = run(sent.as_bytes(), early, answered.as_bytes(), part, ends);
        assert_eq!(cut, whole, "in pieces of {part}, {early} early");
    }
    whole
}

const GET: &str = "GET http://a.example/ HTTP/1.1\r\n\r\n";
const SECOND: &str =
    "GET http://b.example/ HTTP/1.1\r\nProxy-Authorization: Basic eA==\r\nCookie: secret\r\n\r\n";

#[test]
fn an_origin_gets_one_request_and_nothing_after_it() {
    let head = |fields: &str| {
        format!("POST / HTTP/1.1\r\nHost: a.example\r\n{fields}Connection: close\r\n\r\n")
    };
    for (fields, body, framed) in [
        ("", "", ""),
        ("Content-Length: 0\r\n", "", "Content-Length: 0\r\n"),
        ("Content-Length: 5\r\n", "GET /", "Content-Length: 5\r\n"),
        ("content-length: 05, 05\r\n", "hello", "Content-Length: 5\r\n"),
        (
            "Transfer-Encoding: Chunked\r\n",
            "5;x=\"y\"\r\nhello\r\n0\r\nA: b\r\n\r\n",
            "Transfer-Encoding: chunked\r\n",
        ),
        ("Connection: Content-Length\r\nContent-Length: 2\r\n", "ab", "Content-Length: 2\r\n"),
    ] {
        let sent = format!("POST http://a.example/ HTTP/1.1\r\n{fields}\r\n{body}{SECOND}");
        let outcome = any(&sent, "", false);
        assert_eq!(outcome.request, head(framed) + body, "{fields}");
        assert!(!outcome.over && outcome.response.is_empty());
    }
}

#[test]
fn the_program_is_told_that_the_connection_ends_with_the_response() {
    let (a, b) = ("HTTP/1.1 200 OK\r\n", "Connection: close\r\n\r\n");
    let chunks = "3\r\nabc\r\n0\r\nX: y\r\n\r\n";
    let cases = [
        // What the origin says, and what the program gets; both kinds end by themselves.
        (format!("{a}Content-Length: 3\r\n\r\nabc"), format!("{a}Content-Length: 3\r\n{b}abc")),
        (
            format!(
                "{a}Connection: keep-alive, X-Hop\r\nKeep-Alive: timeout=5\r\nX-Hop: 1\r\n\
                     Upgrade: h2c\r\nContent-Length: 3\r\n\r\nabc"
            ),
            format!("{a}Content-Length: 3\r\n{b}abc"),
        ),
        (
            format!("{a}Transfer-Encoding: chunked\r\n\r\n{chunks}"),
            format!("{a}Transfer-Encoding: chunked\r\n{b}{chunks}"),
        ),
        (
            format!("{a}Transfer-Encoding: gzip, chunked\r\n\r\n{chunks}"),
            format!("{a}Transfer-Encoding: gzip, chunked\r\n{b}{chunks}"),
        ),
        ("HTTP/1.1 204 No Content\r\n\r\n".into(), format!("HTTP/1.1 204 No Content\r\n{b}")),
        (
            "HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n".into(),
            format!("HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n{b}"),
        ),
        (
            "HTTP/1.0 200\r\nContent-Length: 0\r\n\r\n".into(),
            format!("HTTP/1.1 200 \r\nContent-Length: 0\r\n{b}"),
        ),
        (
            format!(
                "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n{a}\
                     Content-Length: 0\r\n\r\n"
            ),
            format!(
                "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n{a}\
                     Content-Length: 0\r\n{b}"
            ),
        ),
    ];
    for (answered, expected) in cases {
        // Another response behind it is nobody's.
        let outcome = any(GET, &format!("{answered}HTTP/1.1 200 OK\r\n\r\nforged"), false);
        assert_eq!(outcome.response, expected);
        assert!(outcome.over && !outcome.failed, "{answered}");
    }
    let until_close = any(GET, &format!("{a}\r\nall of it"), true);
    assert_eq!(until_close.response, format!("{a}{b}all of it"));
    assert!(until_close.over && !until_close.failed);
    assert!(!any(GET, &format!("{a}\r\nall of it"), false).over);
    let short = any(GET, &format!("{a}Content-Length: 9\r\n\r\nshort"), true);
    assert_eq!(short.response, format!("{a}Content-Length: 9\r\n{b}short"));
    assert!(short.over);
}

#[test]
fn a_head_alone_has_no_body() {
    let outcome = any(
        "HEAD http://a.example/ HTTP/1.1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
        false,
    );
    let expected = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\nConnection: close\r\n\r\n";
    assert_eq!((outcome.response.as_str(), outcome.over), (expected, true));
}

#[test]
fn programs_of_http_1_0_get_neither_chunks_nor_interim_responses() {
    let answered = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\
                    Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";
    let sent = "GET http://a.example/ HTTP/1.0\r\nExpect: 100-continue\r\n\r\n";
    let outcome = any(sent, answered, false);
    assert_eq!(outcome.response, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nabcde");
    assert!(outcome.over && !outcome.failed && !outcome.request.contains("Expect"));
    let waits = any("GET http://a.example/ HTTP/1.1\r\nExpect: 100-continue\r\n\r\n", "", false);
    assert!(waits.request.contains("\r\nExpect: 100-continue\r\n"));
}

/// An origin decides what the proxy looks at.
#[test]
fn what_connection_names_is_not_forwarded_however_much_it_names() {
    let names = format!("Connection: {} a-name ,\r\n", ",".repeat(500)).repeat(100);
    let answered =
        format!("HTTP/1.1 200 OK\r\n{names}A-Name: x\r\nB: y\r\nContent-Length: 0\r\n\r\n");
    let outcome = any(GET, &answered, false);
    assert_eq!(
        outcome.response,
        "HTTP/1.1 200 OK\r\nB: y\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    );
}

#[test]
fn what_is_no_response_is_a_bad_gateway() {
    let interim = "HTTP/1.1 103 Early Hints\r\n\r\n".repeat(17);
    let outcome = any(GET, &interim, false);
    assert!(outcome.failed && outcome.response.contains("502 Bad Gateway"), "{outcome:?}");
    let long = format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "x".repeat(RESPONSE_HEAD_MAX));
    for answered in [
        "SSH-2.0-OpenSSH_9.6\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
        "",
        "HTTP/1.1 200 OK\r\nX: y\r\n",
        &long,
    ] {
        let outcome = any(GET, answered, true);
        let start = &outcome.response[..outcome.response.len().min(40)];
        assert!(start.starts_with("HTTP/1.1 502 Bad Gateway\r\n"), "{answered:.60}: {start}");
        assert!(outcome.over && outcome.failed);
    }
    let broken = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nno chunk\r\n";
    let outcome = any(GET, broken, false);
    assert!(outcome.failed && !outcome.response.contains("502"), "{outcome:?}");
}

#[test]
fn a_body_that_is_none_ends_the_exchange() {
    let post = "POST http://a.example/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
    for body in ["x\r\n", "3\r\nabcd\r\n", "3\nabc\r\n", "3\r\nabc\r\n0\r\nA: b\n\r\n"] {
        let outcome = run(format!("{post}{body}{SECOND}").as_bytes(), 0, b"", 1, false);
        assert!(outcome.failed && outcome.over && !outcome.request.contains("secret"), "{body:?}");
        let start = "HTTP/1.1 400 Bad Request\r\n";
        assert!(outcome.response.starts_with(start), "{}", outcome.response);
    }
}

/// A message with a body of `len` bytes, as long as it says or in chunks of `chunk` bytes.
fn framed(head: &str, len: usize, chunk: usize) -> String {
    let body: String = (0..len).map(|i| char::from(b'a' + (i % 26) as u8)).collect();
    if chunk == 0 {
        return format!("{head}Content-Length: {len}\r\n\r\n{body}");
    }
    let mut text = format!("{head}Transfer-Encoding: chunked\r\n\r\n");
    for part in body.as_bytes().chunks(chunk) {
        text += &format!("{:x}\r\n{}\r\n", part.len(), str::from_utf8(part).unwrap());
    }
    text + "0\r\n\r\n"
}

proptest! {
    /// Whatever follows a request, and however all is cut: the origin gets the request, the
    /// program the response, and neither what follows.
    #[test]
    fn nothing_follows_the_request_or_the_response(
        (len, chunk) in (0..300usize, 0..40usize), (back, back_chunk) in (0..300usize, 0..40usize),
        part in 1..80usize, early in 0..500usize,
        after in "[ -~\r\n]{0,80}", forged in "[ -~\r\n]{0,80}",
    ) {
        let sent = framed("PUT http://a.example/x HTTP/1.1\r\n", len, chunk);
        let answered = framed("HTTP/1.1 200 OK\r\nConnection: keep-alive\r\n", back, back_chunk);
        let exact = run(sent.as_bytes(), 0, answered.as_bytes(), usize::MAX, false);
        prop_assert!(exact.over && !exact.failed);
        let body = |text: &str| text.split_once("\r\n\r\n").map(|(_, body)| body.to_owned());
        prop_assert_eq!(body(&exact.request), body(&sent));
        prop_assert_eq!(body(&exact.response), body(&answered));
        let (sent, answered) = (sent + &after, answered + &forged);
        let more = run(sent.as_bytes(), early, answered.as_bytes(), part, false);
        prop_assert_eq!(exact, more);
    }

    /// An origin may say anything: the program is told `Connection: close` or an error of ours,
    /// and cutting it changes nothing.
    #[test]
    fn any_response_ends(start in 0..4usize, bytes: Vec<u8>, part in 1..40usize) {
        const STARTS: [&str; 4] = [
            "", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n",
        ];
        let answered = [STARTS[start].as_bytes(), &bytes].concat();
        let run = |part| {
            let request_head = RequestHead {
                framing: Framing::Length(0), asks_head: false, version_1_1: true,
            };
            let mut exchange = Exchange::new(b"head".to_vec(), request_head);
            let mut down = VecDeque::new();
            for part in answered.chunks(part) {
                exchange.response(Bytes::copy_from_slice(part), &mut down);
            }
            exchange.end(&mut down);
            assert!(exchange.is_over() && !exchange.takes());
            (down.into_iter().flatten().collect::<Vec<u8>>(), exchange.has_failed())
        };
        let (whole, failed) = run(usize::MAX);
        let closes = whole.windows(19).any(|text| text == b"Connection: close\r\n");
        prop_assert!(closes, "{}", String::from_utf8_lossy(&whole));
        let cut = run(part);
        prop_assert_eq!(cut.1, failed);
        // Of a body that turns out to be none, more or less may have been passed on already.
        prop_assert!(failed || cut.0 == whole);
    }
}
