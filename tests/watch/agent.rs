//! A drawn agent with a control socket where the built binary looks for it.

use crate::binary;
use crate::fake::Fake;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use tabane_gateway::agent::{Endpoints, OpenEndpoints};

/// The agent, and its folder.
pub(crate) struct Agent {
    pub(crate) fake: Fake,
    _endpoints: Option<OpenEndpoints>,
    place: tempfile::TempDir,
}

/// What the binary said and how it ended.
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Agent {
    pub(crate) fn start() -> Self {
        let mut agent = Self::nowhere();
        let endpoints = Endpoints { control: Some(agent.socket()), ..Endpoints::default() };
        agent._endpoints = Some(endpoints.open(&agent.fake.request_channel).unwrap());
        agent
    }

    /// One that cannot be found.
    pub(crate) fn nowhere() -> Self {
        Self { fake: Fake::start(), _endpoints: None, place: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.place.path().join("tabane/home.sock")
    }

    /// Where a file is.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    /// A file of its owner alone.
    pub(crate) fn write(&self, name: &str, text: &str) -> String {
        let path = self.place.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
        path.display().to_string()
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = binary::tabane();
        command.args(args).stdin(Stdio::null());
        command.env("TABANE_RUNTIME_DIR", self.place.path().join("tabane"));
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Said {
        let output = self.command(args).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Said { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }

    pub(crate) fn ok(&self, args: &[&str]) -> String {
        let said = self.run(args);
        assert_eq!(said.code, Some(0), "tabane {}: {}", args.join(" "), said.err);
        said.out
    }

    pub(crate) fn json(&self, args: &[&str]) -> serde_json::Value {
        serde_json::from_str(&self.ok(args)).unwrap()
    }
}
