//! Environments for reinforcement learning: worlds that wait at each decision for an action.
//!
//! A world runs in a coroutine (`session.rs`); the policy called `agent` (`agent.rs`) hands out
//! what it sees, and goes on with the action that comes back. [`Envs`] has one batch of worlds
//! (`batch.rs`) on whichever thread calls, or one on each of several of its own.

mod agent;
mod batch;
mod session;

use crate::error;
use crate::policy::{self, PATIENCE, STACK};
use crate::scenario::Plan;
use batch::{Batch, Fault, Steps, TERMINATED, TRUNCATED};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::{self, JoinHandle};

pub(crate) use agent::register;
pub(crate) use session::Outer;

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

struct Worlds {
    place: Where,
    /// Whether there are episodes to go on with: not before the first, nor after a fault, which
    /// may have left some worlds a step behind.
    begun: bool,
}

/// Environments, stepped together: by any thread, by one at a time.
#[pyclass(frozen, module = "tabane._native")]
pub(crate) struct Envs {
    /// Nothing after `close`.
    worlds: Mutex<Option<Worlds>>,
    width: usize,
    /// Set when its threads are to leave what they do: they wait for no signals.
    stop: Arc<AtomicBool>,
    /// The process that made it, and has its threads.
    process: u32,
}

/// Observations, rewards, flags (1: terminated, 2: truncated) and times of all, as bytes.
type Stepped<'py> =
    (Bound<'py, PyBytes>, Bound<'py, PyBytes>, Bound<'py, PyBytes>, Bound<'py, PyBytes>);

/// Observation, reward, whether it is terminated or truncated, and time.
type SteppedOne<'py> = (Bound<'py, PyBytes>, f64, bool, bool, f64);

#[pymethods]
impl Envs {
    /// So many schedulers over the plans, on so many threads (0: the caller's).
    #[staticmethod]
    fn schedulers(
        py: Python<'_>,
        plans: Vec<PyRef<'_, Plan>>,
        count: usize,
        threads: usize,
        subflows: usize,
    ) -> PyResult<Self> {
        let made = Self::new(Kind::Scheduler { subflows }, &plans, count, threads);
        made.map_err(|error| no_thread(py, &error))
    }

    /// So many congestion controllers, likewise.
    #[staticmethod]
    fn controllers(
        py: Python<'_>,
        plans: Vec<PyRef<'_, Plan>>,
        count: usize,
        threads: usize,
        every: u32,
        loss_weight: f64,
        delay_weight: f64,
    ) -> PyResult<Self> {
        let kind = Kind::Congestion { every: every.max(1), loss_weight, delay_weight };
        Self::new(kind, &plans, count, threads).map_err(|error| no_thread(py, &error))
    }

    /// Numbers of one observation.
    #[getter]
    fn width(&self) -> usize {
        self.width
    }

    /// New episodes everywhere. With a seed the first ones of that seed, without the next ones.
    fn reset<'py>(&self, py: Python<'py>, seed: Option<u64>) -> PyResult<Stepped<'py>> {
        self.all(py, true, |_, _| Command::Reset(seed))
    }

    /// Goes to the next decision of each; who was at the end begins the next episode.
    fn step<'py>(&self, py: Python<'py>, actions: &[u8]) -> PyResult<Stepped<'py>> {
        let (numbers, _) = actions.as_chunks::<8>();
        let actions: Vec<i64> = numbers.iter().map(|n| i64::from_le_bytes(*n)).collect();
        self.all(py, false, |from, size| {
            Command::Step(actions.iter().skip(from).take(size).copied().collect())
        })
    }

    /// As `step`, of one environment alone, for which arrays would take longer than the step.
    fn step_one<'py>(&self, py: Python<'py>, action: i64) -> PyResult<SteppedOne<'py>> {
        let steps = self.steps(py, false, |_, _| Command::Step(vec![action]))?;
        let ([reward], [flag], [time]) = (&steps.rewards[..], &steps.flags[..], &steps.times[..])
        else {
            return Err(error::failed(py, "there are several environments: step them together"));
        };
        let ends = [TERMINATED, TRUNCATED].map(|end| *flag == end);
        Ok((observation(py, &steps), *reward, ends[0], ends[1], *time))
    }

    /// Ends the worlds and the threads; a second time does nothing.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let worlds = self.worlds(py)?.take();
        py.detach(|| self.end(worlds));
        Ok(())
    }
}

impl Envs {
    fn new(
        kind: Kind,
        plans: &[PyRef<'_, Plan>],
        count: usize,
        threads: usize,
    ) -> io::Result<Self> {
        let plans: Vec<tabane_sim::Plan> = plans.iter().map(|plan| plan.plan.clone()).collect();
        let stop = Arc::new(AtomicBool::new(false));
        let place = if threads == 0 {
            Where::Here(Box::new(Batch::new(kind, plans, 0..count, count)))
        } else {
            let threads = threads.min(count.max(1));
            let worker = |n: usize| {
                let range = n * count / threads..(n + 1) * count / threads;
                Worker::new(kind, plans.clone(), range, count, stop.clone())
            };
            Where::Threads((0..threads).map(worker).collect::<Result<_, _>>()?)
        };
        let (width, process) = (kind.width(), std::process::id());
        let worlds = Mutex::new(Some(Worlds { place, begun: false }));
        Ok(Self { worlds, width, stop, process })
    }

    fn is_forked(&self) -> bool {
        std::process::id() != self.process
    }

    /// Waits for the threads. A forked process does not have those that it would wait for.
    fn end(&self, worlds: Option<Worlds>) {
        if let Some(Worlds { place: Where::Threads(workers), .. }) = worlds
            && self.is_forked()
        {
            std::mem::forget(workers);
        }
    }

    /// Nobody waits for it: who has it may be the policy that calls this.
    fn worlds(&self, py: Python<'_>) -> PyResult<MutexGuard<'_, Option<Worlds>>> {
        match self.worlds.try_lock() {
            Ok(worlds) => Ok(worlds),
            Err(TryLockError::Poisoned(worlds)) => Ok(worlds.into_inner()),
            Err(TryLockError::WouldBlock) => {
                let busy = "another thread is stepping it, or the policy that calls this is part \
                            of a step: one at a time, or an environment for each";
                Err(error::failed(py, busy))
            }
        }
    }

    /// As `steps`, as bytes.
    fn all<'py>(
        &self,
        py: Python<'py>,
        fresh: bool,
        command: impl Fn(usize, usize) -> Command,
    ) -> PyResult<Stepped<'py>> {
        let steps = self.steps(py, fresh, command)?;
        Ok((
            observation(py, &steps),
            PyBytes::new(py, &bytes(&steps.rewards, |x| x.to_le_bytes())),
            PyBytes::new(py, &steps.flags),
            PyBytes::new(py, &bytes(&steps.times, |x| x.to_le_bytes())),
        ))
    }

    /// Gives each batch its command and collects the answers. `fresh`: episodes begin anew.
    fn steps(
        &self,
        py: Python<'_>,
        fresh: bool,
        command: impl Fn(usize, usize) -> Command,
    ) -> PyResult<Steps> {
        let mut worlds = self.worlds(py)?;
        let Some(Worlds { place, begun }) = worlds.as_mut() else {
            return Err(error::failed(py, "the environment is closed: make another"));
        };
        if self.is_forked() && matches!(place, Where::Threads(_)) {
            let message = "its threads did not come along into this forked process: \
                           make the environment here, or with threads=0";
            return Err(error::failed(py, message));
        }
        if !std::mem::take(begun) && !fresh {
            return Err(error::failed(py, "there is no episode to go on with: call reset()"));
        }
        let steps = match place {
            Where::Here(batch) => {
                let size = batch.len();
                let command = command(0, size);
                let _outer = policy::Aside::new();
                policy::expect_signals();
                // A step of one world takes microseconds. To wait for the interpreter after each,
                // while other threads use it, would take thousands of times as long.
                match (&command, size) {
                    (Command::Step(_), 1) => batch.obey(command),
                    _ => py.detach(|| batch.obey(command)),
                }
            }
            Where::Threads(workers) => {
                let mut from = 0;
                for worker in workers.iter() {
                    worker.send(command(from, worker.size));
                    from += worker.size;
                }
                self.answers(py, workers)?
            }
        };
        let steps = steps.map_err(|fault: Fault| fault.into_error(py))?;
        *begun = true;
        Ok(steps)
    }

    /// What the threads answer, together; what a signal's handler raises is an error. Every answer
    /// is taken in any case, so that the next ones are those of the next command.
    fn answers(&self, py: Python<'_>, workers: &mut [Worker]) -> PyResult<Result<Steps, Fault>> {
        let (mut answers, mut raised) = (Vec::with_capacity(workers.len()), Ok(()));
        while !py.detach(|| collect(workers, &mut answers)) {
            if raised.is_ok() {
                raised = py.check_signals();
                self.stop.store(raised.is_err(), Ordering::Relaxed);
            }
        }
        self.stop.store(false, Ordering::Relaxed);
        raised?;
        // What one of them raised has broken off the others.
        answers.sort_by_key(|steps| !matches!(steps, Err(Fault::Raised(_))));
        let mut all = Steps::default();
        let whole = answers.into_iter().try_for_each(|steps| steps.map(|steps| all.append(steps)));
        Ok(whole.map(|()| all))
    }
}

/// Takes answers until all are there, which it says, or patience is at its end.
fn collect(workers: &mut [Worker], answers: &mut Vec<Result<Steps, Fault>>) -> bool {
    while let Some(worker) = workers.get(answers.len()) {
        match worker.answers.recv_timeout(PATIENCE) {
            Ok(answer) => answers.push(answer),
            Err(RecvTimeoutError::Timeout) => return false,
            Err(RecvTimeoutError::Disconnected) => {
                answers.push(Err("a thread of environments is gone".to_owned().into()));
            }
        }
    }
    true
}

fn no_thread(py: Python<'_>, error: &io::Error) -> PyErr {
    error::failed(py, &format!("no thread for environments: {error}: pass fewer threads"))
}

fn observation<'py>(py: Python<'py>, steps: &Steps) -> Bound<'py, PyBytes> {
    PyBytes::new(py, &bytes(&steps.observations, |x| x.to_le_bytes()))
}

fn bytes<T: Copy, const N: usize>(values: &[T], of: impl Fn(T) -> [u8; N]) -> Vec<u8> {
    values.iter().flat_map(|value| of(*value)).collect()
}

impl Worker {
    fn new(
        kind: Kind,
        plans: Vec<tabane_sim::Plan>,
        range: Range<usize>,
        count: usize,
        stop: Arc<AtomicBool>,
    ) -> io::Result<Self> {
        let (commands, orders) = channel();
        let (reports, answers) = channel();
        let size = range.len();
        let work = move || {
            policy::stop_by(stop);
            let mut batch = Batch::new(kind, plans, range, count);
            while let Ok(command) = orders.recv() {
                if reports.send(policy::on_thread(|| batch.obey(command))).is_err() {
                    return;
                }
            }
        };
        let thread = Some(thread::Builder::new().stack_size(STACK).spawn(work)?);
        Ok(Self { commands: Some(commands), answers, thread, size })
    }

    fn send(&self, command: Command) {
        // A thread that is gone has no answer either, and that is told.
        let _ = self.commands.as_ref().map(|commands| commands.send(command));
    }
}

impl Drop for Envs {
    fn drop(&mut self) {
        let worlds = self.worlds.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        self.end(worlds);
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
