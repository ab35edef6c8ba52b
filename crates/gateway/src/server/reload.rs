//! Another configuration for a server that runs: what can change does, and nobody's connections
//! end but those of clients that are gone.
//!
//! What takes access away comes first and depends on nothing that may go wrong after it: a file
//! that also has a change which needs a restart, or a client that cannot be added, revokes all the
//! same.

use super::Core;
use crate::access::{Access, own_addresses};
use crate::address::ClientNumber;
use crate::config::{ClientChange, ServerConfig, ServerPart, Source};
use crate::model::EventKind;
use tabane_engine::{ConnId, Instant};

impl Core {
    /// Reads the configuration again; `text` stands for the file.
    pub(super) fn reload(&mut self, now: Instant, text: Option<&str>) -> Result<(), String> {
        let done = Source::read_again(self.source.as_ref(), text);
        let done = done.and_then(|new| self.adopt(now, new));
        self.event_log.reloaded(now, &done);
        done.map(drop)
    }

    /// Takes another configuration; what has changed, and what a restart would change.
    fn adopt(&mut self, now: Instant, mut new: ServerConfig) -> Result<String, String> {
        self.store.fill(&mut new);
        let parts = self.config.changes(&new);
        let mut failed = self.change_clients(now, &mut new);
        if parts.contains(&ServerPart::Limits) || parts.contains(&ServerPart::Policies) {
            failed.extend(self.reload_sessions(now, &new));
        }
        match Access::new(&new.access, &self.network, own_addresses()) {
            Ok(access) => self.access = access,
            Err(error) => failed.push(error.to_string()),
        }
        let mut later: Vec<&str> = Vec::new();
        if parts.contains(&ServerPart::Next) {
            match (&mut self.next, &new.next) {
                (Some(next), Some(config)) => {
                    if let Err(error) = next.upstream().adopt(now, config.client()) {
                        failed.push(format!("[next]: {error}"));
                        new.next.clone_from(&self.config.next);
                    }
                }
                _ => {
                    later.push("whether there is a next server");
                    new.next.clone_from(&self.config.next);
                }
            }
        }
        let fixed = parts.iter().filter(|part| !part.is_live());
        later.extend(fixed.map(|part| part.name()));
        new.keep_fixed(&self.config);
        let taken = self.config.changes(&new).into_iter().map(ServerPart::name);
        let mut text = taken.collect::<Vec<_>>().join(", ");
        if text.is_empty() {
            text.push_str("nothing has changed");
        }
        self.config = new;
        self.set_generations();
        self.forget_gone(now);
        if !later.is_empty() {
            text += &format!("; cannot change without a restart: {}", later.join(", "));
        }
        match failed.is_empty() {
            true => Ok(text),
            false => Err(format!("{}; the rest is in force: {text}", failed.join("; "))),
        }
    }

    /// What holds for all clients has changed; why it could not be put into force for some.
    fn reload_sessions(&mut self, now: Instant, new: &ServerConfig) -> Vec<String> {
        let mut failed = Vec::new();
        for entry in &new.client {
            let at = self.client_sessions.find(ClientNumber(entry.number));
            let Some(session) = at.and_then(|at| self.client_sessions.get(at)) else { continue };
            if let Err(error) = session.reload(now, new, entry) {
                failed.push(format!("{}: {error}", entry.name));
            }
        }
        failed
    }

    /// Takes what has become of clients since the configuration was read: who has joined, whose
    /// keys are others.
    ///
    /// # Errors
    /// Clients that cannot be added, for people.
    pub(super) fn adopt_records(&mut self, now: Instant) -> Result<(), String> {
        let mut new = self.config.clone();
        self.store.fill(&mut new);
        let failed = self.change_clients(now, &mut new);
        self.config = new;
        self.set_generations();
        if failed.is_empty() { Ok(()) } else { Err(failed.join("; ")) }
    }

    /// Does to clients what another configuration says; why some could not be added. Those have no
    /// keys in `new` after it, so that the next reload tries them again.
    fn change_clients(&mut self, now: Instant, new: &mut ServerConfig) -> Vec<String> {
        let changes = self.config.client_changes(new);
        for (number, change) in &changes {
            if matches!(change, ClientChange::Removed | ClientChange::Rekeyed) {
                self.dismiss(now, new, ClientNumber(*number), *change);
            }
        }
        let mut failed = Vec::new();
        for (number, change) in changes {
            if let Err(error) = self.change_client(now, new, ClientNumber(number), change) {
                let of = new.client.iter_mut().filter(|client| client.number == number);
                of.for_each(|client| client.keys.clear());
                failed.push(error);
            }
        }
        failed
    }

    /// Ends all that a client has; it hears so as far as it can be told.
    fn dismiss(
        &mut self,
        now: Instant,
        new: &ServerConfig,
        number: ClientNumber,
        change: ClientChange,
    ) {
        let Some(at) = self.client_sessions.find(number) else { return };
        let Some(session) = self.client_sessions.get(at) else { return };
        let (name, conns): (_, Vec<ConnId>) =
            (session.name.clone(), session.conns.iter().copied().collect());
        for id in &conns {
            if let Some(conn) = session.bond.endpoint.connection(*id) {
                conn.abort(now);
            }
        }
        // One batch a connection says it all; a path that takes nothing must not hold us.
        for _ in 0..=conns.len() {
            if !self.client_sessions.transmit(now, at, &mut self.ports, &mut self.scratch) {
                break;
            }
        }
        self.flush();
        self.end_connections(now, at);
        self.flows.forget(number);
        self.client_sessions.remove(at);
        let entry = new.client.iter().find(|client| client.number == number.0);
        let (kind, what) = match (change, entry.map(|client| client.disabled)) {
            (ClientChange::Rekeyed, _) => (EventKind::ClientRekeyed, "has other keys"),
            (_, Some(false)) => (EventKind::ClientRekeyed, "has a new invitation"),
            (_, Some(true)) => (EventKind::ClientDisabled, "is disabled"),
            (_, None) => (EventKind::ClientRemoved, "is removed"),
        };
        let conns = match conns.len() {
            1 => "1 connection".to_owned(),
            count => format!("{count} connections"),
        };
        let text = format!("{name} {what}: sessions and {conns} ended");
        self.event_log.add(now, kind, (Some(&name), None), text);
    }

    fn change_client(
        &mut self,
        now: Instant,
        new: &ServerConfig,
        number: ClientNumber,
        change: ClientChange,
    ) -> Result<(), String> {
        let entry = new.client.iter().find(|client| client.number == number.0);
        let at = self.client_sessions.find(number);
        match (change, entry, at.and_then(|at| self.client_sessions.get(at))) {
            (ClientChange::Added | ClientChange::Rekeyed, Some(entry), _) => {
                self.client_sessions.add(new, entry).map_err(|error| error.to_string())?;
                if change == ClientChange::Added {
                    let text = format!("{} may connect", entry.name);
                    self.event_log.add(
                        now,
                        EventKind::ClientAdded,
                        (Some(&entry.name), None),
                        text,
                    );
                }
            }
            (ClientChange::Adjusted | ClientChange::Rotated, Some(entry), Some(session)) => {
                session.reload(now, new, entry).map_err(|error| error.to_string())?;
            }
            _ => {}
        }
        Ok(())
    }
}
