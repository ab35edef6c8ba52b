//! Keys: X25519 pairs and preshared keys as `wg` writes them (base64 of 32 bytes), and the keys of
//! a client's paths, all derived from one secret.
//!
//! # Keys of paths
//! With `H(secret, text) = HMAC-SHA-256(secret, text)`, `i` the path from 0 as one byte, `server`
//! the 32 bytes of the server's public key, and `clamp` as in RFC 7748 section 5:
//!
//! | key | version 1 | version 2 |
//! |---|---|---|
//! | path `i` | `"tabane path key v1" 0 i` | `"tabane path key v2" 0 server i` |
//! | control | none | `"tabane control key v2" 0 server` |
//!
//! each as `clamp(H(secret, ...))`. Of version 1 the server makes the secret and the invitation
//! carries it. Of version 2 the client makes it (`docs/adr/0012-keys-version-2.md`): no server ever
//! has it, and two servers that compare their lists cannot tell that a client of both is one. The
//! control key is for what a client has to say to a server beside its paths ([`crate::enrol`]).
//!
//! An invitation of version 2 carries a secret that is good for one use: the private key of that
//! session is `clamp(H(secret, "tabane enrolment key v2" 0 server))`, its preshared key
//! `H(secret, "tabane enrolment preshared key v2" 0 server)`.
//!
//! Keys are overwritten in memory when they are dropped.
//!
//! What a session does with keys is `tabane_net::wireguard`'s business.

use crate::whole_file::{self, Access};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use boringtun::x25519::{PublicKey, StaticSecret};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use tabane_config::bounded;
use thiserror::Error;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

/// 32 bytes that nobody else may know: a private key, a preshared key, or a client's secret.
/// Printed as base64; `Debug` shows nothing of it.
#[derive(Clone, PartialEq, Eq, Zeroize, ZeroizeOnDrop)]
pub struct Key([u8; 32]);

/// Why there is no key.
#[derive(Error, Debug)]
pub enum KeyError {
    /// Not base64 of 32 bytes. The text is not shown: it may be a key with a slip.
    #[error("not a key: {0}; a key is the base64 of 32 bytes, 44 characters that end in '='")]
    Syntax(&'static str),
    /// A file with a key.
    #[error("{0}: cannot be read: {1}")]
    File(PathBuf, io::Error),
    /// The system gives no random bytes.
    #[error("the system gives no random bytes: {0}")]
    Random(getrandom::Error),
    /// It is not given.
    #[error("there is no key: give '{key}' or '{file}'")]
    Missing {
        /// The key of the configuration for it.
        key: &'static str,
        /// That for a file with it.
        file: &'static str,
    },
    /// It is given in two ways.
    #[error("both '{key}' and '{file}' are given: leave one out")]
    Twice {
        /// The key of the configuration for it.
        key: &'static str,
        /// That for a file with it.
        file: &'static str,
    },
}

/// What tells keys of paths from all else that may ever derive from a secret.
const PATH_LABEL: &[u8] = b"tabane path key v1\0";
/// The same, of version 2; the server's public key follows each.
const PATH_LABEL_2: &[u8] = b"tabane path key v2\0";
const CONTROL_LABEL: &[u8] = b"tabane control key v2\0";
const ENROLMENT_LABEL: &[u8] = b"tabane enrolment key v2\0";
const ENROLMENT_PSK_LABEL: &[u8] = b"tabane enrolment preshared key v2\0";
/// A file with a key has one short line.
const FILE_MAX: u64 = 4096;

impl Key {
    /// A new preshared key, or a client's secret.
    ///
    /// # Errors
    /// [`KeyError::Random`].
    pub fn random() -> Result<Self, KeyError> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).map_err(KeyError::Random)?;
        Ok(Self(bytes))
    }

    /// A new private key, clamped as `wg genkey` does.
    ///
    /// # Errors
    /// [`KeyError::Random`].
    pub fn random_private() -> Result<Self, KeyError> {
        Ok(Self::random()?.clamped())
    }

    /// From its bytes.
    #[must_use]
    pub(crate) fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    #[must_use]
    pub(crate) fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The private key of a path of version 1, if this is a client's secret.
    #[must_use]
    pub fn of_path(&self, path: usize) -> Self {
        self.derive(PATH_LABEL, &[index(path)]).clamped()
    }

    /// The private key of a path to one server, of version 2, if this is a client's secret.
    #[must_use]
    pub(crate) fn of_path_to(&self, server: &PublicKey, path: usize) -> Self {
        let context = [server.as_bytes().as_slice(), &[index(path)]].concat();
        self.derive(PATH_LABEL_2, &context).clamped()
    }

    /// The private key by which a client says to a server what concerns no path, if this is its
    /// secret.
    #[must_use]
    pub(crate) fn control(&self, server: &PublicKey) -> Self {
        self.derive(CONTROL_LABEL, server.as_bytes()).clamped()
    }

    /// The private key and the preshared key of the one session that an invitation is good for, if
    /// this is its secret.
    #[must_use]
    pub(crate) fn enrolment(&self, server: &PublicKey) -> (Self, Self) {
        let key = self.derive(ENROLMENT_LABEL, server.as_bytes()).clamped();
        (key, self.derive(ENROLMENT_PSK_LABEL, server.as_bytes()))
    }

    fn derive(&self, label: &[u8], context: &[u8]) -> Self {
        let mut mac = <Hmac<Sha256> as KeyInit>::new_from_slice(&self.0)
            .expect("invariant: HMAC takes keys of any length");
        mac.update(label);
        mac.update(context);
        Self(mac.finalize().into_bytes().into())
    }

    /// The public key that belongs to it, if this is a private key.
    #[must_use]
    pub fn public(&self) -> PublicKey {
        PublicKey::from(&StaticSecret::from(self))
    }

    /// Reads a file that holds it, spaces around it ignored.
    ///
    /// # Errors
    /// [`KeyError::File`], [`KeyError::Syntax`].
    pub(crate) fn read(path: &Path) -> Result<Self, KeyError> {
        let fail = |error| KeyError::File(path.to_owned(), error);
        let text = Zeroizing::new(bounded::text(path, FILE_MAX).map_err(fail)?);
        text.trim().parse()
    }

    fn clamped(mut self) -> Self {
        self.0[0] &= 248;
        self.0[31] = (self.0[31] & 127) | 64;
        self
    }
}

/// As a session takes it, if it is a private key.
impl From<&Key> for StaticSecret {
    fn from(key: &Key) -> Self {
        Self::from(key.0)
    }
}

impl FromStr for Key {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        decode(text).map(Self)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&STANDARD.encode(self.0))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

fn index(path: usize) -> u8 {
    u8::try_from(path).expect("invariant: paths are few")
}

/// Reads a public key.
///
/// # Errors
/// [`KeyError::Syntax`].
pub(crate) fn public(text: &str) -> Result<PublicKey, KeyError> {
    decode(text).map(PublicKey::from)
}

/// Writes a public key.
#[must_use]
pub fn encode(key: &PublicKey) -> String {
    STANDARD.encode(key.as_bytes())
}

/// Writes a file that only its owner may read, at once: readers see the old one or the new one,
/// and a crash leaves one of both. An existing file is an error, or, where `replace` is true, gives
/// its owner and what owner and group may do.
///
/// # Errors
/// Those of the file system; [`io::ErrorKind::AlreadyExists`].
pub fn write_private(path: &Path, text: &str, replace: bool) -> io::Result<()> {
    let write = if replace { whole_file::replace } else { whole_file::create };
    write(path, text.as_bytes(), Access::Private)
}

/// Whether others than owner and group may read a file: by its mode, and by that of its folder.
#[must_use]
pub(crate) fn is_exposed(path: &Path) -> bool {
    let mode = |path: &Path| fs::metadata(path).map(|meta| meta.permissions().mode());
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let closed = mode(folder.unwrap_or(Path::new("."))).is_ok_and(|mode| mode & 0o001 == 0);
    !closed && mode(path).is_ok_and(|mode| mode & 0o007 != 0)
}

fn decode(text: &str) -> Result<[u8; 32], KeyError> {
    let bytes = STANDARD.decode(text).map_err(|_| KeyError::Syntax("this is no base64"))?;
    let bytes = Zeroizing::new(bytes);
    bytes.as_slice().try_into().map_err(|_| KeyError::Syntax("its length is another"))
}

#[cfg(test)]
mod tests;
