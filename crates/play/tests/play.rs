//! What is done by hand is what a scenario file says: stepped, looked at and changed, a run is the
//! one that the command line makes.

#![allow(clippy::unwrap_used)] // Tests.

use serde_json::{Value, json};
use tabane_play::Play;
use tabane_sim::observe::Silent;
use tabane_sim::scenario::Scenario;

const PAIR: &str = r#"
name = "pair"
duration = "20s"
seed = 7
[link.wifi]
rate = "20Mbps"
delay = "8ms"
jitter = "0.5ms"
loss = "0.5%"
queue = "64 packets"
[link.lte]
rate = "8Mbps"
delay = "30ms"
queue = "codel"
[defaults]
scheduler = "ecf"
congestion = "cubic"
[[flow]]
name = "file"
bulk = "12MB"
"#;

/// As `tabane sim run --json` prints it, without what a run cost.
fn by_file(text: &str) -> Value {
    let plan = Scenario::parse("pair.toml", text).unwrap().compile().unwrap();
    without_cost(&serde_json::to_string(&tabane_sim::run(&plan, &mut Silent).unwrap()).unwrap())
}

fn without_cost(result: &str) -> Value {
    let mut result: Value = serde_json::from_str(result).unwrap();
    let hops = result["cost"]["packet_hops"].take();
    result["cost"] = json!({ "packet_hops": hops });
    result
}

/// Steps as a page does, with looks between.
fn watch(play: &mut Play, until: f64, step: f64) {
    let mut at = play.now() as f64 / 1e9;
    while at < until && !play.is_over() {
        at += step;
        while play.advance((at * 1e9) as u64).unwrap() {}
        play.sample();
        play.status(true);
        play.dots(100);
    }
}

#[test]
fn a_run_that_is_stepped_and_looked_at_is_the_same_run() {
    let mut play = Play::new("pair.toml", PAIR, &[]).unwrap();
    watch(&mut play, 60.0, 0.017);
    assert!(play.is_over());
    let result = play.finish().unwrap().unwrap();
    assert_eq!(without_cost(&result), by_file(PAIR));
    assert!(by_file(PAIR)["flows"][0]["completed_s"].as_f64().unwrap() > 3.0);
    assert!(play.finish().unwrap().is_none());
}

#[test]
fn changes_by_hand_are_those_of_the_file_that_is_given_out() {
    let mut play = Play::new("pair.toml", PAIR, &[]).unwrap();
    let changes = [
        json!({ "link": "wifi", "rate": "6Mbps" }),
        json!({ "down": "wifi" }),
        json!({ "link": "lte", "delay": "60ms", "loss": "2%", "queue": "20 packets" }),
        json!({ "up": "wifi" }),
        json!({ "link": "wifi", "rate": "40Mbps", "direction": "down" }),
    ];
    for (n, change) in changes.iter().enumerate() {
        watch(&mut play, 0.7 * (n + 1) as f64, 0.01);
        assert!(play.change(&change.to_string()).unwrap(), "{change}");
    }
    assert!(play.set_policy("scheduler", "roundrobin").unwrap());
    assert!(play.set_policy("congestion", "olia").unwrap());
    assert!(play.set_policy("egress", "hayack").unwrap());
    watch(&mut play, 60.0, 0.05);
    let text = play.toml();
    assert_eq!(text.matches("[[at]]").count(), changes.len() + 6, "{text}");
    let result = play.finish().unwrap().unwrap();
    assert_eq!(without_cost(&result), by_file(&text));
    assert_ne!(by_file(&text), by_file(PAIR));
}

#[test]
fn what_cannot_be_is_refused_and_changes_nothing() {
    let mut play = Play::new("pair.toml", PAIR, &[]).unwrap();
    watch(&mut play, 1.0, 0.1);
    let before = play.toml();
    for wrong in [
        json!({ "down": "wlan" }),
        json!({ "link": "wifi" }),
        json!({ "link": "wifi", "rate": "fast" }),
        json!({ "link": "wifi", "loss": "120%" }),
        json!({ "host": "client", "scheduler": "best" }),
        json!({ "speed": 1 }),
    ] {
        assert!(play.change(&wrong.to_string()).is_err(), "{wrong}");
    }
    assert_eq!(play.toml(), before);
    let sweep = ["defaults.scheduler=[\"ecf\",\"minrtt\"]".to_owned()];
    let refused = Play::new("pair.toml", PAIR, &sweep).err().unwrap().to_string();
    assert!(refused.contains("2 runs"), "{refused}");
}

#[test]
fn it_says_what_each_link_does_and_why_one_idles() {
    let sets = ["link.lte.rate=1Mbps", "link.lte.delay=200ms", "flow.0.bulk=unlimited"];
    let mut play = Play::new("pair.toml", PAIR, &sets.map(str::to_owned)).unwrap();
    watch(&mut play, 4.0, 0.05);
    play.status(true);
    while play.advance(8_000_000_000).unwrap() {}
    play.sample();
    let status = play.status(true);
    let about = play.about();
    let paths: Vec<&str> = about.series.iter().map(|series| series.path.as_str()).collect();
    assert_eq!(paths, ["wifi", "lte"]);
    let [wifi, lte] = &status.series[..] else { panic!("{status:?}") };
    assert_eq!(wifi.state, "carries");
    assert!(wifi.chosen > 1_000 && wifi.placed >= wifi.chosen, "{wifi:?}");
    assert!(!lte.not.is_empty() && lte.chosen * 10 < lte.placed, "{lte:?}");
    assert!(lte.not.iter().all(|why| !why.words.is_empty() && why.times > 0), "{lte:?}");

    play.change(&json!({ "down": "lte" }).to_string()).unwrap();
    watch(&mut play, 9.0, 0.1);
    let status = play.status(true);
    assert_eq!((status.series[1].state, status.links[1].up), ("down", false));
}

#[test]
fn figures_and_packets_have_their_places() {
    let mut play = Play::new("pair.toml", PAIR, &[]).unwrap();
    watch(&mut play, 2.0, 0.05);
    let row = play.sample();
    // Time; two series of four figures; four link directions of three.
    assert_eq!(row.len(), 1 + 2 * 4 + 4 * 3);
    assert_eq!(row[0], 2.0);
    let [delivered, cwnd, in_flight, rtt] = row[1..5] else { panic!("{row:?}") };
    assert!(delivered > 1e6 && cwnd > 10_000.0 && in_flight > 0.0, "{row:?}");
    assert!((0.016..0.2).contains(&rtt), "{rtt}");
    let dots = play.dots(1_000);
    assert!(dots.len().is_multiple_of(5) && dots.len() > 100, "{}", dots.len());
    for dot in dots.chunks(5) {
        assert!(dot[0] < 4.0 && dot[1] <= 1.0 && (0.0..2.0).contains(&dot[2]), "{dot:?}");
    }
    // Both kinds travel, data down and acknowledgements up.
    assert!(dots.chunks(5).any(|dot| dot[0] == 1.0 && dot[3] > 1_000.0));
    assert!(dots.chunks(5).any(|dot| dot[0] == 0.0 && dot[4] == 1.0));
    assert!(play.dots(20).len() <= 21 * 5);
}
