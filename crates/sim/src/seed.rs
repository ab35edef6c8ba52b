//! Randomness: one seed, and named streams derived from it.
//!
//! A stream depends on the seed and its own name only, so that adding a link never changes what
//! another one draws. Streams are ChaCha8, which is the same on every platform; distributions use
//! exactly specified floating-point operations (+ - * / sqrt) and a logarithm of our own, because
//! those of the C library differ between platforms in the last digit.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng};
use siphasher::sip128::{Hasher128, SipHasher24};
use std::hash::Hasher;
use tabane_engine::Duration;

/// The seed of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seed(pub u64);

impl Seed {
    /// The stream called `name`, such as `link/wifi/up/loss`, from its beginning.
    pub fn stream(self, name: &str) -> Rng {
        Rng { stream: ChaCha8Rng::from_seed(self.key(name)), spare: None }
    }

    /// 32 bytes for the part called `name`: what an endpoint is seeded with.
    pub fn key(self, name: &str) -> [u8; 32] {
        let mut key = [0; 32];
        for (half, chunk) in key.chunks_exact_mut(16).enumerate() {
            let mut hasher = SipHasher24::new_with_keys(self.0, half as u64);
            hasher.write(name.as_bytes());
            chunk.copy_from_slice(&hasher.finish128().as_u128().to_le_bytes());
        }
        key
    }
}

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub struct Rng {
    stream: ChaCha8Rng,
    /// The polar method makes normal numbers in pairs.
    spare: Option<f64>,
}

impl Rng {
    /// 64 random bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.stream.next_u64()
    }

    /// Uniform in 0 up to, and without, 1: 53 random bits.
    #[inline]
    pub fn uniform(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Uniform in `low ..= high`. The bias of the multiplication is below 2^-64 times the range.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        let range = u128::from(high.saturating_sub(low)) + 1;
        low + ((u128::from(self.bits()) * range) >> 64) as u64
    }

    /// True with this probability. Draws once, whatever the probability.
    #[inline]
    pub fn chance(&mut self, probability: f64) -> bool {
        self.uniform() < probability
    }

    /// Exponentially distributed with mean 1.
    pub fn exponential(&mut self) -> f64 {
        -ln(1.0 - self.uniform())
    }

    /// Exponentially distributed span with this mean.
    pub fn exponential_span(&mut self, mean: Duration) -> Duration {
        Duration((self.exponential() * mean.0 as f64) as u64)
    }

    /// Normally distributed with mean 0 and deviation 1 (Marsaglia's polar method).
    pub fn normal(&mut self) -> f64 {
        if let Some(spare) = self.spare.take() {
            return spare;
        }
        loop {
            let (u, v) = (2.0 * self.uniform() - 1.0, 2.0 * self.uniform() - 1.0);
            let s = u * u + v * v;
            if s > 0.0 && s < 1.0 {
                let scale = (-2.0 * ln(s) / s).sqrt();
                self.spare = Some(v * scale);
                return u * scale;
            }
        }
    }
}

/// Natural logarithm of a positive normal number, to about the last digit, from exactly specified
/// operations only: ln(m 2^e) = e ln 2 + 2 artanh((m - 1) / (m + 1)) with m near 1.
pub(crate) fn ln(x: f64) -> f64 {
    debug_assert!(x.is_normal() && x > 0.0);
    let mut exponent = ((x.to_bits() >> 52) & 0x7ff) as i64 - 1023;
    let mut m = f64::from_bits((x.to_bits() & ((1 << 52) - 1)) | (1023 << 52));
    if m > std::f64::consts::SQRT_2 {
        m /= 2.0;
        exponent += 1;
    }
    let s = (m - 1.0) / (m + 1.0);
    let square = s * s;
    // |s| < 0.1716, so the eleventh term is below 2^-53 of the first.
    let mut series = 0.0;
    for k in (0..12_u32).rev() {
        series = series * square + 1.0 / f64::from(2 * k + 1);
    }
    exponent as f64 * std::f64::consts::LN_2 + 2.0 * s * series
}

/// The exponential function, likewise: e^x = 2^k e^r with |r| at most half of ln 2. Infinite or 0
/// where the result has no place.
pub(crate) fn exp(x: f64) -> f64 {
    let k = (x / std::f64::consts::LN_2).round();
    if !(-1021.0..=1023.0).contains(&k) {
        return if x > 0.0 { f64::INFINITY } else { 0.0 };
    }
    // ln 2 in two parts, the first with zeros at its end: its product with k is exact.
    let r = (x - k * 0.693_147_180_369_123_8) - k * 1.908_214_929_270_587_7e-10;
    // The fifteenth term is below 2^-53 of the sum.
    let mut series = 1.0;
    for n in (1..=14_u32).rev() {
        series = 1.0 + series * r / f64::from(n);
    }
    series * f64::from_bits(((k as i64 + 1023) as u64) << 52)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_depend_on_seed_and_name_only() {
        let draws = |seed, name: &str| {
            let mut rng = Seed(seed).stream(name);
            [rng.bits(), rng.bits()]
        };
        assert_eq!(draws(7, "link/wifi/up/loss"), draws(7, "link/wifi/up/loss"));
        assert_ne!(draws(7, "link/wifi/up/loss"), draws(8, "link/wifi/up/loss"));
        assert_ne!(draws(7, "link/wifi/up/loss"), draws(7, "link/wifi/down/loss"));
    }

    /// Changing these numbers changes every published result: never do it silently.
    #[test]
    fn streams_stay_what_they_are() {
        let mut rng = Seed(1).stream("a");
        assert_eq!(rng.bits(), 10_980_267_849_479_701_943);
        assert_eq!(rng.normal(), -0.639_300_984_927_416_3);
        assert_eq!(rng.exponential(), 0.008_854_037_670_154_74);
    }

    #[test]
    fn logarithms_are_right() {
        for x in [1e-300, 1e-17, 0.1, 0.5, 0.999_999, 1.0, 1.41, 1.42, 2.0, 10.0, 1e300] {
            let error = (ln(x) - x.ln()).abs();
            assert!(error <= x.ln().abs() * 4e-16, "ln {x}: {} {}", ln(x), x.ln());
        }
    }

    #[test]
    fn exponentials_are_right() {
        for x in [-700.0, -20.5, -1.0, -1e-9, 0.0, 0.3, 0.35, 1.0, 5.5, 100.0, 700.0_f64] {
            let error = (exp(x) - x.exp()).abs();
            assert!(error <= x.exp() * 4e-16, "exp {x}: {} {}", exp(x), x.exp());
        }
        assert_eq!((exp(-1e9), exp(1e9)), (0.0, f64::INFINITY));
    }

    #[test]
    fn distributions_have_their_moments() {
        let mut rng = Seed(3).stream("moments");
        let n = 200_000;
        let mut moments = |draw: fn(&mut Rng) -> f64| {
            let draws: Vec<f64> = (0..n).map(|_| draw(&mut rng)).collect();
            let mean = draws.iter().sum::<f64>() / f64::from(n);
            let var = draws.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / f64::from(n);
            (mean, var)
        };
        let near = |(mean, var): (f64, f64), (m, v): (f64, f64)| {
            assert!((mean - m).abs() < 0.01 && (var - v).abs() < 0.03, "{mean} {var}");
        };
        near(moments(Rng::uniform), (0.5, 1.0 / 12.0));
        near(moments(Rng::normal), (0.0, 1.0));
        near(moments(Rng::exponential), (1.0, 1.0));
        near(moments(|r| r.between(3, 4) as f64), (3.5, 0.25));
        near(moments(|r| f64::from(u8::from(r.chance(0.2)))), (0.2, 0.16));
    }
}
