//! What is sent: flows and their applications.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;
use tabane_config::quantity::{Rate, Size, Time};

/// A flow (or `count` of them): one connection that runs one application.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Flow {
    /// Its name in results; `flow1`, `flow2`, ... by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Host that connects.
    pub from: String,
    /// Host that listens.
    pub to: String,
    /// Proxies that it is relayed by, from the host that connects to the one that listens.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub via: Vec<String>,
    /// The host that listens refuses it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub refuse: bool,
    /// Which way the data goes: download is towards the host that connects, both is both ways at
    /// once.
    pub direction: Direction,
    /// When it connects.
    pub start: Time,
    /// When its application stops by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop: Option<Time>,
    /// How many of it; their names get `.1`, `.2`, ...
    pub count: u32,
    /// Time between the starts of two of them.
    pub stagger: Time,
    /// Application: this much as fast as it goes, or `"unlimited"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bulk: Option<Amount>,
    /// Application: ask, wait for the answer, think, ask again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<Request>,
    /// Application: messages at a steady rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paced: Option<Paced>,
    /// Application: as fast as it goes for a while, then nothing for a while.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub onoff: Option<OnOff>,
}

impl Default for Flow {
    fn default() -> Self {
        Self {
            name: None,
            from: "client".into(),
            to: "server".into(),
            via: Vec::new(),
            refuse: false,
            direction: Direction::Download,
            start: Time::default(),
            stop: None,
            count: 1,
            stagger: Time::default(),
            bulk: None,
            request: None,
            paced: None,
            onoff: None,
        }
    }
}

impl Flow {
    /// Its name, as the `n`-th of a scenario counted from 0.
    pub fn name_at(&self, n: usize) -> Cow<'_, str> {
        self.name.as_deref().map_or_else(|| format!("flow{}", n + 1).into(), Cow::Borrowed)
    }

    /// The names of the flows that it is, as the `n`-th: `web.1`, `web.2`, ... if it is several.
    pub fn names_at(&self, n: usize) -> impl Iterator<Item = String> {
        let (name, count) = (self.name_at(n), self.count);
        (1..=count).map(move |k| if count == 1 { name.to_string() } else { format!("{name}.{k}") })
    }

    /// The nodes that it passes, both ends included.
    pub fn nodes(&self) -> impl Iterator<Item = &str> {
        let ends = [&self.from, &self.to];
        let via = self.via.iter();
        std::iter::once(ends[0]).chain(via).chain(std::iter::once(ends[1])).map(String::as_str)
    }

    /// Names of the applications given: one, in a valid flow.
    pub fn apps(&self) -> Vec<&'static str> {
        let given = [
            ("bulk", self.bulk.is_some()),
            ("request", self.request.is_some()),
            ("paced", self.paced.is_some()),
            ("onoff", self.onoff.is_some()),
        ];
        given.iter().filter(|(_, given)| *given).map(|(name, _)| *name).collect()
    }
}

/// Which way the data goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// To the host that connected.
    #[default]
    Download,
    /// From the host that connected.
    Upload,
    /// Both ways at once, each as much (`bulk` only). What results say of the flow is the download.
    Both,
}

/// How much a bulk flow sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Amount {
    /// This much.
    Bytes(Size),
    /// Until the end of the run.
    Unlimited,
}

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = Amount;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a size such as \"500MB\", or \"unlimited\"")
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Amount, E> {
                if text == "unlimited" {
                    return Ok(Amount::Unlimited);
                }
                text.parse()
                    .map(Amount::Bytes)
                    .map_err(|e: String| E::custom(format!("{e}, or \"unlimited\"")))
            }
            fn visit_i64<E: serde::de::Error>(self, bytes: i64) -> Result<Amount, E> {
                let bytes = u64::try_from(bytes);
                bytes.map(|b| Amount::Bytes(Size(b))).map_err(|_| E::custom("a negative size"))
            }
        }
        deserializer.deserialize_any(Text)
    }
}

impl Serialize for Amount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Bytes(size) => size.serialize(serializer),
            Self::Unlimited => serializer.serialize_str("unlimited"),
        }
    }
}

impl JsonSchema for Amount {
    fn schema_name() -> Cow<'static, str> {
        "Amount".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["string", "integer"], "examples": ["500MB", "unlimited"] })
    }
}

/// Request and response on one connection.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Request {
    /// Size of an answer.
    pub size: Size,
    /// Size of a request.
    pub request: Size,
    /// Pause between an answer and the next request.
    pub think: Time,
    /// How many; until the end of the run if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u32>,
}

impl Default for Request {
    fn default() -> Self {
        Self { size: Size(100_000), request: Size(200), think: Time::default(), count: None }
    }
}

/// Messages at a steady rate.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Paced {
    /// Payload bits per second.
    pub rate: Rate,
    /// Size of a message.
    #[serde(default = "Paced::default_message")]
    pub message: Size,
}

impl Paced {
    fn default_message() -> Size {
        Size(1_200)
    }
}

/// Bursts and silence.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OnOff {
    /// How long it sends.
    pub on: Time,
    /// How long it is silent.
    pub off: Time,
    /// Whether both are means of exponential distributions instead of constants.
    #[serde(default)]
    pub random: bool,
}
