//! Tunnels that are connections: what goes in comes out, later if need be, and what does not fit
//! is dropped at the entrance.
use crate::common::plan;
use tabane_sim::check::{Check, RecordHash};
use tabane_sim::observe::Silent;
use tabane_sim::result::{LinkResult, RunResult};
use tabane_sim::run;
use tabane_sim::scenario::Document;

/// A tunnel over a link, and a flow through it.
const ONE: &str = r#"
seed = 3
duration = "60s"
verify = true
closing = true

[link.wan]
rate = "20Mbps"
delay = "10ms"
queue = "100KB"

[tunnel.vpn]
links = ["wan"]
congestion = "cubic"

[defaults]
congestion = "cubic"
mptcp = false

[[flow]]
bulk = "4MB"
start = "500ms"
"#;

/// Two WANs with a tunnel each, a VPN over MPTCP across both tunnels, and a flow through the VPN.
const NESTED: &str = r#"
seed = 3
duration = "60s"
verify = true

[link.ftth]
rate = "23Mbps"
delay = "10ms"
queue = "60KB"
loss = "0.1%"
[link.vdsl]
rate = "8Mbps"
delay = "15ms"
queue = "60KB"
loss = "0.1%"

[tunnel.one]
links = ["ftth"]
[tunnel.two]
links = ["vdsl"]
[tunnel.vpn]
paths = { ftth = ["one"], vdsl = ["two"] }

[defaults]
congestion = "cubic"

[host.client]
mptcp = false

[[flow]]
bulk = "4MB"
start = "1s"
"#;

/// A run in which nothing happens that never may.
fn result(text: &str, sets: &[&str]) -> RunResult {
    let plan = plan(text, sets);
    let mut check = Check::new(&plan.scenario);
    let result = run(&plan, &mut check).unwrap();
    assert_eq!(check.violations(&plan.scenario, &result), Vec::<String>::new(), "{sets:?}");
    result
}

/// Both directions of a link or tunnel.
fn directions<'r>(result: &'r RunResult, name: &str) -> Vec<&'r LinkResult> {
    result.links.iter().filter(|link| link.link == name).collect()
}

#[test]
fn every_byte_comes_through_a_tunnel_and_through_tunnels_in_tunnels() {
    let sets = ["flow.0.direction=download", "flow.0.direction=upload", "wire=true", "ip=6"];
    for (text, set) in [ONE, NESTED].into_iter().flat_map(|text| sets.map(|set| (text, set))) {
        let result = result(text, &[set]);
        let flow = &result.flows[0];
        assert_eq!((flow.bytes, flow.corrupt_at), (4_000_000, None), "{set}: {flow:?}");
        assert!(flow.completed_s.is_some(), "{set}: {flow:?}");
        let through = directions(&result, "vpn").iter().map(|link| link.bytes).sum::<u64>();
        assert!(through > 4_000_000, "the tunnel has carried it: {:?}", result.links);
    }
    // A VPN over two tunnels is faster than the faster of the two WANs.
    let nested = result(NESTED, &["link.ftth.loss=0", "link.vdsl.loss=0"]);
    assert!(directions(&nested, "two").iter().all(|link| link.bytes > 100_000), "{nested:?}");
}

#[test]
fn what_the_link_beneath_loses_is_late_inside_and_not_lost() {
    let loss = "link.wan.loss=1%";
    let paced = "flow=[{ paced = { rate = \"1Mbps\", message = \"1000B\" }, start = \"1s\", \
                 stop = \"18s\" }]";
    let sets = [paced, "duration=20s", "closing=false"];
    let clean = result(ONE, &sets);
    let lossy = result(ONE, &[&sets[..], &[loss]].concat());
    let lost = directions(&lossy, "wan").iter().map(|link| link.lost).sum::<u64>();
    assert!(lost > 20, "the link does lose: {lossy:?}");
    assert!(directions(&lossy, "vpn").iter().all(|link| link.lost == 0), "{:?}", lossy.links);
    let [clean, lossy] = [&clean, &lossy].map(|run| run.flows[0].latency.as_ref().unwrap());
    // In order: what follows a lost packet waits for it, a round trip at least.
    assert!(clean.max_s < 0.03, "{clean:?}");
    assert!(lossy.max_s > clean.max_s + 0.02, "{lossy:?} {clean:?}");
    assert_eq!(lossy.count, clean.count, "every message came");
    assert!(lossy.count > 2_000, "{lossy:?}");
}

#[test]
fn what_finds_the_queue_full_is_dropped_there() {
    // The tunnel's own window is small, and so is what waits for it.
    let small = ["tunnel.vpn.tcp={ send_buffer = \"16KiB\" }", "tunnel.vpn.queue=10 packets"];
    let long = ["tunnel.vpn.tcp={ send_buffer = \"16KiB\" }", "tunnel.vpn.queue=8MB"];
    let [small, long] = [small, long].map(|sets| result(ONE, &sets));
    for (run, drops) in [(&small, true), (&long, false)] {
        let lost = directions(run, "vpn").iter().map(|link| link.lost).sum::<u64>();
        assert_eq!(lost > 0, drops, "{:?}", run.links);
        let beneath = directions(run, "wan").iter().map(|link| link.lost).sum::<u64>();
        assert_eq!(beneath, 0, "16 KiB never fill the link's queue: {:?}", run.links);
        assert_eq!(run.flows[0].bytes, 4_000_000);
    }
}

#[test]
fn what_need_not_wait_is_not_in_the_queue() {
    let run = result(ONE, &["tunnel.vpn.queue=1B"]);
    assert_eq!(run.flows[0].bytes, 4_000_000, "{:?}", run.links);
}

#[test]
fn equal_seeds_give_equal_runs() {
    let hash = |sets: &[&str]| {
        let mut hash = RecordHash::default();
        let result = run(&plan(NESTED, sets), &mut hash).unwrap();
        (hash.value(), hash.count, result.reproducible())
    };
    let silent = run(&plan(NESTED, &[]), &mut Silent).unwrap();
    let (value, count, seen) = hash(&[]);
    assert_eq!((value, count, seen.clone()), hash(&[]));
    assert_eq!(seen, silent.reproducible(), "whoever looks");
    assert_ne!(value, hash(&["seed=4"]).0);
}

#[test]
fn a_tunnel_that_breaks_is_opened_anew() {
    let sets = [
        "at=[{ time = \"1s\", down = \"wan\" }, { time = \"20s\", up = \"wan\" }]",
        "tunnel.vpn.tcp={ retries = 2, rto_max = \"1s\", syn_retries = 1 }",
    ];
    let result = result(ONE, &sets);
    let flow = &result.flows[0];
    assert_eq!((flow.bytes, flow.corrupt_at), (4_000_000, None), "{flow:?}");
    assert!(flow.completed_s.unwrap() > 19.0, "{flow:?}");
    let lost = directions(&result, "vpn").iter().map(|link| link.lost).sum::<u64>();
    assert!(lost > 0, "what was in its stream is gone: {:?}", result.links);
}

#[test]
fn damage_before_a_tunnel_is_not_healed_by_it() {
    let sets = [
        "link.lan={ rate = \"100Mbps\", delay = \"1ms\", corrupt = \"1%\" }",
        "path={ home = [\"lan\", \"vpn\"] }",
    ];
    let text = ONE.replace("[link.wan]", "[link.lan]\nrate = \"1Gbps\"\n[link.wan]");
    let result = result(&text, &sets);
    let flow = &result.flows[0];
    assert_eq!((flow.bytes, flow.corrupt_at), (4_000_000, None), "{flow:?}");
    let lost = directions(&result, "vpn").iter().map(|link| link.lost).sum::<u64>();
    assert!(lost > 0, "{:?}", result.links);
}

#[test]
fn a_path_comes_back_as_it_says() {
    let text = r#"
        duration = "10s"
        [link.a]
        rate = "10Mbps"
        delay = "10ms"
        [link.b]
        rate = "10Mbps"
        delay = "10ms"
        [path]
        cross = { links = ["a"], back = ["b"] }
        [[flow]]
        bulk = "1MB"
    "#;
    let result = result(text, &[]);
    let bytes = |link: &str, n: usize| directions(&result, link)[n].bytes;
    assert!(bytes("b", 1) > 1_000_000 && bytes("a", 1) == 0, "{:?}", result.links);
    assert!(bytes("a", 0) > 10_000 && bytes("b", 0) == 0, "{:?}", result.links);
}

#[test]
fn errors_name_the_place_and_the_remedy() {
    let cases = [
        ("tunnel.vpn.links=[\"wam\"]", "there is no link or tunnel 'wam'"),
        ("tunnel.vpn={}", "add links = [\"wan\"]"),
        ("tunnel.vpn={ links = [\"wan\"], paths = { a = [\"wan\"] } }", "keep links for one way"),
        ("tunnel.vpn={ links = [\"vpn\"] }", "tunnel 'vpn' travels over itself"),
        ("tunnel.vpn={ paths = { a = { from = \"x\", links = [\"wan\"] } } }", "leave out from"),
        ("tunnel.vpn.queue=codel", "write \"500 packets\""),
        ("tunnel.vpn.queue=droptail:packets=0.5", "'packets' is 0.5, allowed"),
        ("tunnel.vpn.queue=droptail:bytes=-1", "'bytes' is -1, allowed"),
        ("tunnel.vpn.mtu=100", "an MTU of less than 296 bytes"),
        ("tunnel.vpn.congestion=cubik", "did you mean 'cubic'"),
        ("tunnel.vpn.color=red", "unknown key 'color'"),
        ("tunnel.wan={ links = [\"wan\"] }", "'wan' is a link and a tunnel"),
        ("path={ a = [\"wan\"] }", "tunnel 'vpn' is on no path"),
        ("link.wan.between=[\"client\", \"server\"]", "write the network as paths"),
        ("flow.0.from=vpn:near", "there is no host 'vpn:near'"),
    ];
    let mut wrong = Vec::new();
    for (set, words) in cases {
        let document = Document::parse("test.toml", ONE, &[set.to_owned()]);
        let error = document.and_then(|d| d.variants().map(|_| ())).unwrap_err().to_string();
        if !error.contains(words) {
            wrong.push(format!("{set}: not '{words}' but {error}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
