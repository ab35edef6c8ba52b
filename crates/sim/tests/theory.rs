//! What the simulator does beside what theory says: the table of docs/theory.md is made here.
//!
//! `TABANE_DOCUMENTS=write` writes it. Each row is a run of a file in `scenarios/theory`, and how
//! far ours may be from theory is an assertion.

#[path = "theory/probe.rs"]
mod probe;
#[path = "theory/queues.rs"]
mod queues;
#[path = "theory/rows.rs"]
mod rows;
#[path = "theory/windows.rs"]
mod windows;

use rows::Row;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{env, fs, thread};

fn document() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/theory.md")
}

/// All rows, in order, by two threads: a row is a run of its own.
fn measured() -> Vec<Row> {
    let (next, rows) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(measure) = rows::ALL.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let begin = std::time::Instant::now();
                    let row = measure();
                    eprintln!("{}: {:.2?}", row.name, begin.elapsed());
                    rows.lock().expect("invariant: no thread panics with it").push(row);
                }
            });
        }
    });
    let mut rows = rows.into_inner().expect("invariant: no thread panics with it");
    rows.sort_by_key(|row| rows::ORDER.iter().position(|name| *name == row.name));
    rows
}

#[test]
fn theory_holds() {
    let rows = measured();
    for row in &rows {
        println!("{} {} {} {}", row.name, row.theory, row.ours, row.ratio());
    }
}
