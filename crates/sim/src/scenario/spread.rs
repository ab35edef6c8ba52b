//! A quantity that differs from one to the next: a distribution from which each draws its own.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;
use tabane_config::quantity::{Rate, Ratio, Size, Time};
use tabane_engine::Duration;

/// A distribution of a quantity: `"20Mbps"` is the same for all, `"uniform 10Mbps 50Mbps"`, or a
/// CSV file of measured values.
#[derive(Clone, PartialEq, Debug)]
pub struct Spread<T> {
    pub law: Law,
    quantity: PhantomData<T>,
}

/// Distributions; values are in the quantity's smallest unit (bit/s, bytes, nanoseconds, a share).
#[derive(Clone, PartialEq, Debug)]
pub enum Law {
    Fixed(f64),
    /// Least and most.
    Uniform(f64, f64),
    /// Mean and standard deviation.
    Normal(f64, f64),
    /// Median, and the factor that one standard deviation of the logarithm is.
    LogNormal(f64, f64),
    /// Mean.
    Exponential(f64),
    /// Least, the exponent of the tail, and most.
    Pareto(f64, f64, f64),
    /// A file of values with their frequencies.
    File(String),
}

/// What can be drawn.
pub trait Drawable: Sized {
    /// Columns of a file that hold it: name, and smallest units in one of the column's.
    const COLUMNS: &'static [(&'static str, f64)];
    /// As messages show it.
    const EXAMPLE: &'static str;
    /// The most that is drawn; what a distribution has beyond becomes that.
    const MOST: f64;
    /// The least.
    const LEAST: f64;

    /// From smallest units, within the limits.
    fn from_units(units: f64) -> Self;
    /// In smallest units.
    ///
    /// # Errors
    /// What the text should be.
    fn units(text: &str) -> Result<f64, String>;
    /// As files have it.
    fn show(units: f64) -> String;
}

/// Kinds of distribution: name, and what follows it.
const LAWS: &[(&str, &str)] = &[
    ("uniform", "LEAST MOST"),
    ("normal", "MEAN DEVIATION"),
    ("lognormal", "MEDIAN FACTOR"),
    ("exponential", "MEAN"),
    ("pareto", "LEAST EXPONENT MOST"),
];

impl<T: Drawable> Spread<T> {
    fn parse(text: &str) -> Result<Law, String> {
        let text = text.trim();
        if text.to_ascii_lowercase().ends_with(".csv") {
            return Ok(Law::File(text.into()));
        }
        let mut words = text.split_whitespace();
        let name = words.next().unwrap_or_default();
        let Some((_, args)) = LAWS.iter().find(|(law, _)| *law == name) else {
            let value = T::units(text).map_err(|error| {
                let laws: Vec<&str> = LAWS.iter().map(|(law, _)| *law).collect();
                format!("{error}; or a distribution ({}), or a .csv file", laws.join(", "))
            })?;
            within::<T>(value).map_err(|range| format!("'{text}' is {range}"))?;
            return Ok(Law::Fixed(value));
        };
        let words: Vec<&str> = words.collect();
        if words.len() != args.split(' ').count() {
            let example = T::EXAMPLE;
            return Err(format!(
                "'{text}': write {name} {args}, values without blanks, as in \
                 \"uniform {example} {example}\""
            ));
        }
        let number = |word: &str, least: f64| {
            let number = word.parse().ok().filter(|n: &f64| n.is_finite() && *n >= least);
            number.ok_or_else(|| format!("'{word}' in '{text}' is not a number from {least} on"))
        };
        let law = match (name, &words[..]) {
            ("uniform", [least, most]) => Law::Uniform(T::units(least)?, T::units(most)?),
            ("normal", [mean, deviation]) => Law::Normal(T::units(mean)?, T::units(deviation)?),
            ("lognormal", [median, factor]) => {
                Law::LogNormal(T::units(median)?, number(factor, 1.0)?)
            }
            ("exponential", [mean]) => Law::Exponential(T::units(mean)?),
            ("pareto", [least, shape, most]) => {
                Law::Pareto(T::units(least)?, number(shape, 0.01)?, T::units(most)?)
            }
            _ => return Err(format!("'{text}': write {name} {args}")),
        };
        match law {
            Law::Uniform(least, most) | Law::Pareto(least, _, most) if least > most => {
                Err(format!("the least of '{text}' is more than the most"))
            }
            Law::Pareto(0.0, ..) => Err(format!("the least of '{text}' is 0")),
            law => {
                for value in law.said() {
                    let wrong = |range| format!("{} in '{text}' is {range}", T::show(value));
                    within::<T>(value).map_err(wrong)?;
                }
                Ok(law)
            }
        }
    }
}

impl Law {
    /// Values that it names: what is out of range there was not meant.
    fn said(&self) -> Vec<f64> {
        match *self {
            Self::Fixed(value) => vec![value],
            Self::Uniform(least, most) | Self::Pareto(least, _, most) => vec![least, most],
            Self::Normal(mean, _) | Self::Exponential(mean) => vec![mean],
            Self::LogNormal(median, _) => vec![median],
            Self::File(_) => Vec::new(),
        }
    }
}

/// Whether a value may be drawn, or what it is not.
pub(crate) fn within<T: Drawable>(value: f64) -> Result<(), String> {
    if (T::LEAST..=T::MOST).contains(&value) {
        return Ok(());
    }
    let [least, most] = [T::LEAST, T::MOST].map(T::show);
    Err(format!("not between {least} and {most}"))
}

/// The name of the file, if it is one.
pub(super) fn file_of<T>(spread: &mut Option<Spread<T>>) -> Option<&mut String> {
    match spread.as_mut().map(|spread| &mut spread.law) {
        Some(Law::File(file)) => Some(file),
        _ => None,
    }
}

impl<T: Drawable> FromStr for Spread<T> {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        Ok(Self { law: Self::parse(text)?, quantity: PhantomData })
    }
}

impl<T: Drawable> fmt::Display for Spread<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let show = T::show;
        match &self.law {
            Law::Fixed(value) => f.write_str(&show(*value)),
            Law::Uniform(least, most) => write!(f, "uniform {} {}", show(*least), show(*most)),
            Law::Normal(mean, deviation) => {
                write!(f, "normal {} {}", show(*mean), show(*deviation))
            }
            Law::LogNormal(median, factor) => write!(f, "lognormal {} {factor}", show(*median)),
            Law::Exponential(mean) => write!(f, "exponential {}", show(*mean)),
            Law::Pareto(least, shape, most) => {
                write!(f, "pareto {} {shape} {}", show(*least), show(*most))
            }
            Law::File(file) => f.write_str(file),
        }
    }
}

impl<'de, T: Drawable> Deserialize<'de> for Spread<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text<T>(PhantomData<T>);
        impl<T: Drawable> Visitor<'_> for Text<T> {
            type Value = Spread<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a quantity such as \"{}\", a distribution or a .csv file", T::EXAMPLE)
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Spread<T>, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Text(PhantomData))
    }
}

impl<T: Drawable> Serialize for Spread<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<T: Drawable> JsonSchema for Spread<T> {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Spread".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let (one, file) = (T::EXAMPLE, "values.csv");
        json_schema!({ "type": "string", "examples": [one, format!("uniform {one} {one}"), file] })
    }
}

/// Whole units up to here are exact in a float.
const EXACT: f64 = 9e15;

impl Drawable for Rate {
    const COLUMNS: &'static [(&'static str, f64)] =
        &[("rate_mbps", 1e6), ("rate_kbps", 1e3), ("rate_bps", 1.0)];
    const EXAMPLE: &'static str = "20Mbps";
    const LEAST: f64 = 1e3;
    const MOST: f64 = 1e12;
    fn from_units(units: f64) -> Self {
        Self(units.clamp(Self::LEAST, Self::MOST) as u64)
    }
    fn units(text: &str) -> Result<f64, String> {
        text.parse().map(|rate: Self| rate.0 as f64)
    }
    fn show(units: f64) -> String {
        Self(units as u64).to_string()
    }
}

impl Drawable for Time {
    const COLUMNS: &'static [(&'static str, f64)] =
        &[("delay_ms", 1e6), ("delay_s", 1e9), ("delay_us", 1e3)];
    const EXAMPLE: &'static str = "10ms";
    const LEAST: f64 = 0.0;
    /// An hour.
    const MOST: f64 = 3.6e12;
    fn from_units(units: f64) -> Self {
        Self(Duration(units.clamp(Self::LEAST, Self::MOST) as u64))
    }
    fn units(text: &str) -> Result<f64, String> {
        text.parse().map(|time: Self| time.0.0 as f64)
    }
    fn show(units: f64) -> String {
        Self(Duration(units as u64)).to_string()
    }
}

impl Drawable for Size {
    const COLUMNS: &'static [(&'static str, f64)] =
        &[("size_bytes", 1.0), ("size_kb", 1e3), ("size_mb", 1e6)];
    const EXAMPLE: &'static str = "20kB";
    const LEAST: f64 = 1.0;
    const MOST: f64 = EXACT;
    fn from_units(units: f64) -> Self {
        Self(units.clamp(Self::LEAST, Self::MOST) as u64)
    }
    fn units(text: &str) -> Result<f64, String> {
        text.parse().map(|size: Self| size.0 as f64)
    }
    fn show(units: f64) -> String {
        Self(units as u64).to_string()
    }
}

impl Drawable for Ratio {
    const COLUMNS: &'static [(&'static str, f64)] = &[("loss", 1.0), ("loss_percent", 0.01)];
    const EXAMPLE: &'static str = "1%";
    const LEAST: f64 = 0.0;
    const MOST: f64 = 1.0;
    fn from_units(units: f64) -> Self {
        Self(units.clamp(Self::LEAST, Self::MOST))
    }
    fn units(text: &str) -> Result<f64, String> {
        text.parse().map(|ratio: Self| ratio.0)
    }
    fn show(units: f64) -> String {
        Self(units).to_string()
    }
}
