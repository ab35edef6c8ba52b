//! The Internet checksum (RFC 1071): ones' complement sum of 16-bit words, for IPv4, TCP, UDP,
//! ICMP and the MPTCP DSS checksum (RFC 8684 section 3.3.1).
//!
//! Sums are kept in native byte order, which ones' complement arithmetic allows (RFC 1071
//! section 2), and as 32-bit halves in 64-bit counters, which compilers turn into vector code.

use std::net::IpAddr;

/// A sum being built. Pieces may have any length: a piece that starts at an odd offset is
/// counted as if the bytes before it were contiguous with it.
#[derive(Clone, Copy, Default, Debug)]
pub struct Checksum {
    /// Unfolded sum of native-order words.
    sum: u64,
    /// Whether an odd number of bytes was added so far.
    odd: bool,
}

impl Checksum {
    /// The sum of nothing.
    pub const fn new() -> Self {
        Self { sum: 0, odd: false }
    }

    /// The sum of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        let mut sum = Self::new();
        sum.add(bytes);
        sum
    }

    /// The pseudo header of TCP, UDP and ICMPv6 (RFC 9293 section 3.1, RFC 8200 section 8.1).
    /// `length` is that of the upper-layer packet in bytes. Two addresses of different families
    /// give a sum that verifies nothing; callers refuse them before.
    #[inline]
    pub(crate) fn pseudo_header(src: IpAddr, dst: IpAddr, protocol: u8, length: usize) -> Self {
        let mut sum = Self::new();
        for address in [src, dst] {
            match address {
                IpAddr::V4(v4) => sum.add_u32(v4.to_bits()),
                IpAddr::V6(v6) => sum.add(&v6.octets()),
            }
        }
        sum.add_u32(u32::from(protocol));
        sum.add_u32(length as u32);
        sum
    }

    /// Adds `bytes`.
    #[inline]
    pub fn add(&mut self, bytes: &[u8]) {
        self.add_piece(sum_words(bytes), bytes.len());
    }

    /// Copies `from` into `to` and adds it: one pass over memory where two would be needed.
    ///
    /// # Panics
    /// If the lengths differ.
    #[inline]
    pub fn add_copy(&mut self, to: &mut [u8], from: &[u8]) {
        assert_eq!(to.len(), from.len(), "copy between slices of one length");
        self.add_piece(copy_words(to, from), from.len());
    }

    /// Adds a number in network order.
    #[inline]
    pub fn add_u16(&mut self, value: u16) {
        self.add_u32(u32::from(value));
    }

    /// Adds a number in network order.
    #[inline]
    pub fn add_u32(&mut self, value: u32) {
        self.add_piece(u64::from(value.to_be()), 4);
    }

    /// Adds a number in network order.
    #[inline]
    pub fn add_u64(&mut self, value: u64) {
        self.add_u32((value >> 32) as u32);
        self.add_u32(value as u32);
    }

    /// Adds what another sum covers, as if its bytes followed.
    #[inline]
    pub fn add_sum(&mut self, other: Self) {
        self.add_piece(other.sum, usize::from(other.odd));
    }

    /// Counts a zero byte after an odd number of bytes, nothing after an even number.
    #[inline]
    pub fn pad(&mut self) {
        self.odd = false;
    }

    /// The checksum: complement of the folded sum, as a number to be sent in network order.
    /// A sum that included its own correct checksum finishes as 0.
    #[inline]
    pub fn finish(self) -> u16 {
        !u16::from_be(fold16(self.sum))
    }

    #[inline]
    fn add_piece(&mut self, sum: u64, len: usize) {
        // 2^32 is 1 modulo 2^16 - 1, so the high half may be added to the low one.
        let piece = if self.odd { u64::from(fold16(sum).swap_bytes()) } else { fold32(sum) };
        self.sum = fold32(self.sum) + piece;
        self.odd ^= len % 2 == 1;
    }
}

/// The DSS checksum of a mapping (RFC 8684 section 3.3.1) over `data`, the sum of the mapped
/// bytes (none for a lone DATA_FIN), and its pseudo header; `dsn` is always the 64-bit number.
pub fn dss_checksum(data: Checksum, dsn: u64, ssn: u32, length: u16) -> u16 {
    dss_sum(data, dsn, ssn, length).finish()
}

/// Whether `checksum` as received fits the mapping; both representations of zero are accepted.
pub fn dss_checksum_fits(data: Checksum, dsn: u64, ssn: u32, length: u16, checksum: u16) -> bool {
    let mut sum = dss_sum(data, dsn, ssn, length);
    sum.add_u16(checksum);
    sum.finish() == 0
}

fn dss_sum(mut data: Checksum, dsn: u64, ssn: u32, length: u16) -> Checksum {
    data.pad();
    data.add_u64(dsn);
    data.add_u32(ssn);
    data.add_u16(length);
    data
}

#[inline]
fn fold32(sum: u64) -> u64 {
    (sum >> 32) + (sum & 0xffff_ffff)
}

#[inline]
fn fold16(sum: u64) -> u16 {
    let sum = fold32(fold32(sum));
    let sum = (sum >> 16) + (sum & 0xffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    ((sum >> 16) + (sum & 0xffff)) as u16
}

/// Adds the halves of a 64-bit word, so that the compiler needs only masks and shifts of whole
/// vectors. A half overflows after 2^32 words, far beyond any slice summed here (32 GB).
#[inline]
fn add_word(halves: &mut [u64; 2], word: [u8; 8]) {
    let word = u64::from_ne_bytes(word);
    halves[0] += word & 0xffff_ffff;
    halves[1] += word >> 32;
}

fn sum_words(bytes: &[u8]) -> u64 {
    let (words, tail) = bytes.as_chunks::<8>();
    let mut halves = [0; 2];
    for word in words {
        add_word(&mut halves, *word);
    }
    halves[0] + halves[1] + sum_tail(tail)
}

fn copy_words(to: &mut [u8], from: &[u8]) -> u64 {
    // Not as above: with two slices compilers find vectors only in blocks written out, which
    // for one slice they do worse.
    let (from, from_tail) = from.as_chunks::<32>();
    let (to, to_tail) = to.as_chunks_mut::<32>();
    let mut lanes = [0; 8];
    for (to, from) in to.iter_mut().zip(from) {
        for (lane, word) in lanes.iter_mut().zip(from.as_chunks::<4>().0) {
            *lane += u64::from(u32::from_ne_bytes(*word));
        }
        *to = *from;
    }
    to_tail.copy_from_slice(from_tail);
    lanes.iter().sum::<u64>() + sum_words(from_tail)
}

/// At most seven bytes, filled up with zeros.
#[inline]
fn sum_tail(tail: &[u8]) -> u64 {
    let (words, rest) = tail.as_chunks::<4>();
    let whole = words.first().map_or(0, |word| u64::from(u32::from_ne_bytes(*word)));
    let last = match *rest {
        [] => return whole,
        [a] => [a, 0, 0, 0],
        [a, b] => [a, b, 0, 0],
        [a, b, c, ..] => [a, b, c, 0],
    };
    whole + u64::from(u32::from_ne_bytes(last))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// RFC 1071 section 1, word by word.
    fn plain(bytes: &[u8]) -> u16 {
        let mut sum = 0u32;
        for pair in bytes.chunks(2) {
            sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
            sum = (sum >> 16) + (sum & 0xffff);
        }
        !(sum as u16)
    }

    #[test]
    fn the_example_of_rfc_1071() {
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(Checksum::of(&bytes).finish(), !0xddf2);
    }

    #[test]
    fn dss_vectors() {
        let first = 0x5707_62cd_38be_9818 + 1;
        let data = Checksum::of(b"hello mptcp");
        assert_eq!(dss_checksum(data, first, 1, 11), 0xdf80);
        assert!(dss_checksum_fits(data, first, 1, 11, 0xdf80));
        assert!(!dss_checksum_fits(data, first, 1, 11, 0xdf81));
        assert_eq!(dss_checksum(Checksum::new(), first + 11, 0, 1), 0x7547);
    }

    proptest! {
        #[test]
        fn equals_the_plain_sum(bytes in prop::collection::vec(any::<u8>(), 0..3000)) {
            prop_assert_eq!(Checksum::of(&bytes).finish(), plain(&bytes));
            let mut copy = vec![0; bytes.len()];
            let mut sum = Checksum::new();
            sum.add_copy(&mut copy, &bytes);
            prop_assert_eq!(sum.finish(), plain(&bytes));
            prop_assert_eq!(copy, bytes);
        }

        #[test]
        fn pieces_of_any_length_make_the_whole(
            pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..70), 0..8),
        ) {
            let mut pushed = Checksum::new();
            let mut summed = Checksum::new();
            for piece in &pieces {
                pushed.add(piece);
                summed.add_sum(Checksum::of(piece));
            }
            let whole = plain(&pieces.concat());
            prop_assert_eq!(pushed.finish(), whole);
            prop_assert_eq!(summed.finish(), whole);
        }

        #[test]
        fn numbers_count_as_their_bytes(a: u16, b: u32, c: u64) {
            let mut sum = Checksum::new();
            sum.add_u16(a);
            sum.add_u32(b);
            sum.add_u64(c);
            let mut bytes = a.to_be_bytes().to_vec();
            bytes.extend(b.to_be_bytes());
            bytes.extend(c.to_be_bytes());
            prop_assert_eq!(sum.finish(), plain(&bytes));
        }
    }
}
