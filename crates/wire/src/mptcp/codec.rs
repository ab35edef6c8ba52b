//! MPTCP options to bytes and back (RFC 8684 sections 3.1 to 3.7).
//!
//! Forms are told apart by their length, as the RFC does; an option whose length fits no form
//! becomes [`MptcpOption::Unknown`] and harms nothing else. Reserved bits are ignored when
//! parsed and zero when emitted.

use super::{AddAddr, DataNumber, Dss, Mapping, MpCapable, MpJoin, MpTcpRst, MptcpOption};
use crate::octets::{Writer, array, ipv4_at, ipv6_at, u16_at, u32_at, u64_at};
use crate::option::codec::kind::MPTCP;
use crate::{EmitError, TcpOptions};

impl TcpOptions {
    /// Takes in one whole option of kind 30, kind and length bytes included.
    #[inline]
    pub(crate) fn parse_mptcp(&mut self, option: &[u8]) {
        // Two bytes have no room for a subtype: nothing to name, skipped like unknown kinds.
        let Some(&third) = option.get(2) else { return };
        let subtype = third >> 4;
        if subtype == subtype::DSS
            && let Some(dss) = Dss::parse(option)
        {
            self.dss = Some(dss);
            return;
        }
        self.push_mptcp(
            MptcpOption::parse(subtype, option).unwrap_or(MptcpOption::Unknown { subtype }),
        );
    }
}

impl Dss {
    /// Bytes of the option, without padding.
    #[inline]
    pub(crate) fn encoded_len(&self) -> usize {
        let ack = self.data_ack.map_or(0, DataNumber::len);
        let mapping = self.mapping.map_or(0, |mapping| {
            mapping.dsn.len() + 6 + if mapping.checksum.is_some() { 2 } else { 0 }
        });
        4 + ack + mapping
    }

    #[inline]
    pub(crate) fn emit(&self, out: &mut Writer<'_>) -> Result<(), EmitError> {
        if self.data_fin && self.mapping.is_none() {
            let reason = "DATA_FIN without a mapping";
            return Err(EmitError::Mptcp { subtype: subtype::DSS, reason });
        }
        let mut flags = if self.data_fin { dss_flag::DATA_FIN } else { 0 };
        flags |= match self.data_ack {
            None => 0,
            Some(DataNumber::Short(_)) => dss_flag::ACK,
            Some(DataNumber::Long(_)) => dss_flag::ACK | dss_flag::ACK_LONG,
        };
        flags |= match self.mapping.map(|mapping| mapping.dsn) {
            None => 0,
            Some(DataNumber::Short(_)) => dss_flag::MAPPING,
            Some(DataNumber::Long(_)) => dss_flag::MAPPING | dss_flag::DSN_LONG,
        };
        out.put([MPTCP, self.encoded_len() as u8, subtype::DSS << 4, flags]);
        if let Some(ack) = self.data_ack {
            ack.emit(out);
        }
        if let Some(mapping) = &self.mapping {
            mapping.dsn.emit(out);
            out.put_u32(mapping.ssn);
            out.put_u16(mapping.length);
            if let Some(checksum) = mapping.checksum {
                out.put_u16(checksum);
            }
        }
        Ok(())
    }

    /// DATA_FIN without a mapping is ignored: it would have no sequence number.
    #[inline]
    fn parse(option: &[u8]) -> Option<Self> {
        let flags = *option.get(3)?;
        let has = |flag| flags & flag != 0;
        let mut at = 4;
        let mut dss = Self::default();
        if has(dss_flag::ACK) {
            dss.data_ack = Some(DataNumber::parse(option, &mut at, has(dss_flag::ACK_LONG))?);
        }
        if has(dss_flag::MAPPING) {
            let dsn = DataNumber::parse(option, &mut at, has(dss_flag::DSN_LONG))?;
            if option.len() < at + 6 {
                return None;
            }
            let (ssn, length) = (u32_at(option, at), u16_at(option, at + 4));
            at += 6;
            let checksum = (option.len() == at + 2).then(|| u16_at(option, at));
            at += if checksum.is_some() { 2 } else { 0 };
            dss.mapping = Some(Mapping { dsn, ssn, length, checksum });
            dss.data_fin = has(dss_flag::DATA_FIN);
        }
        (option.len() == at).then_some(dss)
    }
}

impl DataNumber {
    /// The number's low 32 bits.
    #[inline]
    pub fn low(self) -> u32 {
        match self {
            Self::Short(number) => number,
            Self::Long(number) => number as u32,
        }
    }

    #[inline]
    fn len(self) -> usize {
        match self {
            Self::Short(_) => 4,
            Self::Long(_) => 8,
        }
    }

    #[inline]
    fn emit(self, out: &mut Writer<'_>) {
        match self {
            Self::Short(number) => out.put_u32(number),
            Self::Long(number) => out.put_u64(number),
        }
    }

    #[inline]
    fn parse(option: &[u8], at: &mut usize, long: bool) -> Option<Self> {
        let from = *at;
        *at += if long { 8 } else { 4 };
        if option.len() < *at {
            return None;
        }
        Some(if long {
            Self::Long(u64_at(option, from))
        } else {
            Self::Short(u32_at(option, from))
        })
    }
}

impl MptcpOption {
    /// Four-bit subtype (RFC 8684 section 8.1).
    pub fn subtype(&self) -> u8 {
        match self {
            Self::Capable(_) => subtype::CAPABLE,
            Self::Join(_) => subtype::JOIN,
            Self::AddAddr(_) => subtype::ADD_ADDR,
            Self::RemoveAddr(_) => subtype::REMOVE_ADDR,
            Self::Prio { .. } => subtype::PRIO,
            Self::Fail(_) => subtype::FAIL,
            Self::FastClose(_) => subtype::FASTCLOSE,
            Self::TcpRst(_) => subtype::TCPRST,
            Self::Unknown { subtype } => *subtype,
        }
    }

    /// Bytes of the option, without padding; an error if the value has no encoding.
    pub(crate) fn encoded_len(&self) -> Result<usize, EmitError> {
        let len = match self {
            Self::Capable(capable) => capable.encoded_len(),
            Self::Join(MpJoin::Syn { .. }) => Ok(12),
            Self::Join(MpJoin::SynAck { .. }) => Ok(16),
            Self::Join(MpJoin::Ack { .. }) => Ok(24),
            Self::AddAddr(add) => Ok(add.encoded_len()),
            Self::RemoveAddr(ids) if ids.is_empty() => Err("no address id"),
            // The length byte; option space refuses much less.
            Self::RemoveAddr(ids) if ids.len() > 252 => Err("more than 252 address ids"),
            Self::RemoveAddr(ids) => Ok(3 + ids.len()),
            Self::Prio { .. } => Ok(3),
            Self::Fail(_) | Self::FastClose(_) => Ok(12),
            Self::TcpRst(_) => Ok(4),
            Self::Unknown { .. } => Err("unknown: only its subtype was kept"),
        };
        len.map_err(|reason| EmitError::Mptcp { subtype: self.subtype(), reason })
    }

    /// Writes an option whose [`MptcpOption::encoded_len`] is not an error.
    pub(crate) fn emit(&self, out: &mut Writer<'_>) {
        let Ok(len) = self.encoded_len() else { return };
        let subtype = self.subtype() << 4;
        out.put([MPTCP, len as u8]);
        match self {
            Self::Capable(capable) => capable.emit(out),
            Self::Join(join) => join.emit(out),
            Self::AddAddr(add) => add.emit(out),
            Self::RemoveAddr(ids) => {
                out.put([subtype]);
                ids.iter().for_each(|id| out.put([*id]));
            }
            Self::Prio { backup } => out.put([subtype | u8::from(*backup)]),
            Self::Fail(number) | Self::FastClose(number) => {
                out.put([subtype, 0]);
                out.put_u64(*number);
            }
            Self::TcpRst(rst) => out.put([subtype | u8::from(rst.transient), rst.reason]),
            Self::Unknown { .. } => {}
        }
    }

    fn parse(subtype: u8, option: &[u8]) -> Option<Self> {
        match (subtype, option.len()) {
            (subtype::CAPABLE, _) => MpCapable::parse(option).map(Self::Capable),
            (subtype::JOIN, _) => MpJoin::parse(option).map(Self::Join),
            (subtype::ADD_ADDR, _) => AddAddr::parse(option).map(Self::AddAddr),
            (subtype::REMOVE_ADDR, 4..) => Some(Self::RemoveAddr(option[3..].to_vec())),
            (subtype::PRIO, 3) => Some(Self::Prio { backup: option[2] & 1 != 0 }),
            (subtype::FAIL, 12) => Some(Self::Fail(u64_at(option, 4))),
            (subtype::FASTCLOSE, 12) => Some(Self::FastClose(u64_at(option, 4))),
            (subtype::TCPRST, 4) => {
                let (transient, reason) = (option[2] & 1 != 0, option[3]);
                Some(Self::TcpRst(MpTcpRst { transient, reason }))
            }
            _ => None,
        }
    }
}

impl MpCapable {
    fn encoded_len(&self) -> Result<usize, &'static str> {
        if self.version > 15 {
            return Err("version of more than 4 bits");
        }
        match (self.sender_key, self.receiver_key, self.data) {
            (None, None, None) => Ok(4),
            (Some(_), None, None) => Ok(12),
            (Some(_), Some(_), None) => Ok(20),
            (Some(_), Some(_), Some((_, None))) => Ok(22),
            (Some(_), Some(_), Some((_, Some(_)))) => Ok(24),
            _ => Err("a receiver key or data without the keys before it"),
        }
    }

    fn emit(&self, out: &mut Writer<'_>) {
        let mut flags = 0;
        for (set, flag) in [
            (self.checksum_required, capable_flag::CHECKSUM),
            (self.extensibility, capable_flag::EXTENSIBILITY),
            (self.deny_join_initial, capable_flag::DENY_JOIN),
            (self.hmac_sha256, capable_flag::HMAC_SHA256),
        ] {
            flags |= if set { flag } else { 0 };
        }
        out.put([subtype::CAPABLE << 4 | self.version, flags]);
        for key in [self.sender_key, self.receiver_key].into_iter().flatten() {
            out.put_u64(key);
        }
        if let Some((length, checksum)) = self.data {
            out.put_u16(length);
            if let Some(checksum) = checksum {
                out.put_u16(checksum);
            }
        }
    }

    fn parse(option: &[u8]) -> Option<Self> {
        let len = option.len();
        if !matches!(len, 4 | 12 | 20 | 22 | 24) {
            return None;
        }
        let has = |flag| option[3] & flag != 0;
        Some(Self {
            version: option[2] & 0xf,
            checksum_required: has(capable_flag::CHECKSUM),
            extensibility: has(capable_flag::EXTENSIBILITY),
            deny_join_initial: has(capable_flag::DENY_JOIN),
            hmac_sha256: has(capable_flag::HMAC_SHA256),
            sender_key: (len >= 12).then(|| u64_at(option, 4)),
            receiver_key: (len >= 20).then(|| u64_at(option, 12)),
            data: (len >= 22)
                .then(|| (u16_at(option, 20), (len == 24).then(|| u16_at(option, 22)))),
        })
    }
}

impl MpJoin {
    fn emit(&self, out: &mut Writer<'_>) {
        const SUBTYPE: u8 = subtype::JOIN << 4;
        match *self {
            Self::Syn { backup, address_id, token, nonce } => {
                out.put([SUBTYPE | u8::from(backup), address_id]);
                out.put_u32(token);
                out.put_u32(nonce);
            }
            Self::SynAck { backup, address_id, hmac, nonce } => {
                out.put([SUBTYPE | u8::from(backup), address_id]);
                out.put_u64(hmac);
                out.put_u32(nonce);
            }
            Self::Ack { hmac } => {
                out.put([SUBTYPE, 0]);
                out.put(hmac);
            }
        }
    }

    fn parse(option: &[u8]) -> Option<Self> {
        let backup = option[2] & 1 != 0;
        let address_id = *option.get(3)?;
        match option.len() {
            12 => {
                let (token, nonce) = (u32_at(option, 4), u32_at(option, 8));
                Some(Self::Syn { backup, address_id, token, nonce })
            }
            16 => {
                let (hmac, nonce) = (u64_at(option, 4), u32_at(option, 12));
                Some(Self::SynAck { backup, address_id, hmac, nonce })
            }
            24 => Some(Self::Ack { hmac: array(option, 4) }),
            _ => None,
        }
    }
}

impl AddAddr {
    fn encoded_len(&self) -> usize {
        let address = if self.address.is_ipv4() { 4 } else { 16 };
        4 + address + self.port.map_or(0, |_| 2) + self.hmac.map_or(0, |_| 8)
    }

    fn emit(&self, out: &mut Writer<'_>) {
        out.put([subtype::ADD_ADDR << 4 | u8::from(self.hmac.is_none()), self.address_id]);
        out.put_address(self.address);
        if let Some(port) = self.port {
            out.put_u16(port);
        }
        if let Some(hmac) = self.hmac {
            out.put_u64(hmac);
        }
    }

    fn parse(option: &[u8]) -> Option<Self> {
        let len = option.len();
        let echo = option[2] & 1 != 0;
        // Without HMAC on an echo, with it otherwise: no length fits two forms.
        let (address_len, has_port) = match len + if echo { 8 } else { 0 } {
            16 => (4, false),
            18 => (4, true),
            28 => (16, false),
            30 => (16, true),
            _ => return None,
        };
        let after = 4 + address_len;
        Some(Self {
            address_id: option[3],
            address: if address_len == 4 { ipv4_at(option, 4) } else { ipv6_at(option, 4) },
            port: has_port.then(|| u16_at(option, after)),
            hmac: (!echo).then(|| u64_at(option, len - 8)),
        })
    }
}

mod subtype {
    pub(super) const CAPABLE: u8 = 0;
    pub(super) const JOIN: u8 = 1;
    pub(super) const DSS: u8 = 2;
    pub(super) const ADD_ADDR: u8 = 3;
    pub(super) const REMOVE_ADDR: u8 = 4;
    pub(super) const PRIO: u8 = 5;
    pub(super) const FAIL: u8 = 6;
    pub(super) const FASTCLOSE: u8 = 7;
    pub(super) const TCPRST: u8 = 8;
}

/// Flags of DSS: F, m, M, a, A.
mod dss_flag {
    pub(super) const DATA_FIN: u8 = 0x10;
    pub(super) const DSN_LONG: u8 = 0x08;
    pub(super) const MAPPING: u8 = 0x04;
    pub(super) const ACK_LONG: u8 = 0x02;
    pub(super) const ACK: u8 = 0x01;
}

/// Flags of MP_CAPABLE: A, B, C, H.
mod capable_flag {
    pub(super) const CHECKSUM: u8 = 0x80;
    pub(super) const EXTENSIBILITY: u8 = 0x40;
    pub(super) const DENY_JOIN: u8 = 0x20;
    pub(super) const HMAC_SHA256: u8 = 0x01;
}
