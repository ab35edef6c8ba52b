//! The verbs that ask a running agent, as built, against a drawn one.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)] // Helpers of tests; real clock.

#[path = "watch/agent.rs"]
mod agent;
mod binary;
#[path = "watch/ends.rs"]
mod ends;
#[path = "../crates/gateway/tests/fake/mod.rs"]
mod fake;
#[path = "watch/joined.rs"]
mod joined;
mod place;
#[path = "watch/real.rs"]
mod real;

use agent::Agent;
use serde_json::json;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::Stdio;
use tabane_gateway::model::Role;
use tabane_gateway::request_channel::Request;

#[test]
fn status_says_what_each_path_does_and_why() {
    let agent = Agent::start();
    let text = agent.ok(&["status"]);
    for part in [
        "client home, version 0.1.0, running for 2 h 15 min",
        "server 203.0.113.5:51820",
        "connections 2 (341 since the start, 3 refused), UDP flows 4",
        "fibre",
        "93.40 Mbit/s",
        "12.4 ms",
        "idle: backup, and fibre works",
        "interface wlan0 is not there",
        "duplicates removed 17, drop no route 2\n",
    ] {
        assert!(text.contains(part), "no '{part}' in\n{text}");
    }
    assert!(!text.contains("malformed"), "what never happened: {text}");
    let json = agent.json(&["status", "--json"]);
    assert_eq!(json["counters"][2], json!(["malformed", 0]), "programs get everything");
    assert_eq!(json["name"], "home");
    assert_eq!(json["paths"][1]["reason"], "idle: backup, and fibre works");
}

/// At a server: a path is named by whose it is, once.
#[test]
fn a_server_names_each_path_by_its_client() {
    let agent = Agent::start();
    agent.fake.world().status.agent = "server".into();
    for path in &mut agent.fake.world().status.paths {
        (path.name, path.client) = (path.id.to_string(), Some("home".into()));
    }
    for verb in [&["status"][..], &["path", "list"]] {
        let text = agent.ok(verb);
        assert!(text.contains("home/0") && !text.contains("home/home"), "{text}");
    }
}

#[test]
fn paths_are_listed_and_set() {
    let agent = Agent::start();
    let text = agent.ok(&["path", "list"]);
    for part in ["enp3s0", "198.51.100.7:40001", "18.40 GB", "1372", "20.00 Mbit/s"] {
        assert!(text.contains(part), "no '{part}' in\n{text}");
    }
    let said = agent.run(&["path", "set", "lte", "--role", "primary", "--cap", "5Mbps"]);
    assert_eq!((said.code, said.err.as_str()), (Some(0), "lte: role primary, cap 5Mbps\n"));
    agent.ok(&["path", "set", "lte", "--cap", "none"]);
    let orders = agent.fake.world().orders.clone();
    let set = |role, cap_bps| Request::SetPath { path: "lte".into(), role, cap_bps };
    assert_eq!(orders, [set(Some(Role::Primary), Some(5_000_000)), set(None, Some(0))]);
    let json = agent.json(&["path", "list", "--json"]);
    assert_eq!(json["paths"][1]["role"], "primary");
    assert_eq!(json["paths"][1]["cap_bps"], json!(null));

    let unknown = agent.run(&["path", "set", "dsl", "--role", "never"]);
    assert_eq!((unknown.code, unknown.err.as_str()), (Some(1), "tabane: no path 'dsl'\n"));
    for wrong in [
        &["path", "set", "lte"][..],
        &["path", "set", "lte", "--role", "boss"],
        &["path", "set", "lte", "--cap", "5"],
    ] {
        assert_eq!(agent.run(wrong).code, Some(2), "{wrong:?}");
    }
}

#[test]
fn connections_are_listed_steered_and_ended() {
    let agent = Agent::start();
    let text = agent.ok(&["conn", "list"]);
    for part in ["mirror.example.org:443", "401.00 MB", "ecf cubic own", "49.0 ms"] {
        assert!(text.contains(part), "no '{part}' in\n{text}");
    }
    agent.ok(&["policy", "set", "scheduler", "redundant", "--conn", "17"]);
    let json = agent.json(&["conn", "list", "--json"]);
    assert_eq!(json["connections"][0]["policies"][0], "redundant");
    agent.ok(&["conn", "close", "17"]);
    assert_eq!(agent.run(&["conn", "close", "17"]).err, "tabane: no connection 17\n");
    agent.ok(&["reload"]);
    assert_eq!(agent.fake.world().orders.last(), Some(&Request::Reload));
    assert_eq!(agent.run(&["policy", "set", "colour", "red"]).code, Some(2));
}

#[test]
fn monitor_shows_what_happened_and_what_happens() {
    let agent = Agent::start();
    let past = agent.ok(&["monitor", "--end"]);
    let last = past.lines().last().unwrap();
    assert_eq!(
        last,
        "2026-09-21 14:13:24.000     4 path-down      train is down: interface wlan0 is not there"
    );
    assert_eq!(agent.ok(&["monitor", "--end", "--since", "3"]).lines().count(), 1);

    let mut follow = agent.command(&["monitor", "--json"]).stdout(Stdio::piped()).spawn().unwrap();
    // It follows once it has asked; what happens is put behind that by writing until it shows.
    let mut lines = BufReader::new(follow.stdout.take().unwrap()).lines();
    let world = std::sync::atomic::AtomicBool::new(true);
    let line = std::thread::scope(|scope| {
        scope.spawn(|| {
            while world.load(std::sync::atomic::Ordering::Relaxed) {
                agent.fake.world().happened("path-up", Some("train"), "train is back");
                std::thread::sleep(std::time::Duration::from_millis(50));
            }
        });
        let line = lines.next().unwrap().unwrap();
        world.store(false, std::sync::atomic::Ordering::Relaxed);
        line
    });
    follow.kill().unwrap();
    follow.wait().unwrap();
    let event: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(event["kind"], "path-up");
    assert!(event["seq"].as_u64() > Some(4), "{event}");
}

#[test]
fn without_an_agent_the_remedy_is_named() {
    let agent = Agent::nowhere();
    let said = agent.run(&["status"]);
    assert_eq!(said.code, Some(1));
    assert!(said.err.starts_with("tabane: no agent is running: looked in "), "{}", said.err);
    assert!(said.err.contains("--socket PATH"), "{}", said.err);
    let said = agent.run(&["status", "--agent", "office"]);
    assert!(said.err.starts_with("tabane: no agent 'office' is running"), "{}", said.err);
    let said = agent.run(&["status", "--socket", "/nowhere/x.sock"]);
    assert!(said.err.contains("no agent answers at /nowhere/x.sock"), "{}", said.err);
}

/// `tabane top` in a terminal: what it wrote until it ended, after `keys` once `fibre` shows.
fn top(agent: &Agent, keys: &str) -> (Option<i32>, String) {
    let socket = agent.socket().display().to_string();
    let mut script = binary::by(|tabane| {
        let line = format!("stty cols 80 rows 24; exec {tabane} top --socket {socket}");
        let mut script = std::process::Command::new("script");
        script.args(["--quiet", "--return", "--command", &line, "/dev/null"]);
        script
    });
    let mut script = script
        .env("TERM", "xterm-256color")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = script.stdin.take().unwrap();
    let mut stdout = script.stdout.take().unwrap();
    let (mut seen, mut buffer, mut pressed) = (Vec::new(), [0; 4096], false);
    loop {
        let n = stdout.read(&mut buffer).unwrap();
        if n == 0 {
            break;
        }
        seen.extend_from_slice(&buffer[..n]);
        if !pressed && String::from_utf8_lossy(&seen).contains("wlan0 is not there") {
            stdin.write_all(keys.as_bytes()).unwrap();
            pressed = true;
        }
    }
    (script.wait().unwrap().code(), String::from_utf8_lossy(&seen).into_owned())
}

#[test]
fn top_gives_the_terminal_back() {
    let agent = Agent::start();
    for keys in ["q", "\u{3}"] {
        let (code, text) = top(&agent, keys);
        assert_eq!(code, Some(0), "{text}");
        let (taken, given) = (text.find("\u{1b}[?1049h"), text.rfind("\u{1b}[?1049l"));
        assert!(taken.is_some() && given > taken, "{text:?}");
    }
    // A link down, and its role.
    let (code, _) = top(&agent, "jp4q");
    assert_eq!(code, Some(0));
    let order = Request::SetPath { path: "lte".into(), role: Some(Role::Never), cap_bps: None };
    assert_eq!(agent.fake.world().orders, [order]);
}

#[test]
fn top_needs_a_terminal_or_json() {
    let agent = Agent::start();
    let said = agent.run(&["top"]);
    assert_eq!(said.code, Some(2));
    assert!(said.err.contains("--json"), "{}", said.err);
    let mut lines = agent.command(&["top", "--json"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::new(lines.stdout.take().unwrap()).lines();
    for _ in 0..2 {
        let status: serde_json::Value =
            serde_json::from_str(&out.next().unwrap().unwrap()).unwrap();
        assert_eq!(status["name"], "home");
    }
    lines.kill().unwrap();
    lines.wait().unwrap();
}

#[test]
fn doctor_says_what_is_wrong_with_a_running_agent() {
    let agent = Agent::start();
    let said = agent.run(&["doctor"]);
    assert_eq!(said.code, Some(1), "{}", said.out);
    for part in ["BAD  train", "interface wlan0 is not there", "plug it in", "2 of 3 links work"] {
        assert!(said.out.contains(part), "no '{part}' in\n{}", said.out);
    }
    assert_eq!(said.err, "tabane: one thing is wrong\n");
    agent.fake.world().status.paths.pop();
    let json = agent.json(&["doctor", "--json"]);
    assert_eq!(json["ok"], true, "{json}");
    let nowhere = Agent::nowhere().run(&["doctor"]);
    assert_eq!(nowhere.code, Some(2));
}

/// The configuration is tried: nothing answers at the server's address.
#[test]
fn doctor_tries_a_configuration_when_no_agent_runs() {
    let agent = Agent::nowhere();
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let config = format!(
        "name = \"home\"\nsecret = \"{KEY}\"\n[[server]]\naddresses = [\"{}\"]\n\
         public_key = \"{KEY}\"\n[[path]]\ninterface = \"nosuch0\"\n\
         [[path]]\nname = \"here\"\nsource = \"127.0.0.1\"\n",
        silent.local_addr().unwrap()
    );
    let file = agent.write("client.toml", &config);
    let said = agent.run(&["doctor", "-c", &file]);
    assert_eq!(said.code, Some(1), "{}{}", said.out, said.err);
    for part in ["BAD  nosuch0", "is not there", "BAD  here", "does not answer", "0 of 2 links"] {
        assert!(said.out.contains(part), "no '{part}' in\n{}\n{}", said.out, said.err);
    }
}

/// The base point of Curve25519: a valid key of nobody.
const KEY: &str = "CQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
