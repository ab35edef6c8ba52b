//! The verbs: one file each, with its `Args` and a function `run`. A new verb is its file, a
//! variant of [`Verb`] (or of [`linux::Verb`]) and an arm of `run` beside it.

#[cfg(target_os = "linux")]
mod agent;
#[cfg(target_os = "linux")]
mod agents;
#[cfg(target_os = "linux")]
mod bench;
#[cfg(target_os = "linux")]
mod client;
#[cfg(target_os = "linux")]
mod compare;
#[cfg(target_os = "linux")]
mod config;
#[cfg(target_os = "linux")]
mod conn;
#[cfg(target_os = "linux")]
mod demo;
#[cfg(target_os = "linux")]
mod doctor;
mod generate;
#[cfg(target_os = "linux")]
mod kernel;
#[cfg(target_os = "linux")]
mod keys;
#[cfg(target_os = "linux")]
mod lab;
#[cfg(target_os = "linux")]
mod lifetime;
#[cfg(target_os = "linux")]
mod linux;
mod list;
#[cfg(target_os = "linux")]
mod monitor;
mod paper;
#[cfg(target_os = "linux")]
mod path;
mod pcap;
mod play;
#[cfg(target_os = "linux")]
mod policy;
mod progress;
#[cfg(target_os = "linux")]
mod record;
#[cfg(target_os = "linux")]
mod reload;
#[cfg(target_os = "linux")]
mod running;
#[cfg(target_os = "linux")]
mod server;
#[cfg(target_os = "linux")]
mod service;
mod sets;
mod sim;
#[cfg(target_os = "linux")]
mod status;
#[cfg(target_os = "linux")]
mod top;
#[cfg(target_os = "linux")]
mod whatif;

use crate::exit::Failure;
use clap::Subcommand;

/// What tabane can do.
#[derive(Subcommand, Debug)]
pub(crate) enum Verb {
    #[cfg(target_os = "linux")]
    #[command(flatten)]
    Linux(linux::Verb),
    /// List every policy, link model and application.
    List(list::Args),
    /// Run scenarios in simulated time.
    Sim(sim::Args),
    /// Repeat published experiments in simulated time, and compare the results with the papers'.
    Paper(paper::Args),
    /// Analyse a capture: subflows, connections, error packets, fairness.
    Pcap(pcap::Args),
    /// Serve the simulator as a web page, the playground.
    Play(play::Args),
    /// Print a completion script for a shell.
    Completions(generate::CompletionArgs),
    /// Print the manual page.
    Man(generate::ManArgs),
}

/// Does it.
///
/// # Errors
/// [`Failure`], as the verb says.
pub(crate) fn run(verb: Verb) -> Result<(), Failure> {
    match verb {
        #[cfg(target_os = "linux")]
        Verb::Linux(verb) => linux::run(verb),
        Verb::List(args) => list::run(args),
        Verb::Sim(args) => sim::run(args),
        Verb::Paper(args) => paper::run(args),
        Verb::Pcap(args) => pcap::run(&args),
        Verb::Play(args) => play::run(&args),
        Verb::Completions(args) => generate::completions(&args),
        Verb::Man(args) => generate::man(&args),
    }
}
