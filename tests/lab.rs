//! The lab by the built binary: wrong usage, no root, runs on both stacks, leftovers, programs at
//! hosts, comparison. Needs root for namespaces; without it most tests say SKIPPED, and fail where
//! `CI=true`. How accurate the links were is asked of nobody here: machines that run tests are
//! busy.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)] // real packets need the real clock

mod binary;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// 2 MB over two paths, as the kernel can.
const TWO_PATHS: &str = r#"
about = "test"
duration = "20s"
verify = true
[defaults]
congestion = "cubic"
scheduler = "minrtt"
[link.wifi]
rate = "20Mbps"
delay = "5ms"
[link.lte]
rate = "10Mbps"
delay = "15ms"
[[flow]]
name = "download"
bulk = "4MB"
"#;

/// Its only subflow is reset.
const RESET: &str = r#"
duration = "2s"
[defaults]
mptcp = false
[link.wifi]
rate = "10Mbps"
delay = "5ms"
[[flow]]
name = "download"
bulk = "4MB"
[[at]]
time = "300ms"
host = "client"
path = "wifi"
subflow = "reset"
"#;

/// Requests and an upload of plain TCP through a router, over IPv6.
const ROUTER: &str = r#"
duration = "20s"
ip = 6
verify = true
routers = ["middle"]
[defaults]
mptcp = false
congestion = "reno"
[link.access]
between = ["phone", "middle"]
rate = "10Mbps"
delay = "2ms"
jitter = "200us"
[link.core]
between = ["middle", "web"]
rate = "50Mbps"
delay = "3ms"
[[flow]]
name = "page"
from = "phone"
to = "web"
request = { size = "50kB", think = "20ms", count = 10 }
[[flow]]
name = "upload"
from = "phone"
to = "web"
direction = "upload"
bulk = "500kB"
[[at]]
time = "100ms"
link = "access"
rate = "5Mbps"
"#;

/// A terminal whose Wi-Fi loses a fifth of what it sends; LTE is backup, so that all data and all
/// ACKs are Wi-Fi's.
const TERMINAL: &str = r#"
duration = "40s"
verify = true
[link.wifi]
rate = "20Mbps"
delay = "5ms"
up = { loss = "20%" }
[link.lte]
rate = "10Mbps"
delay = "15ms"
[path]
wifi = { links = ["wifi"] }
lte = { links = ["lte"], backup = true }
[defaults]
congestion = "cubic"
[host.client]
egress = "bicast"
[host.server]
mptcp = { remove_copies = false }
[[flow]]
name = "download"
bulk = "2MB"
[[flow]]
name = "upload"
direction = "upload"
bulk = "500kB"
"#;

/// Both paths carry data; ACKs of Wi-Fi's may come back ten times as fast by LTE.
const UNEQUAL: &str = r#"
duration = "20s"
verify = true
[link.wifi]
rate = "10Mbps"
delay = "50ms"
queue = "20 packets"
[link.lte]
rate = "10Mbps"
delay = "5ms"
queue = "20 packets"
[defaults]
congestion = "cubic"
[host.client]
egress = "hayack"
[[flow]]
name = "download"
bulk = "6MB"
"#;

struct Place {
    folder: tempfile::TempDir,
    /// One lab at a time: the tests' machine may have two processors.
    _alone: MutexGuard<'static, ()>,
}

struct Said {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Place {
    fn new() -> Self {
        static ALONE: Mutex<()> = Mutex::new(());
        let alone = ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        Self { folder: tempfile::tempdir().unwrap(), _alone: alone }
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = binary::tabane();
        command.current_dir(self.folder.path()).args(args).stdin(Stdio::null());
        command
    }

    fn tabane(&self, args: &[&str]) -> Said {
        said(&self.command(args).output().unwrap())
    }

    fn ok(&self, args: &[&str]) -> Said {
        let said = self.tabane(args);
        assert_eq!(said.code, Some(0), "tabane {}:\n{}\n{}", args.join(" "), said.out, said.err);
        said
    }

    fn json(&self, args: &[&str]) -> Value {
        serde_json::from_str(&self.ok(args).out).unwrap()
    }

    /// Starts a lab and waits until it says what it has to.
    fn start(&self, args: &[&str], until: impl Fn() -> bool) -> Running {
        let log = std::fs::File::create(self.folder.path().join("log")).unwrap();
        let mut command = self.command(args);
        let child = command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();
        let mut running = Running(child);
        let end = Instant::now() + Duration::from_secs(20);
        while !until() {
            let log = || std::fs::read_to_string(self.folder.path().join("log")).unwrap();
            assert!(running.0.try_wait().unwrap().is_none(), "it ended: {}", log());
            assert!(Instant::now() < end, "it does not start: {}", log());
            std::thread::sleep(Duration::from_millis(20));
        }
        running
    }
}

/// A process of ours, killed when dropped.
struct Running(Child);

impl Running {
    fn signal(&self, signal: i32) {
        // The child has not been waited for, so the id is its.
        let signal = Signal::try_from(signal).expect("a signal");
        let _ = kill(Pid::from_raw(self.0.id() as i32), signal);
    }

    fn namespaces(&self) -> Vec<String> {
        namespaces(self.0.id())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn said(output: &Output) -> Said {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Said { code: output.status.code(), out: text(&output.stdout), err: text(&output.stderr) }
}

/// Namespaces that the lab of a process has made.
fn namespaces(pid: u32) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir("/run/netns") else { return Vec::new() };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.filter(|name| name.starts_with(&format!("tbl{pid}-"))).collect()
}

/// Whether this machine can do it; if not, says so, and fails where nothing may be skipped.
fn able() -> bool {
    let root = rustix::process::geteuid().is_root();
    let tun = Path::new("/dev/net/tun").exists();
    if root && tun {
        return true;
    }
    let why = if root { "/dev/net/tun is missing" } else { "the lab needs root" };
    assert!(std::env::var_os("CI").is_none(), "{why}");
    println!("SKIPPED: {why}");
    false
}

#[test]
fn wrong_usage_is_exit_2_and_says_what_to_do() {
    let place = Place::new();
    place.write("two.toml", TWO_PATHS);
    place.write("ecf.toml", &TWO_PATHS.replace("minrtt", "ecf"));
    place.write("lia.toml", &TWO_PATHS.replace("cubic", "lia"));
    for (args, words) in [
        (vec!["lab", "run", "two.toml"], "--stack"),
        (vec!["lab", "run", "two.toml", "--stack", "windows"], "windows"),
        (vec!["lab", "run", "two.toml", "--stack", "kernel", "--repeat", "0"], "--repeat"),
        (vec!["lab", "run", "ecf.toml", "--stack", "kernel"], "ecf.toml:7:13"),
        (vec!["lab", "run", "lia.toml", "--stack", "kernel"], "reno, cubic, bbr"),
        (vec!["lab", "exec", "client"], "COMMAND"),
        (vec!["lab", "exec", "client", "--lab", "1", "--", "true"], "no lab is running"),
        (vec!["compare"], "<FILES>"),
        (vec!["compare", "ecf.toml"], "ecf.toml:7:13"),
        (vec!["compare", "two.toml", "--stacks", "sim,bsd"], "bsd"),
        (vec!["compare", "--matrix", "."], "ecf.toml:7:13"),
    ] {
        let said = place.tabane(&args);
        assert_eq!(said.code, Some(2), "{args:?}: {}", said.err);
        let err = said.err.to_lowercase();
        assert!(err.contains(&words.to_lowercase()), "{args:?}: {words} in {}", said.err);
    }
}

#[test]
fn without_root_it_says_so_and_makes_nothing() {
    let root = rustix::process::geteuid().is_root();
    let place = Place::new();
    let (scenario, program) = (place.write("two.toml", TWO_PATHS), place.folder.path().join("t"));
    // Where nobody may read the build, a copy does.
    binary::copy(&program);
    for path in [place.folder.path(), &program] {
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
    }
    let mut command = Command::new(&program);
    binary::close(&mut command);
    command.args(["lab", "run"]).arg(scenario).args(["--stack", "tabane"]).stdin(Stdio::null());
    if root {
        command.uid(65_534).gid(65_534);
    }
    let said = said(&command.output().unwrap());
    assert_eq!(said.code, Some(1), "{}", said.err);
    assert!(said.err.contains("needs root") && said.err.contains("doctor"), "{}", said.err);
    assert!(said.out.is_empty());
}

/// Both stacks deliver every byte, over both paths, with a result that `sim run` would print.
#[test]
fn a_download_takes_both_paths_on_both_stacks() {
    if !able() {
        return;
    }
    let place = Place::new();
    place.write("two.toml", TWO_PATHS);
    for stack in ["tabane", "kernel"] {
        let run = place.json(&["lab", "run", "two.toml", "--stack", stack, "--json"]);
        assert_eq!(run["stack"], stack);
        let flow = &run["flows"][0];
        assert_eq!(flow["bytes"], 4_000_000, "{stack}: {run:#}");
        let completed = flow["completed_s"].as_f64().unwrap();
        // 30 Mbit/s: no faster than that.
        assert!(completed > 1.06, "{stack}: {completed}");
        let subflows = flow["subflows"].as_array().unwrap();
        let of = |path: &str| {
            let bytes = subflows.iter().filter(|s| s["path"] == path);
            bytes.filter_map(|s| s["bytes"].as_u64()).sum::<u64>()
        };
        assert!(of("wifi") > 400_000 && of("lte") > 400_000, "{stack}: {flow:#}");
        assert!(run["accuracy"]["packets"].as_u64().unwrap() > 2_700, "{run:#}");
        assert!(run["accuracy"]["lateness_p99_us"].is_u64(), "{run:#}");
        assert!(run["links"].as_array().unwrap().len() == 4, "{run:#}");
    }
}

#[test]
fn routers_requests_and_ipv6_on_both_stacks_with_all_files() {
    if !able() {
        return;
    }
    let place = Place::new();
    place.write("router.toml", ROUTER);
    for stack in ["tabane", "kernel"] {
        let args = ["lab", "run", "router.toml", "--stack", stack, "--out", stack, "--json"];
        let run = place.json(&[&args[..], &["--pcap", "web"]].concat());
        let flows = run["flows"].as_array().unwrap();
        assert_eq!((&flows[0]["bytes"], &flows[1]["bytes"]), (&500_000.into(), &500_000.into()));
        assert_eq!(flows[0]["latency"]["count"], 10, "{run:#}");
        // Where delays vary, no rate is measured that would be none.
        let links = run["accuracy"]["links"].as_array().unwrap();
        let rates = links.iter().filter(|l| l["link"] == "access").map(|l| &l["achieved_bps"]);
        assert_eq!(rates.collect::<Vec<_>>(), [&Value::Null; 2], "{run:#}");
        // Twice 5 ms, less what jitter takes away.
        assert!(flows[0]["latency"]["p50_s"].as_f64().unwrap() > 0.01, "{run:#}");
        let folder = place.folder.path().join(stack);
        let summary = std::fs::read_to_string(folder.join("summary.csv")).unwrap();
        assert!(summary.contains("sent_bytes") && summary.contains("latency_p50_s"), "{summary}");
        let stored = std::fs::read_to_string(folder.join("result.json")).unwrap();
        assert!(stored.contains("accuracy"), "{stored}");
        let capture = place.json(&["pcap", &format!("{stack}/web.pcapng"), "--json"]);
        assert!(capture.to_string().contains("fd00::"), "{capture:#}");
    }
}

#[test]
fn what_a_killed_lab_leaves_is_removed_and_an_interrupted_one_leaves_nothing() {
    if !able() {
        return;
    }
    let place = Place::new();
    place.write("two.toml", &TWO_PATHS.replace("4MB", "unlimited"));
    let args = ["lab", "run", "two.toml", "--stack", "kernel", "--json"];
    let start = || {
        let running = place.start(&args, || true);
        let end = Instant::now() + Duration::from_secs(20);
        while running.namespaces().len() < 2 {
            assert!(Instant::now() < end, "no namespaces");
            std::thread::sleep(Duration::from_millis(20));
        }
        // Into the middle of the run.
        std::thread::sleep(Duration::from_millis(300));
        running
    };
    let mut killed = start();
    killed.0.kill().unwrap();
    killed.0.wait().unwrap();
    assert_eq!(killed.namespaces().len(), 2, "a killed lab cleans up?");
    let mut interrupted = start();
    assert_eq!(killed.namespaces().len(), 0, "the next one removes them");
    interrupted.signal(libc::SIGINT);
    let status = interrupted.0.wait().unwrap();
    assert_eq!(status.code(), Some(130));
    assert!(interrupted.namespaces().is_empty());
}

#[test]
fn programs_run_at_hosts_of_a_lab_that_is_up() {
    if !able() {
        return;
    }
    let place = Place::new();
    place.write("two.toml", TWO_PATHS);
    let log = place.folder.path().join("log");
    let is_up = || std::fs::read_to_string(&log).is_ok_and(|text| text.contains("up until"));
    let mut up = place.start(&["lab", "up", "two.toml"], is_up);
    let pid = up.0.id().to_string();
    let exec = |rest: &[&str]| {
        let args = [&["lab", "exec", "client", "--lab", &pid, "--"], rest].concat();
        place.tabane(&args)
    };
    // By the shared address of the server: twice 5 ms, and the way of the second path.
    let ping = exec(&["ping", "-c", "2", "-i", "0.2", "-W", "2", "10.0.1.250"]);
    assert_eq!(ping.code, Some(0), "{}{}", ping.out, ping.err);
    let second = exec(&["ping", "-c", "1", "-W", "2", "-I", "10.0.0.2", "10.0.1.250"]);
    assert_eq!(second.code, Some(0), "{}{}", second.out, second.err);
    assert_eq!(exec(&["sh", "-c", "exit 7"]).code, Some(7));
    let nobody = place.tabane(&["lab", "exec", "nobody", "--lab", &pid, "--", "true"]);
    assert_eq!(nobody.code, Some(2));
    assert!(nobody.err.contains("client, server"), "{}", nobody.err);
    up.signal(libc::SIGTERM);
    assert_eq!(up.0.wait().unwrap().code(), Some(0));
    assert!(up.namespaces().is_empty());
}

#[test]
fn a_comparison_has_a_table_a_page_and_a_document() {
    if !able() {
        return;
    }
    let place = Place::new();
    place.write("two.toml", TWO_PATHS);
    let args = ["compare", "two.toml", "--repeat", "1", "--html", "page.html"];
    let table = place.ok(&args).out;
    for word in ["goodput", "against sim", "share of lte", "srtt p95", "kernel"] {
        assert!(table.contains(word), "{word} in {table}");
    }
    let page = std::fs::read_to_string(place.folder.path().join("page.html")).unwrap();
    assert!(page.contains("<svg") && page.contains("against sim"));
    let args = ["compare", "--matrix", ".", "--repeat", "1", "--stacks", "sim", "--results", "r"];
    place.ok(&[&args[..], &["--markdown", "page.md"]].concat());
    let page = std::fs::read_to_string(place.folder.path().join("page.md")).unwrap();
    assert!(page.contains("| `two` |"), "{page}");
    // What is there is not run again.
    let again = place.ok(&[&args[..], &["--json"]].concat());
    assert!(!again.err.contains("two:"), "{}", again.err);
    let runs: Value = serde_json::from_str(&again.out).unwrap();
    assert_eq!(runs[0]["runs"]["sim"].as_array().unwrap().len(), 1);
}

/// However many runs there are, and however they are told.
#[test]
fn a_flow_that_failed_is_a_failure_of_each_way_to_run() {
    if !able() {
        return;
    }
    let place = Place::new();
    place.write("reset.toml", RESET);
    let run = ["lab", "run", "reset.toml", "--stack", "tabane"];
    let several = [&run[..], &["--repeat", "2"]].concat();
    let compare = ["compare", "reset.toml", "--stacks", "tabane", "--repeat", "1"];
    for args in [&run[..], &several, &compare] {
        for more in [&[][..], &["--json"]] {
            let said = place.tabane(&[args, more].concat());
            assert_eq!(said.code, Some(1), "{args:?} {}", said.err);
            assert!(said.err.contains("download") && said.err.contains("failed"), "{}", said.err);
            assert!(said.out.contains("goodput"), "the result is told, too: {}", said.out);
        }
    }
}

#[test]
fn the_doctor_looks_at_everything() {
    let place = Place::new();
    let said = place.tabane(&["lab", "doctor", "--json"]);
    let checks: Value = serde_json::from_str(&said.out).unwrap();
    let missing = checks.as_array().unwrap().iter().any(|check| check["state"] == "missing");
    assert_eq!(said.code, Some(i32::from(missing)), "{}", said.err);
    for what in ["root", "TUN devices", "MPTCP in the kernel", "real-time priority"] {
        assert!(said.out.contains(what), "{what} in {}", said.out);
    }
    if able() {
        assert!(!missing, "{}", said.out);
    }
}

/// Packets that have been sent into a link direction of a run.
fn sent(run: &Value, link: &str, from: &str) -> u64 {
    let links = run["links"].as_array().unwrap();
    let one = links.iter().find(|l| l["link"] == link && l["from"] == from).unwrap();
    one["packets"].as_u64().unwrap() + one["lost"].as_u64().unwrap()
}

/// What a stock host sends by one link leaves by the other as well, with the addresses that it has;
/// the server's kernel takes from the copies what was lost.
#[test]
fn a_switch_at_the_terminal_puts_copies_on_the_other_link() {
    if !able() {
        return;
    }
    let place = Place::new();
    place.write("bicast.toml", TERMINAL);
    place.write("own.toml", &TERMINAL.replace("bicast", "own").replace("20%", "0%"));
    let run = |file: &str, more: &[&str]| {
        let args = ["lab", "run", file, "--stack", "kernel", "--json"];
        let run = place.json(&[&args[..], more].concat());
        for (flow, bytes) in [(0, 2_000_000), (1, 500_000)] {
            assert_eq!(run["flows"][flow]["bytes"], bytes, "{run:#}");
            assert!(run["flows"][flow]["completed_s"].is_f64(), "{run:#}");
        }
        (sent(&run, "wifi", "client"), sent(&run, "lte", "client"))
    };
    let (wifi, lte) = run("own.toml", &[]);
    assert!(wifi > 500 && lte < 50, "without a switch: {wifi} by Wi-Fi, {lte} by LTE");
    let (wifi, lte) = run("bicast.toml", &["--out", "out", "--pcap", "lte"]);
    println!("{wifi} packets by Wi-Fi, {lte} by LTE");
    // SYNs have one way, and LTE's own few are copied as well.
    assert!(wifi > 500 && wifi.abs_diff(lte) < 50, "{wifi} by Wi-Fi, {lte} by LTE");
    let capture = place.json(&["pcap", "out/lte.pcapng", "--json"]).to_string();
    assert!(capture.contains("10.0.0.1:"), "Wi-Fi's address is not seen on LTE: {capture}");
}

/// The sender of the slow subflow gets its ACKs by the fast path.
#[test]
fn a_switch_at_the_terminal_returns_acks_by_the_faster_path() {
    if !able() {
        return;
    }
    let place = Place::new();
    place.write("hayack.toml", UNEQUAL);
    place.write("own.toml", &UNEQUAL.replace("hayack", "own"));
    let round_trip = |file: &str| {
        let args = ["compare", file, "--stacks", "kernel", "--repeat", "1", "--json"];
        let run = &place.json(&args)[0]["runs"]["kernel"][0];
        assert!(run["completed_s"].is_f64(), "{run:#}");
        let ms = |path: &str| run["subflows"][path]["srtt_p50_s"].as_f64().unwrap() * 1e3;
        [ms("download/wifi"), ms("download/lte")]
    };
    let [own, hayack] = [round_trip("own.toml"), round_trip("hayack.toml")];
    println!("smoothed round trips: {own:.1?} ms by own paths, {hayack:.1?} ms with HayACK");
    // 100 ms, or 55, and a queue of at most 24.
    assert!(own[0] > 99.0 && hayack[0] < 95.0, "{own:?} {hayack:?}");
}
