//! What this machine lacks for the lab, and what to do about it.

use crate::kernel::has_mptcp;
use crate::memory::{self, TcpMemory};
use crate::namespace::{Namespace, is_alive, list};
use crate::priority;
use serde::Serialize;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// One thing looked at.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Check {
    pub what: &'static str,
    pub state: State,
    /// What was found, in words.
    pub found: String,
    /// What to do, if something is to be done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<&'static str>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// As it should be.
    Good,
    /// The lab works without it, but less well.
    Poor,
    /// The lab does not work without it.
    Missing,
}

/// Looks at everything.
pub fn examine() -> Vec<Check> {
    let root = rustix::process::geteuid().is_root();
    let mut checks = vec![
        check(
            "root",
            root,
            State::Missing,
            if root { "yes" } else { "no" }.into(),
            "sudo tabane lab ...; in a container: --privileged, or --cap-add NET_ADMIN,SYS_ADMIN",
        ),
        namespaces(root),
    ];
    checks.extend(needed());
    checks.extend(wanted());
    checks
}

fn check(
    what: &'static str,
    good: bool,
    otherwise: State,
    found: String,
    remedy: &'static str,
) -> Check {
    let state = if good { State::Good } else { otherwise };
    Check { what, state, found, remedy: (!good).then_some(remedy) }
}

/// What the lab does not work without.
fn needed() -> [Check; 2] {
    let tun = Path::new("/dev/net/tun").exists();
    let ip = version("ip", "-V");
    [
        check(
            "TUN devices",
            tun,
            State::Missing,
            if tun { "/dev/net/tun" } else { "/dev/net/tun is missing" }.into(),
            "modprobe tun; mknod /dev/net/tun c 10 200; in a container: --device /dev/net/tun",
        ),
        check(
            "ip",
            ip.is_some(),
            State::Missing,
            ip.unwrap_or_else(|| "not installed".into()),
            "install iproute2",
        ),
    ]
}

/// What it works better with.
fn wanted() -> [Check; 6] {
    let mptcp = has_mptcp();
    let controllers = read("/proc/sys/net/ipv4/tcp_available_congestion_control");
    let realtime = priority::may_take();
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let dead = list().iter().filter(|found| !is_alive(found.pid)).count();
    [
        check(
            "MPTCP in the kernel",
            mptcp.is_ok(),
            State::Poor,
            mptcp.map_or_else(|e| e.to_string(), |()| "yes".into()),
            "sysctl net.mptcp.enabled=1, or a kernel with CONFIG_MPTCP; plain TCP and \
             --stack tabane work without",
        ),
        check(
            "congestion control",
            ["reno", "cubic"].iter().all(|name| controllers.split(' ').any(|c| c == *name)),
            State::Poor,
            controllers,
            "modprobe tcp_cubic; scenarios name what the kernel has",
        ),
        check(
            "real-time priority",
            realtime,
            State::Poor,
            if realtime { "allowed" } else { "refused" }.into(),
            "packets will be late by milliseconds under load: allow CAP_SYS_NICE \
             (in a container: --cap-add SYS_NICE)",
        ),
        check(
            "processors",
            cores > 1,
            State::Poor,
            cores.to_string(),
            "emulator and hosts share one processor: use low rates",
        ),
        tcp_memory(TcpMemory::look()),
        check(
            "leftovers",
            dead == 0,
            State::Poor,
            format!("{dead} namespaces of labs that are gone"),
            "the next `tabane lab run` removes them",
        ),
    ]
}

/// Whether the kernel has memory for TCP: without, every window on the machine is small.
fn tcp_memory(memory: Option<TcpMemory>) -> Check {
    let found = memory.map_or_else(|| "the kernel does not say".into(), TcpMemory::words);
    let tight = memory.is_some_and(TcpMemory::is_tight);
    check("memory for TCP", !tight, State::Poor, found, memory::REMEDY)
}

/// Whether a namespace can be made: containers often forbid it.
fn namespaces(root: bool) -> Check {
    let name = format!("{}{}-doctor", crate::PREFIX, std::process::id());
    let made = if root {
        Namespace::new(&name).and_then(|n| n.inside(|| ())).map_err(|e| e.to_string())
    } else {
        Err("not tried without root".into())
    };
    Check {
        what: "network namespaces",
        state: if made.is_ok() { State::Good } else { State::Missing },
        remedy: made.is_err().then_some("CAP_SYS_ADMIN, and a kernel with CONFIG_NET_NS"),
        found: made.map_or_else(|why| why, |()| "can be made".into()),
    }
}

/// What a program calls itself, if it is there.
fn version(program: &str, argument: &str) -> Option<String> {
    let output = Command::new(program).arg(argument).stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    Some(if text.is_empty() { "yes".to_owned() } else { text })
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}
