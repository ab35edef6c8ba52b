//! Policies in files: parsed once, when the file is read.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::path::Path;
use tabane_engine::policy::Spec;

/// A policy or model as users write it: `"ecf"` or `"ecf:beta=0.3"`.
#[derive(Clone, PartialEq, Debug)]
pub struct PolicySpec(pub Spec);

impl PolicySpec {
    /// Makes a path of the file that it names, which is relative to `folder`.
    pub fn resolve_file(&mut self, folder: &Path) {
        if let Some(file) = &mut self.0.params.file {
            *file = folder.join(&*file).to_string_lossy().into_owned();
        }
    }
}

impl From<Spec> for PolicySpec {
    fn from(spec: Spec) -> Self {
        Self(spec)
    }
}

impl<'de> Deserialize<'de> for PolicySpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        text.parse().map(Self).map_err(D::Error::custom)
    }
}

impl Serialize for PolicySpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl JsonSchema for PolicySpec {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "PolicySpec".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "examples": ["name", "name:parameter=0.5"] })
    }
}
