//! Captures of the kernel's own TCP and MPTCP between two namespaces, with losses by nftables,
//! taken by tcpdump on Ethernet and on the cooked device `any`.

use crate::namespace::{Namespace, Process, run};
use crate::program::{Place, has};
use crate::run::{compare_file, has_tshark};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Two hosts and two wires between them, both of which lose packets.
struct World {
    a: Namespace,
    b: Namespace,
    place: Place,
}

const SERVER: &str = "10.88.1.2";

#[test]
fn labels_of_lossy_tcp() {
    let Some(world) = World::new(30) else { return };
    let labels = world.transfer("tcp", &["--tcp"], "curl", 24 << 20);
    // Losses hit large packets before they are cut: chance decides how many there are.
    assert!(labels > 20, "{labels} labels");
}

/// The window closes, is probed, and opens again.
#[test]
fn labels_of_a_reader_that_pauses() {
    let Some(world) = World::new(0) else { return };
    let labels = world.transfer("pause", &["--tcp"], "peer", 24 << 20);
    assert!(labels > 10, "{labels} labels");
    let document = world.place.json(&["pcap", "pause-b.pcap", "--json"]);
    let count = |label: &str| document["labels"][label].as_u64().unwrap();
    assert!(count("zero_window") > 0, "{}", document["labels"]);
    assert!(count("keep_alive") + count("zero_window_probe") > 0, "{}", document["labels"]);
}

#[test]
fn labels_and_subflows_of_lossy_mptcp() {
    let Some(world) = World::new(30) else { return };
    world.b.ip("mptcp limits set subflows 4 add_addr_accepted 4");
    world.a.ip("mptcp limits set subflows 4 add_addr_accepted 4");
    world.b.ip("mptcp endpoint add 10.88.2.2 dev b2 signal");
    // On a busy machine the kernel may join only when the transfer is over: then once more.
    let joined = |connection: &serde_json::Value| {
        let mut subflows = connection["subflows"].as_array().unwrap().iter();
        subflows.any(|s| s["opened"] == "joined")
    };
    let mut mptcp = serde_json::Value::Null;
    for _ in 0..4 {
        let labels = world.transfer("mptcp", &[], "mptcpize", 24 << 20);
        // Losses hit large packets before they are cut: chance decides how many there are.
        assert!(labels > 20, "{labels} labels");
        let document = world.place.json(&["pcap", "mptcp-b.pcap", "--json"]);
        let all = document["connections"].as_array().unwrap();
        mptcp = all.iter().find(|c| c["kind"] == "mptcp").expect("an MPTCP connection").clone();
        if joined(&mptcp) {
            break;
        }
    }
    assert!(mptcp["backward"]["new_bytes"].as_u64().unwrap() > 24 << 20, "{mptcp}");
    assert!(joined(&mptcp), "{mptcp}");
    let events = mptcp["events"].as_array().unwrap();
    assert!(events.iter().any(|e| e["event"] == "add_addr"), "{events:?}");
}

/// A client that asks for MPTCP where it is not spoken.
#[test]
fn fallback_is_seen() {
    let Some(world) = World::new(0) else { return };
    world.b.sysctl("net.mptcp.enabled=0");
    world.transfer("fallback", &["--tcp"], "mptcpize", 1 << 20);
    let document = world.place.json(&["pcap", "fallback-b.pcap", "--json"]);
    let opened = &document["connections"][0]["subflows"][0]["opened"];
    assert_eq!(opened, "fallback", "{document}");
}

impl World {
    /// Of a thousand packets, `loss` are dropped on arrival, at both ends.
    fn new(loss: u32) -> Option<Self> {
        let tools = ["tcpdump", "nft", "curl", "mptcpize", "python3"];
        if !has_tshark() || !is_root() || !tools.into_iter().all(has) {
            return None;
        }
        let (a, b) = (Namespace::new('a'), Namespace::new('b'));
        for n in 1..=2 {
            let (name_a, name_b) = (a.name(), b.name());
            run(Command::new("ip").args(["-n", name_a, "link", "add", &format!("a{n}")]).args([
                "type",
                "veth",
                "peer",
                "name",
                &format!("b{n}"),
                "netns",
                name_b,
            ]));
            for (host, side, last) in [(&a, 'a', 1), (&b, 'b', 2)] {
                host.ip(&format!("addr add 10.88.{n}.{last}/24 dev {side}{n}"));
                host.ip(&format!("link set {side}{n} up"));
            }
        }
        if loss > 0 {
            let rules = format!(
                "table inet lossy {{ chain in {{ type filter hook input priority 0; \
                 tcp flags & (syn | fin | rst) == 0 numgen random mod 1000 < {loss} drop; }}; }}"
            );
            for host in [&a, &b] {
                run(host.command("nft").arg(&rules));
            }
        }
        Some(Self { a, b, place: Place::new() })
    }

    /// Downloads a file from B to A, captures at both, compares; how many labels were given.
    fn transfer(&self, name: &str, server: &[&str], program: &str, size: usize) -> usize {
        let folder = self.place.path("");
        std::fs::write(folder.join("file"), vec![7; size]).unwrap();
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/interop/peers/peer.py");
        let mut command = self.b.command("python3");
        command.args(["-u", script, "serve", "--port", "8080"]).args(server).arg(&folder);
        let mut server = Process::start(&mut command, &folder, "server");
        server.wait_for("serving");
        let captures = [(&self.a, "any", "a"), (&self.b, "any", "b"), (&self.b, "b1", "wire")]
            .map(|(host, device, at)| capture(host, device, &folder, &format!("{name}-{at}")));
        let url = format!("http://{SERVER}:8080/file");
        let mut command = match program {
            "peer" => self.a.command("python3"),
            other => self.a.command(other),
        };
        match program {
            "peer" => drop(command.args(["-u", script, "get", &url])),
            "mptcpize" => drop(command.args(["run", "curl", &url, "--output"])),
            _ => drop(command.args(["--silent", "--show-error", "--fail", &url, "--output"])),
        }
        command.arg(folder.join("got"));
        if program == "peer" {
            command.args(["--tcp", "--pause-after", "500000", "--pause", "2.5"]);
        }
        Process::start(&mut command, &folder, "client").succeed(Duration::from_secs(60));
        // The last packets of the goodbye, and tcpdump's buffer.
        std::thread::sleep(Duration::from_millis(300));
        let files = captures.map(|(mut process, path)| {
            process.signal(libc::SIGINT);
            process.finish(Duration::from_secs(10));
            path
        });
        files.iter().map(|path| compare_file(&path.display().to_string(), path)).sum()
    }
}

/// tcpdump on a device, of headers only.
fn capture(host: &Namespace, device: &str, folder: &Path, name: &str) -> (Process, PathBuf) {
    let path = folder.join(format!("{name}.pcap"));
    let mut command = host.command("tcpdump");
    command.args(["--immediate-mode", "-U", "-Z", "root", "-s", "128", "-i", device, "-w"]);
    command.arg(&path).arg("tcp");
    let mut process = Process::start(&mut command, folder, name);
    process.wait_for("listening");
    (process, path)
}

fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        println!("SKIPPED: namespaces need root");
        assert!(std::env::var("CI").as_deref() != Ok("true"), "must not be skipped in CI");
    }
    root
}
