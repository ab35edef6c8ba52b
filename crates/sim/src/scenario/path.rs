//! Ways between hosts: lists of links.

use super::Named;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;

/// A way from one host to another: links, in order. `wifi = ["wifi", "core"]` is short for
/// `wifi = { from = "client", to = "server", links = ["wifi", "core"] }`.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Path(pub PathSettings);

/// The long form.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PathSettings {
    /// Host at its beginning.
    #[serde(default = "client")]
    pub from: String,
    /// Host at its end.
    #[serde(default = "server")]
    pub to: String,
    /// Its links in order. Two paths that name one link share it.
    pub links: Vec<String>,
    /// Its links on the way back, in the order in which packets cross them, if they are others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub back: Vec<String>,
    /// New subflows on it ask for low priority.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub backup: bool,
}

impl Default for PathSettings {
    fn default() -> Self {
        let (links, back) = (Vec::new(), Vec::new());
        Self { from: client(), to: server(), links, back, backup: false }
    }
}

impl PathSettings {
    /// Whether it leads from `client` to `server`, as a path does that does not say.
    pub(super) fn has_default_ends(&self) -> bool {
        self.from == client() && self.to == server()
    }
}

fn client() -> String {
    "client".into()
}

fn server() -> String {
    "server".into()
}

impl<'de> Deserialize<'de> for Path {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Path;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of links, or a table with from, to and links")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Path, A::Error> {
                let links = Vec::deserialize(SeqAccessDeserializer::new(seq))?;
                Ok(Path(PathSettings { links, ..PathSettings::default() }))
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Path, A::Error> {
                PathSettings::deserialize(MapAccessDeserializer::new(map)).map(Path)
            }
        }
        deserializer.deserialize_any(Either)
    }
}

/// All in the short form, or all in the long one: TOML writes arrays before tables, and the order
/// of paths matters.
pub(super) fn serialize<S: Serializer>(
    paths: &Named<Path>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let short = |path: &PathSettings| {
        *path == PathSettings { links: path.links.clone(), ..PathSettings::default() }
    };
    let all_short = paths.iter().all(|(_, Path(path))| short(path));
    let mut map = serializer.serialize_map(Some(paths.0.len()))?;
    for (name, Path(path)) in paths.iter() {
        if all_short {
            map.serialize_entry(name, &path.links)?;
        } else {
            map.serialize_entry(name, path)?;
        }
    }
    map.end()
}

impl JsonSchema for Path {
    fn schema_name() -> Cow<'static, str> {
        "Path".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let long = generator.subschema_for::<PathSettings>();
        json_schema!({ "anyOf": [{ "type": "array", "items": { "type": "string" } }, long] })
    }
}
