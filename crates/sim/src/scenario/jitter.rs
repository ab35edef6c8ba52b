//! How a delay varies: `"5ms"`, `"uniform 5ms"`, and either with `reordering`.

use crate::link::DelayConfig;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use tabane_config::quantity::Time;
use tabane_engine::Duration;

/// Variation of a link's delay, packet by packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Jitter {
    /// Standard deviation, or half the width of a uniform distribution.
    pub spread: Time,
    /// Uniform between `delay - spread` and `delay + spread` instead of normal.
    pub uniform: bool,
    /// Packets overtake each other; else a packet waits for the one before it.
    pub reordering: bool,
}

impl Jitter {
    /// The delay model with this `mean`. What would be negative is zero.
    pub fn around(self, mean: Duration) -> DelayConfig {
        let (spread, reorder) = (self.spread.0, self.reordering);
        match self.uniform {
            true => DelayConfig::Uniform { mean, half: spread, reorder },
            false => DelayConfig::Normal { mean, deviation: spread, reorder },
        }
    }
}

impl From<Time> for Jitter {
    fn from(spread: Time) -> Self {
        Self { spread, uniform: false, reordering: false }
    }
}

impl FromStr for Jitter {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (rest, reordering) = match text.trim().strip_suffix("reordering") {
            Some(rest) => (rest, true),
            None => (text, false),
        };
        let (rest, uniform) = match rest.trim().strip_prefix("uniform") {
            Some(rest) => (rest, true),
            None => (rest, false),
        };
        let spread = rest.trim().parse().map_err(|error| {
            format!("{error}; jitter may begin with \"uniform\" and end in \"reordering\"")
        })?;
        Ok(Self { spread, uniform, reordering })
    }
}

impl fmt::Display for Jitter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let uniform = if self.uniform { "uniform " } else { "" };
        let reordering = if self.reordering { " reordering" } else { "" };
        write!(f, "{uniform}{}{reordering}", self.spread)
    }
}

impl<'de> Deserialize<'de> for Jitter {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl Serialize for Jitter {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl JsonSchema for Jitter {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Jitter".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "examples": ["5ms", "uniform 5ms reordering"] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_is_written_as_it_is_read() {
        for text in ["5ms", "uniform 5ms", "5ms reordering", "uniform 250us reordering"] {
            assert_eq!(text.parse::<Jitter>().unwrap().to_string(), text);
        }
        for wrong in ["", "uniform", "5", "gaussian 5ms", "5ms often"] {
            let error = wrong.parse::<Jitter>().unwrap_err();
            assert!(error.contains("\"uniform\""), "{wrong}: {error}");
        }
    }
}
