//! Policies and reloading: what they are now, and putting them into force.

use super::carried::Owner;
use super::{Core, tunnels};
use crate::bond::paths;
use crate::config::{Choice, ClientConfig, ClientPart, Policies, Protocol, Source, reloaded};
use crate::engine_config::engine_config;
use crate::listener::Target;
use crate::model::EventKind;
use crate::path::Use;
use crate::policy_requests::{PORT, PolicyOverride, PolicyRequests};
use crate::udp_packet;
use bytes::Bytes;
use std::net::SocketAddr;
use tabane_engine::policy::PolicyError;
use tabane_engine::{ConnId, Duration, Event, Instant, Profile};

/// How the server is told what it shall do.
#[derive(Default)]
pub(super) struct PolicySync {
    conn: Option<ConnId>,
    /// It knows.
    done: bool,
    again: Instant,
}

/// Between attempts to tell the server.
const AGAIN: Duration = Duration::from_secs(2);

impl Core {
    /// Settings of a new connection to there.
    pub(super) fn profile(
        &mut self,
        target: SocketAddr,
        asked: &Target,
    ) -> Result<Profile, PolicyError> {
        let name = match asked {
            Target::Name(name, _) => Some(name.as_str()),
            Target::Address(_) => None,
        };
        let found = self.rules.find(Protocol::Tcp, target, name);
        if let Some(profile) = self.profiles.get(&found.rule) {
            return Ok(profile.clone());
        }
        let (rule, profile) = (found.rule, self.make_profile(&found.up)?);
        self.profiles.insert(rule, profile.clone());
        Ok(profile)
    }

    fn make_profile(&self, choice: &Choice) -> Result<Profile, PolicyError> {
        let mut ways = paths(|i| self.network.path(self.number, i).to_vec(), tunnels::MTU);
        for (path, tunnel) in ways.iter_mut().zip(self.tunnels.all()) {
            path.backup = tunnel.decision().using != Use::Active;
        }
        let mut config = engine_config(ways, choice);
        let subflows = self.tunnels.all().iter().filter_map(|tunnel| tunnel.config().subflows);
        config.mptcp.subflows_per_path = subflows.max().unwrap_or(1);
        self.bond.endpoint.profile(config)
    }

    /// Policies of connections to come.
    pub(super) fn set_default_policies(&mut self, wanted: &Policies) -> Result<(), String> {
        let mut config = self.config.clone();
        config.up = wanted.or(&config.up);
        self.set_policies(config)
    }

    fn set_policies(&mut self, config: ClientConfig) -> Result<(), String> {
        self.rules = config.rules().map_err(|error| error.to_string())?;
        self.config = config;
        self.profiles.clear();
        Ok(())
    }

    /// Tells the server what it shall do, until it knows.
    pub(super) fn sync_policies(&mut self, now: Instant) {
        let nothing = self.config.down == Policies::default() && self.config.rule.is_empty();
        let waits = self.policy_sync.conn.is_some() || now < self.policy_sync.again;
        if self.policy_sync.done || waits || nothing && !self.synced_before {
            return;
        }
        let Some(path) = self.tunnels.best() else { return };
        self.policy_sync.again = now + AGAIN;
        let local = SocketAddr::new(self.network.path(self.number, path)[0], 0);
        let remote = SocketAddr::new(self.network.service()[0], PORT);
        self.policy_sync.conn = self.bond.endpoint.connect(now, local, remote).ok();
        self.owners.extend(self.policy_sync.conn.map(|conn| (conn, Owner::PolicySync)));
    }

    /// Tells the server what it shall do on one connection, if that depends on the name that the
    /// program gave, which the server does not know. Best effort: it may arrive late, or not.
    pub(super) fn ask_for(&mut self, now: Instant, id: ConnId, (target, name): (SocketAddr, &str)) {
        let rule = |name| self.rules.find(Protocol::Tcp, target, name).rule;
        let (rule, plain) = (rule(Some(name)), rule(None));
        let Some(down) = rule.filter(|_| rule != plain).and_then(|n| self.config.rule.get(n))
        else {
            return;
        };
        let down = down.down.or(&self.config.down);
        let Some(conn) = self.bond.endpoint.connection(id) else { return };
        let Some(first) = conn.info(now).subflows.into_iter().next() else { return };
        let mut policy_overrides =
            PolicyOverride { source: first.local, target, late: false, down };
        self.ask(now, &policy_overrides);
        policy_overrides.late = true;
        self.policy_overrides.insert(id, policy_overrides);
    }

    /// A connection stands, or is no more: what was asked for it is said once more, or forgotten.
    pub(super) fn ask_again(&mut self, now: Instant, id: ConnId, event: Event) {
        if self.policy_overrides.is_empty() || !matches!(event, Event::Connected | Event::Closed(_))
        {
            return;
        }
        if let Some(policy_overrides) = self.policy_overrides.remove(&id)
            && event == Event::Connected
        {
            self.ask(now, &policy_overrides);
        }
    }

    fn ask(&mut self, now: Instant, policy_overrides: &PolicyOverride) {
        let [own, service] = [self.network.own(self.number)[0], self.network.service()[0]];
        let (from, to) = (SocketAddr::new(own, PORT), SocketAddr::new(service, PORT));
        let packet = udp_packet(from, to, Bytes::from(policy_overrides.emit()));
        self.send_everywhere(now, &packet);
    }

    /// An event of a connection by which the server is told what to do.
    pub(super) fn on_policy_sync(&mut self, now: Instant, id: ConnId, event: Event) {
        if self.policy_sync.conn != Some(id) {
            return;
        }
        let policy_requests =
            PolicyRequests { down: self.config.down.clone(), rule: self.config.rule.clone() };
        match event {
            Event::Connected => {
                if let Some(conn) = self.bond.endpoint.connection(id) {
                    conn.write(&mut Bytes::from(policy_requests.emit()));
                    conn.close(now);
                }
            }
            Event::Readable => {
                let Some(conn) = self.bond.endpoint.connection(id) else { return };
                let mut text = Vec::new();
                while let Some(chunk) = conn.read(1024) {
                    text.extend_from_slice(&chunk);
                }
                let text = String::from_utf8_lossy(&text).trim().to_owned();
                self.event_log.add(now, EventKind::PoliciesRefused, (None, None), text);
            }
            Event::Closed(reason) => {
                self.policy_sync.conn = None;
                self.policy_sync.done = reason == tabane_engine::record::CloseReason::Finished;
                self.synced_before |= self.policy_sync.done;
            }
            _ => {}
        }
    }

    /// Reads the configuration again: what can change while the agent runs does.
    /// `text` stands for the file.
    pub(super) fn reload(&mut self, now: Instant, text: Option<&str>) -> Result<(), String> {
        let done = Source::read_again(self.source.as_ref(), text);
        let done = done.and_then(|new| self.adopt(now, new));
        self.event_log.reloaded(now, &done);
        done.map(drop)
    }

    /// Takes another configuration; what has changed, for people.
    pub(super) fn adopt(&mut self, now: Instant, new: ClientConfig) -> Result<String, String> {
        let parts = self.config.changes(&new);
        let text = reloaded(&parts, ClientPart::is_live, ClientPart::name)?;
        self.programs.listen(&new.front).map_err(|error| error.to_string())?;
        // Also when the file's paths are the same: what was set meanwhile does not outlive this.
        let changes = self.config.path_changes(&new);
        let before = self.config.server.get(self.servers.current().get()).cloned();
        let index = self.server_of(&new);
        if let Some(server) = new.server.get(index.get()) {
            let reloaded = self.tunnels.reload(now, (&new, server), &changes);
            reloaded.map_err(|error| error.to_string())?;
        }
        self.quotas.reload(&new).map_err(|error| error.to_string())?;
        self.set_policies(new)?;
        self.reload_servers(now, before.as_ref(), index);
        self.policy_sync.done = false;
        self.decide(now);
        Ok(text)
    }
}
