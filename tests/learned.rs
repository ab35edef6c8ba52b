//! A network as scheduler wherever one is named: simulator, lab and gateway, by the built binary.
//! In builds with `--features learned` alone (`.ci/learned`).
#![allow(clippy::unwrap_used, clippy::disallowed_methods)] // real packets need the real clock

mod binary;

use binary::tabane;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The example that `python/examples/train_scheduler.py` has made.
fn network() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("python/examples/policy.onnx")
}

const SCENARIO: &str = r#"
duration = "20s"
verify = true
[link.wifi]
rate = "20Mbps"
delay = "5ms"
[link.lte]
rate = "10Mbps"
delay = "30ms"
[host.server]
scheduler = "learned:file=policy.onnx"
[[flow]]
name = "download"
bulk = "4MB"
"#;

/// A folder with the network and the scenario in it.
fn place() -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    std::fs::copy(network(), place.path().join("policy.onnx")).unwrap();
    std::fs::write(place.path().join("two.toml"), SCENARIO).unwrap();
    place
}

fn json(command: &mut Command) -> Value {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Bytes by path of the one flow, all of which have arrived.
fn by_path(run: &Value, path: &str) -> u64 {
    let flow = &run["flows"][0];
    assert_eq!(flow["bytes"], 4_000_000, "{run:#}");
    let subflows = flow["subflows"].as_array().unwrap().iter();
    subflows.filter(|s| s["path"] == path).filter_map(|s| s["bytes"].as_u64()).sum()
}

#[test]
fn the_simulator_runs_it() {
    let place = place();
    let run = |more: &[&str]| {
        let file = place.path().join("two.toml");
        let mut result = json(tabane().args(["sim", "run"]).arg(file).arg("--json").args(more));
        result.as_object_mut().unwrap().remove("cost");
        result
    };
    let (first, again) = (run(&[]), run(&[]));
    assert_eq!(first, again, "the same bytes each time");
    assert!(by_path(&first, "wifi") > 400_000 && by_path(&first, "lte") > 400_000, "{first:#}");
    assert_ne!(first["flows"], run(&["--set", "host.server.scheduler=minrtt"])["flows"]);
}

#[test]
fn the_lab_runs_it() {
    if !rustix::process::geteuid().is_root() {
        assert!(std::env::var_os("CI").is_none(), "namespaces need root");
        println!("SKIPPED: namespaces need root");
        return;
    }
    let place = place();
    let file = place.path().join("two.toml");
    let run = json(tabane().args(["lab", "run"]).arg(file).args(["--stack", "tabane", "--json"]));
    assert!(by_path(&run, "wifi") > 400_000 && by_path(&run, "lte") > 100_000, "{run:#}");
}

/// Both agents on loopback, each with the network as its scheduler.
struct Agents {
    place: tempfile::TempDir,
    children: Vec<Child>,
}

impl Agents {
    fn command(&self, args: &[&str]) -> Command {
        let mut command = tabane();
        command.args(args).stdin(Stdio::null()).current_dir(self.place.path());
        command.env("TABANE_RUNTIME_DIR", self.place.path().join("run"));
        command.env("STATE_DIRECTORY", self.place.path().join("state"));
        command
    }

    #[track_caller]
    fn ok(&self, args: &[&str]) -> String {
        let output = self.command(args).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn start(&mut self, args: &[&str]) {
        let mut command = self.command(args);
        self.children.push(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    }

    #[track_caller]
    fn until(&self, args: &[&str], sign: impl Fn(&str) -> bool) {
        let begin = Instant::now();
        let mut said = String::new();
        while begin.elapsed() < Duration::from_secs(20) {
            let output = self.command(args).output().unwrap();
            said = String::from_utf8(output.stdout).unwrap();
            if output.status.success() && sign(&said) {
                return;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("tabane {}: {said}", args.join(" "));
    }

    fn edit(&self, name: &str, change: impl Fn(String) -> String) {
        let path = self.place.path().join(name);
        let text = change(std::fs::read_to_string(&path).unwrap());
        std::fs::write(path, text).unwrap();
    }
}

impl Drop for Agents {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A port of loopback that was free a moment ago.
fn free() -> String {
    UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

#[test]
fn the_gateway_runs_it_at_both_ends() {
    let mut agents = Agents { place: place(), children: Vec::new() };
    std::fs::create_dir(agents.place.path().join("state")).unwrap();
    let (public, socks) = (free(), free());
    agents.ok(&["server", "init", "-c", "s.toml", "--public", &public, "--listen", &public]);
    // What a server sends comes to a client by `down`, and a file is for the server alone to name.
    let policies = "\n[down]\nscheduler = 'learned:file=policy.onnx'\n";
    agents.edit("s.toml", |text| {
        let text = text.replace("[access]", "[access]\nallow = ['127.0.0.1']");
        text + policies
    });
    agents.start(&["server", "-c", "s.toml"]);
    agents.until(&["status", "--agent", "server"], |said| said.contains("server"));
    let said = agents.ok(&["server", "invite", "home", "-c", "s.toml"]);
    let line = agents.place.path().join("line");
    std::fs::write(&line, said.lines().find(|line| line.starts_with("tabane:")).unwrap()).unwrap();
    std::fs::set_permissions(&line, PermissionsExt::from_mode(0o600)).unwrap();
    agents.ok(&["client", "join", "--file", "line", "--out", "c.toml", "--path", "lo"]);
    agents.edit("c.toml", |text| {
        let second = "\n[[path]]\nname = 'second'\nsource = '127.0.0.2'\n";
        text.replace("127.0.0.1:1080", &socks) + second + &policies.replace("down", "up")
    });
    agents.start(&["client", "-c", "c.toml"]);
    let both = |said: &str| said.matches(" up ").count() == 2;
    agents.until(&["path", "list", "--agent", "home"], both);
    let begin = Instant::now();
    assert_eq!(downloaded(&socks, 20_000_000), 20_000_000);
    println!("20 MB in {:.2} s", begin.elapsed().as_secs_f64());
}

/// Through a SOCKS5 proxy, from a listener of ours that sends so many bytes and ends.
fn downloaded(socks: &str, bytes: usize) -> usize {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(&vec![7; bytes]).unwrap();
    });
    let mut stream = TcpStream::connect(socks).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream.write_all(&[5, 1, 0]).unwrap();
    let mut answer = [0; 2];
    stream.read_exact(&mut answer).unwrap();
    let port = at.port().to_be_bytes();
    stream.write_all(&[5, 1, 0, 1, 127, 0, 0, 1, port[0], port[1]]).unwrap();
    let mut answer = [0; 10];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(answer[1], 0, "{answer:?}");
    let mut all = Vec::new();
    stream.read_to_end(&mut all).unwrap();
    assert!(all.iter().all(|byte| *byte == 7));
    all.len()
}
