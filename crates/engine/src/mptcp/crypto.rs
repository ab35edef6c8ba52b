//! Keys, tokens, initial data sequence numbers and HMACs (RFC 8684 sections 3.1, 3.2, 3.4.1).
//!
//! Beware: MP_JOIN takes the leftmost bits of the HMAC, ADD_ADDR the rightmost.

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use std::net::IpAddr;

/// A 64-bit key, as number (sent in network order).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Key(pub u64);

impl Key {
    /// Token (leftmost 32 bits of SHA-256) and IDSN (rightmost 64 bits).
    pub fn token_and_idsn(self) -> (u32, u64) {
        let hash = Sha256::digest(self.0.to_be_bytes());
        (be32(&hash[..4]), be64(&hash[24..]))
    }
}

/// Both keys of a connection, seen from one end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Keys {
    /// That of the end which sees it so.
    pub local: Key,
    /// The key of the other end.
    pub remote: Key,
}

impl Keys {
    /// The same, seen from the peer.
    #[must_use]
    pub fn swapped(self) -> Self {
        Self { local: self.remote, remote: self.local }
    }

    /// HMAC of a join sent by this end: its key and nonce first.
    fn join(self, local_nonce: u32, remote_nonce: u32) -> [u8; 32] {
        let mut message = [0; 8];
        message[..4].copy_from_slice(&local_nonce.to_be_bytes());
        message[4..].copy_from_slice(&remote_nonce.to_be_bytes());
        self.hmac(&message)
    }

    /// What this end, as responder, puts on the SYN+ACK: leftmost 64 bits.
    pub fn join_syn_ack(self, local_nonce: u32, remote_nonce: u32) -> u64 {
        be64(&self.join(local_nonce, remote_nonce)[..8])
    }

    /// What this end, as initiator, puts on the third packet: leftmost 160 bits.
    pub fn join_ack(self, local_nonce: u32, remote_nonce: u32) -> [u8; 20] {
        let mut left = [0; 20];
        left.copy_from_slice(&self.join(local_nonce, remote_nonce)[..20]);
        left
    }

    /// What this end puts on an ADD_ADDR: rightmost 64 bits.
    pub fn add_addr(self, address_id: u8, address: IpAddr, port: Option<u16>) -> u64 {
        let mut message = Vec::with_capacity(19);
        message.push(address_id);
        match address {
            IpAddr::V4(a) => message.extend_from_slice(&a.octets()),
            IpAddr::V6(a) => message.extend_from_slice(&a.octets()),
        }
        message.extend_from_slice(&port.unwrap_or(0).to_be_bytes());
        be64(&self.hmac(&message)[24..])
    }

    fn hmac(self, message: &[u8]) -> [u8; 32] {
        let mut key = [0; 16];
        key[..8].copy_from_slice(&self.local.0.to_be_bytes());
        key[8..].copy_from_slice(&self.remote.0.to_be_bytes());
        let mut mac = Hmac::<Sha256>::new_from_slice(&key)
            .expect("invariant: HMAC takes keys of every length");
        mac.update(message);
        mac.finalize().into_bytes().into()
    }
}

fn be32(bytes: &[u8]) -> u32 {
    u32::from_be_bytes(bytes.try_into().expect("invariant: the caller cuts 4 bytes"))
}

fn be64(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(bytes.try_into().expect("invariant: the caller cuts 8 bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tabane_wire::Checksum;
    use tabane_wire::checksum::dss_checksum;

    const A: Key = Key(0x0123_4567_89ab_cdef);
    const B: Key = Key(0xfedc_ba98_7654_3210);
    const RA: u32 = 0x1122_3344;
    const RB: u32 = 0xaabb_ccdd;
    const AT_A: Keys = Keys { local: A, remote: B };

    #[test]
    fn tokens_and_idsns() {
        assert_eq!(A.token_and_idsn(), (0x55c5_3f5d, 0x5707_62cd_38be_9818));
        assert_eq!(B.token_and_idsn(), (0x18f9_781b, 0x2808_18bf_0fa7_e28e));
    }

    #[test]
    fn join_takes_the_leftmost_bits() {
        let ack = AT_A.join_ack(RA, RB);
        let hex: String = ack.iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(hex, "f61753d6b8ac227764b9d1b17a6f5ceeec9d1a8a");
        assert_eq!(AT_A.swapped().join_syn_ack(RB, RA), 0x3bae_5abc_810a_33c2);
    }

    #[test]
    fn add_addr_takes_the_rightmost_bits() {
        let address = "192.0.2.10".parse().unwrap();
        assert_eq!(AT_A.add_addr(2, address, None), 0x41a2_cd70_995c_c0ef);
        assert_eq!(AT_A.add_addr(2, address, Some(8080)), 0xac3b_1228_f652_3c4c);
    }

    #[test]
    fn checksums_of_the_reference() {
        let idsn = A.token_and_idsn().1;
        let data = Checksum::of(b"hello mptcp");
        assert_eq!(dss_checksum(data, idsn.wrapping_add(1), 1, 11), 0xdf80);
        assert_eq!(dss_checksum(Checksum::default(), idsn.wrapping_add(12), 0, 1), 0x7547);
    }
}
