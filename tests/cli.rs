//! The built binary in a temporary folder: help, exit codes, messages, and the contract that
//! scripts rely on (`tabane sim run --json`, files of `--out`).

// A test that cannot go on shall say where; some wait for processes.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod binary;
#[cfg(target_os = "linux")]
#[path = "cli/compare.rs"]
mod compare;
#[path = "cli/config.rs"]
mod config;
#[path = "cli/files.rs"]
mod files;
#[path = "cli/join.rs"]
mod join;
#[path = "cli/json.rs"]
mod json;
#[path = "cli/manual.rs"]
mod manual;
#[path = "cli/paper.rs"]
mod paper;
#[path = "cli/program.rs"]
mod program;
#[path = "cli/service.rs"]
mod service;
#[path = "cli/sweep.rs"]
mod sweep;
#[path = "cli/usage.rs"]
mod usage;
