//! The built binary, closed off from the machine that runs the tests: whoever tests tabane may also
//! use it. A process started from here sees neither the agents of this machine nor their
//! configurations and state, nor what its user has set in the environment.
//!
//! Tests start the binary only through this file; `tests/tidy/rules.rs` looks for others.

#![allow(dead_code)] // Each test program uses a part of it.

use std::path::{Path, PathBuf};
use std::process::Command;

/// What is kept of the environment: where programs and temporary files are, and what people set to
/// look into a failing test.
const KEPT: [&str; 4] = ["PATH", "TMPDIR", "RUST_BACKTRACE", "LLVM_PROFILE_FILE"];

/// The binary.
pub(crate) fn tabane() -> Command {
    by(|path| Command::new(path))
}

/// A command that runs the binary, whose path it is given: behind `ip netns exec`, say.
pub(crate) fn by(start: impl FnOnce(&str) -> Command) -> Command {
    let mut command = start(env!("CARGO_BIN_EXE_tabane"));
    close(&mut command);
    command
}

/// Puts a copy of the binary there. What runs it is to be closed off by [`close`].
pub(crate) fn copy(to: &Path) {
    std::fs::copy(env!("CARGO_BIN_EXE_tabane"), to).expect("the folder can be written");
}

/// Closes a command off from the machine. Variables that it shall have are set after this.
pub(crate) fn close(command: &mut Command) {
    command.env_clear();
    for name in KEPT {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    let nowhere = nowhere();
    command.env("LC_ALL", "C.UTF-8").env("HOME", &nowhere);
    command.env("TABANE_RUNTIME_DIR", nowhere.join("run"));
    command.env("TABANE_CONFIG_DIR", nowhere.join("etc"));
    command.env("STATE_DIRECTORY", nowhere.join("state"));
}

/// Whether a program is on the machine.
pub(crate) fn is_installed(program: &str) -> bool {
    std::env::var_os("PATH").is_some_and(|path| {
        std::env::split_paths(&path).any(|folder| folder.join(program).exists())
    })
}

/// A folder that is not there, of this process.
fn nowhere() -> PathBuf {
    std::env::temp_dir().join(format!("tabane-test-{}", std::process::id()))
}
