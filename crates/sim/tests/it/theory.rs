//! What the simulator does beside what theory says: the tables of docs/theory.md are made here.
//!
//! Each row is a run of a file in `scenarios/theory`, measured by an observer of its own; how far
//! ours may be from theory is an assertion. `TABANE_DOCUMENTS=write` writes the tables.

mod probe;
mod queues;
mod rows;
mod windows;

use rows::Row;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{env, fs, thread};

fn document() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/theory.md")
}

/// All rows, in order. Each is a run of its own, so that they can share the cores.
fn measured() -> Vec<Row> {
    let (next, rows) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        loop {
            let n = next.fetch_add(1, Ordering::Relaxed);
            let Some(measure) = rows::ALL.get(n) else { return };
            let measured = measure();
            rows.lock().expect("invariant: who holds it does not panic").push((n, measured));
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    let mut rows = rows.into_inner().expect("invariant: who held it did not panic");
    rows.sort_by_key(|(n, _)| *n);
    rows.into_iter().flat_map(|(_, rows)| rows).collect()
}

/// So many digits that a change shows, and no more than mean something.
fn figure(value: f64) -> String {
    let digits = match value.abs() {
        1000.0.. => 0,
        100.0.. => 1,
        10.0.. => 2,
        _ => 3,
    };
    format!("{value:.digits$}")
}

fn results(rows: &[Row]) -> String {
    let mut out = String::from(
        "| row | what | theory | from | theory | ours | ours / theory | at most |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    for row in rows {
        let Row { name, what, formula, source, theory, ours, within, .. } = row;
        let [theory, ours, ratio] = [*theory, *ours, row.ratio()].map(figure);
        let said = format!("`{name}` | {what} | {formula} | {source}");
        out += &format!("| {said} | {theory} | {ours} | {ratio} | {within} |\n");
    }
    out
}

fn commands(rows: &[Row]) -> String {
    let mut out = String::from("| row | repeat it |\n|---|---|\n");
    for row in rows {
        out += &format!("| `{}` | `{}` |\n", row.name, row.setting.command());
    }
    out
}

const BEGIN: &str = "<!-- theory ";
const END: &str = "<!-- end -->";

/// The page with its tables made again.
fn made(page: &str, rows: &[Row]) -> String {
    let (mut out, mut rest) = (String::new(), page);
    while let Some((before, after)) = rest.split_once(BEGIN) {
        let (what, after) = after.split_once(" -->").expect("the comment ends");
        let (_, after) = after.split_once(END).unwrap_or_else(|| panic!("{what}: no {END}"));
        let table = match what {
            "results" => results(rows),
            "commands" => commands(rows),
            _ => panic!("'{what}' is neither results nor commands"),
        };
        out += &format!("{before}{BEGIN}{what} -->\n{table}{END}");
        rest = after;
    }
    out + rest
}

#[test]
fn the_simulator_does_what_theory_says() {
    let rows = measured();
    println!("{}", results(&rows));
    for row in &rows {
        let ratio = row.ratio();
        let off = ratio.max(1.0 / ratio);
        assert!(off <= row.within, "{}: {ratio} of theory, {}", row.name, row.setting.command());
    }
    let path = document();
    let page = fs::read_to_string(&path).expect("the page is there");
    for row in &rows {
        let name = format!("`{}`", row.name);
        let told = page.lines().any(|line| line.starts_with("- `") && line.contains(&name));
        assert!(told, "the page does not say why {name} differs");
    }
    let shall = made(&page, &rows);
    if env::var("TABANE_DOCUMENTS").is_ok_and(|v| v == "write") {
        fs::write(&path, shall).expect("it can be written");
        return;
    }
    for (n, (is, shall)) in page.lines().zip(shall.lines()).enumerate() {
        assert!(
            is == shall,
            "docs/theory.md:{}: is\n  {is}\nmeasured\n  {shall}\nwrite the tables with \
             TABANE_DOCUMENTS=write cargo test -p tabane-sim --test it theory",
            n + 1
        );
    }
    assert_eq!(page, shall);
}
