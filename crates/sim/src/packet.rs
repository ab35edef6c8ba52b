//! What travels through the world: a segment, its place on its route, and what happened to it.

use crate::link;
use crate::prefetch::fetch;
use bytes::Bytes;
use tabane_wire::{Ecn, Flags, Segment};

/// A packet. Queues move these two words, in registers; what they and routers ask for is in them,
/// so that the segment itself, cold in memory by then, is touched by hosts only.
#[derive(Clone, Debug)]
pub(crate) struct Packet {
    carried: Box<Carried>,
    label: Label,
}

/// A segment and, where hosts have segmentation offload, those behind it in the same super-packet.
#[derive(Clone, Debug)]
pub(crate) struct Carried {
    segment: Segment,
    rest: Option<Box<Carried>>,
}

impl Carried {
    fn blank() -> Self {
        Self { segment: Segment::blank(), rest: None }
    }

    /// The segment, or the first.
    #[inline]
    pub(crate) fn segment(&self) -> &Segment {
        &self.segment
    }

    /// All of them.
    pub(crate) fn segments(&self) -> impl Iterator<Item = &Segment> {
        std::iter::successors(Some(self), |carried| carried.rest.as_deref())
            .map(|carried| &carried.segment)
    }

    /// All but the first.
    #[inline]
    pub(crate) fn rest(&self) -> Option<&Self> {
        self.rest.as_deref()
    }

    /// Length of all of them as IP packets.
    #[cold]
    #[inline(never)]
    fn len(&self) -> u64 {
        self.segments().map(|segment| segment.wire_len() as u64).sum()
    }

    /// Whether none of them is longer.
    #[cold]
    #[inline(never)]
    fn fits(&self, mtu: u32) -> bool {
        self.segments().all(|segment| segment.wire_len() <= mtu as usize)
    }
}

/// Segments that leave a host just now, to travel as one super-packet.
#[derive(Default)]
pub(crate) struct Held {
    #[expect(clippy::vec_box, reason = "the boxes are what travels")]
    all: Vec<Box<Carried>>,
}

impl Held {
    /// Longest super-packet, less what its headers take.
    const MOST: usize = 64_000;

    /// Whether `next` may follow in the same one, as a host's stack makes them: data of one size
    /// but for the last, without a gap, the headers otherwise the same.
    pub(crate) fn takes(&self, next: &Carried) -> bool {
        let ([first, ..], [.., last]) = (&*self.all, &*self.all) else { return false };
        let (first, last, next) = (&first.segment, &last.segment, &next.segment);
        let (len, size) = (last.payload.len(), first.payload.len());
        (last.src, last.dst, last.ack, last.window) == (next.src, next.dst, next.ack, next.window)
            && last.flags == Flags::ACK
            && next.flags.contains(Flags::ACK)
            && !next.flags.intersects(Flags::FIN | Flags::SYN | Flags::RST)
            && len == size
            && (1..=size).contains(&next.payload.len())
            && next.seq == last.seq.plus(len as u32)
            && last.ecn == next.ecn
            && last.options.timestamps == next.options.timestamps
            && last.options.mptcp.is_none()
            && next.options.mptcp.is_none()
            && (self.all.len() + 1) * size <= Self::MOST
    }

    pub(crate) fn push(&mut self, carried: Box<Carried>) {
        self.all.push(carried);
    }

    /// All of them as one; `None` if there are none.
    pub(crate) fn take(&mut self) -> Option<Box<Carried>> {
        let mut whole = None;
        while let Some(mut one) = self.all.pop() {
            one.rest = whole;
            whole = Some(one);
        }
        whole
    }
}

/// From the lowest bit on: where the packet is on its route, the length of the IP packet, whether
/// it is ECN-capable and not yet marked, and one more than the number of the bit that was flipped
/// (0 if none was).
#[derive(Clone, Copy, Debug)]
struct Label(u64);

impl Label {
    const CURSOR: u32 = 27;
    const LEN: u32 = 17;
    const ECT: u64 = 1 << (Self::CURSOR + Self::LEN);
    const DAMAGE: u32 = Self::CURSOR + Self::LEN + 1;
}

impl Packet {
    /// Cursors are below this.
    pub(crate) const MAX_CURSOR: u32 = 1 << Label::CURSOR;

    /// At the start of its route.
    #[inline]
    pub(crate) fn new(carried: Box<Carried>, cursor: u32) -> Self {
        let segment = &carried.segment;
        let mut len = segment.wire_len() as u64;
        if let Some(rest) = carried.rest() {
            len += rest.len();
        }
        debug_assert!(cursor < Self::MAX_CURSOR && len < 1 << Label::LEN);
        let ect = matches!(segment.ecn, Ecn::Ect0 | Ecn::Ect1);
        let ect = if ect { Label::ECT } else { 0 };
        let label = Label(u64::from(cursor) | len << Label::CURSOR | ect);
        Self { carried, label }
    }

    /// The segment, or the first.
    #[inline]
    pub(crate) fn segment(&self) -> &Segment {
        &self.carried.segment
    }

    /// All that travel as this packet.
    #[inline]
    pub(crate) fn carried(&self) -> &Carried {
        &self.carried
    }

    /// The box, for the pool.
    #[inline]
    pub(crate) fn into_carried(self) -> Box<Carried> {
        self.carried
    }

    /// Whether its segments are no longer than that.
    #[inline]
    pub(crate) fn fits(&self, mtu: u32) -> bool {
        self.len() <= mtu || self.carried.fits(mtu)
    }

    /// Asks for the memory of the segment: it was written long ago.
    #[inline]
    pub(crate) fn prefetch(&self) {
        fetch(&self.carried.segment);
    }

    /// Where it is on its route.
    #[inline]
    pub(crate) fn cursor(&self) -> u32 {
        (self.label.0 & (u64::from(Self::MAX_CURSOR) - 1)) as u32
    }

    /// One hop on.
    #[inline]
    pub(crate) fn advance(&mut self) {
        self.label.0 += 1;
    }

    /// Length of the IP packet, or of all of them.
    #[inline]
    pub(crate) fn len(&self) -> u32 {
        (self.label.0 >> Label::CURSOR) as u32 & ((1 << Label::LEN) - 1)
    }

    /// The bit of the IP packet that was flipped on the way.
    #[inline]
    pub(crate) fn flipped_bit(&self) -> Option<usize> {
        (self.label.0 >> Label::DAMAGE).checked_sub(1).map(|bit| bit as usize)
    }
}

impl link::Packet for Packet {
    #[inline]
    fn wire_len(&self) -> u32 {
        self.len()
    }

    #[inline]
    fn ect(&self) -> bool {
        self.label.0 & Label::ECT != 0
    }

    fn mark_ce(&mut self) {
        self.carried.segment.ecn = Ecn::Ce;
        let mut more = self.carried.rest.as_deref_mut();
        while let Some(carried) = more {
            carried.segment.ecn = Ecn::Ce;
            more = carried.rest.as_deref_mut();
        }
        self.label.0 &= !Label::ECT;
    }

    fn corrupt(&mut self, bits: u64) {
        // An IP packet has fewer than 2^19 bits; of a super-packet the end is spared.
        let bit = bits % (u64::from(self.len().min(0xffff)) * 8);
        let rest = self.label.0 & ((1 << Label::DAMAGE) - 1);
        self.label.0 = rest | (bit + 1) << Label::DAMAGE;
    }

    fn duplicate(&self) -> Self {
        self.clone()
    }

    fn flow(&self) -> u64 {
        let Segment { src, dst, .. } = &self.carried.segment;
        let address = |ip: std::net::IpAddr| match ip {
            std::net::IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
            std::net::IpAddr::V6(ip) => ip.octets(),
        };
        let [from, to] = [src, dst].map(|end| address(end.ip()));
        let ports = [src, dst].map(|end| end.port().to_be_bytes());
        link::flow_hash(&[&from, &to, ports.as_flattened()])
    }
}

/// Boxes that are used again.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    /// Their segments have nothing in them that takes memory.
    #[expect(clippy::vec_box, reason = "the boxes are what is kept")]
    free: Vec<Box<Carried>>,
}

impl Pool {
    /// Boxes kept; links that duplicate packets bring more than are taken.
    const MOST: usize = 1 << 16;

    /// A segment to be filled in; `take` gives it out.
    #[inline]
    pub(crate) fn blank(&mut self) -> &mut Segment {
        if self.free.is_empty() {
            self.free.push(Box::new(Carried::blank()));
        }
        &mut self.free.last_mut().expect("invariant: there is one now").segment
    }

    /// The segment that `blank` has shown.
    #[inline]
    pub(crate) fn take(&mut self) -> Box<Carried> {
        self.free.pop().unwrap_or_else(|| Box::new(Carried::blank()))
    }

    /// The same again.
    pub(crate) fn copy_of(&mut self, carried: &Carried) -> Box<Carried> {
        let mut copy = self.boxed(carried.segment.clone());
        copy.rest = carried.rest().map(|rest| self.copy_of(rest));
        copy
    }

    /// The segment in a box that has been used before.
    pub(crate) fn boxed(&mut self, segment: Segment) -> Box<Carried> {
        *self.blank() = segment;
        self.take()
    }

    /// Keeps the boxes of all but the first segment.
    #[cold]
    #[inline(never)]
    fn take_apart(&mut self, carried: &mut Carried) {
        let mut next = carried.rest.take();
        while let Some(mut carried) = next {
            next = carried.rest.take();
            self.recycle(carried);
        }
    }

    /// Keeps the box for another.
    #[inline]
    pub(crate) fn recycle(&mut self, mut carried: Box<Carried>) {
        carried.segment.payload = Bytes::new();
        carried.segment.options.mptcp = None;
        if carried.rest.is_some() {
            self.take_apart(&mut carried);
        }
        if self.free.len() < Self::MOST {
            self.free.push(carried);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::Packet as _;

    #[test]
    fn what_is_noted_of_a_packet_does_not_meet() {
        let mut segment = Segment::blank();
        segment.ecn = Ecn::Ect0;
        // With the headers the longest IP packet.
        segment.payload = Bytes::from(vec![0; 65_535 - 40]);
        let mut packet = Packet::new(Pool::default().boxed(segment), Packet::MAX_CURSOR - 2);
        assert_eq!((packet.len(), packet.ect(), packet.flipped_bit()), (65_535, true, None));
        packet.advance();
        packet.corrupt(65_535 * 8 - 1);
        assert_eq!(packet.cursor(), Packet::MAX_CURSOR - 1);
        assert_eq!((packet.len(), packet.ect()), (65_535, true));
        assert_eq!(packet.flipped_bit(), Some(65_535 * 8 - 1));
        packet.corrupt(65_535 * 8 + 3);
        packet.mark_ce();
        assert_eq!((packet.flipped_bit(), packet.ect()), (Some(3), false));
        assert_eq!((packet.cursor(), packet.len()), (Packet::MAX_CURSOR - 1, 65_535));
        assert_eq!(packet.segment().ecn, Ecn::Ce);
    }

    #[test]
    fn a_used_box_holds_no_memory() {
        let mut pool = Pool::default();
        pool.blank().payload = Bytes::from(vec![1; 1000]);
        let full = pool.take();
        assert_eq!(full.segment.payload.len(), 1000);
        pool.recycle(full);
        assert!(pool.blank().payload.is_empty() && pool.free.len() == 1);
        let [one, two] = [(); 2].map(|()| pool.copy_of(&Carried::blank()));
        assert!(pool.free.is_empty(), "copies take boxes, too");
        pool.recycle(one);
        pool.recycle(two);
        assert_eq!(pool.free.len(), 2);
    }
}
