//! Steering live connections by lines of text: `crates/interop/control.md` has the grammar. One
//! command a line, one JSON object a line in answer.
//!
//! [`Controlled`] wraps an application and does the commands on the driver's thread; [`Inbox`] is
//! how they get there from others.

mod command;
mod report;
mod socket;

pub use command::{Address, Command, CommandError, ConnRef, GRAMMAR};
pub use socket::{ControlSocket, Inbox, Outbox, serve_lines};

use report::{path_report, subflow_of};
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use tabane_engine::mptcp::Connection;
use tabane_engine::view::{PathId, SubflowId};
use tabane_engine::{ConnId, Endpoint, Event, Instant};
use tabane_net::driver::{App, Counters, Path, Waker};

/// An application whose connections can be steered.
pub struct Controlled<A> {
    /// The application.
    pub app: A,
    inbox: Inbox,
    paths: Vec<(PathId, String, Arc<Counters>)>,
    waker: Waker,
    known: BTreeMap<ConnId, Known>,
    closed: VecDeque<Value>,
    events: VecDeque<Value>,
    next_event: u64,
}

/// What is remembered of an open connection beyond what it knows itself.
#[derive(Default)]
struct Known {
    local: Option<SocketAddr>,
    remote: Option<SocketAddr>,
    fallback: Option<String>,
    peer_addresses: BTreeMap<u8, SocketAddr>,
    paused: bool,
    /// The last snapshot, for when it is gone.
    last: Value,
}

/// Closed connections remembered; the oldest goes.
const CLOSED_MAX: usize = 64;
/// Events remembered; the oldest goes.
const EVENTS_MAX: usize = 1024;

impl<A: App> Controlled<A> {
    /// Wraps `app`, which runs on a driver with these paths and this waker.
    pub fn new(app: A, inbox: Inbox, paths: &[Path], waker: Waker) -> Self {
        let paths = paths.iter().map(|p| (p.id(), p.label().to_owned(), p.counters())).collect();
        Self {
            app,
            inbox,
            paths,
            waker,
            known: BTreeMap::new(),
            closed: VecDeque::new(),
            events: VecDeque::new(),
            next_event: 0,
        }
    }

    /// A connection that we opened: it is steered from now on.
    pub fn add(&mut self, id: ConnId) {
        self.known.entry(id).or_default();
    }

    fn note(&mut self, endpoint: &mut Endpoint, now: Instant, id: ConnId, event: Event) {
        self.next_event += 1;
        let entry = json!({
            "seq": self.next_event,
            "at_s": now.as_secs_f64(),
            "conn": id.0,
            "event": event.name(),
            "detail": format!("{event:?}"),
        });
        if self.events.len() == EVENTS_MAX {
            self.events.pop_front();
        }
        self.events.push_back(entry);
        let snapshot = self.snapshot(endpoint, now, id);
        let known = self.known.entry(id).or_default();
        if let Some(snapshot) = snapshot {
            known.last = snapshot;
        }
        match event {
            Event::Accepted { local, remote } => {
                (known.local, known.remote) = (Some(local), Some(remote));
            }
            Event::Fallback(reason) => known.fallback = Some(format!("{reason:?}")),
            Event::AddressAnnounced { address_id, address } => {
                known.peer_addresses.insert(address_id, address);
            }
            Event::AddressRemoved { address_id } => {
                known.peer_addresses.remove(&address_id);
            }
            Event::Closed(reason) => {
                let mut last = self.known.remove(&id).map_or(Value::Null, |known| known.last);
                if !last.is_object() {
                    last = json!({ "id": id.0 });
                }
                last["closed"] = json!(format!("{reason:?}"));
                if self.closed.len() == CLOSED_MAX {
                    self.closed.pop_front();
                }
                self.closed.push_back(last);
            }
            _ => {}
        }
    }

    fn snapshot(&self, endpoint: &mut Endpoint, now: Instant, id: ConnId) -> Option<Value> {
        let info = endpoint.connection(id)?.info(now);
        let label = |path| {
            self.paths.iter().find(|(id, _, _)| *id == path).map(|(_, label, _)| label.as_str())
        };
        let mut report = report::connection_report(id, &info, label);
        if let Some(known) = self.known.get(&id) {
            report["fallback"] = json!(known.fallback);
            report["paused"] = json!(known.paused);
            report["peer_addresses"] = json!(known.peer_addresses);
        }
        Some(report)
    }

    /// Does a command.
    fn execute(&mut self, endpoint: &mut Endpoint, now: Instant, line: &str) -> Value {
        let result = line
            .parse::<Command>()
            .map_err(|error| error.to_string())
            .and_then(|command| self.perform(endpoint, now, command));
        match result {
            Ok(mut answer) => {
                answer["ok"] = json!(true);
                answer
            }
            Err(error) => json!({ "ok": false, "error": error }),
        }
    }

    fn perform(
        &mut self,
        endpoint: &mut Endpoint,
        now: Instant,
        command: Command,
    ) -> Result<Value, String> {
        match command {
            Command::ConnList => {
                let ids: Vec<ConnId> = self.known.keys().copied().collect();
                let all: Vec<Value> =
                    ids.into_iter().filter_map(|id| self.snapshot(endpoint, now, id)).collect();
                Ok(json!({ "connections": all }))
            }
            Command::ConnClosed => Ok(json!({ "connections": self.closed })),
            Command::Events { since } => {
                let newer = |event: &&Value| event["seq"].as_u64() > Some(since);
                Ok(json!({ "events": self.events.iter().filter(newer).collect::<Vec<_>>() }))
            }
            Command::PathList => {
                let paths = self.paths.iter();
                let all: Vec<Value> = paths.map(|(id, l, c)| path_report(*id, l, c)).collect();
                Ok(json!({ "paths": all }))
            }
            Command::PathUp { path, up } => {
                endpoint.set_path_up(now, self.path(&path)?, up);
                Ok(json!({}))
            }
            Command::PathMtu { path, mtu } => {
                endpoint.set_path_mtu(now, self.path(&path)?, mtu);
                Ok(json!({}))
            }
            Command::Stop => {
                self.waker.stop();
                Ok(json!({}))
            }
            Command::Help => Ok(json!({ "commands": GRAMMAR.lines().collect::<Vec<_>>() })),
            Command::Reading { conn, on } => {
                let id = self.conn(conn)?;
                self.known.entry(id).or_default().paused = !on;
                self.app.set_reading(endpoint, now, id, on);
                Ok(json!({ "conn": id.0 }))
            }
            Command::ConnShow(conn) => {
                let id = self.conn(conn)?;
                self.snapshot(endpoint, now, id).ok_or_else(|| gone(id))
            }
            command => {
                let id = self.conn(command.conn().unwrap_or(ConnRef::Last))?;
                let connection = endpoint.connection(id).ok_or_else(|| gone(id))?;
                let mut answer = steer(connection, now, command)?;
                answer["conn"] = json!(id.0);
                Ok(answer)
            }
        }
    }

    fn conn(&self, wanted: ConnRef) -> Result<ConnId, String> {
        match wanted {
            ConnRef::Last => {
                self.known.keys().next_back().copied().ok_or("there is no connection".to_owned())
            }
            ConnRef::Id(id) if self.known.contains_key(&ConnId(id)) => Ok(ConnId(id)),
            ConnRef::Id(id) => Err(gone(ConnId(id))),
        }
    }

    fn path(&self, label: &str) -> Result<PathId, String> {
        let found = self.paths.iter().find(|(id, l, _)| l == label || id.0.to_string() == label);
        found.map(|(id, _, _)| *id).ok_or_else(|| {
            let all: Vec<&str> = self.paths.iter().map(|(_, l, _)| l.as_str()).collect();
            format!("there is no path '{label}'; there are: {}", all.join(", "))
        })
    }
}

fn gone(id: ConnId) -> String {
    format!("there is no connection {}", id.0)
}

/// Does a command that is about one connection.
fn steer(conn: &mut Connection, now: Instant, command: Command) -> Result<Value, String> {
    let text = |error: &dyn std::error::Error| error.to_string();
    match command {
        Command::ConnClose(_) => conn.close(now),
        Command::ConnAbort(_) => conn.abort(now),
        Command::SubflowAdd { local, remote, backup, .. } => {
            let info = conn.info(now);
            let first = info.subflows.first().ok_or("the connection has no subflow")?;
            let (ip, port) = remote.unwrap_or((first.remote.ip(), None));
            let remote = SocketAddr::new(ip, port.unwrap_or(first.remote.port()));
            let local = SocketAddr::new(local.0, local.1.unwrap_or(0));
            let id = conn.add_subflow(now, local, remote, backup).map_err(|e| text(&e))?;
            return Ok(json!({ "subflow": id.0 }));
        }
        Command::SubflowClose { subflow, .. } => {
            conn.close_subflow(now, SubflowId(subflow)).map_err(|e| text(&e))?;
        }
        Command::SubflowReset { subflow, .. } => {
            conn.reset_subflow(now, SubflowId(subflow)).map_err(|e| text(&e))?;
        }
        Command::SubflowBackup { subflow, on, .. } => {
            conn.set_backup(now, SubflowId(subflow), on).map_err(|e| text(&e))?;
        }
        Command::Announce { address: (ip, port), .. } => {
            let info = conn.info(now);
            let own = info.subflows.first().map_or(0, |first| subflow_of(first).port());
            let address = SocketAddr::new(ip, port.unwrap_or(own));
            let id = conn.announce(now, address).map_err(|e| text(&e))?;
            return Ok(json!({ "address_id": id }));
        }
        Command::Withdraw { ids, .. } => conn.withdraw(now, &ids),
        Command::Policy { policy, .. } => {
            conn.set_policy(now, policy).map_err(|e| text(&e))?;
        }
        _ => return Err("not about a connection".to_owned()),
    }
    Ok(json!({}))
}

impl<A: App> App for Controlled<A> {
    fn on_event(&mut self, endpoint: &mut Endpoint, now: Instant, conn: ConnId, event: Event) {
        // Data comes and goes too often to be an event for people.
        if !matches!(event, Event::Readable | Event::Writable) {
            self.note(endpoint, now, conn, event);
        }
        self.app.on_event(endpoint, now, conn, event);
    }

    fn on_wakeup(&mut self, endpoint: &mut Endpoint, now: Instant) {
        while let Some((line, reply)) = self.inbox.take() {
            let answer = self.execute(endpoint, now, &line);
            // Whoever asked may be gone.
            let _ = reply.send(answer.to_string());
        }
        self.app.on_wakeup(endpoint, now);
    }

    fn next_wakeup(&self) -> Option<Instant> {
        self.app.next_wakeup()
    }

    fn set_reading(&mut self, endpoint: &mut Endpoint, now: Instant, conn: ConnId, on: bool) {
        self.app.set_reading(endpoint, now, conn, on);
    }

    fn on_stop(&mut self, endpoint: &mut Endpoint, now: Instant) {
        self.app.on_stop(endpoint, now);
    }

    fn is_done(&self) -> bool {
        self.app.is_done()
    }
}
