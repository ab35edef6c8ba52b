//! The token that changes on the page need.

use crate::config::Service;
use sha2::{Digest, Sha256};
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// A secret that who may change something knows; only its hash is kept.
#[derive(Clone)]
pub(crate) struct Token([u8; 32]);

/// No token.
#[derive(Error, Debug)]
pub(crate) enum TokenError {
    /// Not readable.
    #[error("the token file {path} cannot be read: {error}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// Others can read it.
    #[error("the token file {0} can be read by others: chmod 600 it")]
    Open(PathBuf),
    /// Guessable.
    #[error(
        "the token has {0} characters, {min} are the least: `tabane genkey` makes a good one",
        min = TOKEN_MIN
    )]
    Short(usize),
    /// It could not be typed or sent.
    #[error("the token has characters that are not printable ASCII")]
    Odd,
}

/// Shortest token, characters.
const TOKEN_MIN: usize = 16;
/// Longest token file, bytes.
const FILE_MAX: u64 = 4096;

impl Token {
    /// A token of at least 16 printable characters.
    ///
    /// # Errors
    /// `TokenError`.
    pub(crate) fn new(text: &str) -> Result<Self, TokenError> {
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(TokenError::Odd);
        }
        if text.len() < TOKEN_MIN {
            return Err(TokenError::Short(text.len()));
        }
        Ok(Self(Sha256::digest(text.as_bytes()).into()))
    }

    /// Reads it from a file that only its owner may read; white space around it is left out.
    ///
    /// # Errors
    /// `TokenError`.
    pub(crate) fn read(path: &Path) -> Result<Self, TokenError> {
        let failed = |error| TokenError::Io { path: path.to_path_buf(), error };
        let file = File::open(path).map_err(failed)?;
        // A service's copy may be readable by a list (acl(5)), which shows as its group's mode.
        let given = Service::from_env().has(path);
        if !given && file.metadata().map_err(failed)?.mode() & 0o077 != 0 {
            return Err(TokenError::Open(path.to_path_buf()));
        }
        let mut text = String::new();
        file.take(FILE_MAX).read_to_string(&mut text).map_err(failed)?;
        Self::new(text.trim())
    }

    /// Whether `text` is it. Takes the same time for any wrong one: hashes are compared, and all
    /// of them.
    #[must_use]
    pub(crate) fn is(&self, text: &str) -> bool {
        let other: [u8; 32] = Sha256::digest(text.as_bytes()).into();
        let differ = self.0.iter().zip(other).fold(0, |sum, (a, b)| sum | (a ^ b));
        std::hint::black_box(differ) == 0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{Permissions, set_permissions, write};
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn only_the_token_is_the_token() {
        let token = Token::new("0123456789abcdef").unwrap();
        assert!(token.is("0123456789abcdef"));
        for wrong in ["", "0123456789abcdeg", "0123456789abcde", "0123456789abcdef "] {
            assert!(!token.is(wrong), "{wrong}");
        }
        assert!(matches!(Token::new("short"), Err(TokenError::Short(5))));
        assert!(matches!(Token::new("0123456789abcde\u{e9}"), Err(TokenError::Odd)));
        assert_eq!(format!("{token:?}"), "Token");
    }

    #[test]
    fn files_that_others_can_read_are_refused() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("token");
        write(&path, "0123456789abcdef\n").unwrap();
        set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        assert!(matches!(Token::read(&path), Err(TokenError::Open(_))));
        set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        assert!(Token::read(&path).unwrap().is("0123456789abcdef"));
        assert!(matches!(Token::read(&place.path().join("x")), Err(TokenError::Io { .. })));
    }
}
