//! A point of the grid, generated from its seed and number: rates, round trips, losses, queues,
//! and whether the paths meet.

use super::Links;
use crate::seed::{Rng, Seed};
use serde::Serialize;
use tabane_engine::Duration;

/// A point of the grid.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Point {
    /// Seed of the grid.
    pub seed: u64,
    /// Number of the point within the grid. Seed and number determine everything else.
    pub number: u32,
    /// Kind of its links.
    #[serde(skip_serializing_if = "Links::is_steady")]
    pub links: Links,
    /// Paths, smallest round trip first: a client opens its connection there, as it has measured
    /// its tunnels.
    #[serde(rename = "ways")]
    pub paths: Vec<AccessPath>,
    /// A link that all paths share.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub core: Option<Core>,
}

/// A path as far as the link that all paths share, if there is one.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct AccessPath {
    /// Bits per second on the wire.
    pub rate_bps: u64,
    /// One-way delay.
    #[serde(serialize_with = "seconds", rename = "delay_s")]
    pub delay: Duration,
    /// Share of packets lost at random, in each direction.
    pub loss: f64,
    /// Mean length of a burst of losses, in the time that so many full packets take; `None`: each
    /// packet by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst: Option<f64>,
    pub queue_bytes: u64,
    /// Standard deviation of the delay.
    #[serde(serialize_with = "seconds", skip_serializing_if = "is_none", rename = "jitter_s")]
    pub jitter: Duration,
    /// How it changes over time: a model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conditions: Option<String>,
}

/// The shared link.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Core {
    /// Bits per second on the wire.
    pub rate_bps: u64,
    pub queue_bytes: u64,
}

impl Core {
    /// One-way delay of the shared link.
    pub const DELAY: Duration = Duration::from_millis(1);

    /// The most payload that it can carry, bits per second.
    pub fn bound_bps(&self) -> f64 {
        self.rate_bps as f64 * super::PAYLOAD_SHARE
    }
}

impl AccessPath {
    /// The most payload that it can carry, bits per second.
    pub fn bound_bps(&self) -> f64 {
        self.rate_bps as f64 * (1.0 - self.loss) * super::PAYLOAD_SHARE
    }
}

/// The fastest path, bits per second.
const FASTEST: (u64, u64) = (10_000_000, 100_000_000);
/// The shortest round trip, microseconds.
const SHORTEST: (u64, u64) = (4_000, 20_000);
/// A queue shorter than this many bytes is no queue at any rate: ten packets.
const LEAST_QUEUE: u64 = 15_000;

impl Point {
    /// The `number`-th point of a seed, with links of this kind. Rates, round trips and shared
    /// links are the same for all kinds.
    pub fn generate(links: Links, seed: u64, number: u32) -> Self {
        let mut rng = Seed(seed).stream(&format!("grid/{number}"));
        let count = if rng.chance(0.3) { 3 } else { 2 };
        let rates = rates_or_rtts(&mut rng, count, FASTEST, 100);
        let mut rtts = rates_or_rtts(&mut rng, count, SHORTEST, 50);
        // It gives the extreme first: rates go down from it, round trips up.
        let base = rtts[0];
        rtts.iter_mut().for_each(|rtt| *rtt = base * base / (*rtt).max(1));
        // Which path has the shortest round trip has nothing to do with which is the fastest.
        for n in (1..count).rev() {
            let k = rng.between(0, n as u64) as usize;
            rtts.swap(n, k);
        }
        let mut paths: Vec<AccessPath> =
            rates.iter().zip(rtts).map(|(r, t)| access_path(&mut rng, *r, t)).collect();
        paths.sort_by_key(|w| w.delay);
        let core = rng.chance(0.25).then(|| core(&mut rng, &paths));
        let links = links.of_point(number);
        if !links.is_steady() {
            links.change(&mut paths, &mut Seed(seed).stream(&format!("grid/{number}/{links}")));
        }
        Self { seed, number, links, paths, core }
    }
}

/// `count` values: one from `range`, the others smaller by a factor of 1 to `ratio`.
fn rates_or_rtts(rng: &mut Rng, count: usize, range: (u64, u64), ratio: u64) -> Vec<u64> {
    let first = scale(rng, range.0, range.1);
    let other = |rng: &mut Rng| first * 1000 / scale(rng, 1000, 1000 * ratio);
    std::iter::once(first).chain((1..count).map(|_| other(rng)).collect::<Vec<_>>()).collect()
}

fn access_path(rng: &mut Rng, rate_bps: u64, rtt_us: u64) -> AccessPath {
    let delay = Duration::from_micros(rtt_us / 2);
    let lossy = rng.chance(0.6);
    // 0.05 to 5 %, in millionths.
    let loss = scale(rng, 500, 50_000) as f64 / 1e6;
    let queue_bytes = queue(rng, rate_bps, rtt_us);
    let loss = if lossy { loss } else { 0.0 };
    let (burst, conditions) = (None, None);
    AccessPath { rate_bps, delay, loss, burst, queue_bytes, jitter: Duration::ZERO, conditions }
}

/// The shared link is narrower than the paths together, and not narrower than half of them.
fn core(rng: &mut Rng, paths: &[AccessPath]) -> Core {
    let sum: u64 = paths.iter().map(|w| w.rate_bps).sum();
    let rate_bps = sum * rng.between(500, 1000) / 1000;
    let rtts = paths.iter().map(|w| 2 * (w.delay + Core::DELAY).as_micros());
    let queue_bytes = queue(rng, rate_bps, rtts.min().unwrap_or(0));
    Core { rate_bps, queue_bytes }
}

/// A quarter to four times the bandwidth-delay product, in bytes.
fn queue(rng: &mut Rng, rate_bps: u64, rtt_us: u64) -> u64 {
    let product = rate_bps / 8 * rtt_us / 1_000_000;
    (product * scale(rng, 250, 4000) / 1000).max(LEAST_QUEUE)
}

/// Between `low` and `high`, every doubling as likely as another.
pub(super) fn scale(rng: &mut Rng, low: u64, high: u64) -> u64 {
    let doublings = (high / low).ilog2();
    let whole = high == low << doublings;
    let base = low << rng.between(0, u64::from(doublings) - u64::from(whole));
    rng.between(base, (2 * base).min(high))
}

fn is_none(jitter: &Duration) -> bool {
    jitter.is_zero()
}

fn seconds<S: serde::Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_what_is_promised_and_nothing_else() {
        let points: Vec<Point> = (0..2000).map(|n| Point::generate(Links::Steady, 7, n)).collect();
        let mut widest = (0.0_f64, 0.0_f64);
        for point in &points {
            let rates = || point.paths.iter().map(|w| w.rate_bps as f64);
            let delays = || point.paths.iter().map(|w| w.delay.as_secs_f64());
            let ratio = |most: f64, least: f64| most / least;
            let rate = ratio(rates().fold(0.0, f64::max), rates().fold(f64::MAX, f64::min));
            let rtt = ratio(delays().fold(0.0, f64::max), delays().fold(f64::MAX, f64::min));
            assert!(rate < 100.5 && rtt < 50.5, "{point:?}");
            widest = (widest.0.max(rate), widest.1.max(rtt));
            assert!(point.paths.iter().all(|w| (0.0..=0.05).contains(&w.loss)));
            assert!(point.paths.is_sorted_by_key(|w| w.delay));
        }
        assert!(widest.0 > 80.0 && widest.1 > 40.0, "{widest:?}");
        let share = |that: fn(&Point) -> bool| points.iter().filter(|p| that(p)).count() as f64;
        assert!((share(|p| p.paths.len() == 3) / 2000.0 - 0.3).abs() < 0.04);
        assert!((share(|p| p.core.is_some()) / 2000.0 - 0.25).abs() < 0.04);
    }

    #[test]
    fn a_point_depends_on_seed_and_number_only() {
        for links in Links::TURN {
            let point = |seed, number| Point::generate(links, seed, number);
            assert_eq!(point(3, 5), point(3, 5));
            assert_ne!(point(3, 5), point(3, 6));
            assert_ne!(point(3, 5).paths, point(4, 5).paths);
        }
    }

    #[test]
    fn kinds_of_links_are_what_they_say() {
        let points = |links| (0..400).map(move |n| Point::generate(links, 7, n));
        let steady: Vec<Point> = points(Links::Steady).collect();
        let share = |links, of_kind: fn(&AccessPath) -> bool| {
            let mut count = (0.0, 0.0);
            for (point, before) in points(links).zip(&steady) {
                assert_eq!(point.core, before.core);
                let same =
                    |p: &AccessPath, q: &AccessPath| (p.rate_bps, p.delay) == (q.rate_bps, q.delay);
                assert!(point.paths.iter().zip(&before.paths).all(|(p, q)| same(p, q)));
                let of_it = point.paths.iter().filter(|path| of_kind(path)).count();
                assert!(of_it > 0, "{point:?}");
                count.0 += of_it as f64;
                count.1 += point.paths.len() as f64;
            }
            count.0 / count.1
        };
        let shares = [
            share(Links::Bursty, |path| {
                path.burst.is_some_and(|burst| (3.0..=30.0).contains(&burst)) && path.loss <= 0.02
            }),
            share(Links::Varying, |path| path.conditions.is_some()),
            share(Links::Bloated, |path| {
                let seconds = path.queue_bytes as f64 * 8.0 / path.rate_bps as f64;
                (0.49..=3.0).contains(&seconds)
            }),
            share(Links::Jittery, |path| {
                let most = Duration::from_millis(8).min(path.delay / 2);
                !path.jitter.is_zero() && path.jitter <= most
            }),
        ];
        // Of two or three one is for sure, the others with 70 %.
        assert!(shares.iter().all(|share| (0.78..0.9).contains(share)), "{shares:?}");
        for (n, point) in points(Links::All).enumerate() {
            assert_eq!(point, Point::generate(Links::TURN[n % 5], 7, n as u32));
        }
    }
}
