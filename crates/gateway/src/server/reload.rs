//! Reading the configuration again: what can change while the server runs does, and nobody's
//! connections end but those of clients that are gone.

use super::Core;
use crate::access::{Access, own_addresses};
use crate::address::ClientNumber;
use crate::config::{ClientChange, ClientEntry, ServerConfig, ServerPart, reloaded};
use tabane_engine::Instant;

impl Core {
    pub(super) fn reload(&mut self, now: Instant) -> Result<(), String> {
        let source = self.source.as_ref().ok_or("this agent was not started from a file")?;
        let mut new = source()?;
        self.store.fill(&mut new);
        let parts = self.config.changes(&new);
        let text = reloaded(&parts, ServerPart::is_live, ServerPart::name)?;
        let access = Access::new(&new.access, &self.network, own_addresses());
        self.connections.reconfigure(access.map_err(|e| e.to_string())?, new.down.clone());
        if parts.contains(&ServerPart::Next) {
            match (&mut self.next, &new.next) {
                (Some(next), Some(config)) => next.carrier().adopt(now, config.client())?,
                _ => {
                    let text = "whether there is a next server cannot change without a restart";
                    return Err(text.into());
                }
            }
        }
        self.adopt_clients(now, new)?;
        self.forget_gone(now);
        self.happenings.add(now, "reload", (None, None), text);
        Ok(())
    }

    /// Takes the clients of another configuration, and that configuration.
    ///
    /// # Errors
    /// Keys and policies that are none; for people.
    pub(super) fn adopt_clients(&mut self, now: Instant, new: ServerConfig) -> Result<(), String> {
        for (number, change) in self.config.client_changes(&new) {
            self.change_client(now, &new, ClientNumber(number), change)?;
        }
        self.config = new;
        self.set_generations();
        Ok(())
    }

    fn change_client(
        &mut self,
        now: Instant,
        new: &ServerConfig,
        number: ClientNumber,
        change: ClientChange,
    ) -> Result<(), String> {
        let entry = new.client.iter().find(|client| client.number == number.0);
        let at = self.members.find(number);
        if matches!(change, ClientChange::Removed | ClientChange::Rekeyed)
            && let Some(at) = at
        {
            self.end_forwarded(now, at);
            if let Some(mut member) = self.members.remove(at) {
                self.connections.remove_all(&mut member);
            }
        }
        match (change, entry, at.and_then(|at| self.members.get(at))) {
            (ClientChange::Added | ClientChange::Rekeyed, Some(entry), _) => {
                self.members.add(new, entry).map_err(|error| error.to_string())?;
            }
            (ClientChange::Adjusted, Some(ClientEntry { name, limits, .. }), Some(member)) => {
                member.name.clone_from(name);
                member.limits = limits.clone().unwrap_or_else(|| new.limits.clone());
                member.gates.set_rate(now, member.limits.rate);
            }
            _ => {}
        }
        Ok(())
    }
}
