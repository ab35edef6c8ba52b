//! What fits into a segment (RFC 9293 section 3.7.1, MUST-16; RFC 6691): the MSS counts no options,
//! so that whoever sends subtracts those of each segment.
//!
//! A full segment has space for the timestamps and for MPTCP's mapping. SACK blocks come and go:
//! data never gives way to them, or what was cut to the full size would have to be cut again, and
//! leave in two segments. They ride on data that leaves them space, and else on an ACK of their own
//! (`Receiver::has_unreported`).

use tabane_wire::{SackBlocks, TcpOptions};

/// The space in the segments of a subflow, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Space {
    /// Payload and options of a full segment.
    full: u16,
    /// Whether segments carry timestamps.
    timestamps: bool,
    /// What MPTCP adds to a data segment, without padding.
    mptcp: u16,
}

impl Space {
    /// Timestamps, padded and not.
    const TIMESTAMPS: (u16, u16) = (12, 10);

    /// For packets of which `limit` bytes are left beside the IP and the TCP header. Payload is
    /// cut to `least` bytes at the least, whatever the path claims.
    pub(super) fn new(limit: u16, least: u16, timestamps: bool, mptcp: u16) -> Self {
        let mut space = Self { full: 0, timestamps, mptcp };
        space.full = limit.max(least + space.always());
        space
    }

    /// Payload of a full segment.
    pub(super) fn mss(&self) -> u64 {
        u64::from(self.full - self.always())
    }

    /// The same without what MPTCP adds.
    pub(super) fn bare(&self) -> u64 {
        self.mss() + u64::from(self.mptcp.next_multiple_of(4))
    }

    /// Room for options beside so much payload.
    #[inline]
    pub(super) fn options(&self, payload: usize) -> usize {
        usize::from(self.full).saturating_sub(payload).min(TcpOptions::SPACE)
    }

    /// Whether so much payload with so many bytes of options is one segment.
    pub(super) fn holds(&self, payload: usize, options: usize) -> bool {
        payload <= usize::from(self.full) && options <= self.options(payload)
    }

    /// How many SACK blocks fit beside so much payload: what is padded first is packed where that
    /// is too long, as [`TcpOptions::emitted_len`] says.
    pub(super) fn blocks(&self, payload: usize) -> usize {
        if payload == 0 {
            // What the connection adds is not known yet; it cuts blocks down.
            return SackBlocks::MAX - usize::from(self.timestamps);
        }
        let available = self.options(payload);
        let (padded, packed) = if self.timestamps { Self::TIMESTAMPS } else { (0, 0) };
        let fits = |blocks: &usize| {
            let sack = 2 + 8 * blocks;
            let own = usize::from(self.mptcp);
            let mut len = usize::from(padded) + sack.next_multiple_of(4) + own.next_multiple_of(4);
            if len > TcpOptions::SPACE {
                len = (usize::from(packed) + sack + own).next_multiple_of(4);
            }
            len <= available
        };
        (1..=SackBlocks::MAX).rev().find(fits).unwrap_or(0)
    }

    /// What every data segment carries.
    fn always(&self) -> u16 {
        let timestamps = if self.timestamps { Self::TIMESTAMPS.0 } else { 0 };
        timestamps + self.mptcp.next_multiple_of(4)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tabane_wire::{DataNumber, Dss, Mapping, SeqNum, Timestamps};

    fn options(timestamps: bool, blocks: usize, dss: Option<Dss>) -> TcpOptions {
        let timestamps = timestamps.then_some(Timestamps { value: 1, echo: 2 });
        let mut options = TcpOptions { timestamps, dss, ..TcpOptions::default() };
        for n in 0..blocks as u32 {
            assert!(options.sack.push(SeqNum(n * 20), SeqNum(n * 20 + 10)));
        }
        options
    }

    /// Mappings of all kinds, and their length without padding.
    fn mappings() -> Vec<(Option<Dss>, u16)> {
        let number = |long| if long { DataNumber::Long(1) } else { DataNumber::Short(1) };
        let dss = |long, checksum| Dss {
            data_ack: Some(number(long)),
            mapping: Some(Mapping { dsn: number(long), ssn: 1, length: 100, checksum }),
            data_fin: false,
        };
        vec![
            (None, 0),
            (Some(dss(false, None)), 18),
            (Some(dss(false, Some(7))), 20),
            (Some(dss(true, None)), 26),
            (Some(dss(true, Some(7))), 28),
        ]
    }

    // RFC 9293 section 3.7.1, MUST-16; RFC 6691.
    #[test]
    fn rfc6691_a_segment_with_its_options_is_no_longer_than_the_path_carries() {
        let both = |d| [(d, false), (d, true)];
        for ((dss, own), timestamps) in mappings().into_iter().flat_map(both) {
            for limit in [128, 536, 1220, 1240, 1440, 1460, 8960] {
                let space = Space::new(limit, 88, timestamps, own);
                let mss = space.mss() as usize;
                assert_eq!(space.options(mss), options(timestamps, 0, dss).emitted_len());
                for payload in (1..=mss).rev().take(60).chain([1]) {
                    let len = |blocks| options(timestamps, blocks, dss).emitted_len();
                    let blocks = space.blocks(payload);
                    assert!(payload + len(blocks) <= usize::from(limit), "{space:?} {payload}");
                    assert!(len(blocks) <= TcpOptions::SPACE, "{space:?} {payload}");
                    let more = blocks + 1;
                    let full = more > SackBlocks::MAX
                        || len(more) > TcpOptions::SPACE.min(usize::from(limit) - payload);
                    assert!(full, "{space:?}: {more} blocks fit beside {payload} bytes");
                }
            }
        }
    }

    #[test]
    fn a_path_that_claims_to_carry_nothing_gets_small_segments_all_the_same() {
        let space = Space::new(0, 88, true, 20);
        assert_eq!((space.mss(), space.options(88)), (88, 32));
    }
}
