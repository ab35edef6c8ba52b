//! ICMP and ICMPv6 as an end host needs them: echo requests are answered (RFC 1122 section
//! 3.2.2.6, RFC 4443 section 4.2), "packet too big" lowers the MTU of a path if it is about a
//! packet that was really sent (RFC 5927 section 4). Everything else is ignored.

use std::net::IpAddr;
use tabane_wire::icmp::{TooBig, checksum};
use tabane_wire::ip::{IpHeader, protocol};

/// What to do with a packet.
#[derive(PartialEq, Debug)]
pub enum Answer {
    /// It is for the engine.
    NotIcmp,
    /// This packet goes back.
    Reply(Vec<u8>),
    /// A router reports that a packet was too big.
    TooBig(TooBig),
    /// Nothing.
    Ignored,
}

/// Longest echo answered, bytes.
const ECHO_MAX: usize = 9_000;

/// Looks at a packet that came to a host with these addresses.
#[must_use]
pub fn answer(packet: &[u8], addresses: &[IpAddr]) -> Answer {
    // Without extension headers, which ping does not send: this is asked of every packet.
    let is_icmp = match packet.first().map(|byte| byte >> 4) {
        Some(4) => packet.get(9) == Some(&protocol::ICMP),
        Some(6) => packet.get(6) == Some(&protocol::ICMPV6),
        _ => false,
    };
    if !is_icmp {
        return Answer::NotIcmp;
    }
    if let Ok(report) = TooBig::parse(packet) {
        return Answer::TooBig(report);
    }
    echo(packet, addresses).map_or(Answer::Ignored, Answer::Reply)
}

fn echo(packet: &[u8], addresses: &[IpAddr]) -> Option<Vec<u8>> {
    let (request, range) = IpHeader::parse(packet).ok()?;
    let icmp = packet.get(range)?;
    let v4 = request.src.is_ipv4();
    let (asked, answered, number) =
        if v4 { (8, 0, protocol::ICMP) } else { (128, 129, protocol::ICMPV6) };
    let wanted = request.protocol == number
        && (8..=ECHO_MAX).contains(&icmp.len())
        && icmp[..2] == [asked, 0]
        && addresses.contains(&request.dst)
        && checksum(&request, icmp) == 0;
    if !wanted {
        return None;
    }
    let header = IpHeader::new(request.dst, request.src, number);
    let mut reply = vec![0; 40 + icmp.len()];
    let start = header.emit(&mut reply, icmp.len()).ok()?;
    reply.truncate(start + icmp.len());
    reply[start..].copy_from_slice(icmp);
    reply[start] = answered;
    reply[start + 2..start + 4].fill(0);
    let checksum = checksum(&header, &reply[start..]);
    reply[start + 2..start + 4].copy_from_slice(&checksum.to_be_bytes());
    Some(reply)
}

/// Remembers the large packets sent last, to tell a real report from a forged one.
#[derive(Debug)]
pub struct SentLog {
    ring: Box<[Sent; RING]>,
    next: usize,
}

/// Packets remembered: those beyond are forgotten, and reports about them not believed.
const RING: usize = 1024;
/// Smaller packets fit everywhere (RFC 791 section 3.1).
const SMALL: usize = 576;

#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Sent {
    /// Ports and sequence number.
    tcp: [u8; 8],
    /// The last four bytes of the destination.
    dst: [u8; 4],
    len: u32,
}

impl Default for SentLog {
    fn default() -> Self {
        Self { ring: Box::new([Sent::default(); RING]), next: 0 }
    }
}

impl SentLog {
    /// Notes a packet of the engine: TCP, its IP header without options.
    pub fn note(&mut self, packet: &[u8]) {
        if packet.len() <= SMALL {
            return;
        }
        let (dst, tcp) = if packet[0] >> 4 == 4 { (16, 20) } else { (36, 40) };
        let mut sent = Sent { len: packet.len() as u32, ..Sent::default() };
        sent.dst.copy_from_slice(&packet[dst..dst + 4]);
        sent.tcp.copy_from_slice(&packet[tcp..tcp + 8]);
        self.ring[self.next % RING] = sent;
        self.next = self.next.wrapping_add(1);
    }

    /// The MTU that a report calls for; `None` if it is about nothing that was sent, or the
    /// packet was no larger than it says.
    #[must_use]
    pub fn believe(&self, report: &TooBig) -> Option<u16> {
        let mut tcp = [0; 8];
        tcp[..2].copy_from_slice(&report.src.port().to_be_bytes());
        tcp[2..4].copy_from_slice(&report.dst.port().to_be_bytes());
        tcp[4..].copy_from_slice(&report.seq.0.to_be_bytes());
        let dst: [u8; 4] = match report.dst.ip() {
            IpAddr::V4(v4) => v4.octets(),
            IpAddr::V6(v6) => (v6.to_bits() as u32).to_be_bytes(),
        };
        // Less than every link must carry is not believed either (RFC 8201 section 4).
        let floor = if report.dst.is_ipv4() { SMALL as u32 } else { 1280 };
        let mtu = report.mtu.max(floor);
        let about = |sent: &Sent| sent.tcp == tcp && sent.dst == dst && sent.len > mtu;
        self.ring.iter().any(about).then(|| u16::try_from(mtu).unwrap_or(u16::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tabane_wire::icmp::emit_too_big;
    use tabane_wire::{Ecn, Flags, Segment, SeqNum, TcpOptions};

    fn ping(src: &str, dst: &str) -> Vec<u8> {
        let (src, dst): (IpAddr, IpAddr) = (src.parse().unwrap(), dst.parse().unwrap());
        let v4 = src.is_ipv4();
        let (kind, number) = if v4 { (8, protocol::ICMP) } else { (128, protocol::ICMPV6) };
        let mut icmp = vec![kind, 0, 0, 0, 0x12, 0x34, 0, 1, b'h', b'i', b'!'];
        let header = IpHeader::new(src, dst, number);
        let sum = checksum(&header, &icmp);
        icmp[2..4].copy_from_slice(&sum.to_be_bytes());
        let mut packet = vec![0; 60];
        let start = header.emit(&mut packet, icmp.len()).unwrap();
        packet.truncate(start);
        packet.extend_from_slice(&icmp);
        packet
    }

    #[test]
    fn pings_to_us_are_answered() {
        for (host, us) in [("10.0.0.1", "10.0.0.2"), ("fd00::1", "fd00::2")] {
            let ours = [us.parse().unwrap()];
            let Answer::Reply(reply) = answer(&ping(host, us), &ours) else { panic!("{us}") };
            let (header, range) = IpHeader::parse(&reply).unwrap();
            assert_eq!((header.src.to_string(), header.dst.to_string()), (us.into(), host.into()));
            assert!(reply[range.clone()].ends_with(b"\x12\x34\0\x01hi!"));
            // The reply is no request: it is not answered in its turn.
            assert_eq!(answer(&reply, &[host.parse().unwrap()]), Answer::Ignored);
            // Not to others, and not damaged.
            assert_eq!(answer(&ping(host, us), &[]), Answer::Ignored);
            let mut damaged = ping(host, us);
            *damaged.last_mut().unwrap() ^= 1;
            assert_eq!(answer(&damaged, &ours), Answer::Ignored);
        }
    }

    fn segment(src: &str, dst: &str) -> Vec<u8> {
        let segment = Segment {
            src: src.parse().unwrap(),
            dst: dst.parse().unwrap(),
            seq: SeqNum(77),
            ack: SeqNum(0),
            flags: Flags::ACK,
            window: 1,
            ecn: Ecn::NotEct,
            options: TcpOptions::default(),
            payload: vec![7; 1400].into(),
        };
        let mut packet = vec![0; segment.wire_len()];
        segment.emit(&mut packet).unwrap();
        packet
    }

    #[test]
    fn only_reports_about_sent_packets_are_believed() {
        for (src, dst, router, mtu) in [
            ("10.0.0.1:4000", "10.0.0.2:80", "10.9.9.9", 1200),
            ("[fd00::1]:4000", "[fd00::2]:80", "fd09::9", 1300),
        ] {
            let packet = segment(src, dst);
            let mut buffer = [0; 1500];
            let len = emit_too_big(&mut buffer, router.parse().unwrap(), mtu, &packet).unwrap();
            let Answer::TooBig(report) = answer(&buffer[..len], &[]) else { panic!("{src}") };
            let mut log = SentLog::default();
            assert_eq!(log.believe(&report), None, "nothing was sent");
            log.note(&packet);
            assert_eq!(log.believe(&report), Some(mtu as u16));
            assert_eq!(log.believe(&TooBig { seq: SeqNum(78), ..report }), None);
            assert_eq!(log.believe(&TooBig { mtu: 1500, ..report }), None);
            assert!(log.believe(&TooBig { mtu: 0, ..report }).is_some_and(|m| m >= 576));
            for _ in 0..RING {
                log.note(&segment(dst, src));
            }
            assert_eq!(log.believe(&report), None, "forgotten");
        }
    }
}
