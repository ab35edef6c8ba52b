//! Policies written in Python, registered with the engine's own registries: they have names,
//! parameters with ranges, and "did you mean", and the engine checks their answers as any other's.
//!
//! An exception ends the run: it is kept for the thread that runs, further calls are not made, and
//! the observer that watches for it (`observers.rs`) breaks the run off.

mod congestion;
mod scheduler;
mod views;

pub(crate) use views::{Ack, Blocked, Congestion, SubflowView, Work};

use crate::error;
use pyo3::exceptions::{PyException, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tabane_engine::Instant;
use tabane_engine::policy::{Param, Values};
use tabane_engine::view::{Id, Set};

/// Bytes of a stack on which policies are asked: the interpreter ends an endless recursion by its
/// own count, and must come so far. It is address space, which costs nothing until it is used.
pub(crate) const STACK: usize = 16 << 20;
/// How often Ctrl-C is looked for.
pub(crate) const PATIENCE: Duration = Duration::from_millis(100);

/// What the engine calls by name, and Python may define anew.
pub(crate) struct Registered {
    pub(crate) name: &'static str,
    pub(crate) params: &'static [Param],
    factory: Mutex<Py<PyAny>>,
}

/// By kind and name; registered for good, as in the engine.
static REGISTERED: Mutex<BTreeMap<(String, String), Arc<Registered>>> = Mutex::new(BTreeMap::new());

thread_local! {
    static FAILURE: RefCell<Option<Failure>> = const { RefCell::new(None) };
    static NOW: Cell<Instant> = const { Cell::new(Instant::ZERO) };
    /// Set when what this thread runs is to end.
    static STOP: RefCell<Option<Arc<AtomicBool>>> = const { RefCell::new(None) };
    /// When signals were looked for; none where another thread does it.
    static LOOKED: Cell<Option<std::time::Instant>> = const { Cell::new(None) };
}

/// An exception of a policy, where and when.
pub(crate) struct Failure {
    /// None if it is a signal's handler that raised.
    policy: Option<&'static str>,
    at: Instant,
    error: PyErr,
}

impl Failure {
    /// As Python gets it. What is to end the program (Ctrl-C, `sys.exit`) goes out as it is.
    pub(crate) fn into_error(self, py: Python<'_>) -> PyErr {
        match self.policy {
            Some(policy) if self.error.is_instance_of::<PyException>(py) => {
                error::policy(py, policy, self.at.as_secs_f64(), self.error)
            }
            _ => self.error,
        }
    }
}

/// The run of this thread, put aside: a policy may begin another one within it, and catch what is
/// raised there. It goes on when this is dropped.
pub(crate) struct Aside {
    failure: Option<Failure>,
    now: Instant,
    stop: Option<Arc<AtomicBool>>,
}

impl Aside {
    pub(crate) fn new() -> Self {
        Self { now: now(), failure: take_failure(), stop: STOP.take() }
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        NOW.set(self.now);
        FAILURE.set(self.failure.take());
        STOP.set(self.stop.take());
    }
}

// None of these is inlined: a world in a coroutine (`gym/session.rs`) calls them, and goes from one
// thread to another. An address of a thread's variable must not stay in its frames.

/// Takes what a policy raised in the run of this thread; the next run starts without.
pub(crate) fn take_failure() -> Option<Failure> {
    NOW.set(Instant::ZERO);
    FAILURE.take()
}

/// Whether a policy has raised in the run of this thread.
#[inline(never)]
pub(crate) fn has_failed() -> bool {
    FAILURE.with_borrow(Option::is_some)
}

/// Whether what this thread runs is to end.
#[inline(never)]
pub(crate) fn is_stopped() -> bool {
    STOP.with_borrow(|stop| stop.as_ref().is_some_and(|stop| stop.load(Ordering::Relaxed)))
}

/// Whatever this thread runs from now on ends when the flag is set, and sets it when a policy
/// raises: what runs elsewhere is of no use then.
pub(crate) fn stop_by(flag: Arc<AtomicBool>) {
    STOP.set(Some(flag));
}

/// Signals are looked for on this thread, when [`PATIENCE`] is over.
#[expect(clippy::disallowed_methods, reason = "patience is of the user's time")]
pub(crate) fn expect_signals() {
    LOOKED.set(Some(std::time::Instant::now()));
}

/// Looks for signals, if it is time to. Not more often: to wait for the interpreter, while other
/// threads use it, takes milliseconds.
#[inline(never)]
pub(crate) fn look_for_signals() {
    if LOOKED.get().is_none_or(|looked| looked.elapsed() < PATIENCE) || has_failed() {
        return;
    }
    expect_signals();
    if let Err(error) = Python::attach(|py| py.check_signals()) {
        FAILURE.set(Some(Failure { policy: None, at: now(), error }));
    }
}

/// Does what may ask policies of Python's, on a thread that is not Python's. The thread keeps its
/// state in the interpreter meanwhile: to make one for each question costs several times what the
/// question does. Without such policies the interpreter is left alone.
pub(crate) fn on_thread<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    let none = REGISTERED.lock().unwrap_or_else(PoisonError::into_inner).is_empty();
    if none { work() } else { Python::attach(|py| py.detach(work)) }
}

/// Notes how far the run of this thread has come.
#[inline(never)]
pub(crate) fn reach(now: Instant) {
    NOW.set(now);
}

/// A name, its parameters (name, default, lowest, highest, meaning), and what makes a policy.
type Described = (String, f64, f64, f64, String);

/// Registers a scheduler or a congestion control, or what a registered one is made by.
#[pyfunction]
pub(crate) fn register(
    kind: &str,
    name: String,
    summary: String,
    params: Vec<Described>,
    factory: Py<PyAny>,
) -> PyResult<()> {
    let mut all = REGISTERED.lock().unwrap_or_else(PoisonError::into_inner);
    let key = (kind.to_owned(), name.clone());
    let params: Vec<Param> = params.into_iter().map(param).collect();
    if let Some(known) = all.get(&key) {
        if known.params != params {
            let message = format!(
                "{kind} '{name}' is registered with other parameters: give it another name"
            );
            return Err(PyValueError::new_err(message));
        }
        // The old one goes after the lock: its end may be Python's code.
        let mut place = known.factory.lock().unwrap_or_else(PoisonError::into_inner);
        let old = std::mem::replace(&mut *place, factory);
        drop(place);
        drop(all);
        drop(old);
        return Ok(());
    }
    // The engine's registries are for good, and so is what they name.
    let name: &'static str = name.leak();
    let (params, summary): (&'static [Param], &'static str) = (params.leak(), summary.leak());
    let registered = Arc::new(Registered { name, params, factory: Mutex::new(factory) });
    let result = match kind {
        "scheduler" => scheduler::register(registered.clone(), summary),
        "congestion" => congestion::register(registered.clone(), summary),
        _ => return Err(PyValueError::new_err("kinds are: scheduler, congestion")),
    };
    result.map_err(|error| PyValueError::new_err(error.to_string()))?;
    all.insert(key, registered);
    Ok(())
}

fn param((name, default, low, high, meaning): Described) -> Param {
    Param::new(name.leak(), default, low..=high, meaning.leak())
}

impl Registered {
    /// Makes a policy of it; the parameters by name.
    fn make<'py, A>(&self, py: Python<'py>, args: A, values: &Values<'_>) -> PyResult<Policy>
    where
        A: pyo3::call::PyCallArgs<'py>,
    {
        let keywords = PyDict::new(py);
        for param in self.params {
            keywords.set_item(param.name, values.get(param.name))?;
        }
        let factory = self.factory.lock().unwrap_or_else(PoisonError::into_inner).clone_ref(py);
        let object = factory.bind(py).call(args, Some(&keywords))?;
        Ok(Policy { name: self.name, object: object.unbind() })
    }
}

/// An object of Python's that is asked.
struct Policy {
    name: &'static str,
    object: Py<PyAny>,
}

impl Policy {
    /// A method that its class has of its own; none if it is that of `base`.
    fn own(&self, py: Python<'_>, base: &str, method: &str) -> PyResult<Option<Py<PyAny>>> {
        let base = py.import("tabane._policy")?.getattr(base)?;
        let object = self.object.bind(py);
        if !object.is_instance(&base)? {
            let message = format!("'{}' made a {}", self.name, object.get_type().name()?);
            return Err(PyTypeError::new_err(format!(
                "{message}, not a {}",
                base.getattr("__name__")?
            )));
        }
        if object.get_type().getattr(method)?.is(&base.getattr(method)?) {
            return Ok(None);
        }
        Ok(Some(object.getattr(method)?.unbind()))
    }
}

/// Asks Python at a moment. After an exception, or after an earlier one, the answer is `None`; also
/// when the run is to end, which it does not at once.
fn ask<T>(
    policy: &'static str,
    now: Instant,
    question: impl FnOnce(Python<'_>) -> PyResult<T>,
) -> Option<T> {
    if has_failed() || is_stopped() {
        return None;
    }
    NOW.set(now);
    match Python::attach(question) {
        Ok(answer) => Some(answer),
        Err(error) => {
            FAILURE.set(Some(Failure { policy: Some(policy), at: now, error }));
            STOP.with_borrow(|stop| {
                stop.iter().for_each(|stop| stop.store(true, Ordering::Relaxed));
            });
            None
        }
    }
}

/// The last moment of this thread's run that is known.
fn now() -> Instant {
    NOW.get()
}

/// Subflows that an answer names: nothing, an id, a view, or several of them.
fn chosen<T: Id>(answer: &Bound<'_, PyAny>) -> PyResult<Set<T>> {
    if answer.is_none() {
        return Ok(Set::NONE);
    }
    if let Some(one) = id(answer)? {
        return Ok(Set::only(T::from_index(one)));
    }
    let mut set = Set::NONE;
    for item in answer.try_iter().map_err(|_| no_subflows(answer))? {
        let one = id(&item?)?.ok_or_else(|| no_subflows(answer))?;
        set.insert(T::from_index(one));
    }
    Ok(set)
}

fn id(item: &Bound<'_, PyAny>) -> PyResult<Option<u8>> {
    if let Ok(view) = item.cast::<SubflowView>() {
        return Ok(Some(view.get().id));
    }
    let Ok(id) = item.extract::<i64>() else { return Ok(None) };
    match u8::try_from(id) {
        Ok(id) if id < 64 => Ok(Some(id)),
        _ => Err(PyValueError::new_err(format!("there is no subflow {id}"))),
    }
}

fn no_subflows(answer: &Bound<'_, PyAny>) -> PyErr {
    let shown = answer.repr().map_or_else(|_| String::new(), |text| text.to_string());
    PyTypeError::new_err(format!(
        "{shown} names no subflows: answer None, a view or its id, or several of them"
    ))
}
