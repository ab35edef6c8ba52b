//! What a server forwards to: the next server, whose client it then is.

use super::client::{ClientConfig, ListenerConfig, PathConfig, ServerEntry};
use super::load::Findings;
use super::rule::{Policies, Rule};
use super::secret::Secret;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use tabane_config::source_document::Fault;

/// The bond to the next server (`[next]`): what a client says of itself, its servers and its
/// paths, with the same keys and meanings ([`ClientConfig`]).
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[serde(default, deny_unknown_fields)]
pub struct NextConfig {
    /// Our name at the next server.
    pub name: String,
    /// Our number there.
    pub number: u16,
    /// What the private keys of the paths derive from, base64.
    pub secret: Option<Secret>,
    /// A file with the same, instead.
    pub secret_file: Option<PathBuf>,
    /// Servers, tried in this order.
    pub server: Vec<ServerEntry>,
    /// Paths to them.
    pub path: Vec<PathConfig>,
    /// Policies from us to the next server.
    pub up: Policies,
    /// Policies from the next server to us.
    pub down: Policies,
    /// Traffic with policies of its own.
    pub rule: Vec<Rule>,
    /// Where quotas are remembered.
    pub state: Option<PathBuf>,
}

impl Default for NextConfig {
    fn default() -> Self {
        let ClientConfig { number, .. } = ClientConfig::default();
        Self {
            name: String::new(),
            number,
            secret: None,
            secret_file: None,
            server: Vec::new(),
            path: Vec::new(),
            up: Policies::default(),
            down: Policies::default(),
            rule: Vec::new(),
            state: None,
        }
    }
}

impl NextConfig {
    /// The client that the server then has inside: one without front ends.
    #[must_use]
    pub(crate) fn client(&self) -> ClientConfig {
        let next = self.clone();
        ClientConfig {
            name: next.name,
            number: next.number,
            secret: next.secret,
            secret_file: next.secret_file,
            server: next.server,
            path: next.path,
            front: ListenerConfig { socks5: Vec::new(), ..ListenerConfig::default() },
            up: next.up,
            down: next.down,
            rule: next.rule,
            state: next.state,
            ..ClientConfig::default()
        }
    }

    pub(super) fn check(&self, found: &mut Findings) {
        let client = self.client();
        let mut inner = Findings::default();
        client.check_bond(&mut inner);
        inner.key(&client);
        let below = |mut fault: Fault| {
            fault.at.insert(0, "next".into());
            fault
        };
        found.faults.extend(inner.faults.into_iter().map(below));
        found.warnings.extend(inner.warnings.into_iter().map(below));
    }
}
