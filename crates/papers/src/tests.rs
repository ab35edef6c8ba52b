//! The harness by itself: names, jobs, and what every paper must have.

use super::*;

#[test]
fn aliases_are_found_and_unknown_names_suggest_the_nearest() {
    assert_eq!(find("ecf3").unwrap().name, "ecf3");
    assert_eq!(find("s3").unwrap().name, "ecf3");
    let error = find("ecf33").unwrap_err().to_string();
    assert!(error.contains("did you mean 'ecf3'"), "{error}");
    assert!(error.contains("bicast (s1), hayack (s2)"), "{error}");
}

#[test]
fn jobs_are_single_runs_with_every_list_fixed() {
    let text = "[link.a]\nrate = [\"1Mbps\", \"2Mbps\"]\n[[flow]]\nbulk = \"1kB\"\n";
    let sweep = Job::new("t.toml", text, &[]).unwrap_err().to_string();
    assert!(sweep.contains("2 runs") && sweep.contains("link.a.rate"), "{sweep}");
    let fixed = Job::new("t.toml", text, &[("link.a.rate", "3Mbps"), ("seed", "9")]).unwrap();
    assert_eq!(fixed.plan.scenario.seed, 9);
    let quiet = |_: Progress<'_>| ();
    let mut context = Context::new(&quiet);
    let results = context.run("one", std::slice::from_ref(&fixed)).unwrap();
    context.options.sets = vec!["link.a.rate=6Mbps".into()];
    let changed = context.run("one", std::slice::from_ref(&fixed)).unwrap();
    let seconds = |results: &[_]| fixed.completed(&results[0], "flow1").unwrap();
    assert!(seconds(&changed) < seconds(&results), "what is laid over every run");
    context.options.sets = vec!["link.b.rate=6Mbps".into()];
    let wrong = context.run("one", std::slice::from_ref(&fixed)).unwrap_err().to_string();
    assert!(wrong.contains("t.toml") && wrong.contains("no link 'b'"), "{wrong}");
    assert!(fixed.completed(&results[0], "flow1").unwrap() > 0.002);
    let missing = fixed.completed(&results[0], "flow2").unwrap_err().to_string();
    assert!(missing.contains("no such flow"), "{missing}");
}

use crate::figure::{Axis, Figure, Heat, Kind, Panel, Plot, Series, Source};
use crate::report::{Report, Table, Value, Verdict, compact};

/// A report with one of everything.
fn sample() -> Report {
    let quiet = |_: Progress<'_>| ();
    let mut report = Report::new(&ecf3::PAPER, &Context::new(&quiet));
    report.claim(
        "gain",
        "A < B & \"C\"",
        (-9.0, -8.5, "%"),
        Verdict::within(-9.0, -8.5, 3.0, String::new),
    );
    report.claim("words", "equal", ("equal", Value::Unknown, ""), Verdict::Not("of <x>".into()));
    report.cell("times", "10 MB", "minRTT", (Some(10.0), 11.0, "s"));
    report.cell("times", "20 MB", "minRTT", (Some(20.0), 20.0, "s"));
    report.cell("times", "20 MB", "ours, alone", (None, 19.0, "s"));
    report.target("bound", "near the bound", (9.0, 9.9, "s"), Verdict::Partly("half".into()));
    report.assume("queue", "100 packets", "ns-3's default");
    report.calibrate("rtt", "1 ms", "fits row 3 & 4");
    report.note("a finding: 1 < 2");
    let (title, caption) = ("t".to_owned(), "c".to_owned());
    let (head, rows) = (vec!["a".to_owned()], vec![vec!["<b>".to_owned()]]);
    report.tables.push(Table { title, head, rows, caption });
    let series = |source, hue| Series {
        label: format!("{} & co", Source::name(source)),
        hue,
        source,
        points: vec![(0.0, 1.0), (1.0, f64::NAN), (2.0, 30.0)],
    };
    let all = vec![series(Source::Paper, 0), series(Source::Ours, 0), series(Source::Bound, 1)];
    let plot = |kind, names: &[&str], log| {
        let x = Axis::named("size", names);
        let y = Axis { log, ..Axis::new("seconds") };
        Panel::Plot(Plot { title: "<p>".into(), x, y, kind, series: all.clone() })
    };
    let heat = Panel::Heat(Heat {
        title: "h".into(),
        rows: ("up".into(), vec!["0 %".into(), "1 %".into()]),
        columns: ("down".into(), vec!["0 %".into()]),
        values: vec![vec![Some(54.7)], vec![None]],
        scale: (50.0, 60.0),
    });
    report.figures.push(Figure {
        id: "all".into(),
        title: "Everything".into(),
        caption: "what to see".into(),
        columns: 2,
        panels: vec![
            plot(Kind::Bars, &["a", "b", "c"], false),
            plot(Kind::Points, &[], false),
            plot(Kind::Lines, &[], true),
            heat,
        ],
    });
    report.finish()
}

fn file(files: &[(String, Vec<u8>)], name: &str) -> String {
    let found = files.iter().find(|f| f.0 == name).unwrap_or_else(|| panic!("no {name}"));
    String::from_utf8(found.1.clone()).unwrap()
}

#[test]
fn pages_are_well_formed_and_need_no_network() {
    let files = output::files(&sample());
    let page = file(&files, "report.html");
    let quiet = |_: Progress<'_>| ();
    let cited = output::files(&Report::new(&proxies::PAPER, &Context::new(&quiet)));
    for name in ["report.html", "report.json"] {
        let text = file(&cited, name);
        for words in ["Kana Yamanegi", "2005", "10.1109/APSITT.2005.203624"] {
            assert!(text.contains(words), "{words} in {name}");
        }
    }
    for word in ["http", "src=", "<script", "@import", "url("] {
        assert!(!page.contains(word), "{word} in the page");
    }
    let body = page.split_once('\n').unwrap().1;
    let tree = roxmltree::Document::parse(body).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(tree.descendants().filter(|n| n.has_tag_name("svg")).count(), 1);
    assert!(page.contains("not reproduced: because of &lt;x&gt;"));
    assert!(page.contains("mean absolute percentage error 5.0 %"), "{page}");
    let svg = file(&files, "all.svg");
    let tree = roxmltree::Document::parse(&svg).unwrap_or_else(|e| panic!("{e}"));
    assert!(!svg.contains("NaN"), "a point that is no number");
    assert!(tree.descendants().any(|n| n.text() == Some("54.7")), "a cell's value");
    assert_eq!(files, output::files(&sample()), "the same report gives the same bytes");
}

#[test]
fn report_json_has_the_shape_that_scripts_rely_on() {
    let files = output::files(&sample());
    let json: serde_json::Value = serde_json::from_str(&file(&files, "report.json")).unwrap();
    assert_eq!(json["paper"], "ecf3");
    assert_eq!(json["alias"], "s3");
    for (list, fields) in [
        ("claims", &["id", "text", "paper", "ours", "unit", "verdict"][..]),
        ("cells", &["table", "row", "column", "paper", "ours"]),
        ("beyond", &["id", "bound", "ours", "ratio"]),
    ] {
        let rows = json[list].as_array().unwrap();
        assert!(!rows.is_empty(), "{list}");
        for (row, field) in rows.iter().flat_map(|row| fields.iter().map(move |f| (row, f))) {
            assert!(row.get(field).is_some(), "{field} in {row}");
        }
    }
    assert_eq!(json["claims"][0]["verdict"], "reproduced");
    assert_eq!(json["claims"][1]["ours"], serde_json::Value::Null);
    assert!((json["beyond"][0]["ratio"].as_f64().unwrap() - 1.1).abs() < 1e-9);
    assert_eq!(json["beyond"][0]["verdict"], "partly met: half");
}

#[test]
fn tables_are_tidy() {
    let files = output::files(&sample());
    let cells = file(&files, "cells.csv");
    assert!(cells.ends_with("ecf3,times,20 MB,\"ours, alone\",,19,s\n"), "{cells}");
    let series = file(&files, "series.csv");
    assert!(series.contains("ecf3,all,<p>,paper & co,paper,a,1\n"), "{series}");
    assert!(series.contains("ecf3,all,h,0 %,,0 %,54.7\n"), "{series}");
}

#[test]
fn numbers_have_as_many_digits_as_tell_something() {
    let texts = [0.0, 0.05, 1.234_56, 54.678, 145.67, 12_345.6, -9.0].map(compact);
    assert_eq!(texts, ["0", "0.05", "1.235", "54.68", "145.7", "12346", "-9"]);
}
