//! Which paths a datagram takes.
//!
//! - `best`: the path with the smallest round-trip time. Another one takes over when it has been
//!   faster by a fifth for half a second, or when the present one is gone: changes cost order.
//! - `duplicate`: all paths.
//! - `bond`: as [`Spreader`](super::Spreader) says, of the paths whose roles count.
//!
//! Roles count first: primary paths, secondary ones only to double what goes by others or when
//! no primary works, backups when nothing else does.

use crate::address::PATHS_MAX;
use crate::model::Role;
use tabane_engine::view::{PathId, PathSet};
use tabane_engine::{Duration, Instant};

/// Chooses for one direction of one bond.
#[derive(Clone, Default, Debug)]
pub(crate) struct Sender {
    best: Option<PathId>,
    /// A path that is clearly faster, and since when.
    better: Option<(PathId, Instant)>,
}

/// A path as the choice sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Choice {
    /// Below [`PATHS_MAX`].
    pub(crate) id: PathId,
    /// It carries packets at the moment.
    pub(crate) usable: bool,
    /// As configured or set.
    pub(crate) role: Role,
    /// Smoothed round-trip time; zero if it is not known.
    pub(crate) rtt: Duration,
}

/// How long a path must be faster to become the best.
const PATIENCE: Duration = Duration::from_millis(500);

impl Sender {
    /// The best path; `None` if none works.
    pub(crate) fn best(&mut self, now: Instant, paths: &[Choice]) -> Option<PathId> {
        let tier = tier(paths);
        let usable = paths.iter().filter(|path| path.takes_part(tier));
        self.fastest(now, usable)
    }

    /// All paths for a copy each; none if none works.
    pub(crate) fn all(paths: &[Choice]) -> PathSet {
        let tier = match tier(paths) {
            [Role::Backup] => &[Role::Backup][..],
            _ => &[Role::Primary, Role::Secondary],
        };
        let mut all = PathSet::NONE;
        paths.iter().filter(|path| path.takes_part(tier)).for_each(|path| all.insert(path.id));
        all
    }

    fn fastest<'a>(
        &mut self,
        now: Instant,
        usable: impl Iterator<Item = &'a Choice> + Clone,
    ) -> Option<PathId> {
        // Not known is slowest.
        let time = |path: &Choice| path.rtt.0.checked_sub(1).unwrap_or(u64::MAX);
        let fastest = usable.clone().min_by_key(|path| (time(path), path.id.0));
        let present = usable.clone().find(|path| Some(path.id) == self.best);
        let (Some(fastest), Some(present)) = (fastest, present) else {
            self.better = None;
            self.best = fastest.map(|path| path.id);
            return self.best;
        };
        if u128::from(time(fastest)) * 5 >= u128::from(time(present)) * 4 {
            self.better = None;
            return self.best;
        }
        match self.better {
            Some((id, since)) if id == fastest.id => {
                if now.saturating_since(since) >= PATIENCE {
                    (self.best, self.better) = (Some(id), None);
                }
            }
            _ => self.better = Some((fastest.id, now)),
        }
        self.best
    }
}

impl Choice {
    pub(super) fn takes_part(&self, tier: &[Role]) -> bool {
        self.usable && self.id.0 < PATHS_MAX as u8 && tier.contains(&self.role)
    }
}

/// The roles that count where each packet goes once.
pub(super) fn tier(paths: &[Choice]) -> &'static [Role] {
    let works = |role| paths.iter().any(|path| path.usable && path.role == role);
    match (works(Role::Primary), works(Role::Secondary)) {
        (true, _) => &[Role::Primary],
        (_, true) => &[Role::Secondary],
        _ => &[Role::Backup],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(id: u8, role: Role, rtt_ms: u64) -> Choice {
        let rtt = Duration::from_millis(rtt_ms);
        Choice { id: PathId(id), usable: true, role, rtt }
    }

    fn ids(set: PathSet) -> Vec<u8> {
        (0..PATHS_MAX as u8).filter(|id| set.contains(PathId(*id))).collect()
    }

    #[test]
    fn the_best_path_is_left_with_reason_only() {
        let (mut sender, mut paths) = (Sender::default(), vec![]);
        let mut at = |ms: u64, paths: &[Choice]| {
            let now = Instant::ZERO + Duration::from_millis(ms);
            sender.best(now, paths).map(|id| id.0)
        };
        assert_eq!(at(0, &paths), None);
        paths.push(path(0, Role::Primary, 30));
        paths.push(path(1, Role::Primary, 40));
        assert_eq!(at(0, &paths), Some(0));
        // A little faster, or not for long.
        paths[1].rtt = Duration::from_millis(25);
        assert_eq!((at(1, &paths), at(5000, &paths)), (Some(0), Some(0)));
        paths[1].rtt = Duration::from_millis(10);
        assert_eq!((at(6000, &paths), at(6499, &paths)), (Some(0), Some(0)));
        paths[1].rtt = Duration::from_millis(28);
        assert_eq!(at(6500, &paths), Some(0));
        paths[1].rtt = Duration::from_millis(10);
        assert_eq!((at(7000, &paths), at(7500, &paths)), (Some(0), Some(1)));
        // Gone is gone.
        paths[1].usable = false;
        assert_eq!(at(7501, &paths), Some(0));
        // Unknown is worse than known, better than nothing.
        (paths[0].rtt, paths[1].usable) = (Duration::ZERO, true);
        assert_eq!((at(8000, &paths), at(8600, &paths)), (Some(0), Some(1)));
    }

    #[test]
    fn roles_count_first() {
        use Role::{Backup, Never, Primary, Secondary};
        let mut paths: Vec<_> = [Never, Backup, Secondary, Primary, Primary]
            .into_iter()
            .enumerate()
            .map(|(id, role)| path(id as u8, role, 10 + id as u64))
            .collect();
        let expected: [(usize, Option<u8>, Vec<u8>); 5] = [
            (5, Some(3), vec![2, 3, 4]),
            (4, Some(3), vec![2, 3]),
            (3, Some(2), vec![2]),
            (2, Some(1), vec![1]),
            (1, None, vec![]),
        ];
        for (usable, best, all) in expected {
            paths.iter_mut().skip(usable).for_each(|path| path.usable = false);
            let chosen = Sender::default().best(Instant::ZERO, &paths).map(|id| id.0);
            assert_eq!((chosen, ids(Sender::all(&paths))), (best, all), "{usable}");
        }
    }
}
