//! `tabane conn`: the connections of a running agent.

use super::agent::{self, Agent};
use crate::exit::Failure;
use crate::{say, units};
use comfy_table::{Cell, Table};
use serde_json::json;
use tabane_gateway::model::{ConnStatus, SubflowStatus};
use tabane_gateway::request_channel::Request;

/// Show the connections of a running agent, or end one.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand, Debug)]
enum Verb {
    /// List every open connection with its subflows.
    List(List),
    /// End a connection at once; both ends see a reset.
    Close(Close),
}

#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  tabane conn list
  tabane conn list --json | jq '.connections | max_by(.rx_bytes)'")]
struct List {
    #[command(flatten)]
    agent: Agent,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args, Debug)]
struct Close {
    /// The connection's id, as `tabane conn list` shows it.
    id: u64,
    #[command(flatten)]
    agent: Agent,
}

/// Does it.
///
/// # Errors
/// When no agent answers, or it refuses.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    match &args.verb {
        Verb::List(args) => list(args),
        Verb::Close(args) => {
            let request = Request::CloseConnection { id: args.id };
            args.agent.connect()?.order(request).map_err(agent::failed)?;
            say::note(&format!("connection {} ended", args.id));
            Ok(())
        }
    }
}

fn list(args: &List) -> Result<(), Failure> {
    let connections = args.agent.connect()?.connections().map_err(agent::failed)?;
    if args.json {
        return agent::print_json(&json!({ "connections": connections }));
    }
    if connections.is_empty() {
        say::note("no connections");
        return Ok(());
    }
    say::print(&text(&connections).to_string())
}

fn text(all: &[ConnStatus]) -> Table {
    let mut table =
        agent::table(&["id", "target", "from", "age", "received", "sent", "policies", "subflows"]);
    for conn in all {
        let subflows: Vec<String> = conn.subflows.iter().map(subflow).collect();
        let from = conn.source.map_or_else(|| "-".into(), |source| source.to_string());
        table.add_row([
            agent::right(conn.id),
            Cell::new(&conn.target),
            Cell::new(match &conn.client {
                Some(client) => format!("{client}, {from}"),
                None => from,
            }),
            agent::right(units::span(conn.age_s)),
            agent::right(units::bytes(conn.rx_bytes as f64)),
            agent::right(units::bytes(conn.tx_bytes as f64)),
            Cell::new(conn.policies.join(" ")),
            Cell::new(subflows.join("\n")),
        ]);
    }
    table
}

/// `lte 49.0 ms, 1.00 MB received, 2.00 kB sent, backup`.
fn subflow(subflow: &SubflowStatus) -> String {
    let mut text = format!(
        "{} {:.1} ms, {} received, {} sent",
        subflow.path,
        subflow.rtt_ms,
        units::bytes(subflow.rx_bytes as f64),
        units::bytes(subflow.tx_bytes as f64)
    );
    if subflow.retransmitted_bytes > 0 {
        text += &format!(", {} again", units::bytes(subflow.retransmitted_bytes as f64));
    }
    if subflow.backup {
        text += ", backup";
    }
    if !subflow.state.eq_ignore_ascii_case("established") {
        text += &format!(", {}", subflow.state);
    }
    text
}
