//! What of a capture was not analysed, counted by reason.

use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use tabane_wire::ParseError;

/// Why a packet was not analysed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Skip {
    /// A link type that is not read here, by its number.
    LinkType(u32),
    /// Not IP, by its EtherType (or PPP protocol, or 802.3 length).
    NotIp(u16),
    /// IP, but not TCP, by its protocol number.
    NotTcp(u8),
    /// A fragment of an IP packet: its TCP header may be elsewhere.
    Fragment,
    /// IPv6 on a source route of a type whose last address is not read.
    SourceRoute,
    /// A tunnel in a tunnel in a tunnel, deeper than is looked.
    TooDeep,
    /// The capture kept too little of it to have all of the TCP header.
    CutOff,
    /// Headers that contradict themselves.
    Malformed,
    /// A packet block that contradicts itself.
    BadBlock,
    /// A packet of an interface that the file does not describe.
    NoInterface,
    /// One connection more than are kept apart.
    TooManyStreams,
}

impl Skip {
    /// Name in files, in snake case.
    pub fn name(self) -> String {
        match self {
            Self::LinkType(n) => format!("link_type_{n}"),
            Self::NotIp(0..=1500) => "not_ip_802_3".to_owned(),
            Self::NotIp(n) => format!("not_ip_0x{n:04x}"),
            Self::NotTcp(n) => format!("not_tcp_{n}"),
            Self::Fragment => "fragment".to_owned(),
            Self::SourceRoute => "source_route".to_owned(),
            Self::TooDeep => "too_deep".to_owned(),
            Self::CutOff => "cut_off".to_owned(),
            Self::Malformed => "malformed".to_owned(),
            Self::BadBlock => "bad_block".to_owned(),
            Self::NoInterface => "no_interface".to_owned(),
            Self::TooManyStreams => "too_many_streams".to_owned(),
        }
    }
}

impl fmt::Display for Skip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = match self {
            Self::NotIp(0x0806) => "ARP",
            Self::NotIp(0x88cc) => "LLDP",
            Self::NotIp(0..=1500) => "802.3 frames",
            Self::NotTcp(1) => "ICMP",
            Self::NotTcp(2) => "IGMP",
            Self::NotTcp(4 | 41) => "IP in IP",
            Self::NotTcp(17) => "UDP",
            Self::NotTcp(47) => "GRE",
            Self::NotTcp(50) => "ESP",
            Self::NotTcp(58) => "ICMPv6",
            Self::NotTcp(132) => "SCTP",
            Self::Fragment => "IP fragments",
            Self::SourceRoute => "IPv6 on a source route",
            Self::TooDeep => "tunnels in too many tunnels",
            Self::CutOff => "cut off inside the headers (capture with a snap length >= 128)",
            Self::Malformed => "malformed IP or TCP headers",
            Self::BadBlock => "damaged packet blocks",
            Self::NoInterface => "packets of interfaces that the file does not describe",
            Self::TooManyStreams => "packets of connections beyond the limit",
            Self::LinkType(n) => return write!(f, "link type {n}, which is not read"),
            Self::NotIp(n) => return write!(f, "EtherType 0x{n:04x}"),
            Self::NotTcp(n) => return write!(f, "IP protocol {n}"),
        };
        f.write_str(known)
    }
}

impl From<ParseError> for Skip {
    fn from(error: ParseError) -> Self {
        match error {
            ParseError::Truncated(_) => Self::CutOff,
            ParseError::Fragment => Self::Fragment,
            ParseError::SourceRoute => Self::SourceRoute,
            ParseError::Protocol(n) => Self::NotTcp(n),
            _ => Self::Malformed,
        }
    }
}

/// Packets by the reason for which they were not analysed. At most one entry for each value of
/// the fields that they are named after.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Skips(BTreeMap<Skip, u64>);

impl Skips {
    #[cold]
    pub fn add(&mut self, skip: Skip) {
        *self.0.entry(skip).or_default() += 1;
    }

    pub fn add_many(&mut self, skip: Skip, packets: u64) {
        if packets > 0 {
            *self.0.entry(skip).or_default() += packets;
        }
    }

    pub fn total(&self) -> u64 {
        self.0.values().sum()
    }

    /// By reason.
    pub fn iter(&self) -> impl Iterator<Item = (Skip, u64)> {
        self.0.iter().map(|(skip, n)| (*skip, *n))
    }

    /// How many for one reason.
    pub fn get(&self, skip: Skip) -> u64 {
        self.0.get(&skip).copied().unwrap_or(0)
    }
}

impl Serialize for Skips {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter().map(|(skip, n)| (skip.name(), n)))
    }
}
