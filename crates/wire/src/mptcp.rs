//! MPTCP options, kind 30 (RFC 8684 section 3).

use std::net::IpAddr;

mod codec;

/// A data sequence number or data acknowledgement as sent: 4 or 8 bytes (RFC 8684 3.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DataNumber {
    /// The low 32 bits.
    Short(u32),
    /// All 64 bits.
    Long(u64),
}

/// Data sequence signal (subtype 2, RFC 8684 section 3.3.1).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Dss {
    /// Data-level cumulative acknowledgement.
    pub data_ack: Option<DataNumber>,
    /// Mapping of subflow bytes to data sequence numbers.
    pub mapping: Option<Mapping>,
    /// DATA_FIN (flag F); requires a mapping, whose length counts it.
    pub data_fin: bool,
}

/// `length` bytes that start at `ssn` on this subflow carry data from `dsn` on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mapping {
    /// Data sequence number of the first byte.
    pub dsn: DataNumber,
    /// Subflow sequence number relative to the SYN (SYN is 0, the first byte 1).
    pub ssn: u32,
    /// Data-level length, DATA_FIN included; 0 is the infinite mapping (section 3.7).
    pub length: u16,
    /// Present iff checksums were negotiated.
    pub checksum: Option<u16>,
}

/// Every MPTCP option but DSS, which [`crate::TcpOptions`] holds apart.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum MptcpOption {
    /// Subtype 0.
    Capable(MpCapable),
    /// Subtype 1.
    Join(MpJoin),
    /// Subtype 3.
    AddAddr(AddAddr),
    /// Subtype 4: at least one address id.
    RemoveAddr(Vec<u8>),
    /// Subtype 5: `backup` is the new priority of the subflow it is sent on, one direction.
    Prio {
        /// Flag B.
        backup: bool,
    },
    /// Subtype 6: data sequence number (64 bits) of the mapping whose checksum failed.
    Fail(u64),
    /// Subtype 7: the receiver's key.
    FastClose(u64),
    /// Subtype 8.
    TcpRst(MpTcpRst),
    /// A subtype we do not know (or malformed): skipped, kept to be seen in records.
    Unknown {
        /// Four-bit subtype.
        subtype: u8,
    },
}

/// MP_CAPABLE (RFC 8684 section 3.1), version 1. Which fields are present tells the form:
/// no key on a SYN, the sender's on a SYN+ACK, both on an ACK, both and `data` on first data.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct MpCapable {
    /// Protocol version, 4 bits.
    pub version: u8,
    /// Flag A.
    pub checksum_required: bool,
    /// Flag B, must be 0.
    pub extensibility: bool,
    /// Flag C: the sender will accept no join to the address this came from.
    pub deny_join_initial: bool,
    /// Flag H: HMAC-SHA256.
    pub hmac_sha256: bool,
    /// Sender's key.
    pub sender_key: Option<u64>,
    /// Receiver's key.
    pub receiver_key: Option<u64>,
    /// Data-level length and checksum, when the option also maps the first data.
    pub data: Option<(u16, Option<u16>)>,
}

/// MP_JOIN (RFC 8684 section 3.2) in its three forms.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MpJoin {
    /// On a SYN.
    Syn {
        /// Flag B.
        backup: bool,
        /// Sender's address id.
        address_id: u8,
        /// Receiver's token.
        token: u32,
        /// Sender's nonce.
        nonce: u32,
    },
    /// On a SYN+ACK.
    SynAck {
        /// Flag B.
        backup: bool,
        /// Sender's address id.
        address_id: u8,
        /// Leftmost 64 bits of HMAC-B.
        hmac: u64,
        /// Sender's nonce.
        nonce: u32,
    },
    /// On the third ACK: leftmost 160 bits of HMAC-A.
    Ack {
        /// HMAC-A.
        hmac: [u8; 20],
    },
}

/// ADD_ADDR (RFC 8684 section 3.4.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AddAddr {
    /// Address id.
    pub address_id: u8,
    /// Address.
    pub address: IpAddr,
    /// Port, when not that of the connection.
    pub port: Option<u16>,
    /// Rightmost 64 bits of the HMAC; `None` on an echo (flag E).
    pub hmac: Option<u64>,
}

/// MP_TCPRST (RFC 8684 section 3.6).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MpTcpRst {
    /// Flag T: the cause may pass.
    pub transient: bool,
    /// Reason code.
    pub reason: u8,
}
