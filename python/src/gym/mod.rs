//! Environments for reinforcement learning: worlds that wait at each decision for an action.
//!
//! A world runs in a coroutine (`session.rs`); the policy called `agent` (`agent.rs`) hands out
//! what it sees, and goes on with the action that comes back. [`Envs`] has one batch of worlds
//! (`batch.rs`) on whichever thread calls, or one on each of several of its own.

mod agent;
mod batch;
mod session;

use crate::scenario::Plan;
use crate::{error, policy};
use batch::{Batch, Fault, Steps};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError, TryLockError};
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
    answers: Receiver<Result<Steps, Fault>>,
    thread: Option<JoinHandle<()>>,
    size: usize,
}

enum Where {
    Here(Box<Batch>),
    Threads(Vec<Worker>),
}

/// Environments, stepped together: by any thread, by one at a time.
#[pyclass(frozen, module = "tabane._native")]
pub(crate) struct Envs {
    /// Nothing after `close`.
    place: Mutex<Option<Where>>,
    width: usize,
    /// The process that made it, and has its threads.
    process: u32,
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
    fn reset<'py>(&self, py: Python<'py>, seed: Option<u64>) -> PyResult<Stepped<'py>> {
        self.all(py, |_, _| Command::Reset(seed))
    }

    /// Goes to the next decision of each; who was at the end begins the next episode.
    fn step<'py>(&self, py: Python<'py>, actions: &[u8]) -> PyResult<Stepped<'py>> {
        let (numbers, _) = actions.as_chunks::<8>();
        let actions: Vec<i64> = numbers.iter().map(|n| i64::from_le_bytes(*n)).collect();
        self.all(py, |from, size| {
            Command::Step(actions.iter().skip(from).take(size).copied().collect())
        })
    }

    /// Ends the worlds and the threads; a second time does nothing.
    fn close(&self, py: Python<'_>) {
        py.detach(|| {
            let mut place = self.place.lock().unwrap_or_else(PoisonError::into_inner);
            self.end(place.take());
        });
    }
}

impl Envs {
    fn new(kind: Kind, plans: &[PyRef<'_, Plan>], count: usize, threads: usize) -> Self {
        let plans: Vec<tabane_sim::Plan> = plans.iter().map(|plan| plan.plan.clone()).collect();
        let width = kind.width();
        if threads == 0 {
            return Self::at(
                Where::Here(Box::new(Batch::new(kind, plans, 0..count, count))),
                width,
            );
        }
        let threads = threads.min(count.max(1));
        let worker = |n: usize| {
            let range = n * count / threads..(n + 1) * count / threads;
            Worker::new(kind, plans.clone(), range, count)
        };
        Self::at(Where::Threads((0..threads).map(worker).collect()), width)
    }

    fn at(place: Where, width: usize) -> Self {
        Self { place: Mutex::new(Some(place)), width, process: std::process::id() }
    }

    fn is_forked(&self) -> bool {
        std::process::id() != self.process
    }

    /// Waits for the threads. A forked process does not have those that it would wait for.
    fn end(&self, place: Option<Where>) {
        if let Some(Where::Threads(workers)) = place
            && self.is_forked()
        {
            std::mem::forget(workers);
        }
    }

    /// Gives each batch its command and collects the answers.
    fn all<'py>(
        &self,
        py: Python<'py>,
        command: impl Fn(usize, usize) -> Command,
    ) -> PyResult<Stepped<'py>> {
        let mut place = match self.place.try_lock() {
            Ok(place) => place,
            Err(TryLockError::Poisoned(place)) => place.into_inner(),
            Err(TryLockError::WouldBlock) => {
                let busy = "another thread is stepping it: one at a time, or one for each thread";
                return Err(error::failed(py, busy));
            }
        };
        let steps = match place.as_mut() {
            None => return Err(error::failed(py, "the environment is closed: make another")),
            Some(Where::Here(batch)) => {
                let size = batch.len();
                let command = command(0, size);
                // A step of one world takes microseconds. To wait for the interpreter after each,
                // while other threads use it, would take thousands of times as long.
                match (&command, size) {
                    (Command::Step(_), 1) => batch.obey(command),
                    _ => py.detach(|| batch.obey(command)),
                }
            }
            Some(Where::Threads(_)) if self.is_forked() => {
                let message = "its threads did not come along into this forked process: \
                               make the environment here, or with threads=0";
                return Err(error::failed(py, message));
            }
            Some(Where::Threads(workers)) => {
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
        let steps = steps.map_err(|fault: Fault| fault.into_error(py))?;
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
                if reports.send(policy::on_thread(|| batch.obey(command))).is_err() {
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

    fn answer(&mut self) -> Result<Steps, Fault> {
        self.answers
            .recv()
            .unwrap_or_else(|_| Err("a thread of environments is gone".to_owned().into()))
    }
}

impl Drop for Envs {
    fn drop(&mut self) {
        let place = self.place.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        self.end(place);
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
