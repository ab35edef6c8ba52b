//! Paths come and go while far ends are being asked.

use super::{Far, Sessions, Stage, abandon};
use crate::index::PathIndex;
use tabane_engine::{Duration, Instant};

/// A path on which nothing answers for so long may be the wrong one.
const UNANSWERED: Duration = Duration::from_secs(1);

impl<N: Copy + Ord, F: Copy + Eq> Sessions<N, F> {
    /// Paths have changed: requests again for whoever waits or, with a path that is dead, for
    /// those whose far end is being asked by it. A path may also work too badly for that: whoever
    /// has no answer for a second is asked for again once, where another may be better now.
    pub(crate) fn retry(
        &mut self,
        now: Instant,
        far: &mut impl Far<Id = F>,
        dead: Option<PathIndex>,
    ) {
        for (&id, session) in &mut self.all {
            match &mut session.stage {
                Stage::Waiting(_) if dead.is_none() => {}
                Stage::Opening { choice, .. } if dead.is_none() => {
                    *choice = true;
                    continue;
                }
                Stage::Opening { path, .. } if *path == dead => {
                    session.stage.take_back(now, far);
                }
                _ => continue,
            }
            self.requests.push_back(id);
        }
        self.retry_unanswered(now, far);
    }

    pub(super) fn retry_unanswered(&mut self, now: Instant, far: &mut impl Far<Id = F>) {
        for (&id, session) in &mut self.all {
            if let Stage::Opening { since, choice: true, .. } = session.stage
                && now.saturating_since(since) > UNANSWERED
            {
                session.stage.take_back(now, far);
                self.requests.push_back(id);
            }
        }
    }
}

impl<F: Copy> Stage<F> {
    /// What is being opened is given up, and waits for a path again.
    fn take_back(&mut self, now: Instant, far: &mut impl Far<Id = F>) {
        if let Self::Opening { far: at, addresses, .. } = self {
            abandon(now, far, *at);
            *self = Self::Waiting(std::mem::take(addresses));
        }
    }
}
