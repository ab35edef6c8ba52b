//! A scheduler that asks Python. Its decision records say `turn`, `no_room` or `awaits_turn`.

use super::views::{self, Blocked, Work};
use super::{Policy, Registered, ask, chosen, now};
use pyo3::prelude::*;
use std::sync::Arc;
use tabane_engine::policy::{Entry, RegisterError, Values};
use tabane_engine::scheduler::{self, OpportunisticRetransmission, Reason, Scheduler};
use tabane_engine::view::{SubflowSet, SubflowView};

/// Registers it with the engine.
pub(super) fn register(
    registered: Arc<Registered>,
    summary: &'static str,
) -> Result<(), RegisterError> {
    let (name, params) = (registered.name, registered.params);
    let build = move |values: &Values<'_>| {
        let asked = ask(name, now(), |py| Asked::new(py, &registered, values));
        Ok(Box::new(InPython { name, asked, reason: Reason::default() }) as Box<dyn Scheduler>)
    };
    let build: &'static scheduler::Build = Box::leak(Box::new(build));
    scheduler::REGISTRY.register(Entry { name, aliases: &[], summary, params, build })
}

/// Methods of the object, as far as its class has them.
struct Asked {
    select: Py<PyAny>,
    opportunistic_retransmission: Option<Py<PyAny>>,
    replicas: Option<Py<PyAny>>,
    gap: Option<Py<PyAny>>,
}

struct InPython {
    name: &'static str,
    /// Nothing after its making has failed.
    asked: Option<Asked>,
    reason: Reason,
}

impl Asked {
    fn new(py: Python<'_>, registered: &Registered, values: &Values<'_>) -> PyResult<Self> {
        let policy: Policy = registered.make(py, (), values)?;
        let own = |method| policy.own(py, "Scheduler", method);
        Ok(Self {
            opportunistic_retransmission: own("opportunistic_retransmission")?,
            replicas: own("replicas")?,
            gap: own("gap")?,
            select: policy.object.bind(py).getattr("select")?.unbind(),
        })
    }
}

impl Scheduler for InPython {
    fn select(&mut self, work: &scheduler::Work, subflows: &[SubflowView]) -> SubflowSet {
        let eligible = subflows.iter().filter(|s| s.usable && s.sendable > 0);
        let first = eligible.map(|s| s.id).next();
        let answer = self.asked.as_ref().and_then(|asked| {
            ask(self.name, work.now, |py| {
                let args = (Work::from(work), views::subflows(py, subflows)?);
                chosen(asked.select.bind(py).call1(args)?.as_any())
            })
        });
        // After a failure whatever there is, until the run is broken off.
        let answer = answer.unwrap_or_else(|| first.map_or(SubflowSet::NONE, SubflowSet::only));
        self.reason = match (first, answer.is_empty()) {
            (None, _) => Reason::NoSpace,
            (Some(_), false) => Reason::Turn,
            (Some(first), true) => Reason::AwaitsTurn(first),
        };
        answer
    }

    fn opportunistic_retransmission(
        &mut self,
        blocked: &scheduler::Blocked,
        subflows: &[SubflowView],
    ) -> OpportunisticRetransmission {
        let method = self.asked.as_ref().and_then(|a| a.opportunistic_retransmission.as_ref());
        let answer = method.and_then(|method| {
            ask(self.name, blocked.now, |py| {
                let args = (Blocked::from(blocked), views::subflows(py, subflows)?);
                let answer = method.bind(py).call1(args)?;
                let (again, penalised): (Bound<'_, PyAny>, Bound<'_, PyAny>) = answer.extract()?;
                Ok((chosen(&again)?, chosen(&penalised)?))
            })
        });
        let (again, penalised) = answer.unwrap_or_default();
        OpportunisticRetransmission::default().with(|o| {
            o.resend = again;
            o.penalise = penalised;
        })
    }

    fn replicas(&mut self, subflows: &[SubflowView]) -> SubflowSet {
        let method = self.asked.as_ref().and_then(|asked| asked.replicas.as_ref());
        let answer = method.and_then(|method| {
            ask(self.name, now(), |py| {
                chosen(&method.bind(py).call1((views::subflows(py, subflows)?,))?)
            })
        });
        answer.unwrap_or_default()
    }

    fn looks_ahead(&self) -> bool {
        self.asked.as_ref().is_some_and(|asked| asked.gap.is_some())
    }

    fn gap(&self) -> u64 {
        let method = self.asked.as_ref().and_then(|asked| asked.gap.as_ref());
        let gap = |method: &Py<PyAny>| ask(self.name, now(), |py| method.call0(py)?.extract(py));
        method.and_then(gap).unwrap_or(0)
    }

    fn reason(&self) -> Reason {
        self.reason
    }
}
