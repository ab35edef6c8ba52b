//! What a run is called and what it cost: the parts of a result that the world cannot know.

use crate::cost::{Meter, Scope, Spent};
use tabane_engine::Config;
use tabane_sim::result::{Cost, RunResult};
use tabane_sim::scenario::{FlowDirection, Scenario};
use tabane_trace::RunInfo;

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

/// Scenario, seed, version, and the policies of the hosts that send the data.
pub(in crate::cmd) fn info(scenario: &Scenario, params: &[(String, String)]) -> RunInfo {
    let mut senders: Vec<&str> = Vec::new();
    for flow in &scenario.flow {
        let (from, to) = (flow.from.as_str(), flow.to.as_str());
        let sending = match flow.direction {
            FlowDirection::Download => &[to][..],
            FlowDirection::Upload => &[from],
            FlowDirection::Both => &[to, from],
        };
        for sender in sending {
            if !senders.contains(sender) {
                senders.push(sender);
            }
        }
    }
    let configs: Vec<Config> = senders
        .iter()
        .map(|host| {
            let mut config = Config::default();
            scenario.defaults.apply(&mut config);
            if let Some(own) = scenario.host.get(host) {
                own.apply(&mut config);
            }
            config
        })
        .collect();
    let joined = |name: &dyn Fn(&Config) -> String| {
        let mut names: Vec<String> = configs.iter().map(name).collect();
        names.dedup();
        names.join("+")
    };
    RunInfo {
        scenario: point_name(&scenario.name, params),
        seed: scenario.seed,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        scheduler: joined(&|c| c.mptcp.scheduler.to_string()),
        congestion: joined(&|c| c.tcp.congestion.to_string()),
        egress: joined(&|c| c.mptcp.egress.to_string()),
        axes: params.to_vec(),
    }
}

/// A scenario's name with the values of its sweep axes.
fn point_name(name: &str, params: &[(String, String)]) -> String {
    if params.is_empty() {
        return name.to_owned();
    }
    let values: Vec<String> = params.iter().map(|(key, value)| format!("{key}={value}")).collect();
    format!("{name} [{}]", values.join(", "))
}
