//! TUN mode: programs of the host know nothing of the bond.

use super::data::ready;
use super::world::{SIZE, User, World};
use std::io::{ErrorKind, Read};
use std::net::{TcpStream, UdpSocket};
use std::time::{Duration, Instant};

#[test]
fn a_download_through_the_tun_device_outlives_a_link() {
    if !ready() {
        return;
    }
    let world = World::new(User::Root);
    let before = world.snapshot();
    let server = world.server();
    let client = world.client("[tun]\nroutes = ['192.0.2.0/24']");
    assert!(world.snapshot().contains("192.0.2.0/24 dev tabane0"), "nothing is routed");

    let mut curl = world.curl(world.c.command("curl"), &[]);
    world.wait_for_bytes(SIZE as u64 / 2);
    let carried = client.of_paths("rx_bytes");
    world.c.ip("link set c1 down");
    assert!(curl.is_running(), "the download was over before the link was");
    client.wait_for("the loss of a link", Duration::from_secs(3), |status| {
        status["paths"][0]["state"] != "up" && status["paths"][1]["state"] == "up"
    });
    world.complete(curl);
    println!("inner bytes when the first link went down: {carried:?}");
    assert!(carried.iter().all(|bytes| *bytes > SIZE as u64 / 20), "by one link: {carried:?}");

    world.c.ip("link set c1 up");
    client.wait_for_paths_up();
    let carried = client.of_paths("rx_bytes");
    world.complete(world.curl(world.c.command("curl"), &[]));
    let more = client.of_paths("rx_bytes");
    assert!(more[0] > carried[0] + SIZE as u64 / 10, "not used again: {carried:?} {more:?}");
    client.stop();
    assert_eq!(world.snapshot(), before, "routes and rules are not as before");
    server.stop();
}

/// An orderly end tells the programs: none hangs with a connection that nobody has any more.
#[test]
fn programs_hear_at_once_that_the_client_stops() {
    if !ready() {
        return;
    }
    let world = World::new(User::Root);
    let server = world.server();
    let tun = "[tun]\nroutes = ['192.0.2.0/24', '198.51.100.0/24']\n[front]\nsocks5 = []";
    for signal in [libc::SIGTERM, libc::SIGUSR2] {
        let client = world.client(tun);
        let (mut idle, waiting, udp) = world.c.inside(|| {
            let idle = TcpStream::connect("192.0.2.1:8000").expect("the HTTP server is there");
            let udp = UdpSocket::bind("0.0.0.0:0").expect("any port can be had");
            udp.connect("192.0.2.1:9").expect("it is routed");
            udp.send(b"anything").expect("it is routed");
            // Nobody is there, so the SYN is not answered.
            let waiting = std::thread::spawn(|| TcpStream::connect("198.51.100.77:80"));
            (idle, waiting, udp)
        });
        idle.set_read_timeout(Some(Duration::from_secs(10))).expect("it can be set");
        udp.set_read_timeout(Some(Duration::from_secs(3))).expect("it can be set");
        std::thread::sleep(Duration::from_millis(200));
        let start = Instant::now();
        client.signal(signal);
        client.ended();
        let read = idle.read(&mut [0; 10]).expect_err("it was idle");
        assert_eq!(read.kind(), ErrorKind::ConnectionReset);
        let refused = waiting.join().expect("it does not panic").expect_err("nobody is there");
        println!("waiting for an answer: {refused}");
        // One before it may be of the server's end: nobody listens there.
        let told = (0..3).any(|_| {
            let error = udp.recv(&mut [0; 10]).expect_err("nobody answers");
            error.kind() == ErrorKind::HostUnreachable
        });
        assert!(told, "a socket with one far end is not told");
        let took = start.elapsed();
        assert!(took < Duration::from_secs(4), "after {took:?}");
    }
    server.stop();
}

/// The family that a link has, with a server that has both.
#[test]
fn a_link_with_ipv6_alone_works_beside_one_with_ipv4_alone() {
    if !ready() {
        return;
    }
    let world = World::new(User::Root);
    world.c.ip("addr flush dev c2");
    world.c.ip("addr add fd09:2::1/64 dev c2 nodad");
    world.s.ip("addr add fd09:2::2/64 dev s2 nodad");
    let server = world.server_at("[::]:51820");
    let both = "'10.9.1.2:51820', '[fd09:2::2]:51820'";
    let client = world.client_of(both, &["c1", "c2"], "");
    client.wait_for_paths_up();
    let status = client.status().expect("it answers");
    let remote = |path: usize| status["paths"][path]["remote"].to_string();
    assert!(remote(0).contains("10.9.1.2") && remote(1).contains("fd09:2::2"), "{status:#?}");
    let (well, said) = world.ask(&["doctor"], &client);
    assert!(well, "{said}");
    // It gets the other family, and loses the one it had.
    world.c.ip("addr add 10.9.2.1/24 dev c2");
    world.c.ip("addr del fd09:2::1/64 dev c2");
    world.s.ip("route add 10.9.2.0/24 dev s2 metric 7");
    client.wait_for("the other family", Duration::from_secs(5), |status| {
        status["paths"][1]["remote"].to_string().contains("10.9.1.2")
    });
    client.stop();
    // A server without the family that the link has: no other link's address helps.
    world.c.ip("addr flush dev c2");
    world.c.ip("addr add fd09:2::1/64 dev c2 nodad");
    let client = world.client_of("'10.9.1.2:51820'", &["c1", "c2"], "");
    client.wait_for("its state", Duration::from_secs(5), |status| {
        let reason = status["paths"][1]["reason"].to_string();
        status["paths"][0]["state"] == "up" && reason.contains("no IPv4 address")
    });
    let (well, said) = world.ask(&["doctor"], &client);
    let of_it: Vec<&str> = said.lines().filter(|line| line.contains(" c2 ")).collect();
    assert!(!well && said.contains("c2 has no IPv4 address"), "{said}");
    assert!(of_it.iter().all(|line| !line.starts_with("ok")), "{of_it:#?}");
    client.stop();
    server.stop();
}

/// One that names both is bound to both, whichever link the host's routes prefer.
#[test]
fn a_path_with_interface_and_source_leaves_by_the_interface() {
    if !ready() {
        return;
    }
    let world = World::new(User::Root);
    // Both links are in one network, and the first is preferred.
    world.c.ip("addr flush dev c2");
    world.c.ip("addr add 10.9.1.7/24 dev c2 metric 500");
    world.s.ip("route add 10.9.1.7/32 dev s2");
    let server = world.server();
    let path = "[[path]]\ninterface = 'c2'\nsource = '10.9.1.7'";
    let sent = |link: &str| -> u64 {
        let shown = world.c.ip(&format!("-j -s link show dev {link}"));
        let shown: serde_json::Value = serde_json::from_str(&shown).expect("ip -j shows JSON");
        shown[0]["stats64"]["tx"]["bytes"].as_u64().expect("it counts")
    };
    let before = [sent("c1"), sent("c2")];
    let client = world.client_of("'10.9.1.2:51820'", &[], path);
    client.wait_for("its path", Duration::from_secs(8), |s| s["paths"][0]["state"] == "up");
    world.complete(world.curl(world.c.command("curl"), &["--proxy", "socks5h://127.0.0.1:1080"]));
    let by = [sent("c1") - before[0], sent("c2") - before[1]];
    assert!(by[1] > 20_000 && by[0] < 5_000, "bytes by each link: {by:?}");
    client.stop();
    server.stop();
}

/// Switched off as hardening guides say.
#[test]
fn without_ipv6_the_device_is_used_for_ipv4() {
    if !ready() {
        return;
    }
    let world = World::new(User::Root);
    world.c.ip("link add br0 type bridge");
    world.c.ip("addr add 10.7.0.1/24 dev br0");
    world.c.sysctl("net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1");
    let before = world.snapshot();
    let server = world.server();
    for lan in ["", "[lan]\ninterfaces = ['br0']\n"] {
        let tun = "[tun]\nroutes = ['0.0.0.0/0', '::/0']\nkill_switch = true\n[front]\nsocks5 = []";
        let client = world.client(&format!("{lan}{tun}"));
        client.wait_for("its device", Duration::from_secs(3), |s| s["tun"]["state"] == "up");
        world.complete(world.curl(world.c.command("curl"), &[]));
        std::thread::sleep(Duration::from_millis(1200));
        let happened = client.happened();
        assert!(!happened.contains("tun-failed") && !happened.contains("mended"), "{happened}");
        client.stop();
        assert_eq!(world.snapshot(), before, "routes and rules are not as before");
    }
    server.stop();
}
