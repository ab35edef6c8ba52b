//! Data that is bound ahead of what is next (`stms`): nothing of it is lost with the subflow that
//! carries it.

use tabane_sim::observe::Silent;
use tabane_sim::result::FlowResult;
use tabane_sim::run;
use tabane_sim::scenario::Scenario;

const WORLD: &str = r#"
duration = "60s"
verify = true

[link.fast]
rate = "50Mbps"
delay = "10ms"
queue = "100 packets"

[link.slow]
rate = "20Mbps"
delay = "60ms"
queue = "200 packets"

[defaults]
scheduler = "stms"
mptcp = { race = RACE }
tcp = { receive_buffer = "16MiB", receive_buffer_max = "16MiB", send_buffer = "16MiB" }

[[flow]]
bulk = "30MB"
"#;

/// A download during which something happens; whether the end is sent twice where that helps.
fn download(events: &str, race: bool) -> FlowResult {
    let text = WORLD.replace("RACE", &race.to_string()) + events;
    let scenario = Scenario::parse("ahead.toml", &text).expect("a scenario");
    let result = run(&scenario.compile().expect("a plan"), &mut Silent).expect("it runs");
    result.flows.into_iter().next().expect("a flow")
}

const EVENTS: [(&str, &str); 5] = [
    ("nothing", ""),
    (
        "a subflow is reset",
        "[[at]]\ntime = \"2s\"\nhost = \"server\"\npath = \"slow\"\nsubflow = \"reset\"\n",
    ),
    ("its link dies unseen", "[[at]]\ntime = \"2s\"\ndown = \"slow\"\nsilent = true\n"),
    (
        "no subflow is left for a second",
        "[[at]]\ntime = \"2s\"\ndown = \"slow\"\n[[at]]\ntime = \"2s\"\ndown = \"fast\"\n\
         [[at]]\ntime = \"3s\"\nup = \"fast\"\n",
    ),
    ("the faster one is gone", "[[at]]\ntime = \"2s\"\ndown = \"fast\"\nsilent = true\n"),
];

#[test]
fn what_was_bound_ahead_arrives_whatever_happens_to_its_subflow() {
    for (what, events) in EVENTS {
        for race in [false, true] {
            let flow = download(events, race);
            let seen = (flow.bytes, flow.corrupt_at, flow.completed_s.is_some());
            assert_eq!(seen, (30_000_000, None, true), "{what}, race {race}: {flow:?}");
        }
    }
}

/// 4.5 s at the sum of both. The slower one's last byte is not waited for: what would arrive after
/// the end is not sent.
#[test]
fn the_sum_of_the_links_is_used_up_to_the_end() {
    let seconds = download("", false).completed_s.expect("it completes");
    let bound = 30.0 * 8.0 / (70.0 * 1428.0 / 1500.0);
    assert!(seconds < bound * 1.12, "{seconds} s, bound {bound} s");
}
