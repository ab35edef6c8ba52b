//! Sweeps: axes as columns, means over seeds, and what is kept when one is interrupted.

use crate::files::rows;
use crate::program::{Place, tabane};
use serde_json::Value;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A second of simulated time over a lossy link, so that seeds differ.
const SHORT: &str = r#"
duration = "30s"
[link.wifi]
rate = "20Mbps"
delay = "10ms"
loss = "1%"
[[flow]]
name = "download"
bulk = "500kB"
"#;

const SETS: [&str; 4] =
    ["--set", "seed=[1, 2, 3, 4]", "--set", r#"link.wifi.rate=["10Mbps", "20Mbps"]"#];

fn sweep<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&["sim", "run", "s.toml"], &SETS[..], more].concat()
}

/// The runs of a document, without what they cost.
fn runs(document: &Value) -> Vec<Value> {
    let mut runs = document["runs"].as_array().unwrap().clone();
    runs.iter_mut().for_each(|run| drop(run.as_object_mut().unwrap().remove("cost")));
    runs
}

#[test]
fn axes_are_columns_and_seeds_are_taken_together() {
    let place = Place::new();
    place.write("s.toml", SHORT);
    let text = place.ok(&sweep(&["--out", "o"]));
    assert!(text.contains("95 % interval") && text.contains(" ± "), "{text}");

    let summary = rows(&place.read("o/summary.csv"));
    let goodputs = |rate: &str| -> Vec<f64> {
        let of = summary.iter().filter(|row| row["link.wifi.rate"] == rate);
        let whole = of.filter(|row| row["subflow"].is_empty() && row["host"].is_empty());
        let goodput = whole.filter(|row| row["metric"] == "goodput_bps");
        goodput.map(|row| row["value"].parse().unwrap()).collect()
    };
    let values = goodputs("10Mbps");
    assert_eq!((values.len(), goodputs("20Mbps").len()), (4, 4));
    let mean = values.iter().sum::<f64>() / 4.0;
    let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / 3.0;
    // The 97.5 % quantile of Student's t with three degrees of freedom.
    let half = 3.182 * (variance / 4.0).sqrt();
    assert!(half > 0.0, "seeds differ: {values:?}");

    let estimates = rows(&place.read("o/estimates.csv"));
    let row = estimates.iter().find(|row| {
        row["link.wifi.rate"] == "10Mbps"
            && row["metric"] == "goodput_bps"
            && row["subflow"].is_empty()
            && row["host"].is_empty()
    });
    let row = row.unwrap();
    let number = |name: &str| row[name].parse::<f64>().unwrap();
    assert_eq!(row["runs"], "4");
    for (name, value) in [("mean", mean), ("low", mean - half), ("high", mean + half)] {
        assert!((number(name) - value).abs() < 1.0, "{name} {} {value}", number(name));
    }
    let plot = place.read("o/goodput_bps.svg");
    for words in ["10Mbps", "20Mbps", "link.wifi.rate", "4 seeds", "download"] {
        assert!(plot.contains(words), "{words} in {plot}");
    }
    roxmltree::Document::parse(&plot).unwrap();
}

#[test]
fn an_interrupted_sweep_goes_on_from_there() {
    let place = Place::new();
    place.write("s.toml", SHORT);
    // The first run is over in a moment; all together take longer than a signal needs.
    let sizes = "flow.bulk=[\"500kB\", \"300MB\"]";
    let long = ["--set", "seed=[1,2,3,4,5,6,7,8]", "--set", sizes, "--set", "duration=600s"];
    let args = |out| [&["sim", "run", "s.toml"], &long[..], &["--out", out]].concat();
    let kept = || std::fs::read_to_string(place.path("o/runs.jsonl")).unwrap_or_default();
    let whole = |text: &str| text.lines().filter(|line| line.ends_with('}')).count();

    let mut command = tabane();
    command.args(args("o")).current_dir(place.path(".")).stdout(Stdio::null());
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let end = Instant::now() + Duration::from_secs(60);
    while whole(&kept()) == 0 {
        assert!(Instant::now() < end && child.try_wait().unwrap().is_none(), "{}", kept());
        std::thread::sleep(Duration::from_millis(2));
    }
    let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(kill.unwrap().success());
    let ended = child.wait_with_output().unwrap();
    let words = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(130), "{words}");
    let before = kept();
    let count = whole(&before);
    assert!(words.contains(&format!("{count} of 16 runs are kept")), "{words}");
    let part: Value = serde_json::from_str(&place.read("o/results.json")).unwrap();
    assert_eq!((part["runs"].as_array().unwrap().len(), &part["points"]), (count, &16.into()));

    // What an abrupt end would leave: half a line.
    std::fs::write(place.path("o/runs.jsonl"), format!("{before}{{\"key\":\"12")).unwrap();
    let said = place.tabane(&args("o"));
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(said.err.contains(&format!("{count} of 16 runs are done")), "{}", said.err);
    assert!(kept().starts_with(&before), "what was kept stays");
    assert_eq!(whole(&kept()), 16, "no run is made twice");
    place.ok(&args("fresh"));
    let read = |name| serde_json::from_str::<Value>(&place.read(name)).unwrap();
    assert_eq!(runs(&read("o/results.json")), runs(&read("fresh/results.json")));
    assert_eq!(place.read("o/summary.csv"), place.read("fresh/summary.csv"));

    // Another scenario is another run.
    place.write("s.toml", &SHORT.replace("1%", "2%"));
    let said = place.tabane(&args("o"));
    assert!(!said.err.contains("are done"), "{}", said.err);
}

/// No scenario makes one: it is written into what is kept.
#[test]
fn a_wrong_byte_in_a_sweep_is_a_failure() {
    let place = Place::new();
    place.write("s.toml", SHORT);
    place.ok(&sweep(&["--out", "o"]));
    let kept = place.read("o/runs.jsonl");
    let wrong =
        kept.replacen("\"name\":\"download\"", "\"name\":\"download\",\"corrupt_at\":17", 1);
    assert_ne!(kept, wrong);
    std::fs::write(place.path("o/runs.jsonl"), wrong).unwrap();
    for more in [&["--out", "o"][..], &["--out", "o", "--json"]] {
        let said = place.tabane(&sweep(more));
        assert_eq!(said.code, Some(1), "{}", said.err);
        assert!(said.err.contains("flow 'download' delivered a wrong byte at 17"), "{}", said.err);
        assert!(said.err.contains("seed"), "which run it was: {}", said.err);
        assert!(said.out.contains("10Mbps") && said.out.contains("20Mbps"), "{}", said.out);
    }
}
