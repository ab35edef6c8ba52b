//! Which paths a datagram takes.
//!
//! - `best`: the path with the smallest round-trip time. Another one takes over when it has been
//!   faster by a fifth for half a second, or when the present one is gone: changes cost order.
//! - `duplicate`: all paths.
//! - `stripe`: one path each, in proportion to their rates (smooth weighted round robin by bytes).
//!
//! Roles count first: primary paths, secondary ones only to double what goes by others or when
//! no primary works, backups when nothing else does.

use crate::address::PATHS_MAX;
use crate::config::UdpMode;
use crate::model::Role;
use tabane_engine::view::{PathId, PathSet};
use tabane_engine::{Duration, Instant};

/// Chooses for one direction of one bond.
#[derive(Clone, Default, Debug)]
pub(crate) struct Sender {
    best: Option<PathId>,
    /// A path that is clearly faster, and since when.
    better: Option<(PathId, Instant)>,
    /// What each path is owed: bytes times the sum of the weights.
    credits: [i64; PATHS_MAX],
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
    /// What it carries, bits per second, as far as it is known; zero if not.
    pub(crate) rate: u64,
}

/// How long a path must be faster to become the best.
const PATIENCE: Duration = Duration::from_millis(500);
/// Of a path whose rate is not known, and at least.
const RATE_MIN: u64 = 1_000_000;
/// Beyond, differences do not count: 100 Gbit/s.
const RATE_MAX: u64 = 100_000_000_000;
/// Weights are in units of this rate, so that they stay far from overflow.
const UNIT: u64 = 10_000;

impl Sender {
    /// The paths for a datagram of `len` bytes; none if none works.
    pub(crate) fn choose(
        &mut self,
        now: Instant,
        mode: UdpMode,
        paths: &[Choice],
        len: usize,
    ) -> PathSet {
        let tier = tier(mode, paths);
        let usable = paths
            .iter()
            .filter(|path| path.usable && path.id.0 < PATHS_MAX as u8 && tier.contains(&path.role));
        match mode {
            UdpMode::Best => self.fastest(now, usable).map_or(PathSet::NONE, PathSet::only),
            UdpMode::Duplicate => {
                let mut all = PathSet::NONE;
                usable.for_each(|path| all.insert(path.id));
                all
            }
            UdpMode::Stripe => self.by_credit(usable, len).map_or(PathSet::NONE, PathSet::only),
        }
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

    fn by_credit<'a>(
        &mut self,
        usable: impl Iterator<Item = &'a Choice> + Clone,
        len: usize,
    ) -> Option<PathId> {
        let weight = |path: &Choice| (path.rate.clamp(RATE_MIN, RATE_MAX) / UNIT) as i64;
        let len = len.clamp(1, usize::from(u16::MAX)) as i64;
        let sum: i64 = usable.clone().map(weight).sum();
        let mut credits = [0; PATHS_MAX];
        for path in usable.clone() {
            let at = usize::from(path.id.0);
            // What rates have been must not count for long.
            let bound = sum * i64::from(u16::MAX);
            credits[at] = (self.credits[at] + weight(path) * len).clamp(-bound, bound);
        }
        self.credits = credits;
        let by_credit = |path: &&Choice| (credits[usize::from(path.id.0)], -i64::from(path.id.0));
        let chosen = usable.max_by_key(by_credit)?.id;
        self.credits[usize::from(chosen.0)] -= sum * len;
        Some(chosen)
    }
}

/// The roles that count.
fn tier(mode: UdpMode, paths: &[Choice]) -> &'static [Role] {
    let works = |role| paths.iter().any(|path| path.usable && path.role == role);
    match (works(Role::Primary), works(Role::Secondary)) {
        (true, _) | (_, true) if mode == UdpMode::Duplicate => &[Role::Primary, Role::Secondary],
        (true, _) => &[Role::Primary],
        (_, true) => &[Role::Secondary],
        _ => &[Role::Backup],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn path(id: u8, role: Role, rtt_ms: u64, mbps: u64) -> Choice {
        let rtt = Duration::from_millis(rtt_ms);
        Choice { id: PathId(id), usable: true, role, rtt, rate: mbps * 1_000_000 }
    }

    fn ids(set: PathSet) -> Vec<u8> {
        (0..PATHS_MAX as u8).filter(|id| set.contains(PathId(*id))).collect()
    }

    #[test]
    fn the_best_path_is_left_with_reason_only() {
        let (mut sender, mut paths) = (Sender::default(), vec![]);
        let mut at = |ms: u64, paths: &[Choice]| {
            let now = Instant::ZERO + Duration::from_millis(ms);
            ids(sender.choose(now, UdpMode::Best, paths, 100))
        };
        assert!(at(0, &paths).is_empty());
        paths.push(path(0, Role::Primary, 30, 1));
        paths.push(path(1, Role::Primary, 40, 1));
        assert_eq!(at(0, &paths), [0]);
        // A little faster, or not for long.
        paths[1].rtt = Duration::from_millis(25);
        assert_eq!((at(1, &paths), at(5000, &paths)), (vec![0], vec![0]));
        paths[1].rtt = Duration::from_millis(10);
        assert_eq!((at(6000, &paths), at(6499, &paths)), (vec![0], vec![0]));
        paths[1].rtt = Duration::from_millis(28);
        assert_eq!(at(6500, &paths), [0]);
        paths[1].rtt = Duration::from_millis(10);
        assert_eq!((at(7000, &paths), at(7500, &paths)), (vec![0], vec![1]));
        // Gone is gone.
        paths[1].usable = false;
        assert_eq!(at(7501, &paths), [0]);
        // Unknown is worse than known, better than nothing.
        (paths[0].rtt, paths[1].usable) = (Duration::ZERO, true);
        assert_eq!((at(8000, &paths), at(8600, &paths)), (vec![0], vec![1]));
    }

    #[test]
    fn roles_count_first() {
        use Role::{Backup, Never, Primary, Secondary};
        let mut paths: Vec<_> = [Never, Backup, Secondary, Primary, Primary]
            .into_iter()
            .enumerate()
            .map(|(id, role)| path(id as u8, role, 10 + id as u64, 10))
            .collect();
        let choose = |mode, paths: &[Choice]| {
            let mut sender = Sender::default();
            let mut all = PathSet::NONE;
            for _ in 0..10 {
                let chosen = sender.choose(Instant::ZERO, mode, paths, 100);
                ids(chosen).into_iter().for_each(|id| all.insert(PathId(id)));
            }
            ids(all)
        };
        let expected: [(usize, [Vec<u8>; 3]); 5] = [
            (5, [vec![3], vec![2, 3, 4], vec![3, 4]]),
            (4, [vec![3], vec![2, 3], vec![3]]),
            (3, [vec![2], vec![2], vec![2]]),
            (2, [vec![1], vec![1], vec![1]]),
            (1, [vec![], vec![], vec![]]),
        ];
        for (usable, expected) in expected {
            paths.iter_mut().skip(usable).for_each(|path| path.usable = false);
            let modes = [UdpMode::Best, UdpMode::Duplicate, UdpMode::Stripe];
            assert_eq!(modes.map(|mode| choose(mode, &paths)), expected, "{usable}");
        }
    }

    proptest! {
        #[test]
        fn stripes_follow_the_rates(
            rates in prop::collection::vec(1..1000u64, 2..5),
            lens in prop::collection::vec(60..1400usize, 400..600),
        ) {
            let mut sender = Sender::default();
            let paths: Vec<_> = rates
                .iter()
                .enumerate()
                .map(|(id, rate)| path(id as u8, Role::Primary, 10, *rate))
                .collect();
            let mut bytes = vec![0; rates.len()];
            for len in &lens {
                let chosen = ids(sender.choose(Instant::ZERO, UdpMode::Stripe, &paths, *len));
                prop_assert_eq!(chosen.len(), 1);
                bytes[usize::from(chosen[0])] += len;
            }
            let total = lens.iter().sum::<usize>() as f64;
            let sum = rates.iter().sum::<u64>() as f64;
            for (bytes, rate) in bytes.iter().zip(&rates) {
                let fair = total * *rate as f64 / sum;
                prop_assert!((*bytes as f64 - fair).abs() <= 1400.0 * rates.len() as f64);
            }
        }
    }
}
