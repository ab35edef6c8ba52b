//! `tabane kernel bicast` and `hayack`.

use super::namespace::{Process, run};
use super::world::{World, can_run};
use crate::binary;
use std::time::Duration;

const SIZE: usize = 2 << 20;
/// Packets that hosts send of themselves: IPv6 looks for routers and tells of groups.
const STRAY: u64 = 10;

/// Nothing of ours is left at C's interfaces.
fn is_clean(world: &World) -> bool {
    let text = run(world.c.command("tc").args(["qdisc", "show"]));
    !text.contains("clsact")
}

#[test]
fn bicast_sends_everything_twice() {
    if !can_run() {
        return;
    }
    let world = World::new();
    let _server = world.serve(SIZE, "tcp");
    world.settle();
    let before = world.up([0; 2]);
    world.download("10.9.0.2", "c1");
    world.settle();
    let [own, other] = world.up(before);
    assert!(own > 100 && other < STRAY, "without: {own} by its own link, {other} by the other");

    world.ok("kernel bicast attach c1 c2");
    let said = world.fails("kernel bicast attach c2 c1");
    assert!(said.contains("bicast is attached to c2 already"), "{said}");
    let said = world.fails("kernel hayack attach c1 c2");
    assert!(said.contains("bicast is attached to c1 already"), "{said}");
    let before = world.up([0; 2]);
    world.download("10.9.0.2", "c1");
    world.settle();
    let [own, other] = world.up(before);
    println!("bicast: {own} packets by c1, {other} by c2");
    // A copy may be lost to a queue, and its neighbour's address is asked for.
    assert!(own > 100 && other * 10 >= own * 9 && other <= own + STRAY, "{own} and {other}");
    let status = world.json("kernel bicast status --json");
    let client_sessions = &status["attached"][0]["interfaces"];
    assert_eq!(client_sessions[0]["gateway4"], "10.1.1.2", "{status}");
    assert_eq!(client_sessions[1]["gateway6"], "fd00:1:2::2", "{status}");
    assert!(client_sessions[0]["meant"].as_u64().unwrap() >= own, "{status}");
    assert!(client_sessions[1]["sent"].as_u64().unwrap() >= other, "{status}");
    assert_eq!(client_sessions[0]["failed"], 0, "{status}");

    world.ok("kernel bicast detach");
    assert!(is_clean(&world), "a qdisc is left");
    let said = world.fails("kernel bicast detach c1");
    assert!(said.contains("bicast is not attached to c1"), "{said}");
    let before = world.up([0; 2]);
    world.download("10.9.0.2", "c1");
    world.settle();
    let other = world.up(before)[1];
    assert!(other < STRAY, "{other} packets after detaching");
}

#[test]
fn bicast_chooses_acks_and_destinations_of_ipv6() {
    if !can_run() {
        return;
    }
    let world = World::new();
    let _server = world.serve(SIZE, "tcp");
    world.ok("kernel bicast attach c1 c2 --acks --to fd00:9::/64");
    let before = world.up([0; 2]);
    world.download("10.9.0.2", "c1");
    world.settle();
    let [_, other] = world.up(before);
    assert!(other < STRAY, "IPv4 is not meant, but {other} packets went");
    let before = world.up([0; 2]);
    world.download("[fd00:9::2]", "c2");
    world.settle();
    let [other, own] = world.up(before);
    println!("ACKs of IPv6: {own} packets by c2, {other} by c1");
    // SYN, request and FIN go once.
    assert!(own > 100 && other * 10 >= own * 8 && other < own, "{own} and {other}");
    let status = world.ok("kernel bicast status");
    assert!(status.contains("pure ACKs to fd00:9::/64, by every interface"), "{status}");
    world.ok("kernel bicast detach c2");
    assert!(is_clean(&world), "a qdisc is left");
}

/// A clsact that somebody else made, with a filter, stays.
#[test]
fn what_others_attached_stays() {
    if !can_run() {
        return;
    }
    let world = World::new();
    run(world.c.command("tc").args(["qdisc", "add", "dev", "c1", "clsact"]));
    world.ok("kernel bicast attach c1 c2");
    world.ok("kernel bicast detach");
    let text = run(world.c.command("tc").args(["qdisc", "show"]));
    assert_eq!(text.matches("clsact").count(), 1, "{text}");
}

#[test]
fn mistakes_are_named() {
    if !can_run() {
        return;
    }
    let world = World::new();
    for (args, words) in [
        ("bicast attach c1 c9", "c9: no such interface in this network namespace (lo, c1, c2)"),
        ("bicast attach c1 lo", "lo has no Ethernet frames"),
        ("bicast attach c1 c1", "c1 is named twice"),
        ("bicast attach c1 c2 --via c3=10.0.0.1", "--via c3: not one of the interfaces named"),
        ("hayack attach c1 c2 --target e0", "--target e0: not one of the interfaces named"),
        ("hayack detach", "hayack is not attached to any interface"),
        ("cc unload highspeed-none", "highspeed-none is not loaded"),
        ("cc load ghstcp --as a-b", "is no name of a control"),
        ("cc unload cubic", "cubic is the kernel's own"),
    ] {
        let said = world.fails(&format!("kernel {args}"));
        assert!(said.contains(words), "{args}: {said}");
    }
    world.c.ip("link set c2 down");
    let said = world.fails("kernel bicast attach c1 c2");
    assert!(said.contains("c2 is down; `ip link set c2 up` first"), "{said}");
    let mut command = binary::by(|tabane| {
        let mut command = world.c.command("setpriv");
        command.args(["--bounding-set=-all", "--inh-caps=-all", tabane]);
        command
    });
    let said = command.args(["kernel", "cc", "list"]).output().unwrap();
    let text = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(!said.status.success() && text.contains("needs root, or CAP_BPF"), "{text}");
    assert!(is_clean(&world), "a qdisc is left");
}

/// Smallest RTTs, ms, that the kernel at S has seen of the subflows to C's addresses, which its
/// server's socket writes as IPv6.
fn least_rtts(world: &World) -> [Option<f64>; 2] {
    let text = run(world.s.command("ss").args(["-Htin", "state", "established"]));
    let mut found = [None; 2];
    let mut peer = None;
    for line in text.lines() {
        if let Some(n) = (1..=2).find(|n| line.contains(&format!("10.1.{n}.1]:"))) {
            peer = Some(n - 1);
        }
        let word = line.split_whitespace().find_map(|word| word.strip_prefix("minrtt:"));
        let Some(ms) = word.and_then(|ms| ms.parse().ok()) else { continue };
        if let Some(n) = peer.take() {
            found[n] = Some(ms);
        }
    }
    found
}

/// Downloads by MPTCP; the last RTTs while both subflows carried data.
fn download_by_mptcp(world: &World) -> [f64; 2] {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/interop/peers/peer.py");
    let mut command = world.c.command("python3");
    command.args(["-u", script, "get", "http://10.9.0.2:8080/file"]);
    command.arg(world.folder.file("copy"));
    let mut client = Process::start(&mut command, world.folder.path(), "client");
    let mut seen = None;
    while client.is_running() {
        if let [Some(a), Some(b)] = least_rtts(world) {
            seen = Some([a, b]);
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    client.succeed(Duration::from_secs(1));
    assert_eq!(world.folder.digest("copy"), world.folder.digest("file"));
    seen.expect("two subflows at once")
}

#[test]
fn hayack_shortens_the_loop_of_the_slow_path() {
    if !can_run() {
        return;
    }
    let world = World::new();
    for host in [&world.c, &world.s] {
        host.ip("mptcp limits set subflows 2 add_addr_accepted 0");
    }
    world.c.ip("mptcp endpoint add 10.1.1.1 dev c1 id 1 subflow");
    world.c.ip("mptcp endpoint add 10.1.2.1 dev c2 id 2 subflow");
    let _server = world.serve(6 << 20, "mptcp");
    let without = download_by_mptcp(&world);
    println!("without: {without:?} ms");
    assert!(without[1] >= 99.0, "100 ms there and back: {without:?}");

    world.ok("kernel hayack attach c1 c2");
    world.settle();
    let before = world.up([0; 2]);
    let with = download_by_mptcp(&world);
    let up = world.up(before);
    let status = world.json("kernel hayack status --json");
    println!("with: {with:?} ms, {up:?} packets up\n{}", world.ok("kernel hayack status"));
    // There 50 ms, back 5.
    assert!((54.0..80.0).contains(&with[1]), "{with:?}, without {without:?}");
    let slow = &status["attached"][0]["interfaces"][1];
    let count = |what: &str| slow[what].as_u64().unwrap();
    assert_eq!(slow["way"], "c1", "{status}");
    assert!(count("meant") > 50 && count("failed") == 0, "{status}");
    assert!(count("own") * 2 < count("meant"), "most leave by the other: {status}");
    assert!(count("own") * 20 > count("meant"), "some keep their own: {status}");
    assert_eq!(status["attached"][0]["interfaces"][0]["way"], "c1", "{status}");
    world.ok("kernel hayack detach");

    // As published, no ACK keeps its own way but the first, before c1 has an RTT.
    world.ok("kernel hayack attach c1 c2 --pure");
    world.settle();
    let with = download_by_mptcp(&world);
    let status = world.json("kernel hayack status --json");
    println!("pure: {with:?} ms\n{}", world.ok("kernel hayack status"));
    assert!((54.0..80.0).contains(&with[1]), "{with:?}");
    let slow = &status["attached"][0]["interfaces"][1];
    let count = |what: &str| slow[what].as_u64().unwrap();
    assert!(status["attached"][0]["pure"] == true && count("failed") == 0, "{status}");
    assert!(count("meant") > 50 && count("own") * 20 < count("meant"), "{status}");
    world.ok("kernel hayack detach");
    assert!(is_clean(&world), "a qdisc is left");
}
