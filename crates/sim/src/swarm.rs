//! Swarm testing: a seed draws the whole world, faults included; safety is checked while they
//! last; then the faults stop, and every flow must finish.
//!
//! What is drawn is an ordinary scenario, so that a seed that fails can be printed, edited and
//! run by itself. Policies come from the engine's tables: a new one is in the swarm at once.

mod draw;

use crate::check::Check;
use crate::observe::{Observer, Observers};
use crate::result::RunResult;
use crate::scenario::{Mptcp, Scenario};
use crate::world::{self, RunError};

pub use draw::draw;

/// What became of a world.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome {
    /// The seed that drew it.
    pub seed: u64,
    /// The world.
    pub scenario: Scenario,
    /// The run, if it came to an end.
    pub result: Result<RunResult, RunError>,
    /// What must not be.
    pub violations: Vec<String>,
}

impl Outcome {
    /// Whether everything was as it must be.
    pub fn passed(&self) -> bool {
        self.violations.is_empty()
    }
}

/// Draws the world of `seed`, runs it and checks it.
pub fn replay(seed: u64, observer: &mut dyn Observer) -> Outcome {
    let scenario = draw(seed);
    let mut check = Check::new(&scenario);
    let result = world::run(&scenario, &mut Observers(vec![&mut check, observer]));
    let violations = match &result {
        Err(error) => vec![error.to_string()],
        Ok(result) => {
            let mut violations = check.violations(&scenario, result);
            violations.extend(unfinished(&scenario, result));
            violations
        }
    };
    Outcome { seed, scenario, result, violations }
}

/// Flows that did not finish although the network has been fine for long.
fn unfinished(scenario: &Scenario, result: &RunResult) -> Vec<String> {
    // Where subflows were taken away by hand, a connection may have lost its last one.
    let excused = scenario.at.iter().any(|change| change.subflow.is_some());
    let mut violations = Vec::new();
    for flow in &result.flows {
        if flow.completed_s.is_some() || (excused && flow.failed.is_some()) {
            continue;
        }
        let why = flow.failed.as_deref().unwrap_or("still running");
        let (name, bytes, end) = (&flow.name, flow.bytes, result.ended_s);
        violations.push(format!("flow {name} not finished at {end} s ({bytes} bytes): {why}"));
    }
    violations
}

/// Whether both ends of every connection may use MPTCP.
fn is_multipath(scenario: &Scenario) -> bool {
    let off = |host: &crate::scenario::Host| host.mptcp == Some(Mptcp::Switch(false));
    !off(&scenario.defaults) && !scenario.host.iter().any(|(_, host)| off(host))
}
