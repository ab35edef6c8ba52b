//! A world in a coroutine: it runs until its policy asks, and goes on with the answer.

use super::Kind;
use super::agent::Agent;
use crate::policy::{self, Failure};
use corosensei::{Coroutine, CoroutineResult, Yielder};
use std::cell::Cell;
use std::ptr;
use tabane_sim::RunError;
use tabane_sim::observe::Silent;
use tabane_sim::result::RunResult;

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
        completed: bool,
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

/// A world that waits for an action.
pub(super) struct Session {
    world: Coroutine<i64, Question, Result<(RunResult, f64), RunError>>,
    /// Put aside while it waits.
    agent: Option<Agent>,
}

impl Session {
    pub(super) fn new(kind: Kind, plan: tabane_sim::Plan) -> Self {
        let world = Coroutine::new(move |yielder: &Asking, _| {
            enter(yielder);
            let result = tabane_sim::run(&plan, &mut Silent)?;
            let reward = leave().map_or(0.0, |agent| agent.last_reward(result.ended_s));
            Ok((result, reward))
        });
        Self { world, agent: Some(Agent::new(kind)) }
    }

    /// Goes on until the next question, or to the end.
    pub(super) fn resume(&mut self, action: i64) -> Stand {
        AGENT.set(self.agent.take());
        // What was left on this thread is not of this world.
        policy::take_failure();
        let result = self.world.resume(action);
        CURRENT.set(ptr::null());
        self.agent = AGENT.take();
        if let Some(failure) = policy::take_failure() {
            return Stand::Raised(failure);
        }
        match result {
            CoroutineResult::Yield(question) => Stand::Asks(question),
            CoroutineResult::Return(Ok((result, reward))) => {
                let completed = result.flows.iter().all(|flow| flow.completed_s.is_some());
                Stand::Over { completed, reward, time: result.ended_s }
            }
            CoroutineResult::Return(Err(error)) => Stand::Failed(error),
        }
    }
}

#[expect(unsafe_code, reason = "a coroutine cannot know what is on its stack")]
// SAFETY: what is there while it waits is the plan, the world and its policies, which are `Send`
// (policies by their traits' bounds; a world is not for its observer alone, and that is `Silent`),
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
    // its body starts and below when it goes on, and null after `resume`. The yielder lives as
    // long as the body, and the body is what calls this.
    let yielder = unsafe { &*yielder };
    let action = yielder.suspend(question?);
    enter(yielder);
    Some(action)
}
