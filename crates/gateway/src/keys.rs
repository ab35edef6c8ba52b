//! Keys: X25519 pairs and preshared keys as `wg` writes them (base64 of 32 bytes), and the keys of
//! a client's paths, all derived from one secret.
//!
//! # Keys of paths
//! Path `i` (from 0) has the private key
//! `clamp(HMAC-SHA-256(secret, "tabane path key v1" || 0x00 || i))`, `i` as one byte and `clamp` as
//! in RFC 7748 section 5. So an invitation carries 32 bytes whatever the number of paths, and the
//! server, that made them, keeps public keys alone.
//!
//! What a session does with keys is `tabane_net::wireguard`'s business.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use boringtun::x25519::{PublicKey, StaticSecret};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use tabane_trace::bounded;
use thiserror::Error;

/// 32 bytes that nobody else may know: a private key, a preshared key, or a client's secret.
/// Printed as base64; `Debug` shows nothing of it.
#[derive(Clone, PartialEq, Eq)]
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
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The private key of a path, if this is a client's secret.
    #[must_use]
    pub fn of_path(&self, path: usize) -> Self {
        let index = u8::try_from(path).expect("invariant: paths are few");
        let mut mac = <Hmac<Sha256> as KeyInit>::new_from_slice(&self.0)
            .expect("invariant: HMAC takes keys of any length");
        mac.update(PATH_LABEL);
        mac.update(&[index]);
        Self(mac.finalize().into_bytes().into()).clamped()
    }

    /// As a session takes it, if this is a private key.
    #[must_use]
    pub fn to_static(&self) -> StaticSecret {
        StaticSecret::from(self.0)
    }

    /// The public key that belongs to it, if this is a private key.
    #[must_use]
    pub fn public(&self) -> PublicKey {
        PublicKey::from(&self.to_static())
    }

    /// Reads a file that holds it, spaces around it ignored.
    ///
    /// # Errors
    /// [`KeyError::File`], [`KeyError::Syntax`].
    pub fn read(path: &Path) -> Result<Self, KeyError> {
        let fail = |error| KeyError::File(path.to_owned(), error);
        bounded::text(path, FILE_MAX).map_err(fail)?.trim().parse()
    }

    fn clamped(mut self) -> Self {
        self.0[0] &= 248;
        self.0[31] = (self.0[31] & 127) | 64;
        self
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

/// Reads a public key.
///
/// # Errors
/// [`KeyError::Syntax`].
pub fn public(text: &str) -> Result<PublicKey, KeyError> {
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
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_string_lossy();
    let fresh = folder.join(format!(".{name}.{}", std::process::id()));
    let write = || {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&fresh)?;
        if let (true, Ok(old)) = (replace, fs::metadata(path)) {
            // Who could read it still can: a service may run as a user of its own.
            std::os::unix::fs::fchown(&file, Some(old.uid()), Some(old.gid()))?;
            file.set_permissions(fs::Permissions::from_mode(old.mode() & 0o660))?;
        }
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        // A hard link does not replace, a rename does.
        if replace { fs::rename(&fresh, path) } else { fs::hard_link(&fresh, path) }
    };
    let done = write();
    if done.is_err() || !replace {
        // It is gone already if it could not be made; the file's own error is the one to tell.
        let _ = fs::remove_file(&fresh);
    }
    done
}

/// Whether others than owner and group may read a file: by its mode, and by that of its folder.
#[must_use]
pub fn is_exposed(path: &Path) -> bool {
    let mode = |path: &Path| fs::metadata(path).map(|meta| meta.permissions().mode());
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let closed = mode(folder.unwrap_or(Path::new("."))).is_ok_and(|mode| mode & 0o001 == 0);
    !closed && mode(path).is_ok_and(|mode| mode & 0o007 != 0)
}

fn decode(text: &str) -> Result<[u8; 32], KeyError> {
    let bytes = STANDARD.decode(text).map_err(|_| KeyError::Syntax("this is no base64"))?;
    bytes.try_into().map_err(|_| KeyError::Syntax("its length is another"))
}

#[cfg(test)]
mod tests;
