//! `tabane lab up`: a scenario's network without its flows, for programs of one's own.

use super::failure;
use crate::cmd::sets::Sets;
use crate::cmd::sim;
use crate::exit::Failure;
use crate::interruption::interruption;
use crate::say;
use std::fmt::Write as _;
use std::path::PathBuf;
use tabane_engine::Instant;
use tabane_lab::NetworkPlan;
use tabane_sim::observe::Observer;

/// Builds a scenario's network and keeps it until Ctrl-C.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Scenario file (TOML); its flows are not run, but its timed changes happen.
    file: PathBuf,
    #[command(flatten)]
    sets: Sets,
}

const EXAMPLES: &str = "\
Example, in two terminals:
  tabane lab up scenarios/wifi-lte.toml
  tabane lab exec server -- mptcpize run iperf3 -s -1 &
  tabane lab exec client -- mptcpize run iperf3 -c 10.0.1.250 -R";

/// Builds, says what is there, and waits.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let document = sim::read(&args.file, args.sets.values())?;
    let variants = document.variants().map_err(|e| Failure::usage(e.to_string()))?;
    let [only] = variants.as_slice() else {
        return Err(Failure::usage("this is a sweep, not one network: fix its lists with --set"));
    };
    let interrupted = interruption()?;
    let up = tabane_lab::up(&only.plan).map_err(|e| failure(&document, e))?;
    say::print(&describe(up.plan()))?;
    say::note("up until Ctrl-C; `tabane lab exec HOST -- COMMAND` runs something there");
    up.hold(&mut Changes, &interrupted).map_err(|e| failure(&document, e))
}

/// Hosts with their devices and addresses.
fn describe(plan: &NetworkPlan) -> String {
    let mut out = String::new();
    for host in &plan.hosts {
        let _ = writeln!(out, "{} (namespace {})", host.name, host.namespace);
        for device in &host.devices {
            let [own, shared] = device.addresses;
            let _ = writeln!(out, "  {:12} {own}, shared {shared}", device.link);
        }
    }
    out.trim_end().to_owned()
}

/// Tells of changes as they happen.
struct Changes;

impl Observer for Changes {
    fn changed(&mut self, now: Instant, change: &str) {
        say::note(&format!("{:8.3} s  {change}", now.as_secs_f64()));
    }
}
