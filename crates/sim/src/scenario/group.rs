//! Hosts by the thousand: groups, whose hosts have access links drawn from distributions.

use super::Host;
use super::link::Link;
use super::spread::{Spread, file_of};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tabane_config::quantity::{Rate, Ratio, Time};

/// `count` hosts, called `NAME-1`, `NAME-2` and so on, each with the access links that `access`
/// lists. Flows and arrivals name the group for all of them.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Group {
    /// Names of its hosts begin with it.
    pub name: String,
    /// How many hosts.
    pub count: u32,
    /// Settings of each of them, as under `[host.NAME]`.
    #[serde(skip_serializing_if = "Host::is_default")]
    pub host: Host,
    /// Access links of each of them: its paths, in this order.
    pub access: Vec<Access>,
}

/// An access link of each host of a group, called `HOST-NAME`. Up is away from the host.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Access {
    /// The link's name begins with its host's and ends with this.
    pub name: String,
    /// A router, or a backbone: hosts are then spread over its edge routers.
    pub to: String,
    /// How hosts are spread over the edge of a backbone.
    #[serde(skip_serializing_if = "Placement::is_default")]
    pub place: Placement,
    /// Bits per second on the wire: each link draws its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<Spread<Rate>>,
    /// One-way propagation delay: each link draws its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay: Option<Spread<Time>>,
    /// Share of packets lost at random: each link draws its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss: Option<Spread<Ratio>>,
    /// What differs away from the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub up: Option<AccessDirection>,
    /// What differs towards the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub down: Option<AccessDirection>,
    /// The rest, as under `[link.NAME]`: queue, jitter, MTU and so on.
    #[serde(skip_serializing_if = "is_default")]
    pub link: Link,
}

/// One direction of an access link.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AccessDirection {
    /// Bits per second on the wire.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<Spread<Rate>>,
    /// One-way propagation delay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay: Option<Spread<Time>>,
    /// Share of packets lost at random.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss: Option<Spread<Ratio>>,
}

/// How the hosts of a group are spread over routers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Placement {
    /// The first to the first router, and so on, round and round.
    #[default]
    Turn,
    /// Each at random.
    Random,
}

impl Placement {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl Group {
    /// The name of its host with this number, from 1 on.
    pub fn host_name(&self, number: u32) -> String {
        format!("{}-{number}", self.name)
    }
}

impl Access {
    /// Names of the files that it names.
    pub(super) fn files_mut(&mut self) -> impl Iterator<Item = &mut String> {
        let Self { rate, delay, loss, up, down, link, .. } = self;
        let own = [file_of(rate), file_of(delay), file_of(loss)];
        let ways = [up, down].into_iter().flatten().flat_map(|way| {
            [file_of(&mut way.rate), file_of(&mut way.delay), file_of(&mut way.loss)]
        });
        own.into_iter().chain(ways).flatten().chain(link.files_mut())
    }
}

fn is_default(link: &Link) -> bool {
    *link == Link::default()
}
