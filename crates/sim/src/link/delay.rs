//! Propagation delays, one way.

use crate::scenario::LinkParams;
use crate::seed::Rng;
use tabane_engine::Duration;

/// Propagation delays, one way.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum DelayConfig {
    /// The same for all.
    Constant(Duration),
    /// Normally distributed; what would be negative is zero.
    Normal {
        /// Mean.
        mean: Duration,
        /// Standard deviation.
        deviation: Duration,
        /// Packets may overtake each other; else a packet waits for the one before it.
        reorder: bool,
    },
    /// Uniform around `mean`, in what of that is not negative.
    Uniform {
        /// Mean.
        mean: Duration,
        /// Half the width. It stays what it is where it is more than the mean, which may change.
        half: Duration,
        /// As above.
        reorder: bool,
    },
}

impl DelayConfig {
    /// What scenarios ask for.
    pub fn of(params: &LinkParams) -> Self {
        let mean = params.delay.map_or(Duration::ZERO, |delay| delay.0);
        params.jitter.map_or(Self::Constant(mean), |jitter| jitter.around(mean))
    }

    /// Whether packets may overtake each other.
    pub fn reorders(&self) -> bool {
        match *self {
            Self::Constant(_) => false,
            Self::Normal { reorder, .. } | Self::Uniform { reorder, .. } => reorder,
        }
    }

    /// On average, but for what would be negative.
    pub(super) fn mean(&self) -> Duration {
        match *self {
            Self::Constant(mean) | Self::Normal { mean, .. } | Self::Uniform { mean, .. } => mean,
        }
    }

    /// Spread in the same way around another mean.
    pub(super) fn around(&self, mean: Duration) -> Self {
        match *self {
            Self::Constant(_) => Self::Constant(mean),
            Self::Normal { deviation, reorder, .. } => Self::Normal { mean, deviation, reorder },
            Self::Uniform { half, reorder, .. } => Self::Uniform { mean, half, reorder },
        }
    }
}

/// A model of propagation delay, sampled once a packet, in the order in which packets leave.
pub trait Delay: Send {
    /// One-way delay of the next packet. Randomness comes from `rng` alone.
    fn sample(&mut self, rng: &mut Rng) -> Duration;
}

impl Delay for DelayConfig {
    #[inline]
    fn sample(&mut self, rng: &mut Rng) -> Duration {
        match *self {
            Self::Constant(delay) => delay,
            Self::Normal { mean, deviation, .. } => {
                // Negative floats become 0 when cast.
                Duration((mean.0 as f64 + rng.normal() * deviation.0 as f64) as u64)
            }
            Self::Uniform { mean, half, .. } => {
                Duration(rng.between(mean.saturating_sub(half).0, (mean + half).0))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed::Seed;

    fn samples(mut delay: DelayConfig) -> Vec<f64> {
        let mut rng = Seed(5).stream("delay");
        (0..100_000).map(|_| delay.sample(&mut rng).as_secs_f64() * 1e3).collect()
    }

    #[test]
    fn delays_have_their_mean_and_spread() {
        let (mean, deviation) = (Duration::from_millis(45), Duration::from_millis(5));
        let normal = samples(DelayConfig::Normal { mean, deviation, reorder: false });
        let average = normal.iter().sum::<f64>() / normal.len() as f64;
        let within = normal.iter().filter(|d| (40.0..50.0).contains(*d)).count();
        assert!((average - 45.0).abs() < 0.1, "{average}");
        assert!((66_000..70_600).contains(&within), "one deviation holds 68.3 %: {within}");

        let (mean, half) = (Duration::from_millis(20), Duration::from_millis(10));
        let uniform = samples(DelayConfig::Uniform { mean, half, reorder: false });
        let average = uniform.iter().sum::<f64>() / uniform.len() as f64;
        assert!((average - 20.0).abs() < 0.1, "{average}");
        assert!(uniform.iter().all(|d| (10.0..=30.0).contains(d)));
    }

    #[test]
    fn a_uniform_delay_is_never_negative_and_keeps_its_width_around_another_mean() {
        let (mean, half) = (Duration::from_millis(5), Duration::from_millis(20));
        let near = DelayConfig::Uniform { mean, half, reorder: false };
        let uniform = samples(near);
        assert!(uniform.iter().all(|d| (0.0..=25.0).contains(d)));
        let average = uniform.iter().sum::<f64>() / uniform.len() as f64;
        assert!((average - 12.5).abs() < 0.1, "{average}");
        let far = samples(near.around(near.mean() + Duration::from_millis(95)));
        assert!(far.iter().all(|d| (80.0..=120.0).contains(d)));
        assert!(far.iter().any(|d| *d < 81.0) && far.iter().any(|d| *d > 119.0));
    }

    #[test]
    fn a_normal_delay_is_never_negative() {
        let (mean, deviation) = (Duration::from_millis(1), Duration::from_millis(5));
        let normal = samples(DelayConfig::Normal { mean, deviation, reorder: false });
        assert!(normal.iter().all(|d| (0.0..50.0).contains(d)));
        assert!(normal.iter().filter(|d| **d == 0.0).count() > 30_000);
    }
}
