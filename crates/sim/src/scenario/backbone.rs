//! Backbones: routers and the links between them, made from a shape or read from a file.

use super::link::Queue;
use super::spread::{Spread, file_of};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use tabane_config::quantity::{Rate, Time};
use tabane_engine::policy::{PolicyError, Spec};

/// Routers called `NAME-...` and links between them. Its edge routers, to which groups attach their
/// hosts, are `NAME-1`, `NAME-2` and so on.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Backbone {
    /// `"star:edges=20"`, `"dumbbell"`, `"fat-tree:k=4"`, or a CSV file of links.
    pub shape: Shape,
    /// Bits per second of its links: each draws its own. A file may have a column of rates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Spread<Rate>>,
    /// One-way propagation delay of its links. A file may have a column of delays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<Spread<Time>>,
    /// Queue of its links.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<Queue>,
}

/// What a backbone looks like.
#[derive(Clone, PartialEq, Debug)]
pub enum Shape {
    /// `NAME-hub`, and so many edge routers around it.
    Star(u32),
    /// Two edge routers, and one link between them.
    Dumbbell,
    /// k pods of k / 2 edge routers, above them k / 2 `NAME-agg-P-A` in each pod and (k / 2)^2
    /// `NAME-core-C`, as Al-Fares et al. (SIGCOMM 2008, section 3) draw it.
    FatTree(u32),
    /// A CSV file of links (`from`, `to`): its nodes are `NAME-NODE`, and all are at the edge.
    File(String),
}

/// Most edge routers of a star, and pods of a fat tree.
const MAX_EDGES: f64 = 10_000.0;
const MAX_PODS: f64 = 64.0;

impl FromStr for Shape {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if text.trim().to_ascii_lowercase().ends_with(".csv") {
            return Ok(Self::File(text.trim().into()));
        }
        let spec: Spec = text.parse().map_err(|e: PolicyError| e.to_string())?;
        let known: &[&str] = match spec.name.as_str() {
            "star" => &["edges"],
            "dumbbell" => &[],
            "fat-tree" => &["k"],
            name => {
                return Err(format!(
                    "there is no backbone '{name}'; write \"star:edges=20\", \"dumbbell\", \
                     \"fat-tree:k=4\" or the name of a .csv file of links"
                ));
            }
        };
        let given = spec.params.numbers.keys().map(String::as_str);
        let given = given.chain(spec.params.file.as_ref().map(|_| "file"));
        if let Some(key) = given.into_iter().find(|key| !known.contains(key)) {
            return Err(format!("a {} has no '{key}'", spec.name));
        }
        let whole = |key: &str, default: f64, least: f64, most: f64| {
            let value = spec.params.numbers.get(key).copied().unwrap_or(default);
            match value.fract() == 0.0 && (least..=most).contains(&value) {
                true => Ok(value as u32),
                false => Err(format!("{key} is a whole number from {least} to {most}")),
            }
        };
        match spec.name.as_str() {
            "star" => Ok(Self::Star(whole("edges", 4.0, 1.0, MAX_EDGES)?)),
            "dumbbell" => Ok(Self::Dumbbell),
            _ => match whole("k", 4.0, 2.0, MAX_PODS)? {
                k if k % 2 == 0 => Ok(Self::FatTree(k)),
                _ => Err("k is even: half of a router's ports lead up, half down".into()),
            },
        }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Star(edges) => write!(f, "star:edges={edges}"),
            Self::Dumbbell => f.write_str("dumbbell"),
            Self::FatTree(k) => write!(f, "fat-tree:k={k}"),
            Self::File(file) => f.write_str(file),
        }
    }
}

impl<'de> Deserialize<'de> for Shape {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl Serialize for Shape {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl JsonSchema for Shape {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Shape".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let examples = ["star:edges=20", "dumbbell", "fat-tree:k=4", "links.csv"];
        json_schema!({ "type": "string", "examples": examples })
    }
}

impl Backbone {
    pub(super) fn files_mut(&mut self) -> impl Iterator<Item = &mut String> {
        let shape = match &mut self.shape {
            Shape::File(file) => Some(file),
            _ => None,
        };
        [shape, file_of(&mut self.rate), file_of(&mut self.delay)].into_iter().flatten()
    }
}
