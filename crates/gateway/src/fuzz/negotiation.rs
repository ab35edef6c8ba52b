//! What programs say to the client: SOCKS5 and HTTP, the header of SOCKS5's datagrams, commands;
//! what origins answer to the latter; and names: queries of clients, answers of name servers.

use super::somewhere;
use crate::address::ClientNumber;
use crate::dns::{self, Asker, LookupFn};
use crate::listener::{Auto, ConnectError, HEAD_MAX, Login, Negotiation, Step, Target, udp_header};
use bytes::{Bytes, BytesMut};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, OnceLock};
use tabane_engine::{Duration, Instant};
use tabane_net::http::head::HeadReader;

/// A program's bytes: whole and in pieces the same comes of them.
pub(crate) fn negotiation(data: &[u8]) {
    let [how, data @ ..] = data else { return };
    let negotiation = || match how & 1 {
        0 => Auto::new(None),
        _ => Auto::new(Some(Login::new("ann:s3cret"))),
    };
    let whole = talk(negotiation(), data, data.len());
    let cut = talk(negotiation(), data, 1 + usize::from(how >> 1));
    assert_eq!(whole, cut, "in pieces, something else was understood");
    if let Step::Connect(target) = &whole.end {
        let text = target.to_string();
        assert_eq!(Target::parse(&text).as_ref(), Ok(target), "{text}");
    }
    let _ = udp_header::parse(data);
    if let Ok(text) = std::str::from_utf8(data) {
        let _ = Target::parse(text);
    }
    heads(data, usize::from(how >> 1));
    response(data, usize::from(how >> 1));
}

/// An origin's bytes, as the program gets them: it ends, and says so or that it is broken.
fn response(data: &[u8], piece: usize) {
    let run = |piece: usize| {
        let mut negotiation = Auto::new(None);
        let mut request = BytesMut::from("GET http://a/ HTTP/1.1\r\n\r\n");
        let Step::Connect(_) = negotiation.feed(&mut request) else { panic!("a request") };
        let Some(mut exchange) = negotiation.exchange() else { panic!("of a resource") };
        let mut down = VecDeque::new();
        assert!(!exchange.begin(request.freeze(), &mut down).is_empty() && !exchange.takes());
        for piece in data.chunks(piece.max(1)) {
            exchange.response(Bytes::copy_from_slice(piece), &mut down);
        }
        exchange.end(&mut down);
        assert!(exchange.is_over());
        (down.into_iter().flatten().collect::<Vec<u8>>(), exchange.has_failed())
    };
    let (whole, failed) = run(data.len());
    let closes = b"Connection: close\r\n";
    assert!(whole.windows(closes.len()).any(|text| text == closes), "it does not say that it ends");
    let (cut, failed_too) = run(piece);
    assert!(failed == failed_too && (failed || whole == cut), "in pieces, something else");
}

/// Everything that a negotiation said and did, and what is left for the tunnel.
#[derive(PartialEq, Debug)]
struct Talk {
    said: Vec<u8>,
    end: Step,
    left: Vec<u8>,
}

fn talk(mut negotiation: impl Negotiation, input: &[u8], piece: usize) -> Talk {
    let (mut said, mut buffer, mut end) = (Vec::new(), BytesMut::new(), Step::More);
    for piece in input.chunks(piece.max(1)) {
        buffer.extend_from_slice(piece);
        while end == Step::More {
            match negotiation.feed(&mut buffer) {
                Step::More => break,
                Step::Send(bytes) => said.extend_from_slice(&bytes),
                step => end = step,
            }
        }
        let waiting = end == Step::More && buffer.len() > HEAD_MAX;
        assert!(!waiting, "it waits for more than it takes");
    }
    match &end {
        Step::Connect(_) | Step::Associate(_) if input.len().is_multiple_of(2) => {
            said.extend(negotiation.connected(somewhere(1, 1)));
        }
        Step::Connect(_) | Step::Associate(_) => {
            said.extend(negotiation.failed(ConnectError::ALL[0]))
        }
        _ => {}
    }
    let mut left = buffer.to_vec();
    if let (Step::Connect(_), Some(mut exchange)) = (&end, negotiation.exchange()) {
        // What the origin gets of what the program has said so far.
        let mut answer = VecDeque::new();
        left = exchange.begin(buffer.freeze(), &mut answer).to_vec();
        said.extend(answer.into_iter().flatten());
        assert!(!exchange.has_failed() || exchange.is_over());
    }
    Talk { said, end, left }
}

/// Heads of HTTP requests and responses.
fn heads(data: &[u8], piece: usize) {
    let (mut request, mut response) = (HeadReader::default(), HeadReader::default());
    for piece in data.chunks(piece.max(1)) {
        let piece = Bytes::copy_from_slice(piece);
        let _ = response.response(piece.clone());
        if !matches!(request.request(piece), Ok(None)) {
            break;
        }
    }
}

/// What programs say.
pub(crate) fn talks() -> Vec<Vec<u8>> {
    let socks = |bytes: &[u8]| [&[0], bytes].concat();
    vec![
        socks(&[5, 1, 0, 5, 1, 0, 1, 192, 0, 2, 1, 0, 80]),
        socks(&[&[5, 1, 0, 5, 1, 0, 3, 11][..], b"example.org\x01\xbbdata"].concat()),
        socks(&[5, 1, 0, 5, 3, 0, 1, 0, 0, 0, 0, 0, 0]),
        [&[1, 5, 1, 2, 1, 3][..], b"ann\x06s3cret\x05\x01\x00\x01\x7f\x00\x00\x01\x00\x50"]
            .concat(),
        b"\x08CONNECT example.org:443 HTTP/1.1\r\nHost: example.org\r\n\r\ndata".to_vec(),
        b"\x08GET http://example.org/a?b HTTP/1.1\r\nConnection: close, x\r\nX: y\r\n\r\n".to_vec(),
        b"\x11CONNECT a:1 HTTP/1.1\r\nProxy-Authorization: Basic YW5uOnMzY3JldA==\r\n\r\n".to_vec(),
        b"\x08\x00\x00\x00\x03\x01a\x00\x35data".to_vec(),
        b"\x10subflow add 1 10.0.0.1 10.0.0.2:80 backup".to_vec(),
        b"\x08POST http://a/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\nx"
            .to_vec(),
        b"\x06HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
          1;x=y\r\na\r\n0\r\nX: y\r\n\r\nx"
            .to_vec(),
        b"\x08HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nContent-Length: 3\r\n\r\nabc".to_vec(),
        b"\x08HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-1/2\r\n\r\n".to_vec(),
    ]
}

/// Names: the first byte says whether the rest is an answer, for a client that has asked, or a
/// query, for a server.
pub(crate) fn names(data: &[u8]) {
    let [how, data @ ..] = data else { return };
    if how & 1 == 0 { answer(data, how & 2 == 0) } else { query(data) }
}

/// A client that asks for one name gets this; it must come to an end without and with it.
fn answer(data: &[u8], right_id: bool) {
    let mut client = dns::Client::new([7; 32]);
    let mut now = Instant::ZERO;
    let id = client.resolve(now, "example.org").expect("invariant: the first call");
    let queries: Vec<_> = std::iter::from_fn(|| client.poll_query()).collect();
    for query in &queries {
        let mut answer = data.to_vec();
        if right_id && answer.len() > 2 {
            answer[..2].copy_from_slice(&query[..2]);
        }
        client.handle_answer(now, &answer);
    }
    let mut results = Vec::new();
    for _ in 0..100 {
        results.extend(std::iter::from_fn(|| client.poll_result()));
        let Some(at) = client.poll_timeout() else { break };
        now = at.max(now);
        client.handle_timeout(now);
        while client.poll_query().is_some() {}
    }
    let [(of, result)] = &results[..] else { panic!("{} results", results.len()) };
    assert_eq!(*of, id);
    assert!(!result.as_ref().is_ok_and(Vec::is_empty), "found, but nothing");
    assert!(now - Instant::ZERO < Duration::from_secs(30), "it takes for ever");
}

/// A server's name service, of which every name has one address.
fn query(data: &[u8]) {
    static SERVICE: OnceLock<Mutex<dns::Service>> = OnceLock::new();
    let service = SERVICE.get_or_init(|| {
        let lookup: LookupFn = Arc::new(|_| Ok(vec![somewhere(1, 0).ip()]));
        let service = dns::Service::with(lookup, None, Arc::new(|| ()));
        Mutex::new(service)
    });
    let Ok(mut service) = service.lock() else { return };
    let now = Instant::ZERO;
    let (source, destination) = (somewhere(2, 1000), somewhere(3, 53));
    let asker = Asker { client: ClientNumber(1), source, destination };
    service.ask(now, asker, data);
    while let Some((to, answer)) = service.poll_answer(now) {
        assert_eq!(to, asker);
        assert!(answer.len() <= 512, "{} bytes", answer.len());
    }
    assert!(service.waiting() <= 256);
}

/// A query and its answer, with and without an address.
pub(crate) fn messages() -> Vec<Vec<u8>> {
    let mut client = dns::Client::new([7; 32]);
    let asked = client.resolve(Instant::ZERO, "example.org");
    let mut messages = Vec::new();
    while let Some(query) = client.poll_query() {
        let mut answer = query.clone();
        (answer[2], answer[3], answer[7]) = (0x81, 0x80, 1);
        let kind = query[query.len() - 3];
        let len = if kind == 1 { 4_u8 } else { 16 };
        answer.extend([0xc0, 12, 0, kind, 0, 1, 0, 0, 0, 60, 0, len]);
        answer.extend((0..len).map(|n| 0x20 + n));
        for (how, message) in [(1, &query), (0, &answer), (2, &answer)] {
            messages.push([&[how], &message[..]].concat());
        }
    }
    debug_assert!(asked.is_ok());
    messages
}
