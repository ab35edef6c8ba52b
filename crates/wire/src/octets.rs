//! Big-endian numbers in and out of byte slices.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// `N` bytes from `at` on.
///
/// # Panics
/// If the slice is too short: callers checked its length.
#[inline]
pub(crate) fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    *bytes[at..].first_chunk().expect("invariant: the caller checked the length")
}

#[inline]
pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes(array(bytes, at))
}

#[inline]
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(array(bytes, at))
}

#[inline]
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(array(bytes, at))
}

#[inline]
pub(crate) fn ipv4_at(bytes: &[u8], at: usize) -> IpAddr {
    IpAddr::V4(Ipv4Addr::from(array::<4>(bytes, at)))
}

#[inline]
pub(crate) fn ipv6_at(bytes: &[u8], at: usize) -> IpAddr {
    IpAddr::V6(Ipv6Addr::from(array::<16>(bytes, at)))
}

/// Writes front to back into a slice that the caller made long enough.
pub(crate) struct Writer<'a> {
    bytes: &'a mut [u8],
    at: usize,
}

impl<'a> Writer<'a> {
    #[inline]
    pub(crate) fn new(bytes: &'a mut [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Bytes written so far.
    #[inline]
    pub(crate) fn written(&self) -> usize {
        self.at
    }

    /// # Panics
    /// If the slice is full.
    #[inline]
    pub(crate) fn put<const N: usize>(&mut self, bytes: [u8; N]) {
        self.bytes[self.at..self.at + N].copy_from_slice(&bytes);
        self.at += N;
    }

    #[inline]
    pub(crate) fn put_u16(&mut self, value: u16) {
        self.put(value.to_be_bytes());
    }

    #[inline]
    pub(crate) fn put_u32(&mut self, value: u32) {
        self.put(value.to_be_bytes());
    }

    #[inline]
    pub(crate) fn put_u64(&mut self, value: u64) {
        self.put(value.to_be_bytes());
    }

    #[inline]
    pub(crate) fn put_address(&mut self, address: IpAddr) {
        match address {
            IpAddr::V4(v4) => self.put(v4.octets()),
            IpAddr::V6(v6) => self.put(v6.octets()),
        }
    }
}
