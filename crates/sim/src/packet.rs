//! What travels through the world: a segment, its place on its route, and what happened to it.

use crate::link;
use tabane_engine::cache::fetch;
use tabane_wire::{Ecn, Segment};

/// A packet. Queues move this handful of words; what they and routers ask for is in it, so that
/// the segment itself, cold in memory by then, is touched by hosts only.
#[derive(Clone, Debug)]
pub(crate) struct Packet {
    /// `None` only while the box waits to be used again.
    segment: Box<Option<Segment>>,
    /// Where it is on its route.
    pub(crate) cursor: u32,
    /// One more than the number of the bit that was flipped; 0 if none was.
    damage: u32,
    /// Length of the IP packet.
    len: u32,
    /// ECN-capable and not yet marked.
    ect: bool,
}

impl Packet {
    /// The segment.
    #[inline]
    pub(crate) fn segment(&self) -> &Segment {
        self.segment.as_ref().as_ref().expect("invariant: a travelling packet has a segment")
    }

    /// Asks for the memory of the segment: it was written long ago.
    #[inline]
    pub(crate) fn prefetch(&self) {
        fetch(&*self.segment);
    }

    /// Length of the IP packet.
    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// The bit of the IP packet that was flipped on the way.
    #[inline]
    pub(crate) fn flipped_bit(&self) -> Option<usize> {
        self.damage.checked_sub(1).map(|bit| bit as usize)
    }
}

impl link::Packet for Packet {
    #[inline]
    fn wire_len(&self) -> u32 {
        self.len
    }

    #[inline]
    fn ect(&self) -> bool {
        self.ect
    }

    fn mark_ce(&mut self) {
        if let Some(segment) = self.segment.as_mut() {
            segment.ecn = Ecn::Ce;
        }
        self.ect = false;
    }

    fn corrupt(&mut self, bits: u64) {
        // An IP packet has fewer than 2^19 bits.
        self.damage = (bits % (u64::from(self.len) * 8)) as u32 + 1;
    }

    fn duplicate(&self) -> Self {
        self.clone()
    }
}

/// Boxes that are used again.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    #[expect(clippy::vec_box, reason = "the boxes are what is kept")]
    free: Vec<Box<Option<Segment>>>,
}

impl Pool {
    /// A packet at the start of its route.
    #[inline]
    pub(crate) fn wrap(&mut self, segment: Segment, cursor: u32) -> Packet {
        let len = segment.wire_len() as u32;
        let ect = matches!(segment.ecn, Ecn::Ect0 | Ecn::Ect1);
        let segment = match self.free.pop() {
            Some(mut empty) => {
                *empty = Some(segment);
                empty
            }
            None => Box::new(Some(segment)),
        };
        Packet { segment, cursor, damage: 0, len, ect }
    }

    /// Takes the segment out and keeps the box.
    #[inline]
    pub(crate) fn unwrap(&mut self, packet: Packet) -> Segment {
        let mut full = packet.segment;
        let segment = full.take().expect("invariant: a travelling packet has a segment");
        self.free.push(full);
        segment
    }
}
