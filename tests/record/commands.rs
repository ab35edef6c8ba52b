//! `tabane record` and `tabane whatif` as people run them, on a recording made in the simulator.

use super::cases::{POLICIES, STEPS, scenario};
use super::feed::Feed;
use crate::binary::tabane;
use std::path::Path;
use std::process::Output;
use tabane_record::policies;
use tabane_sim::scenario::Scenario;

const SECONDS: u64 = 10;

/// Records ten seconds into a folder, as an agent's thread does.
fn record(folder: &Path) {
    let text = scenario(STEPS, SECONDS);
    let own = [POLICIES.0, POLICIES.1, "own"];
    let mut feed = Feed::new(&policies(own, own), folder);
    let plan = Scenario::parse("steps", &text).unwrap().compile().unwrap();
    tabane_sim::run(&plan, &mut feed).unwrap();
}

fn run(args: &[&str], folder: &Path) -> Output {
    tabane().args(args).current_dir(folder).output().expect("the binary runs")
}

#[test]
fn a_recording_is_listed_exported_and_asked() {
    let place = tempfile::tempdir().unwrap();
    record(&place.path().join("rec"));
    let text = |output: &Output| {
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{error}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let list = run(&["record", "list", "--folder", "rec", "--json"], place.path());
    let list: serde_json::Value = serde_json::from_str(&text(&list)).unwrap();
    assert_eq!(list[0]["from"], "2027-01-15 08:00:00");
    assert_eq!(list[0]["connections"], 1);
    assert!(list[0]["paths"]["wifi"]["down_bytes"].as_u64().unwrap() > 10_000_000, "{list}");
    let export = ["record", "export", "--folder", "rec", "--from", "2027-01-15 08:00"];
    let export = [&export[..], &["--to", "2027-01-15T08:00:11Z", "--out", "then.toml"]].concat();
    text(&run(&export, place.path()));
    let asked = ["whatif", "then.toml", "--try", "scheduler=roundrobin,minrtt"];
    let asked = [&asked[..], &["--try", "role.dsl=never", "--seeds", "2", "--json"]].concat();
    let asked = run(&asked, place.path());
    let asked: serde_json::Value = serde_json::from_str(&text(&asked)).unwrap();
    let rows = asked["rows"].as_array().unwrap();
    let names: Vec<_> = rows.iter().map(|row| row["what"].as_str().unwrap()).collect();
    assert_eq!(names, ["replayed", "scheduler=roundrobin", "scheduler=minrtt", "role.dsl=never"]);
    // Without the second link there is less: 50 of 80 Mbit/s.
    let change = &rows[3]["goodput_change"];
    assert!(change["mean"].as_f64().unwrap() < -0.2, "{asked}");
    assert!(asked["measured"]["goodput_bps"].as_f64().unwrap() > 40e6, "{asked}");
    let table = text(&run(&["whatif", "then.toml", "--seeds", "2"], place.path()));
    for word in ["measured", "replayed", "rest on interpolation"] {
        assert!(table.contains(word), "{word}\n{table}");
    }
    std::fs::write(place.path().join("broken.toml"), "server = 5\n").unwrap();
    let wrong: [(&[&str], &str); 5] = [
        (&["record", "list", "-c", "broken.toml"], "broken.toml"),
        (&["whatif", "then.toml", "--try", "role.lte=backup"], "wifi"),
        (&["record", "export", "--folder", "rec", "--from", "never", "--out", "x.toml"], "no time"),
        (&["record", "list", "--folder", "nowhere"], "record = "),
        (
            &["record", "export", "--folder", "rec", "--from", "2h ago", "--out", "x.toml"],
            "no path was busy",
        ),
    ];
    for (args, word) in wrong {
        let output = run(args, place.path());
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && error.contains(word), "{args:?}\n{error}");
    }
}
