//! The emulated links of the rows, and beds with some of them.

use crate::bed::{Bed, Plan};
use std::fmt;
use tabane_engine::Duration;
use tabane_gateway::config::{ClientConfig, Policies};
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
    let bed = Bed::start(&Plan { paths, seed: 1, client, policies })?;
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
}
