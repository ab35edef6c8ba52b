//! The demo's links: what they are unless the user says otherwise, and how that is written.

use std::str::FromStr;
use tabane_engine::Duration;
use tabane_engine::policy::{Params, Spec};
use tabane_sim::link::{DelayConfig, LinkConfig, RateConfig};

/// A link, the same in both directions.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct LinkSpec {
    /// For people.
    pub(crate) title: &'static str,
    /// For scripts.
    pub(crate) name: &'static str,
    /// Bits per second.
    rate: f64,
    /// One way.
    delay: f64,
    /// Share of packets lost.
    loss: f64,
    /// Packets lost in a row on average.
    burst: f64,
    /// How long a full queue takes to empty, seconds.
    queue: f64,
}

/// What the user changes: `rate=50,delay=15`.
#[derive(Clone, PartialEq, Default, Debug)]
pub(crate) struct Changes(Vec<(Key, f64)>);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Key {
    Rate,
    Delay,
    Loss,
    Burst,
    Queue,
}

/// Name, key, unit that may follow, factor to SI, least and greatest value.
type Row = (&'static str, Key, &'static str, f64, f64, f64);

const KEYS: [Row; 5] = [
    ("rate", Key::Rate, "Mbit/s", 1e6, 0.1, 1000.0),
    ("delay", Key::Delay, "ms", 1e-3, 0.0, 2000.0),
    ("loss", Key::Loss, "%", 1e-2, 0.0, 50.0),
    ("burst", Key::Burst, "", 1.0, 1.0, 1000.0),
    ("queue", Key::Queue, "ms", 1e-3, 1.0, 10_000.0),
];

impl LinkSpec {
    /// Fast and lossy. Loss on Wi-Fi is what its own repetitions leave over, and comes in bursts.
    pub(crate) fn wifi() -> Self {
        Self {
            title: "Wi-Fi",
            name: "wifi",
            rate: 50e6,
            delay: 0.010,
            loss: 0.003,
            burst: 4.0,
            queue: 0.060,
        }
    }

    /// Slow and clean.
    pub(crate) fn lte() -> Self {
        Self {
            title: "LTE",
            name: "lte",
            rate: 20e6,
            delay: 0.030,
            loss: 0.0,
            burst: 1.0,
            queue: 0.120,
        }
    }

    /// With the user's changes.
    pub(crate) fn with(mut self, changes: &Changes) -> Self {
        for &(key, value) in &changes.0 {
            match key {
                Key::Rate => self.rate = value,
                Key::Delay => self.delay = value,
                Key::Loss => self.loss = value,
                Key::Burst => self.burst = value,
                Key::Queue => self.queue = value,
            }
        }
        self
    }

    /// In one line.
    pub(crate) fn summary(&self) -> String {
        let loss = match self.loss {
            0.0 => String::from("no loss"),
            loss if self.burst > 1.0 => {
                format!("{} % loss in bursts of {}", round(loss * 100.0), self.burst)
            }
            loss => format!("{} % loss", round(loss * 100.0)),
        };
        let (rate, delay) = (round(self.rate / 1e6), round(self.delay * 1e3));
        format!("{}: {rate} Mbit/s, {delay} ms each way, {loss}", self.title)
    }

    /// For the link model.
    pub(crate) fn config(&self) -> LinkConfig {
        let spec = |name: &str, params: &[(&str, f64)]| {
            let params = params.iter().map(|(key, value)| ((*key).to_owned(), *value)).collect();
            Spec { name: name.to_owned(), params: Params(params) }
        };
        // Gilbert's model with nothing lost in the good state and all in the bad one: bursts of
        // mean length 1/r, and a share p/(p + r) of the time in the bad state.
        let r = 1.0 / self.burst;
        let loss = match self.loss {
            0.0 => spec("none", &[]),
            p if self.burst > 1.0 => {
                spec("gilbert", &[("p", (p * r / (1.0 - p)).min(1.0)), ("r", r)])
            }
            p => spec("bernoulli", &[("p", p)]),
        };
        // Never less than a few packets, or nothing would ever get through.
        let bytes = (self.rate * self.queue / 8.0).max(6_000.0);
        LinkConfig {
            rate: RateConfig::Constant(self.rate as u64),
            delay: DelayConfig::Constant(Duration::from_secs_f64(self.delay)),
            queue: spec("droptail", &[("bytes", bytes.round())]),
            loss,
            ..LinkConfig::default()
        }
    }
}

impl FromStr for Changes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut changes = Vec::new();
        for part in text.split(',') {
            let known = KEYS.map(|row| row.0).join(", ");
            let (name, value) = part
                .split_once('=')
                .ok_or_else(|| format!("'{part}' is not key=value; keys are {known}"))?;
            let row = KEYS.iter().find(|row| row.0 == name.trim());
            let &(name, key, unit, factor, least, greatest) =
                row.ok_or_else(|| format!("no key '{name}'; keys are {known}"))?;
            let number = value.trim().trim_end_matches(unit).trim();
            let number: f64 = number
                .parse()
                .map_err(|_| format!("'{value}' is not a number, as in {name}=5{unit}"))?;
            if !(least..=greatest).contains(&number) {
                return Err(format!("{name} is from {least} to {greatest} {unit}"));
            }
            changes.push((key, number * factor));
        }
        Ok(Self(changes))
    }
}

/// Without the noise of binary fractions.
fn round(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_taken_with_and_without_units() {
        let bare: Changes = "rate=30,delay=5,loss=1".parse().unwrap();
        assert_eq!(bare, "rate=30Mbit/s, delay=5 ms,loss=1%".parse().unwrap());
        let link = LinkSpec::wifi().with(&bare).with(&"burst=1".parse().unwrap());
        assert_eq!(link.summary(), "Wi-Fi: 30 Mbit/s, 5 ms each way, 1 % loss");
        let config = link.config();
        assert_eq!(config.rate, RateConfig::Constant(30_000_000));
        assert_eq!(config.loss.to_string(), "bernoulli:p=0.01");
        assert!(config.check().is_ok());
    }

    #[test]
    fn nonsense_is_refused_and_named() {
        for (text, named) in [
            ("fast", "key=value"),
            ("speed=5", "no key 'speed'"),
            ("rate=fast", "not a number"),
            ("rate=0", "from 0.1 to"),
            ("loss=NaN", "from 0 to 50"),
            ("", "key=value"),
        ] {
            let error = text.parse::<Changes>().unwrap_err();
            assert!(error.contains(named), "{text}: {error}");
        }
    }

    #[test]
    fn the_defaults_can_be_made() {
        for link in [LinkSpec::wifi(), LinkSpec::lte()] {
            link.config().check().unwrap();
        }
        let lossy = LinkSpec::lte().with(&"loss=50,burst=1000".parse().unwrap());
        lossy.config().check().unwrap();
    }
}
