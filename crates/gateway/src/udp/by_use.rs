//! Which flow of a group was used longest ago, found without looking at all of them: whoever opens
//! flows as fast as it can must not make each of them cost as much as all that it has.

use std::collections::{BTreeMap, BTreeSet};
use tabane_engine::Instant;

/// Flows `F` of groups `G`, by their last use. A use is not noted here when it happens, which is
/// for each packet, but when the flow would be the oldest.
#[derive(Debug)]
pub(crate) struct ByUse<G, F> {
    groups: BTreeMap<G, BTreeSet<(Instant, F)>>,
    /// What a flow is in its group as.
    noted: BTreeMap<F, Instant>,
}

impl<G: Ord + Copy, F: Ord + Copy> ByUse<G, F> {
    pub(crate) fn new() -> Self {
        Self { groups: BTreeMap::new(), noted: BTreeMap::new() }
    }

    /// A new one, used now.
    pub(crate) fn insert(&mut self, now: Instant, group: G, flow: F) {
        self.groups.entry(group).or_default().insert((now, flow));
        self.noted.insert(flow, now);
    }

    /// It is over.
    pub(crate) fn remove(&mut self, group: G, flow: F) {
        let Some(noted) = self.noted.remove(&flow) else { return };
        if let Some(flows) = self.groups.get_mut(&group) {
            flows.remove(&(noted, flow));
            if flows.is_empty() {
                self.groups.remove(&group);
            }
        }
    }

    /// How many a group has.
    pub(crate) fn count(&self, group: G) -> usize {
        self.groups.get(&group).map_or(0, BTreeSet::len)
    }

    /// The one that was used longest ago, and when; `last` says when one was used. Each use is
    /// made up for once, however often this is asked.
    pub(crate) fn oldest(&mut self, group: G, last: impl Fn(F) -> Instant) -> Option<(Instant, F)> {
        let flows = self.groups.get_mut(&group)?;
        loop {
            let (noted, flow) = *flows.first()?;
            let used = last(flow);
            if used <= noted {
                return Some((noted, flow));
            }
            flows.remove(&(noted, flow));
            flows.insert((used, flow));
            self.noted.insert(flow, used);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_oldest_is_as_if_all_were_looked_at(
            steps in prop::collection::vec((0..4_u8, 0..3_u8, 0..8_usize), 0..80),
        ) {
            let mut by_use = ByUse::new();
            let mut flows = BTreeMap::<usize, (u8, Instant)>::new();
            for (time, (what, group, flow)) in steps.into_iter().enumerate() {
                let now = Instant(time as u64 + 1);
                match (what, flows.get(&flow).copied()) {
                    (0, None) => {
                        by_use.insert(now, group, flow);
                        flows.insert(flow, (group, now));
                    }
                    (1, Some((group, _))) => {
                        by_use.remove(group, flow);
                        flows.remove(&flow);
                    }
                    (2, Some((group, _))) => _ = flows.insert(flow, (group, now)),
                    _ => {}
                }
                let own = flows.iter().filter(|(_, (of, _))| *of == group);
                let expected = own.clone().map(|(flow, (_, last))| (*last, *flow)).min();
                prop_assert_eq!(by_use.count(group), own.count());
                prop_assert_eq!(by_use.oldest(group, |flow| flows[&flow].1), expected);
            }
        }
    }
}
