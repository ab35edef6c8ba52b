//! `tabane kernel cc`.

use super::link::{Conditions, Way};
use super::namespace::{Process, run};
use super::world::{World, can_run};
use crate::binary;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// A control under a name of this process and test; unloaded also when a test fails.
struct Control {
    name: String,
}

impl Control {
    fn load(world: &World, control: &str) -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{}{}_{number}", &control[..2], std::process::id());
        world.ok(&format!("kernel cc load {control} --as {name}"));
        Self { name }
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        let mut command = binary::tabane();
        let _ = command.args(["-q", "kernel", "cc", "unload", "--force", &self.name]).output();
    }
}

/// A sample of a sender.
#[derive(Clone, Copy, Debug)]
struct Sample {
    cwnd: f64,
    ssthresh: f64,
    acked: f64,
}

/// Asks S's kernel about its connection to C, if it has one with `control`.
fn sample(world: &World, control: &str) -> Option<Sample> {
    let text = run(world.s.command("ss").args(["-Htin", "state", "established", "sport = :9000"]));
    let words: Vec<&str> = text.split_whitespace().collect();
    let value = |key: &str| -> Option<f64> {
        words.iter().find_map(|word| word.strip_prefix(key))?.parse().ok()
    };
    words.contains(&control).then_some(())?;
    Some(Sample {
        cwnd: value("cwnd:")?,
        ssthresh: value("ssthresh:")?,
        acked: value("bytes_acked:")?,
    })
}

/// Segments that the window grows by in a round, at windows in `range`: what it grows by for each
/// acknowledged segment, times the window. Only where it grows undisturbed, in congestion
/// avoidance.
fn growth(samples: &[Sample], range: std::ops::Range<f64>) -> f64 {
    let (mut grown, mut rounds) = (0.0, 0.0);
    for pair in samples.windows(2) {
        let [a, b] = [pair[0], pair[1]];
        let steady = a.ssthresh == b.ssthresh && a.cwnd >= a.ssthresh && b.cwnd >= a.cwnd;
        if steady && range.contains(&a.cwnd) && range.contains(&b.cwnd) {
            grown += b.cwnd - a.cwnd;
            rounds += (b.acked - a.acked) / 1448.0 / ((a.cwnd + b.cwnd) / 2.0);
        }
    }
    assert!(rounds >= 5.0, "only {rounds:.1} rounds in {range:?}: {samples:?}");
    grown / rounds
}

/// S sends to C for some seconds with `control`; the window over time. The bottleneck holds 280
/// segments on the way and 200 in its queue.
fn watch(world: &World, control: &str, seconds: u64) -> (Process, Vec<Sample>) {
    let server = "import socket,sys,time
s = socket.create_server(('10.9.0.2', 9000))
print('listening', flush=True)
c, _ = s.accept()
c.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, sys.argv[1].encode())
c.settimeout(30)
end = time.monotonic() + float(sys.argv[2])
while time.monotonic() < end:
    c.sendall(bytes(65536))
print('sent', flush=True)
sys.stdin.read() if sys.argv[3:] else None
";
    let client = "import socket
c = socket.create_connection(('10.9.0.2', 9000))
n = 0
while data := c.recv(1 << 16):
    n += len(data)
print('received', n, flush=True)
";
    let folder = world.folder.path();
    let seconds_text = seconds.to_string();
    let mut command = world.s.command("python3");
    command.args(["-c", server, control, &seconds_text]);
    let mut server = Process::start(&mut command, folder, "sender");
    server.wait_for("listening");
    let mut receiver =
        Process::start(world.c.command("python3").args(["-c", client]), folder, "receiver");
    let mut samples = Vec::new();
    while server.is_running() {
        samples.extend(sample(world, control));
        std::thread::sleep(Duration::from_millis(50));
    }
    server.succeed(Duration::from_secs(1));
    receiver.succeed(Duration::from_secs(30));
    assert!(receiver.said().contains("received"), "{}", receiver.said());
    (receiver, samples)
}

fn long_fat_world() -> World {
    let world = World::new();
    for way in [Way::AToB, Way::BToA] {
        world.links[0].set_way(way, |c| *c = Conditions::new(40, 40, 300_000));
    }
    for host in [&world.c, &world.s] {
        host.sysctl("net.ipv4.tcp_no_metrics_save=1");
        for key in ["net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"] {
            let setting = format!("{key}=4096 131072 16777216");
            run(host.command("sysctl").args(["-qw", &setting]));
        }
    }
    world
}

/// At 221 to 347 segments a(w) is 3.
#[test]
fn highspeed_grows_faster_than_reno() {
    if !can_run() {
        return;
    }
    let world = long_fat_world();
    let control = Control::load(&world, "highspeed");
    let list = world.json("kernel cc list --json");
    let available = list["available"].as_array().unwrap();
    assert!(available.iter().any(|name| *name == *control.name), "{list}");
    let said = world.fails(&format!("kernel cc load highspeed --as {}", control.name));
    assert!(said.contains("is loaded already"), "{said}");
    let said = world.fails("kernel cc load highspeed --as cubic");
    assert!(said.contains("this kernel has a cubic of its own"), "{said}");

    let (_, samples) = watch(&world, &control.name, 10);
    let ours = growth(&samples, 221.0..347.0);
    let (_, samples) = watch(&world, "reno", 10);
    let reno = growth(&samples, 221.0..347.0);
    println!("segments a round at windows of 221 to 347: highspeed {ours:.2}, reno {reno:.2}");
    assert!((0.5..1.3).contains(&reno), "reno grows by one: {reno:.2}");
    assert!((2.2..3.5).contains(&ours), "highspeed grows by three: {ours:.2}");
    world.ok(&format!("kernel cc unload {}", control.name));
    assert!(!world.ok("kernel cc list --json").contains(&control.name), "it is gone");
}

#[test]
fn ghstcp_moves_data_and_grows() {
    if !can_run() {
        return;
    }
    let world = long_fat_world();
    let control = Control::load(&world, "ghstcp");
    let (_, samples) = watch(&world, &control.name, 10);
    let grown = growth(&samples, 118.0..500.0);
    let queued = growth(&samples, 310.0..500.0);
    println!("ghstcp: {grown:.2} segments a round, {queued:.2} while the queue builds");
    assert!((0.5..4.5).contains(&grown), "between Reno and HighSpeed: {grown:.2}");
    // HighSpeed's is 3 and 4 there.
    assert!(queued < 3.0, "nearer to Reno's while round-trip times rise: {queued:.2}");
}

/// A control that connections use stays until they end, and says so.
#[test]
fn unloading_waits_for_connections() {
    if !can_run() {
        return;
    }
    let world = World::new();
    let control = Control::load(&world, "ghstcp");
    let idle = "import socket,sys
s = socket.create_server(('127.0.0.1', 0))
a = socket.create_connection(s.getsockname())
a.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, sys.argv[1].encode())
print('connected', flush=True)
sys.stdin.readline()
";
    let mut command = world.c.command("python3");
    command.args(["-c", idle, &control.name]).stdin(std::process::Stdio::piped());
    let mut user = Process::start(&mut command, world.folder.path(), "user");
    user.wait_for("connected");
    let row = |world: &World| {
        let list = world.json("kernel cc list --json");
        let rows = list["loaded"].as_array().unwrap().clone();
        rows.into_iter().find(|row| row["name"] == *control.name)
    };
    assert_eq!(row(&world).unwrap()["connections"], 1);
    let said = world.fails(&format!("kernel cc unload {}", control.name));
    assert!(said.contains("in use (connections: 1)"), "{said}");
    world.ok(&format!("kernel cc unload --force {}", control.name));
    let left = row(&world).expect("the connection keeps it");
    assert_eq!(left["available"], false, "{left}");
    drop(user);
    super::namespace::wait_until("it to be gone", Duration::from_secs(20), || {
        row(&world).is_none()
    });
}
