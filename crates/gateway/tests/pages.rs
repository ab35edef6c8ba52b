//! The page's interface and the metrics of a drawn agent, over real sockets.

#![allow(clippy::unwrap_used)] // A test that cannot go on shall say where.

#[path = "pages/exposition.rs"]
mod exposition;
#[path = "pages/http.rs"]
mod http;

use crate::fake::{Fake, World};
use exposition::{Family, parse};
use http::{Reply, request};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::io::{Read, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;
use tabane_gateway::model::{DirectionStatus, Role, Status};
use tabane_gateway::request_channel::Request;
use tabane_gateway::web::metrics::{METRICS, text};
use tabane_gateway::web::{Pages, Settings, Token, WebError};

const TOKEN: &str = "0123456789abcdef";
const CHANGE: &str = r#"{"path":"lte","role":"never"}"#;

fn pages(fake: &Fake, token: bool) -> (Pages, SocketAddr) {
    let free = "127.0.0.1:0".parse().ok();
    let token = token.then(|| Token::new(TOKEN).unwrap());
    let settings = Settings { page: free, token, metrics: free };
    let pages = Pages::start(settings, fake.request_channel.clone()).unwrap();
    let at = pages.page().unwrap();
    (pages, at)
}

fn get(at: SocketAddr, path: &str) -> Reply {
    request(at, &format!("GET {path} HTTP/1.1\r\nHost: {at}\r\n"), "")
}

fn post(at: SocketAddr, token: &str, body: &str) -> Reply {
    let auth =
        if token.is_empty() { String::new() } else { format!("Authorization: Bearer {token}\r\n") };
    let head = format!(
        "POST /api/path HTTP/1.1\r\nHost: {at}\r\nContent-Type: application/json\r\n{auth}"
    );
    request(at, &head, body)
}

/// The state once there is a sample; it takes the first one as it starts.
fn state(at: SocketAddr) -> serde_json::Value {
    for _ in 0..100 {
        let reply = get(at, "/api/state");
        assert_eq!(reply.code, 200, "{}", reply.body);
        let state: serde_json::Value = serde_json::from_str(&reply.body).unwrap();
        if state["samples"]["taken"].as_u64() > Some(0) {
            return state;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("no sample");
}

#[test]
fn the_page_and_its_parts_are_served_with_a_policy() {
    let fake = Fake::start();
    let (_pages, at) = pages(&fake, true);
    for (path, kind, part) in [
        ("/", "text/html; charset=utf-8", "app.js"),
        ("/app.js", "text/javascript; charset=utf-8", "api/state"),
        ("/style.css", "text/css; charset=utf-8", "--main"),
    ] {
        let reply = get(at, path);
        assert_eq!((reply.code, reply.header("content-type")), (200, Some(kind)));
        assert!(reply.body.contains(part), "{path}");
        let policy = reply.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none'; script-src 'self';"), "{policy}");
        let elsewhere = ["src=\"http", "href=\"http", "url(http", "@import", "//cdn"];
        assert!(!elsewhere.iter().any(|part| reply.body.contains(part)), "{path} needs a network");
    }
    assert_eq!(get(at, "/nothing").code, 404);
}

#[test]
fn the_state_has_all_that_the_page_shows() {
    let fake = Fake::start();
    let (_pages, at) = pages(&fake, true);
    let state = state(at);
    assert_eq!(state["status"]["paths"][1]["reason"], "idle: backup, and fibre works");
    assert_eq!(state["samples"]["paths"][0]["key"], "fibre");
    assert_eq!(state["samples"]["paths"][2]["rtt"][0], serde_json::Value::Null);
    assert_eq!(state["events"].as_array().unwrap().len(), 4);
    assert_eq!((&state["changes"], &state["error"]), (&true.into(), &serde_json::Value::Null));
    let later: serde_json::Value =
        serde_json::from_str(&get(at, "/api/state?event=3").body).unwrap();
    assert_eq!(later["events"].as_array().unwrap().len(), 1);
    let conns: serde_json::Value = serde_json::from_str(&get(at, "/api/connections").body).unwrap();
    assert_eq!((&conns["open"], conns["connections"][0]["id"].as_u64()), (&2.into(), Some(17)));
}

#[test]
fn a_role_is_switched_with_the_token_only() {
    let fake = Fake::start();
    let (_pages, at) = pages(&fake, true);
    for (token, body, code) in [
        ("", CHANGE, 401),
        ("0123456789abcdeg", CHANGE, 401),
        (TOKEN, r#"{"path":"lte","role":"boss"}"#, 422),
        (TOKEN, "{", 400),
        (TOKEN, r#"{"path":"dsl","role":"never"}"#, 409),
        (TOKEN, CHANGE, 204),
    ] {
        assert_eq!(post(at, token, body).code, code, "{token} {body}");
    }
    let set =
        |path: &str| Request::SetPath { path: path.into(), role: Some(Role::Never), cap_bps: None };
    assert_eq!(fake.world().orders, [set("dsl"), set("lte")]);
    assert_eq!(state(at)["status"]["paths"][1]["role"], "never");
    let long = format!("{CHANGE}{}", " ".repeat(5000));
    assert_eq!(post(at, TOKEN, &long).code, 413);
}

#[test]
fn without_a_token_nothing_can_be_changed() {
    let fake = Fake::start();
    let (_pages, at) = pages(&fake, false);
    assert_eq!(state(at)["changes"], false);
    let refused = post(at, TOKEN, CHANGE);
    assert_eq!(refused.code, 403);
    assert!(refused.body.contains("web_token_file"), "{}", refused.body);
    assert_eq!(fake.world().orders, []);
}

#[test]
fn names_that_lead_here_are_refused() {
    let fake = Fake::start();
    let (_pages, at) = pages(&fake, true);
    for host in ["evil.example", "evil.example:80", "127.0.0.1.evil.example"] {
        let reply = request(at, &format!("GET /api/state HTTP/1.1\r\nHost: {host}\r\n"), "");
        assert_eq!(reply.code, 421, "{host}");
        assert!(!reply.body.contains("fibre"));
    }
    let none = request(at, "GET /api/state HTTP/1.0\r\n", "");
    assert_eq!(none.code, 421);
    let local = format!("GET /api/state HTTP/1.1\r\nHost: localhost:{}\r\n", at.port());
    assert_eq!(request(at, &local, "").code, 200);
}

#[test]
fn addresses_beyond_this_machine_need_a_token() {
    let fake = Fake::start();
    let open = "0.0.0.0:0".parse().ok();
    let without = Settings { page: open, ..Settings::default() };
    let refused = Pages::start(without, fake.request_channel.clone());
    assert!(matches!(refused, Err(WebError::Open(_))), "{refused:?}");
    let token = Some(Token::new(TOKEN).unwrap());
    let with = Settings { page: open, token, metrics: None };
    let pages = Pages::start(with, fake.request_channel.clone()).unwrap();
    let at = SocketAddr::from(([127, 0, 0, 1], pages.page().unwrap().port()));
    assert_eq!(get(at, "/").code, 200);
    assert_eq!(get(at, "/api/state").code, 401, "reading needs it too");
    let head =
        format!("GET /api/state HTTP/1.1\r\nHost: {at}\r\nAuthorization: Bearer {TOKEN}\r\n");
    assert_eq!(request(at, &head, "").code, 200);
}

#[test]
fn an_agent_that_has_ended_is_said_to() {
    let mut fake = Fake::start();
    let (pages, at) = pages(&fake, true);
    state(at);
    fake.end();
    for _ in 0..100 {
        if state(at)["error"] == "the agent has ended" {
            let scrape = get(pages.metrics().unwrap(), "/metrics");
            assert_eq!(scrape.code, 503);
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("the page believes that the agent lives");
}

#[test]
fn metrics_are_served() {
    let fake = Fake::start();
    let (pages, _) = pages(&fake, true);
    let reply = get(pages.metrics().unwrap(), "/metrics");
    assert_eq!(reply.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    assert_eq!(reply.body, text(&fake.world().status));
    assert_eq!(get(pages.metrics().unwrap(), "/api/state").code, 404);
}

#[test]
fn metrics_have_the_values_of_the_status() {
    let mut status = World::home().status;
    status.paths[1].name = "a \"b\"\\\nc".into();
    let families = parse(&text(&status)).unwrap();
    let value = |name: &str, labels: &[(&str, &str)]| {
        let family: &Family = families.iter().find(|f| f.name == name).unwrap();
        let fits = |s: &&exposition::Sample| {
            labels.iter().all(|(k, v)| s.labels.iter().any(|(a, b)| a == k && b == v))
        };
        family.samples.iter().find(fits).unwrap().value
    };
    assert_eq!(value("tabane_path_rtt_seconds", &[("path", "fibre")]), 0.0124);
    assert_eq!(value("tabane_path_loss_ratio", &[("path", "a \"b\"\\\nc")]), 0.005);
    let received = [("path", "fibre"), ("direction", "received")];
    assert_eq!(value("tabane_path_bytes_total", &received), 48_930_000_000.0);
    assert_eq!(value("tabane_path_up", &[("path", "train")]), 0.0);
    assert_eq!(value("tabane_clock_ahead_seconds", &[]), 0.003);
    let decided = [("path", "fibre"), ("reason", "lowest_rtt")];
    assert_eq!(value("tabane_sched_decisions_total", &decided), 412.0);
    assert_eq!(value("tabane_sched_decisions_total", &[("reason", "no_room")]), 31.0);
    assert_eq!(value("tabane_path_reinjected_bytes_total", &[("path", "fibre")]), 70_000.0);
    assert_eq!(value("tabane_reorder_delay_seconds", &[("le", "0.03")]), 6.0);
    assert_eq!(value("tabane_reorder_delay_seconds", &[("le", "+Inf")]), 7.0);
    assert_eq!(value("tabane_fallback_total", &[("reason", "peer_plain")]), 2.0);
    assert_eq!(value("tabane_events_total", &[("event", "duplicates_removed")]), 17.0);
}

/// `tests/pages/metrics.txt` is what dashboards and alerts of users rely on.
#[test]
fn names_types_and_labels_are_those_that_are_promised() {
    let mut client = World::home().status;
    client.paths[0].sending = DirectionStatus {
        delivery_bps: Some(40e6),
        capacity_bps: Some(90e6),
        confidence: 0.8,
        queueing_ms: Some(3.0),
        jitter_ms: Some(0.5),
        loss: Some(0.001),
    };
    let mut server = Status { agent: "server".into(), clients: 1, ..World::home().status };
    for path in &mut server.paths {
        path.client = Some("home".into());
    }
    let mut list = String::new();
    let mut seen = BTreeSet::new();
    for status in [&client, &server] {
        writeln!(list, "# {}", status.agent).unwrap();
        for family in parse(&text(status)).unwrap() {
            let labels: BTreeSet<String> =
                family.samples.iter().flat_map(|s| s.labels.iter().map(|l| l.0.clone())).collect();
            let labels: Vec<String> = labels.into_iter().collect();
            writeln!(list, "{} {} {}", family.name, family.kind, labels.join(",")).unwrap();
            seen.insert(family.name);
        }
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pages/metrics.txt");
    let promised = std::fs::read_to_string(&path).unwrap_or_default();
    if std::env::var_os("WRITE_METRICS").is_some() {
        std::fs::write(&path, &list).unwrap();
    } else {
        assert_eq!(list, promised, "WRITE_METRICS=1 writes the list anew");
    }
    let known: BTreeSet<String> = METRICS.iter().map(|m| m.name.to_owned()).collect();
    assert_eq!(seen, known, "every family has a sample at a client or a server");
}

#[test]
fn the_dashboard_uses_metrics_that_exist() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../grafana/tabane.json");
    let board: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let mut expressions = Vec::new();
    collect(&board, &mut expressions);
    assert!(expressions.len() >= 10, "{expressions:?}");
    for expression in &expressions {
        let names: Vec<&str> = expression
            .split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
            .filter(|word| word.starts_with("tabane_"))
            .collect();
        assert!(!names.is_empty(), "no metric of ours in {expression}");
        for name in names {
            let name = name.strip_suffix("_bucket").unwrap_or(name);
            assert!(METRICS.iter().any(|m| m.name == name), "{name} does not exist: {expression}");
        }
    }
}

/// All expressions and queries of variables in a dashboard.
fn collect(value: &serde_json::Value, found: &mut Vec<String>) {
    match value {
        serde_json::Value::Object(map) => {
            for (key, value) in map {
                match (key.as_str(), value.as_str()) {
                    ("expr" | "definition", Some(text)) => found.push(text.to_owned()),
                    _ => collect(value, found),
                }
            }
        }
        serde_json::Value::Array(all) => all.iter().for_each(|value| collect(value, found)),
        _ => {}
    }
}

/// As many connections as there are places, which say nothing, or only the half of something.
#[test]
fn idle_connections_keep_nobody_from_the_page_or_the_metrics() {
    let fake = Fake::start();
    let (pages, at) = pages(&fake, false);
    for at in [at, pages.metrics().unwrap()] {
        let idle: Vec<_> = (0..200)
            .map(|i| {
                let mut stream = TcpStream::connect(at).unwrap();
                if i % 2 == 0 {
                    stream.write_all(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-").unwrap();
                }
                stream
            })
            .collect();
        for _ in 0..5 {
            assert!([200, 404].contains(&get(at, "/").code));
        }
        drop(idle);
    }
}

/// A browser's connection that was answered just now is not the one that goes.
#[test]
fn who_is_served_keeps_his_place() {
    let fake = Fake::start();
    let (_pages, at) = pages(&fake, false);
    let mut browser = TcpStream::connect(at).unwrap();
    browser.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let mut idle = Vec::new();
    for _ in 0..3 {
        browser.write_all(b"GET /style.css HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").unwrap();
        let (mut answer, mut block) = (Vec::new(), [0; 4096]);
        while !answer.ends_with(b"}\n") {
            let len = browser.read(&mut block).unwrap();
            assert!(len > 0, "closed");
            answer.extend_from_slice(&block[..len]);
        }
        idle.extend((0..100).map(|_| TcpStream::connect(at).unwrap()));
        // So that all of them have been accepted.
        assert_eq!(get(at, "/").code, 200);
    }
}

#[test]
fn metrics_are_for_who_asks_by_address() {
    let fake = Fake::start();
    let (pages, _) = pages(&fake, false);
    let at = pages.metrics().unwrap();
    assert_eq!(get(at, "/metrics").code, 200);
    let reply = request(at, "GET /metrics HTTP/1.1\r\nHost: evil.example\r\n", "");
    assert_eq!(reply.code, 421, "{}", reply.body);
}
