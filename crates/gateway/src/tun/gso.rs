//! Puts segments of one flow together again for a device that takes them at once (TSO): one
//! header, many payloads, none of them copied. Knows nothing of devices.

use bytes::Bytes;
use tabane_wire::{Flags, Segment};

/// Segments that will leave as one packet.
#[derive(Default, Debug)]
pub(crate) struct Train {
    /// The first, without its payload; `None` when there is none.
    head: Option<Segment>,
    parts: Vec<Bytes>,
    payload_len: usize,
    /// Payload of each segment but the last.
    size: usize,
    /// The last was short, or ends the stream: nothing may follow.
    closed: bool,
}

/// Segments of one packet at most: so many vectors are written at once.
pub(crate) const PARTS_MAX: usize = 64;
/// IP's length field has 16 bits; the largest headers take 100 bytes.
const PAYLOAD_MAX: usize = 65_535 - 100;

impl Train {
    /// Adds `segment` if it continues what is there; else gives it back.
    ///
    /// # Errors
    /// The segment, to be added once what is there has been taken.
    #[allow(clippy::result_large_err)] // It is moved into the next train, not up a stack.
    pub(crate) fn push(&mut self, mut segment: Segment) -> Result<(), Segment> {
        let payload = std::mem::take(&mut segment.payload);
        let Some(head) = &mut self.head else {
            self.size = payload.len();
            self.payload_len = payload.len();
            self.closed = payload.is_empty() || !is_plain(segment.flags);
            self.parts.push(payload);
            self.head = Some(segment);
            return Ok(());
        };
        let fits = !self.closed
            && self.parts.len() < PARTS_MAX
            && !payload.is_empty()
            && payload.len() <= self.size
            && self.payload_len + payload.len() <= PAYLOAD_MAX
            && continues(head, self.payload_len, &segment);
        if !fits {
            segment.payload = payload;
            return Err(segment);
        }
        self.closed = payload.len() < self.size || !is_plain(segment.flags);
        self.payload_len += payload.len();
        self.parts.push(payload);
        head.flags = head.flags | segment.flags;
        Ok(())
    }

    /// Whether there is nothing.
    #[cfg(test)]
    #[must_use]
    pub(crate) fn is_empty(&self) -> bool {
        self.head.is_none()
    }

    /// The header's segment, without payload.
    #[must_use]
    pub(crate) fn head(&self) -> Option<&Segment> {
        self.head.as_ref()
    }

    /// Payloads in order.
    #[must_use]
    pub(crate) fn parts(&self) -> &[Bytes] {
        &self.parts
    }

    /// All payloads together, bytes.
    #[must_use]
    pub(crate) fn payload_len(&self) -> usize {
        self.payload_len
    }

    /// What the packet is to be cut to; `None` if it stands for itself.
    #[must_use]
    pub(crate) fn segment_size(&self) -> Option<u16> {
        (self.parts.len() > 1).then_some(self.size as u16)
    }

    /// Forgets what is there.
    pub(crate) fn clear(&mut self) {
        self.head = None;
        self.parts.clear();
        self.payload_len = 0;
    }
}

/// No SYN, RST or the like, and not the end of the stream.
fn is_plain(flags: Flags) -> bool {
    flags.0 & !(Flags::ACK | Flags::PSH).0 == 0 && flags.contains(Flags::ACK)
}

/// Whether `next` is what cutting a packet with the header of `head` would make of the bytes
/// after its `len`.
fn continues(head: &Segment, len: usize, next: &Segment) -> bool {
    let flags = next.flags.0 & !(Flags::PSH | Flags::FIN).0;
    flags == Flags::ACK.0
        && head.seq.plus(len as u32) == next.seq
        && (head.dst, head.src) == (next.dst, next.src)
        && (head.ack, head.window, head.ecn) == (next.ack, next.window, next.ecn)
        && head.options == next.options
}

#[cfg(test)]
mod tests {
    use super::*;
    use tabane_wire::{Ecn, SeqNum, TcpOptions};

    fn segment(seq: u32, len: usize) -> Segment {
        Segment {
            src: "192.0.2.80:443".parse().unwrap(),
            dst: "10.81.0.31:5000".parse().unwrap(),
            seq: SeqNum(seq),
            ack: SeqNum(9),
            flags: Flags::ACK,
            window: 500,
            ecn: Ecn::NotEct,
            options: TcpOptions::default(),
            payload: vec![seq as u8; len].into(),
        }
    }

    #[test]
    fn what_continues_joins_until_something_short_comes() {
        let mut train = Train::default();
        assert_eq!(train.push(segment(u32::MAX - 99, 100)), Ok(()), "and past the wrap");
        assert_eq!((train.segment_size(), train.payload_len()), (None, 100));
        let pushed = Segment { flags: Flags::ACK | Flags::PSH, ..segment(0, 100) };
        assert_eq!(train.push(pushed), Ok(()));
        assert_eq!(train.push(segment(100, 30)), Ok(()));
        assert_eq!((train.segment_size(), train.payload_len()), (Some(100), 230));
        assert_eq!(train.push(segment(130, 30)), Err(segment(130, 30)), "after a short one");
        assert_eq!(train.head().unwrap().flags, Flags::ACK | Flags::PSH);
        let lengths: Vec<usize> = train.parts().iter().map(Bytes::len).collect();
        assert_eq!(lengths, [100, 100, 30]);
        train.clear();
        assert!(train.is_empty());
        assert_eq!(train.push(segment(130, 30)), Ok(()));
        assert_eq!(train.parts().len(), 1);
    }

    #[test]
    fn the_end_of_the_stream_is_the_last() {
        let mut train = Train::default();
        train.push(segment(0, 100)).unwrap();
        let end = Segment { flags: Flags::ACK | Flags::FIN, ..segment(100, 100) };
        assert_eq!(train.push(end), Ok(()));
        assert!(train.head().unwrap().flags.contains(Flags::FIN));
        assert!(train.push(segment(200, 100)).is_err());
    }

    #[test]
    fn what_differs_goes_by_itself() {
        let base = segment(100, 100);
        let other = |change: fn(&mut Segment)| {
            let mut segment = base.clone();
            change(&mut segment);
            segment
        };
        let strangers = [
            other(|s| s.seq = SeqNum(101)),
            other(|s| s.seq = SeqNum(99)),
            other(|s| s.ack = SeqNum(10)),
            other(|s| s.window = 501),
            other(|s| s.ecn = Ecn::Ect0),
            other(|s| s.dst.set_port(1)),
            other(|s| s.flags = Flags::ACK | Flags::RST),
            other(|s| s.flags = Flags::ACK | Flags::CWR),
            other(|s| s.options.mss = Some(1)),
            other(|s| s.payload = vec![0; 101].into()),
            other(|s| s.payload = Bytes::new()),
        ];
        for stranger in strangers {
            let mut train = Train::default();
            train.push(segment(0, 100)).unwrap();
            assert_eq!(train.push(stranger.clone()), Err(stranger));
            assert_eq!(train.parts().len(), 1);
        }
        for alone in [segment(0, 0), other(|s| s.flags = Flags::SYN)] {
            let mut train = Train::default();
            train.push(alone).unwrap();
            assert!(train.push(segment(0, 100)).is_err());
        }
    }

    #[test]
    fn a_packet_has_an_end() {
        let mut train = Train::default();
        let mut seq = 0;
        while train.push(segment(seq, 1448)).is_ok() {
            seq += 1448;
        }
        assert!(train.payload_len() <= PAYLOAD_MAX && train.payload_len() > PAYLOAD_MAX - 1448);
        train.clear();
        (0..PARTS_MAX as u32).for_each(|i| train.push(segment(i * 8, 8)).unwrap());
        assert!(train.push(segment(PARTS_MAX as u32 * 8, 8)).is_err());
    }
}
