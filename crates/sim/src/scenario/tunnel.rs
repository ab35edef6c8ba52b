//! Tunnels: links that are connections carrying IP packets.

use super::host::{Host, Mptcp, Tcp};
use super::{Fault, Named, Path, PathSettings, Queue};
use crate::link::queue;
use crate::topology::check_mtu;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt::Display;
use tabane_config::policy::PolicySpec;

/// A link that is a connection: packets travel in its byte stream, each behind its length (two
/// bytes). Paths name it like a link. What is not given comes from `[defaults]`, then from the
/// engine; but a tunnel is plain TCP unless it has `paths` or `mptcp`, and has no Nagle algorithm.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Tunnel {
    /// What its connection travels over: links, or other tunnels, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<String>,
    /// Largest IP packet that it takes, bytes; 1500 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u16>,
    /// Packets that wait at an end until the connection's send buffer has space (drop-tail), as in
    /// front of a TUN device; 500 packets by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<Queue>,
    /// Which subflow carries the next data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<PolicySpec>,
    /// How much may be in flight.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub congestion: Option<PolicySpec>,
    /// `false` is plain TCP; a table changes MPTCP settings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mptcp: Option<Mptcp>,
    /// TCP settings.
    #[serde(skip_serializing_if = "Tcp::is_default")]
    pub tcp: Tcp,
    /// Instead of `links`: several ways, for an MPTCP connection.
    #[serde(skip_serializing_if = "Named::is_empty", serialize_with = "super::path::serialize")]
    #[schemars(schema_with = "paths_schema")]
    pub paths: Named<Path>,
}

/// What may wait at an end of a tunnel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Limit {
    /// So many packets.
    pub(crate) packets: u64,
    /// So many bytes.
    pub(crate) bytes: u64,
}

/// Packets that wait by default: `txqueuelen` of a TUN device of Linux (`drivers/net/tun.c`,
/// `TUN_READQ_SIZE`).
const PACKETS: u64 = 500;

fn paths_schema(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<Named<Path>>()
}

impl Tunnel {
    /// The settings of both its ends.
    pub(crate) fn settings(&self) -> Host {
        let plain = self.paths.is_empty().then_some(Mptcp::Switch(false));
        let mut tcp = self.tcp.clone();
        tcp.nagle = tcp.nagle.or(Some(false));
        Host {
            scheduler: self.scheduler.clone(),
            congestion: self.congestion.clone(),
            egress: None,
            mptcp: self.mptcp.clone().or(plain),
            tcp,
        }
    }

    /// Its ways, with the key that each has in the file.
    pub(crate) fn ways(&self) -> Vec<(Cow<'_, str>, PathSettings)> {
        if self.paths.is_empty() {
            let links = self.links.clone();
            return vec![("links".into(), PathSettings { links, ..PathSettings::default() })];
        }
        self.paths.iter().map(|(name, path)| (name.into(), path.0.clone())).collect()
    }

    /// Names of the links and tunnels that it travels over.
    pub(crate) fn carriers(&self) -> impl Iterator<Item = &str> {
        let of_paths = self.paths.iter().flat_map(|(_, Path(p))| p.links.iter().chain(&p.back));
        self.links.iter().chain(of_paths).map(String::as_str)
    }

    /// What may wait at an end; `None` if it is not drop-tail.
    pub(crate) fn limit(&self) -> Option<Limit> {
        let Some(Queue(spec)) = &self.queue else {
            return Some(Limit { packets: PACKETS, bytes: u64::MAX });
        };
        let given = |key: &str| spec.params.numbers.get(key).map_or(u64::MAX, |n| *n as u64);
        let known = spec.params.numbers.keys().all(|key| key == "packets" || key == "bytes");
        (spec.name == "droptail" && known)
            .then(|| Limit { packets: given("packets"), bytes: given("bytes") })
    }

    /// What is wrong with it by itself.
    pub(crate) fn fault(&self, name: &str) -> Option<Fault> {
        let at = |key: &'static str, text: String, help: &str| {
            let place: &[&dyn Display] = &[&"tunnel", &name, &key];
            Some(Fault::new(place, text).help(help))
        };
        match (self.links.is_empty(), self.paths.is_empty()) {
            (true, true) => {
                let text = format!("tunnel '{name}' does not say what it travels over");
                let help = "add links = [\"wan\"], or paths = { a = [\"wan\"], b = [\"lte\"] }";
                return Some(Fault::new(&[&"tunnel", &name], text).help(help));
            }
            (false, false) => {
                let text = format!("tunnel '{name}' has links and paths");
                return at("links", text, "keep links for one way, paths for several");
            }
            _ => {}
        }
        if let Some((path, _)) = self.paths.iter().find(|(_, Path(path))| !path.has_default_ends())
        {
            let text = format!("tunnel '{name}' gives its path '{path}' ends of its own");
            return at("paths", text, "leave out from and to: it leads from end to end");
        }
        if self.limit().is_none() {
            let text = format!("the queue of tunnel '{name}' is not drop-tail");
            return at("queue", text, "write \"500 packets\" or \"1MB\"");
        }
        let built = self.queue.as_ref().map(|Queue(spec)| queue::build(spec)).transpose();
        if let Err(error) = built {
            return at("queue", error.to_string(), "write \"500 packets\" or \"1MB\"");
        }
        check_mtu(self.mtu, &[&"tunnel", &name, &"mtu"]).err()
    }
}
