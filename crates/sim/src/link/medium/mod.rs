//! Media: air that the two directions of a link share with each other and with other stations.
//!
//! Elsewhere a direction has its rate to itself, and when a packet has been sent is known when it
//! begins. Here it depends on everybody else: a direction offers its packet, and learns later
//! whether and when it got through. docs/adr/0020-shared-media.md says how that fits into a link.

mod dcf;
mod station;
mod wifi;

use crate::seed::Seed;
use tabane_engine::policy::{Entry, PolicyError, Registry, Spec, Values};
use tabane_engine::{Duration, Instant};

pub(super) use station::Station;
pub use wifi::Wifi;

/// What became of an offered packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Outcome {
    /// When its last bit was received, or when it was given up.
    at: Instant,
    /// It was received.
    received: bool,
}

impl Outcome {
    /// When, and whether it was received.
    pub(super) fn parts(self) -> (Instant, bool) {
        (self.at, self.received)
    }
}

/// Signature of a row's constructor.
pub type Build = dyn Fn(&Values<'_>) -> Result<Wifi, PolicyError> + Send + Sync;

/// Every medium.
pub const ALL: &[Entry<Build>] = &[
    Entry {
        name: "wifi",
        aliases: &["802.11a", "802.11g"],
        summary: "IEEE 802.11 CSMA/CA with OFDM: stations that contend, hidden ones, interference",
        params: wifi::OFDM,
        build: &Wifi::build,
    },
    Entry {
        name: "wifi-fhss",
        aliases: &[],
        summary: "the same with the numbers of 1997 (1 Mbit/s), as Bianchi (2000) has them",
        params: wifi::FHSS,
        build: &Wifi::build,
    },
];

/// What can be named: [`ALL`], and what a program registers.
pub static REGISTRY: Registry<Build> = Registry::new("medium", ALL);

/// Makes the medium that `spec` names.
///
/// # Errors
/// [`PolicyError`] for unknown names and parameters, and values out of range.
pub fn build(spec: &Spec) -> Result<Wifi, PolicyError> {
    let (entry, values) = REGISTRY.find(spec)?;
    (entry.build)(&values)
}

/// Bits per second that a direction with this rate carries by itself in the first `time` of a run,
/// if it always has packets of 1500 bytes and the other direction has none.
pub(super) fn mean_rate(wifi: &Wifi, bps: u64, seed: Seed, name: &str, time: Duration) -> f64 {
    const LEN: u32 = 1500;
    let way = usize::from(name.ends_with("/down"));
    let mut station = Station::both(wifi, [bps; 2], seed, name).into_iter().nth(way);
    let Some(station) = &mut station else { return 0.0 };
    let (mut now, mut bits) = (Instant::ZERO, 0.0);
    station.offer(now, LEN);
    while now < Instant::ZERO + time {
        now = station.outlook();
        if let Some(outcome) = station.outcome(now) {
            bits += if outcome.received { f64::from(LEN) * 8.0 } else { 0.0 };
            station.offer(now, LEN);
        }
    }
    bits / time.as_secs_f64()
}

#[cfg(test)]
mod tests;
