//! What a run cost: the part of a result that the world cannot know.

use crate::cost::{Meter, Scope, Spent};
use tabane_sim::result::{Cost, RunResult};

/// Runs `work` and writes into its result what it cost this process.
pub(in crate::cmd) fn measured<E>(
    scope: Scope,
    work: impl FnOnce() -> Result<RunResult, E>,
) -> Result<RunResult, E> {
    let meter = Meter::start(scope);
    let mut result = work()?;
    result.cost = cost(result.cost.packet_hops, meter.spent());
    Ok(result)
}

fn cost(packet_hops: u64, spent: Spent) -> Cost {
    Cost {
        packet_hops,
        user_s: spent.user.map(|time| time.as_secs_f64()),
        instructions: spent.instructions,
        peak_rss_bytes: spent.peak_rss,
    }
}
