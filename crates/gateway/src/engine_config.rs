//! The engine's settings as the gateway wants them.

use crate::config::Choice;
use crate::moderation;
use tabane_engine::Duration;
use tabane_engine::config::{Config, MptcpConfig, PathConfig, SUBFLOWS_MAX, TcpConfig};

/// Largest receive and send buffers of a connection: 1 Gbit/s at 130 ms.
pub(crate) const BUFFER_MAX: u64 = 16 << 20;

/// Settings of an endpoint with these paths and policies.
#[must_use]
pub(crate) fn engine_config(paths: Vec<PathConfig>, choice: &Choice) -> Config {
    let mut config = Config::default().with(|c| c.paths = paths);
    config.tcp = TcpConfig::default().with(|c| {
        c.receive_buffer = 256 << 10;
        c.receive_buffer_max = BUFFER_MAX;
        c.send_buffer = BUFFER_MAX / 2;
        // Programs have decided already what belongs together.
        c.nagle = false;
        // A peer that is gone for good is noticed although nothing is said.
        c.keepalive = Some(Duration::from_secs(120));
        c.keepalive_interval = Duration::from_secs(20);
        c.keepalive_probes = 6;
        // Tunnels to one peer: what is still under way is not mistaken for something new.
        c.time_wait = Duration::from_secs(10);
        c.congestion = choice.congestion.clone();
        // An agent that is held back, and then late by as much again, still sends at full rate.
        c.pacing_credit = moderation::INTERVAL * 2;
    });
    config.mptcp = MptcpConfig::default().with(|c| {
        c.max_subflows = SUBFLOWS_MAX;
        c.break_before_make = Duration::from_secs(60);
        // Dead for this path is what the probes say: the engine need not wait longer.
        c.stale_after = 1;
        c.scheduler = choice.scheduler.clone();
        c.egress = choice.egress.clone();
        // Tunnels carry each other's addresses, and the probes say what to expect of them.
        c.hedging = true;
    });
    config
}
