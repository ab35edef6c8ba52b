//! Worlds that are stepped together. The seed of an episode follows from the first one's, the
//! number of the world and that of the episode; which plan it is follows from its seed, so that a
//! world goes through them in turn, and another seed begins elsewhere.

use super::session::{Question, Session, Stand};
use super::{Command, Kind};
use crate::error;
use crate::policy::Failure;
use pyo3::{PyErr, Python};
use std::ops::Range;

/// Worlds number `from..to` of `count`.
pub(super) struct Batch {
    kind: Kind,
    plans: Vec<tabane_sim::Plan>,
    count: usize,
    seed: u64,
    slots: Vec<Slot>,
}

/// A world, and the episode that it is in.
struct Slot {
    number: usize,
    episode: u64,
    /// None after the end of an episode.
    session: Option<Session>,
    last: Vec<f32>,
    last_time: f64,
}

/// What came of a step: a row a world.
#[derive(Default)]
pub(super) struct Steps {
    pub(super) observations: Vec<f32>,
    pub(super) rewards: Vec<f64>,
    pub(super) flags: Vec<u8>,
    pub(super) times: Vec<f64>,
}

/// Why a step came to nothing.
pub(super) enum Fault {
    Message(String),
    /// A policy of Python's in a world raised.
    Raised(Failure),
}

impl Fault {
    pub(super) fn into_error(self, py: Python<'_>) -> PyErr {
        match self {
            Self::Message(message) => error::failed(py, &message),
            Self::Raised(failure) => failure.into_error(py),
        }
    }
}

impl From<String> for Fault {
    fn from(message: String) -> Self {
        Self::Message(message)
    }
}

pub(super) const TERMINATED: u8 = 1;
pub(super) const TRUNCATED: u8 = 2;

impl Steps {
    pub(super) fn append(&mut self, mut other: Self) {
        self.observations.append(&mut other.observations);
        self.rewards.append(&mut other.rewards);
        self.flags.append(&mut other.flags);
        self.times.append(&mut other.times);
    }
}

impl Batch {
    pub(super) fn new(
        kind: Kind,
        plans: Vec<tabane_sim::Plan>,
        range: Range<usize>,
        count: usize,
    ) -> Self {
        let slot = |number| Slot {
            number,
            episode: 0,
            session: None,
            last: vec![0.0; kind.width()],
            last_time: 0.0,
        };
        Self { kind, plans, count, seed: 1, slots: range.map(slot).collect() }
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Does what it is told.
    pub(super) fn obey(&mut self, command: Command) -> Result<Steps, Fault> {
        let mut steps = Steps::default();
        let (fresh, actions) = match command {
            Command::Reset(seed) => {
                self.seed = seed.unwrap_or(self.seed);
                for slot in &mut self.slots {
                    slot.episode = if seed.is_some() { 0 } else { slot.episode };
                    slot.session = None;
                }
                (true, vec![0; self.slots.len()])
            }
            Command::Step(actions) => (false, actions),
        };
        if actions.len() != self.slots.len() {
            let message = format!("{} actions for {} worlds", actions.len(), self.slots.len());
            return Err(message.into());
        }
        for (n, action) in actions.into_iter().enumerate() {
            let resumed = match &mut self.slots[n].session {
                Some(session) if !fresh => Some(session.resume(action)),
                _ => None,
            };
            match resumed {
                Some(stand) => self.note(n, stand, &mut steps)?,
                None => self.begin(n, &mut steps)?,
            }
        }
        Ok(steps)
    }

    /// Begins the next episode of a world; one that asks nothing is passed over.
    fn begin(&mut self, n: usize, steps: &mut Steps) -> Result<(), Fault> {
        for _ in 0..self.plans.len().max(8) {
            if self.begins(n, steps)? {
                return Ok(());
            }
        }
        let message = "every scenario ended without a decision of the agent's: has it two paths?";
        Err(message.to_owned().into())
    }

    /// Tries it; whether there is a decision in it.
    fn begins(&mut self, n: usize, steps: &mut Steps) -> Result<bool, Fault> {
        let slot = &mut self.slots[n];
        let turn = slot.number as u64 + slot.episode * self.count as u64;
        let seed = self.seed.wrapping_add(turn);
        let plan = &self.plans[(seed % self.plans.len() as u64) as usize];
        let plan = plan.with_seed(seed).map_err(|fault| fault.message)?;
        slot.episode += 1;
        let name = plan.scenario.name.clone();
        let mut session = Session::new(self.kind, plan)
            .map_err(|error| format!("no stack for a world: {error}: make fewer environments"))?;
        match session.resume(0) {
            Stand::Asks(question) => {
                slot.session = Some(session);
                slot.note(Question { reward: 0.0, ..question }, steps);
                Ok(true)
            }
            Stand::Over { .. } => Ok(false),
            Stand::Failed(error) => Err(format!("'{name}': {error}").into()),
            Stand::Raised(failure) => Err(Fault::Raised(failure)),
        }
    }

    fn note(&mut self, n: usize, stand: Stand, steps: &mut Steps) -> Result<(), Fault> {
        let slot = &mut self.slots[n];
        match stand {
            Stand::Asks(question) => slot.note(question, steps),
            Stand::Over { terminated, reward, time } => {
                slot.session = None;
                slot.last_time = time;
                slot.write(reward, if terminated { TERMINATED } else { TRUNCATED }, steps);
            }
            Stand::Failed(error) => {
                slot.session = None;
                return Err(error.to_string().into());
            }
            Stand::Raised(failure) => {
                slot.session = None;
                return Err(Fault::Raised(failure));
            }
        }
        Ok(())
    }
}

impl Slot {
    fn note(&mut self, question: Question, steps: &mut Steps) {
        self.last = question.observation;
        self.last_time = question.time;
        self.write(question.reward, 0, steps);
    }

    fn write(&self, reward: f64, flags: u8, steps: &mut Steps) {
        steps.observations.extend_from_slice(&self.last);
        steps.rewards.push(reward);
        steps.flags.push(flags);
        steps.times.push(self.last_time);
    }
}
