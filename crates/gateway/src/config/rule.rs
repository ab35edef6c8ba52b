//! Policies, and which traffic has which.

use serde::{Deserialize, Serialize};
use std::path::Path;
use tabane_config::policy::PolicySpec;
use tabane_engine::Duration;
use tabane_engine::mptcp::Policy;
use tabane_engine::policy::PolicyError;

/// Policies of one direction; what is absent is inherited from the agent's, and that from the
/// engine's defaults. Each is written as `name` or `name:key=value,...` (`tabane list`).
#[derive(Clone, PartialEq, Default, Serialize, Deserialize, Debug)]
#[serde(default, deny_unknown_fields)]
pub struct Policies {
    /// Which subflow.
    pub scheduler: Option<PolicySpec>,
    /// How much is in flight.
    pub congestion: Option<PolicySpec>,
    /// Which way out.
    pub egress: Option<PolicySpec>,
    /// How datagrams travel.
    pub udp: Option<UdpMode>,
}

/// How datagrams travel.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, Debug)]
#[serde(try_from = "String", into = "String")]
pub enum UdpMode {
    /// Spread over the paths by what they carry; the far end puts them in order. Calls are
    /// protected as by [`UdpMode::Protect`].
    #[default]
    Bond,
    /// By the path with the smallest round-trip time.
    Best,
    /// By all paths that work; the far end takes the first copy.
    Duplicate,
    /// By the best path, and again by another as far as what is lost or late asks for it.
    Protect(Protect),
}

/// What a protected flow bears.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Protect {
    /// Packets that may be lost, of a million.
    pub loss_ppm: u32,
    /// How much later than by the best path nearly all are to be there.
    pub late: Duration,
}

impl Default for Protect {
    /// ITU-T G.113: speech coders hide 0.1 % of loss; 40 ms are what a jitter buffer of two
    /// packets bears.
    fn default() -> Self {
        Self { loss_ppm: 1000, late: Duration::from_millis(40) }
    }
}

impl Policies {
    /// The one of that kind (`scheduler`, `congestion` or `egress`), which exists with these
    /// parameters.
    ///
    /// # Errors
    /// There is no such kind, or `text` is none of it; for people.
    pub(crate) fn one(kind: &str, text: &str) -> Result<Self, String> {
        let said = |error: PolicyError| error.to_string();
        let (spec, mut one) = (Some(PolicySpec(text.parse().map_err(said)?)), Self::default());
        match kind {
            "scheduler" => one.scheduler = spec,
            "congestion" => one.congestion = spec,
            "egress" => one.egress = spec,
            other => {
                return Err(format!("'{other}' is no policy: scheduler, congestion or egress"));
            }
        }
        one.check().map_err(said)?;
        Ok(one)
    }

    /// Those of connections that are given, with their keys.
    pub(crate) fn given(&self) -> impl Iterator<Item = (&'static str, Policy)> {
        let Self { scheduler, congestion, egress, udp: _ } = self;
        let spec = |given: &Option<PolicySpec>| given.as_ref().map(|given| given.0.clone());
        let congestion = spec(congestion).map(|spec| Policy::Congestion(None, spec));
        let all = [
            ("scheduler", spec(scheduler).map(Policy::Scheduler)),
            ("congestion", congestion),
            ("egress", spec(egress).map(Policy::Egress)),
        ];
        all.into_iter().filter_map(|(key, policy)| Some((key, policy?)))
    }

    /// The first file that one of them is made from, and the policy's key.
    pub(crate) fn file(&self) -> Option<(&'static str, &str)> {
        let Self { scheduler, congestion, egress, udp: _ } = self;
        let all = [("scheduler", scheduler), ("congestion", congestion), ("egress", egress)];
        all.into_iter()
            .find_map(|(key, policy)| Some((key, policy.as_ref()?.0.params.file.as_deref()?)))
    }

    /// Makes paths of the files that they name, which are relative to `folder`.
    pub(crate) fn resolve_files(&mut self, folder: &Path) {
        let Self { scheduler, congestion, egress, udp: _ } = self;
        let all = [scheduler, congestion, egress].into_iter().flatten();
        all.for_each(|policy| policy.resolve_file(folder));
    }

    /// Whether there are such policies, with such parameters.
    ///
    /// # Errors
    /// [`PolicyError`].
    pub fn check(&self) -> Result<(), PolicyError> {
        self.given().try_for_each(|(_, policy)| policy.check())
    }

    /// What is absent is taken from `other`.
    #[must_use]
    pub(crate) fn or(&self, other: &Self) -> Self {
        let given =
            |a: &Option<PolicySpec>, b: &Option<PolicySpec>| a.as_ref().or(b.as_ref()).cloned();
        Self {
            scheduler: given(&self.scheduler, &other.scheduler),
            congestion: given(&self.congestion, &other.congestion),
            egress: given(&self.egress, &other.egress),
            udp: self.udp.or(other.udp),
        }
    }
}

/// Traffic that has policies of its own. The first rule that matches counts.
#[derive(Clone, PartialEq, Default, Serialize, Deserialize, Debug)]
#[serde(default, deny_unknown_fields)]
pub struct Rule {
    /// Destination prefixes (`192.0.2.0/24`, an address); empty: any.
    pub destinations: Vec<String>,
    /// Destination names, whole or `*.example.org`, where the program named one; empty: any.
    pub names: Vec<String>,
    /// Destination ports, `443` or `27000-27100`; empty: any.
    pub ports: Vec<String>,
    /// `tcp` or `udp`; absent: both.
    pub protocol: Option<String>,
    /// From the client to the server.
    pub up: Policies,
    /// From the server to the client.
    pub down: Policies,
}

impl Rule {
    /// Whether it matches whatever comes.
    #[must_use]
    pub(crate) fn is_for_all(&self) -> bool {
        let Self { destinations, names, ports, protocol, .. } = self;
        destinations.is_empty() && names.is_empty() && ports.is_empty() && protocol.is_none()
    }
}
