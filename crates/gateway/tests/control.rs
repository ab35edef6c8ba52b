//! The control socket between a drawn agent and those who ask it.

#![allow(clippy::unwrap_used)] // A test that cannot go on shall say where.

use crate::fake::Fake;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tabane_gateway::control::{
    CLIENTS_MAX, Client, ClientError, ControlError, ControlSocket, QUESTION_MAX,
};
use tabane_gateway::model::Role;
use tabane_gateway::request_channel::Request;

struct Agent {
    fake: Fake,
    socket: Option<ControlSocket>,
    path: PathBuf,
    _place: tempfile::TempDir,
}

impl Agent {
    fn start() -> Self {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("run/home.sock");
        let fake = Fake::start();
        let socket = ControlSocket::start(&path, fake.request_channel.clone()).unwrap();
        Self { fake, socket: Some(socket), path, _place: place }
    }

    fn client(&self) -> Client {
        Client::connect(&self.path).unwrap()
    }

    /// Writes bytes and gives what comes until the agent hangs up or a line has come.
    fn line(&self, bytes: &[u8]) -> String {
        let mut stream = UnixStream::connect(&self.path).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        stream.write_all(bytes).unwrap();
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).unwrap();
        line
    }
}

#[test]
fn snapshots_and_orders() {
    let agent = Agent::start();
    let mut client = agent.client();
    let status = client.status().unwrap();
    assert_eq!(status, agent.fake.world().status);
    assert_eq!(client.connections().unwrap(), agent.fake.world().connections);
    assert_eq!(client.events(2).unwrap().len(), 2);
    let order =
        Request::SetPath { path: "lte".into(), role: Some(Role::Primary), cap_bps: Some(0) };
    client.order(order.clone()).unwrap();
    assert_eq!(agent.fake.world().orders, [order]);
    let lte = client.status().unwrap().paths.remove(1);
    assert_eq!((lte.role, lte.cap_bps), (Role::Primary, None));
    let refused = client.order(Request::CloseConnection { id: 99 }).unwrap_err();
    assert!(matches!(&refused, ClientError::Refused(text) if text == "no connection 99"));
}

#[test]
fn the_line_format_is_what_the_manual_says() {
    let agent = Agent::start();
    assert!(agent.line(b"{\"ask\":\"status\"}\n").starts_with("{\"status\":{\"agent\":\"client\""));
    assert_eq!(agent.line(b"\n{\"ask\":\"reload\"}\n"), "\"done\"\n");
    let set = agent.line(b"{\"ask\":\"set-path\",\"path\":\"lte\",\"role\":\"never\"}\n");
    assert_eq!(set, "\"done\"\n");
    let follow = agent.line(b"{\"ask\":\"follow\",\"since\":3}\n");
    assert!(follow.starts_with("{\"events\":[{\"seq\":4,"), "{follow}");
}

#[test]
fn bad_input_is_answered_with_an_error() {
    let agent = Agent::start();
    for (line, part) in [
        (&b"status\n"[..], "not JSON"),
        (b"[]\n", "no \\\"ask\\\""),
        (b"{\"ask\":7}\n", "no \\\"ask\\\""),
        (b"{\"ask\":\"reboot\"}\n", "unknown variant"),
        (b"{\"ask\":\"events\"}\n", "missing field `since`"),
        (b"{\"ask\":\"set-path\",\"path\":\"lte\",\"rolle\":\"never\"}\n", "unknown field"),
        (b"{\"ask\":\"set-path\",\"path\":\"lte\",\"role\":\"boss\"}\n", "unknown variant"),
        (b"{\"ask\":\"follow\",\"from\":1}\n", "unknown field"),
        (b"\xff\xfe\n", "not JSON"),
    ] {
        let answer = agent.line(line);
        assert!(answer.starts_with("{\"error\":\"") && answer.contains(part), "{answer}");
    }
    let long = agent.line(&vec![b' '; QUESTION_MAX + 1]);
    assert!(long.contains("a line of more than"), "{long}");
    let deep = agent.line(&[vec![b'['; QUESTION_MAX - 1], vec![b'\n']].concat());
    assert!(deep.contains("recursion limit"), "{deep}");
    assert_eq!(agent.fake.world().orders, []);
    agent.client().status().unwrap();
}

#[test]
fn whoever_follows_hears_what_happens() {
    let mut agent = Agent::start();
    let mut follow = agent.client().follow(3).unwrap();
    assert_eq!(follow.next().unwrap().unwrap().seq, 4);
    agent.fake.world().happened("path-up", Some("train"), "train is back");
    let next = follow.next().unwrap().unwrap();
    assert_eq!((next.seq, next.text.as_str()), (5, "train is back"));
    agent.fake.end();
    let end = follow.next().unwrap().unwrap_err().to_string();
    assert_eq!(end, "the agent has ended");
}

#[test]
fn a_stale_socket_is_replaced_and_a_live_one_is_not() {
    let mut agent = Agent::start();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&agent.path), 0o600);
    assert_eq!(mode(agent.path.parent().unwrap()), 0o700);
    let second = ControlSocket::start(&agent.path, agent.fake.request_channel.clone());
    assert!(matches!(second, Err(ControlError::Taken(_))));
    agent.client().status().unwrap();

    agent.socket = None;
    assert!(!agent.path.exists());
    let gone = Client::connect(&agent.path).unwrap_err();
    assert!(matches!(gone, ClientError::NotRunning(_)), "{gone}");

    // What an agent leaves that was killed.
    drop(UnixListener::bind(&agent.path).unwrap());
    assert!(agent.path.exists());
    agent.socket =
        Some(ControlSocket::start(&agent.path, agent.fake.request_channel.clone()).unwrap());
    agent.client().status().unwrap();

    agent.socket = None;
    std::fs::write(&agent.path, "precious").unwrap();
    let file = ControlSocket::start(&agent.path, agent.fake.request_channel.clone());
    assert!(matches!(file, Err(ControlError::NotASocket(_))));
    assert_eq!(std::fs::read_to_string(&agent.path).unwrap(), "precious");
}

#[test]
fn a_socket_that_has_been_replaced_is_left_alone() {
    let mut agent = Agent::start();
    std::fs::remove_file(&agent.path).unwrap();
    let other = UnixListener::bind(&agent.path).unwrap();
    agent.socket = None;
    assert!(agent.path.exists());
    drop(other);
}

#[test]
fn clients_are_bounded() {
    let agent = Agent::start();
    let mut all: Vec<Client> = (0..CLIENTS_MAX).map(|_| agent.client()).collect();
    for client in &mut all {
        client.status().unwrap();
    }
    let refused = agent.client().status().unwrap_err().to_string();
    assert!(refused.contains("clients are connected already") || refused.contains("hung up"));
    all.pop();
    // Its thread needs a moment to notice.
    for _ in 0..100 {
        if agent.client().status().is_ok() {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("no room although a client has left");
}

#[test]
fn the_end_of_the_agent_hangs_up_on_all() {
    let mut agent = Agent::start();
    let mut idle = agent.client();
    let mut follow = agent.client().follow(0).unwrap();
    follow.next().unwrap().unwrap();
    agent.socket = None;
    idle.status().unwrap_err();
    assert!(follow.any(|event| event.is_err()));
}
