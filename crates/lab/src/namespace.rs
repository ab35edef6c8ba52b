//! Network namespaces: made here, gone when dropped. What a killed lab left behind is removed
//! when the next one starts: a namespace's name says which process made it.

use crate::LabError;
use crate::plan::PREFIX;
use nix::sched::{CloneFlags, setns};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

/// Where `ip netns` keeps names.
const FOLDER: &str = "/run/netns";

/// A named network namespace.
#[derive(Debug)]
pub(crate) struct Namespace {
    name: String,
}

/// A namespace of some lab.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    pub namespace: String,
    /// The process that made it.
    pub pid: u32,
    pub host: String,
}

impl Namespace {
    /// Makes it.
    ///
    /// # Errors
    /// What `ip netns add` says.
    pub(crate) fn new(name: &str) -> Result<Self, LabError> {
        run(Command::new("ip").args(["netns", "add", name]))?;
        Ok(Self { name: name.to_owned() })
    }

    /// Runs lines of `ip` in here, all in one process.
    ///
    /// # Errors
    /// What `ip` says about the first line that fails.
    pub(crate) fn ip(&self, version: u8, lines: &[String]) -> Result<(), LabError> {
        let mut command = Command::new("ip");
        if version == 6 {
            command.arg("-6");
        }
        command.args(["-n", &self.name, "-batch", "-"]);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let system = |source| LabError::System { what: "run ip".into(), source };
        let mut child = command.spawn().map_err(system)?;
        if let Some(mut input) = child.stdin.take() {
            // If it does not read all of it, it says why.
            let _ = input.write_all((lines.join("\n") + "\n").as_bytes());
        }
        let output = child.wait_with_output().map_err(system)?;
        if output.status.success() {
            return Ok(());
        }
        Err(LabError::Command {
            command: format!("ip -n {} -batch", self.name),
            said: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        })
    }

    /// Writes settings below `/proc/sys/`; a setting that this kernel lacks is left out if it
    /// belongs to IPv6.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn sysctl(&self, settings: &[(String, String)]) -> Result<(), LabError> {
        self.inside(|| {
            for (key, value) in settings {
                let path = Path::new("/proc/sys").join(key);
                if key.starts_with("net/ipv6") && !path.exists() {
                    continue;
                }
                let what = format!("set {} to {value}", key.replace('/', "."));
                fs::write(&path, value).map_err(|source| LabError::System { what, source })?;
            }
            Ok(())
        })?
    }

    /// Runs `work` on a thread that is in this namespace.
    ///
    /// # Errors
    /// The namespace is gone, or the thread panicked.
    pub(crate) fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, LabError> {
        thread::scope(|scope| {
            let thread = scope.spawn(|| {
                self.enter()?;
                Ok(work())
            });
            let panicked = || LabError::Broken("a thread in a namespace panicked".into());
            thread.join().map_err(|_| panicked())?
        })
    }

    /// Moves the calling thread there, for good.
    ///
    /// # Errors
    /// The namespace is gone, or the privilege.
    pub(crate) fn enter(&self) -> Result<(), LabError> {
        enter(&self.name)
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        remove(&self.name);
    }
}

/// Moves the calling thread to the namespace called `name`.
fn enter(name: &str) -> Result<(), LabError> {
    let what = || format!("enter the namespace {name}");
    let path = Path::new(FOLDER).join(name);
    let file = File::open(path).map_err(|source| LabError::System { what: what(), source })?;
    setns(file, CloneFlags::CLONE_NEWNET)
        .map_err(|error| LabError::System { what: what(), source: error.into() })
}

/// Every namespace of labs on this machine, by name.
pub fn list() -> Vec<Found> {
    let Ok(entries) = fs::read_dir(FOLDER) else { return Vec::new() };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut found: Vec<Found> = names.filter_map(|name| parse(&name)).collect();
    found.sort_by(|a, b| a.namespace.cmp(&b.namespace));
    found
}

/// `tbl4711-client`.
fn parse(name: &str) -> Option<Found> {
    let (pid, host) = name.strip_prefix(PREFIX)?.split_once('-')?;
    let pid = pid.parse().ok()?;
    Some(Found { namespace: name.to_owned(), pid, host: host.to_owned() })
}

/// Whether the process that made it is still there.
pub fn is_alive(pid: u32) -> bool {
    PathBuf::from(format!("/proc/{pid}")).exists()
}

/// Removes what labs whose process is gone left behind; the names.
pub fn remove_leftovers() -> Vec<String> {
    let dead = list().into_iter().filter(|found| !is_alive(found.pid));
    dead.map(|found| {
        remove(&found.namespace);
        found.namespace
    })
    .collect()
}

/// Ends what runs in a namespace of a lab, by its id, and deletes the namespace.
fn remove(name: &str) {
    if let Ok(output) = Command::new("ip").args(["netns", "pids", name]).output() {
        let pids = String::from_utf8_lossy(&output.stdout).into_owned();
        let own = std::process::id() as i32;
        for pid in pids.split_whitespace().filter_map(|pid| pid.parse::<i32>().ok()) {
            if pid != own {
                // It may have ended by itself.
                let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
            }
        }
    }
    // What is gone already needs no removing.
    let _ = Command::new("ip").args(["netns", "del", name]).stderr(Stdio::null()).status();
}

/// Runs a command to its end.
fn run(command: &mut Command) -> Result<(), LabError> {
    let name = format!("{command:?}").replace('"', "");
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|source| LabError::System { what: format!("run {name}"), source })?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(LabError::Command { command: name, said })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_whose_they_are() {
        let found = parse("tbl4711-my-client").unwrap();
        assert_eq!((found.pid, found.host.as_str()), (4711, "my-client"));
        for other in ["tbi12-0k", "tbl-client", "tblx-client", "tbl12", "eth0"] {
            assert_eq!(parse(other), None, "{other}");
        }
    }
}
