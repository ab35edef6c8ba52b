//! A network namespace for a test, gone when dropped.

use std::fs::File;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// A named network namespace with its loopback up.
pub(crate) struct Namespace(String);

/// Whether tests can be done here; says why not.
pub(crate) fn ready(tools: &[&str]) -> bool {
    let tool = |name: &&&str| Command::new(name).arg("--version").output().is_err();
    let why = if !rustix::process::geteuid().is_root() {
        Some("needs root".to_owned())
    } else {
        tools.iter().chain(&["ip"]).find(tool).map(|name| format!("needs {name}"))
    };
    let Some(why) = why else { return true };
    println!("SKIPPED: {why}");
    assert!(std::env::var("CI").as_deref() != Ok("true"), "skipped in CI: {why}");
    false
}

impl Namespace {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("tbt{}-{number}", std::process::id());
        run(Command::new("ip").args(["netns", "add", &name]));
        let namespace = Self(name);
        namespace.ip("link set lo up");
        namespace
    }

    /// `program` in here.
    pub(crate) fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.0]).arg(program);
        command
    }

    /// `ip ARGS` in here; panics if that fails.
    pub(crate) fn ip(&self, args: &str) -> String {
        run(Command::new("ip").args(["-n", &self.0]).args(args.split_whitespace()))
    }

    /// Rules and routes of all tables, as text; without link-local addresses, which kernels give
    /// to devices by chance and in their own time.
    pub(crate) fn snapshot(&self) -> String {
        let snapshots = ["rule", "-6 rule", "route show table all", "-6 route show table all"];
        let lines = snapshots.map(|args| self.ip(args)).join("\n");
        let own = |line: &&str| !line.contains("fe80::") && !line.contains("ff00::");
        lines.lines().filter(own).collect::<Vec<_>>().join("\n")
    }

    /// Runs `work` on a thread that is in this namespace; those that it starts are too.
    pub(crate) fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let path = format!("/run/netns/{}", self.0);
        thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let file = File::open(&path).expect("the namespace exists");
                let done = nix::sched::setns(file, nix::sched::CloneFlags::CLONE_NEWNET);
                done.unwrap_or_else(|error| panic!("setns {path}: {error}"));
                work()
            });
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.0]).output();
    }
}

fn run(command: &mut Command) -> String {
    let output = command.output().expect("ip can be run");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}
