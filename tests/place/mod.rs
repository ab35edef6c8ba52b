//! A server and the client `home` as built, on loopback, in a folder of their own: `s.toml` and
//! `c.toml`. Nobody edits a file but who wants to.

#![allow(dead_code)] // Each test program uses a part of it.

use crate::binary::tabane;
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Agents end with this.
pub(crate) struct Place {
    folder: tempfile::TempDir,
    children: Vec<Child>,
}

impl Place {
    /// A server that runs.
    pub(crate) fn new() -> Self {
        let mut place = Self::empty();
        place.serve(|text| text);
        place
    }

    pub(crate) fn empty() -> Self {
        let place = Self { folder: tempfile::tempdir().unwrap(), children: Vec::new() };
        std::fs::create_dir(place.path("state")).unwrap();
        place
    }

    /// Starts a server whose configuration has been changed.
    pub(crate) fn serve(&mut self, change: impl Fn(String) -> String) {
        let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let (server, public) = (self.file("s.toml"), format!("127.0.0.1:{port}"));
        self.ok(&["server", "init", "-c", &server, "--public", &public, "--listen", &public]);
        self.edit("s.toml", change);
        self.start(&["server", "-c", &server]);
        self.until("the server runs", &["status", "--agent", "server"], |said| {
            said.contains("server")
        });
    }

    /// Where a file is.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn file(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    /// A file of its owner alone.
    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
        std::fs::set_permissions(self.path(name), PermissionsExt::from_mode(0o600)).unwrap();
    }

    pub(crate) fn edit(&self, name: &str, change: impl Fn(String) -> String) {
        self.write(name, &change(self.read(name)));
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = tabane();
        command.args(args).stdin(Stdio::null());
        command.env("TABANE_RUNTIME_DIR", self.path("tabane"));
        command.env("STATE_DIRECTORY", self.path("state"));
        command
    }

    pub(crate) fn start(&mut self, args: &[&str]) {
        let mut command = self.command(args);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        self.children.push(command.spawn().unwrap());
    }

    pub(crate) fn stop_last(&mut self) {
        let mut child = self.children.pop().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// What it says on both outputs.
    pub(crate) fn run(&self, args: &[&str]) -> (Option<i32>, String) {
        let output = self.command(args).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(said).unwrap())
    }

    #[track_caller]
    pub(crate) fn ok(&self, args: &[&str]) -> String {
        let (code, said) = self.run(args);
        assert_eq!(code, Some(0), "tabane {}: {said}", args.join(" "));
        said
    }

    #[track_caller]
    pub(crate) fn until(&self, what: &str, args: &[&str], sign: impl Fn(&str) -> bool) {
        let mut last = (None, String::new());
        for _ in 0..150 {
            last = self.run(args);
            if last.0 == Some(0) && sign(&last.1) {
                return;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("{what}: {last:?}");
    }

    /// Invites `home`; the line goes to the file `line`.
    pub(crate) fn invite(&self) {
        let said = self.ok(&["server", "invite", "home", "-c", &self.file("s.toml")]);
        let line = said.lines().find(|line| line.starts_with("tabane:")).unwrap();
        self.write("line", line);
    }

    pub(crate) fn join(&self, more: &[&str]) -> String {
        let (line, out) = (self.file("line"), self.file("c.toml"));
        let join = ["client", "join", "--file", &line, "--out", &out, "--path", "lo"];
        let said = self.ok(&[&join[..], more].concat());
        // Programs connect to a port of the system's choice.
        self.edit("c.toml", |text| text.replace("127.0.0.1:1080", "127.0.0.1:0"));
        said
    }

    /// Runs the client until all its paths work.
    #[track_caller]
    pub(crate) fn works(&mut self, what: &str) {
        let file = self.file("c.toml");
        self.start(&["client", "-c", &file]);
        self.until_paths(what, "up");
    }

    /// Waits until all paths of `home` are in this state.
    #[track_caller]
    pub(crate) fn until_paths(&self, what: &str, state: &str) {
        let state = format!(" {state} ");
        let paths = self.read("c.toml").matches("[[path]]").count();
        self.until(what, &["path", "list", "--agent", "home"], |said| {
            let rows = said.lines().filter(|line| line.contains(" primary "));
            rows.filter(|row| row.contains(&state)).count() == paths
        });
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
