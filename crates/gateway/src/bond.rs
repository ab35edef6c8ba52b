//! An endpoint and what goes through its paths: what a client has once, and a server once for each
//! client.
//!
//! A packet that a path's tunnel cannot take now (no keys, no address, a full socket) is dropped
//! and counted, as by a network card.

use crate::address::PATHS_MAX;
use crate::index::PathIndex;
use crate::record_counters::RecordCounters;
use std::net::IpAddr;
use tabane_engine::config::{Config, PathConfig};
use tabane_engine::policy::PolicyError;
use tabane_engine::{Endpoint, Instant};

pub(crate) struct Bond {
    /// The engine.
    pub endpoint: Endpoint,
    /// What went through its paths.
    pub(crate) counters: [Counters; PATHS_MAX],
    /// What it records, if it does.
    pub(crate) record_counters: Option<Box<RecordCounters>>,
}

/// Inner packets of a path.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Counters {
    /// Packets sent.
    pub(crate) tx_packets: u64,
    /// Their bytes.
    pub(crate) tx_bytes: u64,
    /// Packets that could not be sent.
    pub(crate) tx_dropped: u64,
    /// Packets received.
    pub(crate) rx_packets: u64,
    /// Their bytes.
    pub(crate) rx_bytes: u64,
    /// Rates in bits per second, over the last tick.
    pub(crate) tx_bps: f64,
    /// See `tx_bps`.
    pub(crate) rx_bps: f64,
    /// As of the last tick.
    at_tick: (u64, u64),
}

/// Packets sent before others have their turn.
const BATCH: usize = 256;

impl Bond {
    /// An endpoint with `PATHS_MAX` paths, all down.
    ///
    /// # Errors
    /// A policy that does not exist.
    pub(crate) fn new(config: Config, seed: [u8; 32]) -> Result<Self, PolicyError> {
        let record_counters = config.records.then(Box::default);
        let mut endpoint = Endpoint::new(config, seed)?;
        for path in PathIndex::all() {
            endpoint.set_path_up(Instant::ZERO, path.into(), false);
        }
        Ok(Self { endpoint, counters: [Counters::default(); PATHS_MAX], record_counters })
    }

    /// Gives a batch of what the engine has to send to `send`, with the path, which says whether
    /// it was taken; whether there may be more.
    pub(crate) fn transmit(
        &mut self,
        now: Instant,
        buf: &mut [u8],
        mut send: impl FnMut(PathIndex, &[u8]) -> bool,
    ) -> bool {
        if let Some(record_counters) = &mut self.record_counters {
            record_counters.drain(&mut self.endpoint);
        }
        for _ in 0..BATCH {
            let Some(transmit) = self.endpoint.poll_transmit(now, buf) else { return false };
            for path in transmit.paths.iter().map(PathIndex::from) {
                let taken = send(path, &buf[..transmit.len]);
                self.counters[path].sent(transmit.len, taken);
            }
        }
        true
    }
}

impl Counters {
    /// A packet was given to the tunnel, which took it or not.
    pub(crate) fn sent(&mut self, len: usize, taken: bool) {
        if taken {
            self.tx_packets += 1;
            self.tx_bytes += len as u64;
        } else {
            self.tx_dropped += 1;
        }
    }

    /// A packet came.
    pub(crate) fn received(&mut self, len: usize) {
        self.rx_packets += 1;
        self.rx_bytes += len as u64;
    }

    /// Called every `seconds`: the rates.
    pub(crate) fn tick(&mut self, seconds: f64) {
        let (tx, rx) = self.at_tick;
        self.tx_bps = (self.tx_bytes - tx) as f64 * 8.0 / seconds;
        self.rx_bps = (self.rx_bytes - rx) as f64 * 8.0 / seconds;
        self.at_tick = (self.tx_bytes, self.rx_bytes);
    }
}

/// The paths of a server's endpoint, of a client with these inner addresses.
#[must_use]
pub(crate) fn paths_of_peer(peers: impl Fn(PathIndex) -> Vec<IpAddr>, mtu: u16) -> Vec<PathConfig> {
    let mut paths = paths(|_| Vec::new(), mtu);
    for (index, path) in PathIndex::enumerate(&mut paths) {
        path.peers = peers(index);
    }
    paths
}

/// The paths of an endpoint with these inner addresses.
#[must_use]
pub(crate) fn paths(addresses: impl Fn(PathIndex) -> Vec<IpAddr>, mtu: u16) -> Vec<PathConfig> {
    PathIndex::all().map(|path| PathConfig::new(path.into(), addresses(path), mtu)).collect()
}
