//! `tabane status`: what a running agent does, in one snapshot.

use super::agent::{self, Agent};
use crate::exit::Failure;
use crate::{say, units};
use comfy_table::{Cell, Table};
use tabane_gateway::model::{LanStatus, PathStatus, Status};

/// Show what a running agent does: its server, its paths, and why a path is idle.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  tabane status                              the only agent that runs
  tabane status --agent home --json | jq -r '.paths[] | [.name, .state, .reason] | @tsv'")]
pub(crate) struct Args {
    #[command(flatten)]
    agent: Agent,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

/// Asks and prints.
///
/// # Errors
/// When no agent answers, or standard output cannot be written.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let status = args.agent.connect()?.status().map_err(agent::failed)?;
    if args.json {
        return agent::print_json(&status);
    }
    let mut text = head(&status);
    if !status.paths.is_empty() {
        text = format!("{text}\n\n{}", paths(&status.paths));
    }
    say::print(&text)
}

fn head(status: &Status) -> String {
    let mut lines = vec![format!(
        "{} {}, version {}, running for {}",
        status.agent,
        status.name,
        status.version,
        units::span(status.uptime_s)
    )];
    match status.server {
        Some(address) if status.agent == "server" => lines.push(format!("listens on {address}")),
        Some(address) => lines.push(format!("server {address}")),
        None if status.agent == "server" => {}
        None => lines.push("no server answers".into()),
    }
    if let Some(tun) = &status.tun {
        let switch = if tun.kill_switch { ", kill switch on" } else { "" };
        lines.push(format!("TUN device {} {}: {}{switch}", tun.device, tun.state, tun.reason));
        lines.extend(tun.lan.as_ref().map(lan));
    }
    if status.agent == "server" {
        lines.push(format!("clients {}", status.clients));
    }
    lines.push(format!(
        "connections {} ({} since the start, {} refused), UDP flows {}",
        status.connections, status.connections_total, status.refused_total, status.udp_flows
    ));
    // What never happened says nothing; `--json` has every counter.
    let counted = status.counters.iter().filter(|(_, n)| *n > 0);
    let counted: Vec<String> =
        counted.map(|(name, n)| format!("{} {n}", name.replace('_', " "))).collect();
    if !counted.is_empty() {
        lines.push(counted.join(", "));
    }
    lines.join("\n")
}

/// Hosts behind a client.
fn lan(lan: &LanStatus) -> String {
    let interfaces = lan.interfaces.iter().map(|one| match &one.networks[..] {
        [] => format!("{} (no network)", one.name),
        networks => format!("{} ({})", one.name, networks.join(", ")),
    });
    let interfaces: Vec<String> = interfaces.collect();
    let refused = lan.refused.iter().filter(|(_, n)| *n > 0);
    let refused: Vec<String> = refused.map(|(name, n)| format!("{name} {n}")).collect();
    let refused = if refused.is_empty() { "nothing".into() } else { refused.join(", ") };
    format!(
        "LAN {} {}: {} addresses of hosts, {} sources of datagrams, refused {refused}",
        interfaces.join(", "),
        lan.state,
        lan.hosts,
        lan.udp_flows
    )
}

fn paths(all: &[PathStatus]) -> Table {
    let heads =
        ["path", "role", "state", "RTT", "loss", "down", "up", "carries", "queue", "what it does"];
    let mut table = agent::table(&heads);
    for path in all {
        table.add_row([
            Cell::new(title(path)),
            Cell::new(path.role),
            agent::state(path.state),
            agent::right(agent::rtt(path.rtt_ms)),
            agent::right(agent::loss(path.loss)),
            agent::right(units::rate(path.rx_bps)),
            agent::right(units::rate(path.tx_bps)),
            agent::right(carries(path)),
            agent::right(queue(path)),
            Cell::new(&path.reason),
        ]);
    }
    table
}

/// What it has shown to carry, down and up.
fn carries(path: &PathStatus) -> String {
    both([path.receiving, path.sending].map(|known| known.capacity_bps.map(units::rate)))
}

/// How long packets wait in its queues, down and up.
fn queue(path: &PathStatus) -> String {
    let waits = |ms: f64| format!("{ms:.0} ms");
    both([path.receiving, path.sending].map(|known| known.queueing_ms.map(waits)))
}

fn both(values: [Option<String>; 2]) -> String {
    if values == [None, None] {
        return "-".into();
    }
    values.map(|value| value.unwrap_or_else(|| "?".into())).join(" / ")
}

/// Its name, with whose it is at a server.
pub(super) fn title(path: &PathStatus) -> String {
    match &path.client {
        Some(client) => format!("{client}/{}", path.name),
        None => path.name.clone(),
    }
}
