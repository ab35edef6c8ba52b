//! `tabane paper`: the contract of its files, and what it says to wrong names.

use crate::program::Place;

#[test]
fn papers_are_listed_and_unknown_ones_refused() {
    let place = Place::new();
    let list = place.json(&["paper", "list", "--json"]);
    let names: Vec<_> = list.as_array().unwrap().iter().map(|row| row["name"].clone()).collect();
    assert!(names.contains(&"ecf3".into()) && names.contains(&"two_wans".into()), "{names:?}");
    for (args, words) in [
        (vec!["paper", "run", "ecf33"], "did you mean 'ecf3'"),
        (vec!["paper", "run"], "<NAME>"),
        (vec!["paper", "run", "s3", "--place"], "--place belongs to proxies"),
        (vec!["paper", "run", "s3", "--jobs", "0"], "--jobs"),
    ] {
        let said = place.tabane(&args);
        assert_eq!(said.code, Some(2), "{args:?}: {}", said.err);
        assert!(said.err.contains(words), "{args:?}: {words} in {}", said.err);
    }
    assert!(!place.path("paper-reports").exists(), "refused before anything is run");
}

#[test]
fn a_quick_run_leaves_a_page_that_needs_no_network_and_a_report_for_scripts() {
    let place = Place::new();
    let table = place.ok(&["paper", "run", "s3", "--quick", "--out", "out"]);
    assert!(table.contains("reproduced"), "{table}");
    let report: serde_json::Value =
        serde_json::from_str(&place.read("out/ecf3/report.json")).unwrap();
    assert_eq!(report["paper"], "ecf3");
    assert_eq!(report["alias"], "s3");
    for (list, fields) in [
        ("claims", &["id", "text", "paper", "ours", "unit", "verdict"][..]),
        ("cells", &["table", "row", "column", "paper", "ours"]),
        ("beyond", &["id", "bound", "ours", "ratio"]),
    ] {
        let rows = report[list].as_array().unwrap();
        assert!(!rows.is_empty(), "{list}");
        for (row, field) in rows.iter().flat_map(|row| fields.iter().map(move |f| (row, f))) {
            assert!(row.get(field).is_some(), "{field} in {row}");
        }
    }
    let calibrated = report["assumptions"].as_array().unwrap().iter();
    assert!(calibrated.filter(|a| a["calibrated"] == true).count() <= 1, "one at most");
    for page in ["out/index.html", "out/ecf3/report.html"] {
        let text = place.read(page);
        for word in ["http", "src=", "<script", "@import", "url("] {
            assert!(!text.contains(word), "{word} in {page}");
        }
    }
    assert!(place.read("out/ecf3/times.svg").starts_with("<svg"));
    assert!(place.read("out/ecf3/cells.csv").starts_with("paper,table,row,column,published,ours"));
}
