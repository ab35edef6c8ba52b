//! The world on the stage: made from a scenario file, moved, changed, looked at, ended.

use crate::changes;
use crate::describe::{self, About};
use crate::dots;
use crate::status::{self, Status};
use crate::watch::{Watch, Watcher};
use self_cell::{MutBorrow, self_cell};
use std::cell::RefCell;
use std::rc::Rc;
use tabane_engine::{Duration, Instant};
use tabane_sim::result::RunResult;
use tabane_sim::scenario::{Change, Document, Fault, Scenario, ScenarioError};
use tabane_sim::{Plan, RunError, World};
use thiserror::Error;

/// A run that is under way.
pub struct Play {
    stage: Stage,
    plan: Plan,
    watch: Rc<RefCell<Watch>>,
    /// The scenario as it was given, and what has been changed by hand since.
    scenario: Scenario,
    changed: Vec<Change>,
}

/// Why a scenario does not run, or a change is not done.
#[derive(Error, Debug)]
pub enum PlayError {
    /// The file is wrong.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// It holds several runs, and the page shows one.
    #[error("this is a sweep of {0} runs: give each key one value")]
    Sweep(usize),
    /// It has tunnels, whose packets the page cannot show.
    #[error("the page draws no tunnels: run the scenario with tabane sim run, or take '{0}' out")]
    Tunnel(String),
    /// A change that cannot be.
    #[error("{}", .0.message)]
    Change(Fault),
    /// It is not written as a change.
    #[error("not a change: {0}")]
    Words(#[from] serde_json::Error),
    /// The run cannot go on.
    #[error(transparent)]
    Run(#[from] RunError),
}

struct Owner {
    plan: Plan,
    watcher: Watcher,
}

/// Taken when it is ended.
type Slot<'a> = Option<World<'a>>;

self_cell!(
    struct Stage {
        owner: MutBorrow<Owner>,
        #[not_covariant]
        dependent: Slot,
    }
);

/// Events between two looks at the caller's clock: a few milliseconds.
const BATCH: u32 = 20_000;

impl Play {
    /// Makes the world of a scenario file, with values changed as by `--set KEY=VALUE`.
    ///
    /// # Errors
    /// [`PlayError`]: the file is wrong, or is a sweep.
    pub fn new(name: &str, text: &str, sets: &[String]) -> Result<Self, PlayError> {
        let document = Document::parse(name, text, sets)?;
        let mut variants = document.variants()?;
        if variants.len() != 1 {
            return Err(PlayError::Sweep(variants.len()));
        }
        Self::of(variants.remove(0).plan)
    }

    fn of(plan: Plan) -> Result<Self, PlayError> {
        if let Some(name) = plan.scenario.tunnel.names().next() {
            return Err(PlayError::Tunnel(name.to_owned()));
        }
        let watch = Rc::new(RefCell::new(Watch::default()));
        let watcher = Watcher(watch.clone());
        let owner = MutBorrow::new(Owner { plan: plan.clone(), watcher });
        let stage = Stage::try_new(owner, |owner| {
            let Owner { plan, watcher } = owner.borrow_mut();
            World::new(plan, watcher).map(Some)
        })?;
        let scenario = Scenario::clone(&plan.scenario);
        let (topology, names) = (plan.topology.clone(), watch.clone());
        let mut play = Self { stage, plan, watch, scenario, changed: Vec::new() };
        play.world(|world| {
            names.borrow_mut().prepare(&topology, world.layout());
            world.begin();
        });
        Ok(play)
    }

    /// Lets happen what happens up to a time, in nanoseconds of the run, or a few thousand events,
    /// whichever is less. Whether there is more to come up to that time.
    ///
    /// # Errors
    /// [`PlayError::Run`].
    pub fn advance(&mut self, until: u64) -> Result<bool, PlayError> {
        let more = self.world(|world| world.advance(Instant(until), BATCH));
        Ok(more.transpose()?.unwrap_or(false))
    }

    /// How far the run has come, nanoseconds.
    pub fn now(&mut self) -> u64 {
        self.world(|world| world.now().0).unwrap_or(0)
    }

    /// Whether the run has come to its end.
    pub fn is_over(&mut self) -> bool {
        self.world(|world| world.is_over()).unwrap_or(true)
    }

    /// Packets times link directions crossed, so far.
    pub fn packet_hops(&mut self) -> u64 {
        self.world(|world| world.packet_hops()).unwrap_or(0)
    }

    /// Does a change, given as JSON with the keys of `[[at]]` but for `time`, now. False if the run
    /// is over.
    ///
    /// # Errors
    /// [`PlayError`]: it is no sound change of this scenario, or the run cannot go on.
    pub fn change(&mut self, json: &str) -> Result<bool, PlayError> {
        let change: Change = serde_json::from_str(json)?;
        let trial = Scenario { at: vec![change.clone()], ..self.scenario.clone() };
        trial.compile().map_err(PlayError::Change)?;
        let done = self.world(|world| world.change_now(&change)).transpose()?.flatten();
        let Some(at) = done else { return Ok(false) };
        let time = tabane_config::quantity::Time(at - Instant::ZERO);
        self.changed.push(Change { time, ..change });
        Ok(true)
    }

    /// Gives every host that follows the file's `[defaults]` another policy, now: `scheduler`,
    /// `congestion` or `egress`. False if the run is over.
    ///
    /// # Errors
    /// [`PlayError`]: there is no such policy, or the run cannot go on.
    pub fn set_policy(&mut self, kind: &str, policy: &str) -> Result<bool, PlayError> {
        let mut done = false;
        for json in changes::of_policy(&self.plan, kind, policy) {
            done |= self.change(&json)?;
        }
        Ok(done)
    }

    /// The run as a scenario file: that which was given, with the changes by hand at their times.
    pub fn toml(&self) -> String {
        let mut scenario = self.scenario.clone();
        scenario.at.extend(self.changed.iter().cloned());
        scenario.to_toml()
    }

    /// What there is to be shown and set.
    pub fn about(&mut self) -> About {
        let links = self.world(|world| describe::links(world)).unwrap_or_default();
        describe::about(&self.plan, &self.watch.borrow(), links)
    }

    /// The figures of this moment: the time in seconds, then for each series of [`Play::about`]
    /// bytes delivered, window and bytes in flight (means over its subflows) and round trip in
    /// seconds, then for each link direction bytes queued, bytes delivered, packets lost. What is
    /// not known is NaN.
    pub fn sample(&mut self) -> Vec<f64> {
        self.world(|world| world.show());
        let now = self.now() as f64 / 1e9;
        self.watch.borrow().row(now)
    }

    /// What each link and subflow does, and why some do not, over the decisions since they were
    /// last counted anew, which `anew` asks for after this.
    pub fn status(&mut self, anew: bool) -> Status {
        let ups = self.world(|world| status::ups(world)).unwrap_or_default();
        status::status(&self.plan, &mut self.watch.borrow_mut(), &ups, anew)
    }

    /// Packets that are under way now, at most so many: five numbers each (`dots.rs`).
    pub fn dots(&mut self, most: usize) -> Vec<f32> {
        let watch = self.watch.clone();
        self.world(|world| dots::dots(world, &watch.borrow(), most)).unwrap_or_default()
    }

    /// Ends the run here: its result as `tabane sim run --json` prints it, or nothing if it has
    /// been ended before.
    ///
    /// # Errors
    /// None that is known: results have a JSON form.
    pub fn finish(&mut self) -> Result<Option<String>, PlayError> {
        let result = self.stage.with_dependent_mut(|_, slot| slot.take().map(World::finish));
        Ok(result.map(|result: RunResult| serde_json::to_string(&result)).transpose()?)
    }

    /// The time at which it ends at the latest.
    pub fn duration(&self) -> Duration {
        self.scenario.duration.0
    }

    /// What the world says, while it is there.
    fn world<R>(&mut self, ask: impl FnOnce(&mut World<'_>) -> R) -> Option<R> {
        self.stage.with_dependent_mut(|_, slot| slot.as_mut().map(ask))
    }
}
