//! Which life the agent at the other end is in: each start of it draws a number, which its probes
//! or its answers to them say. What was connected to it before it was started again is over, which
//! it cannot say, since it does not know.

use tabane_engine::{Duration, Instant};

/// The lives of one agent, as heard.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Lives {
    now: Option<u32>,
    /// The one before: what it said may still be on its way by a slow path.
    ended: Option<u32>,
    /// Since when it is the one before, until it has been told that it lives all the same.
    ended_at: Option<Instant>,
}

/// Nothing that was sent before the end of a life is on its way for longer.
const LATE: Duration = Duration::from_secs(5);

impl Lives {
    /// A life has been heard of. Whether by that one that was known has ended.
    pub(crate) fn meet(&mut self, now: Instant, life: u32) -> bool {
        if [self.now, self.ended].contains(&Some(life)) {
            return false;
        }
        let known = self.now.replace(life);
        self.ended = known.or(self.ended);
        self.ended_at = known.map(|_| now);
        known.is_some()
    }

    /// Whether a life that was taken for ended goes on, so that there are two agents; said once of
    /// two.
    pub(crate) fn is_twin(&mut self, now: Instant, life: u32) -> bool {
        let over = self.ended_at.filter(|_| self.ended == Some(life));
        let twin = over.is_some_and(|at| now.saturating_since(at) > LATE);
        if twin {
            self.ended_at = None;
        }
        twin
    }

    /// Another agent takes its place: the first that is heard of it ends nothing.
    pub(crate) fn leave(&mut self) {
        self.ended = self.now.take().or(self.ended);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_life_ends_once() {
        let mut lives = Lives::default();
        assert!(!lives.meet(Instant::ZERO, 1), "the first is no other");
        assert!(!lives.meet(Instant::ZERO, 1));
        assert!(lives.meet(Instant::ZERO, 2));
        assert!(
            !lives.meet(Instant::ZERO, 1) && !lives.meet(Instant::ZERO, 2),
            "late, by a slow path"
        );
        assert!(lives.meet(Instant::ZERO, 3));
        lives.leave();
        assert!(!lives.meet(Instant::ZERO, 3), "of the agent that was left");
        assert!(!lives.meet(Instant::ZERO, 4), "the first of another agent");
        assert!(lives.meet(Instant::ZERO, 5));
    }

    #[test]
    fn a_life_that_goes_on_after_its_end_is_another_agent() {
        let mut lives = Lives::default();
        let at = |s| Instant::ZERO + Duration::from_secs(s);
        lives.meet(at(0), 1);
        assert!(!lives.is_twin(at(100), 1), "the only one");
        lives.meet(at(100), 2);
        assert!(!lives.is_twin(at(102), 1), "late, by a slow path");
        assert!(!lives.is_twin(at(110), 2) && lives.is_twin(at(110), 1));
        assert!(!lives.is_twin(at(111), 1), "once");
        lives.meet(at(120), 3);
        assert!(!lives.is_twin(at(130), 1) && lives.is_twin(at(130), 2), "another two");
    }
}
