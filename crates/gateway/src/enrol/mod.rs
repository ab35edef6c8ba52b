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
//! [`exchange`] is the client's end, [`store`] what a server remembers; the server's end is in
//! `crate::server`. Why it is so: `docs/adr/0012-keys-version-2.md`.

pub mod exchange;
pub mod store;

use crate::address::PATHS_MAX;
use crate::config::Secret;
use crate::keys::{self, Key};
use boringtun::x25519::PublicKey;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Where a server takes questions, at its service address.
pub(crate) const PORT: u16 = 2;
/// Longest question or answer, bytes: fits every path that carries IPv6.
pub(crate) const LENGTH_MAX: usize = 1200;
/// Longest time that replaced keys stay valid beside the new ones, seconds.
pub(crate) const KEEP_MAX_S: u64 = 30 * 86_400;

/// What a client asks.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Ask {
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
pub struct Credentials {
    /// Public keys of its paths, base64, all [`PATHS_MAX`].
    pub(crate) keys: Vec<String>,
    /// Its public control key.
    pub control: String,
    /// The preshared key of all its sessions, base64.
    pub(crate) preshared_key: Secret,
}

impl Credentials {
    /// Those of a client with that secret at one server.
    #[must_use]
    pub fn of(secret: &Key, server: &PublicKey, preshared_key: &Key) -> Self {
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
            if !server.to_static().diffie_hellman(&key).was_contributory() {
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
