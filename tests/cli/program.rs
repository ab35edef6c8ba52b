//! Runs the binary; scenarios that are quick.

use crate::binary;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// A folder of its own for a test, removed afterwards.
pub(crate) struct Place {
    folder: tempfile::TempDir,
}

/// What the binary said and how it ended.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// 2 MB over a slow clean and a faster lossy link.
pub(crate) const BUNDLE: &str = r#"
about = "test"
seed = 7
duration = "30s"
[link.wifi]
rate = "20Mbps"
delay = "10ms"
loss = "0.5%"
[link.lte]
rate = "5Mbps"
delay = "30ms"
[[flow]]
name = "download"
bulk = "2MB"
"#;

impl Place {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    pub(crate) fn read(&self, name: &str) -> String {
        let path = self.path(name);
        std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
    }

    /// Runs the binary here.
    pub(crate) fn tabane(&self, args: &[&str]) -> Said {
        said(&tabane().current_dir(self.folder.path()).args(args).output().unwrap())
    }

    /// Runs it and expects success; its standard output.
    pub(crate) fn ok(&self, args: &[&str]) -> String {
        let said = self.tabane(args);
        assert_eq!(said.code, Some(0), "tabane {}: {}", args.join(" "), said.err);
        said.out
    }

    /// Runs it and expects one JSON document on standard output.
    pub(crate) fn json(&self, args: &[&str]) -> serde_json::Value {
        let out = self.ok(args);
        serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e} in {out}"))
    }
}

pub(crate) fn tabane() -> Command {
    let mut command = binary::tabane();
    command.stdin(Stdio::null());
    command
}

fn said(output: &Output) -> Said {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    Said { code: output.status.code(), out: text(&output.stdout), err: text(&output.stderr) }
}

/// Whether a tool is there; if not, says so, and fails where nothing may be skipped.
pub(crate) fn has(tool: &str) -> bool {
    let found = binary::is_installed(tool);
    if !found {
        assert!(std::env::var_os("CI").is_none(), "{tool} is not installed");
        println!("SKIPPED: {tool} is not installed");
    }
    found
}

#[test]
fn a_measured_series_becomes_a_link_and_is_compared_with_what_it_carries() {
    let place = Place::new();
    place.write("drive.csv", "RTT (ms),Mbit/s,cell,time\n60,20,7,100\n80,4,7,101\n60,0,9,102\n");
    let said = place.tabane(&["sim", "convert", "drive.csv"]);
    assert_eq!(said.out, "time_s,rate_mbps,delay_ms\n0,20,30\n1,4,40\n2,0,30\n3,,\n");
    assert!(said.err.contains("left out, since their names say nothing: cell"), "{}", said.err);
    place.write("link.csv", &said.out);
    let scenario = "about = 'test'\nduration = '24s'\n[link.a]\nconditions = 'link.csv'\n\
        [[flow]]\nname = 'drive'\nbulk = 'unlimited'\n";
    place.write("drive.toml", scenario);
    let said = place.tabane(&["sim", "attainable", "drive.toml", "--json"]);
    let runs: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    let flow = &runs[0]["flows"][0];
    let number = |key: &str| flow[key].as_f64().unwrap();
    assert_eq!(number("attainable_bps"), 8e6 * 0.904);
    assert!((0.7..1.06).contains(&(number("goodput_bps") / 8e6 / 0.904)), "{flow}");
    assert!((0.9..2.5).contains(&number("stall_s")), "{flow}");
    let said = place.tabane(&["sim", "attainable", "drive.toml"]);
    assert!(said.out.contains("drive") && said.out.contains("7.2"), "{}", said.out);
    assert_eq!(runs.as_array().unwrap().len(), 4, "a seed says little");
    let lossy = ["--set", "link.a.loss=1%", "--seeds", "3"];
    let said = place.tabane(&[&["sim", "attainable", "drive.toml"], &lossy[..]].concat());
    assert_eq!(said.out.matches("drive").count(), 2, "one row of three seeds: {}", said.out);
    assert!((1..=3).any(|seed| said.out.contains(&format!("% ({seed})"))), "{}", said.out);
    let said = place.tabane(&["sim", "attainable", "drive.toml", "--set", "seed=5", "--json"]);
    let runs: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!((runs.as_array().unwrap().len(), runs[0]["seed"].as_u64()), (1, Some(5)));
    // Of files that have one name in two folders each is for itself.
    std::fs::create_dir(place.path("other")).unwrap();
    let twice = scenario.replace("[[flow]]", "[[flow]]\nbulk = 'unlimited'\n[[flow]]");
    place.write("other/drive.toml", &twice.replace("conditions = 'link.csv'", "rate = '8Mbps'"));
    let said = place.tabane(&["sim", "attainable", "other/drive.toml", "drive.toml"]);
    assert_eq!((said.code, said.out.matches("drive").count()), (Some(0), 4), "{}", said.out);

    let wrong = place.write("wrong.csv", "time,speed\n0,1\n");
    let said = place.tabane(&["sim", "convert", wrong.to_str().unwrap()]);
    assert_eq!(said.code, Some(2));
    assert!(said.err.contains("line 1: nothing that is known but times"), "{}", said.err);
    assert!(said.err.contains("--column 'THEIRS=time_s'"), "{}", said.err);
}

#[test]
fn the_grid_takes_a_kind_of_links() {
    let place = Place::new();
    let one = ["sim", "grid", "--seed", "2", "--point", "4", "--schedulers", "necf"];
    let run = |more: &[&str]| place.tabane(&[&one[..], more].concat());
    let said = run(&["--links", "varying", "--json", "--out", "grid"]);
    let grid: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(grid["links"], "varying");
    assert!(grid["points"][0]["attainable_bps"].as_f64() > Some(1e6), "{}", said.err);
    assert!(grid["summaries"][0]["loaded"]["stall"]["worst_s"].as_f64() > Some(0.0));
    let csv = place.read("grid/points.csv");
    let widths: Vec<usize> = csv.lines().map(|line| line.split(',').count()).collect();
    assert!(widths.len() == 4 && widths.iter().all(|width| *width == 18), "{csv}");
    let table = run(&["--links", "varying"]).out;
    assert!(table.contains("of attainable") && table.contains("leo"), "{table}");

    let steady: serde_json::Value = serde_json::from_str(&run(&["--json"]).out).unwrap();
    assert!(steady.get("links").is_none() && steady["points"][0].get("attainable_bps").is_none());
    let said = run(&["--links", "foggy"]);
    assert_eq!(said.code, Some(2));
    assert!(said.err.contains("steady, bursty, varying, bloated, jittery, all"), "{}", said.err);
}
