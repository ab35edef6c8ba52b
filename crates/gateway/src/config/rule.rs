//! Policies, and which traffic has which.

use serde::{Deserialize, Serialize};

/// Policies of one direction; what is absent is inherited from the agent's, and that from the
/// engine's defaults. Each is written as `name` or `name:key=value,...` (`tabane list`).
#[derive(Clone, PartialEq, Default, Serialize, Deserialize, Debug)]
#[serde(default, deny_unknown_fields)]
pub struct Policies {
    /// Which subflow.
    pub scheduler: Option<String>,
    /// How much is in flight.
    pub congestion: Option<String>,
    /// Which way out.
    pub egress: Option<String>,
    /// How datagrams travel.
    pub udp: Option<UdpMode>,
}

/// How datagrams travel.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, Debug)]
#[serde(rename_all = "lowercase")]
pub enum UdpMode {
    /// By the path with the smallest round-trip time.
    #[default]
    Best,
    /// By all paths that work; the far end takes the first copy.
    Duplicate,
    /// Spread over the paths; the far end puts them in order, within bounds.
    Stripe,
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
