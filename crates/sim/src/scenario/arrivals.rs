//! Traffic by an arrival process: flows that come at random times with random sizes.

use super::FlowDirection;
use super::spread::{Spread, file_of};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use tabane_config::quantity::{Size, Time};

/// Flows that arrive as a Poisson process, or as a file says. Each transfers its size and is called
/// `NAME.1`, `NAME.2` and so on, in order of arrival.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Arrivals {
    /// Names of its flows begin with it.
    pub name: String,
    /// Host that connects, or a group: each flow is from one of it, at random.
    pub from: String,
    /// Host that listens, or a group.
    pub to: String,
    /// Flows a time unit, of all together: `"200/s"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<Frequency>,
    /// Bytes of each flow: a distribution, or a CSV file of sizes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<Spread<Size>>,
    /// Instead of `rate` and `size`: a CSV file of flows (`time_s`, `size_bytes`, and, if wanted,
    /// `from` and `to`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    /// Which way the data goes.
    pub direction: FlowDirection,
    /// When the first may come; times of a file count from here.
    pub start: Time,
    /// When no more come; the end of the run if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop: Option<Time>,
    /// At most so many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u32>,
}

impl Default for Arrivals {
    fn default() -> Self {
        Self {
            name: String::new(),
            from: "client".into(),
            to: "server".into(),
            rate: None,
            size: None,
            trace: None,
            direction: FlowDirection::Download,
            start: Time::default(),
            stop: None,
            count: None,
        }
    }
}

impl Arrivals {
    pub(super) fn files_mut(&mut self) -> impl Iterator<Item = &mut String> {
        [file_of(&mut self.size), self.trace.as_mut()].into_iter().flatten()
    }
}

/// How often something happens, per second.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Frequency(pub f64);

/// Seconds of units.
const UNITS: &[(&str, f64)] = &[("s", 1.0), ("ms", 1e-3), ("min", 60.0), ("h", 3600.0)];

impl FromStr for Frequency {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("'{text}' is not a number a time unit; write \"200/s\" or \"3/min\"");
        let (number, unit) = text.split_once('/').ok_or_else(wrong)?;
        let (_, seconds) = UNITS.iter().find(|(u, _)| *u == unit.trim()).ok_or_else(wrong)?;
        let number: f64 = number.trim().replace('_', "").parse().map_err(|_| wrong())?;
        let frequency = number / seconds;
        match frequency.is_finite() && frequency > 0.0 && frequency <= 1e9 {
            true => Ok(Self(frequency)),
            false => Err(format!("'{text}' is not between 0 and 1e9 a second")),
        }
    }
}

impl fmt::Display for Frequency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/s", self.0)
    }
}

impl<'de> Deserialize<'de> for Frequency {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl Serialize for Frequency {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl JsonSchema for Frequency {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Frequency".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "examples": ["200/s", "3/min"] })
    }
}
