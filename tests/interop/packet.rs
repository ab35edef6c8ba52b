//! What a middlebox does to TCP packets: look, strip options, damage, reset.
//!
//! Byte work of its own on purpose: it must not share a mistake with the parser under test. Knows
//! IPv4 without fragments and IPv6 without extension headers, as the test hosts send them.

const MPTCP: u8 = 30;
const NO_OPERATION: u8 = 1;

/// Flags of a TCP header.
pub(crate) const SYN: u8 = 2;
pub(crate) const RST: u8 = 4;
pub(crate) const ACK: u8 = 16;

/// Where things are in a TCP packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Tcp {
    /// Start of the TCP header.
    header: usize,
    /// Start of the payload.
    payload: usize,
    /// End of the packet.
    end: usize,
    /// Flags.
    pub(crate) flags: u8,
}

impl Tcp {
    /// `None` if it is not TCP.
    pub(crate) fn of(packet: &[u8]) -> Option<Self> {
        let (header, protocol, end) = match packet.first()? >> 4 {
            4 => (usize::from(packet[0] & 15) * 4, *packet.get(9)?, word(packet, 2)),
            _ => (40, *packet.get(6)?, 40 + word(packet, 4)),
        };
        if protocol != 6 || packet.len() < header + 20 || packet.len() < end {
            return None;
        }
        let payload = header + usize::from(packet[header + 12] >> 4) * 4;
        (payload <= end).then_some(Self { header, payload, end, flags: packet[header + 13] })
    }

    pub(crate) fn payload_len(&self) -> usize {
        self.end - self.payload
    }

    /// MPTCP options: position, length and subtype of each.
    pub(crate) fn mptcp(&self, packet: &[u8]) -> Vec<(usize, usize, u8)> {
        let mut found = Vec::new();
        let mut at = self.header + 20;
        while at < self.payload && packet[at] != 0 {
            if packet[at] == NO_OPERATION {
                at += 1;
                continue;
            }
            let Some(&len) = packet[..self.payload].get(at + 1) else { break };
            let len = usize::from(len);
            if len < 2 || at + len > self.payload {
                break;
            }
            if packet[at] == MPTCP && len > 2 {
                found.push((at, len, packet[at + 2] >> 4));
            }
            at += len;
        }
        found
    }

    /// Overwrites every MPTCP option with no-operations; whether there was any.
    pub(crate) fn strip_mptcp(&self, packet: &mut [u8]) -> bool {
        let options = self.mptcp(packet);
        for (at, len, _) in &options {
            packet[*at..at + len].fill(NO_OPERATION);
        }
        self.seal(packet);
        !options.is_empty()
    }

    /// Changes the last payload byte as a helpful proxy would: with a right TCP checksum.
    pub(crate) fn damage(&self, packet: &mut [u8]) {
        packet[self.end - 1] ^= 0x55;
        self.seal(packet);
    }

    /// A bare RST that the receiver of `packet` accepts as its sender's.
    pub(crate) fn reset_upstream(&self, packet: &[u8]) -> Vec<u8> {
        let mut reset = packet[..self.header + 20].to_vec();
        reset[self.header + 12] = 5 << 4;
        reset[self.header + 13] = RST | ACK;
        self.bare(&mut reset)
    }

    /// A bare RST that the sender of `packet` accepts as its receiver's.
    pub(crate) fn reset_back(&self, packet: &[u8]) -> Vec<u8> {
        let mut reset = packet[..self.header + 20].to_vec();
        let (from, to, len) = if packet[0] >> 4 == 4 { (12, 16, 4) } else { (8, 24, 16) };
        reset[from..from + len].copy_from_slice(&packet[to..to + len]);
        reset[to..to + len].copy_from_slice(&packet[from..from + len]);
        let h = self.header;
        reset[h..h + 2].copy_from_slice(&packet[h + 2..h + 4]);
        reset[h + 2..h + 4].copy_from_slice(&packet[h..h + 2]);
        reset[h + 4..h + 8].copy_from_slice(&packet[h + 8..h + 12]);
        reset[h + 8..h + 12].fill(0);
        reset[h + 12] = 5 << 4;
        reset[h + 13] = RST;
        self.bare(&mut reset)
    }

    fn bare(&self, packet: &mut [u8]) -> Vec<u8> {
        let len = packet.len();
        if packet[0] >> 4 == 4 {
            packet[2..4].copy_from_slice(&(len as u16).to_be_bytes());
            packet[10..12].fill(0);
            let sum = !fold(sum(&packet[..self.header]));
            packet[10..12].copy_from_slice(&sum.to_be_bytes());
        } else {
            packet[4..6].copy_from_slice(&((len - 40) as u16).to_be_bytes());
        }
        let bare = Self { end: len, payload: len, ..*self };
        bare.seal(packet);
        packet.to_vec()
    }

    /// Writes the right TCP checksum.
    fn seal(&self, packet: &mut [u8]) {
        let addresses = if packet[0] >> 4 == 4 { 12..20 } else { 8..40 };
        let at = self.header + 16;
        packet[at..at + 2].fill(0);
        let pseudo = sum(&packet[addresses]) + 6 + (self.end - self.header) as u64;
        let checksum = !fold(pseudo + sum(&packet[self.header..self.end]));
        packet[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
    }
}

fn word(packet: &[u8], at: usize) -> usize {
    packet.get(at..at + 2).map_or(0, |b| usize::from(u16::from_be_bytes([b[0], b[1]])))
}

fn sum(bytes: &[u8]) -> u64 {
    let last = |pair: &[u8]| pair.get(1).copied().unwrap_or(0);
    bytes.chunks(2).map(|pair| u64::from(u16::from_be_bytes([pair[0], last(pair)]))).sum()
}

fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An IPv4 ACK with a MPTCP option of subtype 2 between two no-operations, and "abc".
    fn sample() -> Vec<u8> {
        let mut packet = vec![0u8; 51];
        packet[0] = 0x45;
        packet[3] = 51;
        packet[9] = 6;
        packet[12..20].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        packet[20..24].copy_from_slice(&[1, 2, 3, 4]);
        packet[27] = 7;
        packet[31] = 9;
        packet[32] = 7 << 4;
        packet[33] = ACK;
        packet[40..48].copy_from_slice(&[1, 30, 6, 0x20, 9, 9, 9, 0]);
        packet[48..].copy_from_slice(b"abc");
        packet
    }

    fn is_sealed(packet: &[u8]) -> bool {
        let tcp = Tcp::of(packet).unwrap();
        let pseudo = sum(&packet[12..20]) + 6 + (tcp.end - tcp.header) as u64;
        fold(pseudo + sum(&packet[tcp.header..tcp.end])) == 0xffff
    }

    #[test]
    fn options_are_found_and_stripped() {
        let mut packet = sample();
        let tcp = Tcp::of(&packet).unwrap();
        assert_eq!(tcp.payload_len(), 3);
        assert_eq!(tcp.mptcp(&packet), [(41, 6, 2)]);
        assert!(tcp.strip_mptcp(&mut packet));
        assert_eq!(packet[40..48], [1, 1, 1, 1, 1, 1, 1, 0]);
        assert!(is_sealed(&packet) && !tcp.strip_mptcp(&mut packet));
    }

    #[test]
    fn resets_are_bare_and_sealed() {
        let packet = sample();
        let tcp = Tcp::of(&packet).unwrap();
        let next_hop = tcp.reset_upstream(&packet);
        assert_eq!((next_hop.len(), next_hop[27], next_hop[33]), (40, 7, RST | ACK));
        let back = tcp.reset_back(&packet);
        assert_eq!((back[15], back[19], &back[20..24]), (2, 1, &[3u8, 4, 1, 2][..]));
        assert_eq!((back[27], back[33]), (9, RST));
        assert!(is_sealed(&next_hop) && is_sealed(&back));
    }
}
