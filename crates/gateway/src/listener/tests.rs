//! What programs send, whole and byte by byte, and what they get.

use super::*;
use proptest::prelude::*;
use std::collections::VecDeque;

/// Everything that a negotiation said and did, and what is left for the tunnel.
#[derive(PartialEq, Debug)]
struct Talk {
    said: Vec<u8>,
    end: Step,
    left: Vec<u8>,
}

fn talk(mut negotiation: impl Negotiation, input: &[u8], part: usize) -> Talk {
    let (mut said, mut buffer, mut end) = (Vec::new(), BytesMut::new(), Step::More);
    for part in input.chunks(part.max(1)) {
        buffer.extend_from_slice(part);
        while end == Step::More {
            match negotiation.feed(&mut buffer) {
                Step::More => break,
                Step::Send(bytes) => said.extend_from_slice(&bytes),
                step => end = step,
            }
        }
    }
    Talk { said, end, left: buffer.to_vec() }
}

/// Whole and in all small pieces: the same must come of it.
fn talk_any(negotiation: impl Fn() -> Auto, input: &[u8]) -> Talk {
    let whole = talk(negotiation(), input, input.len());
    for part in [1, 2, 3, 7] {
        assert_eq!(talk(negotiation(), input, part), whole, "in pieces of {part}");
    }
    whole
}

fn open() -> Auto {
    Auto::new(None)
}

fn guarded() -> Auto {
    Auto::new(Some(Login::new("ann:s3cret:x")))
}

fn connect(text: &str) -> Step {
    Step::Connect(Target::parse(text).unwrap())
}

fn closed(step: &Step) -> String {
    match step {
        Step::Close(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        other => panic!("not closed but {other:?}"),
    }
}

#[test]
fn socks5_connects_to_addresses_and_names() {
    let v6 = [&[5, 1, 0, 5, 1, 0, 4][..], &[0x20, 1, 0xd, 0xb8], &[0; 11], &[1, 1, 187]].concat();
    let named = [&[5, 2, 1, 0, 5, 1, 0, 3, 11][..], b"Example.org\x01\xbbdata"].concat();
    let cases: [(&[u8], &str, &[u8]); 3] = [
        (&[5, 1, 0, 5, 1, 0, 1, 192, 0, 2, 1, 0, 80], "192.0.2.1:80", b""),
        (&v6, "[2001:db8::1]:443", b""),
        (&named, "example.org:443", b"data"),
    ];
    for (input, target, left) in cases {
        let expected = Talk { said: vec![5, 0], end: connect(target), left: left.to_vec() };
        assert_eq!(talk_any(open, input), expected);
    }
    let mut negotiation = Socks5::new(None);
    let v4 = negotiation.connected("192.0.2.7:513".parse().unwrap());
    assert_eq!(v4[..], [5, 0, 0, 1, 192, 0, 2, 7, 2, 1]);
    let v6 = negotiation.connected("[2001:db8::7]:513".parse().unwrap());
    assert_eq!((v6.len(), &v6[..6], &v6[19..]), (22, &[5, 0, 0, 4, 0x20, 1][..], &[7, 2, 1][..]));
    for why in ConnectError::ALL {
        assert_eq!(negotiation.failed(why)[..], [5, why.socks5(), 0, 1, 0, 0, 0, 0, 0, 0]);
    }
}

#[test]
fn socks5_associates() {
    let unknown = [5, 1, 0, 5, 3, 0, 1, 0, 0, 0, 0, 0, 0];
    assert_eq!(talk_any(open, &unknown).end, Step::Associate(None));
    let known = [5, 1, 0, 5, 3, 0, 1, 127, 0, 0, 1, 4, 0];
    let from = "127.0.0.1:1024".parse().unwrap();
    assert_eq!(talk_any(open, &known).end, Step::Associate(Some(from)));
}

#[test]
fn socks5_refuses_what_it_does_not_do() {
    let reply = |code| Step::Close(Bytes::copy_from_slice(&[5, code, 0, 1, 0, 0, 0, 0, 0, 0]));
    let cases: [(&[u8], Step); 9] = [
        // BIND, and an unknown command.
        (&[5, 1, 0, 5, 2, 0, 1, 192, 0, 2, 1, 0, 80], reply(7)),
        (&[5, 1, 0, 5, 9, 0, 1, 192, 0, 2, 1, 0, 80], reply(7)),
        // An unknown type of address.
        (&[5, 1, 0, 5, 1, 0, 2, 0], reply(8)),
        // Port 0; no host name; wrong version.
        (&[5, 1, 0, 5, 1, 0, 1, 192, 0, 2, 1, 0, 0], reply(1)),
        (&[5, 1, 0, 5, 1, 0, 3, 1, b'/', 0, 80], reply(1)),
        (&[5, 1, 0, 5, 1, 0, 3, 0, 0, 80], reply(1)),
        (&[5, 1, 0, 4, 1, 0, 1, 192, 0, 2, 1, 0, 80], reply(1)),
        // No method that we have.
        (&[5, 1, 1], Step::Close(Bytes::from_static(&[5, 0xff]))),
        (&[5, 0], Step::Close(Bytes::from_static(&[5, 0xff]))),
    ];
    for (input, end) in cases {
        assert_eq!(talk_any(open, input).end, end, "{input:?}");
    }
    assert_eq!(closed(&talk_any(open, &[4, 1, 0, 80]).end).as_bytes()[1], 0x5b, "SOCKS4");
}

#[test]
fn socks5_asks_for_a_login() {
    let request = [5, 1, 0, 1, 192, 0, 2, 1, 0, 80];
    let with = |user: &str, password: &str| {
        let mut input = vec![5, 2, 0, 2, 1, user.len() as u8];
        input.extend_from_slice(user.as_bytes());
        input.push(password.len() as u8);
        input.extend_from_slice(password.as_bytes());
        input.extend_from_slice(&request);
        talk_any(guarded, &input)
    };
    let good = with("ann", "s3cret:x");
    assert_eq!((good.said, good.end), (vec![5, 2, 1, 0], connect("192.0.2.1:80")));
    for (user, password) in [("ann", "s3cret:"), ("ann", ""), ("", "s3cret:x"), ("bob", "s3cret:x")]
    {
        let bad = with(user, password);
        assert_eq!(bad.end, Step::Close(Bytes::from_static(&[1, 1])), "{user}:{password}");
    }
    let none = talk_any(guarded, &[5, 1, 0]);
    assert_eq!(none.end, Step::Close(Bytes::from_static(&[5, 0xff])));
    let garbled = talk_any(guarded, &[5, 1, 2, 7, 0]);
    assert_eq!(garbled.end, Step::Close(Bytes::from_static(&[1, 1])));
}

#[test]
fn http_connects_and_keeps_early_data() {
    let input = b"\r\nCONNECT Example.org:443 HTTP/1.1\r\nHost: x\r\n\r\n\x16\x03data";
    let talk = talk_any(open, input);
    assert_eq!((talk.end, &talk.left[..]), (connect("example.org:443"), &b"\x16\x03data"[..]));
    let bare = talk_any(open, b"CONNECT [2001:db8::1]:443 HTTP/1.0\n\nx");
    assert_eq!((bare.end, &bare.left[..]), (connect("[2001:db8::1]:443"), &b"x"[..]));
    let mut negotiation = HttpConnect::new(None);
    negotiation.feed(&mut BytesMut::from(&input[..]));
    let answer = negotiation.connected("192.0.2.1:1".parse().unwrap());
    assert_eq!(&answer[..], b"HTTP/1.1 200 Connection established\r\n\r\n");
}

#[test]
fn http_failures_say_why() {
    let mut negotiation = HttpConnect::new(None);
    let refused = negotiation.failed(ConnectError::NotAllowed);
    let expected = "HTTP/1.1 403 Forbidden\r\nContent-Type: text/plain\r\nContent-Length: 43\r\n\
                    Connection: close\r\nProxy-Status: tabane; error=destination_ip_prohibited\r\n\
                    \r\nthe server does not allow this destination\n";
    assert_eq!(str::from_utf8(&refused).unwrap(), expected);
    for (input, status) in [
        ("CONNECT example.org HTTP/1.1\r\n\r\n", 400),
        ("CONNECT 127.1:80 HTTP/1.1\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        ("GET https://example.org/ HTTP/1.1\r\n\r\n", 400),
        ("GET http://user@example.org/ HTTP/1.1\r\n\r\n", 400),
        ("\x16\x03\x01\x02\x00\x01\n\r\n", 400),
        ("nonsense\r\n\r\n", 400),
    ] {
        let end = talk_any(open, input.as_bytes()).end;
        assert!(closed(&end).starts_with(&format!("HTTP/1.1 {status} ")), "{input}: {end:?}");
    }
}

#[test]
fn http_asks_for_a_login() {
    let with = |fields: &str| {
        let input = format!("CONNECT example.org:443 HTTP/1.1\r\n{fields}\r\n");
        talk_any(guarded, input.as_bytes()).end
    };
    // ann:s3cret:x
    assert_eq!(with("proxy-authorization: basic YW5uOnMzY3JldDp4\r\n"), connect("example.org:443"));
    for fields in [
        "",
        "Proxy-Authorization: Basic YW5uOnMzY3JldDp5\r\n",
        "Proxy-Authorization: Basic ???\r\n",
        "Proxy-Authorization: Digest YW5uOnMzY3JldDp4\r\n",
        "Authorization: Basic YW5uOnMzY3JldDp4\r\n",
        "Proxy-Authorization: Basic YW5uOnMzY3JldDp4\r\nProxy-Authorization: Basic x\r\n",
    ] {
        let text = closed(&with(fields));
        assert!(text.starts_with("HTTP/1.1 407 "), "{fields}");
        assert!(text.contains("\r\nProxy-Authenticate: Basic realm="), "{text}");
    }
}

#[test]
fn plain_requests_go_to_their_origin() {
    let input = "POST http://Example.org:8080?q=1 HTTP/1.1\r\nHost: other\r\nAccept: */*\r\n\
                 Proxy-Connection: keep-alive\r\nConnection: close, X-Hop, Content-Length\r\n\
                 X-Hop: 1\r\nContent-Length: 4\r\n\r\nbody";
    let talk = talk_any(open, input.as_bytes());
    assert_eq!(talk.end, connect("example.org:8080"));
    assert_eq!(talk.left, b"body");
    let head = "POST /?q=1 HTTP/1.1\r\nHost: Example.org:8080\r\nAccept: */*\r\n\
                Content-Length: 4\r\nConnection: close\r\n\r\nbody";
    assert_eq!(first(input), head);
    let asterisk = first("OPTIONS http://a HTTP/1.1\r\n\r\n");
    assert!(asterisk.starts_with("OPTIONS * HTTP/1.1\r\nHost: a\r\n"), "{asterisk}");
    let default = talk_any(open, b"GET HTTP://[2001:db8::1]/a HTTP/1.1\r\n\r\n");
    assert_eq!(default.end, connect("[2001:db8::1]:80"));
    let mut negotiation = HttpConnect::new(None);
    negotiation.feed(&mut BytesMut::from(input));
    assert!(negotiation.connected("192.0.2.1:1".parse().unwrap()).is_empty());
}

/// What the origin of a plain request gets.
fn first(input: &str) -> String {
    let (mut negotiation, mut input) = (HttpConnect::new(None), BytesMut::from(input));
    negotiation.feed(&mut input);
    let first = negotiation.exchange().unwrap().begin(input.freeze(), &mut VecDeque::new());
    String::from_utf8(first.to_vec()).unwrap()
}

/// Two readers may not disagree about where a request ends (RFC 9112 section 11.2).
#[test]
fn requests_that_could_be_smuggled_are_refused() {
    let both = "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n";
    for (version, fields, status) in [
        ("1.1", both, 400),
        ("1.1", "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n", 400),
        ("1.1", "Content-Length: 4\r\nContent-Length: 5\r\n", 400),
        ("1.1", "Content-Length: 4, 5\r\n", 400),
        ("1.1", "Content-Length: +4\r\n", 400),
        ("1.1", "Content-Length: 4\u{a0}\r\n", 400),
        ("1.1", "Content-Length : 4\r\n", 400),
        ("1.1", "Content-Length:\r\n 4\r\n", 400),
        ("1.0", "Transfer-Encoding: chunked\r\n", 400),
        ("1.1", "Transfer-Encoding: gzip, chunked\r\n", 501),
        ("1.1", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", 501),
        ("1.1", "Transfer-Encoding: \u{b}chunked\r\n", 400),
        ("1.1", "Transfer-Encoding: identity\r\n", 501),
    ] {
        let input = format!("POST http://a.example/ HTTP/{version}\r\n{fields}\r\nbody");
        let text = closed(&talk_any(open, input.as_bytes()).end);
        assert!(text.starts_with(&format!("HTTP/1.1 {status} ")), "{fields}: {text}");
    }
}

#[test]
fn long_heads_are_refused_and_memory_is_bounded() {
    let endless = vec![b'a'; 10 * HEAD_MAX];
    let refused = talk(open(), &endless, 1000);
    assert!(closed(&refused.end).starts_with("HTTP/1.1 431 "));
    let many = format!("CONNECT a:1 HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(101));
    assert!(closed(&talk_any(open, many.as_bytes()).end).starts_with("HTTP/1.1 431 "));
    // A head that ends in time with much behind it is fine.
    let early = [&b"CONNECT a:1 HTTP/1.1\r\n\r\n"[..], &endless].concat();
    let talk = talk(open(), &early, early.len());
    assert_eq!((talk.end, talk.left.len()), (connect("a:1"), endless.len()));
    const { assert!(HEAD_MAX < INPUT_MAX) };
}

proptest! {
    #[test]
    fn any_bytes_in_any_chunks_come_to_the_same(
        start in 0..8usize, bytes: Vec<u8>, part in 1..40usize, guard: bool,
    ) {
        // Beginnings that lead deep into the parsers.
        const STARTS: [&[u8]; 8] = [
            b"", &[5], &[5, 1, 0, 5, 1, 0, 3], &[5, 1, 0, 5, 1, 0], &[5, 1, 2, 1],
            b"CONNECT ", b"GET http://", b"CONNECT a:1 HTTP/1.1\r\n",
        ];
        let input = [STARTS[start], &bytes].concat();
        let negotiation = || if guard { guarded() } else { open() };
        let whole = talk(negotiation(), &input, input.len());
        let cut = talk(negotiation(), &input, part);
        prop_assert_eq!(&whole, &cut);
        if let Step::Connect(_) = whole.end {
            prop_assert!(!guard, "without a login");
        }
    }
}
