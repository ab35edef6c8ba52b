//! The file server and the client over the engine, in virtual time.

#![allow(clippy::unwrap_used)] // Helpers of tests fail the test.

mod client;
mod server;
mod world;

use sha2::{Digest, Sha256};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};
use tabane_interop::http::{FileServer, ServerConfig};
use tabane_net::http::hex;

/// A directory with a file `big` of 3 MB and a file `small` of 10 bytes.
pub(crate) struct Files {
    pub(crate) directory: tempfile::TempDir,
    pub(crate) big: Vec<u8>,
}

pub(crate) const SMALL: &str = "0123456789";

impl Files {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let big: Vec<u8> =
            (0..3_000_000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        std::fs::write(directory.path().join("big"), &big).unwrap();
        std::fs::write(directory.path().join("small"), SMALL).unwrap();
        std::fs::create_dir(directory.path().join("sub")).unwrap();
        Self { directory, big }
    }

    pub(crate) fn server(&self) -> FileServer {
        FileServer::new(self.config())
    }

    pub(crate) fn config(&self) -> ServerConfig {
        let wall = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        ServerConfig::new(self.directory.path(), wall).unwrap()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }
}

pub(crate) fn sha256(bytes: &[u8]) -> String {
    hex::digest(&Sha256::new_with_prefix(bytes))
}
