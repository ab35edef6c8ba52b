//! Servers that forward: what programs see of the far end is what they see without them.

use super::bed::{
    Agent, Keys, LONG, ask, associate, connect, datagram_echo, echo, exchange, pattern, read_late,
    serve, socks,
};
use super::wire::Wire;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, UdpSocket};
use std::thread;
use std::time::Duration;
use tabane_engine::policy::Spec;
use tabane_gateway::config::{AccessConfig, NextConfig, Policies};
use tabane_gateway::model::Role;
use tabane_gateway::request_channel::{Answer, Request};

/// A client and the servers in their order, the last of which connects on.
struct Chain {
    client: Agent,
    servers: Vec<Agent>,
}

const ANYWHERE: &str = "127.0.0.1:0";

/// A server; `next` is told what it forwards to.
fn server(keys: &Keys, allow: &[&str], next: Option<NextConfig>) -> Agent {
    let allow = allow.iter().map(ToString::to_string).collect();
    let access = AccessConfig { allow, ..AccessConfig::default() };
    let config = keys.server_config(ANYWHERE.parse().unwrap());
    Agent::server(tabane_gateway::config::ServerConfig { access, next, ..config })
}

impl Chain {
    /// So many servers.
    fn of(count: usize) -> Self {
        let mut servers = Vec::new();
        let mut keys = Keys::new();
        // The last one is choosier than those before it.
        servers.push(server(&keys, &["127.0.0.1"], None));
        for _ in 1..count {
            let mut next = keys.next_config(&[servers[0].at]);
            let between = || Policies {
                scheduler: Some(Spec::named("minrtt").into()),
                congestion: Some(Spec::named("ghstcp").into()),
                ..Policies::default()
            };
            (next.up, next.down) = (between(), between());
            keys = Keys::new();
            servers.insert(0, server(&keys, &["127.0.0.1", "127.0.0.2"], Some(next)));
        }
        let client = Agent::client(keys.client_config(&[servers[0].at]));
        client.until_paths_work();
        servers.iter().for_each(|server| {
            server.until_paths_work();
        });
        Self { client, servers }
    }

    fn is_over(&self) {
        self.client.until("all over", |status| status.connections == 0);
        for server in &self.servers {
            server.until("all over", |status| status.connections == 0);
        }
    }
}

#[test]
fn a_chain_carries_what_programs_send() {
    let chain = Chain::of(3);
    let (at, far) = (chain.client.at, echo());
    let threads: Vec<_> = (0..8)
        .map(|i| thread::spawn(move || exchange(at, far, 400_000 + i * 10_001, i as u32)))
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    chain.is_over();
    for server in &chain.servers[..2] {
        let paths = server.status().paths;
        let next: Vec<_> = paths.iter().filter(|path| path.name.starts_with("next/")).collect();
        assert_eq!(next.len(), 2, "{paths:#?}");
        let sent: u64 = next.iter().map(|path| path.tx_bytes).sum();
        assert!(sent > 3_200_000, "{next:#?}");
    }
    let totals: Vec<u64> =
        chain.servers.iter().map(|server| server.status().connections_total).collect();
    assert_eq!(totals, [8, 8, 8]);
}

#[test]
fn refusals_come_back_from_the_end_of_a_chain() {
    let chain = Chain::of(2);
    let closed = TcpListener::bind(ANYWHERE).unwrap().local_addr().unwrap();
    assert_eq!(connect(chain.client.at, closed).unwrap_err(), 5);
    // Allowed by the first server, not by the last.
    assert_eq!(connect(chain.client.at, "127.0.0.2:80".parse().unwrap()).unwrap_err(), 2);
    // Not even by the first.
    assert_eq!(connect(chain.client.at, "10.0.0.1:80".parse().unwrap()).unwrap_err(), 2);
    assert_eq!(chain.client.status().refused_total, 3);
    // A SYN that is sent again, since the answer was late, is refused again.
    let last = chain.servers[1].status();
    assert_eq!(last.connections_total, last.refused_total);
    assert!(last.refused_total >= 2, "{}", last.refused_total);
    chain.is_over();
}

#[test]
fn ends_and_resets_pass_through_a_chain() {
    let chain = Chain::of(2);
    // The far end finishes at once, and then counts what it gets.
    let far = serve(|mut stream| {
        stream.write_all(b"goodbye").unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).unwrap();
        assert_eq!(rest.len(), 200_000);
    });
    let mut stream = connect(chain.client.at, far).unwrap();
    let mut first = Vec::new();
    stream.read_to_end(&mut first).unwrap();
    assert_eq!(first, b"goodbye");
    stream.write_all(&pattern(200_000, 7)).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    chain.is_over();

    let far = serve(|stream| {
        socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
        (&stream).read_exact(&mut [0]).unwrap();
    });
    let mut stream = connect(chain.client.at, far).unwrap();
    stream.write_all(b"x").unwrap();
    let error = stream.read(&mut [0; 16]).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    chain.is_over();

    // And towards the far end.
    let (told, heard) = std::sync::mpsc::channel();
    let far = serve(move |mut stream| {
        stream.set_read_timeout(Some(LONG)).unwrap();
        let mut rest = Vec::new();
        told.send(stream.read_to_end(&mut rest).map_err(|error| error.kind())).unwrap();
    });
    let stream = connect(chain.client.at, far).unwrap();
    socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
    drop(stream);
    assert_eq!(heard.recv_timeout(LONG).unwrap(), Err(std::io::ErrorKind::ConnectionReset));
    chain.is_over();
}

/// A reader that does not read stops the sender at the other end of the chain.
#[test]
fn back_pressure_passes_through_a_chain() {
    let chain = Chain::of(2);
    read_late(chain.client.at);
    chain.is_over();
}

#[test]
fn datagrams_and_names_pass_through_a_chain() {
    let chain = Chain::of(3);
    let far = datagram_echo();
    let (_control, relay) = associate(chain.client.at);
    let socket = UdpSocket::bind(ANYWHERE).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    let port = far.port().to_be_bytes();
    let by_address = [&[1, 127, 0, 0, 1][..], &port].concat();
    let by_name = [&[3, 9][..], b"localhost", &port].concat();
    // The longest does not fit into one packet of a tunnel.
    for (head, len) in [(&by_address, 5), (&by_name, 100), (&by_address, 8_000)] {
        let payload = pattern(len, 3);
        let back = ask(&socket, relay, head, &payload);
        assert!(back[0] == b'>' && back[1..] == payload, "{len} bytes");
    }
    // Two in the first server: the program's, and the client's questions for names.
    assert_eq!(chain.servers[0].status().udp_flows, 2);
    let far = echo().port().to_be_bytes();
    let mut stream = socks(chain.client.at, &[&[3, 9][..], b"localhost", &far].concat()).unwrap();
    stream.write_all(b"hello").unwrap();
    let mut back = [0; 5];
    stream.read_exact(&mut back).unwrap();
    assert_eq!(&back, b"hello");
}

#[test]
fn a_path_to_the_next_server_may_die_and_the_next_server_come_late() {
    let (outer, inner) = (Keys::new(), Keys::new());
    // For the last server, which is not there yet: no other socket has this address.
    let at = UdpSocket::bind("127.0.77.1:0").unwrap().local_addr().unwrap();
    let wires = [Wire::to(at), Wire::to(at)];
    let mut next = inner.next_config(&[at]);
    for (path, wire) in next.path.iter_mut().zip(&wires) {
        path.remote = Some(wire.near);
    }
    let entry = server(&outer, &["127.0.0.1"], Some(next));
    let client = Agent::client(outer.client_config(&[entry.at]));
    client.until_paths_work();
    let (listener, far) = (client.at, echo());
    let early = thread::spawn(move || exchange(listener, far, 10_000, 1));
    thread::sleep(Duration::from_millis(300));
    let _exit = Agent::server(inner.server_config(at));
    early.join().unwrap();
    entry.until_paths_work();
    let mut stream = connect(client.at, far).unwrap();
    for round in 0..6_u8 {
        wires[0].cut(round % 2 == 1);
        stream.write_all(&[round; 50_000]).unwrap();
        let mut back = vec![0; 50_000];
        stream.read_exact(&mut back).unwrap();
        assert!(back.iter().all(|byte| *byte == round));
    }
    let happened = |entry: &Agent| match entry.request_channel.ask(Request::Events { since: 0 }) {
        Ok(Answer::Events(all)) => all,
        other => panic!("{other:?}"),
    };
    let told = happened(&entry);
    let works = |h: &&tabane_gateway::model::AgentEvent| {
        h.kind.name() == "path-up" && h.path.as_deref() == Some("next/one")
    };
    assert!(told.iter().any(|h| works(&h)), "{told:#?}");
    // Such a path is the server's own to change; for others it asks the client that has them.
    wires[0].cut(false);
    let set = |path: &str| {
        let (path, role) = (path.to_owned(), Some(Role::Never));
        entry.request_channel.ask(Request::SetPath { path, role, cap_bps: None }).unwrap()
    };
    assert_eq!(set("next/one"), Answer::Done);
    entry.until("never used", |status| {
        let path = status.paths.iter().find(|path| path.name == "next/one");
        path.is_some_and(|path| path.role == Role::Never)
    });
    for nobodys in ["test/9", "nobody/0", "test"] {
        assert!(matches!(set(nobodys), Answer::Error(_)), "{nobodys}");
    }
    exchange(client.at, far, 100_000, 2);
}

#[test]
fn a_configuration_of_the_next_server_that_cannot_be_is_refused() {
    let keys = Keys::new();
    let mut next = keys.next_config(&["127.0.0.1:9".parse().unwrap()]);
    next.secret = Some("no key".into());
    let mut config = keys.server_config(ANYWHERE.parse().unwrap());
    config.next = Some(next);
    let error = tabane_gateway::server::Server::new(config, None).err().unwrap().to_string();
    assert!(error.starts_with("[next]: "), "{error}");
}
