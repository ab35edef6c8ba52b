//! Which policies some traffic has: the rules, compiled so that a look-up allocates nothing.
//!
//! A rule matches if protocol, destination, name and port all do; a list that is empty matches
//! everything. The first rule that matches counts, and what it leaves open is the agent's.

use super::rule::{Policies, Rule, UdpMode};
use crate::access::{PortRange, Prefix};
use std::fmt::Display;
use std::net::SocketAddr;
use tabane_config::policy::PolicySpec;
use tabane_engine::config::{MptcpConfig, TcpConfig};
use tabane_engine::policy::Spec;
use thiserror::Error;

/// Rules of an agent; they are tried one by one.
pub(crate) const RULES_MAX: usize = 256;

/// The rules of an agent, and what holds where none matches.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Rules {
    rules: Vec<(Matcher, Resolved)>,
    rest: Resolved,
}

/// The policies of both directions.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Resolved {
    /// The rule that gave them, from 0; `None`: the agent's.
    pub(crate) rule: Option<usize>,
    /// From the client to the server.
    pub(crate) up: Choice,
    /// From the server to the client.
    pub(crate) down: Choice,
}

/// The policies of one direction, none left open.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Choice {
    /// Which subflow.
    pub(crate) scheduler: Spec,
    /// How much is in flight.
    pub(crate) congestion: Spec,
    /// Which way out.
    pub(crate) egress: Spec,
    /// How datagrams travel.
    pub(crate) udp: UdpMode,
}

/// What is carried.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Protocol {
    /// Connections.
    Tcp,
    /// Datagrams.
    Udp,
}

/// Why rules do not compile; a configuration that was read has none of these.
#[derive(Error, Clone, PartialEq, Debug)]
pub(crate) enum RuleError {
    /// A destination, name, port or protocol.
    #[error("rule {0}: {1}")]
    Match(usize, String),
    /// Too many.
    #[error("{0} rules, allowed are {RULES_MAX}")]
    TooMany(usize),
}

/// A rule's conditions.
#[derive(Clone, PartialEq, Default, Debug)]
struct Matcher {
    destinations: Vec<Prefix>,
    names: Vec<Name>,
    ports: Vec<PortRange>,
    protocol: Option<Protocol>,
}

/// A name, whole or with what is below it, without a dot at its end.
#[derive(Clone, PartialEq, Debug)]
struct Name {
    text: String,
    /// `*.text`.
    below: bool,
}

/// A key of a rule, and the element if it holds a list.
pub(super) struct Place(&'static str, Option<usize>);

impl Place {
    pub(super) fn each(&self) -> impl Iterator<Item = &dyn Display> {
        let element = self.1.as_ref().map(|n| n as &dyn Display);
        std::iter::once(&self.0 as &dyn Display).chain(element)
    }
}

impl Rules {
    /// Compiles rules; `up` and `down` are the agent's own policies.
    ///
    /// # Errors
    /// [`RuleError`].
    pub(crate) fn compile(
        rules: &[Rule],
        up: &Policies,
        down: &Policies,
    ) -> Result<Self, RuleError> {
        if rules.len() > RULES_MAX {
            return Err(RuleError::TooMany(rules.len()));
        }
        let up = Choice::default().with(up);
        let down = Choice::default().with(down);
        let compile = |(n, rule): (usize, &Rule)| -> Result<_, RuleError> {
            let (matcher, faults) = Matcher::new(rule);
            if let Some((_, fault)) = faults.into_iter().next() {
                return Err(RuleError::Match(n + 1, fault));
            }
            let (up, down) = (up.with(&rule.up), down.with(&rule.down));
            Ok((matcher, Resolved { rule: Some(n), up, down }))
        };
        let rules = rules.iter().enumerate().map(compile).collect::<Result<_, _>>()?;
        Ok(Self { rules, rest: Resolved { rule: None, up, down } })
    }

    /// The policies of traffic to `destination`, and to `name` if the program named one. Letters
    /// count alike in both cases.
    #[must_use]
    pub(crate) fn find(
        &self,
        on: Protocol,
        destination: SocketAddr,
        name: Option<&str>,
    ) -> &Resolved {
        let name = name.map(|name| name.strip_suffix('.').unwrap_or(name));
        let fits = |(matcher, _): &&(Matcher, Resolved)| matcher.fits(on, destination, name);
        self.rules.iter().find(fits).map_or(&self.rest, |(_, resolved)| resolved)
    }

    /// What holds where no rule matches.
    #[must_use]
    pub(crate) fn rest(&self) -> &Resolved {
        &self.rest
    }

    /// What is wrong with a rule's conditions.
    pub(super) fn faults(rule: &Rule) -> Vec<(Place, String)> {
        Matcher::new(rule).1
    }
}

impl Matcher {
    fn new(rule: &Rule) -> (Self, Vec<(Place, String)>) {
        let mut new = Self::default();
        let mut faults = Vec::new();
        for (n, text) in rule.destinations.iter().enumerate() {
            match text.parse() {
                Ok(prefix) => new.destinations.push(prefix),
                Err(error) => faults.push((Place("destinations", Some(n)), error.to_string())),
            }
        }
        for (n, text) in rule.names.iter().enumerate() {
            match Name::new(text) {
                Some(name) => new.names.push(name),
                None => {
                    let fault = format!("'{text}' is no name: write host.example or *.example");
                    faults.push((Place("names", Some(n)), fault));
                }
            }
        }
        for (n, text) in rule.ports.iter().enumerate() {
            match text.parse() {
                Ok(ports) => new.ports.push(ports),
                Err(error) => faults.push((Place("ports", Some(n)), format!("{error}"))),
            }
        }
        match rule.protocol.as_deref() {
            None => {}
            Some("tcp") => new.protocol = Some(Protocol::Tcp),
            Some("udp") => new.protocol = Some(Protocol::Udp),
            Some(text) => {
                let fault = format!("'{text}' is no protocol here: write tcp or udp, or neither");
                faults.push((Place("protocol", None), fault));
            }
        }
        (new, faults)
    }

    fn fits(&self, on: Protocol, destination: SocketAddr, name: Option<&str>) -> bool {
        let any = |empty: bool, found: bool| empty || found;
        self.protocol.is_none_or(|protocol| protocol == on)
            && any(self.ports.is_empty(), self.ports.iter().any(|p| p.holds(destination.port())))
            && any(
                self.destinations.is_empty(),
                self.destinations.iter().any(|prefix| prefix.holds(destination.ip())),
            )
            && any(
                self.names.is_empty(),
                name.is_some_and(|name| self.names.iter().any(|n| n.holds(name))),
            )
    }
}

impl Name {
    fn new(text: &str) -> Option<Self> {
        let (below, rest) = match text.strip_prefix("*.") {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let rest = rest.strip_suffix('.').unwrap_or(rest);
        let fits = |c: char| c.is_alphanumeric() || "-_.".contains(c);
        let sound = !rest.is_empty() && rest.chars().all(fits) && !rest.starts_with('.');
        (sound && !rest.contains("..")).then(|| Self { text: rest.to_owned(), below })
    }

    fn holds(&self, name: &str) -> bool {
        let Some(at) = name.len().checked_sub(self.text.len()) else { return false };
        let (before, end) = name.as_bytes().split_at(at);
        let same = end.eq_ignore_ascii_case(self.text.as_bytes());
        same && if self.below { before.ends_with(b".") } else { before.is_empty() }
    }
}

impl Choice {
    /// With what `policies` says laid over it.
    #[must_use]
    pub(crate) fn with(&self, policies: &Policies) -> Self {
        let over = |given: &Option<PolicySpec>, own: &Spec| {
            given.as_ref().map_or_else(|| own.clone(), |given| given.0.clone())
        };
        Self {
            scheduler: over(&policies.scheduler, &self.scheduler),
            congestion: over(&policies.congestion, &self.congestion),
            egress: over(&policies.egress, &self.egress),
            udp: policies.udp.unwrap_or(self.udp),
        }
    }
}

/// The engine's own.
impl Default for Choice {
    fn default() -> Self {
        let MptcpConfig { scheduler, egress, .. } = MptcpConfig::default();
        let congestion = TcpConfig::default().congestion;
        Self { scheduler, congestion, egress, udp: UdpMode::default() }
    }
}
