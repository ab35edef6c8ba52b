//! Which streams are subflows of one MPTCP connection (RFC 8684 sections 3.1 and 3.2).
//!
//! A connection is known by the tokens of its two hosts: hashes of the keys that MP_CAPABLE
//! shows, and what MP_JOIN asks for. Streams whose handshake was not captured cannot be grouped:
//! each that shows MPTCP options is a connection of its own, whose keys are not known. This is
//! also how Wireshark numbers them (`mptcp.stream`), which matters for duplicate ACKs.

use super::classify::Side;
use std::collections::BTreeMap;
use tabane_engine::mptcp::crypto::Key;
use tabane_wire::TcpOptions;
use tabane_wire::mptcp::{MpCapable, MpJoin, MptcpOption};

/// All connections. At most one a stream.
#[derive(Default, Debug)]
pub(super) struct Groups {
    groups: Vec<Group>,
    /// At most two a connection.
    tokens: BTreeMap<u32, (u32, Host)>,
}

/// One of the two hosts of a connection: 0 or 1.
pub(super) type Host = usize;

#[derive(Default, Debug)]
pub(super) struct Group {
    /// Option subtypes seen on any of its subflows, as bits.
    pub(super) operations: u16,
    pub(super) hosts: [Identity; 2],
}

/// What is known of a host.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Identity {
    pub(super) key: Option<Key>,
    pub(super) token: Option<u32>,
    pub(super) idsn: Option<u64>,
}

/// A stream's place in a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Member {
    pub(super) group: u32,
    /// Which host its side 0 is.
    first: Host,
}

impl Member {
    #[inline]
    pub(super) fn host(self, side: Side) -> Host {
        self.first ^ side
    }
}

impl Groups {
    pub(super) fn get(&self, group: u32) -> &Group {
        &self.groups[group as usize]
    }

    pub(super) fn len(&self) -> usize {
        self.groups.len()
    }

    /// The key of the host that is `side` of a stream.
    pub(super) fn key(&self, member: Option<Member>, side: Side) -> Option<Key> {
        let member = member?;
        self.groups[member.group as usize].hosts[member.host(side)].key
    }

    /// Option subtypes that the connection of a stream has used.
    #[inline]
    pub(super) fn operations(&self, member: Option<Member>) -> Option<u16> {
        member.map(|m| self.groups[m.group as usize].operations)
    }

    /// Takes in the MPTCP options of a packet of `side`.
    #[inline]
    pub(super) fn options(
        &mut self,
        member: &mut Option<Member>,
        side: Side,
        options: &TcpOptions,
    ) {
        if options.dss.is_some() {
            self.used(member, side, DSS);
        }
        for option in options.mptcp() {
            match option {
                MptcpOption::Capable(capable) => self.capable(member, side, capable),
                MptcpOption::Join(MpJoin::Syn { token, .. }) => self.join(member, side, *token),
                _ => {}
            }
            self.used(member, side, option.subtype());
        }
    }

    #[inline]
    fn used(&mut self, member: &mut Option<Member>, side: Side, subtype: u8) {
        // MP_CAPABLE without a key says nothing about who it is.
        if member.is_none() && subtype != CAPABLE {
            *member = Some(self.create(side));
        }
        if let Some(member) = member {
            self.groups[member.group as usize].operations |= 1 << subtype;
        }
    }

    fn create(&mut self, side: Side) -> Member {
        self.groups.push(Group::default());
        Member { group: self.groups.len() as u32 - 1, first: side }
    }

    fn capable(&mut self, member: &mut Option<Member>, side: Side, capable: &MpCapable) {
        // Version 0 hashes with SHA-1 and is not grouped.
        if capable.version != 1 {
            return;
        }
        if let Some(key) = capable.sender_key {
            self.has_key(member, side, Key(key));
        }
        if let Some(key) = capable.receiver_key {
            self.has_key(member, side ^ 1, Key(key));
        }
    }

    fn has_key(&mut self, member: &mut Option<Member>, side: Side, key: Key) {
        let known = member.map(|m| &self.groups[m.group as usize].hosts[m.host(side)]);
        if known.is_some_and(|host| host.key.is_some()) {
            return;
        }
        let (token, idsn) = key.token_and_idsn();
        self.has_token(member, side, token);
        if let Some(member) = member {
            let host = &mut self.groups[member.group as usize].hosts[member.host(side)];
            (host.key, host.idsn) = (Some(key), Some(idsn));
        }
    }

    /// A SYN asks for the connection of which the receiver has this token.
    fn join(&mut self, member: &mut Option<Member>, side: Side, token: u32) {
        self.has_token(member, side ^ 1, token);
    }

    fn has_token(&mut self, member: &mut Option<Member>, side: Side, token: u32) {
        let known = member.map(|m| &self.groups[m.group as usize].hosts[m.host(side)]);
        if known.is_some_and(|host| host.token.is_some()) {
            return;
        }
        if let Some(&(group, host)) = self.tokens.get(&token) {
            *member = Some(Member { group, first: host ^ side });
            return;
        }
        let member = *member.get_or_insert_with(|| {
            self.groups.push(Group::default());
            Member { group: self.groups.len() as u32 - 1, first: side }
        });
        let host = member.host(side);
        self.groups[member.group as usize].hosts[host].token = Some(token);
        self.tokens.insert(token, (member.group, host));
    }
}

const CAPABLE: u8 = 0;
const DSS: u8 = 2;
