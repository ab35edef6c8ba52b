//! Environments for reinforcement learning: worlds that wait at each decision for an action.
//!
//! A world runs in a coroutine (`session.rs`); the policy called `agent` (`agent.rs`) hands out
//! what it sees, and goes on with the action that comes back. A batch of worlds (`batch.rs`) stays
//! on one thread; [`Envs`] has one batch on the caller's thread, or one on each of several.

mod agent;
mod batch;
mod session;

use crate::error;
use crate::scenario::Plan;
use batch::{Batch, Steps};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

pub(crate) use agent::register;

/// Which decisions are asked for.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Kind {
    /// Which subflow carries data; observations have so many subflows.
    Scheduler { subflows: usize },
    /// What becomes of the window, after every so many acknowledgements.
    Congestion { every: u32, loss_weight: f64, delay_weight: f64 },
}

/// What a batch is told.
enum Command {
    Reset(Option<u64>),
    Step(Vec<i64>),
}

/// A batch on a thread of its own.
struct Worker {
    /// Dropped to end it.
    commands: Option<Sender<Command>>,
    answers: Receiver<Result<Steps, String>>,
    thread: Option<JoinHandle<()>>,
    size: usize,
}

enum Where {
    Here(Box<Batch>),
    Threads(Vec<Worker>),
}

/// Environments, stepped together.
#[pyclass(unsendable, module = "tabane._native")]
pub(crate) struct Envs {
    place: Where,
    width: usize,
}

/// Observations, rewards, flags (1: terminated, 2: truncated) and times of all, as bytes.
type Stepped<'py> =
    (Bound<'py, PyBytes>, Bound<'py, PyBytes>, Bound<'py, PyBytes>, Bound<'py, PyBytes>);

#[pymethods]
impl Envs {
    /// So many schedulers over the plans, on so many threads (0: the caller's).
    #[staticmethod]
    fn schedulers(
        plans: Vec<PyRef<'_, Plan>>,
        count: usize,
        threads: usize,
        subflows: usize,
    ) -> Self {
        Self::new(Kind::Scheduler { subflows }, &plans, count, threads)
    }

    /// So many congestion controllers, likewise.
    #[staticmethod]
    fn controllers(
        plans: Vec<PyRef<'_, Plan>>,
        count: usize,
        threads: usize,
        every: u32,
        loss_weight: f64,
        delay_weight: f64,
    ) -> Self {
        let kind = Kind::Congestion { every: every.max(1), loss_weight, delay_weight };
        Self::new(kind, &plans, count, threads)
    }

    /// Numbers of one observation.
    #[getter]
    fn width(&self) -> usize {
        self.width
    }

    /// New episodes everywhere. With a seed the first ones of that seed, without the next ones.
    fn reset<'py>(&mut self, py: Python<'py>, seed: Option<u64>) -> PyResult<Stepped<'py>> {
        self.all(py, |_, _| Command::Reset(seed))
    }

    /// Goes to the next decision of each; who was at the end begins the next episode.
    fn step<'py>(&mut self, py: Python<'py>, actions: &[u8]) -> PyResult<Stepped<'py>> {
        let (numbers, _) = actions.as_chunks::<8>();
        let actions: Vec<i64> = numbers.iter().map(|n| i64::from_le_bytes(*n)).collect();
        self.all(py, |from, size| {
            Command::Step(actions.iter().skip(from).take(size).copied().collect())
        })
    }
}

impl Envs {
    fn new(kind: Kind, plans: &[PyRef<'_, Plan>], count: usize, threads: usize) -> Self {
        let plans: Vec<tabane_sim::Plan> = plans.iter().map(|plan| plan.plan.clone()).collect();
        let width = kind.width();
        if threads == 0 {
            let place = Where::Here(Box::new(Batch::new(kind, plans, 0..count, count)));
            return Self { place, width };
        }
        let threads = threads.min(count.max(1));
        let worker = |n: usize| {
            let range = n * count / threads..(n + 1) * count / threads;
            Worker::new(kind, plans.clone(), range, count)
        };
        Self { place: Where::Threads((0..threads).map(worker).collect()), width }
    }

    /// Gives each batch its command and collects the answers.
    fn all<'py>(
        &mut self,
        py: Python<'py>,
        command: impl Fn(usize, usize) -> Command,
    ) -> PyResult<Stepped<'py>> {
        let steps = match &mut self.place {
            Where::Here(batch) => {
                let size = batch.len();
                batch.obey(command(0, size))
            }
            Where::Threads(workers) => {
                let mut from = 0;
                for worker in workers.iter() {
                    worker.send(command(from, worker.size));
                    from += worker.size;
                }
                py.detach(|| {
                    let mut all = Steps::default();
                    // Every answer is taken, so that the next ones are those of the next command.
                    let answers: Vec<_> = workers.iter_mut().map(Worker::answer).collect();
                    answers
                        .into_iter()
                        .try_for_each(|steps| steps.map(|steps| all.append(steps)))?;
                    Ok(all)
                })
            }
        };
        let steps = steps.map_err(|message: String| error::failed(py, &message))?;
        Ok((
            PyBytes::new(py, &bytes(&steps.observations, |x| x.to_le_bytes())),
            PyBytes::new(py, &bytes(&steps.rewards, |x| x.to_le_bytes())),
            PyBytes::new(py, &steps.flags),
            PyBytes::new(py, &bytes(&steps.times, |x| x.to_le_bytes())),
        ))
    }
}

fn bytes<T: Copy, const N: usize>(values: &[T], of: impl Fn(T) -> [u8; N]) -> Vec<u8> {
    values.iter().flat_map(|value| of(*value)).collect()
}

impl Worker {
    fn new(
        kind: Kind,
        plans: Vec<tabane_sim::Plan>,
        range: std::ops::Range<usize>,
        count: usize,
    ) -> Self {
        let (commands, orders) = channel();
        let (reports, answers) = channel();
        let size = range.len();
        let work = move || {
            let mut batch = Batch::new(kind, plans, range, count);
            while let Ok(command) = orders.recv() {
                if reports.send(batch.obey(command)).is_err() {
                    return;
                }
            }
        };
        let thread = Some(std::thread::spawn(work));
        Self { commands: Some(commands), answers, thread, size }
    }

    fn send(&self, command: Command) {
        // A thread that is gone has no answer either, and that is told.
        let _ = self.commands.as_ref().map(|commands| commands.send(command));
    }

    fn answer(&mut self) -> Result<Steps, String> {
        self.answers.recv().unwrap_or_else(|_| Err("a thread of environments is gone".to_owned()))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.commands = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
