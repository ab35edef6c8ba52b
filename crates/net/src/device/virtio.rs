//! What a TUN device with offloads hands over and takes: a packet, perhaps one of up to 64 KB that
//! stands for many, behind a `virtio_net_hdr` (virtio 1.2 section 5.1.6; of a TUN device the ten
//! bytes without `num_buffers`, in the byte order of the machine).
//!
//! Knows the segmentation of TCP (TSO) and of UDP (USO); nothing here touches a device.

use bytes::Bytes;

/// A packet from the device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Frame {
    /// Whole IP packet.
    pub packet: Bytes,
    /// Whether its transport checksum is there.
    pub checksum: Checksumming,
    /// What it stands for; `None`: for itself.
    pub segmentation: Option<Segmentation>,
}

/// Whether the transport checksum of a packet is to be believed.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Checksumming {
    /// It is there; nobody has verified it.
    #[default]
    Full,
    /// It has been verified.
    Verified,
    /// It holds the sum of the pseudo header only: the data has not left memory.
    Partial {
        /// Where summing starts.
        start: u16,
        /// Where the result belongs, from there.
        offset: u16,
    },
}

/// A packet that stands for several.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Segmentation {
    /// TCP, cut every so many bytes of payload.
    Tcp(u16),
    /// UDP, likewise.
    Udp(u16),
}

/// `VIRTIO_NET_HDR_F_NEEDS_CSUM`
const NEEDS_CHECKSUM: u8 = 1;
/// `VIRTIO_NET_HDR_F_DATA_VALID`
const VERIFIED: u8 = 2;
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
const GSO_UDP_L4: u8 = 5;
/// A bit beside the type.
const GSO_ECN: u8 = 0x80;

/// The header as the kernel writes it and takes it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct VirtioHeader {
    flags: u8,
    gso_type: u8,
    /// Bytes of all headers of the packet.
    header_len: u16,
    gso_size: u16,
    checksum_start: u16,
    checksum_offset: u16,
}

impl VirtioHeader {
    /// Its length.
    pub const LEN: usize = 10;

    /// Before a TCP packet whose checksum is partial (`Segment::emit_headers`); with `size`, one
    /// that is to be cut every so many bytes of payload.
    #[must_use]
    pub fn for_tcp(ip_len: usize, tcp_len: usize, size: Option<u16>, v4: bool) -> Self {
        Self {
            flags: NEEDS_CHECKSUM,
            gso_type: size.map_or(0, |_| if v4 { GSO_TCPV4 } else { GSO_TCPV6 }),
            header_len: (ip_len + tcp_len) as u16,
            gso_size: size.unwrap_or(0),
            checksum_start: ip_len as u16,
            checksum_offset: 16,
        }
    }

    /// Before a UDP packet whose checksum is partial, to be cut every `size` bytes of payload.
    #[must_use]
    pub fn for_udp(ip_len: usize, size: u16) -> Self {
        Self {
            flags: NEEDS_CHECKSUM,
            gso_type: GSO_UDP_L4,
            header_len: (ip_len + 8) as u16,
            gso_size: size,
            checksum_start: ip_len as u16,
            checksum_offset: 6,
        }
    }

    /// Payload bytes of each segment but the last; `None` of a packet that stands for itself.
    #[must_use]
    pub fn segment_size(&self) -> Option<u16> {
        (self.gso_type != 0 && self.gso_size > 0).then_some(self.gso_size)
    }

    /// Where the transport header begins, in a packet that stands for several or whose checksum is
    /// partial.
    #[must_use]
    pub fn transport_start(&self) -> usize {
        self.checksum_start.into()
    }

    /// Where a partial checksum belongs, from the start of the packet; it counts from
    /// [`transport_start`](Self::transport_start) on. `None`: it is there.
    #[must_use]
    pub fn partial_checksum(&self) -> Option<usize> {
        let at = usize::from(self.checksum_start) + usize::from(self.checksum_offset);
        (self.flags & NEEDS_CHECKSUM != 0).then_some(at)
    }

    /// The checksum has been filled in.
    pub fn complete_checksum(&mut self) {
        self.flags &= !NEEDS_CHECKSUM;
    }

    /// As bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[0] = self.flags;
        bytes[1] = self.gso_type;
        let fields = [self.header_len, self.gso_size, self.checksum_start, self.checksum_offset];
        for (at, field) in bytes[2..].chunks_exact_mut(2).zip(fields) {
            at.copy_from_slice(&field.to_ne_bytes());
        }
        bytes
    }

    /// From bytes.
    #[must_use]
    pub fn decode(bytes: &[u8; Self::LEN]) -> Self {
        let field = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
        Self {
            flags: bytes[0],
            gso_type: bytes[1],
            header_len: field(2),
            gso_size: field(4),
            checksum_start: field(6),
            checksum_offset: field(8),
        }
    }

    /// What it says about `packet`; `None` if it is of a kind that nobody asked for.
    #[must_use]
    pub fn frame(&self, packet: Bytes) -> Option<Frame> {
        let checksum = if self.flags & NEEDS_CHECKSUM != 0 {
            Checksumming::Partial { start: self.checksum_start, offset: self.checksum_offset }
        } else if self.flags & VERIFIED != 0 {
            Checksumming::Verified
        } else {
            Checksumming::Full
        };
        let segmentation = match self.gso_type & !GSO_ECN {
            0 => None,
            GSO_TCPV4 | GSO_TCPV6 => Some(Segmentation::Tcp(self.gso_size)),
            GSO_UDP_L4 => Some(Segmentation::Udp(self.gso_size)),
            _ => return None,
        };
        Some(Frame { packet, checksum, segmentation })
    }
}

impl From<Bytes> for Frame {
    /// A packet as it comes from elsewhere: its checksum is to be verified.
    fn from(packet: Bytes) -> Self {
        Self { packet, checksum: Checksumming::Full, segmentation: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_says_what_the_kernel_says() {
        // As a kernel writes them on a machine of this byte order.
        let raw = |flags: u8, kind: u8, fields: [u16; 4]| {
            let mut bytes = [0; VirtioHeader::LEN];
            (bytes[0], bytes[1]) = (flags, kind);
            fields.iter().enumerate().for_each(|(i, f)| {
                bytes[2 + 2 * i..4 + 2 * i].copy_from_slice(&f.to_ne_bytes());
            });
            VirtioHeader::decode(&bytes)
        };
        let packet = Bytes::from_static(b"packet");
        let frame = |header: VirtioHeader| header.frame(packet.clone());
        let tso = raw(1, 1, [52, 1448, 20, 16]);
        let partial = Checksumming::Partial { start: 20, offset: 16 };
        let expected = Frame {
            packet: packet.clone(),
            checksum: partial,
            segmentation: Some(Segmentation::Tcp(1448)),
        };
        assert_eq!(frame(tso), Some(expected.clone()));
        assert_eq!(
            frame(raw(1, 0x84, [72, 1428, 40, 16])).unwrap().segmentation.unwrap(),
            Segmentation::Tcp(1428),
            "IPv6, with ECN"
        );
        let uso = frame(raw(1, 5, [28, 1200, 20, 6])).unwrap();
        assert_eq!(uso.segmentation, Some(Segmentation::Udp(1200)));
        assert_eq!(frame(raw(0, 0, [0; 4])), Some(Frame::from(packet.clone())));
        assert_eq!(frame(raw(2, 0, [0; 4])).unwrap().checksum, Checksumming::Verified);
        assert_eq!(frame(raw(1, 3, [0; 4])), None, "UFO was not asked for");
        let own = VirtioHeader::for_tcp(20, 32, Some(1448), true);
        assert_eq!(own, tso);
        assert_eq!(VirtioHeader::decode(&own.encode()), own);
        let told = |h: VirtioHeader| (h.segment_size(), h.transport_start(), h.partial_checksum());
        assert_eq!(told(own), (Some(1448), 20, Some(36)));
        let mut complete = VirtioHeader::for_udp(40, 1200);
        complete.complete_checksum();
        assert_eq!(told(complete), (Some(1200), 40, None));
        assert_eq!(told(VirtioHeader::default()), (None, 0, None));
    }
}
