//! What documents say of the papers is what the kept reports say: `papers/NAME/report.json`, a full
//! run with seed 1 (`.ci/papers` makes them).
//!
//! Tables of documents stand between `<!-- report NAME WHAT -->` and `<!-- end -->` and are made
//! here; `TABANE_DOCUMENTS=write` writes them. Before a paragraph beside them stands what it speaks
//! of, `<!-- of PLACE; PLACE -->`: `claim ID`, `target ID`, `table TITLE`, `cells TABLE`, `note N`
//! or `assumed` of the report, or `file NAME` of the paper. Each number of the paragraph with three
//! digits or a point must be said there, or in a comment of its section that begins with
//! `<!-- also`.

use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{env, fs};
use tabane_papers::{ALL, Paper, inventory};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn report(name: &str) -> Value {
    let path = root().join("papers").join(name).join("report.json");
    serde_json::from_str(&read(&path)).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn list<'v>(value: &'v Value, key: &str) -> &'v [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("")
}

/// A value of a claim, with its unit.
fn value(value: &Value, unit: &Value) -> String {
    let number = match value {
        Value::Number(n) => tabane_papers::report::compact(n.as_f64().unwrap_or(f64::NAN)),
        Value::String(words) => return words.clone(),
        _ => return "–".to_owned(),
    };
    format!("{number} {}", text(unit)).trim_end().to_owned()
}

fn table(head: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let line = |fields: &[String]| format!("| {} |\n", fields.join(" | ").replace('\n', " "));
    let mut out = line(&head.iter().map(|&h| h.to_owned()).collect::<Vec<_>>());
    out += &line(&head.iter().map(|_| "---".to_owned()).collect::<Vec<_>>());
    rows.into_iter().for_each(|row| out += &line(&row));
    out
}

fn claims(report: &Value) -> String {
    let rows = list(report, "claims").iter().map(|claim| {
        let [paper, ours] = ["paper", "ours"].map(|key| value(&claim[key], &claim["unit"]));
        vec![text(&claim["text"]).to_owned(), paper, ours, text(&claim["verdict"]).to_owned()]
    });
    table(&["claim", "paper", "ours", "verdict"], rows)
}

fn beyond(report: &Value) -> String {
    let rows = list(report, "beyond").iter().map(|target| {
        let [bound, ours] = ["bound", "ours"].map(|key| value(&target[key], &target["unit"]));
        vec![text(&target["text"]).to_owned(), bound, ours, text(&target["verdict"]).to_owned()]
    });
    table(&["target", "bound", "ours", "verdict"], rows)
}

/// What the paper does not state.
fn assumed(report: &Value) -> String {
    let rows = list(report, "assumptions").iter().map(|one| {
        let mark = if one["calibrated"] == true { " (**fitted**)" } else { "" };
        let value = format!("{}{mark}", text(&one["value"]));
        vec![text(&one["what"]).to_owned(), value, text(&one["why"]).to_owned()]
    });
    table(&["what", "value", "why"], rows)
}

/// The table of the report whose title begins so.
fn named_table(report: &Value, title: &str) -> String {
    let found = at(report, &format!("table {title}"));
    let found = found.first().unwrap_or_else(|| panic!("no table '{title}'"));
    let fields = |row: &Value| -> Vec<String> {
        row.as_array().into_iter().flatten().map(|f| text(f).to_owned()).collect()
    };
    let head = fields(&found["head"]);
    let head: Vec<&str> = head.iter().map(String::as_str).collect();
    table(&head, list(found, "rows").iter().map(fields))
}

/// Cells of the table whose name begins so, by row and column.
fn cells(report: &Value, name: &str) -> String {
    let all = at(report, &format!("cells {name}"));
    assert!(!all.is_empty(), "no cells '{name}'");
    let unique = |key: &str| {
        let mut names: Vec<&str> = Vec::new();
        for cell in &all {
            if !names.contains(&text(&cell[key])) {
                names.push(text(&cell[key]));
            }
        }
        names
    };
    let (rows, columns) = (unique("row"), unique("column"));
    let head: Vec<&str> = [""].into_iter().chain(columns.iter().copied()).collect();
    let rows = rows.iter().map(|row| {
        let field = |column: &&str| {
            let is = |c: &&&Value| c["row"] == **row && c["column"] == **column;
            all.iter().find(is).map_or_else(String::new, |c| {
                let ours = value(&c["ours"], &Value::Null);
                match &c["paper"] {
                    Value::Null => ours,
                    paper => format!("{} / {ours}", value(paper, &Value::Null)),
                }
            })
        };
        [(*row).to_owned()].into_iter().chain(columns.iter().map(field)).collect()
    });
    table(&head, rows)
}

/// All papers: how many claims have which verdict.
fn counts() -> String {
    let rows = ALL.iter().map(|paper| {
        let counts = &report(paper.name)["counts"];
        let count = |key: &str| counts[key].to_string();
        let name = format!("[`{}`](#{})", paper.name, anchor(paper.name));
        [name]
            .into_iter()
            .chain(["reproduced", "fitted", "differs", "unknown"].map(count))
            .collect()
    });
    table(&["paper", "reproduced", "fitted", "differs", "cannot be known"], rows)
}

/// By which a paper's heading in docs/papers.md is linked to.
fn anchor(paper: &str) -> String {
    let document = read(&root().join("docs/papers.md"));
    let begin = format!("## `{paper}` ");
    let heading = document.lines().find(|line| line.starts_with(&begin));
    let heading = heading.unwrap_or_else(|| panic!("docs/papers.md has no heading `{begin}`"));
    let kept = heading[3..].chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
}

fn block(what: &str) -> String {
    let (name, what) = what.split_once(' ').unwrap_or((what, ""));
    if name == "all" {
        return counts();
    }
    let report = report(name);
    let (kind, of) = what.split_once(' ').unwrap_or((what, ""));
    match kind {
        "claims" => claims(&report),
        "beyond" => beyond(&report),
        "assumed" => assumed(&report),
        "table" => named_table(&report, of),
        "cells" => cells(&report, of),
        _ => panic!("'{kind}' is none of claims, beyond, assumed, table, cells"),
    }
}

const BEGIN: &str = "<!-- report ";
const END: &str = "<!-- end -->";

/// The document with its tables made again.
fn made(document: &str) -> String {
    let mut out = String::new();
    let mut rest = document;
    while let Some(at) = rest.find(BEGIN) {
        let (before, after) = rest.split_at(at);
        let (what, after) = after[BEGIN.len()..].split_once(" -->").expect("a comment's end");
        let (_, after) = after.split_once(END).unwrap_or_else(|| panic!("{what}: no {END}"));
        out += &format!("{before}{BEGIN}{what} -->\n{}{END}", block(what));
        rest = after;
    }
    out + rest
}

fn documents() -> Vec<PathBuf> {
    let of = |paper: &&Paper| root().join("papers").join(paper.name).join("README.md");
    ALL.iter().map(of).chain([root().join("docs/papers.md")]).collect()
}

#[test]
fn tables_of_documents_are_those_of_the_reports() {
    let write = env::var("TABANE_DOCUMENTS").is_ok_and(|v| v == "write");
    for path in documents() {
        let (is, shall) = (read(&path), made(&read(&path)));
        if write {
            fs::write(&path, &shall).expect("it can be written");
        } else if let Some((n, (is, shall))) =
            is.lines().zip(shall.lines()).enumerate().find(|(_, (a, b))| a != b)
        {
            panic!(
                "{}:{}: is\n  {is}\nthe report says\n  {shall}\nwrite tables with \
                 TABANE_DOCUMENTS=write cargo test -p tabane-papers --test documents",
                path.display(),
                n + 1
            );
        } else {
            assert_eq!(is, shall, "{}", path.display());
        }
    }
}

#[test]
fn kept_reports_are_of_full_runs_with_the_first_seed() {
    for paper in ALL {
        let report = report(paper.name);
        assert_eq!((&report["quick"], &report["seeds"][0]), (&false.into(), &1.into()));
        assert_eq!(report["paper"], paper.name);
        assert!(report["run_s"].is_null(), "{}: how long it took is not kept", paper.name);
    }
}

#[test]
fn every_item_of_a_paper_is_where_its_inventory_says() {
    for paper in ALL {
        let report = report(paper.name);
        let items = inventory::items(paper).unwrap_or_else(|e| panic!("{e}"));
        assert!(items.len() > 5, "{}", paper.name);
        for item in items {
            for place in &item.places {
                assert!(exists(&report, place), "{}: {}: {place}", paper.name, item.item);
            }
        }
    }
}

/// What that place of a report is; nothing if it has none such.
fn at<'v>(report: &'v Value, place: &str) -> Vec<&'v Value> {
    let (kind, of) = place.split_once(' ').unwrap_or((place, ""));
    let one = |key: &str, is: &dyn Fn(&Value) -> bool| -> Vec<&'v Value> {
        list(report, key).iter().find(|v| is(v)).into_iter().collect()
    };
    match kind {
        "claim" => one("claims", &|c| c["id"] == of),
        "target" => one("beyond", &|t| t["id"] == of),
        "figure" => one("figures", &|f| f[0] == of),
        "table" => one("tables", &|t| text(&t["title"]).starts_with(of)),
        "cells" => list(report, "cells").iter().filter(|c| c["table"] == of).collect(),
        "note" => {
            let n = of.parse::<usize>().ok().and_then(|n| n.checked_sub(1));
            n.and_then(|n| list(report, "notes").get(n)).into_iter().collect()
        }
        "assumed" => list(report, "assumptions").iter().collect(),
        _ => Vec::new(),
    }
}

fn exists(report: &Value, place: &str) -> bool {
    match place.split_once(' ') {
        Some(("document", of)) => root().join(of).is_file(),
        Some(("missing", why)) => why.len() > 20,
        // An item may be in several tables of cells, which begin alike.
        Some(("cells", of)) => {
            list(report, "cells").iter().any(|c| text(&c["table"]).starts_with(of))
        }
        _ => !at(report, place).is_empty(),
    }
}

/// Whether claims that are not reproduced say why.
#[test]
fn no_claim_differs_without_a_reason() {
    for paper in ALL {
        for claim in list(&report(paper.name), "claims") {
            let verdict = text(&claim["verdict"]);
            let words = verdict.split_whitespace().count();
            assert!(verdict == "reproduced" || words >= 5, "{}: {claim}", paper.name);
        }
    }
}

/// Numbers of three digits or more, or with a point, as they stand: `13 575` is 13575.
fn numbers(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        if !bytes[at].is_ascii_digit() || at > 0 && (bytes[at - 1].is_ascii_alphanumeric()) {
            at += 1;
            continue;
        }
        let mut number = String::new();
        while at < bytes.len() {
            let next = |n: usize| bytes.get(at + n).is_some_and(u8::is_ascii_digit);
            let group = bytes[at] == b' ' && next(1) && next(2) && next(3) && !next(4);
            if bytes[at].is_ascii_digit() || bytes[at] == b'.' && next(1) {
                number.push(char::from(bytes[at]));
            } else if !group {
                break;
            }
            at += 1;
        }
        if number.contains('.') || number.len() >= 3 {
            found.insert(number);
        }
    }
    found
}

/// What one place of a report says.
#[derive(Default)]
struct Said {
    values: Vec<f64>,
    words: BTreeSet<String>,
}

impl Said {
    fn add(&mut self, value: &Value) {
        match value {
            Value::Number(n) => self.values.extend(n.as_f64()),
            Value::String(words) => self.words.extend(numbers(words)),
            Value::Array(all) => all.iter().for_each(|v| self.add(v)),
            Value::Object(all) => all.values().for_each(|v| self.add(v)),
            Value::Null | Value::Bool(_) => {}
        }
    }

    /// Whether it says the number, or one that is that when rounded, of a share in per cent, too.
    fn has(&self, number: &str) -> bool {
        let digits = number.split_once('.').map_or(0, |(_, digits)| digits.len());
        let is = |value: f64| format!("{:.digits$}", value.abs()) == number;
        self.words.iter().any(|n| n == number || n.parse().is_ok_and(is))
            || self.values.iter().any(|&v| is(v) || is(v * 100.0))
    }
}

/// What that place of a paper's report, or that file of the paper, says; none if there is none.
fn said(paper: &str, report: &Value, place: &str) -> Option<Said> {
    let mut said = Said::default();
    if let Some(file) = place.strip_prefix("file ") {
        let text = fs::read_to_string(root().join("papers").join(paper).join(file)).ok()?;
        said.words = numbers(&text);
        return Some(said);
    }
    let found = at(report, place);
    found.iter().for_each(|value| said.add(value));
    (!found.is_empty()).then_some(said)
}

/// Paragraphs of a section but for tables that are made here, each with what it says that it is of.
fn paragraphs(section: &str) -> Vec<(Vec<&str>, String)> {
    let mut found = vec![(Vec::new(), String::new())];
    let mut inside = false;
    for line in section.lines() {
        inside = line.starts_with(BEGIN) || inside && line != END;
        let last = found.last_mut().expect("there is one from the beginning");
        let of = line.strip_prefix("<!-- of ").and_then(|rest| rest.strip_suffix(" -->"));
        if let Some(places) = of {
            last.0 = places.split("; ").collect();
        } else if inside || line.is_empty() || line == END || line.starts_with("<!-- also") {
            found.push((Vec::new(), String::new()));
        } else {
            last.1 += line;
            last.1.push('\n');
        }
    }
    found
}

#[test]
fn numbers_beside_tables_are_where_their_paragraph_says() {
    let document = read(&root().join("docs/papers.md"));
    let mut wrong = Vec::new();
    for section in document.split("\n## ").skip(1) {
        let Some(paper) = ALL.iter().find(|p| section.starts_with(&format!("`{}`", p.name))) else {
            continue;
        };
        let report = report(paper.name);
        let by_hand = section.lines().filter(|line| line.starts_with("<!-- also"));
        let by_hand: BTreeSet<String> = by_hand.flat_map(numbers).collect();
        for (places, words) in paragraphs(section) {
            let begin: String = words.chars().take(40).collect();
            let numbers: Vec<String> =
                numbers(&words).into_iter().filter(|n| !by_hand.contains(n)).collect();
            let mut left = numbers.clone();
            for place in places {
                let Some(said) = said(paper.name, &report, place) else {
                    wrong.push(format!("{}: '{begin}': there is no {place}", paper.name));
                    continue;
                };
                left.retain(|number| !said.has(number));
                if !numbers.iter().any(|number| said.has(number)) {
                    wrong.push(format!("{}: '{begin}': no number is of {place}", paper.name));
                }
            }
            for number in left {
                wrong.push(format!("{}: '{begin}': {number} is in none of its places", paper.name));
            }
        }
    }
    assert!(wrong.is_empty(), "docs/papers.md: {wrong:#?}");
}
