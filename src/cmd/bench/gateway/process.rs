//! An agent as a process of its own: this program again, with a configuration in a folder that
//! goes with it.

use crate::temporary;
use anyhow::{Context, bail};
use serde::Serialize;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;
use tabane_gateway::control::client::Client;
use tabane_gateway::model::Status;
use tabane_net::Clock;
use tempfile::TempDir;

/// Ends when it is dropped.
pub(super) struct Process {
    child: Child,
    folder: TempDir,
}

/// How long an agent may take to answer.
const PATIENCE: f64 = 20.0;
/// `USER_HZ`: what /proc counts processor time in, on every architecture that Linux still has.
const TICKS_PER_SECOND: f64 = 100.0;

impl Process {
    /// `tabane VERB` with that configuration, behind `before` (`ip netns exec NAME`), and waits
    /// until it answers.
    ///
    /// # Errors
    /// It does not start.
    pub(super) fn start(
        verb: &str,
        config: &impl Serialize,
        before: &[&str],
    ) -> anyhow::Result<Self> {
        let folder = temporary::folder(&format!("tabane-bench-{verb}-"))?;
        let file = folder.path().join("config.toml");
        let socket = folder.path().join("socket");
        let mut text = format!("control = {:?}\n", socket.display().to_string());
        text += &toml::to_string(config).context("a configuration cannot be written")?;
        write_private(&file, &text)?;
        let this = std::env::current_exe().context("where this program is cannot be found out")?;
        let mut command = match before {
            [first, rest @ ..] => {
                let mut command = Command::new(first);
                command.args(rest).arg(this);
                command
            }
            [] => Command::new(this),
        };
        command.args(["--quiet", verb, "-c"]).arg(file).env("STATE_DIRECTORY", folder.path());
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let child = command.spawn().with_context(|| format!("no {verb} agent"))?;
        let mut process = Self { child, folder };
        let clock = Clock::start();
        while process.status().is_err() {
            if let Some(status) = process.child.try_wait()? {
                bail!("the {verb} agent ended: {status}");
            }
            if clock.now().as_secs_f64() > PATIENCE {
                bail!("the {verb} agent does not answer");
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(process)
    }

    /// What it says of itself.
    ///
    /// # Errors
    /// It does not answer.
    pub(super) fn status(&self) -> anyhow::Result<Status> {
        Ok(Client::connect(&self.folder.path().join("socket"))?.status()?)
    }

    /// Resident memory, bytes.
    ///
    /// # Errors
    /// The system does not say.
    pub(super) fn resident(&self) -> anyhow::Result<u64> {
        let text = self.proc("status")?;
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kilobytes = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse().ok());
        kilobytes.map(|kilobytes: u64| kilobytes * 1024).context("no VmRSS")
    }

    /// Processor time so far, seconds.
    ///
    /// # Errors
    /// The system does not say.
    pub(super) fn cpu(&self) -> anyhow::Result<f64> {
        let text = self.proc("stat")?;
        // proc(5): the name, in parentheses, may hold anything; utime and stime are fields 14
        // and 15, the first after the name being the third.
        let (_, fields) = text.rsplit_once(')').context("an odd /proc/PID/stat")?;
        let ticks = fields.split_whitespace().skip(11).take(2);
        let ticks: f64 = ticks.filter_map(|word| word.parse::<f64>().ok()).sum();
        Ok(ticks / TICKS_PER_SECOND)
    }

    fn proc(&self, file: &str) -> anyhow::Result<String> {
        let path = format!("/proc/{}/{file}", self.child.id());
        fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // In order first: in TUN mode it takes back what it changed of its host.
        let asked = Client::connect(&self.folder.path().join("socket"))
            .and_then(|mut agent| agent.ask(tabane_gateway::request_channel::Request::Stop));
        if asked.is_err() {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}

/// There are keys in it.
fn write_private(path: &Path, text: &str) -> anyhow::Result<()> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = fs::OpenOptions::new();
    let file = options.write(true).create(true).truncate(true).mode(0o600).open(path);
    let done = file.and_then(|mut file| file.write_all(text.as_bytes()));
    done.with_context(|| format!("cannot write {}", path.display()))
}
