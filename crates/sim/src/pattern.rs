//! The bytes that flows carry: a fixed pattern, so that sending allocates nothing and a receiver
//! can tell from a byte's position what it must be.

use bytes::Bytes;
use std::sync::LazyLock;

/// Length after which it repeats: a prime number of full segments, so that writes end at segment
/// boundaries and no plausible misplacement is a whole period.
pub const PERIOD: usize = 1448 * 727;

static PATTERN: LazyLock<&'static [u8]> = LazyLock::new(|| {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut bytes = vec![0; PERIOD.next_multiple_of(8)];
    for eight in bytes.chunks_exact_mut(8) {
        // xorshift64: any sequence without short cycles will do.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        eight.copy_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(PERIOD);
    bytes.leak()
});

/// The pattern of one direction of one flow: it begins at its own place.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Pattern {
    origin: usize,
}

impl Pattern {
    /// The pattern of stream number `stream`; different streams differ at the same position.
    pub fn of(stream: u64) -> Self {
        Self { origin: (stream.wrapping_mul(104_729) % PERIOD as u64) as usize }
    }

    /// Bytes from `position` on: at most `max`, fewer where the period ends.
    #[inline]
    pub fn from(self, position: u64, max: u64) -> Bytes {
        let all: &'static [u8] = &PATTERN;
        let start = self.start(position);
        let len = ((PERIOD - start) as u64).min(max) as usize;
        Bytes::from_static(&all[start..start + len])
    }

    /// Whether `bytes` are those from `position` on.
    pub fn matches(self, position: u64, mut bytes: &[u8]) -> bool {
        let mut start = self.start(position);
        while !bytes.is_empty() {
            let len = (PERIOD - start).min(bytes.len());
            if bytes[..len] != PATTERN[start..start + len] {
                return false;
            }
            bytes = &bytes[len..];
            start = 0;
        }
        true
    }

    #[inline]
    fn start(self, position: u64) -> usize {
        ((position + self.origin as u64) % PERIOD as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_in_the_wrong_place_is_seen() {
        let pattern = Pattern::of(3);
        let near_end = PERIOD as u64 - pattern.origin as u64 - 10;
        for position in [0, 1447, near_end] {
            let mut bytes = pattern.from(position, 5).to_vec();
            bytes.extend_from_slice(&pattern.from(position + 5, 5));
            bytes.extend_from_slice(&pattern.from(position + 10, 5));
            assert!(pattern.matches(position, &bytes));
            assert!(!pattern.matches(position + 1, &bytes));
            assert!(!pattern.matches(position + 1448, &bytes));
            assert!(!Pattern::of(4).matches(position, &bytes));
            bytes[12] ^= 1;
            assert!(!pattern.matches(position, &bytes));
        }
    }
}
