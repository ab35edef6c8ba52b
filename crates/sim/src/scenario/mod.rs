//! A scenario: one TOML file that says everything about a run.
//!
//! [`Document`] is the file as written (lists may stand for single values: sweep axes);
//! [`Scenario`] is one point of the sweep, checked and complete.

mod arrivals;
mod backbone;
pub(crate) mod change;
mod document;
mod files;
mod flow;
mod group;
mod host;
mod jitter;
mod late;
mod link;
mod linux;
mod named;
mod params;
mod path;
mod proxy;
mod spread;
mod tunnel;
pub(crate) mod validate;

pub use arrivals::{Arrivals, Frequency};
pub use backbone::{Backbone, Shape};
pub use change::{Change, LinkDirection, ProxySide, SubflowChange};
pub use document::{Axis, Document, Variant};
pub use flow::{Amount, Direction as FlowDirection, Flow, OnOff, Paced, Request};
pub use group::{Access, AccessDirection, Group, Placement};
pub use host::{BufferAutotuning, Host, Mptcp, MptcpSettings, Tcp};
pub use jitter::Jitter;
pub use link::{Conditions, Link, Loss, Queue};
pub use linux::{LinuxBuffers, Triple};
pub use named::Named;
pub use params::{LinkParams, Stage};
pub use path::{Path, PathSettings};
pub use proxy::Proxy;
pub(crate) use spread::within;
pub use spread::{Drawable, Law, Spread};
pub(crate) use tunnel::Limit;
pub use tunnel::Tunnel;

pub use tabane_config::source_document::Fault;
pub use tabane_config::source_document::Problem as ScenarioError;

use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::Arc;
use tabane_config::quantity::Time;
use tabane_engine::Duration;

/// One run: topology, policies, flows, timed changes, seed and duration.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Scenario {
    /// Its name in results; the name of the file by default.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// What it shows, for people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub about: String,
    /// Everything random comes from it.
    pub seed: u64,
    /// The run ends then, or earlier if every flow has.
    pub duration: Time,
    /// 4 or 6.
    #[serde(skip_serializing_if = "is_four")]
    pub ip: u8,
    /// Serialise and parse every segment at every host. Slower, same results.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub wire: bool,
    /// Compare every byte delivered with what was sent.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub verify: bool,
    /// The run goes on until the connections are gone too, not only until all is delivered.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub closing: bool,
    /// Segments that leave a host together travel as one super-packet (TSO), which links carry,
    /// queue and lose whole and the far end takes as one (GRO), as between virtual machines. The
    /// MTU of links is that of segments.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub offload: bool,
    /// What is written beside results.
    #[serde(skip_serializing_if = "Output::is_default")]
    pub output: Output,
    /// Settings of every host that does not say otherwise.
    #[serde(skip_serializing_if = "Host::is_default")]
    pub defaults: Host,
    /// Hosts that have settings of their own. Any host that a flow or a path names exists.
    #[serde(skip_serializing_if = "Named::is_empty")]
    pub host: Named<Host>,
    /// Nodes that relay connections; flows say which they go `via`.
    #[serde(skip_serializing_if = "Named::is_empty")]
    pub proxy: Named<Proxy>,
    /// Links.
    pub link: Named<Link>,
    /// Links that are connections: packets travel in their byte streams.
    #[serde(skip_serializing_if = "Named::is_empty")]
    pub tunnel: Named<Tunnel>,
    /// Nodes that only forward, where links say what they are `between`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub routers: Vec<String>,
    /// Of shortest routes of equal length, each pair of paths takes one by a hash; else all take
    /// the one whose links come first in the file.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub ecmp: bool,
    /// Routers and links between them, made from a shape or a file.
    #[serde(skip_serializing_if = "Named::is_empty")]
    pub backbone: Named<Backbone>,
    /// Hosts by the thousand, with access links drawn from distributions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub group: Vec<Group>,
    /// Ways between hosts, each a list of links. By default every link is one between client and
    /// server or, where links say what they are `between`, routes are the shortest.
    #[serde(skip_serializing_if = "Named::is_empty", serialize_with = "path::serialize")]
    pub path: Named<Path>,
    /// Flows.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub flow: Vec<Flow>,
    /// Flows that arrive at random times with random sizes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub arrivals: Vec<Arrivals>,
    /// Timed changes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub at: Vec<Change>,
}

/// What is written beside results.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Output {
    /// Time between two points of time series.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sample: Option<Time>,
    /// Hosts and links whose packets are captured.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pcap: Vec<String>,
}

impl Output {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl Default for Scenario {
    fn default() -> Self {
        Self {
            name: String::new(),
            about: String::new(),
            seed: 1,
            duration: Time(Duration::from_secs(60)),
            ip: 4,
            wire: false,
            verify: false,
            closing: false,
            offload: false,
            output: Output::default(),
            defaults: Host::default(),
            host: Named::default(),
            proxy: Named::default(),
            link: Named::default(),
            tunnel: Named::default(),
            routers: Vec::new(),
            ecmp: false,
            backbone: Named::default(),
            group: Vec::new(),
            path: Named::default(),
            flow: Vec::new(),
            arrivals: Vec::new(),
            at: Vec::new(),
        }
    }
}

impl Scenario {
    /// Reads a scenario that is not a sweep.
    ///
    /// # Errors
    /// [`ScenarioError`], with line, column and remedy.
    pub fn parse(name: &str, text: &str) -> Result<Self, ScenarioError> {
        let document = Document::parse(name, text, &[])?;
        let mut variants = document.variants()?;
        match variants.len() {
            1 => Ok(Arc::unwrap_or_clone(variants.remove(0).plan.source)),
            n => Err(document.error_at(&[], format!("this is a sweep of {n} runs, not one run"))),
        }
    }

    /// Files that it names: measured rates and conditions of links, values of distributions.
    pub fn traces(&self) -> Vec<String> {
        let mut copy = self.clone();
        copy.files_mut().map(|file| file.clone()).collect()
    }

    /// The names of these files.
    pub(crate) fn files_mut(&mut self) -> impl Iterator<Item = &mut String> {
        let links = self.link.0.iter_mut().flat_map(|(_, link)| link.files_mut());
        let access = self.group.iter_mut().flat_map(|group| &mut group.access);
        let backbones = self.backbone.0.iter_mut().flat_map(|(_, one)| one.files_mut());
        let arrivals = self.arrivals.iter_mut().flat_map(Arrivals::files_mut);
        links.chain(access.flat_map(Access::files_mut)).chain(backbones).chain(arrivals)
    }

    /// As a file that [`Scenario::parse`] reads back to the same value.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("invariant: every field has a TOML form")
    }
}

/// The JSON Schema of scenario files, for editors: with lists wherever they may be sweep axes.
pub fn schema() -> Schema {
    let mut schema = schemars::schema_for!(Scenario);
    if let Some(root) = schema.as_object_mut() {
        for (_, part) in root.iter_mut() {
            allow_axes(part);
        }
        if let Some(properties) = root.get_mut("properties").and_then(Value::as_object_mut) {
            properties.values_mut().for_each(allow_axis);
        }
    }
    schema
}

/// Goes through definitions and lets each property be a list of what it is.
fn allow_axes(part: &mut Value) {
    let Some(object) = part.as_object_mut() else { return };
    for (key, inner) in object.iter_mut() {
        allow_axes(inner);
        if let ("properties", Some(properties)) = (key.as_str(), inner.as_object_mut()) {
            properties.values_mut().for_each(allow_axis);
        }
    }
}

fn allow_axis(property: &mut Value) {
    let kind = property.get("type").and_then(Value::as_str);
    let is_table = property.get("additionalProperties").is_some() || kind == Some("array");
    if is_table || !property.is_object() {
        return;
    }
    let single = property.take();
    let description = single.get("description").cloned();
    *property = json!({ "anyOf": [single, { "type": "array", "items": single }] });
    if let Some(description) = description {
        property["description"] = description;
    }
}

fn is_four(ip: &u8) -> bool {
    *ip == 4
}
