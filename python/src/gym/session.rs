//! A world in a coroutine: it runs until its policy asks, and goes on with the answer.

use super::Kind;
use super::agent::Agent;
use crate::observers::Stoppable;
use crate::policy::{self, Failure, STACK};
use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use std::cell::Cell;
use std::io;
use std::ptr;
use tabane_sim::RunError;
use tabane_sim::result::{FlowResult, RunResult};

/// What an agent sees, and what came of its last action.
pub(super) struct Question {
    pub(super) observation: Vec<f32>,
    pub(super) reward: f64,
    /// Simulated seconds.
    pub(super) time: f64,
}

/// Where a world stands.
pub(super) enum Stand {
    Asks(Question),
    Over {
        /// Nothing is left to do: each flow is complete, or has failed.
        terminated: bool,
        reward: f64,
        time: f64,
    },
    Failed(RunError),
    /// A policy of Python's in it raised.
    Raised(Failure),
}

type Asking = Yielder<i64, Question>;

thread_local! {
    /// That of the world that runs on this thread now; null while none does.
    static CURRENT: Cell<*const Asking> = const { Cell::new(ptr::null()) };
    /// What the policies of that world share.
    static AGENT: Cell<Option<Agent>> = const { Cell::new(None) };
}

/// The world that this thread runs, put aside: a policy of its own may run another one, which is
/// not to ask this one's agent. It goes on when this is dropped.
pub(crate) struct Outer {
    agent: Option<Agent>,
    current: *const Asking,
}

impl Outer {
    /// For a run that is of no environment.
    pub(crate) fn aside() -> Self {
        Self::aside_for(None)
    }

    fn aside_for(agent: Option<Agent>) -> Self {
        Self { agent: AGENT.replace(agent), current: CURRENT.replace(ptr::null()) }
    }
}

impl Drop for Outer {
    fn drop(&mut self) {
        AGENT.set(self.agent.take());
        CURRENT.set(self.current);
    }
}

/// A world that waits for an action.
pub(super) struct Session {
    world: Coroutine<i64, Question, Result<(RunResult, f64), RunError>>,
    /// Put aside while it waits.
    agent: Option<Agent>,
}

impl Session {
    /// An error if there is no memory for its stack.
    pub(super) fn new(kind: Kind, plan: tabane_sim::Plan) -> io::Result<Self> {
        let stack = DefaultStack::new(STACK)?;
        let world = Coroutine::with_stack(stack, move |yielder: &Asking, _| {
            enter(yielder);
            let result = tabane_sim::run(&plan, &mut Stoppable)?;
            let reward = leave().map_or(0.0, |agent| agent.last_reward(result.ended_s));
            Ok((result, reward))
        });
        Ok(Self { world, agent: Some(Agent::new(kind)) })
    }

    /// Goes on until the next question, or to the end.
    pub(super) fn resume(&mut self, action: i64) -> Stand {
        // What was left on this thread is not of this world.
        policy::take_failure();
        let outer = Outer::aside_for(self.agent.take());
        let result = self.world.resume(action);
        self.agent = leave();
        drop(outer);
        if let Some(failure) = policy::take_failure() {
            return Stand::Raised(failure);
        }
        match result {
            CoroutineResult::Yield(question) => Stand::Asks(question),
            CoroutineResult::Return(Ok((result, reward))) => {
                let is_over =
                    |flow: &FlowResult| flow.completed_s.is_some() || flow.failed.is_some();
                let terminated = result.flows.iter().all(is_over);
                Stand::Over { terminated, reward, time: result.ended_s }
            }
            CoroutineResult::Return(Err(error)) => Stand::Failed(error),
        }
    }
}

#[expect(unsafe_code, reason = "a coroutine cannot know what is on its stack")]
// SAFETY: what is there while it waits is the plan, the world and its policies, which are `Send`
// (policies by their traits' bounds; a world is not for its observer alone, and that is empty),
// and frames of the engine, which know no thread. `ask` and the body do know one: they reach its
// variables in functions of their own, so that no address is kept from one thread to the next.
unsafe impl Send for Session {}

/// The world of this asker runs on this thread now.
#[inline(never)]
fn enter(yielder: *const Asking) {
    CURRENT.set(yielder);
}

/// What its policies shared, at its end.
#[inline(never)]
fn leave() -> Option<Agent> {
    AGENT.take()
}

/// Asks whoever steps the world that runs on this thread; `None` if it is not in an environment.
/// `question` says what the agent sees, if it is to be asked now.
#[inline(never)]
pub(super) fn ask(question: impl FnOnce(&mut Agent) -> Option<Question>) -> Option<i64> {
    let mut agent = AGENT.take()?;
    let question = question(&mut agent);
    AGENT.set(Some(agent));
    let yielder = CURRENT.get();
    if yielder.is_null() {
        return None;
    }
    #[expect(unsafe_code, reason = "the policy is deep inside the world that the coroutine runs")]
    // SAFETY: it is the one of the coroutine that runs on this thread now: `CURRENT` is set when
    // its body starts and below when it goes on, and another's after `resume`. The yielder lives as
    // long as the body, and the body is what calls this.
    let yielder = unsafe { &*yielder };
    let action = yielder.suspend(question?);
    enter(yielder);
    Some(action)
}
