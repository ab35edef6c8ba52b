//! A network as scheduler wherever one is named: simulator, lab and gateway, by the built binary.
//! In builds with `--features learned` alone (`.ci/learned`).
#![allow(clippy::unwrap_used, clippy::disallowed_methods)] // real packets need the real clock

mod binary;
mod place;

use binary::tabane;
use place::Place;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

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

/// A folder with the network that `python/examples/train_scheduler.py` has made, and the scenario.
fn place() -> Place {
    let network = Path::new(env!("CARGO_MANIFEST_DIR")).join("python/examples/policy.onnx");
    let place = Place::empty();
    std::fs::copy(network, place.path("policy.onnx")).unwrap();
    place.write("two.toml", SCENARIO);
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
        let file = place.path("two.toml");
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
    let file = place.path("two.toml");
    let run = json(tabane().args(["lab", "run"]).arg(file).args(["--stack", "tabane", "--json"]));
    assert!(by_path(&run, "wifi") > 400_000 && by_path(&run, "lte") > 100_000, "{run:#}");
}

#[test]
fn the_gateway_runs_it_at_both_ends() {
    let mut place = place();
    // A client may not name files of its server: what comes down is the server's own choice.
    let policies = |way: &str| format!("\n[{way}]\nscheduler = 'learned:file=policy.onnx'\n");
    place.serve(|text| {
        text.replace("[access]", "[access]\nallow = ['127.0.0.1']") + &policies("down")
    });
    place.invite();
    place.join(&[]);
    let socks = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    place.edit("c.toml", |text| {
        let second = "\n[[path]]\nname = 'second'\nsource = '127.0.0.2'\n";
        text.replace("127.0.0.1:0", &socks) + second + &policies("up")
    });
    place.works("both paths, each scheduler a network");
    assert_eq!(downloaded(&socks, 20_000_000), 20_000_000);
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
