//! The rules of the run loop, which the head of `endpoint.rs` states, checked in debug builds.

use super::Endpoint;
use crate::time::Instant;

/// Where the driver is in its loop. Nothing in release builds.
#[derive(Default)]
pub(super) struct Turn {
    #[cfg(debug_assertions)]
    step: Step,
}

#[cfg(debug_assertions)]
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum Step {
    /// It feeds inputs.
    #[default]
    Feeding,
    /// It has begun to take what there is.
    Taking,
    /// There was no event left at some time since the inputs.
    Taken,
}

impl Turn {
    /// An input, while so many events wait.
    #[inline(always)]
    fn feed(&mut self, events: usize) {
        debug_assert!(
            events == 0 || self.may_feed(),
            "an input before the events of the last ones were taken: call `poll_event` until it \
             returns `None`"
        );
        #[cfg(debug_assertions)]
        {
            self.step = Step::Feeding;
        }
    }

    fn may_feed(&self) -> bool {
        #[cfg(debug_assertions)]
        return self.step != Step::Taking;
        #[cfg(not(debug_assertions))]
        true
    }

    /// Segments, or events, are taken.
    #[inline(always)]
    pub(super) fn take(&mut self) {
        #[cfg(debug_assertions)]
        if self.step == Step::Feeding {
            self.step = Step::Taking;
        }
    }

    /// There is no event.
    #[inline(always)]
    pub(super) fn events_taken(&mut self) {
        #[cfg(debug_assertions)]
        {
            self.step = Step::Taken;
        }
    }
}

impl Endpoint {
    /// An input at `now`.
    #[inline(always)]
    pub(super) fn feed(&mut self, now: Instant) {
        self.turn.feed(self.events.len());
        self.advance(now);
    }

    /// Time does not go back.
    #[inline(always)]
    pub(super) fn advance(&mut self, now: Instant) {
        debug_assert!(now >= self.now, "time goes back from {:?} to {now:?}", self.now);
        self.now = now;
    }
}
