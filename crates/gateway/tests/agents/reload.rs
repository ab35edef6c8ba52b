//! Configurations that are read again: what is said to be taken is in force.

use super::bed::{Agent, Keys, associate, connect, echo, exchange};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;
use tabane_config::quantity::Time;
use tabane_engine::policy::Spec;
use tabane_gateway::config::{ClientConfig, Policies, ServerConfig};
use tabane_gateway::keys::{self, Key};
use tabane_gateway::request_channel::{Answer, Request};

fn any_port() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

/// Gives an agent another configuration; what it says.
fn reload<C>(agent: &Agent, file: &Arc<Mutex<C>>, change: impl FnOnce(&mut C)) -> Answer {
    change(&mut file.lock().unwrap());
    agent.request_channel.ask(Request::Reload).unwrap()
}

fn client_of(keys: &Keys, servers: &[SocketAddr]) -> (Agent, Arc<Mutex<ClientConfig>>) {
    let file = Arc::new(Mutex::new(keys.client_config(servers)));
    (Agent::client_of(&file), file)
}

fn server_of(config: ServerConfig) -> (Agent, Arc<Mutex<ServerConfig>>) {
    let file = Arc::new(Mutex::new(config));
    (Agent::server_of(&file), file)
}

#[test]
fn front_ends_are_where_the_file_says_and_ask_for_its_login() {
    let keys = Keys::new();
    let server = Agent::server(keys.server_config(any_port()));
    let (client, file) = client_of(&keys, &[server.at]);
    client.until_paths_work();
    let far = echo();
    let mut open = connect(client.at, far).unwrap();
    let talk = |listener: SocketAddr| thread::spawn(move || connect(listener, far)).join();
    // Without the login there is no connection any more.
    let login = |config: &mut ClientConfig| config.front.login = Some("me:secret".into());
    assert_eq!(reload(&client, &file, login), Answer::Done);
    assert!(talk(client.at).is_err(), "it took no login");
    // Somewhere else, and nowhere else.
    let taken = TcpListener::bind(any_port()).unwrap();
    let free = TcpListener::bind(any_port()).unwrap().local_addr().unwrap();
    let moves = |config: &mut ClientConfig| {
        (config.front.socks5, config.front.login) = (vec![free], None);
    };
    assert_eq!(reload(&client, &file, moves), Answer::Done);
    exchange(free, far, 10_000, 1);
    assert!(std::net::TcpStream::connect(client.at).is_err(), "the old one");
    // What cannot be is said, and all is as it was.
    let also = |config: &mut ClientConfig| config.front.http = vec![taken.local_addr().unwrap()];
    let Answer::Error(why) = reload(&client, &file, also) else { panic!("it listens there") };
    assert!(why.contains("cannot listen on") && why.contains("[front]"), "{why}");
    exchange(free, far, 10_000, 2);
    // What is open stays.
    use std::io::{Read, Write};
    open.write_all(b"still").unwrap();
    open.read_exact(&mut [0; 5]).unwrap();
}

#[test]
fn a_server_takes_other_limits_and_policies() {
    let keys = Keys::new();
    let mut config = keys.server_config(any_port());
    config.limits.connections = 2;
    let (server, file) = server_of(config);
    let client = Agent::client(keys.client_config(&[server.at]));
    client.until_paths_work();
    let far = echo();
    let mut open: Vec<_> = (0..2).map(|_| connect(client.at, far).unwrap()).collect();
    assert_eq!(connect(client.at, far).unwrap_err(), 2);
    let more = |config: &mut ServerConfig| config.limits.connections = 3;
    assert_eq!(reload(&server, &file, more), Answer::Done);
    open.push(connect(client.at, far).unwrap());
    assert_eq!(connect(client.at, far).unwrap_err(), 2);
    // Of connections to come; what both agents show of one is what is in force.
    let policies = |config: &mut ServerConfig| {
        config.limits.connections = 4;
        config.down =
            Policies { scheduler: Some(Spec::named("roundrobin").into()), ..Policies::default() };
    };
    assert_eq!(reload(&server, &file, policies), Answer::Done);
    open.push(connect(client.at, far).unwrap());
    let shown = |agent: &Agent| {
        let all = agent.connections();
        all.into_iter().map(|conn| conn.policies[0].clone()).collect::<Vec<_>>()
    };
    assert_eq!(shown(&server).iter().filter(|shown| *shown == "roundrobin").count(), 1);
    assert!(shown(&client).iter().all(|shown| !shown.is_empty() && shown != "roundrobin"));
    // Fewer than there are: none ends, and none is added.
    let fewer = |config: &mut ServerConfig| config.limits.connections = 1;
    assert_eq!(reload(&server, &file, fewer), Answer::Done);
    assert_eq!(connect(client.at, far).unwrap_err(), 2);
    assert_eq!(server.status().connections, 4);
}

#[test]
fn a_client_goes_to_the_server_that_the_file_names() {
    let keys = Keys::new();
    let other = Keys { server: Key::random_private().unwrap(), secret: keys.secret.clone() };
    let servers = [&keys, &other].map(|keys| Agent::server(keys.server_config(any_port())));
    let (client, file) = client_of(&keys, &[servers[0].at]);
    client.until_paths_work();
    let far = echo();
    exchange(client.at, far, 1000, 1);
    let moves = |config: &mut ClientConfig| {
        config.server[0].addresses = vec![servers[1].at.to_string()];
        config.server[0].public_key = keys::encode(&other.server.public());
    };
    assert_eq!(reload(&client, &file, moves), Answer::Done);
    client.until("there", |s| s.paths.iter().all(|path| path.remote == Some(servers[1].at)));
    client.until_paths_work();
    exchange(client.at, far, 1000, 2);
    assert_eq!(servers[1].status().connections_total, 1);
    // Another address of the same server, without which nothing would work.
    let gone = |config: &mut ClientConfig| {
        let entry = config.server[0].clone();
        config.server.insert(0, entry);
        config.server[0].addresses = vec![servers[0].at.to_string()];
        config.server[0].public_key = keys::encode(&keys.server.public());
    };
    assert_eq!(reload(&client, &file, gone), Answer::Done);
    // It is the second one now, and then the only one again.
    exchange(client.at, far, 1000, 3);
    assert_eq!(servers[1].status().connections_total, 2);
    assert_eq!(reload(&client, &file, |config| drop(config.server.remove(1))), Answer::Done);
    client.until("back", |s| s.paths.iter().all(|path| path.remote == Some(servers[0].at)));
    client.until_paths_work();
    exchange(client.at, far, 1000, 4);
    assert_eq!(servers[0].status().connections_total, 2);
}

#[test]
fn a_path_takes_another_mtu_and_interval_of_probes() {
    let keys = Keys::new();
    let server = Agent::server(keys.server_config(any_port()));
    let (client, file) = client_of(&keys, &[server.at]);
    client.until_paths_work();
    client.until("its size found", |status| status.paths[0].mtu > 1300);
    let set = |config: &mut ClientConfig| {
        config.path[0].mtu = Some(1300);
        config.path[0].probe = Some(Time(tabane_engine::Duration::from_millis(20)));
    };
    assert_eq!(reload(&client, &file, set), Answer::Done);
    client.until("as the file says", |status| status.paths[0].mtu == 1300);
    let _open = connect(client.at, echo()).unwrap();
    thread::sleep(Duration::from_millis(300));
    let packets = |path: usize| client.status().paths[path].tx_packets;
    let before = [packets(0), packets(1)];
    thread::sleep(Duration::from_secs(2));
    let probes = [packets(0) - before[0], packets(1) - before[1]];
    assert!(probes[0] > 3 * probes[1].max(4), "{probes:?}");
    let unset = |config: &mut ClientConfig| config.path[0].mtu = None;
    assert_eq!(reload(&client, &file, unset), Answer::Done);
    client.until("its size found again", |status| status.paths[0].mtu > 1300);
}

/// A program asks for a relay, sends much and is gone: others get nothing of it, and the agent has
/// nothing to do any more.
#[test]
fn an_association_that_has_ended_leaves_nothing() {
    let keys = Keys::new();
    let server = Agent::server(keys.server_config(any_port()));
    let client = Agent::client(keys.client_config(&[server.at]));
    client.until_paths_work();
    let far = UdpSocket::bind(any_port()).unwrap();
    far.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let head = [&[0, 0, 0, 1, 127, 0, 0, 1][..], &far.local_addr().unwrap().port().to_be_bytes()];
    let datagram = [&head.concat()[..], b"x"].concat();
    let socket = UdpSocket::bind(any_port()).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    let (first, relay) = associate(client.at);
    socket.send_to(&datagram, relay).unwrap();
    let (_, earlier) = far.recv_from(&mut [0; 10]).unwrap();
    for _ in 0..20 {
        for _ in 0..200 {
            socket.send_to(&datagram, relay).unwrap();
        }
        thread::sleep(Duration::from_millis(1));
    }
    drop(first);
    client.until("no association", |status| status.udp_flows == 0);
    let (_second, relay) = associate(client.at);
    socket.send_to(&datagram, relay).unwrap();
    let mut now = earlier;
    while now == earlier {
        (_, now) = far.recv_from(&mut [0; 10]).unwrap();
    }
    far.send_to(b"for who was there before", earlier).unwrap();
    assert!(socket.recv(&mut [0; 100]).is_err(), "somebody else's");
    far.send_to(b"for who is there", now).unwrap();
    socket.recv(&mut [0; 100]).unwrap();
    let before = client.cpu();
    thread::sleep(Duration::from_millis(500));
    let spent = client.cpu() - before;
    assert!(spent < Duration::from_millis(250), "it is busy: {spent:?}");
}
