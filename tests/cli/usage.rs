//! What a person meets: help, wrong usage, missing files, wrong scenarios, broken pipes.

use crate::program::{BUNDLE, Place, tabane};
use std::io::Read;
use std::process::Stdio;

#[test]
fn help_has_examples_and_names_every_verb() {
    let place = Place::new();
    let help = place.ok(&["--help"]);
    for word in ["sim", "list", "bench", "Examples:", "Exit codes"] {
        assert!(help.contains(word), "{word} in {help}");
    }
    for verb in [["sim", "run"], ["sim", "list"], ["sim", "check"], ["sim", "swarm"]] {
        let help = place.ok(&[verb[0], verb[1], "--help"]);
        assert!(help.contains("Usage:"), "{help}");
    }
    assert!(place.ok(&["sim", "run", "--help"]).contains("Examples:"));
    assert!(place.ok(&["--version"]).starts_with("tabane 0."));
}

#[test]
fn wrong_usage_is_exit_2_and_says_what_to_do() {
    let place = Place::new();
    place.write("s.toml", BUNDLE);
    for (args, words) in [
        (vec!["lits"], "'list'"),
        (vec!["sim", "run"], "<FILE>"),
        (vec!["sim", "run", "s.toml", "--jsno"], "'--json'"),
        (vec!["sim", "run", "s.toml", "--pcap", "client"], "--out"),
        (vec!["sim", "run", "s.toml", "--seed", "x"], "--seed"),
        (vec!["sim", "swarm", "--seeds", "5..5"], "the one after the last"),
        (vec!["bench", "refrence"], "did you mean 'reference'"),
        (vec!["bench", "gateway", "bnod"], "'bond'"),
        (vec!["-q", "-v", "list"], "--quiet"),
        (vec![], "Usage:"),
    ] {
        let said = place.tabane(&args);
        assert_eq!(said.code, Some(2), "{args:?}: {}", said.err);
        assert!(said.err.contains(words), "{args:?}: {words} in {}", said.err);
        assert!(said.out.is_empty(), "{args:?}: {}", said.out);
    }
}

#[test]
fn a_file_that_cannot_be_read_is_exit_1_with_its_cause() {
    let place = Place::new();
    let said = place.tabane(&["sim", "run", "nowhere.toml"]);
    assert_eq!(said.code, Some(1));
    assert!(said.err.contains("nowhere.toml: No such file"), "{}", said.err);
}

#[test]
fn a_folder_that_cannot_be_made_is_exit_1_with_its_cause() {
    let place = Place::new();
    place.write("s.toml", BUNDLE);
    place.write("file", "");
    let said = place.tabane(&["sim", "run", "s.toml", "--out", "file/below"]);
    assert_eq!(said.code, Some(1));
    assert!(said.err.contains("file/below cannot be made"), "{}", said.err);
}

#[test]
fn a_wrong_scenario_is_refused_with_line_column_and_remedy() {
    let place = Place::new();
    let cases = [
        (BUNDLE.replace("rate = \"5Mbps\"", "rtae = \"5Mbps\""), ":10:1: ", "'rate'"),
        (BUNDLE.replace("\"30ms\"", "\"-3ms\""), ":11:", "-3ms"),
        (BUNDLE.replace("seed = 7", "seed = "), ":3:", ""),
        (BUNDLE.replace("bulk = \"2MB\"", "bulk = \"2MB\"\nfrom = \"moon\""), "", "moon"),
        (format!("defaults.scheduler = \"minrt\"\n{BUNDLE}"), ":1:", "did you mean 'minrtt'"),
    ];
    for (text, position, remedy) in cases {
        place.write("bad.toml", &text);
        for verb in ["run", "check"] {
            let said = place.tabane(&["sim", verb, "bad.toml"]);
            assert_eq!(said.code, Some(2), "{verb}: {}", said.err);
            assert!(said.err.contains(&format!("bad.toml{position}")), "{}", said.err);
            assert!(said.err.contains(remedy), "{}", said.err);
        }
    }
}

#[test]
fn a_wrong_set_is_refused_and_shown() {
    let place = Place::new();
    place.write("s.toml", BUNDLE);
    for set in ["link.wifi.rate", "link.wifi.rate=fast", "link.wfi.rate=1Mbps", "speed=1"] {
        let said = place.tabane(&["sim", "run", "s.toml", "--set", set]);
        assert_eq!(said.code, Some(2), "{set}: {}", said.err);
        assert!(said.err.contains(&format!("--set {set}")), "{set}: {}", said.err);
    }
}

#[test]
fn nobody_reading_is_not_a_failure() {
    for args in [vec!["list"], vec!["sim", "schema"], vec!["list", "--json"]] {
        let mut child =
            tabane().args(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let mut words = String::new();
        child.stderr.take().unwrap().read_to_string(&mut words).unwrap();
        assert!(child.wait().unwrap().success(), "{args:?}");
        assert_eq!(words, "", "{args:?}");
    }
}

#[test]
fn list_names_every_table_with_a_line_each() {
    let place = Place::new();
    let tables = place.json(&["list", "--json"]);
    let text = place.ok(&["list"]);
    let tables = tables.as_object().unwrap();
    for kind in ["scheduler", "congestion", "egress", "queue", "rate", "loss", "delay", "app"] {
        let rows = tables[kind].as_array().unwrap();
        assert!(!rows.is_empty(), "{kind}");
        for row in rows {
            let (name, summary) = (row["name"].as_str().unwrap(), row["summary"].as_str().unwrap());
            assert!(!summary.is_empty() && !summary.contains('\n'), "{kind} {name}");
            assert!(text.contains(summary), "{kind} {name} is not in the text");
        }
    }
    let names = |kind: &str| -> Vec<String> {
        let rows = tables[kind].as_array().unwrap();
        rows.iter().map(|r| r["name"].as_str().unwrap().to_owned()).collect()
    };
    for name in ["minrtt", "roundrobin", "redundant"] {
        assert!(names("scheduler").iter().any(|n| n == name), "{name}");
    }
    for name in ["reno", "cubic"] {
        assert!(names("congestion").iter().any(|n| n == name), "{name}");
    }
}

#[test]
fn sim_list_finds_scenarios_and_says_which_are_wrong() {
    let place = Place::new();
    std::fs::create_dir_all(place.path("scenarios/deep")).unwrap();
    place.write("scenarios/good.toml", BUNDLE);
    place.write("scenarios/deep/sweep.toml", &BUNDLE.replace("seed = 7", "seed = [1, 2, 3]"));
    place.write("scenarios/bad.toml", "sed = 7\n");
    let list = place.ok(&["sim", "list"]);
    assert!(list.contains("scenarios/good.toml"), "{list}");
    assert!(list.contains("(3 runs)"), "{list}");
    assert!(list.contains("(wrong: 1:1: "), "{list}");
    let found = place.json(&["sim", "list", "--json"]);
    assert_eq!(found.as_array().unwrap().len(), 3);
}

#[test]
fn quiet_says_nothing_but_the_result() {
    let place = Place::new();
    place.write("s.toml", BUNDLE);
    let said = place.tabane(&["-q", "sim", "run", "s.toml", "--out", "o"]);
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""));
    let said = place.tabane(&["-v", "sim", "run", "s.toml"]);
    assert!(said.err.contains("packet-hops"), "{}", said.err);
}
