//! Judges congestion controllers: goodput where packets are lost at random, what is left beside
//! CUBIC and Reno, the queue that stands, how soon an outage is over, and what several subflows
//! take of one bottleneck. Every figure comes from the simulator, so that the same command prints
//! the same table anywhere.
//!
//!     cargo run --release -p tabane-sim --example judge -- cubic cubicq bbr reno olia
//!     ... judge -- --set unseen --seeds 101-105 cubicq bbr     # other links, other seeds
//!     ... judge -- --only share --each cubicq                  # some rows, every run of them
#![allow(clippy::unwrap_used)]

mod cases;
mod watch;

use cases::{Case, Set};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What the command line asks for.
struct Args {
    set: Set,
    seeds: Vec<u64>,
    /// Rows whose name contains this.
    only: String,
    /// Print every run, too.
    each: bool,
    controllers: Vec<String>,
}

fn args() -> Args {
    let mut args = Args {
        set: Set::Design,
        seeds: vec![1, 2, 3],
        only: String::new(),
        each: false,
        controllers: Vec::new(),
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--set" => args.set = Set::named(&words.next().unwrap()),
            "--seeds" => args.seeds = seeds(&words.next().unwrap()),
            "--only" => args.only = words.next().unwrap(),
            "--each" => args.each = true,
            _ => args.controllers.push(word),
        }
    }
    args
}

/// `1-3` or `7`.
fn seeds(text: &str) -> Vec<u64> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    (first.parse().unwrap()..=last.parse().unwrap()).collect()
}

fn main() {
    let args = args();
    let mut cases = cases::all(args.set);
    cases.retain(|case| case.row.contains(&args.only));
    let jobs: Vec<(usize, usize, u64)> = (0..args.controllers.len())
        .flat_map(|c| (0..cases.len()).map(move |i| (c, i)))
        .flat_map(|(c, i)| args.seeds.iter().map(move |&seed| (c, i, seed)))
        .collect();
    let next = AtomicUsize::new(0);
    let values = Mutex::new(BTreeMap::new());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(&job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let (c, i, seed) = job;
                    let value = cases[i].judge(&args.controllers[c], seed);
                    values.lock().unwrap().insert(job, value);
                }
            });
        }
    });
    let values = values.into_inner().unwrap();
    if args.each {
        for (&(c, i, seed), value) in &values {
            println!("{:24} {:40} seed {seed}: {value:.3}", args.controllers[c], cases[i].name());
        }
    }
    print(&args, &cases, &values);
}

/// A row for each kind of case: the mean of all its links and seeds, and the worst in brackets.
fn print(args: &Args, cases: &[Case], values: &BTreeMap<(usize, usize, u64), f64>) {
    let mut rows: Vec<&str> = Vec::new();
    for case in cases {
        if !rows.contains(&case.row.as_str()) {
            rows.push(&case.row);
        }
    }
    print!("| row | aim |");
    args.controllers.iter().for_each(|name| print!(" {name} |"));
    println!("\n|---|---|{}", "---|".repeat(args.controllers.len()));
    for row in rows {
        let aim = cases.iter().find(|case| case.row == row).unwrap().aim;
        print!("| {row} | {aim} |");
        for c in 0..args.controllers.len() {
            let of_row = |job: &(usize, usize, u64)| job.0 == c && cases[job.1].row == row;
            let found: Vec<f64> =
                values.iter().filter(|(job, _)| of_row(job)).map(|(_, &value)| value).collect();
            let mean = found.iter().sum::<f64>() / found.len() as f64;
            print!(" {mean:.2} ({:.2}) |", aim.worst(&found));
        }
        println!();
    }
}
