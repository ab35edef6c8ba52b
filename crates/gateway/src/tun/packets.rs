//! What the host's packets are: TCP, datagrams, questions for names, echo requests. Of the rest the
//! sender is told that it is prohibited, where it may be told anything; each kind is counted.
//!
//! Fragments are put together: a host makes them of what is longer than its link's MTU, as SIP,
//! RADIUS and large pings are.

use crate::PACKET_MAX;
use crate::udp::fragment::{self, Reassembler};
use bytes::{Bytes, BytesMut};
use std::net::{IpAddr, SocketAddr};
use tabane_engine::Instant;
use tabane_net::device::virtio::{Checksumming, Frame, Segmentation};
use tabane_wire::icmp::{emit_too_big, emit_unreachable};
use tabane_wire::ip::{IpHeader, protocol};
use tabane_wire::segment::Trust;
use tabane_wire::{Checksum, Datagram, Ecn, ParseError, Segment, Unreachable};

/// Tells the host's packets apart.
#[derive(Debug)]
pub(crate) struct Packets {
    config: PacketsConfig,
    counts: Counts,
    reassembler: Reassembler,
}

/// Settings of [`Packets`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct PacketsConfig {
    /// Names are asked for at port 53 of these.
    pub dns: Vec<IpAddr>,
    /// Largest datagram that the bond carries as it is, IP header included; what was cut on its
    /// way here may be cut again.
    pub mtu: u16,
}

/// A packet of the host.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Inbound {
    /// For [`super::LocalStack::handle_segment`]; perhaps as large as 64 KB.
    Tcp(Segment),
    /// Datagrams to somewhere.
    Udp(Datagrams),
    /// Datagrams to the resolver.
    Dns(Datagrams),
    /// An echo request or reply, the whole IP packet with its checksum complete.
    Echo(Bytes),
    /// This packet goes back to the host.
    Answer(Bytes),
    /// Dropped and counted.
    Nothing,
}

/// Datagrams of one flow, as a program sent them with one call; an iterator.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Datagrams {
    /// The program.
    pub(crate) src: SocketAddr,
    /// Where to.
    pub(crate) dst: SocketAddr,
    /// ECN codepoint of the IP header.
    pub(crate) ecn: Ecn,
    /// Their payloads, one after the other.
    payload: Bytes,
    /// Length of each but the last.
    each: usize,
    left: usize,
}

/// How many packets were what.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Counts {
    /// TCP, a large one counted once.
    pub(crate) tcp: u64,
    /// Datagrams.
    pub udp: u64,
    /// Questions for names.
    pub dns: u64,
    /// Echo requests and replies.
    pub(crate) echo: u64,
    /// Dropped or refused: fragments that make no packet.
    pub(crate) fragments: u64,
    /// Dropped, the host told: too big for the bond.
    pub(crate) too_big: u64,
    /// Dropped: to a group or to everybody.
    pub(crate) multicast: u64,
    /// Refused: neither TCP nor UDP nor echo. ICMP errors among them are dropped.
    pub(crate) other: u64,
    /// Dropped: not as a packet must be.
    pub(crate) malformed: u64,
}

impl Packets {
    /// With these settings.
    #[must_use]
    pub(crate) fn new(config: PacketsConfig) -> Self {
        Self { config, counts: Counts::default(), reassembler: Reassembler::default() }
    }

    /// What has come so far.
    pub(crate) fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Tells what a packet is.
    pub(crate) fn classify(&mut self, now: Instant, frame: Frame) -> Inbound {
        if fragment::is_fragment(&frame.packet) {
            return self.fragment(now, &frame.packet);
        }
        self.whole(frame, usize::from(self.config.mtu))
    }

    /// A packet of at most `largest` bytes, if it is not TCP.
    fn whole(&mut self, frame: Frame, largest: usize) -> Inbound {
        let Some(number) = protocol_of(&frame.packet) else {
            return self.uncommon(&frame, largest);
        };
        match number {
            protocol::TCP => self.segment(&frame),
            protocol::UDP => self.datagrams(&frame, largest),
            protocol::ICMP | protocol::ICMPV6 => self.echo(frame, largest),
            _ => self.uncommon(&frame, largest),
        }
    }

    fn fragment(&mut self, now: Instant, packet: &[u8]) -> Inbound {
        // To a group: not carried anyway, and not to be in the way of what is.
        if crate::inner::peek(packet).is_some_and(|peek| is_to_many(peek.dst)) {
            self.counts.multicast += 1;
            return Inbound::Nothing;
        }
        let before = self.reassembler.dropped();
        let whole = self.reassembler.add(now, packet);
        self.counts.fragments += self.reassembler.dropped() - before;
        whole.map_or(Inbound::Nothing, |whole| self.whole(Bytes::from(whole).into(), PACKET_MAX))
    }

    /// Extension headers, and what is not carried at all.
    fn uncommon(&mut self, frame: &Frame, largest: usize) -> Inbound {
        match IpHeader::parse(&frame.packet) {
            Ok((header, _)) if header.protocol == protocol::UDP => self.datagrams(frame, largest),
            Ok((header, _)) if header.protocol == protocol::TCP => self.segment(frame),
            Ok((header, _)) => {
                // Multicast listeners report with a hop-by-hop option.
                if is_to_many(header.dst) {
                    self.counts.multicast += 1;
                    return Inbound::Nothing;
                }
                self.other(&frame.packet)
            }
            Err(error) => self.refuse(error),
        }
    }

    fn segment(&mut self, frame: &Frame) -> Inbound {
        match Segment::parse_with(&frame.packet, trust(frame)) {
            Ok(segment) => {
                self.counts.tcp += 1;
                Inbound::Tcp(segment)
            }
            Err(error) => self.refuse(error),
        }
    }

    fn datagrams(&mut self, frame: &Frame, largest: usize) -> Inbound {
        let datagram = match Datagram::parse(&frame.packet, trust(frame)) {
            Ok(datagram) => datagram,
            Err(error) => return self.refuse(error),
        };
        let Datagram { src, dst, ecn, payload } = datagram;
        if is_to_many(dst.ip()) {
            self.counts.multicast += 1;
            return Inbound::Nothing;
        }
        let whole = payload.len();
        let (each, count) = match frame.segmentation {
            Some(Segmentation::Udp(each)) if each > 0 => {
                let each = usize::from(each).min(whole.max(1));
                (each, whole.div_ceil(each).max(1))
            }
            _ => (whole, 1),
        };
        let headers = if src.is_ipv4() { 28 } else { 48 };
        if headers + each > largest {
            return self.too_big(&frame.packet);
        }
        let datagrams = Datagrams { src, dst, ecn, payload, each, left: count };
        if dst.port() == 53 && self.config.dns.contains(&dst.ip()) {
            self.counts.dns += count as u64;
            return Inbound::Dns(datagrams);
        }
        self.counts.udp += count as u64;
        Inbound::Udp(datagrams)
    }

    fn echo(&mut self, frame: Frame, largest: usize) -> Inbound {
        let (header, range) = match IpHeader::parse(&frame.packet) {
            Ok(parsed) => parsed,
            Err(error) => return self.refuse(error),
        };
        let kind = frame.packet.get(range.start).copied();
        let known: &[u8] = if header.src.is_ipv4() { &[0, 8] } else { &[128, 129] };
        if header.dst.is_multicast() {
            self.counts.multicast += 1;
            return Inbound::Nothing;
        }
        if range.len() < 8 || kind.is_none_or(|kind| !known.contains(&kind)) {
            return self.other(&frame.packet);
        }
        if range.end > largest {
            self.counts.too_big += 1;
            return Inbound::Nothing;
        }
        self.counts.echo += 1;
        Inbound::Echo(completed(frame, range.end))
    }

    fn other(&mut self, packet: &[u8]) -> Inbound {
        self.counts.other += 1;
        prohibited(packet).map_or(Inbound::Nothing, Inbound::Answer)
    }

    fn too_big(&mut self, packet: &[u8]) -> Inbound {
        self.counts.too_big += 1;
        let Ok((header, _)) = IpHeader::parse(packet) else { return Inbound::Nothing };
        let mut answer = [0; ANSWER_MAX];
        let mtu = u32::from(self.config.mtu);
        match emit_too_big(&mut answer, header.dst, mtu, packet) {
            Ok(len) => Inbound::Answer(Bytes::copy_from_slice(&answer[..len])),
            Err(_) => Inbound::Nothing,
        }
    }

    fn refuse(&mut self, why: ParseError) -> Inbound {
        match why {
            // Behind other extension headers, where no host puts it.
            ParseError::Fragment => self.counts.fragments += 1,
            _ => self.counts.malformed += 1,
        }
        Inbound::Nothing
    }
}

impl Iterator for Datagrams {
    type Item = Datagram;

    fn next(&mut self) -> Option<Datagram> {
        self.left = self.left.checked_sub(1)?;
        let len = self.each.min(self.payload.len());
        let payload = self.payload.split_to(len);
        Some(Datagram { src: self.src, dst: self.dst, ecn: self.ecn, payload })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Datagrams {}

/// Longest message about a packet (RFC 4443 section 2.4 c).
const ANSWER_MAX: usize = 1280;
/// The upper layer where nothing lies between; `None` where something may.
fn protocol_of(packet: &[u8]) -> Option<u8> {
    match packet.first()? >> 4 {
        4 => packet.get(9).copied(),
        6 => packet.get(6).copied(),
        _ => None,
    }
}

/// The kernel vouches for what it did not sum up, and for what it has verified.
fn trust(frame: &Frame) -> Trust {
    match frame.checksum {
        Checksumming::Full => Trust::Verify,
        Checksumming::Verified | Checksumming::Partial { .. } => Trust::Intact,
    }
}

fn is_to_many(address: IpAddr) -> bool {
    address.is_multicast() || matches!(address, IpAddr::V4(v4) if v4.is_broadcast())
}

/// The first `len` bytes of a packet with its checksum complete.
fn completed(frame: Frame, len: usize) -> Bytes {
    let Checksumming::Partial { start, offset } = frame.checksum else {
        return frame.packet.slice(..len);
    };
    let mut packet = BytesMut::from(&frame.packet[..len]);
    let (start, at) = (usize::from(start), usize::from(start) + usize::from(offset));
    if at + 2 <= len {
        let sum = Checksum::of(&packet[start..]).finish();
        packet[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    }
    packet.freeze()
}

/// That a whole packet is not carried; `None` where nothing may be said of it. Of what routers say,
/// this is what Linux tells programs that have not asked to be told.
pub(crate) fn prohibited(packet: &[u8]) -> Option<Bytes> {
    let (header, _) = IpHeader::parse(packet).ok()?;
    let mut answer = [0; ANSWER_MAX];
    let why = Unreachable::Prohibited;
    let len = emit_unreachable(&mut answer, header.dst, why, packet).ok()?;
    Some(Bytes::copy_from_slice(&answer[..len]))
}

#[cfg(test)]
mod tests;
