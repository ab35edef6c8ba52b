//! Agents that stop or are killed and started again while connections are open: nobody waits for
//! what is over.

use super::bed::{Agent, Keys, connect, echo, exchange, pair, serve, wired_by};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};
use tabane_gateway::request_channel::{Answer, Request};

/// An origin that sends for ever, and says when it could not go on.
fn endless() -> (SocketAddr, Receiver<Instant>) {
    let (ended, when) = channel();
    let at = serve(move |mut stream| {
        while stream.write_all(&[1; 10_000]).is_ok() {
            thread::sleep(Duration::from_millis(5));
        }
        let _ = ended.send(Instant::now());
    });
    (at, when)
}

/// Reads until the connection ends, which must be by a reset; when.
fn until_reset(mut stream: TcpStream) -> thread::JoinHandle<Instant> {
    let begun = stream.read(&mut [0; 1000]).unwrap();
    assert!(begun > 0);
    thread::spawn(move || {
        let error = loop {
            match stream.read(&mut [0; 65_536]) {
                Ok(0) => panic!("the end of a stream that has been cut short"),
                Ok(_) => {}
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}");
        Instant::now()
    })
}

/// A connection over which nothing goes.
fn idle(client: &Agent) -> TcpStream {
    let mut stream = connect(client.at, echo()).unwrap();
    stream.write_all(b"x").unwrap();
    stream.read_exact(&mut [0]).unwrap();
    stream
}

fn happened(agent: &Agent, kind: &str) -> bool {
    match agent.request_channel.ask(Request::Events { since: 0 }).unwrap() {
        Answer::Events(all) => all.iter().any(|event| event.kind.name() == kind),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_server_that_stops_resets_connections_at_both_ends() {
    let (client, mut server, _) = pair();
    let (far, far_ended) = endless();
    let download = until_reset(connect(client.at, far).unwrap());
    let idle = until_reset_idle(idle(&client));
    let start = Instant::now();
    server.stop();
    for ended in [download.join().unwrap(), idle.join().unwrap(), far_ended.recv().unwrap()] {
        let took = ended.saturating_duration_since(start);
        assert!(took < Duration::from_secs(2), "{took:?}");
    }
    assert!(client.connections().is_empty(), "{:?}", client.connections());
}

/// A download that is cut off must not look complete.
#[test]
fn a_client_that_stops_resets_connections_at_both_ends() {
    let (mut client, server, _) = pair();
    let (far, far_ended) = endless();
    let download = until_reset(connect(client.at, far).unwrap());
    let idle = until_reset_idle(idle(&client));
    let start = Instant::now();
    client.stop();
    for ended in [download.join().unwrap(), idle.join().unwrap(), far_ended.recv().unwrap()] {
        let took = ended.saturating_duration_since(start);
        assert!(took < Duration::from_secs(2), "{took:?}");
    }
    server.until("over", |status| status.connections == 0);
}

fn until_reset_idle(mut stream: TcpStream) -> thread::JoinHandle<Instant> {
    thread::spawn(move || {
        let error = stream.read(&mut [0]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}");
        Instant::now()
    })
}

/// What a server says in its last moment does not arrive, as of one that is killed.
#[test]
fn a_server_that_is_killed_and_started_again_is_known_by_its_new_life() {
    let keys = Keys::new();
    let (client, mut server, wires) = wired_by(&keys, "127.0.0.1");
    let (far, _ended) = endless();
    let download = until_reset(connect(client.at, far).unwrap());
    let idle = until_reset_idle(idle(&client));
    wires.iter().for_each(|wire| wire.cut(true));
    server.stop();
    // What is still in a socket of the wires is lost, too.
    thread::sleep(Duration::from_millis(200));
    wires.iter().for_each(|wire| wire.cut(false));
    let server = Agent::server(keys.server_config(server.at));
    let start = Instant::now();
    let ended = [download.join().unwrap(), idle.join().unwrap()];
    let took = ended.map(|ended| ended.saturating_duration_since(start));
    println!("known after {took:?}");
    assert!(took.iter().all(|took| *took < Duration::from_secs(4)), "{took:?}");
    assert!(client.connections().is_empty(), "{:?}", client.connections());
    assert!(happened(&client, "server-restarted"));
    client.until_paths_work();
    exchange(client.at, echo(), 300_000, 1);
    // It is met once, whatever path says it first.
    thread::sleep(Duration::from_millis(500));
    exchange(client.at, echo(), 300_000, 2);
    drop(server);
}

/// The other way about: what a killed client had open ends at the server, and at the origin.
#[test]
fn a_client_that_is_killed_and_started_again_leaves_nothing_at_the_server() {
    let keys = Keys::new();
    let (mut client, server, wires) = wired_by(&keys, "127.0.0.1");
    let (far, far_ended) = endless();
    let mut stream = connect(client.at, far).unwrap();
    stream.read_exact(&mut [0; 1000]).unwrap();
    let _idle = idle(&client);
    wires.iter().for_each(|wire| wire.cut(true));
    client.stop();
    thread::sleep(Duration::from_millis(200));
    wires.iter().for_each(|wire| wire.cut(false));
    let mut config = keys.client_config(&[server.at]);
    for (path, wire) in config.path.iter_mut().zip(&wires) {
        path.remote = Some(wire.near);
    }
    let start = Instant::now();
    let client = Agent::client(config);
    client.until_paths_work();
    server.until("over", |status| status.connections == 0);
    far_ended.recv().unwrap();
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    exchange(client.at, echo(), 300_000, 1);
}

/// As by `tabane doctor -c` while the client runs: its paths come back, but what it had connected
/// does not. Who only reads says nothing that could be answered by a reset.
#[test]
fn a_second_client_with_the_same_keys_leaves_no_reader_hanging() {
    let keys = Keys::new();
    let (client, server, wires) = wired_by(&keys, "127.0.0.1");
    let idle = until_reset_idle(idle(&client));
    let mut second = Agent::client(keys.client_config(&[server.at]));
    second.until_paths_work();
    second.stop();
    let start = Instant::now();
    let took = idle.join().unwrap().saturating_duration_since(start);
    assert!(took < Duration::from_secs(5), "{took:?}");
    // A reset of that one connection may be there before the client knows that all are over.
    client.until("knows", |_| happened(&client, "server-restarted"));
    client.until_paths_work();
    exchange(client.at, echo(), 300_000, 1);
    // Nothing is late for so long.
    server.until("warns", |_| happened(&server, "keys-shared"));
    drop(wires);
}

/// Without any path for longer than retransmission steps grow: the return of a path cuts the step
/// short, and a download goes on at once.
#[test]
#[ignore = "takes two minutes"]
fn a_download_goes_on_at_once_after_all_paths_were_dead_for_110_s() {
    let (client, _server, wires) = wired_by(&Keys::new(), "127.0.0.1");
    let (far, _ended) = endless();
    let mut download = connect(client.at, far).unwrap();
    download.set_read_timeout(None).unwrap();
    download.read_exact(&mut [0; 100_000]).unwrap();
    wires.iter().for_each(|wire| wire.cut(true));
    let reader = thread::spawn(move || {
        let (mut gap, mut last) = (Duration::ZERO, Instant::now());
        let mut resumed = last;
        while gap < Duration::from_secs(100) {
            assert!(download.read(&mut [0; 65_536]).unwrap() > 0, "the connection has ended");
            resumed = Instant::now();
            gap = resumed - last;
            last = resumed;
        }
        resumed
    });
    thread::sleep(Duration::from_secs(110));
    let back = Instant::now();
    wires.iter().for_each(|wire| wire.cut(false));
    let took = reader.join().unwrap() - back;
    println!("goes on after {took:?}");
    assert!(took < Duration::from_secs(4), "{took:?}");
}
