//! The engine's settings as the gateway wants them, and policies by name.

use crate::config::Policies;
use tabane_engine::Duration;
use tabane_engine::config::{Config, MptcpConfig, PathConfig, TcpConfig};
use tabane_engine::mptcp::Policy;
use tabane_engine::policy::{PolicyError, Spec};

/// Largest receive and send buffers of a connection: 1 Gbit/s at 130 ms.
pub(crate) const BUFFER_MAX: u64 = 16 << 20;

/// Settings of an endpoint with these paths.
///
/// # Errors
/// A policy that is not of the form of one; whether it exists is known when it is built.
pub fn engine_config(paths: Vec<PathConfig>, policies: &Policies) -> Result<Config, PolicyError> {
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
    });
    config.mptcp = MptcpConfig::default().with(|c| {
        c.max_subflows = 32;
        c.break_before_make = Duration::from_secs(60);
        // Dead for this path is what the probes say: the engine need not wait longer.
        c.stale_after = 1;
    });
    apply(&mut config, policies)?;
    Ok(config)
}

/// Puts policies that are given into settings.
///
/// # Errors
/// A policy that is not of the form of one.
pub(crate) fn apply(config: &mut Config, policies: &Policies) -> Result<(), PolicyError> {
    let parse = |text: &Option<String>, spec: &mut Spec| -> Result<(), PolicyError> {
        if let Some(text) = text {
            *spec = text.parse()?;
        }
        Ok(())
    };
    parse(&policies.scheduler, &mut config.mptcp.scheduler)?;
    parse(&policies.congestion, &mut config.tcp.congestion)?;
    parse(&policies.egress, &mut config.mptcp.egress)
}

/// The policy of that kind (`scheduler`, `congestion` or `egress`), which exists with these
/// parameters.
///
/// # Errors
/// There is no such kind, or `spec` is none of it; for people.
pub(crate) fn policy(kind: &str, spec: &str) -> Result<Policy, String> {
    let spec: Spec = spec.parse().map_err(|error: PolicyError| error.to_string())?;
    let policy = match kind {
        "scheduler" => Policy::Scheduler(spec),
        "congestion" => Policy::Congestion(None, spec),
        "egress" => Policy::Egress(spec),
        other => return Err(format!("'{other}' is no policy: scheduler, congestion or egress")),
    };
    policy.check().map_err(|error| error.to_string())?;
    Ok(policy)
}
