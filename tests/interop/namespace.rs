//! Network namespaces and the processes in them: made here, and gone when dropped, also when a
//! test panics. What a killed run left behind is removed when the next one starts.

use nix::sched::{CloneFlags, setns};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Namespaces of this project's tests begin with this, then the id of the test process.
const PREFIX: &str = "tbi";

/// A named network namespace with its loopback up.
pub(crate) struct Namespace {
    name: String,
}

impl Namespace {
    pub(crate) fn new(role: char) -> Self {
        static CLEAN: Once = Once::new();
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        CLEAN.call_once(remove_leftovers);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{PREFIX}{}-{number}{role}", std::process::id());
        run(Command::new("ip").args(["netns", "add", &name]));
        let namespace = Self { name };
        namespace.ip("link set lo up");
        namespace
    }

    /// What it is called.
    #[allow(dead_code)] // Not every test that uses this file asks.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Runs `program` in here, with its standard streams as the caller sets them.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name, program]).stdin(Stdio::null());
        command
    }

    /// `ip ARGS` in here; panics if that fails.
    pub(crate) fn ip(&self, args: &str) -> String {
        run(Command::new("ip").args(["-n", &self.name]).args(args.split_whitespace()))
    }

    /// Sets `key=value` pairs; a key that this kernel lacks is an error.
    pub(crate) fn sysctl(&self, pairs: &str) {
        run(self.command("sysctl").arg("-qw").args(pairs.split_whitespace()));
    }

    /// Runs `work` on a thread that is in this namespace.
    pub(crate) fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let path = Path::new("/run/netns").join(&self.name);
        thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let file = File::open(&path).expect("the namespace exists");
                let done = setns(file, CloneFlags::CLONE_NEWNET);
                done.unwrap_or_else(|error| panic!("setns {path:?}: {error}"));
                work()
            });
            thread.join().expect("the work in the namespace does not panic")
        })
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        remove(&self.name);
    }
}

/// A process of ours, stopped when dropped. What it said is kept for the report.
pub(crate) struct Process {
    child: Child,
    log: PathBuf,
    name: String,
}

impl Process {
    /// Starts `command`; both output streams go to `folder/NAME.log`.
    pub(crate) fn start(command: &mut Command, folder: &Path, name: &str) -> Self {
        let log = folder.join(format!("{name}.log"));
        let file = File::create(&log).expect("the folder can be written");
        let errors = file.try_clone().expect("a file can be opened twice");
        let child = command.stdout(file).stderr(errors).spawn();
        let child = child.unwrap_or_else(|e| panic!("cannot start {command:?}: {e}"));
        Self { child, log, name: name.to_owned() }
    }

    /// All it has said so far.
    pub(crate) fn said(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// Waits until it says `words`.
    pub(crate) fn wait_for(&mut self, words: &str) {
        wait_until(&format!("'{words}' from {}", self.name), Duration::from_secs(10), || {
            let ended = self.child.try_wait().expect("a child can be asked");
            assert!(ended.is_none(), "{} ended ({ended:?}):\n{}", self.name, self.said());
            self.said().contains(words)
        });
    }

    /// Whether it still runs.
    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("a child can be asked").is_none()
    }

    /// Waits for its end.
    pub(crate) fn finish(&mut self, limit: Duration) -> ExitStatus {
        let end = Instant::now() + limit;
        loop {
            if let Some(status) = self.child.try_wait().expect("a child can be asked") {
                return status;
            }
            assert!(Instant::now() < end, "{} not done in {limit:?}:\n{}", self.name, self.said());
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits for its end, which must be a success.
    pub(crate) fn succeed(&mut self, limit: Duration) {
        let status = self.finish(limit);
        assert!(status.success(), "{}: {status}:\n{}", self.name, self.said());
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: i32) {
        // The child has not been waited for, so the id is its.
        let signal = Signal::try_from(signal).expect("invariant: a signal");
        let _ = kill(Pid::from_raw(self.child.id() as i32), signal);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            println!("--- {} said:\n{}", self.name, self.said());
        }
    }
}

/// Runs a command to its end; panics with all it said if it fails.
pub(crate) fn run(command: &mut Command) -> String {
    let Output { status, stdout, stderr } =
        command.output().unwrap_or_else(|e| panic!("cannot run {command:?}: {e}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(status.success(), "{command:?}: {status}\n{}{}", text(&stdout), text(&stderr));
    text(&stdout)
}

/// Polls until `done`; panics with `what` after `limit`.
pub(crate) fn wait_until(what: &str, limit: Duration, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + limit;
    while !done() {
        assert!(Instant::now() < end, "waited {limit:?} for {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Removes what a run that was killed could not: namespaces whose test process is gone.
fn remove_leftovers() {
    let listed = run(Command::new("ip").args(["netns", "list"]));
    for name in listed.lines().filter_map(|line| line.split_whitespace().next()) {
        let Some(rest) = name.strip_prefix(PREFIX) else { continue };
        let pid: String = rest.chars().take_while(char::is_ascii_digit).collect();
        if !pid.is_empty() && !Path::new("/proc").join(pid).exists() {
            remove(name);
        }
    }
}

/// Ends what still runs in a namespace of ours, by its id, and deletes the namespace.
fn remove(name: &str) {
    if let Ok(output) = Command::new("ip").args(["netns", "pids", name]).output() {
        let pids = String::from_utf8_lossy(&output.stdout).into_owned();
        for pid in pids.split_whitespace().filter_map(|pid| pid.parse::<i32>().ok()) {
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
    }
    let _ = Command::new("ip").args(["netns", "del", name]).stderr(Stdio::null()).status();
}
