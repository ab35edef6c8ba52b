//! The files that are moved, and whether a test can run here at all.

use sha2::{Digest, Sha256};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A temporary folder with the files of one test; gone when dropped.
pub(crate) struct Folder(tempfile::TempDir);

/// SHA-256 of a file.
pub(crate) type Digest32 = [u8; 32];

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder can be made"))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// A file in the folder, which need not exist.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// Makes `folder/NAME` of `len` bytes that do not compress and differ by `seed`.
    pub(crate) fn make(&self, name: &str, len: usize, seed: u64) -> Digest32 {
        let path = self.file(name);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).expect("the temporary folder can be written");
        }
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut bytes = Vec::with_capacity(len + 8);
        while bytes.len() < len {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            bytes.extend(state.wrapping_mul(0x2545_f491_4f6c_dd1d).to_le_bytes());
        }
        bytes.truncate(len);
        fs::write(&path, &bytes).expect("the temporary folder can be written");
        Sha256::digest(&bytes).into()
    }

    /// Digest of `folder/NAME`.
    pub(crate) fn digest(&self, name: &str) -> Digest32 {
        let path = self.file(name);
        let bytes = fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        Sha256::digest(bytes).into()
    }
}

/// Whether this machine can run these tests; says why not, and fails where they must run.
pub(crate) fn ready() -> bool {
    let Some(why) = lacking() else { return true };
    println!("SKIPPED: {why}");
    assert!(std::env::var("CI").as_deref() != Ok("true"), "must not be skipped in CI: {why}");
    false
}

fn lacking() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("namespaces and TUN devices need root".into());
    }
    if !Path::new("/dev/net/tun").exists() {
        return Some("no /dev/net/tun".into());
    }
    if !Path::new("/proc/sys/net/mptcp").exists() {
        return Some("this kernel has no MPTCP".into());
    }
    let tools = ["ip", "sysctl", "nstat", "curl", "mptcpize", "python3", "ping"];
    let missing = |tool: &&str| Command::new(tool).arg("--version").output().is_err();
    tools.into_iter().find(missing).map(|tool| format!("no {tool} (see .ci/run)"))
}
