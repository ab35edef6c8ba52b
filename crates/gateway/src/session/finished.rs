//! What sessions were that have ended, for whoever records them.

use super::{Sessions, Snapshot};
use crate::listener::Target;
use std::collections::VecDeque;
use std::ops::Bound;
use tabane_engine::Instant;

/// A session that has ended.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Finished<N> {
    pub(crate) id: N,
    pub(crate) target: Target,
    pub(crate) since: Instant,
    /// See [`Snapshot::number`].
    pub(crate) number: u64,
    /// See [`Snapshot::passed`].
    pub(crate) passed: [u64; 2],
}

/// Those that have ended since they were taken last; none unless somebody wants to know.
pub(super) struct Log<N> {
    wanted: bool,
    all: VecDeque<Finished<N>>,
}

/// Sessions remembered; of more, the oldest are forgotten.
const MOST: usize = 4096;

impl<N> Default for Log<N> {
    fn default() -> Self {
        Self { wanted: false, all: VecDeque::new() }
    }
}

impl<N> Log<N> {
    pub(super) fn add(&mut self, finished: impl FnOnce() -> Finished<N>) {
        if self.wanted {
            if self.all.len() == MOST {
                self.all.pop_front();
            }
            self.all.push_back(finished());
        }
    }
}

impl<N: Copy + Ord, F: Copy + Eq> Sessions<N, F> {
    /// From now on, what has ended is remembered.
    pub(crate) fn remember_finished(&mut self) {
        self.finished.wanted = true;
    }

    /// What has ended since the last time.
    pub(crate) fn take_finished(&mut self) -> VecDeque<Finished<N>> {
        std::mem::take(&mut self.finished.all)
    }

    /// At most so many of those that have a far end, in turn: those after `after`, then the first.
    pub(crate) fn some(&self, after: Option<N>, most: usize) -> Vec<Snapshot<'_, N, F>> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let later = self.all.range((from, Bound::Unbounded));
        let first = self.all.iter().take_while(|(id, _)| after.is_some_and(|after| **id <= after));
        later.chain(first).filter_map(|(id, _)| self.get(*id)).take(most).collect()
    }
}
