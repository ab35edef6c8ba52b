//! A proxy's settings: those of its two sides.

use super::host::Host;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A node that accepts connections and relays each over one that it opens to the next node of the
/// flow. What is not given comes from `[defaults]`, then from the engine.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Proxy {
    /// Settings of connections that it accepts.
    #[serde(skip_serializing_if = "Host::is_default")]
    pub listen: Host,
    /// Settings of connections that it opens.
    #[serde(skip_serializing_if = "Host::is_default")]
    pub connect: Host,
}
