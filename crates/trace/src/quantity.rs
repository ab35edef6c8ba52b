//! Quantities as people write them in scenarios and configurations:
//! `"20Mbps"`, `"64KiB"`,
//! `"10ms"`, `"1%"`.
//!
//! A unit is required wherever its absence would be a guess; what is printed parses back to the
//! same value.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use tabane_engine::Duration;

/// A rate in bits per second, always positive.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Rate(pub u64);

/// A size in bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Size(pub u64);

/// A span of time, never negative.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Time(pub Duration);

/// A share from 0 to 1, written as `"1%"` or `0.01`.
#[derive(Clone, Copy, PartialEq, PartialOrd, Debug, Default)]
pub struct Ratio(pub f64);

/// Units of rates, largest first; the first spelling is the one printed.
const RATES: Units = &[
    (1e9, &["Gbps", "Gbit/s", "gbit"]),
    (1e6, &["Mbps", "Mbit/s", "mbit"]),
    (1e3, &["kbps", "kbit/s", "Kbps", "kbit"]),
    (1.0, &["bps", "bit/s", "bit"]),
];
const SIZES: Units = &[
    (1e9, &["GB"]),
    (1_073_741_824.0, &["GiB"]),
    (1e6, &["MB"]),
    (1_048_576.0, &["MiB"]),
    (1e3, &["kB", "KB"]),
    (1024.0, &["KiB"]),
    (1.0, &["B", "bytes"]),
];
/// In nanoseconds.
const TIMES: Units =
    &[(60e9, &["min"]), (1e9, &["s", "sec"]), (1e6, &["ms"]), (1e3, &["us", "µs"]), (1.0, &["ns"])];

type Units = &'static [(f64, &'static [&'static str])];

impl FromStr for Rate {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match parse(text, RATES, "a rate", "\"20Mbps\"")? {
            0 => Err("a rate must be more than zero; to cut a link use `down` under [[at]]".into()),
            bits => Ok(Self(bits)),
        }
    }
}

impl FromStr for Size {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        parse(text, SIZES, "a size", "\"500MB\" or \"64KiB\"").map(Self)
    }
}

impl FromStr for Time {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        parse(text, TIMES, "a time", "\"10ms\" or \"30s\"").map(|ns| Self(Duration(ns)))
    }
}

impl FromStr for Ratio {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let (number, scale) = match text.trim().strip_suffix('%') {
            Some(percent) => (percent, 100.0),
            None => (text, 1.0),
        };
        let wrong = || format!("'{text}' is not a share; write \"1%\" or 0.01");
        let value = number.trim().parse::<f64>().map_err(|_| wrong())? / scale;
        if !(0.0..=1.0).contains(&value) {
            return Err(format!("'{text}' is not between 0% and 100%"));
        }
        Ok(Self(value))
    }
}

/// `text` as a whole number of the smallest unit.
fn parse(text: &str, units: Units, what: &str, example: &str) -> Result<u64, String> {
    let trimmed = text.trim();
    let split = trimmed
        .find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '-' | '+' | '_')))
        .unwrap_or(trimmed.len());
    let (number, unit) = (trimmed[..split].replace('_', ""), trimmed[split..].trim());
    let value: f64 =
        number.parse().map_err(|_| format!("'{text}' is not {what}; write {example}"))?;
    if value < 0.0 {
        return Err(format!("{what} cannot be negative, as '{text}' is"));
    }
    if unit.is_empty() {
        return Err(format!("'{text}' has no unit; write {example}"));
    }
    let scale = units.iter().find(|(_, names)| names.contains(&unit)).ok_or_else(|| {
        let known: Vec<_> = units.iter().map(|(_, names)| names[0]).collect();
        format!("'{unit}' is not a unit of {what}; units are {}", known.join(", "))
    })?;
    let exact = value * scale.0;
    if exact >= 1e18 {
        return Err(format!("'{text}' is too large"));
    }
    Ok(exact.round() as u64)
}

/// The largest unit that gives a whole number.
fn print(f: &mut fmt::Formatter<'_>, value: u64, units: Units) -> fmt::Result {
    let unit = units.iter().find(|(scale, _)| value != 0 && value.is_multiple_of(*scale as u64));
    let (scale, names) = unit.unwrap_or(&units[units.len() - 1]);
    write!(f, "{}{}", value / *scale as u64, names[0])
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        print(f, self.0, RATES)
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        print(f, self.0, SIZES)
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        print(f, self.0.0, TIMES)
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = format!("{}%", self.0 * 100.0);
        if percent.parse() == Ok(*self) { f.write_str(&percent) } else { write!(f, "{}", self.0) }
    }
}

/// What a bare TOML number means where a quantity is expected.
trait Bare: FromStr<Err = String> + fmt::Display {
    const NAME: &'static str;
    const EXAMPLE: &'static str;
    fn bare(value: f64) -> Result<Self, String> {
        Err(format!("{value} has no unit; write a string such as {}", Self::EXAMPLE))
    }
}

impl Bare for Rate {
    const NAME: &'static str = "Rate";
    const EXAMPLE: &'static str = "\"20Mbps\"";
}

impl Bare for Size {
    const NAME: &'static str = "Size";
    const EXAMPLE: &'static str = "\"64KiB\"";
    /// Bytes, which is what everybody means.
    fn bare(value: f64) -> Result<Self, String> {
        if value < 0.0 || value.fract() != 0.0 {
            return Err(format!("{value} is not a number of bytes"));
        }
        Ok(Self(value as u64))
    }
}

impl Bare for Time {
    const NAME: &'static str = "Time";
    const EXAMPLE: &'static str = "\"10ms\"";
    fn bare(value: f64) -> Result<Self, String> {
        if value == 0.0 {
            return Ok(Self::default());
        }
        Err(format!("{value} has no unit; write a string such as {}", Self::EXAMPLE))
    }
}

impl Bare for Ratio {
    const NAME: &'static str = "Ratio";
    const EXAMPLE: &'static str = "\"1%\"";
    fn bare(value: f64) -> Result<Self, String> {
        value.to_string().parse()
    }
}

struct Quantity<T>(std::marker::PhantomData<T>);

impl<T: Bare> Visitor<'_> for Quantity<T> {
    type Value = T;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a string such as {}", T::EXAMPLE)
    }
    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }
    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<T, E> {
        T::bare(value as f64).map_err(E::custom)
    }
    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<T, E> {
        T::bare(value as f64).map_err(E::custom)
    }
    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<T, E> {
        T::bare(value).map_err(E::custom)
    }
}

macro_rules! as_string {
    ($($type:ty),*) => {$(
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_any(Quantity(std::marker::PhantomData))
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
                <$type as Bare>::NAME.into()
            }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                let example = <$type as Bare>::EXAMPLE.trim_matches('"');
                json_schema!({ "type": ["string", "number"], "examples": [example] })
            }
        }
    )*};
}

as_string!(Rate, Size, Time, Ratio);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_parse_and_print_back() {
        for (text, bits) in
            [("20Mbps", 20_000_000), ("1.5 Mbit/s", 1_500_000), ("1Gbps", 1e9 as u64)]
        {
            let rate: Rate = text.parse().unwrap();
            assert_eq!(rate, Rate(bits));
            assert_eq!(rate.to_string().parse(), Ok(rate));
        }
        for text in ["500MB", "64KiB", "1448B", "3GB", "0B"] {
            let size: Size = text.parse().unwrap();
            assert_eq!(size.to_string(), text);
        }
        for text in ["10ms", "2min", "30s", "250us", "7ns"] {
            assert_eq!(text.parse::<Time>().unwrap().to_string(), text);
        }
        for text in ["1%", "0.3%", "7.000000000000001%", "100%"] {
            let ratio: Ratio = text.parse().unwrap();
            assert_eq!(ratio.to_string().parse(), Ok(ratio));
        }
    }

    #[test]
    fn what_cannot_be_meant_is_refused_with_what_to_write() {
        let refusal = |r: Result<Rate, String>| r.unwrap_err();
        assert!(refusal("20".parse()).contains("no unit"));
        assert!(refusal("0Mbps".parse()).contains("more than zero"));
        assert!(refusal("-3Mbps".parse()).contains("negative"));
        assert!(refusal("3MB".parse()).contains("units are Gbps, Mbps"));
        assert!(refusal("fast".parse()).contains("write \"20Mbps\""));
        assert!("101%".parse::<Ratio>().is_err());
        assert!("-1ms".parse::<Time>().is_err());
    }
}
