//! 32-bit TCP sequence numbers and their wrap-around arithmetic (RFC 9293 section 3.4).
//!
//! Wrapping exists only here, at the wire: inside the engine positions are 64 bits wide and
//! [`SeqNum::unwrap_near`] is the way in.

/// A sequence or acknowledgement number as it stands in a TCP header.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct SeqNum(pub u32);

impl SeqNum {
    /// `self + n`, modulo 2^32.
    #[inline]
    #[must_use]
    pub fn plus(self, n: u32) -> Self {
        Self(self.0.wrapping_add(n))
    }

    /// Signed distance `self - other`, in the half-open range of 2^31 either way.
    #[inline]
    pub fn distance(self, other: Self) -> i32 {
        self.0.wrapping_sub(other.0) as i32
    }

    /// Whether `self` comes before `other` (RFC 9293 section 3.4).
    #[inline]
    pub fn before(self, other: Self) -> bool {
        self.distance(other) < 0
    }

    /// The 64-bit position nearest to `near` whose number is `self`, when `base` is the number
    /// of position 0. `None` if that position would be negative.
    #[inline]
    pub fn unwrap_near(self, base: SeqNum, near: u64) -> Option<u64> {
        let expected = base.plus(near as u32);
        near.checked_add_signed(i64::from(self.distance(expected)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unwrap_crosses_the_32_bit_boundary_both_ways() {
        let base = SeqNum(0xffff_fff0);
        assert_eq!(base.plus(0x20).unwrap_near(base, 0x18), Some(0x20));
        assert_eq!(base.plus(0x10).unwrap_near(base, 0x18), Some(0x10));
        let near = 5_000_000_000;
        assert_eq!(base.plus(near as u32).unwrap_near(base, near + 7), Some(near));
        assert_eq!(SeqNum(0xffff_ffe0).unwrap_near(base, 3), None);
    }
}
