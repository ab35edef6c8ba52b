//! The kernel's switches below `/proc/sys/net` (`sysctl(8)`), of the network namespace of the
//! calling thread.

use serde::{Deserialize, Serialize};
use std::fs;
use std::io::{self, ErrorKind};
use std::path::PathBuf;

/// One that is changed.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub(super) struct Sysctl {
    /// Below `net`, with slashes: names of interfaces may have dots in them.
    pub(super) name: String,
    pub(super) before: String,
    pub(super) after: String,
}

/// What one is set to; `None` if there is none, as of an interface that is not there.
pub(crate) fn read(name: &str) -> Option<String> {
    fs::read_to_string(path(name)).ok().map(|text| text.trim().to_owned())
}

/// The interfaces that have IPv6, but for those that lead to this machine only.
pub(super) fn interfaces_v6() -> Vec<String> {
    let all = fs::read_dir(path("ipv6/conf")).into_iter().flatten().flatten();
    let mut names: Vec<String> = all
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| !["all", "default", "lo"].contains(&name.as_str()))
        .collect();
    names.sort();
    names
}

/// Sets it; false if it is set already, or its interface is not there.
pub(super) fn make(switch: &Sysctl) -> io::Result<bool> {
    set(&switch.name, &switch.after)
}

/// Sets it as it was, unless somebody has set it since; then says so.
pub(super) fn undo(switch: &Sysctl) -> io::Result<Option<String>> {
    let Sysctl { name, before, after } = switch;
    match read(name) {
        Some(now) if now == *after => set(name, before).map(|_| None),
        Some(now) if now != *before => {
            Ok(Some(format!("net/{name} was set to {now} by somebody else: left as it is")))
        }
        _ => Ok(None),
    }
}

fn set(name: &str, value: &str) -> io::Result<bool> {
    match read(name) {
        None => return Ok(false),
        Some(now) if now == value => return Ok(false),
        Some(_) => {}
    }
    match fs::write(path(name), value) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        done => done.map(|()| true),
    }
}

fn path(name: &str) -> PathBuf {
    PathBuf::from("/proc/sys/net").join(name)
}
