//! A congestion controller that asks Python: after each call its `cwnd`, `ssthresh` and
//! `pacing_rate` are read.

use super::views::{self, Ack, Congestion};
use super::{Policy, Registered, ask, now};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::sync::Arc;
use tabane_engine::Instant;
use tabane_engine::congestion::{self, CcPhase, CcState, CongestionController, Start};
use tabane_engine::policy::{Entry, RegisterError, Values};
use tabane_engine::view::SubflowView;

/// Registers it with the engine.
pub(super) fn register(
    registered: Arc<Registered>,
    summary: &'static str,
) -> Result<(), RegisterError> {
    let (name, params) = (registered.name, registered.params);
    let build = move |values: &Values<'_>, start: Start| {
        let mut state = CcState::default();
        (state.cwnd, state.ssthresh) = (start.cwnd, start.ssthresh);
        let asked = ask(name, now(), |py| Asked::new(py, &registered, values, start));
        let mut controller = InPython { name, asked, state, mss: start.mss };
        controller.call(now(), |_, _| Ok(()));
        Ok(Box::new(controller) as Box<dyn CongestionController>)
    };
    let build: &'static congestion::Build = Box::leak(Box::new(build));
    congestion::REGISTRY.register(Entry { name, aliases: &[], summary, params, build })
}

/// Methods of the object, as far as its class has them.
struct Asked {
    object: Py<PyAny>,
    on_ack: Py<PyAny>,
    on_congestion: Py<PyAny>,
    on_mss: Py<PyAny>,
    on_sent: Option<Py<PyAny>>,
    on_spurious: Option<Py<PyAny>>,
    on_idle_restart: Option<Py<PyAny>>,
    on_penalty: Option<Py<PyAny>>,
}

struct InPython {
    name: &'static str,
    /// Nothing after its making has failed.
    asked: Option<Asked>,
    state: CcState,
    mss: u64,
}

impl Asked {
    fn new(
        py: Python<'_>,
        registered: &Registered,
        values: &Values<'_>,
        start: Start,
    ) -> PyResult<Self> {
        let ssthresh = (start.ssthresh != u64::MAX).then_some(start.ssthresh);
        let policy: Policy = registered.make(py, (start.mss, start.cwnd, ssthresh), values)?;
        let own = |method| policy.own(py, "CongestionController", method);
        let object = policy.object.bind(py);
        Ok(Self {
            on_sent: own("on_sent")?,
            on_spurious: own("on_spurious")?,
            on_idle_restart: own("on_idle_restart")?,
            on_penalty: own("on_penalty")?,
            on_ack: object.getattr("on_ack")?.unbind(),
            on_congestion: object.getattr("on_congestion")?.unbind(),
            on_mss: object.getattr("on_mss")?.unbind(),
            object: policy.object.clone_ref(py),
        })
    }

    /// The window that the object has now.
    fn state(&self, py: Python<'_>, mss: u64) -> PyResult<CcState> {
        let object = self.object.bind(py);
        let bytes = |name: &str| -> PyResult<Option<u64>> {
            let value: Option<f64> = object.getattr(name)?.extract()?;
            match value {
                Some(bytes) if bytes.is_nan() || bytes < 0.0 => {
                    Err(PyValueError::new_err(format!("{name} is {bytes}: it is bytes, or None")))
                }
                // A value beyond 64 bits is the largest of them.
                other => Ok(other.map(|bytes| bytes as u64)),
            }
        };
        let mut state = CcState::default();
        let cwnd = bytes("cwnd")?.ok_or_else(|| PyValueError::new_err("cwnd is None"))?;
        state.cwnd = cwnd.max(mss);
        state.ssthresh = bytes("ssthresh")?.unwrap_or(u64::MAX);
        state.pacing_rate = bytes("pacing_rate")?;
        let slow_start = state.cwnd < state.ssthresh;
        state.phase = if slow_start { CcPhase::SlowStart } else { CcPhase::Avoidance };
        Ok(state)
    }
}

impl InPython {
    /// Calls it and reads what it wants.
    fn call(&mut self, at: Instant, call: impl FnOnce(Python<'_>, &Asked) -> PyResult<()>) {
        let Some(asked) = &self.asked else { return };
        let state = ask(self.name, at, |py| {
            call(py, asked)?;
            asked.state(py, self.mss)
        });
        self.state = state.unwrap_or(self.state);
    }
}

fn call1<'py, A: pyo3::call::PyCallArgs<'py>>(
    py: Python<'py>,
    method: &Py<PyAny>,
    args: A,
) -> PyResult<()> {
    method.bind(py).call1(args).map(drop)
}

impl CongestionController for InPython {
    fn on_ack(&mut self, ack: &congestion::Ack, siblings: &[SubflowView]) {
        self.call(ack.now, |py, asked| {
            let args = (Ack::from(ack), views::subflows(py, siblings)?);
            call1(py, &asked.on_ack, args)
        });
    }

    fn on_congestion(&mut self, event: &congestion::Congestion, siblings: &[SubflowView]) {
        self.call(event.now, |py, asked| {
            let args = (Congestion::from(event), views::subflows(py, siblings)?);
            call1(py, &asked.on_congestion, args)
        });
    }

    fn on_sent(&mut self, at: Instant, bytes: u64, in_flight: u64) {
        if self.asked.as_ref().is_some_and(|asked| asked.on_sent.is_some()) {
            self.call(at, |py, asked| {
                let args = (at.as_secs_f64(), bytes, in_flight);
                asked.on_sent.iter().try_for_each(|method| call1(py, method, args))
            });
        }
    }

    fn on_spurious(&mut self, at: Instant) {
        self.call(at, |py, asked| {
            let mut method = asked.on_spurious.iter();
            method.try_for_each(|method| call1(py, method, (at.as_secs_f64(),)))
        });
    }

    fn on_idle_restart(&mut self, at: Instant, restart: u64) {
        self.call(at, |py, asked| {
            let mut method = asked.on_idle_restart.iter();
            method.try_for_each(|method| call1(py, method, (at.as_secs_f64(), restart)))
        });
    }

    fn on_penalty(&mut self) {
        self.call(now(), |py, asked| {
            asked.on_penalty.iter().try_for_each(|method| call1(py, method, ()))
        });
    }

    fn on_mss(&mut self, mss: u64) {
        self.mss = mss;
        self.call(now(), |py, asked| call1(py, &asked.on_mss, (mss,)));
    }

    fn report(&self, state: &mut CcState) {
        state.cwnd = self.state.cwnd;
        state.ssthresh = self.state.ssthresh;
        state.pacing_rate = self.state.pacing_rate;
        state.phase = self.state.phase;
    }
}
