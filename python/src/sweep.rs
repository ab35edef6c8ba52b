//! Many runs on several threads; each result comes back as soon as it is there.

use crate::error;
use crate::observers::Stoppable;
use crate::policy::{self, PATIENCE, STACK};
use crate::run::{flows, paths};
use crate::scenario::Plan;
use crate::table::Table;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use tabane_sim::RunError;
use tabane_sim::result::RunResult;
use tabane_trace::estimate;

type Done = (usize, Result<String, Ended>);

/// Why a run gave no result.
enum Ended {
    Failed(RunError),
    Policy(policy::Failure),
}

/// Runs in progress: an iterator of (number of the plan, result as JSON).
#[pyclass(frozen, module = "tabane._native")]
pub(crate) struct Pool {
    /// One thread of Python may ask at a time.
    done: Mutex<Receiver<Done>>,
    stop: Arc<AtomicBool>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

#[pymethods]
impl Pool {
    /// Starts them, in order, on so many threads (0: one a core).
    #[new]
    fn new(py: Python<'_>, plans: Vec<PyRef<'_, Plan>>, threads: usize) -> PyResult<Self> {
        let plans: Arc<[tabane_sim::Plan]> = plans.iter().map(|plan| plan.plan.clone()).collect();
        let cores = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let threads = if threads == 0 { cores() } else { threads };
        let (sender, done) = channel();
        let (stop, next) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let spawn = |_| {
            let (plans, sender) = (plans.clone(), sender.clone());
            let (stop, next) = (stop.clone(), next.clone());
            let work = move || {
                policy::stop_by(stop.clone());
                while !stop.load(Ordering::Relaxed) {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    let Some(plan) = plans.get(n) else { break };
                    let json = run(plan);
                    // What was broken off is nothing to tell, but why it was.
                    let told = !policy::is_stopped() || matches!(json, Err(Ended::Policy(_)));
                    if !told || sender.send((n, json)).is_err() {
                        break;
                    }
                }
            };
            thread::Builder::new().stack_size(STACK).spawn(|| policy::on_thread(work))
        };
        let threads = (0..threads.min(plans.len())).map(spawn).collect::<Result<_, _>>();
        let threads = threads.map_err(|error| {
            // Those that have begun end by themselves.
            stop.store(true, Ordering::Relaxed);
            error::failed(py, &format!("no thread for a run: {error}: pass fewer jobs"))
        })?;
        Ok(Self { done: Mutex::new(done), stop, threads: Mutex::new(threads) })
    }

    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    /// The next that is done; nothing after the last.
    fn __next__(&self, py: Python<'_>) -> PyResult<Option<(usize, String)>> {
        loop {
            py.check_signals()?;
            let next = py.detach(|| {
                let done = self.done.lock().expect("invariant: nobody panics with it");
                done.recv_timeout(PATIENCE)
            });
            match next {
                Ok((n, Ok(json))) => return Ok(Some((n, json))),
                Ok((_, Err(Ended::Policy(failure)))) => return Err(failure.into_error(py)),
                Ok((_, Err(Ended::Failed(error)))) => return Err(error::run(py, &error)),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
            }
        }
    }

    /// Ends what still runs, and waits for it.
    fn close(&self, py: Python<'_>) {
        self.stop.store(true, Ordering::Relaxed);
        let threads = std::mem::take(&mut *self.threads.lock().expect("invariant: as above"));
        py.detach(|| threads.into_iter().for_each(|thread| drop(thread.join())));
    }
}

fn run(plan: &tabane_sim::Plan) -> Result<String, Ended> {
    let result = tabane_sim::run(plan, &mut Stoppable);
    match policy::take_failure() {
        Some(failure) => Err(Ended::Policy(failure)),
        None => {
            let result = result.map_err(Ended::Failed)?;
            Ok(serde_json::to_string(&result).expect("invariant: a result has a JSON form"))
        }
    }
}

/// Results of many runs, as they come.
#[pyclass(module = "tabane._native")]
#[derive(Default)]
pub(crate) struct Rows(Vec<RunResult>);

#[pymethods]
impl Rows {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// Adds a run; it is the next in column `run`.
    fn add(&mut self, json: &str) -> PyResult<()> {
        let result = serde_json::from_str(json);
        let wrong = |e: serde_json::Error| pyo3::exceptions::PyValueError::new_err(e.to_string());
        self.0.push(result.map_err(wrong)?);
        Ok(())
    }

    /// A row a flow.
    fn flows<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.table(flows).into_python(py)
    }

    /// A row a subflow.
    fn paths<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.table(paths).into_python(py)
    }
}

impl Rows {
    fn table(&self, of: fn(&[&RunResult]) -> Table) -> Table {
        let runs: Vec<&RunResult> = self.0.iter().collect();
        of(&runs)
    }
}

/// Mean and half the width of its 95 % interval (Student's t); zero with one value.
#[pyfunction]
pub(crate) fn estimate_of(values: Vec<f64>) -> Option<(f64, f64)> {
    estimate::estimate(&values).map(|estimate| (estimate.mean, estimate.half_width))
}
