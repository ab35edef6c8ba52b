//! Swarm testing: the whole world, faults included, is generated from a seed; safety is checked
//! while they
//! last; then the faults stop, and every flow must finish.
//!
//! It is an ordinary scenario, so that a seed that fails can be printed, edited and
//! run by itself. Policies come from the engine's tables: a new one is in the swarm at once.

mod coverage;
mod generate;

use crate::check::Check;
use crate::observe::{Observer, Observers, Silent};
use crate::result::{FlowResult, RunResult};
use crate::scenario::{Change, Mptcp, Scenario, SubflowChange};
use crate::world::{self, RunError};
use tabane_engine::Duration;
use tabane_engine::config::TcpConfig;
use tabane_engine::record::CloseReason;

pub use coverage::Coverage;
pub use generate::generate;

/// A node that sleeps longer is gone: no peer waits for it.
pub(crate) const LONGEST_SLEEP: Duration = Duration::from_secs(120);

/// What became of a world.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome {
    /// The seed that it was generated from.
    pub seed: u64,
    pub scenario: Scenario,
    /// The run, if it came to an end.
    pub result: Result<RunResult, RunError>,
    /// What must not be.
    pub violations: Vec<String>,
    /// Connections that did not end as they should: ends that disagree, what is left, what a peer
    /// that died or gave up left running.
    pub endings: Vec<String>,
}

impl Outcome {
    /// Whether everything was as it must be.
    pub fn passed(&self) -> bool {
        self.violations.is_empty() && self.endings.is_empty()
    }
}

/// Generates the world of `seed`, runs it and checks it.
pub fn replay(seed: u64, observer: &mut dyn Observer) -> Outcome {
    let scenario = generate(seed);
    let mut check = Check::new(&scenario);
    let result = run(&scenario, &mut Observers(vec![&mut check, observer]));
    let (mut violations, mut endings) = (Vec::new(), Vec::new());
    match &result {
        Err(error) => violations.push(error.to_string()),
        Ok(result) => {
            violations = check.violations(&scenario, result);
            let left = scenario.at.iter().any(|change| change.abort || dies(change));
            let unfinished = unfinished(&scenario, result);
            if left { &mut endings } else { &mut violations }.extend(unfinished);
            endings.extend(staying(&scenario, result));
            endings.extend(differing(&scenario, result));
        }
    }
    Outcome { seed, scenario, result, violations, endings }
}

/// Flows that did not finish although the network has been fine for long.
fn unfinished(scenario: &Scenario, result: &RunResult) -> Vec<String> {
    // Where subflows were taken away by hand, a connection may have lost its last one; where
    // somebody gave up or died, it has to fail.
    let harmed = |change: &Change| change.subflow.is_some() || change.abort || dies(change);
    let excused = scenario.at.iter().any(harmed);
    // A host that died with an attempt that had reached nobody, or before it knew that it was
    // accepted: its peer has no connection (any more) that could fail, and it says nothing itself.
    let never_established = scenario.at.iter().any(dies) && result.open.is_empty();
    let mut violations = Vec::new();
    for (n, flow) in result.flows.iter().enumerate() {
        let over = flow.completed_s.is_some() || (excused && flow.failed.is_some());
        if over || never_established || unanswered(scenario, n, flow) {
            continue;
        }
        let why = flow.failed.as_deref().unwrap_or("still running");
        let (name, bytes, end) = (&flow.name, flow.bytes, result.ended_s);
        violations.push(format!("flow {name} not finished at {end} s ({bytes} bytes): {why}"));
    }
    violations
}

/// Whether the last SYN of an attempt left before the last host that slept woke up: then it may be
/// given up (after 127 s), although the faults are over. Sleep alone goes on after the others.
fn unanswered(scenario: &Scenario, n: usize, flow: &FlowResult) -> bool {
    let tcp = TcpConfig::default();
    let last_syn = tcp.rto_initial * ((1 << tcp.syn_retries) - 1);
    let wakes = scenario.at.iter().filter_map(|c| Some(c.time.0 + c.asleep?.0));
    // Only one end is there: the other never heard of it.
    let timed_out = matches!(
        flow.closed,
        [Some(CloseReason::TimedOut), None] | [None, Some(CloseReason::TimedOut)]
    );
    let begun = scenario.flow.get(n).map_or(Duration::ZERO, |spec| spec.start.0);
    timed_out && flow.bytes == 0 && wakes.max().is_some_and(|wakes| wakes > begun + last_syn)
}

/// Connections that stay.
///
/// A reset by hand of a connection's only subflow ends it, and is said once: if that is lost, an
/// end that has nothing to send cannot know (RFC 9293 section 3.5.1), and stays for ever, here as
/// in Linux, unless it has keepalive (section 3.8.4). That nothing else keeps it is seen in the
/// same world with keepalive, where nothing may stay.
fn staying(scenario: &Scenario, result: &RunResult) -> Vec<String> {
    let endings = |result: &RunResult| -> Vec<String> {
        let end = result.ended_s;
        let open = result.open.iter();
        open.map(|(node, count)| format!("{count} connections left at {node} after {end} s"))
            .collect()
    };
    let reset = scenario.at.iter().any(|c| c.subflow == Some(SubflowChange::Reset));
    let failed = result.flows.iter().any(|flow| flow.failed.is_some());
    let excused = reset && failed && scenario.defaults.tcp.keepalive.is_none();
    if result.open.is_empty() || !excused {
        return endings(result);
    }
    let mut scenario = scenario.clone();
    generate::find_out(&mut scenario);
    run(&scenario, &mut Silent).map_or_else(|e| vec![e.to_string()], |again| endings(&again))
}

fn run(scenario: &Scenario, observer: &mut dyn Observer) -> Result<RunResult, RunError> {
    world::run(&scenario.compile()?, observer)
}

/// Ends that do not agree on how their connection closed.
fn differing(scenario: &Scenario, result: &RunResult) -> Vec<String> {
    let mut violations = Vec::new();
    let died = scenario.at.iter().any(dies);
    let harmed = scenario.at.iter().any(|change| change.abort || change.subflow.is_some());
    for flow in result.flows.iter().filter(|_| !died) {
        let fine = |end: Option<CloseReason>| end == Some(CloseReason::Finished);
        let [source, sink] = flow.closed.map(fine);
        // Given up in the middle, one end may have everything already.
        let agree = if harmed { flow.completed_s.is_some() || !sink } else { source && sink };
        if flow.failed.is_none() && !agree {
            violations.push(format!("flow {} closed differently: {:?}", flow.name, flow.closed));
        }
    }
    violations
}

/// Whether a node is gone for good.
fn dies(change: &Change) -> bool {
    change.asleep.is_some_and(|asleep| asleep.0 > LONGEST_SLEEP)
}

/// Whether both ends of every connection may use MPTCP.
fn is_multipath(scenario: &Scenario) -> bool {
    let off = |host: &crate::scenario::Host| host.mptcp == Some(Mptcp::Switch(false));
    !off(&scenario.defaults) && !scenario.host.iter().any(|(_, host)| off(host))
}
