//! Proxies in scenarios: what arrives, what is held, what is told.
use crate::common::plan;
use std::collections::BTreeMap;
use tabane_engine::mptcp::Info;
use tabane_engine::{Duration, Instant};
use tabane_sim::observe::{FlowIdx, HostIdx, Layout, Observer, Silent, Wants};
use tabane_sim::result::RunResult;
use tabane_sim::run;

/// Three links in a row, all of them lossy, and two proxies between them.
const CHAIN: &str = r#"
seed = 5
duration = "120s"
verify = true

[link.a]
rate = "30Mbps"
delay = "5ms"
loss = "1%"
[link.b]
rate = "20Mbps"
delay = "20ms"
loss = "0.5%"
[link.c]
rate = "40Mbps"
delay = "5ms"
loss = "1%"

[path]
first = { from = "client", to = "p1", links = ["a"] }
second = { from = "p1", to = "p2", links = ["b"] }
third = { from = "p2", to = "server", links = ["c"] }

[proxy.p1]
connect = { congestion = "reno", mptcp = false }
[proxy.p2]
listen = { congestion = "reno" }

[[flow]]
via = ["p1", "p2"]
bulk = "5MB"
"#;

fn result(text: &str, sets: &[&str]) -> RunResult {
    run(&plan(text, sets), &mut Silent).unwrap()
}

#[test]
fn every_byte_arrives_through_a_chain_with_loss_in_both_directions() {
    for set in ["flow.direction=download", "flow.direction=upload", "wire=true"] {
        let result = result(CHAIN, &[set]);
        let flow = &result.flows[0];
        assert_eq!((flow.bytes, flow.corrupt_at), (5_000_000, None), "{set}: {flow:?}");
        assert!(flow.completed_s.is_some());
    }
    let set = "flow=[{ via = [\"p1\", \"p2\"], request = { size = \"30kB\", count = 40 } }]";
    let result = result(CHAIN, &[set]);
    let latency = result.flows[0].latency.as_ref().unwrap();
    assert_eq!(latency.count, 40);
    assert!(latency.p50_s > 0.06, "three hops there and back: {latency:?}");
}

#[test]
fn results_say_what_passed_each_hop() {
    let result = result(CHAIN, &[]);
    let hops = &result.flows[0].hops;
    let names: Vec<_> = hops.iter().map(|h| (h.from.as_str(), h.to.as_str())).collect();
    assert_eq!(names, [("client", "p1"), ("p1", "p2"), ("p2", "server")]);
    for hop in hops {
        assert_eq!(hop.bytes, 5_000_000, "{hop:?}");
        assert_eq!(hop.subflows.len(), 1, "{hop:?}");
        assert_eq!(hop.subflows[0].bytes, 5_000_000, "{hop:?}");
    }
    let paths: Vec<_> = hops.iter().map(|h| h.subflows[0].path.as_str()).collect();
    assert_eq!(paths, ["first", "second", "third"]);
    assert_eq!(result.flows[0].subflows, hops[0].subflows);
}

#[test]
fn a_server_that_refuses_is_told_from_one_that_is_not_there() {
    let refused = result(CHAIN, &["flow.refuse=true"]);
    let flow = &refused.flows[0];
    assert_eq!(flow.failed.as_deref(), Some("refused at the sink"), "{flow:?}");
    assert!(refused.ended_s < 1.0, "a round trip, not a timeout: {}", refused.ended_s);
    let unreachable = result(CHAIN, &["at=[{ time = \"0s\", down = \"c\", silent = true }]"]);
    assert!(unreachable.ended_s > 30.0, "{}", unreachable.ended_s);
    assert!(unreachable.flows[0].completed_s.is_none());
}

#[test]
fn an_abort_at_one_end_is_a_reset_at_the_other() {
    for (host, end) in [("client", "source"), ("server", "sink")] {
        let at = format!("at=[{{ time = \"500ms\", host = \"{host}\", abort = true }}]");
        let result = result(CHAIN, &[&at]);
        let why = result.flows[0].failed.clone().unwrap();
        assert!(why.contains("aborted") || why.contains(end), "{host}: {why}");
        assert!(result.ended_s < 1.5, "{host}: {}", result.ended_s);
    }
}

/// The most that each connection's buffers held.
#[derive(Default)]
struct Most {
    hosts: Vec<String>,
    flows: Vec<String>,
    /// Unread and unacknowledged, by name of connection and host.
    held: BTreeMap<(String, String), (u64, u64)>,
}

impl Observer for Most {
    fn wants(&self) -> Wants {
        Wants { sample: Some(Duration::from_millis(10)), ..Wants::default() }
    }
    fn begin(&mut self, layout: &Layout) {
        self.hosts = layout.hosts.iter().map(|h| h.name.clone()).collect();
        self.flows = layout.flows.iter().map(|f| f.name.clone()).collect();
    }
    fn sample(&mut self, _: Instant, flow: FlowIdx, host: HostIdx, info: &Info) {
        let name = |names: &[String], n: u32| names[n as usize].clone();
        let key = (name(&self.flows, flow.0), name(&self.hosts, host.0));
        let most = self.held.entry(key).or_default();
        most.0 = most.0.max(info.received + info.out_of_order - info.read);
        most.1 = most.1.max(info.written - info.acked);
    }
}

/// A fast link into a slow one: without back-pressure the proxy would hold what the fast one is
/// ahead by, some 9 MB.
#[test]
fn back_pressure_bounds_what_a_proxy_holds() {
    let sets = [
        "link.c.rate=100Mbps",
        "link.b.rate=100Mbps",
        "link.a.rate=5Mbps",
        "proxy.p1.listen.tcp.send_buffer=100kB",
        "proxy.p1.connect.tcp.receive_buffer=200kB",
        "proxy.p1.connect.tcp.receive_buffer_max=200kB",
        "flow.bulk=10MB",
        "link.a.loss=0%",
        "link.b.loss=0%",
        "link.c.loss=0%",
    ];
    let mut most = Most::default();
    let result = run(&plan(CHAIN, &sets), &mut most).unwrap();
    assert_eq!(result.flows[0].bytes, 10_000_000);
    let held = |flow: &str, host: &str| most.held[&(flow.to_owned(), host.to_owned())];
    let (unread, _) = held("flow1@p1", "p1");
    let (_, unacked) = held("flow1", "p1");
    assert!((90_000..=100_000).contains(&unacked), "{unacked} bytes unacknowledged");
    assert!((150_000..=203_000).contains(&unread), "{unread} bytes unread");
    // And the slow link was full, but for moments in which `cubicd` drains its queue: 97.1 %. (More
    // than 98 % while it took what a drain leaves in flight for the queue of others.)
    let rate = result.flows[0].goodput_bps;
    assert!(rate > 0.965 * 5e6 * 1428.0 / 1500.0, "{rate}");
}

/// Algorithms section 10: a window of 64 KB over 10 ms, not over 60 ms.
#[test]
fn a_proxy_beside_the_host_lets_a_small_window_fill_a_long_path() {
    let text = CHAIN.replace("loss", "jitter").replace("\"1%\"", "\"0ms\"");
    let text = text.replace("\"0.5%\"", "\"0ms\"");
    let small = "host.client.tcp.linux.so_rcvbuf=\"64KiB\"";
    let long = "proxy={ p1 = {}, p2 = { listen = { tcp = { send_buffer = \"4MB\" } } } }";
    let split = result(&text, &[small, long]);
    let mut direct = text.replace("via = [\"p1\", \"p2\"]", "");
    direct = direct.replace(
        "first = { from = \"client\", to = \"p1\", links = [\"a\"] }",
        "first = { from = \"client\", to = \"p1\", links = [\"a\"] }\n\
         direct = [\"a\", \"b\", \"c\"]",
    );
    let direct = result(&direct, &[small]);
    let window_limit = 65_536.0 * 8.0 / 0.06;
    assert!(direct.flows[0].goodput_bps < window_limit, "{:?}", direct.flows[0]);
    assert!(split.flows[0].goodput_bps > 16e6, "{:?}", split.flows[0]);
}

/// The relay of paper S1: MPTCP to the terminal, plain TCP to the server; the relay says which
/// subflow is active, and changes its mind.
const RELAY: &str = r#"
seed = 2
duration = "60s"
verify = true

[link.wifi]
rate = "50Mbps"
delay = "2ms"
[link.lte]
rate = "10Mbps"
delay = "20ms"
[link.lan]
rate = "1Gbps"
delay = "500us"

[path]
wifi = { to = "relay", links = ["wifi"] }
lte = { to = "relay", links = ["lte"] }
lan = { from = "relay", to = "server", links = ["lan"] }

[proxy.relay]
connect = { mptcp = false }
[host.server]
mptcp = false

[[at]]
time = "100ms"
host = "relay"
path = "lte"
backup = true

[[at]]
time = "2s"
host = "relay"
path = "lte"
backup = false

[[at]]
time = "2s"
host = "relay"
path = "wifi"
backup = true

[[flow]]
via = ["relay"]
bulk = "20MB"
"#;

#[test]
fn a_relay_switches_the_active_subflow_of_a_live_connection() {
    let switched = result(RELAY, &[]);
    let flow = &switched.flows[0];
    assert_eq!((flow.bytes, flow.corrupt_at, &flow.failed), (20_000_000, None, &None));
    let bytes = |path: &str| -> u64 {
        flow.subflows.iter().filter(|s| s.path == path).map(|s| s.bytes).sum()
    };
    // 2 s at 50 Mbit/s are 12.5 MB, less slow start and headers.
    assert!((10_500_000..12_500_000).contains(&bytes("wifi")), "{flow:?}");
    assert_eq!(bytes("wifi") + bytes("lte"), 20_000_000);
    let stayed = result(RELAY, &["at.1.time=59s", "at.2.time=59s"]);
    let lte = stayed.flows[0].subflows.iter().find(|s| s.path == "lte").unwrap();
    assert!(lte.bytes < 150_000, "a backup carries nothing while the other works: {lte:?}");
}

#[test]
fn changes_may_be_about_one_side_of_a_proxy() {
    let at = |side: &str| {
        let side = format!("side = \"{side}\"");
        format!("at=[{{ time = \"0.5s\", host = \"p1\", {side}, congestion = \"reno\" }}]")
    };
    // So that the controller there is what limits.
    let first = "link.a.loss=8%";
    let listen = result(CHAIN, &[first, &at("listen")]);
    let connect = result(CHAIN, &[first, &at("connect")]);
    assert_eq!(listen.flows[0].bytes, connect.flows[0].bytes);
    // Upstream of the data it changes nothing that sends; downstream it does.
    let plain = result(CHAIN, &[first]);
    assert_ne!(listen.flows[0].completed_s, plain.flows[0].completed_s);
    assert_eq!(connect.flows[0].completed_s, plain.flows[0].completed_s);
}

/// Paper S4: several subflows over one path.
#[test]
fn several_subflows_share_a_path() {
    let text = RELAY.split("[[at]]").next().unwrap().to_owned()
        + "[[flow]]\nvia = [\"relay\"]\nbulk = \"20MB\"\n";
    for count in [1, 2, 3] {
        let set = format!("host.client.mptcp.subflows_per_path={count}");
        let result = result(&text, &[&set]);
        let flow = &result.flows[0];
        assert_eq!(flow.bytes, 20_000_000);
        for path in ["wifi", "lte"] {
            let on: Vec<_> = flow.subflows.iter().filter(|s| s.path == path).collect();
            assert_eq!(on.len(), count, "{path}: {flow:?}");
            assert!(on.iter().all(|s| s.bytes > 100_000), "{path}: {flow:?}");
        }
        assert!(flow.goodput_bps > 0.9 * 60e6 * 1428.0 / 1500.0, "{count}: {flow:?}");
    }
}

/// A slow link, a proxy, a fast link; the run goes on until everything is closed.
const ONE_PROXY: &str = r#"
duration = "300s"
closing = true

[link.a]
rate = "10Mbps"
delay = "10ms"
[link.b]
rate = "10Mbps"
delay = "1ms"

[path]
near = { from = "client", to = "p1", links = ["a"] }
far = { from = "p1", to = "server", links = ["b"] }

[proxy.p1]

[[flow]]
via = ["p1"]
bulk = "1MB"
"#;

/// The proxy gives a flow up whose client is not connected yet, and the reset is lost: the SYN that
/// the client repeats finds nobody.
#[test]
fn a_syn_for_a_flow_that_is_over_opens_nothing() {
    let changes = r#"
[[at]]
time = "150ms"
down = "a"
silent = true

[[at]]
time = "500ms"
host = "p1"
abort = true

[[at]]
time = "2s"
up = "a"
"#;
    let sets = ["link.a.delay=100ms"];
    let result = result(&format!("{ONE_PROXY}{changes}"), &sets);
    assert!(result.flows[0].failed.is_some());
    assert!(result.open.is_empty(), "{:?}", result.open);
    assert!(result.ended_s < 10.0, "{}", result.ended_s);
}

/// Somebody closes the only subflow of a flow at the proxy, which its programs have not: what comes
/// from the far side has nowhere to go, and is not kept for ever.
#[test]
fn what_has_nowhere_to_go_is_given_up() {
    let changes = r#"
[[at]]
time = "1s"
host = "p1"
path = "near"
subflow = "remove"
"#;
    let sets = ["flow.bulk=5MB", "defaults.mptcp=false"];
    let result = result(&format!("{ONE_PROXY}{changes}"), &sets);
    assert!(result.flows[0].failed.is_some());
    assert!(result.open.is_empty(), "{:?}", result.open);
}
