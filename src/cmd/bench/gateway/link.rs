//! The emulated links of the rows, and beds with some of them.

use crate::bed::{Bed, Plan};
use anyhow::{Context, Error};
use std::fmt;
use std::str::FromStr;
use tabane_config::quantity::{Rate, Time};
use tabane_engine::Duration;
use tabane_gateway::config::client::ClientConfig;
use tabane_gateway::config::rule::Policies;
use tabane_sim::link::{DelayConfig, LinkConfig, RateConfig};

/// A link, the same in both directions.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Link {
    pub(super) mbit: u32,
    /// Round-trip time without a queue.
    pub(super) rtt_ms: u32,
    /// Percent of the packets, each for itself.
    pub(super) loss: f64,
}

/// One link, or two that are measured apart and together.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Links(pub(super) Vec<Link>);

/// How long a full queue takes to empty.
const QUEUE_S: f64 = 0.05;

impl Link {
    /// One that loses nothing.
    pub(super) const fn new(mbit: u32, rtt_ms: u32) -> Self {
        Self { mbit, rtt_ms, loss: 0.0 }
    }

    /// Bits per second of datagrams, what WireGuard and TCP add to data included.
    pub(super) fn bps(&self) -> f64 {
        f64::from(self.mbit) * 1e6
    }

    /// For the emulator: up and down, which are alike.
    pub(super) fn config(&self) -> anyhow::Result<[LinkConfig; 2]> {
        let queue = format!("droptail:bytes={}", (self.bps() / 8.0 * QUEUE_S).round());
        let loss = match self.loss {
            0.0 => "none".to_owned(),
            percent => format!("bernoulli:p={}", percent / 100.0),
        };
        let config = LinkConfig {
            rate: RateConfig::Constant(self.bps() as u64),
            delay: DelayConfig::Constant(Duration::from_micros(u64::from(self.rtt_ms) * 500)),
            queue: queue.parse()?,
            loss: loss.parse()?,
            ..LinkConfig::default()
        };
        Ok([config.clone(), config])
    }
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.mbit, self.rtt_ms)
    }
}

/// `50@40` (what `Display` gives, without loss), or with units: `50Mbps@40ms`.
impl FromStr for Link {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (mbit, rtt_ms) = text.split_once('@').context("a link is MBIT@MS, as 50@40")?;
        let whole = |value: u64, unit: u64| {
            let number = u32::try_from(value / unit).ok().filter(|n| (1..=10_000).contains(n));
            number.filter(|_| value.is_multiple_of(unit))
        };
        let wrong = |what| format!("{what} must be a whole number from 1 to 10000");
        let rate = match mbit.parse::<u64>() {
            Ok(bare) => whole(bare, 1),
            Err(_) => whole(mbit.parse::<Rate>().map_err(Error::msg)?.0, 1_000_000),
        };
        let rtt = match rtt_ms.parse::<u64>() {
            Ok(bare) => whole(bare, 1),
            Err(_) => whole(rtt_ms.parse::<Time>().map_err(Error::msg)?.0.0, 1_000_000),
        };
        let rate = rate.with_context(|| wrong("a rate in Mbit/s"))?;
        Ok(Self::new(rate, rtt.with_context(|| wrong("a round trip in ms"))?))
    }
}

impl FromStr for Links {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let links = text.split('+').map(str::parse).collect::<Result<Vec<_>, _>>()?;
        anyhow::ensure!(links.len() <= 2, "one link, or two joined by '+'");
        Ok(Self(links))
    }
}

/// A share of packets lost, in percent.
///
/// # Errors
/// It is none, or leaves nothing.
pub(super) fn percent(text: &str) -> anyhow::Result<f64> {
    let number = text.strip_suffix('%').unwrap_or(text).trim();
    let percent = number.parse().ok().filter(|percent| (0.0..=50.0).contains(percent));
    percent.context("loss is a number from 0 to 50, in percent")
}

/// A gateway over these links, all of its paths working.
///
/// # Errors
/// No sockets, or a path that does not come up.
pub(super) fn bed(
    links: &[Link],
    policies: Policies,
    client: fn(&mut ClientConfig),
) -> anyhow::Result<Bed> {
    let mut paths = Vec::new();
    for (i, link) in links.iter().enumerate() {
        paths.push((format!("link{i}"), Some(link.config()?)));
    }
    let bed = Bed::start(&Plan { paths, seed: 1, client, server: |_| {}, policies })?;
    bed.wait_for_paths(|| false)?;
    Ok(bed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_can_be_made() {
        for loss in [0.0, 0.1, 1.0] {
            let link = Link { loss, ..Link::new(230, 20) };
            let [config, _] = link.config().unwrap();
            assert!(config.check().is_ok());
            assert_eq!(config.queue.to_string(), "droptail:bytes=1437500");
        }
        assert_eq!(Link::new(230, 20).to_string(), "230@20");
    }

    #[test]
    fn links_are_read_as_they_are_shown() {
        let links = |text: &str| text.parse::<Links>().map(|links| links.0).ok();
        assert_eq!(links("50@40"), Some(vec![Link::new(50, 40)]));
        assert_eq!(links("50@40+5@80"), Some(vec![Link::new(50, 40), Link::new(5, 80)]));
        for wrong in ["", "50", "50@", "0@40", "50@40+", "1@1+1@1+1@1", "50@-1"] {
            assert_eq!(links(wrong), None, "{wrong}");
        }
        assert_eq!(links("50Mbps@40ms"), links("50@40"));
        assert_eq!(links("0.5Mbps@40ms"), None);
        assert_eq!((percent("0.5").ok(), percent("0.5 %").ok()), (Some(0.5), Some(0.5)));
        assert!(percent("51").is_err() && percent("x").is_err() && percent("NaN").is_err());
    }
}
