//! Invitations: one line that makes a client of whoever has it.
//!
//! `tabane:` and base64url (RFC 4648 section 5, no padding) of
//!
//! ```text
//! version (1)  flags  number (2)  secret (32)  server's public key (32)
//! [preshared key (32)]  [expires (8)]
//! [network: first two octets of IPv4, first eight of IPv6 (10)]
//! name (length, text)  count of addresses, each (length, text)
//! first four bytes of SHA-256 of all that
//! ```
//! numbers most significant byte first. Flag 1: a preshared key follows; flag 2: a network, where
//! it is not the default one. The checksum is for slips of hand, not for enemies.
//!
//! Of version 2 the secret is good for one use until the time `expires` (seconds since 1970): with
//! it the client tells the server the keys that it has made itself ([`crate::enrol`]), and the
//! preshared key of that derives from it, so that flag 1 does not occur. Of version 1, which only
//! stock WireGuard is still given (as a configuration), the secret is the client's own: the line
//! holds its keys, for good.

pub mod edit;
mod wireguard;

use crate::address::{CLIENTS_MAX, Network, PATHS_MAX};
use crate::config::{ClientEntry, InvitationEntry, ServerConfig};
use crate::keys::{self, Key};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use boringtun::x25519::PublicKey;
use sha2::{Digest, Sha256};
use std::fmt::{self, Write};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;
use thiserror::Error;

/// What a client needs to know.
#[derive(Clone, PartialEq, Debug)]
pub struct Invitation {
    /// Its name at the server.
    pub name: String,
    /// Its number there.
    pub number: u16,
    /// What it may do with it.
    pub grant: Grant,
    /// Where the server is: `host:port`.
    pub addresses: Vec<String>,
    /// The server's key.
    pub(crate) public_key: PublicKey,
    /// The addresses inside the tunnels.
    pub(crate) network: Network,
}

/// What an invitation is good for.
#[derive(Clone, PartialEq, Debug)]
pub enum Grant {
    /// Version 1: these are the client's keys.
    Keys(Own),
    /// Version 2: to make itself known, once.
    Enrolment {
        /// What the one-time keys derive from (`Key::enrolment`).
        secret: Key,
        /// Until when, seconds since 1970.
        expires: u64,
    },
}

/// What a client has for itself.
#[derive(Clone, PartialEq, Debug)]
pub struct Own {
    /// The secret that the keys of its paths derive from.
    pub secret: Key,
    /// A key that both know beside.
    pub preshared_key: Option<Key>,
}

/// Why a line is no invitation.
#[derive(Error, Clone, Copy, PartialEq, Eq, Debug)]
pub enum InviteError {
    /// It begins otherwise.
    #[error("this is no invitation: one begins with 'tabane:'")]
    Prefix,
    /// A character that cannot be in it, or a part is missing.
    #[error("the invitation is damaged: copy the whole line again")]
    Damaged,
    /// From a later version.
    #[error("the invitation is of version {0}, known are 1 and 2: this program is too old for it")]
    Version(u8),
}

const PREFIX: &str = "tabane:";
const VERSION_KEYS: u8 = 1;
const VERSION_ENROLMENT: u8 = 2;
const PRESHARED: u8 = 1;
const NETWORK: u8 = 2;
const CHECKSUM: usize = 4;
/// Of a line; a terminal's input line holds 4096.
const LINE_MAX: usize = 4000;

impl Invitation {
    /// A new client of a server that makes its own keys, until `expires`: what it is told, and what
    /// the server keeps.
    ///
    /// # Errors
    /// [`keys::KeyError`] if the system has no random bytes.
    pub(crate) fn new(
        config: &ServerConfig,
        server: &Key,
        (name, number): (&str, u16),
        expires: u64,
    ) -> Result<(Self, ClientEntry), keys::KeyError> {
        let secret = Key::random()?;
        let (key, preshared) = secret.enrolment(&server.public());
        let invitation = InvitationEntry {
            key: keys::encode(&key.public()),
            preshared_key: preshared.to_string().into(),
            expires,
        };
        let entry = ClientEntry {
            name: name.to_owned(),
            number,
            invitation: Some(invitation),
            ..ClientEntry::default()
        };
        let grant = Grant::Enrolment { secret, expires };
        Ok((Self::of(config, server, (name, number), grant), entry))
    }

    /// A new client whose keys are made here, since it cannot make itself known: stock WireGuard.
    ///
    /// # Errors
    /// [`keys::KeyError`] if the system has no random bytes.
    pub(crate) fn with_keys(
        config: &ServerConfig,
        server: &Key,
        (name, number): (&str, u16),
        preshared: bool,
    ) -> Result<(Self, ClientEntry), keys::KeyError> {
        let secret = Key::random()?;
        let preshared_key = if preshared { Some(Key::random()?) } else { None };
        let entry = ClientEntry {
            name: name.to_owned(),
            number,
            keys: (0..PATHS_MAX).map(|i| keys::encode(&secret.of_path(i).public())).collect(),
            preshared_key: preshared_key.as_ref().map(|key| key.to_string().into()),
            ..ClientEntry::default()
        };
        let grant = Grant::Keys(Own { secret, preshared_key });
        Ok((Self::of(config, server, (name, number), grant), entry))
    }

    fn of(config: &ServerConfig, server: &Key, (name, number): (&str, u16), grant: Grant) -> Self {
        Self {
            name: name.to_owned(),
            number,
            grant,
            addresses: config.public.clone(),
            public_key: server.public(),
            network: config.inner(),
        }
    }

    /// What the client has for itself: made now, or of an old invitation, what is in it.
    ///
    /// # Errors
    /// [`keys::KeyError`] if the system has no random bytes.
    pub fn own(&self) -> Result<Own, keys::KeyError> {
        match &self.grant {
            Grant::Keys(own) => Ok(own.clone()),
            Grant::Enrolment { .. } => {
                Ok(Own { secret: Key::random()?, preshared_key: Some(Key::random()?) })
            }
        }
    }

    /// A configuration of a client that has these keys, with comments; `interfaces` are its paths'
    /// (none: one path that leaves it to the host's routes). As long as the server does not know
    /// the keys, `pending`, the one-time secret is in it, and the client makes itself known when
    /// it starts.
    #[must_use]
    pub fn client_file(&self, own: &Own, interfaces: &[String], pending: bool) -> String {
        let text = |text: &str| toml::Value::from(text).to_string();
        let list = toml::Value::from(self.addresses.clone());
        let mut file = format!(
            "# A client of tabane; `tabane config check FILE` after every change.\n\
             name = {}\nnumber = {}\n\
             # Who has this is this client.\nsecret = \"{}\"\n\n\
             [[server]]\naddresses = {list}\npublic_key = {}\n",
            text(&self.name),
            self.number,
            own.secret,
            text(&keys::encode(&self.public_key)),
        );
        let mut line = |line: String| writeln!(file, "{line}").expect("invariant: a String grows");
        if let Some(key) = &own.preshared_key {
            line(format!("preshared_key = \"{key}\""));
        }
        if let Grant::Enrolment { secret, .. } = &self.grant {
            line("key_version = 2".into());
            if pending {
                line("# The invitation: used at the first start, worth nothing after that.".into());
                line(format!("enrolment = \"{secret}\""));
            }
        }
        if self.network != Network::default() {
            line(format!("network = \"{}\"\nnetwork6 = \"{}\"", self.network.v4, self.network.v6));
        }
        line("\n# One for each link; role: primary, secondary, backup or never.".into());
        if interfaces.is_empty() {
            line("[[path]]\n# interface = \"eth0\"".into());
        }
        for interface in interfaces {
            line(format!("[[path]]\ninterface = {}\nrole = \"primary\"\n", text(interface)));
        }
        line("[front]\nsocks5 = [\"127.0.0.1:1080\"]".into());
        file
    }

    /// Configurations of stock WireGuard interfaces for the first `paths` paths, and the commands
    /// that give them to the kernel's MPTCP; or, if `paths` is `None`, that of one path as every
    /// WireGuard app takes it. `None` without keys, which only an invitation that the server has
    /// made them for has.
    #[must_use]
    pub fn wireguard(&self, paths: Option<usize>) -> Option<String> {
        let Grant::Keys(own) = &self.grant else { return None };
        Some(match paths {
            Some(paths) => wireguard::text(self, own, paths),
            None => wireguard::app(self, own),
        })
    }

    fn bytes(&self) -> Vec<u8> {
        let network = self.network != Network::default();
        let (version, secret, preshared, expires) = match &self.grant {
            Grant::Keys(own) => (VERSION_KEYS, &own.secret, own.preshared_key.as_ref(), None),
            Grant::Enrolment { secret, expires } => {
                (VERSION_ENROLMENT, secret, None, Some(expires))
            }
        };
        let flag = |set: bool, bit: u8| if set { bit } else { 0 };
        let flags = flag(preshared.is_some(), PRESHARED) | flag(network, NETWORK);
        let mut bytes = vec![version, flags];
        bytes.extend(self.number.to_be_bytes());
        bytes.extend(secret.bytes());
        bytes.extend(self.public_key.as_bytes());
        bytes.extend(preshared.into_iter().flat_map(Key::bytes));
        bytes.extend(expires.into_iter().flat_map(|expires| expires.to_be_bytes()));
        if network {
            bytes.extend(&self.network.v4.octets()[..2]);
            bytes.extend(&self.network.v6.octets()[..8]);
        }
        put(&mut bytes, &self.name);
        let count = self.addresses.len().min(usize::from(u8::MAX));
        bytes.push(count as u8);
        self.addresses[..count].iter().for_each(|address| put(&mut bytes, address));
        let sum = Sha256::digest(&bytes);
        bytes.extend(&sum[..CHECKSUM]);
        bytes
    }
}

/// Text with its length before it. What a configuration takes is shorter than 256 bytes.
fn put(bytes: &mut Vec<u8>, text: &str) {
    let length = text.len().min(usize::from(u8::MAX));
    bytes.push(length as u8);
    bytes.extend(&text.as_bytes()[..length]);
}

/// The line.
impl fmt::Display for Invitation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", URL_SAFE_NO_PAD.encode(self.bytes()))
    }
}

impl FromStr for Invitation {
    type Err = InviteError;

    fn from_str(line: &str) -> Result<Self, InviteError> {
        let body = line.trim().strip_prefix(PREFIX).ok_or(InviteError::Prefix)?;
        if body.len() > LINE_MAX {
            return Err(InviteError::Damaged);
        }
        let bytes = URL_SAFE_NO_PAD.decode(body).map_err(|_| InviteError::Damaged)?;
        let (bytes, sum) = bytes.split_last_chunk::<CHECKSUM>().ok_or(InviteError::Damaged)?;
        if Sha256::digest(bytes)[..CHECKSUM] != *sum {
            return Err(InviteError::Damaged);
        }
        match bytes.first() {
            Some(&version @ (VERSION_KEYS | VERSION_ENROLMENT)) => {
                parse(version, &bytes[1..]).ok_or(InviteError::Damaged)
            }
            Some(&version) => Err(InviteError::Version(version)),
            None => Err(InviteError::Damaged),
        }
    }
}

/// What follows the version; `None` if it ends early, late, or says what cannot be.
fn parse(version: u8, mut rest: &[u8]) -> Option<Invitation> {
    let rest = &mut rest;
    let flags = take::<1>(rest)?[0];
    let number = u16::from_be_bytes(*take(rest)?);
    let secret = Key::new(*take(rest)?);
    let public_key = PublicKey::from(*take::<32>(rest)?);
    let preshared_key = match flags & PRESHARED {
        0 => None,
        _ => Some(Key::new(*take(rest)?)),
    };
    let grant = match (version, &preshared_key) {
        (VERSION_ENROLMENT, None) => {
            Grant::Enrolment { secret, expires: u64::from_be_bytes(*take(rest)?) }
        }
        (VERSION_KEYS, _) => Grant::Keys(Own { secret, preshared_key }),
        _ => return None,
    };
    let mut network = Network::default();
    if flags & NETWORK != 0 {
        let (v4, v6) = (take::<2>(rest)?, take::<8>(rest)?);
        network.v4 = Ipv4Addr::new(v4[0], v4[1], 0, 0);
        network.v6 = Ipv6Addr::from_bits(u128::from(u64::from_be_bytes(*v6)) << 64);
    }
    let name = text(rest)?;
    let count = take::<1>(rest)?[0];
    let addresses = (0..count).map(|_| text(rest)).collect::<Option<Vec<_>>>()?;
    let sound = rest.is_empty() && flags & !(PRESHARED | NETWORK) == 0;
    if !sound || !(1..=CLIENTS_MAX).contains(&number) {
        return None;
    }
    Some(Invitation { name, number, grant, addresses, public_key, network })
}

fn take<'b, const N: usize>(rest: &mut &'b [u8]) -> Option<&'b [u8; N]> {
    let (head, tail) = rest.split_first_chunk()?;
    *rest = tail;
    Some(head)
}

/// A length and as many bytes of text that can be shown.
fn text(rest: &mut &[u8]) -> Option<String> {
    let length = usize::from(take::<1>(rest)?[0]);
    let (head, tail) = rest.split_at_checked(length)?;
    *rest = tail;
    let text = std::str::from_utf8(head).ok()?;
    (!text.chars().any(char::is_control)).then(|| text.to_owned())
}

#[cfg(test)]
mod tests;
