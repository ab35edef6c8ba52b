//! What the client makes of servers good and bad.

use crate::world::{Raw, SERVER, World};
use crate::{Files, sha256};
use sha2::{Digest, Sha256};
use std::io::Write;
use std::sync::{Arc, Mutex};
use tabane_engine::{ConnId, Duration, Endpoint, Event, Instant};
use tabane_interop::http::{Fetch, FetchError, FetchReport, FetchRequest};
use tabane_net::App;

const MINUTE: Duration = Duration::from_secs(60);

/// Where bodies go.
#[derive(Clone, Default)]
struct Sink(Arc<Mutex<Vec<u8>>>);

impl Write for Sink {
    fn write(&mut self, data: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(data);
        Ok(data.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn request(target: &str, sink: &Sink) -> FetchRequest {
    FetchRequest {
        host: SERVER.to_owned(),
        target: target.to_owned(),
        resume: 0,
        hashed: Sha256::new(),
        upload: None,
        sink: Box::new(sink.clone()),
        idle_timeout: Duration::from_secs(20),
    }
}

fn fetch(server: &mut impl App, request: FetchRequest) -> Result<FetchReport, FetchError> {
    let mut world = World::new();
    let conn = world.connect();
    let mut fetch = Fetch::new(world.now, conn, request);
    let done = world.run(&mut fetch, server, MINUTE, |fetch, _| fetch.is_done());
    assert!(done, "the client never ended");
    fetch.into_outcome()
}

#[test]
fn a_file_comes_whole() {
    let (files, sink) = (Files::new(), Sink::default());
    let report = fetch(&mut files.server(), request("/big", &sink)).unwrap();
    assert_eq!((report.status, report.received), (200, 3_000_000));
    assert_eq!(report.sha256, sha256(&files.big));
    assert!(report.mptcp);
    assert!(*sink.0.lock().unwrap() == files.big);
}

/// The handshake, the request and the answer: two round trips of 10 ms, and no timer.
#[test]
fn a_small_file_takes_two_round_trips() {
    let (files, mut world) = (Files::new(), World::new());
    let (conn, mut server) = (world.connect(), files.server());
    let mut fetch = Fetch::new(world.now, conn, request("/small", &Sink::default()));
    assert!(world.run(&mut fetch, &mut server, MINUTE, |fetch, _| fetch.is_done()));
    assert_eq!(fetch.finished_at(), Some(Instant::ZERO + Duration::from_millis(20)));
    assert!(fetch.into_outcome().is_ok());
}

#[test]
fn a_download_goes_on_where_it_stopped() {
    let (files, sink) = (Files::new(), Sink::default());
    let mut rest = request("/big", &sink);
    rest.resume = 1_000_000;
    rest.hashed = Sha256::new_with_prefix(&files.big[..1_000_000]);
    let report = fetch(&mut files.server(), rest).unwrap();
    assert_eq!((report.status, report.received), (206, 2_000_000));
    assert_eq!(report.sha256, sha256(&files.big));
    // A server that does not know ranges.
    let mut server = Raw::sending("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab");
    let mut rest = request("/big", &sink);
    rest.resume = 1;
    assert!(matches!(fetch(&mut server, rest), Err(FetchError::Range(1))));
}

#[test]
fn an_upload_arrives_whole() {
    let (files, sink) = (Files::new(), Sink::default());
    let mut put = request("/up", &sink);
    put.upload = Some((Box::new(std::io::Cursor::new(files.big.clone())), 3_000_000));
    let report = fetch(&mut files.server(), put).unwrap();
    assert_eq!((report.uploaded, report.upload_sha256.clone()), (3_000_000, sha256(&files.big)));
    let answer = String::from_utf8(sink.0.lock().unwrap().clone()).unwrap();
    assert!(answer.contains(&report.upload_sha256), "{answer}");
}

#[test]
fn bodies_end_in_three_ways() {
    for response in [
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n",
        "HTTP/1.0 200 OK\r\n\r\nhello",
    ] {
        let sink = Sink::default();
        let mut server = Raw { finish: true, ..Raw::sending(response) };
        let report = fetch(&mut server, request("/", &sink)).unwrap();
        assert_eq!(report.sha256, sha256(b"hello"), "{response}");
        assert_eq!(*sink.0.lock().unwrap(), b"hello");
        assert!(server.text().starts_with("GET / HTTP/1.1\r\nHost: 10.0.0.2:80\r\n"));
    }
}

#[test]
fn answers_that_are_none_are_errors() {
    let finished = |text: &'static str| {
        let mut server = Raw { finish: true, ..Raw::sending(text) };
        fetch(&mut server, request("/", &Sink::default())).unwrap_err().to_string()
    };
    let missing = finished("HTTP/1.1 404 Not Found\r\nContent-Length: 5\r\n\r\nnope\n");
    assert_eq!(missing, "the server answered 404 Not Found: nope");
    let moved = finished("HTTP/1.1 302 Found\r\nLocation: /there\r\nContent-Length: 0\r\n\r\n");
    assert!(moved.contains("it is at /there"), "{moved}");
    let short = finished("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello");
    assert!(short.contains("in the middle of the body"), "{short}");
    assert!(finished("").contains("ended too early"));
    assert!(finished("SSH-2.0-x\r\n").contains("not HTTP"));
}

#[test]
fn a_server_that_says_nothing_is_given_up() {
    let error = fetch(&mut Raw::default(), request("/", &Sink::default())).unwrap_err();
    assert!(matches!(error, FetchError::Idle(20)), "{error}");
}

#[test]
fn nobody_listening_is_said() {
    let mut world = World::new();
    let to = "10.0.0.2:81".parse().unwrap();
    let from = "10.0.0.1:0".parse().unwrap();
    let conn = world.client.connect(world.now, from, to).unwrap();
    let mut fetch = Fetch::new(world.now, conn, request("/", &Sink::default()));
    assert!(world.run(&mut fetch, &mut Raw::default(), MINUTE, |fetch, _| fetch.is_done()));
    assert!(fetch.into_outcome().unwrap_err().to_string().contains("nobody listens"));
}

#[test]
fn a_client_that_does_not_read_holds_the_server() {
    let (files, mut world, sink) = (Files::new(), World::new(), Sink::default());
    let body: Vec<u8> = files.big.iter().copied().cycle().take(60_000_000).collect();
    std::fs::write(files.path("huge"), &body).unwrap();
    let (conn, mut server) = (world.connect(), files.server());
    let mut fetch = Fetch::new(world.now, conn, request("/huge", &sink));
    fetch.set_reading(&mut world.client, world.now, conn, false);
    assert!(!world.run(&mut fetch, &mut server, MINUTE, |fetch, _| fetch.state().done > 0));
    let info = world.client.connection(conn).unwrap().info(world.now);
    assert!(info.received > 100_000 && info.received <= 17 << 20, "{}", info.received);
    fetch.set_reading(&mut world.client, world.now, conn, true);
    assert!(world.run(&mut fetch, &mut server, MINUTE * 2, |fetch, _| fetch.is_done()));
    assert_eq!(fetch.into_outcome().unwrap().sha256, sha256(&body));
}

/// Many fetches on one endpoint.
struct Crowd(Vec<Fetch>);

impl App for Crowd {
    fn on_event(&mut self, endpoint: &mut Endpoint, now: Instant, conn: ConnId, event: Event) {
        self.0.iter_mut().for_each(|fetch| fetch.on_event(endpoint, now, conn, event));
    }
    fn on_wakeup(&mut self, endpoint: &mut Endpoint, now: Instant) {
        self.0.iter_mut().for_each(|fetch| fetch.on_wakeup(endpoint, now));
    }
    fn is_done(&self) -> bool {
        self.0.iter().all(App::is_done)
    }
}

#[test]
fn a_crowd_is_served() {
    let (files, mut world) = (Files::new(), World::new());
    let (mut server, mut crowd) = (files.server(), Crowd(Vec::new()));
    for i in 0..100 {
        let (conn, target) = (world.connect(), if i % 2 == 0 { "/small" } else { "/big" });
        crowd.0.push(Fetch::new(world.now, conn, request(target, &Sink::default())));
    }
    assert!(world.run(&mut crowd, &mut server, MINUTE, |crowd, _| crowd.is_done()));
    for (i, fetch) in crowd.0.into_iter().enumerate() {
        let expected = if i % 2 == 0 { sha256(b"0123456789") } else { sha256(&files.big) };
        assert_eq!(fetch.into_outcome().unwrap().sha256, expected);
    }
    assert_eq!(server.served(), 100);
}
