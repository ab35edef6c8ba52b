//! What a paper's module gets to work with: how thorough to be, seeds, and runs on all cores in
//! an order that does not depend on which finished first.

use crate::PaperError;
use tabane_sim::observe::{Observer, Silent};
use tabane_sim::result::{FlowResult, RunResult};
use tabane_sim::scenario::{Document, Scenario};
use tabane_sim::{Plan, sweep};
use tabane_trace::{Collector, Report, Settings};

/// How a paper is to be repeated.
pub struct Context<'a> {
    /// A minute for all papers together instead of ten: fewer points and repetitions.
    pub quick: bool,
    pub jobs: usize,
    /// Everything random comes from it.
    pub seed: u64,
    /// What changes the experiment.
    pub options: Options,
    progress: &'a (dyn Fn(Progress<'_>) + Sync),
}

/// What changes the experiment; by default it is the published one.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Options {
    /// `proxies` only: find the best place for a proxy.
    pub place: bool,
    /// Laid over the scenario of every run, each `key.path=value`, as `tabane sim run` takes them.
    pub sets: Vec<String>,
}

/// How far a stage has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress<'a> {
    /// What is being run.
    pub stage: &'a str,
    /// Runs done.
    pub done: usize,
    /// Runs of the stage.
    pub of: usize,
}

/// One run to be made.
#[derive(Clone, Debug)]
pub struct Job {
    /// Its name, for messages.
    pub name: String,
    pub plan: Plan,
}

/// The one run that a scenario is with these values laid over it.
fn single(file: &str, text: &str, sets: &[String]) -> Result<Plan, PaperError> {
    let document = Document::parse(file, text, sets)?;
    let mut variants = document.variants()?;
    if variants.len() != 1 {
        let axes: Vec<String> = document.axes().into_iter().map(|axis| axis.key).collect();
        let (runs, axes) = (variants.len(), axes.join(", "));
        return Err(PaperError::Sweep { what: format!("{file} {}", sets.join(" ")), runs, axes });
    }
    Ok(variants.remove(0).plan)
}

impl Job {
    /// A scenario (`file` is its name in messages, `text` what it says) with values laid over it,
    /// as `tabane sim run FILE --set KEY=VALUE` does. Every list must be fixed by them.
    ///
    /// # Errors
    /// [`PaperError::Scenario`], [`PaperError::Sweep`].
    pub fn new(file: &str, text: &str, sets: &[(&str, &str)]) -> Result<Self, PaperError> {
        let values = sets.iter().map(|(key, value)| format!("{key}={value}"));
        let values: Vec<String> = values.collect();
        let name = format!("{file} {}", values.join(" "));
        Ok(Self { plan: single(file, text, &values)?, name })
    }

    /// The same with a change that files cannot express.
    ///
    /// # Errors
    /// [`PaperError::Run`] if it cannot be run any more.
    pub fn with(self, change: impl FnOnce(&mut Scenario)) -> Result<Self, PaperError> {
        let mut scenario = Scenario::clone(&self.plan.scenario);
        change(&mut scenario);
        match scenario.compile() {
            Ok(plan) => Ok(Self { plan, ..self }),
            Err(fault) => Err(PaperError::Run { what: self.name, error: fault.into() }),
        }
    }

    /// Runs it under the eyes of `observer`, with what the context lays over every run.
    ///
    /// # Errors
    /// [`PaperError::Run`]; [`PaperError::Scenario`] and [`PaperError::Sweep`] of what is laid
    /// over it.
    pub fn run(
        &self,
        context: &Context<'_>,
        observer: &mut dyn Observer,
    ) -> Result<RunResult, PaperError> {
        let what = || self.name.clone();
        let sets = &context.options.sets;
        let changed = match sets.is_empty() {
            true => None,
            false => Some(single(&self.name, &self.plan.scenario.to_toml(), sets)?),
        };
        tabane_sim::run(changed.as_ref().unwrap_or(&self.plan), observer)
            .map_err(|error| PaperError::Run { what: what(), error })
    }

    /// When the flow called `flow` had delivered everything, seconds from its start.
    ///
    /// # Errors
    /// [`PaperError::Unfinished`] if it had not, or there is none.
    pub fn completed(&self, result: &RunResult, flow: &str) -> Result<f64, PaperError> {
        let found = result.flows.iter().find(|f| f.name == flow);
        let why = |found: &FlowResult| {
            let ended = format!("{} bytes by the end, {} s", found.bytes, result.ended_s);
            found.failed.clone().unwrap_or(ended)
        };
        found.and_then(|f| f.completed_s).ok_or_else(|| PaperError::Unfinished {
            what: self.name.clone(),
            flow: flow.to_owned(),
            why: found.map_or_else(|| "there is no such flow".to_owned(), why),
        })
    }
}

impl<'a> Context<'a> {
    /// Full length, one thread, seed 1, and `progress` told of every run that is done.
    pub fn new(progress: &'a (dyn Fn(Progress<'_>) + Sync)) -> Self {
        Self { quick: false, jobs: 1, seed: 1, options: Options::default(), progress }
    }

    /// The first where quickness is asked for, else the second.
    pub fn pick<T>(&self, quick: T, full: T) -> T {
        if self.quick { quick } else { full }
    }

    /// Seeds of `n` repetitions: that of the context and those after it.
    pub fn seeds(&self, n: u64) -> Vec<u64> {
        (0..n).map(|i| self.seed.wrapping_add(i)).collect()
    }

    /// Does `job` for every item on all threads; results in the order of the items.
    ///
    /// # Errors
    /// That of the first item that failed.
    pub fn each<I: Sync, T: Send>(
        &self,
        stage: &str,
        items: &[I],
        job: impl Fn(&I) -> Result<T, PaperError> + Sync,
    ) -> Result<Vec<T>, PaperError> {
        let progress = |done, of| (self.progress)(Progress { stage, done, of });
        progress(0, items.len());
        sweep::each_on(self.jobs, items, job, progress).into_iter().collect()
    }

    /// Runs them with nobody watching.
    ///
    /// # Errors
    /// [`PaperError::Run`].
    pub fn run(&self, stage: &str, jobs: &[Job]) -> Result<Vec<RunResult>, PaperError> {
        self.each(stage, jobs, |job| job.run(self, &mut Silent))
    }

    /// Runs them, each watched by a collector.
    ///
    /// # Errors
    /// [`PaperError::Run`].
    pub fn watch(
        &self,
        stage: &str,
        jobs: &[Job],
        settings: Settings,
    ) -> Result<Vec<(RunResult, Report)>, PaperError> {
        self.each(stage, jobs, |job| {
            let mut collector = Collector::new(settings);
            let result = job.run(self, &mut collector)?;
            Ok((result, collector.report()))
        })
    }
}
