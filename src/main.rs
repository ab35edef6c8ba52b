//! The one binary of tabane: parses the command line, runs one verb, turns its result into an
//! exit code. What a verb does is in `cmd/`; what is printed, and where, is in `say`.
// Doc comments on arguments are help texts, in which brackets mean "optional".
#![allow(rustdoc::broken_intra_doc_links)]

#[cfg(target_os = "linux")]
mod bed;
mod cmd;
mod cost;
mod exit;
mod interruption;
#[cfg(target_os = "linux")]
mod journal;
mod plural;
#[cfg_attr(
    not(target_os = "linux"),
    allow(dead_code, reason = "the verbs of Linux use more of it")
)]
mod say;
#[cfg(target_os = "linux")]
mod temporary;
#[cfg(test)]
mod tests;
#[cfg_attr(
    not(target_os = "linux"),
    allow(dead_code, reason = "the verbs of Linux use more of it")
)]
mod units;
#[cfg(target_os = "linux")]
mod watcher;

use clap::Parser;
use std::process::ExitCode;

/// Several access links as one: a multipath TCP engine in a simulator, a gateway and a lab.
#[derive(Parser, Debug)]
#[command(name = "tabane", version, propagate_version = true, after_help = EXAMPLES)]
struct Cli {
    /// Say less on standard error: only what went wrong.
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    quiet: bool,
    /// Say more on standard error.
    #[arg(short, long, global = true)]
    verbose: bool,
    #[command(subcommand)]
    verb: cmd::Verb,
}

fn main() -> ExitCode {
    tabane_learned::register().expect("invariant: no other scheduler has the name");
    let cli = Cli::parse();
    say::set_level(cli.quiet, cli.verbose);
    exit::code(cmd::run(cli.verb))
}

const EXAMPLES: &str = "\
Examples:
  tabane sim run scenarios/wifi-lte.toml          a table of flows and subflows
  tabane sim run FILE --out results --json > run.json      plots, CSV and captures in results/
  tabane sim run FILE --set 'link.lte.rate=\"20Mbit/s\"'     one value changed
  tabane list                                              every policy and link model

Exit codes: 0 done, 1 failed (the cause is on standard error), 2 wrong usage,
130 interrupted.";
