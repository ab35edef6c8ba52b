//! What programs see of the far end.

use super::bed::{
    Agent, Keys, ask, associate, connect, datagram_echo, echo, exchange, pair, pattern, read_late,
    serve, socks,
};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, UdpSocket};
use std::thread;
use std::time::Duration;
use tabane_gateway::config::{ClientLimits, ServerConfig};
use tabane_gateway::model::{EventKind, PathStatus, Status};
use tabane_gateway::request_channel::{Answer, Request};

#[test]
fn many_programs_at_a_time_get_back_what_they_send() {
    let (client, server, _) = pair();
    let (at, far) = (client.at, echo());
    let threads: Vec<_> = (0..20)
        .map(|i| {
            thread::spawn(move || {
                exchange(at, far, 300_000 + i * 10_001, i as u32);
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    client.until("all over", |status| status.connections == 0);
    server.until("all over", |status| status.connections == 0);
    let paths = client.status().paths;
    // Of 8 MB: on loopback, which path is sooner is a matter of microseconds.
    assert!(paths.iter().all(|path| path.tx_bytes > 400_000), "both paths carry: {paths:#?}");
}

/// What the agents say to each other is among it.
#[test]
fn both_ends_count_the_same_packets() {
    let (client, server, _) = pair();
    exchange(client.at, echo(), 100_000, 1);
    let sent = |path: &PathStatus| [path.tx_packets, path.tx_bytes];
    let received = |path: &PathStatus| [path.rx_packets, path.rx_bytes];
    server.until("agrees with its client", |status| {
        let all = client.status().paths;
        let mut pairs = all.iter().zip(&status.paths);
        pairs.all(|(c, s)| sent(c) == received(s) && sent(s) == received(c))
    });
}

#[test]
fn a_refusal_reaches_the_program() {
    let (client, _server, _) = pair();
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    assert_eq!(connect(client.at, closed).unwrap_err(), 5);
}

#[test]
fn what_is_not_allowed_is_said_to_be() {
    let (client, server, _) = pair();
    for address in ["10.0.0.1:80", "127.0.0.2:80", "169.254.169.254:80", "10.81.0.31:80"] {
        assert_eq!(connect(client.at, address.parse().unwrap()).unwrap_err(), 2, "{address}");
    }
    for agent in [&client, &server] {
        let status = agent.status();
        let again = refused_again(&status, 4);
        let totals = (status.connections_total, status.refused_total);
        assert_eq!(totals, (4 + again, 4 + again), "{}", status.agent);
    }
    // The journal has the rule, and not where the client wanted to go.
    let Answer::Events(all) = server.request_channel.ask(Request::Events { since: 0 }).unwrap()
    else {
        panic!("no events")
    };
    let told = all.iter().filter(|event| event.kind == EventKind::AccessDenied);
    let told: Vec<_> = told.map(|event| (event.client.as_deref(), &*event.text)).collect();
    let private = "private addresses (10.0.0.0/8) are denied unless allowed, by [access] of this \
                   server";
    let has_it = |(client, text): &(Option<&str>, &str)| {
        *client == Some("test")
            && text.starts_with("connections of test refused (")
            && text.ends_with(private)
    };
    assert!(told.iter().any(has_it), "{told:?}");
    assert_eq!(told.len(), 4, "{told:?}");
}

/// How many more than `asked` the server has refused: a SYN that is sent again, since the answer
/// was late, is refused again.
fn refused_again(status: &Status, asked: u64) -> u64 {
    if status.agent == "server" { status.refused_total.saturating_sub(asked) } else { 0 }
}

#[test]
fn a_program_beyond_the_limit_of_its_client_is_told_at_once() {
    let keys = Keys::new();
    let config = keys.server_config("127.0.0.1:0".parse().unwrap());
    let limits = ClientLimits { connections: 2, ..config.limits.clone() };
    let server = Agent::server(ServerConfig { limits, ..config });
    let client = Agent::client(keys.client_config(&[server.at]));
    client.until_paths_work();
    let far = echo();
    let mut open: Vec<_> = (0..2).map(|_| connect(client.at, far).unwrap()).collect();
    for _ in 0..3 {
        assert_eq!(connect(client.at, far).unwrap_err(), 2);
    }
    for agent in [&client, &server] {
        let status = agent.status();
        let totals = (status.connections_total, status.refused_total);
        let again = refused_again(&status, 3);
        assert_eq!((totals, status.connections), ((5 + again, 3 + again), 2), "{}", status.agent);
    }
    let Answer::Events(all) = server.request_channel.ask(Request::Events { since: 0 }).unwrap()
    else {
        panic!("no events")
    };
    let told = all.iter().find(|event| event.text.contains("(2)")).unwrap();
    assert_eq!((told.kind.clone(), told.client.as_deref()), (EventKind::Exhausted, Some("test")));
    // There is room again, and it is not given to those who were refused.
    open.pop();
    client.until("one is over", |status| status.connections == 1);
    server.until("one is over", |status| status.connections == 1);
    exchange(client.at, far, 1000, 1);
}

#[test]
fn empty_datagrams_arrive_in_both_directions() {
    let (client, _server, _) = pair();
    let far = UdpSocket::bind("127.0.0.1:0").unwrap();
    let at = far.local_addr().unwrap();
    thread::spawn(move || {
        let mut buffer = [0; 100];
        while let Ok((len, from)) = far.recv_from(&mut buffer) {
            let _ = far.send_to(if len == 0 { b"it was empty" } else { b"" }, from);
        }
    });
    let (_control, relay) = associate(client.at);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    let head = [&[1, 127, 0, 0, 1][..], &at.port().to_be_bytes()].concat();
    assert_eq!(ask(&socket, relay, &head, b"anything"), b"");
    assert_eq!(ask(&socket, relay, &head, b""), b"it was empty");
}

#[test]
fn names_are_resolved_at_the_far_end() {
    let (client, _server, _) = pair();
    let far = echo();
    let by_name = |name: &str| {
        let port = far.port().to_be_bytes();
        socks(client.at, &[&[3, name.len() as u8][..], name.as_bytes(), &port].concat())
    };
    let mut stream = by_name("localhost").unwrap();
    stream.write_all(b"hello").unwrap();
    let mut back = [0; 5];
    stream.read_exact(&mut back).unwrap();
    assert_eq!(&back, b"hello");
    // RFC 6761: nobody may give it an address.
    assert_ne!(by_name("nothing.invalid").unwrap_err(), 0);
}

#[test]
fn either_side_may_finish_first() {
    let (client, _server, _) = pair();
    // The far end finishes at once and then counts what it gets.
    let far = serve(|mut stream| {
        stream.write_all(b"goodbye").unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).unwrap();
        assert_eq!(rest.len(), 200_000);
    });
    let mut stream = connect(client.at, far).unwrap();
    let mut first = Vec::new();
    stream.read_to_end(&mut first).unwrap();
    assert_eq!(first, b"goodbye");
    stream.write_all(&pattern(200_000, 7)).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    client.until("over", |status| status.connections == 0);
}

#[test]
fn a_reset_reaches_the_other_side() {
    let (client, server, _) = pair();
    let far = serve(|stream| {
        socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
        let mut one = [0];
        (&stream).read_exact(&mut one).unwrap();
    });
    let mut stream = connect(client.at, far).unwrap();
    stream.write_all(b"x").unwrap();
    let error = stream.read(&mut [0; 16]).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    client.until("over", |status| status.connections == 0);
    server.until("over", |status| status.connections == 0);
}

/// A reader that does not read stops the sender, and neither agent fills up.
#[test]
fn back_pressure_passes_through() {
    let (client, _server, _) = pair();
    read_late(client.at);
}

#[test]
fn datagrams_come_back() {
    let (client, server, _) = pair();
    let far = datagram_echo();
    let (control, relay) = associate(client.at);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    let port = far.port().to_be_bytes();
    let by_address = [&[1, 127, 0, 0, 1][..], &port].concat();
    let by_name = [&[3, 9][..], b"localhost", &port].concat();
    // The longest does not fit into one packet of the tunnel.
    for (head, len) in [(&by_address, 5), (&by_name, 100), (&by_address, 8_000)] {
        let payload = pattern(len, 3);
        let back = ask(&socket, relay, head, &payload);
        assert!(back[0] == b'>' && back[1..] == payload, "{len} bytes");
    }
    assert_eq!((client.status().udp_flows, server.status().udp_flows), (1, 1));
    // The association ends with the connection that asked for it.
    drop(control);
    client.until("no association", |status| status.udp_flows == 0);
}
