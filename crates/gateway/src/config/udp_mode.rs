//! How datagrams travel, as it is written: `bond`, `best`, `duplicate`, `protect` or
//! `protect:loss=0.1%,late=40ms`.

use super::rule::{Protect, UdpMode};
use std::fmt;
use std::str::FromStr;
use tabane_config::source_document::Fault;
use tabane_engine::Duration;
use toml::de::{DeTable, DeValue};

/// The word for spreading of versions before 0.2; it means [`UdpMode::Bond`].
const STRIPE: &str = "stripe";

impl FromStr for UdpMode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, parameters) = text.split_once(':').unwrap_or((text, ""));
        let mode = match name {
            "bond" | STRIPE => Self::Bond,
            "best" => Self::Best,
            "duplicate" => Self::Duplicate,
            "protect" => return Ok(Self::Protect(protect(parameters)?)),
            _ => return Err(format!("'{text}' is none of bond, best, duplicate and protect")),
        };
        if !parameters.is_empty() {
            return Err(format!("'{name}' has no parameters"));
        }
        Ok(mode)
    }
}

fn protect(parameters: &str) -> Result<Protect, String> {
    let (mut protect, mut given) = (Protect::default(), Vec::new());
    for parameter in parameters.split(',').filter(|parameter| !parameter.is_empty()) {
        let (key, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        let number = |unit: &str, range: std::ops::RangeInclusive<f64>| {
            let digits = value.strip_suffix(unit).map(str::trim);
            let number = digits.and_then(|digits| digits.parse::<f64>().ok());
            let (low, high) = (range.start(), range.end());
            number.filter(|number| range.contains(number)).ok_or_else(|| {
                format!("'{value}' is no {key} of protect: from {low}{unit} to {high}{unit}")
            })
        };
        if given.contains(&key.trim()) {
            return Err(format!("'{}' of protect is given twice: write it once", key.trim()));
        }
        given.push(key.trim());
        match key.trim() {
            "loss" => protect.loss_ppm = (number("%", 0.001..=10.0)? * 1e4).round() as u32,
            "late" => protect.late = Duration::from_secs_f64(number("ms", 1.0..=1000.0)? / 1e3),
            _ => return Err(format!("'{key}' is none of loss and late, which protect has")),
        }
    }
    Ok(protect)
}

impl fmt::Display for UdpMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bond => f.write_str("bond"),
            Self::Best => f.write_str("best"),
            Self::Duplicate => f.write_str("duplicate"),
            Self::Protect(Protect { loss_ppm, late }) => {
                let (loss, late) = (f64::from(*loss_ppm) / 1e4, late.0 as f64 / 1e6);
                write!(f, "protect:loss={loss}%,late={late}ms")
            }
        }
    }
}

impl TryFrom<String> for UdpMode {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<UdpMode> for String {
    fn from(mode: UdpMode) -> Self {
        mode.to_string()
    }
}

/// Where a document says the word of earlier versions.
pub(super) fn old_words(root: &DeTable<'_>) -> Vec<Fault> {
    let mut found = Vec::new();
    walk(root, &mut Vec::new(), &mut found);
    found
}

fn walk(table: &DeTable<'_>, at: &mut Vec<String>, found: &mut Vec<Fault>) {
    for (key, value) in table {
        at.push(key.get_ref().to_string());
        match value.get_ref() {
            DeValue::String(word) if word == STRIPE && key.get_ref() == "udp" => {
                let at: Vec<&dyn fmt::Display> = at.iter().map(|key| key as _).collect();
                let fault = Fault::new(&at, format!("'{STRIPE}' is gone and means 'bond'"));
                found.push(fault.help("write udp = \"bond\""));
            }
            DeValue::Table(table) => walk(table, at, found),
            DeValue::Array(all) => {
                for (i, value) in all.iter().enumerate() {
                    if let DeValue::Table(table) = value.get_ref() {
                        at.push(i.to_string());
                        walk(table, at, found);
                        at.pop();
                    }
                }
            }
            _ => {}
        }
        at.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_read_as_they_are_written() {
        let late = Duration::from_millis(25);
        let modes = [
            ("bond", UdpMode::Bond),
            ("best", UdpMode::Best),
            ("duplicate", UdpMode::Duplicate),
            ("protect:loss=0.1%,late=40ms", UdpMode::Protect(Protect::default())),
            ("protect:loss=0.5%,late=25ms", UdpMode::Protect(Protect { loss_ppm: 5000, late })),
        ];
        for (text, mode) in modes {
            assert_eq!(text.parse(), Ok(mode));
            assert_eq!(mode.to_string(), text);
        }
        let others =
            [("stripe", "bond"), ("protect", modes[3].0), ("protect:late=40ms", modes[3].0)];
        for (text, means) in others {
            assert_eq!(text.parse::<UdpMode>().unwrap().to_string(), means, "{text}");
        }
        for wrong in [
            "",
            "Best",
            "bond:x=1",
            "protect:loss=1",
            "protect:loss=90%",
            "protect:x=1%",
            "protect:loss=1%,loss=2%",
        ] {
            let why = wrong.parse::<UdpMode>().unwrap_err();
            assert!(why.starts_with('\''), "{why}");
        }
    }
}
