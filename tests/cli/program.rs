//! Runs the binary; scenarios that are quick.

use crate::binary;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// A folder of its own for a test, removed afterwards.
pub(crate) struct Place {
    folder: tempfile::TempDir,
}

/// What the binary said and how it ended.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// 2 MB over a slow clean and a faster lossy link.
pub(crate) const BUNDLE: &str = r#"
about = "test"
seed = 7
duration = "30s"
[link.wifi]
rate = "20Mbps"
delay = "10ms"
loss = "0.5%"
[link.lte]
rate = "5Mbps"
delay = "30ms"
[[flow]]
name = "download"
bulk = "2MB"
"#;

impl Place {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    pub(crate) fn read(&self, name: &str) -> String {
        let path = self.path(name);
        std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
    }

    /// Runs the binary here.
    pub(crate) fn tabane(&self, args: &[&str]) -> Said {
        said(&tabane().current_dir(self.folder.path()).args(args).output().unwrap())
    }

    /// Runs it and expects success; its standard output.
    pub(crate) fn ok(&self, args: &[&str]) -> String {
        let said = self.tabane(args);
        assert_eq!(said.code, Some(0), "tabane {}: {}", args.join(" "), said.err);
        said.out
    }

    /// Runs it and expects one JSON document on standard output.
    pub(crate) fn json(&self, args: &[&str]) -> serde_json::Value {
        let out = self.ok(args);
        serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e} in {out}"))
    }
}

pub(crate) fn tabane() -> Command {
    let mut command = binary::tabane();
    command.stdin(Stdio::null());
    command
}

fn said(output: &Output) -> Said {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    Said { code: output.status.code(), out: text(&output.stdout), err: text(&output.stderr) }
}

/// Whether a tool is there; if not, says so, and fails where nothing may be skipped.
pub(crate) fn has(tool: &str) -> bool {
    let found = binary::is_installed(tool);
    if !found {
        assert!(std::env::var_os("CI").is_none(), "{tool} is not installed");
        println!("SKIPPED: {tool} is not installed");
    }
    found
}
