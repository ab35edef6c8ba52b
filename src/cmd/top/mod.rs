//! `tabane top`: a running agent live in the terminal.
//!
//! One thread asks the agent ([`ask`]), this one draws ([`draw`]) and listens to keys ([`view`]).

mod ask;
mod draw;
mod view;

use super::agent::{self, Agent};
use crate::exit::Failure;
use crate::{say, watcher};
use anyhow::{Context, anyhow};
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use view::{Action, View};

/// Shows a running agent live: its links with rates, RTT, loss and why one is idle, and its
/// connections.
#[derive(clap::Args, Debug)]
#[command(after_help = "Keys:
  up, down     choose a link            p    change its role
  s            sort connections         q    leave
Examples:
  tabane top
  tabane top --agent home --json | jq .connections    a status every second")]
pub(crate) struct Args {
    #[command(flatten)]
    agent: Agent,
    /// Print one JSON status per second and line instead, until stopped.
    #[arg(long)]
    json: bool,
}

/// Longest wait for a key before the next look at the clock and at what the agent said.
const TICK: Duration = Duration::from_millis(100);

/// Shows it until the user leaves.
///
/// # Errors
/// When no agent answers, or there is no terminal.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    // Before the screen is taken, so that an error is read on the usual one.
    let client = args.agent.connect()?;
    if args.json {
        return lines(client);
    }
    if !std::io::stdout().is_terminal() {
        let text = "standard output is no terminal: take --json, or `tabane status`";
        return Err(Failure::usage(text));
    }
    let stop = Arc::new(AtomicBool::new(false));
    let stopping = Arc::clone(&stop);
    // Ctrl-C is a key while the screen is ours; this is for `kill` and for a closed terminal, which
    // the library that reads keys would read for ever.
    let leave = move || stopping.store(true, Ordering::Relaxed);
    watcher::leave_with(leave, ratatui::restore)?;
    // Also restores the screen when something panics.
    let mut terminal = ratatui::try_init().context("the terminal cannot be used")?;
    let mut asking = ask::start(client);
    let outcome = show(&mut terminal, &mut asking, &stop);
    ratatui::restore();
    asking.finish();
    outcome
}

fn show(
    terminal: &mut ratatui::DefaultTerminal,
    asking: &mut ask::Asking,
    stop: &AtomicBool,
) -> Result<(), Failure> {
    let mut view = View::default();
    while !stop.load(Ordering::Relaxed) {
        while let Some(updates) = asking.updates() {
            view.take(updates);
        }
        match terminal.draw(|frame| draw::draw(frame, &view)) {
            Ok(_) => {}
            Err(_) if stop.load(Ordering::Relaxed) => return Ok(()),
            Err(error) => {
                return Err(anyhow!(error).context("the terminal cannot be written").into());
            }
        }
        if !event::poll(TICK).context("no keys can be read")? {
            continue;
        }
        match event::read().context("no keys can be read")? {
            Event::Key(key) if key.kind != KeyEventKind::Release => match view.handle_key(key) {
                Action::None => {}
                Action::Leave => return Ok(()),
                Action::Set { path, role } => asking.set_role(path, role),
            },
            // A resize needs no more than the next drawing.
            _ => {}
        }
    }
    Ok(())
}

fn lines(mut client: tabane_gateway::control::client::Client) -> Result<(), Failure> {
    loop {
        let status = client.status().map_err(agent::failed)?;
        say::print(&serde_json::to_string(&status).map_err(|error| anyhow!(error))?)?;
        std::thread::sleep(ask::EVERY);
    }
}
