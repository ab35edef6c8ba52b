//! What agents tell each other, and what changes while they run.

use super::bed::{Agent, Keys, connect, echo, exchange, pair, pattern, serve, socks};
use super::wire::Wire;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex};
use tabane_config::quantity::Time;
use tabane_engine::policy::Spec;
use tabane_gateway::config::{Policies, Rule};
use tabane_gateway::model::{PathState, PathStatus, Role, Status};
use tabane_gateway::request_channel::{Answer, Request};

fn count(status: &Status, name: &str) -> u64 {
    status.counters.iter().find(|(known, _)| known == name).map_or(0, |(_, count)| *count)
}

#[test]
fn the_server_says_where_paths_come_from_and_what_time_it_is() {
    let (client, _server, _) = pair();
    let as_it_is = |path: &PathStatus| path.seen_as.is_some() && path.seen_as == path.local;
    client.until("told", |s| s.paths.iter().all(as_it_is) && s.clock_ahead_ms.is_some());
    // One clock is the other.
    let ahead = client.status().clock_ahead_ms.unwrap();
    assert!(ahead.abs() < 5_000.0, "{ahead}");
}

#[test]
fn what_changes_addresses_on_the_way_is_seen() {
    let keys = Keys::new();
    let server = Agent::server(keys.server_config("127.0.0.1:0".parse().unwrap()));
    let wire = Wire::to(server.at);
    let mut config = keys.client_config(&[server.at]);
    config.path[0].remote = Some(wire.near);
    let client = Agent::client(config);
    client.until("told", |s| s.paths.iter().all(|path| path.seen_as.is_some()));
    let paths = client.status().paths;
    assert_ne!(paths[0].seen_as, paths[0].local);
    assert_eq!(paths[1].seen_as, paths[1].local);
}

/// What was accepted would make every connection to come fail.
#[test]
fn a_policy_that_does_not_exist_is_refused_though_nothing_is_open() {
    let (client, server, _) = pair();
    let set = |agent: &Agent, policy: &str, spec: &str, connection| {
        let (policy, spec) = (policy.to_owned(), spec.to_owned());
        agent.request_channel.ask(Request::SetPolicy { policy, spec, connection }).unwrap()
    };
    for agent in [&client, &server] {
        for (policy, spec, said) in [
            ("scheduler", "XYZ", "unknown scheduler 'XYZ'"),
            ("scheduler", "minrt", "did you mean 'minrtt'?"),
            ("scheduler", "minrtt:nothing=1", "no parameter 'nothing'"),
            ("congestion", "cubik", "did you mean 'cubic'?"),
            ("egress", "bycast", "did you mean 'bicast'?"),
            ("egress", "bicast:", ""),
            ("congestion", "cubic:beta", "not of the form"),
            ("colour", "red", "no policy"),
        ] {
            match set(agent, policy, spec, None) {
                Answer::Error(error) => {
                    assert!(error.contains(said) && !said.is_empty(), "{error}")
                }
                other => assert!(said.is_empty(), "{policy} {spec}: {other:?}"),
            }
        }
    }
    // What was refused is not in force, and what exists is.
    exchange(client.at, echo(), 100_000, 1);
    assert_eq!(set(&client, "scheduler", "roundrobin", None), Answer::Done);
    exchange(client.at, echo(), 100_000, 2);
}

/// Reads so much from a server that sends it.
fn fetch(stream: &mut TcpStream) -> usize {
    let mut got = Vec::new();
    stream.read_to_end(&mut got).unwrap();
    got.len()
}

#[test]
fn rules_by_name_hold_for_what_the_server_sends() {
    let keys = Keys::new();
    let server = Agent::server(keys.server_config("127.0.0.1:0".parse().unwrap()));
    let mut config = keys.client_config(&[server.at]);
    config.rule.push(Rule {
        names: vec!["localhost".into()],
        down: Policies { egress: Some(Spec::named("bicast").into()), ..Policies::default() },
        ..Rule::default()
    });
    let client = Agent::client(config);
    client.until_paths_work();
    let far = serve(|mut stream| {
        stream.write_all(&pattern(1_000_000, 5)).unwrap();
        let _ = stream.shutdown(Shutdown::Write);
        let _ = stream.read(&mut [0]);
    });
    let copies = |client: &Agent| count(&client.status(), "copies_removed");
    assert_eq!(fetch(&mut connect(client.at, far).unwrap()), 1_000_000);
    let by_address = copies(&client);
    let port = far.port().to_be_bytes();
    let mut stream = socks(client.at, &[&[3, 9][..], b"localhost", &port].concat()).unwrap();
    assert_eq!(fetch(&mut stream), 1_000_000);
    let by_name = copies(&client) - by_address;
    // 1 MB is more than 600 packets, each of which comes by both paths.
    assert!(by_address < 100 && by_name > 400, "{by_address} by address, {by_name} by name");
}

#[test]
fn paths_come_and_go_with_the_file_under_a_connection() {
    let keys = Keys::new();
    let server = Agent::server(keys.server_config("127.0.0.1:0".parse().unwrap()));
    let both = keys.client_config(&[server.at]);
    let mut one = both.clone();
    one.path.truncate(1);
    let file = Arc::new(Mutex::new(one.clone()));
    let client = Agent::client_of(&file);
    client.until_paths_work();
    let mut stream = connect(client.at, echo()).unwrap();
    let mut exchange = |seed| {
        let data = pattern(300_000, seed);
        let mut writer = stream.try_clone().unwrap();
        let sent = data.clone();
        let thread = std::thread::spawn(move || writer.write_all(&sent).unwrap());
        let mut back = vec![0; data.len()];
        stream.read_exact(&mut back).unwrap();
        thread.join().unwrap();
        assert!(back == data, "round {seed}");
    };
    let subflows = |client: &Agent| {
        let conns = client.connections();
        assert_eq!(conns.len(), 1, "the same connection");
        // One on a path that is gone waits for it, and carries nothing.
        let works = |path: &str, state: &str| state == "established" && path != "gone";
        let open = conns[0].subflows.iter().filter(|s| works(&s.path, &s.state));
        open.map(|subflow| subflow.path.clone()).collect::<Vec<_>>()
    };
    let reload = |config: &tabane_gateway::config::ClientConfig| {
        *file.lock().unwrap() = config.clone();
        assert_eq!(client.request_channel.ask(Request::Reload).unwrap(), Answer::Done);
    };
    exchange(1);
    assert_eq!(subflows(&client), ["one"]);
    for seed in [2, 4] {
        reload(&both);
        client.until("a path more", |status| status.paths.len() == 2);
        client.until_paths_work();
        client.until("a subflow on it", |_| subflows(&client).len() == 2);
        exchange(seed);
        reload(&one);
        exchange(seed + 1);
        client.until("a path less", |status| status.paths.len() == 1);
        client.until("no subflow on it", |_| subflows(&client) == ["one"]);
        exchange(seed + 10);
    }
}

/// The far end takes what is numbered below the last probe for late, and what a path said last was
/// that it is not used.
#[test]
fn a_path_that_is_there_again_is_used_by_the_server() {
    let keys = Keys::new();
    let server = Agent::server(keys.server_config("127.0.0.1:0".parse().unwrap()));
    let mut both = keys.client_config(&[server.at]);
    let mut one = both.clone();
    one.path.truncate(1);
    both.path[1].probe = Some(Time(tabane_engine::Duration::from_millis(50)));
    let file = Arc::new(Mutex::new(both.clone()));
    let client = Agent::client_of(&file);
    client.until_paths_work();
    let _open = connect(client.at, echo()).unwrap();
    std::thread::sleep(std::time::Duration::from_secs(2));
    let reload = |config: &tabane_gateway::config::ClientConfig| {
        *file.lock().unwrap() = config.clone();
        assert_eq!(client.request_channel.ask(Request::Reload).unwrap(), Answer::Done);
    };
    reload(&one);
    server.until("told that it is gone", |status| status.paths[1].role == Role::Never);
    client.until("a path less", |status| status.paths.len() == 1);
    both.path[1].probe = None;
    reload(&both);
    client.until("a path more", |status| status.paths.len() == 2);
    client.until_paths_work();
    let took = server.until("told that it is back", |s| s.paths[1].role == Role::Primary);
    assert!(took < std::time::Duration::from_secs(2), "{took:?}");
}

/// `docs/watching.md`: until the agent restarts or reads its configuration again.
#[test]
fn what_was_set_ends_with_a_reload_also_of_the_same_file() {
    let keys = Keys::new();
    let server = Agent::server(keys.server_config("127.0.0.1:0".parse().unwrap()));
    let file = Arc::new(Mutex::new(keys.client_config(&[server.at])));
    let client = Agent::client_of(&file);
    client.until_paths_work();
    let set =
        Request::SetPath { path: "two".into(), role: Some(Role::Never), cap_bps: Some(1_000_000) };
    assert_eq!(client.request_channel.ask(set).unwrap(), Answer::Done);
    let path = |status: &Status| (status.paths[1].role, status.paths[1].cap_bps);
    assert_eq!(path(&client.status()), (Role::Never, Some(1_000_000)));
    assert_eq!(client.request_channel.ask(Request::Reload).unwrap(), Answer::Done);
    assert_eq!(path(&client.status()), (Role::Primary, None));
    client.until("used again", |status| status.paths[1].state == PathState::Up);
}

/// What cannot be is said to be so, and what to do.
#[test]
fn a_path_is_not_set_to_what_cannot_be() {
    let (client, server, _) = pair();
    let set = |agent: &Agent, path: &str, role, cap_bps| {
        let request = Request::SetPath { path: path.into(), role, cap_bps };
        match agent.request_channel.ask(request).unwrap() {
            Answer::Error(why) => why,
            other => panic!("{other:?}"),
        }
    };
    let why = set(&client, "one", Some(Role::Backup), Some(1));
    assert!(why.contains("8kbps") && why.contains("never"), "{why}");
    let path = &client.status().paths[0];
    assert_eq!((path.role, path.cap_bps), (Role::Primary, None), "nothing of it");
    let why = set(&server, "test/7", Some(Role::Backup), None);
    assert!(why.contains("there is no path 'test/7'"), "{why}");
}
