//! `tabane lab exec` and `tabane lab shell`: programs at the hosts of a running lab.

use crate::exit::Failure;
use anyhow::anyhow;
use std::os::unix::process::CommandExt;
use std::process::Command;
use tabane_lab::{Found, is_alive, list};

/// Runs a program at a host.
#[derive(clap::Args, Debug)]
pub(crate) struct ExecArgs {
    /// The host.
    host: String,
    /// Process id of the lab, if several are running.
    #[arg(long, value_name = "PID")]
    lab: Option<u32>,
    /// The program and its arguments.
    #[arg(last = true, required = true)]
    command: Vec<String>,
}

/// Opens a shell at a host.
#[derive(clap::Args, Debug)]
pub(crate) struct ShellArgs {
    /// The host.
    host: String,
    /// Process id of the lab, if several are running.
    #[arg(long, value_name = "PID")]
    lab: Option<u32>,
}

/// Runs it in place of this process, so that its exit code is the answer.
pub(super) fn exec(args: &ExecArgs) -> Result<(), Failure> {
    become_program(&find(&args.host, args.lab)?, &args.command)
}

/// The same with the user's shell.
pub(super) fn shell(args: &ShellArgs) -> Result<(), Failure> {
    let shell = std::env::var("SHELL").unwrap_or_else(|_| "/bin/sh".into());
    become_program(&find(&args.host, args.lab)?, &[shell])
}

fn become_program(found: &Found, command: &[String]) -> Result<(), Failure> {
    // `ip` also shows the program the namespace's own /sys.
    let error = Command::new("ip").args(["netns", "exec", &found.namespace]).args(command).exec();
    Err(anyhow!(error).context("cannot run ip").into())
}

/// The namespace of a host.
fn find(host: &str, lab: Option<u32>) -> Result<Found, Failure> {
    choose(list().into_iter().filter(|found| is_alive(found.pid)).collect(), host, lab)
}

fn choose(running: Vec<Found>, host: &str, lab: Option<u32>) -> Result<Found, Failure> {
    let mine = |found: &&Found| lab.is_none_or(|pid| found.pid == pid);
    let labs: Vec<&Found> = running.iter().filter(mine).collect();
    let named: Vec<&&Found> = labs.iter().filter(|found| found.host == host).collect();
    match named.as_slice() {
        [only] => Ok((**only).clone()),
        [] if labs.is_empty() => {
            let none = "no lab is running; start one with `tabane lab up FILE`";
            Err(Failure::usage(none))
        }
        [] => {
            let hosts: Vec<&str> = labs.iter().map(|found| found.host.as_str()).collect();
            let hosts = hosts.join(", ");
            Err(Failure::usage(format!("there is no host '{host}'; there are: {hosts}")))
        }
        several => {
            let pids: Vec<String> = several.iter().map(|found| found.pid.to_string()).collect();
            let pids = pids.join(", ");
            Err(Failure::usage(format!("several labs run: say which with --lab PID ({pids})")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn running() -> Vec<Found> {
        let found = |pid: u32, host: &str| Found {
            namespace: format!("tbl{pid}-{host}"),
            pid,
            host: host.to_owned(),
        };
        vec![found(7, "client"), found(7, "server"), found(9, "client")]
    }

    #[test]
    fn a_host_is_found_or_the_question_is_asked_back() {
        let says = |host: &str, lab| match choose(running(), host, lab) {
            Ok(found) => found.namespace,
            Err(Failure::Usage(text)) => text,
            Err(other) => format!("{other:?}"),
        };
        assert_eq!(says("server", None), "tbl7-server");
        assert_eq!(says("client", Some(9)), "tbl9-client");
        assert!(says("client", None).contains("--lab PID (7, 9)"));
        assert!(says("router", Some(7)).contains("client, server"));
        assert!(says("client", Some(8)).contains("no lab is running"));
    }
}
