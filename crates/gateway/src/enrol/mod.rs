//! Enrolment: how a server learns the keys that a client has made for itself, and how they change.
//!
//! ```text
//! invitation --(a session with its one-time key)-->       Ask::Join   --> keys are known
//! client     --(a session with its control key)-->        Ask::Rotate --> two generations
//! client     --(the same)-->                              Ask::Resume --> sessions anew
//! ```
//! Each is one datagram to `PORT` of the server's service address inside a WireGuard session of
//! its own, beside those of the paths, and one datagram in answer. The session says who asks, and
//! its preshared key hides what is asked from whoever records it and once has a computer that
//! breaks X25519. A question may be repeated: the same keys are accepted again, others are not.
//!
//! `exchange` is the client's end, `store` what a server remembers; the server's end is in
//! `crate::server`. Why it is so: `docs/adr/0012-keys-version-2.md`.

pub(crate) mod exchange;
pub(crate) mod store;

use crate::address::{ClientNumber, PATHS_MAX};
use crate::config::{Secret, ServerConfig, ServerEntry};
use crate::invite::{Grant, Invitation, Own};
use crate::keys::{self, Key, KeyError};
use boringtun::x25519::{PublicKey, StaticSecret};
use exchange::{Link, Server};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use store::Store;
use tabane_engine::Duration;
use thiserror::Error;

/// Where a server takes questions, at its service address.
pub(crate) const PORT: u16 = 2;
/// Longest question or answer, bytes: fits every path that carries IPv6.
pub(crate) const LENGTH_MAX: usize = 1200;
/// Longest time that replaced keys stay valid beside the new ones, seconds.
pub const KEEP_MAX_S: u64 = 30 * 86_400;

/// Why there is no "done".
#[derive(Error, Debug)]
pub enum ExchangeError {
    /// The server says no: the reason is for people.
    #[error("the server refuses: {0}")]
    Refused(String),
    /// Nobody answered: the server is not reached, or does not know the key.
    #[error("no answer from the server ({0})")]
    Silent(String),
}

/// The file that a server remembers its clients in, unless it is named.
const NAME: &str = "clients.json";
/// The unit's configuration, and its StateDirectory=.
const SYSTEM_CONFIG: &str = "/etc/tabane/server.toml";
const SYSTEM_STATE: &str = "/var/lib/tabane-server";
/// For an answer to a command, at each address of a server.
const PATIENCE: Duration = Duration::from_secs(5);

/// Makes a client's own keys known to the server that invited it; `None` if the invitation is none
/// for that. It waits for the server.
///
/// # Errors
/// [`ExchangeError`]; after [`ExchangeError::Silent`] the server may have done it all the same.
pub fn join(invitation: &Invitation, own: &Own) -> Option<Result<(), ExchangeError>> {
    let Grant::Enrolment { secret, .. } = &invitation.grant else { return None };
    let preshared = own.preshared_key.as_ref()?;
    let server = Server {
        addresses: resolved(&invitation.addresses),
        public_key: invitation.public_key,
        network: invitation.network,
        number: ClientNumber(invitation.number),
    };
    let (key, once) = secret.enrolment(&server.public_key);
    let ask = Ask::Join(Credentials::of(&own.secret, &server.public_key, preshared));
    Some(exchange::ask(&server, (&key, &once), &ask, &[Link::default()], PATIENCE).map(drop))
}

/// Makes other keys of a client known to one of its servers; those before stay valid for `keep_s`
/// more. Asks by the keys before or, if they are gone already, by the new ones. It waits for the
/// server.
///
/// # Errors
/// Keys of `entry` that are none; within, as [`join`].
pub fn rotate(
    entry: &ServerEntry,
    number: u16,
    (now, before): (&Key, &Key),
    (new, after): (&Key, &Key),
    keep_s: u64,
) -> Result<Result<(), ExchangeError>, KeyError> {
    let server = server_of(entry, number)?;
    let public_key = server.public_key;
    let ask = |key: (&Key, &Key), ask: &Ask| {
        exchange::ask(&server, key, ask, &[Link::default()], PATIENCE).map(drop)
    };
    if let Some(invitation) = &entry.enrolment {
        // Whether it has been used by us we need not know: the server takes the same keys again.
        let (key, once) = invitation.parse::<Key>()?.enrolment(&public_key);
        match ask((&key, &once), &Ask::Join(Credentials::of(now, &public_key, before))) {
            // The server has forgotten the invitation, or does not answer; the next question tells.
            Ok(()) | Err(ExchangeError::Silent(_)) => {}
            refused => return Ok(refused),
        }
    }
    let rotate = Ask::Rotate { new: Credentials::of(new, &public_key, after), keep_s };
    for (secret, preshared) in [(now, before), (new, after)] {
        match ask((&secret.control(&public_key), preshared), &rotate) {
            Err(ExchangeError::Silent(_)) => {}
            done => return Ok(done),
        }
    }
    Ok(Err(ExchangeError::Silent(entry.addresses.join(", "))))
}

/// Ends the keys before at a server that knows the new ones, `keep_s` from now if they would be
/// valid for longer. It waits for the server.
///
/// # Errors
/// As [`rotate`].
pub fn end_former(
    entry: &ServerEntry,
    number: u16,
    (new, after): (&Key, &Key),
    keep_s: u64,
) -> Result<Result<(), ExchangeError>, KeyError> {
    let server = server_of(entry, number)?;
    let again = Ask::Rotate { new: Credentials::of(new, &server.public_key, after), keep_s };
    let key = new.control(&server.public_key);
    Ok(exchange::ask(&server, (&key, after), &again, &[Link::default()], PATIENCE).map(drop))
}

fn server_of(entry: &ServerEntry, number: u16) -> Result<Server, KeyError> {
    Ok(Server {
        addresses: resolved(&entry.addresses),
        public_key: keys::public(&entry.public_key)?,
        network: entry.inner(),
        number: ClientNumber(number),
    })
}

/// Gives each client of a configuration the keys by which it has joined, as the file `state`
/// remembers them.
///
/// # Errors
/// It cannot be read, or holds something else.
pub fn fill(config: &mut ServerConfig, state: &Path) -> io::Result<()> {
    Store::open(Some(state)).map(|store| store.fill(config)).map_err(io::Error::other)
}

/// Where a server whose configuration is `config` remembers clients, if it names no file: what
/// systemd gives it (`$STATE_DIRECTORY`), which for the configuration of the system is also found
/// without being told; else beside the configuration.
#[must_use]
pub fn usual_file(config: &Path, state_directory: Option<&OsStr>) -> PathBuf {
    let given = state_directory.filter(|folder| !folder.is_empty());
    if let Some(folder) = given {
        // systemd may name several, with colons between them.
        let folder = folder.to_string_lossy();
        return Path::new(folder.split(':').next().unwrap_or_default()).join(NAME);
    }
    if config == Path::new(SYSTEM_CONFIG) {
        return Path::new(SYSTEM_STATE).join(NAME);
    }
    let stem = config.file_stem().unwrap_or_default().to_string_lossy();
    config.with_file_name(format!("{stem}.{NAME}"))
}

fn resolved(names: &[String]) -> Vec<SocketAddr> {
    names.iter().flat_map(|name| name.to_socket_addrs().into_iter().flatten()).collect()
}

/// What a client asks.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum Ask {
    /// To be known by these, instead of by the invitation.
    Join(Credentials),
    /// To be known by others from now on.
    Rotate {
        /// The new ones.
        new: Credentials,
        /// How long those before stay valid, seconds.
        keep_s: u64,
    },
    /// To begin the sessions of its paths anew, whatever times its handshakes carried before: its
    /// clock is behind.
    Resume,
}

/// What a server answers.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Reply {
    /// It is so.
    Done {
        /// The server's clock, milliseconds since 1970.
        unix_ms: u64,
    },
    /// It is not: why, for people.
    Refused(String),
}

/// What a server knows a client by: public keys, and the key that both know.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub(crate) struct Credentials {
    /// Public keys of its paths, base64, all [`PATHS_MAX`].
    pub(crate) keys: Vec<String>,
    /// Its public control key.
    pub(crate) control: String,
    /// The preshared key of all its sessions, base64.
    pub(crate) preshared_key: Secret,
}

impl Credentials {
    /// Those of a client with that secret at one server.
    #[must_use]
    pub(crate) fn of(secret: &Key, server: &PublicKey, preshared_key: &Key) -> Self {
        let public = |path| keys::encode(&secret.of_path_to(server, path).public());
        Self {
            keys: (0..PATHS_MAX).map(public).collect(),
            control: keys::encode(&secret.control(server).public()),
            preshared_key: preshared_key.to_string().into(),
        }
    }

    /// All public keys.
    pub(crate) fn all(&self) -> impl Iterator<Item = &str> {
        self.keys.iter().chain([&self.control]).map(String::as_str)
    }

    /// Whether a server whose key that is can use them.
    ///
    /// # Errors
    /// What is wrong with them, for people.
    pub(crate) fn check(&self, server: &Key) -> Result<(), String> {
        if self.keys.len() != PATHS_MAX {
            return Err(format!("{} keys of paths, expected {PATHS_MAX}", self.keys.len()));
        }
        let mut seen = BTreeSet::from([*server.public().as_bytes()]);
        for text in self.all() {
            let key = keys::public(text).map_err(|error| error.to_string())?;
            // A point of low order agrees on the same secret with everybody.
            if !StaticSecret::from(server).diffie_hellman(&key).was_contributory() {
                return Err("a key is a point of low order".into());
            }
            if !seen.insert(*key.as_bytes()) {
                return Err("a key is there twice, or the server's own".into());
            }
        }
        let preshared = self.preshared_key.parse::<Key>();
        preshared.map(drop).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests;
