//! The verbs: one file each, with its `Args` and a function `run`. A new verb is its file, a
//! variant of [`Verb`] and an arm of [`run`].

mod attach;
mod bench;
mod demo;
mod get;
mod list;
mod paper;
mod pcap;
mod progress;
mod serve;
mod sim;

use crate::exit::Failure;
use clap::Subcommand;

/// What tabane can do.
#[derive(Subcommand, Debug)]
pub(crate) enum Verb {
    /// Name every policy, link model and application.
    List(list::Args),
    /// Send a file over an emulated Wi-Fi and an emulated LTE, alone and together; no root needed.
    Demo(demo::Args),
    /// Serve a directory over HTTP, from the engine behind TUN devices.
    Serve(serve::Args),
    /// Download or upload over HTTP, from the engine behind TUN devices.
    Get(get::Args),
    /// Measure speed and memory of simulator and engine.
    Bench(bench::Args),
    /// Run scenarios in simulated time.
    Sim(sim::Args),
    /// Repeat published experiments in simulated time, and report ours beside theirs.
    Paper(paper::Args),
    /// Analyse a capture: subflows, connections, error packets, fairness.
    Pcap(pcap::Args),
}

/// Does it.
///
/// # Errors
/// [`Failure`], as the verb says.
pub(crate) fn run(verb: Verb) -> Result<(), Failure> {
    match verb {
        Verb::List(args) => list::run(args),
        Verb::Demo(args) => demo::run(&args),
        Verb::Serve(args) => serve::run(&args),
        Verb::Get(args) => get::run(&args),
        Verb::Bench(args) => bench::run(&args),
        Verb::Sim(args) => sim::run(args),
        Verb::Paper(args) => paper::run(args),
        Verb::Pcap(args) => pcap::run(&args),
    }
}
