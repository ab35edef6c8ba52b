//! What is known of one direction of a path: how fast it delivers, what it has shown to carry, how
//! long its queue is, what it loses.
//!
//! The client will have it of each of its tunnels, the server of each path of a client:
//! `reports.sending(now)` and `reports.receiving(now)`.

use tabane_engine::Duration;

/// One direction of a path, as it is now.
#[allow(dead_code, reason = "who feeds and who asks follows")]
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub(crate) struct Estimate {
    /// What arrives now, bits of inner packets per second; `None` while it is idle.
    pub(crate) delivery_rate: Option<u64>,
    /// What it has shown to carry when it was the bottleneck, bits of inner packets per second;
    /// `None` if it never was.
    pub(crate) capacity: Option<u64>,
    /// How much `capacity` may be trusted, 0 to 1: it was exercised for long, lately, and evenly.
    pub(crate) confidence: f64,
    /// One-way delay above its base; `None` while nothing says it.
    pub(crate) queueing_delay: Option<Duration>,
    /// Variation of the one-way delay (interarrival jitter of RFC 3550 section 6.4.1, of markers).
    pub(crate) jitter: Option<Duration>,
    /// Share of packets that were lost lately; `None` while too few were sent.
    pub(crate) loss: Option<f64>,
}
