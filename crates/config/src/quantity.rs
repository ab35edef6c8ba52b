//! Quantities as people write them, in scenarios, configurations and on the command line:
//! `"20Mbps"`, `"64KiB"`, `"10ms"`, `"1%"`. This is the only parser of them: what one place takes,
//! all take.
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

/// Units as they are printed, largest first.
const RATES: Units = &[(1e9, "Gbps"), (1e6, "Mbps"), (1e3, "kbps"), (1.0, "bps")];
const SIZES: Units = &[
    (1e9, "GB"),
    (1_073_741_824.0, "GiB"),
    (1e6, "MB"),
    (1_048_576.0, "MiB"),
    (1e3, "kB"),
    (1024.0, "KiB"),
    (1.0, "B"),
];
/// In nanoseconds.
const TIMES: Units = &[(60e9, "min"), (1e9, "s"), (1e6, "ms"), (1e3, "us"), (1.0, "ns")];

type Units = &'static [(f64, &'static str)];

/// Bits per second of a unit as the field writes it: a prefix, then `bps`, `bit`, `bits`, `bit/s`,
/// `bits/s` or `b/s` in any case, but for a capital `B`, which is a byte: `MB/s` is eight times
/// `Mb/s`. (In `tc`, `mbps` are megabytes per second: nowhere else, and not here.)
fn rate_unit(unit: &str) -> Result<Option<f64>, String> {
    let lower = unit.to_ascii_lowercase();
    let per_second = lower.strip_suffix("ps").or_else(|| lower.strip_suffix("/s"));
    let amount = per_second.unwrap_or(&lower);
    let named = &unit[..amount.len()];
    let (scale, what) = prefix(named);
    Ok(match what {
        "b" if per_second.is_some() => Some(scale),
        "B" if lower.ends_with("/s") => Some(scale * 8.0),
        "B" if lower.ends_with("ps") => {
            let p = &named[..named.len() - 1];
            return Err(format!("'{unit}' may be bits or bytes; write {p}bps or {p}B/s"));
        }
        _ => match what.to_ascii_lowercase().as_str() {
            "bit" | "bits" => Some(scale),
            "byte" | "bytes" if per_second.is_some() => Some(scale * 8.0),
            _ => None,
        },
    })
}

/// Bytes of a unit: a prefix, then `B`, `byte`, `bytes` or nothing, in any case. `k` is 1000, `Ki`
/// is 1024.
fn size_unit(unit: &str) -> Result<Option<f64>, String> {
    let (scale, what) = prefix(unit);
    let known = matches!(what.to_ascii_lowercase().as_str(), "" | "b" | "byte" | "bytes");
    Ok(known.then_some(scale))
}

/// Nanoseconds of a unit.
fn time_unit(unit: &str) -> Result<Option<f64>, String> {
    Ok(Some(match unit.to_lowercase().as_str() {
        "h" | "hour" | "hours" => 3600e9,
        "min" | "mins" | "minute" | "minutes" => 60e9,
        "s" | "sec" | "secs" | "second" | "seconds" => 1e9,
        "ms" | "msec" | "msecs" => 1e6,
        // Both signs: micro, and the Greek letter.
        "us" | "usec" | "usecs" | "\u{b5}s" | "\u{3bc}s" => 1e3,
        "ns" | "nsec" | "nsecs" => 1.0,
        "m" => return Err("'m' may be minutes or milliseconds; write min or ms".into()),
        _ => return Ok(None),
    }))
}

/// The factor of `k`, `M`, `G`, `T` in any case, or with an `i` of 1024, and what follows it.
fn prefix(unit: &str) -> (f64, &str) {
    let power = match unit.chars().next().map(|c| c.to_ascii_lowercase()) {
        Some('k') => 1,
        Some('m') => 2,
        Some('g') => 3,
        Some('t') => 4,
        _ => return (1.0, unit),
    };
    match unit[1..].strip_prefix(['i', 'I']) {
        Some(rest) => (1024f64.powi(power), rest),
        None => (1000f64.powi(power), &unit[1..]),
    }
}

impl FromStr for Rate {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match parse(text, rate_unit, RATES, "a rate", "\"20Mbps\"")? {
            0 => Err("a rate must be more than zero; a client leaves a path unused with \
                      role = \"never\", a scenario cuts a link with `down` under [[at]]"
                .into()),
            bits => Ok(Self(bits)),
        }
    }
}

impl FromStr for Size {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        parse(text, size_unit, SIZES, "a size", "\"500MB\" or \"64KiB\"").map(Self)
    }
}

impl FromStr for Time {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        parse(text, time_unit, TIMES, "a time", "\"10ms\" or \"30s\"").map(|ns| Self(Duration(ns)))
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
fn parse(
    text: &str,
    unit_of: fn(&str) -> Result<Option<f64>, String>,
    printed: Units,
    what: &str,
    example: &str,
) -> Result<u64, String> {
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
    let scale = unit_of(unit)?.ok_or_else(|| {
        let known: Vec<_> = printed.iter().map(|(_, name)| *name).collect();
        format!("'{unit}' is not a unit of {what}; units are {}", known.join(", "))
    })?;
    let exact = value * scale;
    if exact >= 1e18 {
        return Err(format!("'{text}' is too large"));
    }
    Ok(exact.round() as u64)
}

/// The largest unit that gives a whole number.
fn print(f: &mut fmt::Formatter<'_>, value: u64, units: Units) -> fmt::Result {
    let unit = units.iter().find(|(scale, _)| value != 0 && value.is_multiple_of(*scale as u64));
    let (scale, name) = unit.unwrap_or(&units[units.len() - 1]);
    write!(f, "{}{name}", value / *scale as u64)
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
    fn every_spelling_of_the_field_is_taken() {
        let rates = "20Mbps 20mbps 20MBIT 20mbit 20Mbit/s 20Mb/s 20mb/s 20Mbits/s 20Mbits 0.02Gbps \
                     20000kbit 20000Kbps 20_000kbps 20000000bps 20000000bit/s 2.5MB/s 2500kB/s \
                     2500000B/s 2500000bytes/s 2.5MByte/s";
        for text in rates.split_whitespace() {
            assert_eq!(text.parse(), Ok(Rate(20_000_000)), "{text}");
            let at = text.find(|c: char| c.is_ascii_alphabetic()).unwrap();
            let spaced = format!("{} {}", &text[..at], &text[at..]);
            assert_eq!(spaced.parse(), Ok(Rate(20_000_000)), "{spaced}");
        }
        assert_eq!("1Mibit/s".parse(), Ok(Rate(1_048_576)));
        assert_eq!("1MiB/s".parse(), Ok(Rate(8_388_608)));
        for text in ["2MB", "2mb", "2M", "2 Mbytes", "2000kB", "2000KB", "2000k", "2000000bytes"] {
            assert_eq!(text.parse(), Ok(Size(2_000_000)), "{text}");
        }
        for text in ["2MiB", "2mib", "2Mi", "2048KiB", "2048ki"] {
            assert_eq!(text.parse(), Ok(Size(2 << 20)), "{text}");
        }
        for text in ["90s", "90 sec", "1.5min", "90000ms", "90000msec", "90000000µs", "0.025h"] {
            assert_eq!(text.parse(), Ok(Time(Duration::from_secs(90))), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_meant_is_refused_with_what_to_write() {
        let refusal = |r: Result<Rate, String>| r.unwrap_err();
        assert!(refusal("20".parse()).contains("no unit"));
        assert!(refusal("0Mbps".parse()).contains("more than zero"));
        assert!(refusal("-3Mbps".parse()).contains("negative"));
        assert!(refusal("3MB".parse()).contains("units are Gbps, Mbps"));
        assert!(refusal("3MBps".parse()).contains("write Mbps or MB/s"));
        assert!("3m".parse::<Time>().unwrap_err().contains("min or ms"));
        for text in ["3Mi", "3Mbyte", "3bt", "3M", "3b", "3mbpss", "3µbps"] {
            assert!(text.parse::<Rate>().is_err(), "{text}");
        }
        assert!(refusal("fast".parse()).contains("write \"20Mbps\""));
        assert!("101%".parse::<Ratio>().is_err());
        assert!("-1ms".parse::<Time>().is_err());
    }
}
