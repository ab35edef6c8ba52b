//! Segmentation offload: super-packets share one fate, and one acknowledgement.
use std::collections::BTreeMap;
use tabane_engine::Instant;
use tabane_sim::observe::{CapturePoint, HostIdx, LinkIdx, Observer, Wants};
use tabane_sim::scenario::Scenario;
use tabane_sim::{Plan, run};
use tabane_wire::Segment;

/// Segments with and without a mapping never are one super-packet: each has its own, as in Linux.
fn plan(offload: bool, wire: bool, corrupt: &str) -> Plan {
    let text = format!(
        "seed = 3\nduration = \"60s\"\nverify = true\noffload = {offload}\nwire = {wire}\n\
         [defaults]\ncongestion = \"cubic\"\nmptcp.segments_per_mapping = 1\n\
         [link.l]\nrate = \"50Mbps\"\ndelay = \"5ms\"\nloss = \"1%\"\ncorrupt = \"{corrupt}\"\n\
         [[flow]]\nbulk = \"10MB\"\n"
    );
    Scenario::parse("offload.toml", &text).unwrap().compile().unwrap()
}

/// What the link towards the client lost by chance, by moment, and what came to both hosts.
#[derive(Default)]
struct Watcher {
    lost: BTreeMap<Instant, usize>,
    sent: BTreeMap<Instant, usize>,
    came: [usize; 2],
}

impl Observer for Watcher {
    fn wants(&self) -> Wants {
        Wants { packets: true, ..Wants::default() }
    }

    fn packet(&mut self, point: CapturePoint, now: Instant, segment: &Segment) {
        match point {
            CapturePoint::Sent(HostIdx(1), _) => *self.sent.entry(now).or_default() += 1,
            CapturePoint::Received(HostIdx(host), _)
                if segment.payload.is_empty() == (host == 1) =>
            {
                self.came[host as usize] += 1;
            }
            _ => {}
        }
    }

    fn lost(&mut self, link: LinkIdx, now: Instant, cause: &'static str, _: &Segment) {
        if link == LinkIdx(1) && cause == "loss" {
            *self.lost.entry(now).or_default() += 1;
        }
    }
}

fn watched(plan: &Plan) -> (Watcher, f64) {
    let mut watcher = Watcher::default();
    let result = run(plan, &mut watcher).unwrap();
    let flow = &result.flows[0];
    assert_eq!(flow.bytes, 10_000_000, "all of it came, and as it was sent");
    (watcher, flow.completed_s.unwrap())
}

#[test]
fn segments_that_leave_together_are_lost_together_and_acknowledged_once() {
    let (single, slow) = watched(&plan(false, false, "0%"));
    assert!(single.lost.values().all(|count| *count == 1), "each segment for itself");
    let [data, acks] = single.came;
    assert!(acks * 3 > data, "one in two is acknowledged: {acks} of {data}");

    let (together, fast) = watched(&plan(true, false, "0%"));
    let most = together.lost.values().copied().max().unwrap();
    let largest = together.sent.values().copied().max().unwrap();
    assert!(most > 3 && most <= largest.min(44), "{most} of {largest}");
    let [data, fewer] = together.came;
    assert!(fewer * 3 < data, "{fewer} for {data} segments");
    let losses = |watcher: &Watcher| watcher.lost.len();
    assert!(losses(&together) * 2 < losses(&single), "they are fewer, if longer");
    assert!(fast < slow, "CUBIC counts moments, not segments: {fast} and {slow} s");
}

#[test]
fn it_is_the_same_in_bytes_and_with_damage() {
    for corrupt in ["0%", "1%"] {
        let runs = [false, true].map(|wire| watched(&plan(true, wire, corrupt)));
        assert_eq!(runs[0].0.came, runs[1].0.came);
        assert_eq!(runs[0].1.to_bits(), runs[1].1.to_bits());
    }
}

#[test]
fn tunnels_carry_none() {
    let text = "offload = true\n[link.l]\nrate = \"1Mbps\"\n[tunnel.t]\nlinks = [\"l\"]\n\
                [path]\na = [\"t\"]\n[[flow]]\nbulk = \"1MB\"\n";
    let words = Scenario::parse("t.toml", text).unwrap_err().to_string();
    assert!(words.contains("a tunnel carries no super-packets"), "{words}");
}
