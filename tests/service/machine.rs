//! A machine with systemd as PID 1, gone when dropped.

use crate::binary;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
pub(crate) struct Machine {
    /// `unshare`, which takes everything with it.
    child: Child,
    /// PID 1, as it is called outside.
    init: u32,
    cgroup: Cgroup,
    _place: tempfile::TempDir,
}

/// A control group of our own, in which systemd makes its own.
struct Cgroup {
    hierarchy: PathBuf,
    name: String,
}

/// What a command said and how it ended.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// Longer than anything takes here, on a busy machine too.
const LONG: Duration = Duration::from_secs(60);
const SYSTEMD: &str = "/lib/systemd/systemd";

impl Machine {
    /// A machine that has booted; `None` where it cannot be made, which is a failure in CI.
    pub(crate) fn boot() -> Option<Self> {
        let why = if !rustix::process::geteuid().is_root() {
            "not root"
        } else if !Path::new(SYSTEMD).exists() {
            "systemd is not installed"
        } else if !binary::is_installed("unshare") || !binary::is_installed("nsenter") {
            "unshare or nsenter is not installed"
        } else {
            return Some(Self::start());
        };
        assert!(std::env::var_os("CI").is_none(), "{why}");
        println!("SKIPPED: {why}");
        None
    }

    fn start() -> Self {
        let place = tempfile::tempdir().unwrap();
        let cgroup = Cgroup::new(place.path());
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/service/boot.sh");
        let machine = place.path().join("machine");
        fs::create_dir(&machine).unwrap();
        // The shell moves itself into the control group before that becomes the machine's root.
        let enter = "mount -t cgroup2 cgroup2 \"$1\" && echo 0 >\"$1/$2/cgroup.procs\" && \
                     umount \"$1\" && shift 2 && exec \"$@\"";
        let mut command = binary::by(|tabane| {
            let mut command = Command::new("unshare");
            command.args(["--mount", "--propagation", "private", "sh", "-c", enter, "sh"]);
            command.arg(&cgroup.hierarchy).arg(&cgroup.name);
            command.args(
                "unshare --cgroup --pid --mount --net --ipc --uts --fork --kill-child".split(' '),
            );
            command.args(["--propagation", "private", "sh", script]);
            command.arg(&machine).arg(tabane);
            command
        });
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        let id = child.id();
        let begin = Instant::now();
        let init = loop {
            assert_eq!(child.try_wait().unwrap(), None, "the machine could not be made");
            assert!(begin.elapsed() < LONG, "systemd does not start");
            let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children"));
            let init = children.ok().and_then(|text| text.trim().parse().ok());
            let name = |pid: &u32| fs::read_to_string(format!("/proc/{pid}/comm"));
            if let Some(init) = init.filter(|pid| name(pid).is_ok_and(|n| n.trim() == "systemd")) {
                break init;
            }
            thread::sleep(Duration::from_millis(20));
        };
        let machine = Self { child, init, cgroup, _place: place };
        machine.until("systemd runs", |machine| {
            machine.run("systemctl is-active systemd-journald.service").code == Some(0)
        });
        machine
    }

    /// Runs a shell's line in the machine, as root.
    pub(crate) fn run(&self, line: &str) -> Said {
        self.feed(line, "")
    }

    fn feed(&self, line: &str, input: &str) -> Said {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.init.to_string(), "--all", "--root", "--wd=/"]);
        command.args([
            "/usr/bin/env",
            "-i",
            "PATH=/usr/sbin:/usr/bin:/sbin:/bin",
            "sh",
            "-c",
            line,
        ]);
        let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = pipes.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        Said { code: output.status.code(), out: text(&output.stdout), err: text(&output.stderr) }
    }

    /// Runs it and expects success; what it printed.
    #[track_caller]
    pub(crate) fn ok(&self, line: &str) -> String {
        let said = self.run(line);
        assert_eq!(said.code, Some(0), "{line}: {}{}\n{}", said.out, said.err, self.journal(""));
        said.out
    }

    /// Writes a file as an administrator does.
    pub(crate) fn write(&self, path: &str, text: &str) {
        let said = self.feed(&format!("umask 077; cat > {path}"), text);
        assert_eq!(said.code, Some(0), "{said:?}");
    }

    /// What a unit, or everything, has said.
    pub(crate) fn journal(&self, unit: &str) -> String {
        let unit = if unit.is_empty() { String::new() } else { format!("-u {unit}") };
        self.run(&format!("journalctl --no-pager -o cat {unit}")).out
    }

    /// Waits until that is so.
    #[track_caller]
    pub(crate) fn until(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        let begin = Instant::now();
        while !holds(self) {
            assert!(begin.elapsed() < LONG, "never: {what}\n{}", self.journal(""));
            thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.cgroup.remove();
    }
}

impl Cgroup {
    fn new(place: &Path) -> Self {
        let hierarchy = place.join("cgroup");
        fs::create_dir(&hierarchy).unwrap();
        let cgroup = Self { hierarchy, name: format!("tabane-test-{}", std::process::id()) };
        cgroup.with_hierarchy("mkdir -p \"$1/$2\"");
        cgroup
    }

    /// Runs a shell's line with the whole hierarchy at `$1`, wherever the system has it.
    fn with_hierarchy(&self, line: &str) {
        let line = format!("mount -t cgroup2 cgroup2 \"$1\" && {line}");
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-c", &line, "sh"]);
        let done = command.arg(&self.hierarchy).arg(&self.name).status().unwrap();
        assert!(done.success() || thread::panicking(), "{line}");
    }

    fn remove(&self) {
        // The machine's processes take a moment to be gone.
        self.with_hierarchy(
            "for i in 1 2 3 4 5 6 7 8 9 10; do \
             find \"$1/$2\" -depth -type d -exec rmdir {} + 2>/dev/null && break; \
             sleep 0.1; done; true",
        );
    }
}
