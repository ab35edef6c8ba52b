//! Positions inside the engine: 64 bits, never wrapping, one type per space.
//!
//! Both are relative: `Ssn(0)` is the subflow's SYN and `Ssn(1)` its first byte (as RFC 8684
//! numbers subflow bytes in mappings); `Dsn(0)` is the IDSN and `Dsn(1)` the first data byte.
//! On a plain TCP connection the two spaces coincide.
//!
//! Addition saturates: a hostile peer may name a position just before the IDSN, which is the far
//! end of 64 bits here, and what lies there is beyond every window.

use std::ops::{Add, AddAssign, Sub};

/// Subflow sequence number, relative to the initial one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Ssn(pub u64);

/// Data sequence number, relative to the IDSN.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Dsn(pub u64);

impl Add<u64> for Ssn {
    type Output = Self;
    #[inline]
    fn add(self, n: u64) -> Self {
        Self(self.0.saturating_add(n))
    }
}

impl AddAssign<u64> for Ssn {
    #[inline]
    fn add_assign(&mut self, n: u64) {
        self.0 = self.0.saturating_add(n);
    }
}

impl Sub for Ssn {
    type Output = u64;
    /// Bytes from `other` to `self`; 0 if `other` is ahead.
    #[inline]
    fn sub(self, other: Self) -> u64 {
        self.0.saturating_sub(other.0)
    }
}

impl Add<u64> for Dsn {
    type Output = Self;
    #[inline]
    fn add(self, n: u64) -> Self {
        Self(self.0.saturating_add(n))
    }
}

impl AddAssign<u64> for Dsn {
    #[inline]
    fn add_assign(&mut self, n: u64) {
        self.0 = self.0.saturating_add(n);
    }
}

impl Sub for Dsn {
    type Output = u64;
    /// Bytes from `other` to `self`; 0 if `other` is ahead.
    #[inline]
    fn sub(self, other: Self) -> u64 {
        self.0.saturating_sub(other.0)
    }
}
