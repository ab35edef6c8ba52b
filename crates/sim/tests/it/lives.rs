//! Hosts that stand still, or are gone: what their peers see, and when a run is over. And paths
//! that are gone when connections begin.

use tabane_sim::observe::Silent;
use tabane_sim::result::RunResult;
use tabane_sim::run;
use tabane_sim::scenario::Scenario;

const WORLD: &str = r#"
duration = "3000s"
verify = true
closing = true

[defaults.tcp]
keepalive = "60s"

[link.wifi]
rate = "10Mbps"
delay = "10ms"

[link.lte]
rate = "10Mbps"
delay = "30ms"

[[flow]]
bulk = "20MB"

[[at]]
time = "2s"
host = "HOST"
asleep = "SPAN"
"#;

fn result(host: &str, span: &str) -> RunResult {
    run_text(&WORLD.replace("HOST", host).replace("SPAN", span))
}

fn run_text(text: &str) -> RunResult {
    let scenario = Scenario::parse("lives.toml", text).expect("a scenario");
    run(&scenario.compile().expect("a plan"), &mut Silent).expect("it runs")
}

#[test]
fn who_was_asleep_goes_on() {
    for host in ["client", "server"] {
        let result = result(host, "20s");
        let flow = &result.flows[0];
        let completed = flow.completed_s.expect("it completes");
        // 8 s of sending, and the sleep; the sender's timer has backed off meanwhile.
        assert!((25.0..60.0).contains(&completed), "{host}: {completed}");
        assert_eq!((flow.bytes, flow.corrupt_at), (20_000_000, None));
        assert!(result.open.is_empty(), "{:?}", result.open);
    }
}

#[test]
fn who_is_gone_is_given_up() {
    // The sender notices by its retransmissions, which are more frequent while a subflow is
    // stale; who only receives by keepalive.
    for (host, soonest) in [("client", 100.0), ("server", 700.0)] {
        let result = result(host, "100000s");
        let flow = &result.flows[0];
        assert!(flow.completed_s.is_none() && flow.bytes < 20_000_000);
        assert!(flow.failed.is_some(), "{host}: nobody noticed");
        assert!(result.open.is_empty(), "{:?}", result.open);
        assert!((soonest..2_500.0).contains(&result.ended_s), "{host}: {}", result.ended_s);
    }
}

/// A host that dies before anybody has heard of its flow leaves nothing behind that could fail.
#[test]
fn who_is_gone_before_it_was_heard_leaves_nothing() {
    let text = WORLD.replace("HOST", "client").replace("SPAN", "100000s");
    let text = text.replace("delay = \"10ms\"", "delay = \"10ms\"\nloss = \"100%\"");
    let result = run_text(&text);
    assert!(result.flows[0].completed_s.is_none() && result.open.is_empty(), "{:?}", result.open);
}

/// Flows that begin while the first path has no carrier begin on the other one, and take the first
/// one when it is back; without another they wait for it.
#[test]
fn connections_begin_on_a_path_that_is_up() {
    let text = |lte: &str, at: &str| {
        format!(
            "duration = \"60s\"
             [link.wifi]
             rate = \"20Mbps\"
             delay = \"10ms\"
             {lte}
             [[flow]]
             start = \"{at}\"
             bulk = \"20MB\"
             [[at]]
             time = \"0s\"
             down = \"wifi\"
             [[at]]
             time = \"10s\"
             up = \"wifi\""
        )
    };
    let lte = "[link.lte]\nrate = \"5Mbps\"\ndelay = \"30ms\"";
    // 20 MB: what 5 Mbit/s carry until 10 s, and both from then on.
    for (at, due) in [("0s", 14.4), ("2s", 12.8)] {
        let with = run_text(&text(lte, at));
        let completed = with.flows[0].completed_s.expect("it completes");
        assert!((due..due + 1.0).contains(&completed), "from {at}: {completed}");
        let alone = run_text(&text("", at)).flows[0].completed_s.expect("it completes");
        assert!((due + 3.2..due + 4.2).contains(&alone), "from {at}: {alone}");
    }
}

#[test]
fn several_subflows_a_path_leave_no_path_without_one() {
    let used = |mptcp: &str| {
        let links: String =
            (0..16).map(|n| format!("[link.l{n}]\nrate = \"5Mbps\"\ndelay = \"10ms\"\n")).collect();
        let defaults = format!("[defaults]\nmptcp = {{ {mptcp} }}\n");
        let flow = "[[flow]]\nbulk = \"10MB\"";
        let run = run_text(&format!("duration = \"60s\"\n{links}{defaults}{flow}"));
        let ups = run.links.iter().filter(|link| link.from == "client" || link.to == "server");
        ups.filter(|link| link.packets > 100).count()
    };
    assert_eq!(used("subflows_per_path = 2"), 16);
    assert_eq!(used("subflows_per_path = 4"), 16, "32 subflows at most, two a path");
    assert_eq!(used("subflows_per_path = 2, max_subflows = 4"), 4);
}

#[test]
fn repeated_changes_come_before_flows_of_their_moment_as_well() {
    let run = run_text(
        "duration = \"20s\"
         [link.wifi]
         rate = \"20Mbps\"
         delay = \"10ms\"
         [link.lte]
         rate = \"5Mbps\"
         delay = \"30ms\"
         [[flow]]
         start = \"2s\"
         bulk = \"100kB\"
         [[at]]
         time = \"0s\"
         every = \"2s\"
         down = \"wifi\"
         [[at]]
         time = \"1s\"
         up = \"wifi\"",
    );
    let completed = run.flows[0].completed_s.expect("it completes");
    assert!(completed < 0.5, "{completed}");
}
