//! What travels through the world: a segment, its place on its route, and what happened to it.

use crate::link;
use tabane_wire::{Ecn, Segment};

/// A packet. Boxed on its way, so that queues move a pointer; boxes are used again.
#[derive(Clone, Debug)]
pub(crate) struct Packet {
    /// `None` only while the box waits to be used again.
    pub(crate) segment: Option<Segment>,
    /// Where it is on its route.
    pub(crate) cursor: u32,
    /// Length of the IP packet.
    pub(crate) len: u32,
    /// Random bits that say which of its bits is flipped, if one is.
    pub(crate) damage: Option<u64>,
}

impl Packet {
    /// The segment.
    #[inline]
    pub(crate) fn segment(&self) -> &Segment {
        self.segment.as_ref().expect("invariant: a travelling packet has a segment")
    }
}

impl link::Packet for Box<Packet> {
    #[inline]
    fn wire_len(&self) -> u32 {
        self.len
    }

    #[inline]
    fn ect(&self) -> bool {
        matches!(self.segment().ecn, Ecn::Ect0 | Ecn::Ect1)
    }

    fn mark_ce(&mut self) {
        if let Some(segment) = &mut self.segment {
            segment.ecn = Ecn::Ce;
        }
    }

    fn corrupt(&mut self, bits: u64) {
        self.damage = Some(bits);
    }

    fn duplicate(&self) -> Self {
        self.clone()
    }
}

/// Boxes that are used again.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    #[expect(clippy::vec_box, reason = "the boxes are what is kept")]
    free: Vec<Box<Packet>>,
}

impl Pool {
    /// A box around a segment.
    #[inline]
    pub(crate) fn wrap(&mut self, segment: Segment, cursor: u32, len: u32) -> Box<Packet> {
        match self.free.pop() {
            Some(mut packet) => {
                packet.segment = Some(segment);
                packet.cursor = cursor;
                packet.len = len;
                packet.damage = None;
                packet
            }
            None => Box::new(Packet { segment: Some(segment), cursor, len, damage: None }),
        }
    }

    /// Takes the segment out and keeps the box.
    #[inline]
    pub(crate) fn unwrap(&mut self, mut packet: Box<Packet>) -> Segment {
        let segment = packet.segment.take().expect("invariant: a travelling packet has a segment");
        self.free.push(packet);
        segment
    }
}
