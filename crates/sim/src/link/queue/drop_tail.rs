//! Drop-tail: a limit in packets, in bytes, or both.

use super::{Arrival, Queue, Verdict};
use crate::seed::Rng;
use tabane_engine::policy::{Param, PolicyError, Values};

/// The most that a limit in packets may be.
pub const MOST_PACKETS: u64 = u32::MAX as u64;
/// The most that one in bytes may be.
pub const MOST_BYTES: u64 = 1_000_000_000_000;

/// Parameters of the table row.
pub(super) const PARAMS: &[Param] = &[
    Param::count(
        "packets",
        100.0,
        1.0..=MOST_PACKETS as f64,
        "most packets that wait; without it but with `bytes`: no limit",
    ),
    Param::count(
        "bytes",
        0.0,
        0.0..=MOST_BYTES as f64,
        "most bytes that wait; 0 or not given: no limit",
    ),
];

/// The queue `droptail`. The packet that is being sent is not in it.
pub(super) struct DropTail {
    packets: usize,
    bytes: u64,
}

impl DropTail {
    pub(super) fn build(values: &Values<'_>) -> Result<Box<dyn Queue>, PolicyError> {
        let bytes = values.get("bytes");
        let packets = match values.given("packets") {
            None if bytes > 0.0 => MOST_PACKETS as usize,
            _ => values.get("packets") as usize,
        };
        let bytes = if bytes > 0.0 { bytes as u64 } else { u64::MAX };
        Ok(Box::new(Self { packets, bytes }))
    }
}

impl Queue for DropTail {
    #[inline]
    fn admit(&mut self, arrival: &Arrival, _rng: &mut Rng) -> Verdict {
        let bytes = arrival.bytes.saturating_add(u64::from(arrival.len));
        let fits = arrival.packets < self.packets && bytes <= self.bytes;
        if fits || arrival.at_once { Verdict::Pass } else { Verdict::Drop }
    }
}
