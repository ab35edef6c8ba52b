//! A link's parameters, for both directions or each by itself.

use super::params::*;
use crate::link::queue::{MOST_BYTES, MOST_PACKETS};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use tabane_config::policy::PolicySpec;
use tabane_config::quantity::Size;
use tabane_engine::policy::Spec;

with_link_params! {
    /// A link. Parameters beside `between` hold for both directions; `up` and `down` change one.
    #[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields, default)]
    pub struct Link for link {
        /// The two nodes it joins, for topologies that are drawn node by node. Up is from the first
        /// to the second. Without it, `[path]` says where the link lies.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub between: Option<[String; 2]>,
    } {
        /// Largest IP packet, bytes.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub mtu: Option<u16>,
        /// What both directions share with each other and with other stations, and what that costs:
        /// `"wifi"`, `"wifi:stations=3,hidden=1,interference=0.2"`.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub medium: Option<PolicySpec>,
        /// From the client's side to the server's (or from the first of `between` to the second).
        #[serde(skip_serializing_if = "Option::is_none")]
        pub up: Option<LinkParams>,
        /// The other way.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub down: Option<LinkParams>,
    }
}

impl Link {
    /// Names of the files that it names.
    pub(super) fn files_mut(&mut self) -> impl Iterator<Item = &mut String> {
        let Self { trace, conditions, up, down, .. } = self;
        let ways = [up, down].into_iter().flatten();
        let own = ways.map(|way| (way.trace.as_mut(), way.conditions.as_mut()));
        let all = own.chain([(trace.as_mut(), conditions.as_mut())]);
        all.flat_map(|(trace, conditions)| {
            let series = conditions.and_then(|conditions| match conditions {
                Conditions::File(file) => Some(file),
                Conditions::Model(_) => None,
            });
            trace.into_iter().chain(series)
        })
    }

    /// All parameters of a direction.
    pub fn direction(&self, up: bool) -> LinkParams {
        let mut params = self.params();
        if let Some(own) = if up { &self.up } else { &self.down } {
            params.lay(own);
        }
        params
    }
}

/// A queue model: a plain size is drop-tail.
#[derive(Clone, PartialEq, Debug)]
pub struct Queue(pub Spec);

/// A loss model: a plain share is independent loss.
#[derive(Clone, PartialEq, Debug)]
pub struct Loss(pub Spec);

/// How a link changes over time.
#[derive(Clone, PartialEq, Debug)]
pub enum Conditions {
    /// A file of measured conditions: its name ends in `.csv`.
    File(String),
    /// A model of a kind of link.
    Model(Spec),
}

impl Conditions {
    /// The file, if it is one.
    pub fn file(&self) -> Option<&str> {
        match self {
            Self::File(file) => Some(file),
            Self::Model(_) => None,
        }
    }
}

impl FromStr for Conditions {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if text.trim().to_ascii_lowercase().ends_with(".csv") {
            return Ok(Self::File(text.trim().into()));
        }
        text.parse().map(Self::Model).map_err(|e: tabane_engine::policy::PolicyError| {
            format!("{e}; write \"leo\" or another model, or the name of a .csv file")
        })
    }
}

impl fmt::Display for Conditions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(file) => f.write_str(file),
            Self::Model(spec) => spec.fmt(f),
        }
    }
}

impl FromStr for Queue {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if !text.trim_start().starts_with(|c: char| c.is_ascii_digit() || c == '-') {
            return text.parse().map(Self).map_err(|e: tabane_engine::policy::PolicyError| {
                format!("{e}; write \"100 packets\", \"64KiB\" or a model")
            });
        }
        let packets = text.trim().strip_suffix("packets").or(text.trim().strip_suffix("packet"));
        let (unit, value, most) = match packets {
            Some(number) => {
                let wrong = || format!("'{text}' is not a queue; write \"100 packets\"");
                ("packets", number.trim().parse().map_err(|_| wrong())?, MOST_PACKETS)
            }
            None => ("bytes", text.parse::<Size>()?.0, MOST_BYTES),
        };
        if value == 0 {
            return Err("a queue needs room for at least one packet".into());
        }
        if value > most {
            let most = Size(MOST_BYTES);
            return Err(format!("'{text}' is too large: at most {MOST_PACKETS} packets or {most}"));
        }
        Ok(Self(with("droptail", unit, value as f64)))
    }
}

impl FromStr for Loss {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if text.trim_start().starts_with(|c: char| c.is_ascii_digit() || c == '-' || c == '.') {
            return Ok(Self(with("bernoulli", "p", text.parse::<Ratio>()?.0)));
        }
        text.parse().map(Self).map_err(|e: tabane_engine::policy::PolicyError| {
            format!("{e}; write \"1%\" or a model")
        })
    }
}

impl Loss {
    /// Each packet by itself with this probability.
    pub(crate) fn independent(Ratio(p): Ratio) -> Self {
        Self(with("bernoulli", "p", p))
    }
}

fn with(name: &str, key: &str, value: f64) -> Spec {
    Spec { name: name.into(), params: BTreeMap::from([(key.into(), value)]).into() }
}

impl fmt::Display for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let params = &self.0.params.numbers;
        match (self.0.name.as_str(), params.len(), params.first_key_value()) {
            ("droptail", 1, Some((key, n))) if key == "packets" => write!(f, "{n} packets"),
            ("droptail", 1, Some((key, n))) if key == "bytes" => write!(f, "{}", Size(*n as u64)),
            _ => self.0.fmt(f),
        }
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers = &self.0.params.numbers;
        match (self.0.name.as_str(), numbers.len(), numbers.get("p")) {
            ("bernoulli", 1, Some(p)) => Ratio(*p).fmt(f),
            _ => self.0.fmt(f),
        }
    }
}

macro_rules! as_string {
    ($($type:ident, $hint:literal, $examples:expr;)*) => {$(
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Text;
                impl Visitor<'_> for Text {
                    type Value = $type;
                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str($hint)
                    }
                    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<$type, E> {
                        text.parse().map_err(E::custom)
                    }
                    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<$type, E> {
                        value.to_string().parse().map_err(E::custom)
                    }
                    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<$type, E> {
                        value.to_string().parse().map_err(E::custom)
                    }
                }
                deserializer.deserialize_any(Text)
            }
        }
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
        impl JsonSchema for $type {
            fn inline_schema() -> bool {
                true
            }
            fn schema_name() -> Cow<'static, str> {
                stringify!($type).into()
            }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": ["string", "number"], "examples": $examples })
            }
        }
    )*};
}

as_string! {
    Queue, "a queue such as \"100 packets\" or \"64KiB\"", ["100 packets", "64KiB", "codel"];
    Conditions, "a model such as \"leo\" or a .csv file", ["leo", "measured.csv"];
    Loss, "a share such as \"1%\" or a loss model", ["1%", "gilbert:p=0.01,r=0.4"];
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(text: &str) -> Result<String, String> {
        text.parse::<Queue>().map(|queue| queue.0.to_string())
    }

    #[test]
    fn queues_are_as_large_as_they_are_written_or_refused() {
        for (text, spec) in [
            ("4.295GB", "droptail:bytes=4295000000"),
            ("4GiB", "droptail:bytes=4294967296"),
            ("1000GB", "droptail:bytes=1000000000000"),
            ("1 packet", "droptail:packets=1"),
            ("4294967295 packets", "droptail:packets=4294967295"),
        ] {
            assert_eq!(queue(text).as_deref(), Ok(spec));
            let shown = text.parse::<Queue>().unwrap().to_string();
            assert_eq!(queue(&shown).as_deref(), Ok(spec), "{shown}");
            let spec: Spec = spec.parse().unwrap();
            assert!(crate::link::queue::build(&spec).is_ok(), "{text}");
        }
        for text in ["1001GB", "4294967296 packets"] {
            let error = queue(text).unwrap_err();
            assert_eq!(
                error,
                format!("'{text}' is too large: at most 4294967295 packets or 1000GB")
            );
        }
        for text in ["0B", "0 packets"] {
            assert!(queue(text).unwrap_err().contains("at least one packet"));
        }
    }
}
