//! What the verbs share that ask a running agent: which one, how it is asked, how it is shown.

use crate::exit::Failure;
use crate::say;
use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use comfy_table::{Attribute, Cell, CellAlignment, Color, ContentArrangement, Table};
use serde::Serialize;
use std::path::PathBuf;
use tabane_gateway::control::client::{Client, ClientError};
use tabane_gateway::control::place::{FindError, Which, find};
use tabane_gateway::model::PathState;

/// Which agent is asked.
#[derive(clap::Args, Debug)]
pub(super) struct Agent {
    /// The agent with this name [default: the only one that runs].
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// The agent with this control socket [default: $TABANE_CONTROL].
    #[arg(long, value_name = "PATH", conflicts_with = "agent")]
    socket: Option<PathBuf>,
}

impl Agent {
    /// Connects to it.
    pub(super) fn connect(&self) -> Result<Client, Failure> {
        let path = find(&self.which()).map_err(not_found)?;
        say::detail(&format!("asking the agent at {}", path.display()));
        Client::connect(&path).map_err(failed)
    }

    /// The one that is meant.
    pub(super) fn which(&self) -> Which {
        let from_env = || std::env::var_os("TABANE_CONTROL").filter(|path| !path.is_empty());
        match (&self.socket, &self.agent) {
            (Some(path), _) => Which::Socket(path.clone()),
            (None, Some(name)) => Which::Named(name.clone()),
            (None, None) => from_env().map_or(Which::Only, |path| Which::Socket(path.into())),
        }
    }
}

/// The failure of a verb that found no agent to ask.
pub(super) fn not_found(error: FindError) -> Failure {
    match error {
        FindError::Several(_) => Failure::usage(error.to_string()),
        error => Failure::Failed(error.into()),
    }
}

/// The failure of a verb whose question failed.
pub(super) fn failed(error: ClientError) -> Failure {
    Failure::Failed(error.into())
}

/// One JSON document.
pub(super) fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    say::print(&serde_json::to_string_pretty(value).map_err(anyhow::Error::new)?)
}

/// An empty table as wide as the terminal.
pub(super) fn table(head: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_HORIZONTAL_ONLY);
    table.set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(head.iter().map(|text| Cell::new(text).add_attribute(Attribute::Bold)));
    table
}

/// A figure.
pub(super) fn right(text: impl ToString) -> Cell {
    Cell::new(text.to_string()).set_alignment(CellAlignment::Right)
}

/// A state, in its colour.
pub(super) fn state(state: PathState) -> Cell {
    let (name, colour) = match state {
        PathState::Up => ("up", Color::Green),
        PathState::Connecting => ("connecting", Color::Yellow),
        PathState::Down => ("down", Color::Red),
        PathState::Absent => ("absent", Color::DarkGrey),
    };
    Cell::new(name).fg(colour)
}

/// `12.4 ms`, or a dash.
pub(super) fn rtt(ms: Option<f64>) -> String {
    ms.map_or_else(|| "-".into(), |ms| format!("{ms:.1} ms"))
}

/// `0.5 %`, or a dash.
pub(super) fn loss(share: Option<f64>) -> String {
    share.map_or_else(|| "-".into(), |share| format!("{:.1} %", share * 100.0))
}
