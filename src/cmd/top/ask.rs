//! Asks the agent on a thread of its own, so that one that is slow does not freeze the screen.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;
use tabane_gateway::control::client::{Client, ClientError};
use tabane_gateway::model::{AgentEvent, ConnStatus, Role, Status};
use tabane_gateway::request_channel::Request;

/// What comes from the agent.
pub(super) enum Update {
    /// It answered.
    Look(Box<Look>),
    /// It did not, and why; it is asked again.
    Trouble(String),
    /// A human-readable note that an order was done or refused.
    Order(Result<String, String>),
}

/// Snapshot of everything.
#[derive(Default)]
pub(super) struct Look {
    pub(super) status: Status,
    pub(super) connections: Vec<ConnStatus>,
    /// New since the last look.
    pub(super) events: Vec<AgentEvent>,
}

/// The thread that asks; ends with this.
pub(super) struct Asking {
    updates: Receiver<Update>,
    orders: Sender<(String, Role)>,
    /// Orders whose outcome is not known.
    open: usize,
}

/// Between two looks.
pub(super) const EVERY: Duration = Duration::from_secs(1);

/// Longest wait for something to come before leaving while an order is open.
const LAST: Duration = Duration::from_secs(2);

/// Begins to ask.
pub(super) fn start(client: Client) -> Asking {
    let (sender, updates) = channel();
    let (orders, taken) = channel();
    std::thread::spawn(move || ask(client, &sender, &taken));
    Asking { updates, orders, open: 0 }
}

impl Asking {
    /// What has come.
    pub(super) fn updates(&mut self) -> Option<Update> {
        let updates = self.updates.try_recv().ok()?;
        self.open -= usize::from(matches!(updates, Update::Order(_)));
        Some(updates)
    }

    /// Orders another role for a path.
    pub(super) fn set_role(&mut self, path: String, role: Role) {
        // The thread only ends with this value.
        let _ = self.orders.send((path, role));
        self.open += 1;
    }

    /// Waits a little for the outcome of orders.
    pub(super) fn finish(mut self) {
        while self.open > 0 {
            match self.updates.recv_timeout(LAST) {
                Ok(updates) => self.open -= usize::from(matches!(updates, Update::Order(_))),
                Err(_) => return,
            }
        }
    }
}

fn ask(client: Client, updates: &Sender<Update>, orders: &Receiver<(String, Role)>) {
    let path: PathBuf = client.path().to_path_buf();
    let mut client = Some(client);
    let mut known = 0;
    loop {
        let looked = match &mut client {
            Some(client) => look(client, &mut known),
            None => Client::connect(&path).and_then(|mut new| {
                // Another agent's numbers begin again.
                known = 0;
                let looked = look(&mut new, &mut known);
                client = Some(new);
                looked
            }),
        };
        let said = match looked {
            Ok(look) => Update::Look(Box::new(look)),
            Err(error) => {
                client = None;
                Update::Trouble(error.to_string())
            }
        };
        if updates.send(said).is_err() {
            return;
        }
        match orders.recv_timeout(EVERY) {
            Ok((path, role)) => {
                let done = order(client.as_mut(), path, role);
                if updates.send(Update::Order(done)).is_err() {
                    return;
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

fn look(client: &mut Client, known: &mut u64) -> Result<Look, ClientError> {
    let status = client.status()?;
    let connections = client.connections()?;
    let events = client.events(*known)?;
    *known = events.last().map_or(*known, |last| last.seq);
    Ok(Look { status, connections, events })
}

fn order(client: Option<&mut Client>, path: String, role: Role) -> Result<String, String> {
    let client = client.ok_or("no agent answers")?;
    let request = Request::SetPath { path: path.clone(), role: Some(role), cap_bps: None };
    client.order(request).map_err(|error| error.to_string())?;
    Ok(format!("{path} is {role} now"))
}
