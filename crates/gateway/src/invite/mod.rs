//! Invitations: one line that makes a client of whoever has it.
//!
//! `tabane:` and base64url (RFC 4648 section 5, no padding) of
//!
//! ```text
//! version (1)  flags  number (2)  secret (32)  server's public key (32)
//! [preshared key (32)]  [network: first two octets of IPv4, first eight of IPv6 (10)]
//! name (length, text)  count of addresses, each (length, text)
//! first four bytes of SHA-256 of all that
//! ```
//! numbers most significant byte first. Flag 1: a preshared key follows; flag 2: a network, where
//! it is not the default one. The checksum is for slips of hand, not for enemies: the line holds
//! the client's keys, and is as secret as they are.

mod edit;
mod wireguard;

pub use edit::{EditError, add_client, change, remove_client, switch_client};

use crate::address::{CLIENTS_MAX, ClientNumber, Network, PATHS_MAX};
use crate::config::{ClientEntry, ServerConfig};
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
    pub number: ClientNumber,
    /// The secret that the keys of its paths derive from.
    pub secret: Key,
    /// Where the server is: `host:port`.
    pub addresses: Vec<String>,
    /// The server's key.
    pub public_key: PublicKey,
    /// A key that both know beside.
    pub preshared_key: Option<Key>,
    /// The addresses inside the tunnels.
    pub network: Network,
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
    #[error("the invitation is of version {0}, known is 1: this program is too old for it")]
    Version(u8),
}

const PREFIX: &str = "tabane:";
const VERSION: u8 = 1;
const PRESHARED: u8 = 1;
const NETWORK: u8 = 2;
const CHECKSUM: usize = 4;
/// Of a line; a terminal's input line holds 4096.
const LINE_MAX: usize = 4000;

impl Invitation {
    /// A new client of a server: what it is told, and what the server keeps.
    ///
    /// # Errors
    /// [`keys::KeyError`] if the system has no random bytes.
    pub fn new(
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
            preshared_key: preshared_key.as_ref().map(Key::to_string),
            ..ClientEntry::default()
        };
        let invitation = Self {
            name: name.to_owned(),
            number: ClientNumber(number),
            secret,
            addresses: config.public.clone(),
            public_key: server.public(),
            preshared_key,
            network: config.inner(),
        };
        Ok((invitation, entry))
    }

    /// A working configuration of the client, with comments; `interfaces` are its paths' (none:
    /// one path that leaves it to the host's routes).
    #[must_use]
    pub fn client_file(&self, interfaces: &[String]) -> String {
        let text = |text: &str| toml::Value::from(text).to_string();
        let list = toml::Value::from(self.addresses.clone());
        let mut file = format!(
            "# A client of tabane; `tabane config check FILE` after every change.\n\
             name = {}\nnumber = {}\n\
             # Who has this is this client.\nsecret = {}\n\n\
             [[server]]\naddresses = {list}\npublic_key = {}\n",
            text(&self.name),
            self.number.0,
            text(&self.secret.to_string()),
            text(&keys::encode(&self.public_key)),
        );
        let mut line = |line: String| writeln!(file, "{line}").expect("invariant: a String grows");
        if let Some(key) = &self.preshared_key {
            line(format!("preshared_key = {}", text(&key.to_string())));
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
    /// that give them to the kernel's MPTCP.
    #[must_use]
    pub fn wireguard(&self, paths: usize) -> String {
        wireguard::text(self, paths)
    }

    fn bytes(&self) -> Vec<u8> {
        let network = self.network != Network::default();
        let preshared = self.preshared_key.as_ref();
        let flag = |set: bool, bit: u8| if set { bit } else { 0 };
        let flags = flag(preshared.is_some(), PRESHARED) | flag(network, NETWORK);
        let mut bytes = vec![VERSION, flags];
        bytes.extend(self.number.0.to_be_bytes());
        bytes.extend(self.secret.bytes());
        bytes.extend(self.public_key.as_bytes());
        bytes.extend(preshared.into_iter().flat_map(Key::bytes));
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
            Some(&VERSION) => parse(&bytes[1..]).ok_or(InviteError::Damaged),
            Some(&version) => Err(InviteError::Version(version)),
            None => Err(InviteError::Damaged),
        }
    }
}

/// What follows the version; `None` if it ends early, late, or says what cannot be.
fn parse(mut rest: &[u8]) -> Option<Invitation> {
    let rest = &mut rest;
    let flags = take::<1>(rest)?[0];
    let number = u16::from_be_bytes(*take(rest)?);
    let secret = Key::new(*take(rest)?);
    let public_key = PublicKey::from(*take::<32>(rest)?);
    let preshared_key = match flags & PRESHARED {
        0 => None,
        _ => Some(Key::new(*take(rest)?)),
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
    let number = ClientNumber(number);
    Some(Invitation { name, number, secret, addresses, public_key, preshared_key, network })
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
