//! The page, served by the binary; what the command line says of the same scenario; and hands for
//! the browser.

use crate::binary::tabane;
use crate::browser::Browser;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Stdio};

/// Ends when it is dropped.
pub(crate) struct Page {
    child: Child,
    address: String,
}

impl Page {
    /// On a free port of this machine.
    pub(crate) fn serve() -> Self {
        Self::serve_with(&[])
    }

    pub(crate) fn serve_with(options: &[&str]) -> Self {
        let mut child = tabane()
            .args(["--quiet", "play", "--listen", "127.0.0.1:0"])
            .args(options)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut address = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut address).unwrap();
        Self { child, address: address.trim().to_owned() }
    }

    /// The address of a state.
    pub(crate) fn at(&self, state: &str) -> String {
        self.with_query("lang=en", state)
    }

    /// The address of a file.
    pub(crate) fn file(&self, name: &str) -> String {
        format!("{}{name}", self.address)
    }

    pub(crate) fn with_query(&self, query: &str, state: &str) -> String {
        format!("{}?{query}#{state}", self.address)
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What `tabane sim run --json` says of a scenario.
pub(crate) fn by_command_line(toml: &str) -> String {
    given(toml, &["sim", "run", "-", "--json"])
}

/// `tabane sim check` takes it.
pub(crate) fn check_by_command_line(toml: &str) {
    let file = tempfile::NamedTempFile::with_suffix(".toml").unwrap();
    std::fs::write(file.path(), toml).unwrap();
    let output = tabane().args(["sim", "check"]).arg(file.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn given(input: &str, args: &[&str]) -> String {
    let mut child =
        tabane().args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{args:?} fails on\n{input}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// A result without what the run cost, which stands last in it and is no part of what happened.
pub(crate) fn without_cost(result: &str) -> &str {
    let end = result.rfind(",\"cost\":").unwrap_or(result.len() - 1);
    &result[..end]
}

impl Browser {
    /// What a promise is kept with.
    pub(crate) fn answer(&mut self, promise: &str) -> String {
        self.text(&format!(
            "window.kept = undefined; {promise}.then((it) => window.kept = it); ''"
        ));
        self.until("window.kept !== undefined", promise);
        self.text("window.kept")
    }

    /// A key goes down.
    pub(crate) fn key(&mut self, key: &str) {
        self.text(&format!(
            "document.body.dispatchEvent( \
             new KeyboardEvent('keydown', {{ key: '{key}', bubbles: true }}))"
        ));
    }

    /// Moves a slider, which has 200 places.
    pub(crate) fn slide(&mut self, name: &str, place: u32) {
        self.text(&format!(
            "(() => {{ const it = document.querySelector('input[name=\"{name}\"]'); \
             it.value = {place}; it.dispatchEvent(new Event('input', {{ bubbles: true }})); }})()"
        ));
    }

    pub(crate) fn choose(&mut self, select: &str, value: &str) {
        self.text(&format!(
            "(() => {{ const it = document.getElementById('{select}'); \
             it.value = '{value}'; it.dispatchEvent(new Event('change')); }})()"
        ));
    }
}
