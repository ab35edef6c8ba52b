//! One run of `tabane sim run`: who watches it, what is printed and written.

use super::files::{self, Folder};
use super::measure::measured;
use super::table;
use super::watch::{Outputs, Watchers};
use crate::cost::Scope;
use crate::exit::Failure;
use crate::say;
use anyhow::anyhow;
use serde::Serialize;
use std::borrow::Cow;
use tabane_sim::Plan;
use tabane_sim::output::info;
use tabane_sim::result::RunResult;
use tabane_sim::scenario::Scenario;
use tabane_trace::{Report, RunInfo};

/// Runs a scenario and gives out what is asked for.
pub(in crate::cmd) fn run(outputs: &Outputs, plan: &Plan) -> Result<(), Failure> {
    let info = info(&plan.scenario, &[]);
    let mut folder = outputs.out.as_deref().map(Folder::create).transpose()?;
    let mut watchers = Watchers::new(outputs, plan, &info, folder.as_mut())?;
    say::detail(&format!("running {}", info.caption()));
    let result = measured(Scope::Process, || tabane_sim::run(plan, &mut watchers.all()))
        .map_err(|e| anyhow!(e).context(info.scenario.clone()))?;
    let report = watchers.finish()?;
    give_out(outputs, folder, &plan.source, &info, &result, &result, &report)?;
    note_cost(outputs, &result);
    Ok(complain(&result)?)
}

/// A result with all that is known about it.
pub(in crate::cmd) trait Document: Serialize + Clone {
    /// What is written to a file: of a run that can be repeated the same bytes each time.
    fn stored(&self) -> Cow<'_, Self>;
}

impl Document for RunResult {
    fn stored(&self) -> Cow<'_, Self> {
        Cow::Owned(self.reproducible())
    }
}

/// Writes files and prints, as asked; `document` is the result with all that is known about it.
pub(in crate::cmd) fn give_out(
    outputs: &Outputs,
    folder: Option<Folder>,
    scenario: &Scenario,
    info: &RunInfo,
    result: &RunResult,
    document: &impl Document,
    report: &Report,
) -> Result<(), Failure> {
    let mut written = None;
    if let Some(mut folder) = folder {
        files::write_run(&mut folder, scenario, info, result, report)?;
        folder.write_json("result.json", &*document.stored())?;
        written = Some(folder.summary());
    }
    if outputs.json {
        say::print(&serde_json::to_string(document).map_err(|e| anyhow!(e))?)?;
    } else {
        print(info, result, report)?;
    }
    report.reasons.iter().for_each(|reason| say::detail(reason));
    written.iter().for_each(|files| say::note(files));
    Ok(())
}

/// Human-readable: a caption and a table.
fn print(info: &RunInfo, result: &RunResult, report: &Report) -> Result<(), Failure> {
    say::print(&info.caption())?;
    say::print(&table::flows(result, report).to_string())
}

/// What a run in simulated time took.
pub(in crate::cmd) fn note_cost(outputs: &Outputs, result: &RunResult) {
    if !outputs.json {
        let user = result.cost.user_s.unwrap_or(0.0);
        let cost = format!("{:.3} s of simulated time in {user:.3} s of user time", result.ended_s);
        say::note(&format!("{cost}, {} packet-hops", result.cost.packet_hops));
    }
}

/// A flow that got wrong bytes is a failure of the run.
pub(in crate::cmd) fn complain(result: &RunResult) -> anyhow::Result<()> {
    for flow in &result.flows {
        if let Some(at) = flow.corrupt_at {
            return Err(anyhow!("flow '{}' delivered a wrong byte at {at}", flow.name));
        }
    }
    Ok(())
}
