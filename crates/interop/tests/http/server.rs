//! What the server answers, byte for byte, to clients good and bad.

use crate::world::{Raw, World};
use crate::{Files, SMALL, sha256};
use bytes::Bytes;
use std::fs;
use tabane_engine::Duration;
use tabane_engine::record::CloseReason;

const MINUTE: Duration = Duration::from_secs(60);

/// What comes back for `text`, and the reader.
fn ask_with(files: &Files, text: impl Into<Bytes>, until: impl Fn(&Raw) -> bool) -> Raw {
    let (mut world, mut server) = (World::new(), files.server());
    world.connect();
    let mut client = Raw::sending(text);
    let done = world.run(&mut client, &mut server, MINUTE, |client, _| until(client));
    assert!(done, "never: {}", &client.text()[..client.text().len().min(500)]);
    client
}

/// What comes back until the server closes.
fn ask(files: &Files, head: &str) -> String {
    let text = format!("{head}\r\nHost: x\r\nConnection: close\r\n\r\n");
    ask_with(files, text, |client| client.peer_finished).text()
}

fn status(answer: &str) -> &str {
    answer.split_whitespace().nth(1).unwrap_or(answer)
}

fn body(answer: &str) -> &str {
    answer.split_once("\r\n\r\n").expect("a head").1
}

#[test]
fn a_get_is_answered_with_date_length_and_body() {
    let answer = ask(&Files::new(), "GET /small HTTP/1.1");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.contains("\r\nDate: Sun, 09 Sep 2001 01:46:40 GMT\r\n"), "{answer}");
    assert!(answer.contains("\r\nContent-Length: 10\r\n"));
    assert!(answer.contains("\r\nConnection: close\r\n"));
    assert_eq!(body(&answer), SMALL);
}

#[test]
fn a_head_is_a_get_without_the_body() {
    let answer = ask(&Files::new(), "HEAD /small HTTP/1.1");
    assert!(answer.contains("\r\nContent-Length: 10\r\n"));
    assert_eq!(body(&answer), "");
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let text = "GET /small HTTP/1.1\r\nHost: x\r\n\r\nHEAD /small HTTP/1.1\r\nHost: x\r\n\r\n\
                GET /none HTTP/1.1\r\nHost: x\r\n\r\n\
                GET /small HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    let answer = ask_with(&Files::new(), text, |client| client.peer_finished).text();
    let codes: Vec<&str> = answer.split("HTTP/1.1 ").skip(1).map(|part| &part[..3]).collect();
    assert_eq!(codes, ["200", "200", "404", "200"]);
    assert!(answer.ends_with(SMALL));
}

#[test]
fn a_connection_is_kept_for_the_next_request() {
    let get = "GET /small HTTP/1.1\r\nHost: x\r\n\r\n";
    let ends = |times| move |client: &Raw| client.text().matches(SMALL).count() == times;
    let client = ask_with(&Files::new(), get, ends(1));
    assert!(client.text().contains("Connection: keep-alive") && !client.peer_finished);
    let old = "GET /small HTTP/1.0\r\n\r\n";
    let client = ask_with(&Files::new(), old, |client| client.peer_finished);
    assert!(client.text().ends_with(SMALL));
}

#[test]
fn parts_of_a_file_can_be_had() {
    let files = Files::new();
    for (range, wanted, part) in [
        ("bytes=2-4", "206", "234"),
        ("bytes=7-", "206", "789"),
        ("bytes=-3", "206", "789"),
        ("bytes=0-999", "206", SMALL),
        ("bytes=0-1,4-5", "200", SMALL),
        ("bytes=4-2", "200", SMALL),
    ] {
        let answer = ask(&files, &format!("GET /small HTTP/1.1\r\nRange: {range}"));
        assert_eq!((status(&answer), body(&answer)), (wanted, part), "{range}");
    }
    let answer = ask(&files, "GET /small HTTP/1.1\r\nRange: bytes=2-4");
    assert!(answer.contains("\r\nContent-Range: bytes 2-4/10\r\n"), "{answer}");
    let answer = ask(&files, "GET /small HTTP/1.1\r\nRange: bytes=10-");
    assert_eq!(status(&answer), "416");
    assert!(answer.contains("\r\nContent-Range: bytes */10\r\n"));
    let answer = ask(&files, "GET /small HTTP/1.1\r\nRange: bytes=2-4\r\nIf-Range: \"old\"");
    assert_eq!(status(&answer), "200");
}

#[test]
fn an_unchanged_file_is_not_sent_again() {
    let files = Files::new();
    let answer = ask(&files, "GET /small HTTP/1.1");
    let modified = answer.split("Last-Modified: ").nth(1).unwrap().split("\r\n").next().unwrap();
    let again = ask(&files, &format!("GET /small HTTP/1.1\r\nIf-Modified-Since: {modified}"));
    assert_eq!((status(&again), body(&again)), ("304", ""));
    let range = format!("GET /small HTTP/1.1\r\nRange: bytes=0-1\r\nIf-Range: {modified}");
    assert_eq!(status(&ask(&files, &range)), "206");
}

#[test]
fn what_is_not_there_or_not_allowed_is_refused() {
    let files = Files::new();
    for (request, wanted) in [
        ("GET /none HTTP/1.1", "404"),
        ("GET /../secret HTTP/1.1", "400"),
        ("GET /%2e%2e/secret HTTP/1.1", "400"),
        ("GET /sub HTTP/1.1", "301"),
        ("DELETE /small HTTP/1.1", "405"),
        ("BREW /small HTTP/1.1", "501"),
        ("GET /small HTTP/1.1\r\nExpect: cake", "417"),
        ("POST / HTTP/1.1\r\nTransfer-Encoding: gzip", "501"),
        ("POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked", "400"),
    ] {
        assert_eq!(status(&ask(&files, request)), wanted, "{request}");
    }
    assert!(files.path("small").exists());
}

#[test]
fn bad_heads_are_answered_and_end_the_connection() {
    let files = Files::new();
    for (text, wanted) in [
        ("GET /small HTTP/1.1\r\n\r\n".to_owned(), "400"),
        ("\u{1}\u{2}\u{3}\r\n\r\n".to_owned(), "400"),
        ("GET /small HTTP/2.7\r\n\r\n".to_owned(), "400"),
        (format!("GET /small HTTP/1.1\r\nX: {}", "x".repeat(20_000)), "431"),
        (format!("GET / HTTP/1.1\r\n{}\r\n", "X: y\r\n".repeat(100)), "431"),
    ] {
        let client = ask_with(&files, text, |client| client.peer_finished);
        assert_eq!(status(&client.text()), wanted);
    }
}

#[test]
fn an_upload_is_counted_and_hashed() {
    let files = Files::new();
    let mut text =
        format!("PUT /up HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n", files.big.len())
            .into_bytes();
    text.extend_from_slice(&files.big);
    let client = ask_with(&files, text, |client| client.text().ends_with("}\n"));
    let json: serde_json::Value = serde_json::from_str(body(&client.text())).unwrap();
    assert_eq!(json["bytes"], 3_000_000);
    assert_eq!(json["sha256"], sha256(&files.big));
    assert_eq!(json["saved"], serde_json::Value::Null);
    assert!(!files.path("up").exists());
}

#[test]
fn a_client_that_waits_for_a_word_gets_it() {
    let head = "POST /up HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n\
                Transfer-Encoding: chunked\r\n\r\n";
    let (files, mut world) = (Files::new(), World::new());
    let (mut server, mut client) = (files.server(), Raw::sending(head));
    world.connect();
    let interim = |client: &Raw, _: &_| client.text() == "HTTP/1.1 100 Continue\r\n\r\n";
    assert!(world.run(&mut client, &mut server, MINUTE, interim), "{}", client.text());
    client.send.push_back(Bytes::from("3\r\nabc\r\n0\r\n\r\n"));
    let answered = |client: &Raw, _: &_| client.text().contains(&sha256(b"abc"));
    assert!(world.run(&mut client, &mut server, MINUTE, answered), "{}", client.text());
}

#[test]
fn uploads_are_kept_whole_or_not_at_all() {
    let (files, kept) = (Files::new(), tempfile::tempdir().unwrap());
    let run = |text: &str, finish| {
        let mut config = files.config();
        config.uploads = Some(kept.path().to_owned());
        let (mut world, mut server) = (World::new(), tabane_interop::http::FileServer::new(config));
        let mut client = Raw { finish, ..Raw::sending(text.to_owned()) };
        world.connect();
        let answered = |c: &Raw, _: &_| c.closed.is_some() || c.text().ends_with("\n");
        assert!(world.run(&mut client, &mut server, MINUTE, answered));
        client
    };
    let whole = run("PUT /a/up%20load HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc", false);
    assert_eq!(status(&whole.text()), "201");
    assert_eq!(fs::read_to_string(kept.path().join("up load")).unwrap(), "abc");
    let cut = run("PUT /cut HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nabc", true);
    assert_eq!(cut.text(), "");
    assert_eq!(status(&run("PUT /.. HTTP/1.1\r\nHost: x\r\n\r\n", false).text()), "400");
    assert_eq!(fs::read_dir(kept.path()).unwrap().count(), 1, "nothing else is left");
}

#[test]
fn a_silent_client_is_hung_up_on() {
    let (files, mut world) = (Files::new(), World::new());
    let (mut server, mut client) = (files.server(), Raw::sending("GET /small HTT"));
    world.connect();
    let closed = |client: &Raw, _: &_| client.closed.is_some();
    assert!(!world.run(&mut client, &mut server, Duration::from_secs(119), closed), "too early");
    assert!(world.run(&mut client, &mut server, Duration::from_secs(5), closed), "never");
    assert!(matches!(client.closed, Some(CloseReason::FastClose | CloseReason::Reset(_))));
    assert_eq!(server.connections(), 0);
}
