//! `tabane path`: the paths of a running agent, and changes to them.

use super::agent::{self, Agent};
use super::status::title;
use crate::exit::Failure;
use crate::{say, units};
use comfy_table::{Cell, Table};
use serde_json::json;
use tabane_config::quantity::Rate;
use tabane_gateway::model::{PathStatus, Role};
use tabane_gateway::request_channel::Request;

/// Show the paths of a running agent, or change one.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand, Debug)]
enum Verb {
    /// List every path with all its details.
    List(List),
    /// Change what a path is used for, until the agent restarts or reads its configuration again.
    Set(Set),
}

#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  tabane path list
  tabane path list --json | jq '.paths[] | select(.state != \"up\")'")]
struct List {
    #[command(flatten)]
    agent: Agent,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args, Debug)]
#[command(
    group(clap::ArgGroup::new("what").required(true).multiple(true)),
    after_help = "Examples:
  tabane path set lte --role backup        only when no primary or secondary works
  tabane path set lte --cap 5Mbps
  tabane path set lte --cap none --role primary
  tabane path set laptop/1 --role backup   at a server: asks its client to"
)]
struct Set {
    /// The path; at a server CLIENT/PATH.
    name: String,
    #[command(flatten)]
    agent: Agent,
    /// primary: always; secondary: when the primary paths do not suffice; backup: when no other
    /// path works; never.
    #[arg(long, group = "what")]
    role: Option<Role>,
    /// Rate cap, as in 20Mbps, or none.
    #[arg(long, value_name = "RATE", group = "what", value_parser = cap)]
    cap: Option<Cap>,
}

/// Bits per second; 0 for none, as requests have it.
#[derive(Clone, Copy, Debug)]
struct Cap(u64);

fn cap(text: &str) -> Result<Cap, String> {
    if text == "none" {
        return Ok(Cap(0));
    }
    text.parse().map(|Rate(bps)| Cap(bps))
}

/// Does it.
///
/// # Errors
/// When no agent answers, or it refuses.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    match &args.verb {
        Verb::List(args) => list(args),
        Verb::Set(args) => set(args),
    }
}

fn list(args: &List) -> Result<(), Failure> {
    let status = args.agent.connect()?.status().map_err(agent::failed)?;
    if args.json {
        return agent::print_json(&json!({ "paths": status.paths }));
    }
    if status.paths.is_empty() {
        say::note("no paths");
        return Ok(());
    }
    let parts: Vec<String> =
        [figures(&status.paths), path_table(&status.paths)].iter().map(Table::to_string).collect();
    say::print(&parts.join("\n\n"))
}

fn set(args: &Set) -> Result<(), Failure> {
    let mut client = args.agent.connect()?;
    let cap_bps = args.cap.map(|cap| cap.0);
    let request = Request::SetPath { path: args.name.clone(), role: args.role, cap_bps };
    client.order(request).map_err(agent::failed)?;
    let role = args.role.map(|role| format!("role {role}"));
    let cap = cap_bps.map(|bps| match bps {
        0 => "no cap".into(),
        bps => format!("cap {}", Rate(bps)),
    });
    let what: Vec<String> = role.into_iter().chain(cap).collect();
    say::note(&format!("{}: {}", args.name, what.join(", ")));
    Ok(())
}

fn figures(all: &[PathStatus]) -> Table {
    let mut table = agent::table(&[
        "path",
        "role",
        "state",
        "for",
        "RTT",
        "loss",
        "down",
        "up",
        "received",
        "sent",
        "again",
        "in flight",
        "what it does",
    ]);
    for path in all {
        table.add_row([
            Cell::new(title(path)),
            Cell::new(path.role),
            agent::state(path.state),
            agent::right(units::span(path.since_s)),
            agent::right(agent::rtt(path.rtt_ms)),
            agent::right(agent::loss(path.loss)),
            agent::right(units::rate(path.rx_bps)),
            agent::right(units::rate(path.tx_bps)),
            agent::right(units::bytes(path.rx_bytes as f64)),
            agent::right(units::bytes(path.tx_bytes as f64)),
            agent::right(units::bytes(path.retransmitted_bytes as f64)),
            agent::right(units::bytes(path.inflight_bytes as f64)),
            Cell::new(&path.reason),
        ]);
    }
    table
}

/// Addresses and bounds.
fn path_table(all: &[PathStatus]) -> Table {
    let mut table = agent::table(&[
        "path",
        "id",
        "interface",
        "from",
        "seen as",
        "to",
        "MTU",
        "subflows",
        "cap",
        "quota left",
        "handshake",
    ]);
    let dash = || "-".to_owned();
    for path in all {
        let address = |a: Option<std::net::SocketAddr>| a.map_or_else(dash, |a| a.to_string());
        table.add_row([
            Cell::new(title(path)),
            agent::right(path.id),
            Cell::new(path.interface.clone().unwrap_or_else(dash)),
            Cell::new(address(path.local)),
            Cell::new(address(path.seen_as)),
            Cell::new(address(path.remote)),
            agent::right(if path.mtu == 0 { dash() } else { path.mtu.to_string() }),
            agent::right(path.subflows),
            agent::right(path.cap_bps.map_or_else(dash, |bps| units::rate(bps as f64))),
            agent::right(path.quota_left.map_or_else(dash, |n| units::bytes(n as f64))),
            agent::right(path.handshake_age_s.map_or_else(dash, |s| units::span(s) + " ago")),
        ]);
    }
    table
}
