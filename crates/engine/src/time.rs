//! Time as the engine sees it: nanoseconds since an origin that the driver chooses.
//!
//! Nothing in the engine reads a clock. Both types are one `u64`, because they are compared and
//! added on every segment.

use std::ops::{Add, AddAssign, Div, Mul, Sub};

/// A point in time: nanoseconds since the driver's origin.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Instant(pub u64);

impl Instant {
    /// The origin: 0 ns.
    pub const ZERO: Self = Self(0);
    /// Later than anything that happens.
    pub const FAR_FUTURE: Self = Self(u64::MAX);

    /// Time since `earlier`, zero if that is in the future.
    #[inline]
    pub fn saturating_since(self, earlier: Self) -> Duration {
        Duration(self.0.saturating_sub(earlier.0))
    }

    /// Whole milliseconds since the origin.
    #[inline]
    pub fn as_millis(self) -> u64 {
        self.0 / 1_000_000
    }

    /// Seconds since the origin, for reports.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

/// A span of time in nanoseconds. Arithmetic saturates.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Duration(pub u64);

impl Duration {
    /// The empty duration.
    pub const ZERO: Self = Self(0);
    /// The longest span (584 years).
    pub const MAX: Self = Self(u64::MAX);

    /// So many seconds.
    pub const fn from_secs(s: u64) -> Self {
        Self(s * 1_000_000_000)
    }
    /// So many milliseconds.
    pub const fn from_millis(ms: u64) -> Self {
        Self(ms * 1_000_000)
    }
    /// So many microseconds.
    pub const fn from_micros(us: u64) -> Self {
        Self(us * 1_000)
    }
    /// From fractional seconds; negative and NaN become zero.
    pub fn from_secs_f64(s: f64) -> Self {
        Self((s * 1e9) as u64)
    }
    /// Its length in milliseconds, rounded down.
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000_000
    }
    /// Its length in microseconds, rounded down.
    pub const fn as_micros(self) -> u64 {
        self.0 / 1_000
    }
    /// Its length in seconds.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
    /// `self - other`, at least zero.
    #[inline]
    #[must_use]
    pub fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
    /// By how much one of both is longer than the other.
    #[inline]
    #[must_use]
    pub fn abs_diff(self, other: Self) -> Self {
        Self(self.0.abs_diff(other.0))
    }
    /// Whether this is zero.
    pub fn is_zero(self) -> bool {
        self.0 == 0
    }
}

impl From<std::time::Duration> for Duration {
    fn from(d: std::time::Duration) -> Self {
        Self(u64::try_from(d.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl From<Duration> for std::time::Duration {
    fn from(d: Duration) -> Self {
        Self::from_nanos(d.0)
    }
}

impl Add<Duration> for Instant {
    type Output = Self;
    #[inline]
    fn add(self, d: Duration) -> Self {
        Self(self.0.saturating_add(d.0))
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, d: Duration) {
        *self = *self + d;
    }
}

/// Saturates at zero: clocks that pause or step back must not panic the engine.
impl Sub for Instant {
    type Output = Duration;
    #[inline]
    fn sub(self, earlier: Self) -> Duration {
        self.saturating_since(earlier)
    }
}

impl Add for Duration {
    type Output = Self;
    #[inline]
    fn add(self, d: Self) -> Self {
        Self(self.0.saturating_add(d.0))
    }
}

impl Sub for Duration {
    type Output = Self;
    #[inline]
    fn sub(self, d: Self) -> Self {
        self.saturating_sub(d)
    }
}

impl Mul<u64> for Duration {
    type Output = Self;
    #[inline]
    fn mul(self, n: u64) -> Self {
        Self(self.0.saturating_mul(n))
    }
}

impl Div<u64> for Duration {
    type Output = Self;
    #[inline]
    fn div(self, n: u64) -> Self {
        Self(self.0 / n)
    }
}

/// `a * b / c` without overflow on the way, saturating; `c` is not zero. Nearly always 64 bits hold
/// the product, and to divide 128 takes several times as long.
#[inline]
pub(crate) fn mul_div(a: u64, b: u64, c: u64) -> u64 {
    match a.checked_mul(b) {
        Some(product) => product / c,
        None => {
            let wide = u128::from(a) * u128::from(b) / u128::from(c);
            u64::try_from(wide).unwrap_or(u64::MAX)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::mul_div;

    #[test]
    fn products_may_be_longer_than_their_quotients() {
        assert_eq!(mul_div(1448, 1_000_000_000, 3), 482_666_666_666);
        assert_eq!(mul_div(u64::MAX, 10, 20), u64::MAX / 2);
        assert_eq!(mul_div(u64::MAX, 2, 1), u64::MAX);
    }
}
