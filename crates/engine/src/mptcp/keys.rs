//! Keys and what follows from them (RFC 8684 sections 3.1 and 3.3.1): tokens, data sequence numbers
//! on the wire, checksums, and what the MP_CAPABLE handshake says and agrees on.

use super::crypto::{Key, Keys};
use super::mapping::{Mapping, Sum};
use crate::config::MptcpConfig;
use crate::record::FallbackReason;
use crate::seq::{Dsn, Ssn};
use tabane_wire::checksum::dss_checksum;
use tabane_wire::mptcp::MpCapable;
use tabane_wire::{Checksum, DataNumber, Flags, MptcpOption, Segment};

/// A key of ours, with its token and initial data sequence number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnKey {
    key: Key,
    token: u32,
    idsn: u64,
}

impl OwnKey {
    pub(crate) fn new(key: Key) -> Self {
        let (token, idsn) = key.token_and_idsn();
        Self { key, token, idsn }
    }

    /// What peers name the connection by when they join.
    pub(crate) fn token(&self) -> u32 {
        self.token
    }

    /// Whether a peer that says this number knows the key.
    pub(super) fn is(&self, number: u64) -> bool {
        self.key.0 == number
    }
}

/// What we say of ourselves until the peer's key is known.
pub(super) struct Handshake {
    own: OwnKey,
    /// As server: the SYN required DSS checksums, or we do.
    checksum: bool,
}

impl Handshake {
    pub(super) fn new(own: OwnKey) -> Self {
        Self { own, checksum: false }
    }

    pub(super) fn own(&self) -> &OwnKey {
        &self.own
    }

    /// As server: DSS checksums will be used.
    pub(super) fn require_checksum(&mut self) {
        self.checksum = true;
    }

    /// MP_CAPABLE of the SYN.
    pub(super) fn syn(&self, config: &MptcpConfig) -> MpCapable {
        MpCapable {
            checksum_required: config.checksum,
            deny_join_initial: config.deny_join_initial,
            ..ours()
        }
    }

    /// MP_CAPABLE of the SYN+ACK.
    pub(super) fn syn_ack(&self, config: &MptcpConfig) -> MpCapable {
        MpCapable {
            checksum_required: self.checksum || config.checksum,
            deny_join_initial: config.deny_join_initial,
            sender_key: Some(self.own.key.0),
            ..ours()
        }
    }

    /// As client: what a SYN+ACK agrees on, if it has the peer's key.
    ///
    /// # Errors
    /// Why it is plain TCP.
    pub(super) fn answered(
        &self,
        segment: &Segment,
        config: &MptcpConfig,
    ) -> Result<Agreed, FallbackReason> {
        let syn_ack = segment.flags.contains(Flags::ACK);
        let capable = find_capable(segment).filter(|_| syn_ack);
        let capable = capable.ok_or(FallbackReason::PeerPlain)?;
        let key = capable.sender_key.filter(|_| acceptable(capable));
        let key = key.ok_or(FallbackReason::Mismatch)?;
        Ok(self.agree(Key(key), capable, capable.checksum_required || config.checksum))
    }

    /// As server: what the third packet, or the first data, agrees on, if it has both keys.
    ///
    /// # Errors
    /// Why it is plain TCP.
    pub(super) fn confirmed(&self, segment: &Segment) -> Result<Agreed, FallbackReason> {
        let capable = find_capable(segment).ok_or(FallbackReason::OptionsStripped)?;
        match (capable.sender_key, capable.receiver_key) {
            (Some(theirs), Some(ours)) if self.own.is(ours) && acceptable(capable) => {
                Ok(self.agree(Key(theirs), capable, self.checksum))
            }
            _ => Err(FallbackReason::Mismatch),
        }
    }

    fn agree(&self, remote_key: Key, capable: &MpCapable, checksum: bool) -> Agreed {
        let (remote_token, remote_idsn) = remote_key.token_and_idsn();
        Agreed {
            own: self.own,
            remote_key,
            remote_token,
            remote_idsn,
            checksum,
            long: false,
            deny_initial: capable.deny_join_initial,
        }
    }
}

/// What both ends know once each has the other's key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Agreed {
    own: OwnKey,
    remote_key: Key,
    remote_token: u32,
    remote_idsn: u64,
    /// DSS checksums are in use.
    checksum: bool,
    /// 8-byte numbers: the peer uses them, or we must.
    long: bool,
    /// Flag C of the peer: no joins to its first address.
    deny_initial: bool,
}

impl Agreed {
    pub(super) fn own(&self) -> &OwnKey {
        &self.own
    }

    pub(super) fn remote_key(&self) -> Key {
        self.remote_key
    }

    /// What the peer knows the connection by.
    pub(super) fn remote_token(&self) -> u32 {
        self.remote_token
    }

    pub(super) fn keys(&self) -> Keys {
        Keys { local: self.own.key, remote: self.remote_key }
    }

    #[inline]
    pub(super) fn checksum(&self) -> bool {
        self.checksum
    }

    /// Whether mappings of up to so many segments may cover more than one: their sum would have to
    /// be known when the first of them leaves.
    pub(super) fn spans(&self, segments: u8) -> bool {
        segments > 1 && !self.checksum
    }

    pub(super) fn deny_initial(&self) -> bool {
        self.deny_initial
    }

    #[inline]
    pub(super) fn is_long(&self) -> bool {
        self.long
    }

    /// 8-byte numbers from now on.
    pub(super) fn lengthen(&mut self) {
        self.long = true;
    }

    /// Option space of a data segment, without padding.
    pub(super) fn data_options(&self) -> u16 {
        let numbers = if self.long { 16 } else { 8 };
        let checksum = if self.checksum { 2 } else { 0 };
        4 + numbers + 6 + checksum
    }

    /// MP_CAPABLE with both keys, for the third packet and the first data.
    pub(super) fn capable(&self, data: Option<(u16, Option<u16>)>) -> MpCapable {
        MpCapable {
            checksum_required: self.checksum,
            sender_key: Some(self.own.key.0),
            receiver_key: Some(self.remote_key.0),
            data,
            ..ours()
        }
    }

    /// Checksum of a mapping of ours, if checksums are in use.
    #[inline]
    pub(super) fn sum(&self, dsn: Dsn, ssn: u32, length: u16, payload: &[u8]) -> Option<u16> {
        let sum = || dss_checksum(Checksum::of(payload), self.own_number(dsn), ssn, length);
        self.checksum.then(sum)
    }

    #[inline]
    fn own_number(&self, dsn: Dsn) -> u64 {
        self.own.idsn.wrapping_add(dsn.0)
    }

    /// A position of the peer as 64-bit number.
    #[inline]
    pub(super) fn remote_number(&self, dsn: Dsn) -> u64 {
        self.remote_idsn.wrapping_add(dsn.0)
    }

    /// A position of ours as it is sent.
    #[inline]
    pub(super) fn data_number(&self, dsn: Dsn) -> DataNumber {
        self.sized(self.own_number(dsn))
    }

    /// A DATA_ACK of ours as it is sent.
    #[inline]
    pub(super) fn ack_number(&self, dsn: Dsn) -> DataNumber {
        self.sized(self.remote_number(dsn))
    }

    #[inline]
    fn sized(&self, number: u64) -> DataNumber {
        if self.long { DataNumber::Long(number) } else { DataNumber::Short(number as u32) }
    }

    /// The peer's position that `number` means, near `near`; `None` if it is too far off to be
    /// meant (RFC 8684 section 3.3.1 on wrapping).
    #[inline]
    pub(super) fn peer_position(&self, number: DataNumber, near: Dsn) -> Option<Dsn> {
        position(number, self.remote_idsn, near)
    }

    /// Our position that a DATA_ACK means.
    #[inline]
    pub(super) fn own_position(&self, number: DataNumber, near: Dsn) -> Option<Dsn> {
        position(number, self.own.idsn, near)
    }

    /// The mapping of the data beside MP_CAPABLE: the first of the stream.
    pub(super) fn first_mapping(&self, length: u16, checksum: Option<u16>) -> Mapping {
        let dsn = self.remote_number(Dsn(1));
        let sum = |value| Sum { value, dsn, ssn: 1, length };
        let checksum = checksum.filter(|_| self.checksum).map(sum);
        Mapping { ssn: Ssn(1), len: u64::from(length), dsn: Dsn(1), checksum }
    }
}

fn position(number: DataNumber, base: u64, near: Dsn) -> Option<Dsn> {
    let distance = match number {
        DataNumber::Short(n) => i64::from(n.wrapping_sub(base.wrapping_add(near.0) as u32) as i32),
        DataNumber::Long(n) => n.wrapping_sub(base.wrapping_add(near.0)) as i64,
    };
    if distance.unsigned_abs() > MAX_DISTANCE {
        return None;
    }
    near.0.checked_add_signed(distance).map(Dsn)
}

/// Further from what is expected than this (four of the largest windows there are), a number
/// is nonsense.
const MAX_DISTANCE: u64 = 1 << 32;

/// What every MP_CAPABLE of ours has.
fn ours() -> MpCapable {
    MpCapable { version: VERSION, hmac_sha256: true, ..MpCapable::default() }
}

pub(super) fn find_capable(segment: &Segment) -> Option<&MpCapable> {
    segment.options.mptcp().iter().find_map(|option| match option {
        MptcpOption::Capable(capable) => Some(capable),
        _ => None,
    })
}

/// Version 1, HMAC-SHA256, nothing that we would have to understand (flag B).
pub(super) fn acceptable(capable: &MpCapable) -> bool {
    capable.version == VERSION && capable.hmac_sha256 && !capable.extensibility
}

/// Protocol version (RFC 8684).
const VERSION: u8 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    fn agreed() -> Agreed {
        let handshake = Handshake::new(OwnKey::new(Key(1)));
        handshake.agree(Key(2), &ours(), false)
    }

    /// RFC 8684 section 3.3.1: short numbers wrap, and what is too far off is not meant.
    #[test]
    fn numbers_are_positions_near_what_is_expected() {
        let mut a = agreed();
        let idsn = Key(2).token_and_idsn().1;
        for near in [1_u64, 5_000_000_000, 1 << 40] {
            for dsn in [near, near + 70_000, near.saturating_sub(900)] {
                let number = idsn.wrapping_add(dsn);
                for number in [DataNumber::Short(number as u32), DataNumber::Long(number)] {
                    assert_eq!(a.peer_position(number, Dsn(near)), Some(Dsn(dsn)), "{number:?}");
                }
            }
        }
        let far = DataNumber::Long(idsn.wrapping_add(MAX_DISTANCE + 2));
        assert_eq!(a.peer_position(far, Dsn(1)), None);
        assert_eq!(
            (a.data_options(), matches!(a.data_number(Dsn(1)), DataNumber::Short(_))),
            (18, true)
        );
        a.lengthen();
        assert_eq!(
            (a.data_options(), matches!(a.data_number(Dsn(1)), DataNumber::Long(_))),
            (26, true)
        );
    }
}
