//! The demo's links: what they are unless the user says otherwise, and how that is written; or
//! those of a scenario.

use std::collections::BTreeMap;
use std::str::FromStr;
use tabane_config::quantity::{Rate, Ratio, Time};
use tabane_engine::Duration;
use tabane_engine::policy::{Params, Spec};
use tabane_gateway::address::PATHS_MAX;
use tabane_sim::link::{DelayConfig, LinkConfig, RateConfig};
use tabane_sim::scenario::Document;

/// A link of the demo.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct DemoLink {
    /// Human-readable.
    pub(crate) title: String,
    /// For scripts.
    pub(crate) name: String,
    /// What it does, in a line.
    pub(crate) summary: String,
    /// Its directions: up and down.
    pub(crate) directions: [LinkConfig; 2],
}

/// A link, the same in both directions.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct LinkSpec {
    /// Human-readable.
    title: &'static str,
    /// For scripts.
    name: &'static str,
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

/// Name, key, unit of a bare number, its factor to SI, least and greatest value in that unit.
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
    fn summary(&self) -> String {
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
    fn config(&self) -> LinkConfig {
        let spec = |name: &str, params: &[(&str, f64)]| {
            let params = params.iter().map(|(key, value)| ((*key).to_owned(), *value));
            let params = Params::from(params.collect::<BTreeMap<_, _>>());
            Spec { name: name.to_owned(), params }
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

impl From<LinkSpec> for DemoLink {
    fn from(link: LinkSpec) -> Self {
        let (title, name) = (link.title.to_owned(), link.name.to_owned());
        Self { title, name, summary: link.summary(), directions: [link.config(), link.config()] }
    }
}

/// The links of a scenario, in the order of its paths. Flows, hosts and timed changes are the
/// demo's own.
///
/// # Errors
/// It is a sweep, or has what a link between client and server cannot be.
pub(crate) fn of_scenario(document: &Document) -> Result<Vec<DemoLink>, String> {
    let mut variants = document.variants().map_err(|error| error.to_string())?;
    let plan = match variants.len() {
        1 => variants.remove(0).plan,
        n => return Err(format!("it is a sweep of {n} runs; choose one by `--set KEY=VALUE`")),
    };
    let scenario = &plan.scenario;
    if scenario.link.iter().any(|(_, link)| link.between.is_some()) {
        return Err("its links are `between` nodes; the demo has one link for each [path]".into());
    }
    let mut directions: Vec<(&str, &str)> = Vec::new();
    for (path, settings) in scenario.path.iter() {
        match settings.0.links.as_slice() {
            [link] if directions.iter().all(|(_, other)| *other != link.as_str()) => {
                directions.push((path, link.as_str()));
            }
            [link] => {
                let text = format!("path '{path}' shares link '{link}' with another one");
                return Err(text + "; the demo's links are apart");
            }
            links => {
                let text = format!("path '{path}' goes over {} links", links.len());
                return Err(text + "; the demo has one link for each path");
            }
        }
    }
    if directions.is_empty() {
        directions = scenario.link.names().map(|name| (name, name)).collect();
    }
    if !(2..=PATHS_MAX).contains(&directions.len()) {
        let count = directions.len();
        return Err(format!("it has {count} links; the demo bundles 2 to {PATHS_MAX}"));
    }
    let link = |&(path, link): &(&str, &str)| {
        let found = plan.link(link).ok_or_else(|| format!("there is no link '{link}'"))?;
        let directions = found.each_ref().map(|direction| direction.config.clone());
        let [up, down] = directions.each_ref().map(direction);
        let both = if up == down { down } else { format!("down {down}; up {up}") };
        let (title, name) = (path.to_owned(), path.to_owned());
        Ok(DemoLink { summary: format!("{title}: {both}"), title, name, directions })
    };
    directions.iter().map(link).collect()
}

/// A direction in a line.
fn direction(config: &LinkConfig) -> String {
    let rate = match &config.rate {
        RateConfig::Unlimited => "no limit".to_owned(),
        RateConfig::Constant(bps) => format!("{} Mbit/s", round(*bps as f64 / 1e6)),
        RateConfig::Trace(_) => "a recorded rate".to_owned(),
    };
    let ms = |delay: Duration| round(delay.as_secs_f64() * 1e3);
    let delay = match config.delay {
        DelayConfig::Constant(delay) => format!("{} ms", ms(delay)),
        DelayConfig::Normal { mean, deviation, .. } => {
            format!("{} ms, deviation {} ms", ms(mean), ms(deviation))
        }
        DelayConfig::Uniform { mean, half, .. } => {
            format!("{} to {} ms", ms(mean.saturating_sub(half)), ms(mean + half))
        }
    };
    let loss = match config.loss.name.as_str() {
        "none" => "no loss".to_owned(),
        _ => format!("loss {}", config.loss),
    };
    format!("{rate}, {delay} each way, {loss}")
}

impl Key {
    /// A value with its unit, as everywhere.
    fn read(self, text: &str) -> Result<f64, String> {
        match self {
            Self::Rate => text.parse().map(|Rate(bps)| bps as f64),
            Self::Delay | Self::Queue => text.parse().map(|Time(time)| time.as_secs_f64()),
            Self::Loss => text.parse().map(|Ratio(share)| share),
            Self::Burst => Err(format!("'{text}' is not a number, as in burst=5")),
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
            let number = match value.trim().parse::<f64>() {
                Ok(bare) => bare * factor,
                Err(_) => key.read(value.trim())?,
            };
            // The ends count, whatever they are as binary fractions.
            let within = least * factor * (1.0 - 1e-9)..=greatest * factor * (1.0 + 1e-9);
            if !within.contains(&number) {
                return Err(format!("{name} is from {least} to {greatest} {unit}"));
            }
            changes.push((key, number));
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
        for text in ["rate=30Mbit/s, delay=5 ms,loss=1%", "rate=30Mbps,delay=5ms,loss=1 %"] {
            assert_eq!(text.parse(), Ok(bare.clone()), "{text}");
        }
        assert_eq!("rate=3750kB/s,delay=5000us,loss=1".parse(), Ok(bare.clone()));
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
            ("rate=fast", "not a rate"),
            ("rate=5ms", "not a unit of a rate"),
            ("burst=5ms", "not a number"),
            ("rate=0", "from 0.1 to"),
            ("loss=NaN", "from 0 to 50"),
            ("", "key=value"),
        ] {
            let error = text.parse::<Changes>().unwrap_err();
            assert!(error.contains(named), "{text}: {error}");
        }
    }

    fn scenario(text: &str) -> Result<Vec<DemoLink>, String> {
        of_scenario(&Document::parse("s.toml", text, &[]).unwrap())
    }

    const TWO: &str = "[link.a]\nrate = \"30Mbps\"\ndelay = \"10ms\"\nloss = \"1%\"\n\
        [link.b]\nrate = \"8Mbps\"\ndown = { rate = \"20Mbps\" }\n\
        [[flow]]\nbulk = \"1MB\"\n";

    #[test]
    fn the_links_of_a_scenario_are_taken_with_both_directions() {
        let links = scenario(TWO).unwrap();
        let names: Vec<&str> = links.iter().map(|link| link.name.as_str()).collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(links[0].summary, "a: 30 Mbit/s, 10 ms each way, loss bernoulli:p=0.01");
        assert!(links[1].summary.contains("down 20 Mbit/s") && links[1].summary.contains("up 8"));
        assert_eq!(links[1].directions[0].rate, RateConfig::Constant(8_000_000));
        assert_eq!(links[1].directions[1].rate, RateConfig::Constant(20_000_000));
        let paths = format!("{TWO}[path]\nx = [\"b\"]\ny = [\"a\"]\n");
        let links = scenario(&paths).unwrap();
        assert_eq!((links[0].name.as_str(), links[1].title.as_str()), ("x", "y"));
        assert!(links[0].summary.contains("20 Mbit/s"));
    }

    #[test]
    fn what_the_demo_cannot_be_is_said() {
        for (text, named) in [
            (format!("{TWO}[path]\nx = [\"a\", \"b\"]\n"), "goes over 2 links"),
            (format!("{TWO}[path]\nx = [\"a\"]\ny = [\"a\"]\nz = [\"b\"]\n"), "shares link 'a'"),
            (format!("{TWO}[path]\nx = [\"a\"]\n"), "on no path"),
            (TWO.replace("\"30Mbps\"", "[\"1Mbps\", \"2Mbps\"]"), "sweep of 2 runs"),
        ] {
            let error = scenario(&text).unwrap_err();
            assert!(error.contains(named), "{named}: {error}");
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
