//! Hosts behind the client: three of them, on a bridge of the client's host, know nothing of the
//! bond. See `docs/router.md`.
//!
//! ```text
//!   h0 .10 --+
//!   h1 .11 --+-- br0 10.7.0.1/24, fd07::1/64 : C   (the world's two links)   S
//!   h2 .12 --+
//! ```

use super::data::ready;
use super::leaks::Leaks;
use super::namespace::{Namespace, run, wait_until};
use super::world::{SIZE, URL, User, World};
use crate::binary;
use serde_json::Value;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const LAN: &str = "[lan]\ninterfaces = ['br0']\n[front]\nsocks5 = []";
const LINKS: [&str; 2] = ["c1", "c2"];
/// Where the server's host echoes datagrams.
const ECHO: [&str; 2] = ["192.0.2.1:7000", "[2001:db8::1]:7000"];
/// Switches of C that the client sets, and must set back.
const SWITCHES: [&str; 4] = [
    "net.ipv4.conf.br0.forwarding",
    "net.ipv4.conf.c1.forwarding",
    "net.ipv6.conf.all.forwarding",
    "net.ipv6.conf.c1.accept_ra",
];

/// Three hosts behind C, whose own default route is its first link, and which forwards nothing.
fn world() -> (World, Vec<Namespace>) {
    let world = World::new(User::Root);
    let c = &world.c;
    c.sysctl("net.ipv4.ip_forward=0 net.ipv6.conf.all.forwarding=0 net.ipv6.conf.c1.accept_ra=1");
    // What comes another way than packets go is dropped, at the device too.
    c.sysctl("net.ipv4.conf.default.rp_filter=1");
    c.ip("link add br0 type bridge");
    c.ip("addr add 10.7.0.1/24 dev br0");
    c.ip("addr add fd07::1/64 dev br0 nodad");
    c.ip("link set br0 up");
    let hosts = (0..3).map(|n| {
        let host = Namespace::new('h');
        c.ip(&format!("link add p{n} type veth peer name eth0 netns {}", host.name()));
        c.ip(&format!("link set p{n} master br0 up"));
        host.ip(&format!("addr add 10.7.0.1{n}/24 dev eth0"));
        host.ip(&format!("addr add fd07::1{n}/64 dev eth0 nodad"));
        host.ip("link set eth0 up");
        host.ip("route add default via 10.7.0.1");
        host.ip("-6 route add default via fd07::1");
        host
    });
    let hosts = hosts.collect();
    lead_to_links(c);
    let pings = "net.ipv4.ping_group_range=0 2147483647";
    run(world.s.command("sysctl").args(["-qw", pings]));
    (world, hosts)
}

/// Where packets of hosts would leak: routes that go when their link does.
fn lead_to_links(c: &Namespace) {
    c.ip("route replace default via 10.9.1.2 dev c1");
    c.ip("route replace default via 10.9.2.2 dev c2 metric 10");
    c.ip("addr replace fd09:1::1/64 dev c1 nodad");
    c.ip("-6 route replace default via fd09:1::2 dev c1");
    c.ip("-6 neigh replace fd09:1::2 lladdr 02:00:00:00:00:02 dev c1 nud permanent");
}

/// C's rules, routes and switches, in an order that does not depend on when each was made.
fn state_of(world: &World) -> Vec<String> {
    let all = world.snapshot() + &run(world.c.command("sysctl").args(SWITCHES));
    let mut lines: Vec<String> = all.lines().map(Into::into).collect();
    lines.sort();
    lines
}

fn ask(lan: &Value, key: &str) -> u64 {
    lan[key].as_u64().expect("a number")
}

/// Returns each datagram to its sender, at both addresses, until it is told to stop.
fn echo(sockets: &[UdpSocket], stopped: &AtomicBool) {
    for socket in sockets {
        let wait = Some(Duration::from_millis(20));
        socket.set_read_timeout(wait).expect("a timeout can be set");
    }
    let mut buffer = [0; 9000];
    while !stopped.load(Ordering::Relaxed) {
        for socket in sockets {
            if let Ok((len, from)) = socket.recv_from(&mut buffer) {
                let _ = socket.send_to(&buffer[..len], from);
            }
        }
    }
}

/// A socket in the namespace of the thread. One that had the port before may still be held by a
/// process that another test has just begun, until it executes its program.
fn bind(at: &str) -> UdpSocket {
    let mut bound = None;
    wait_until(at, Duration::from_secs(5), || {
        bound = match UdpSocket::bind(at) {
            Err(e) if e.kind() == ErrorKind::AddrInUse => None,
            result => Some(result),
        };
        bound.is_some()
    });
    bound.expect("invariant: waited for").expect("the address is of this namespace")
}

/// A socket of a host, at the same port in each of them.
fn socket(host: &Namespace, v6: bool) -> UdpSocket {
    let any = if v6 { "[::]:4242" } else { "0.0.0.0:4242" };
    let socket = host.inside(|| bind(any));
    socket.set_read_timeout(Some(Duration::from_millis(500))).expect("a timeout can be set");
    socket
}

/// All send with the same port, and then each hears what it has said and nothing else.
fn datagrams_come_back(hosts: &[Namespace]) {
    // A full packet of the LAN is none too large for it, and what hosts cut comes whole.
    for (v6, to, len) in [
        (false, ECHO[0], 1472),
        (true, ECHO[1], 1452),
        (false, ECHO[0], 5000),
        (true, ECHO[1], 5000),
    ] {
        let to: SocketAddr = to.parse().expect("an address");
        let sockets: Vec<UdpSocket> = hosts.iter().map(|host| socket(host, v6)).collect();
        let text = |n: usize| vec![b'a' + n as u8; len];
        for (n, socket) in sockets.iter().enumerate() {
            socket.send_to(&text(n), to).expect("it has a route");
        }
        let mut buffer = [0; 9000];
        for (n, socket) in sockets.iter().enumerate() {
            // A link may just have gone, and what was on it with it.
            let heard = (0..6).find_map(|_| {
                let heard = socket.recv_from(&mut buffer);
                let _ = heard.is_err().then(|| socket.send_to(&text(n), to));
                heard.ok()
            });
            let (len, from) = heard.unwrap_or_else(|| panic!("nothing came back from {to}"));
            assert_eq!((from, &buffer[..len]), (to, &text(n)[..]), "another's datagram");
        }
    }
}

fn ping(host: &Namespace, to: &str) {
    run(host.command("ping").args(["-n", "-c", "3", "-i", "0.2", "-W", "2", to]));
}

/// What a program hears that sends a packet of a protocol that is not carried.
fn sctp_is_refused(host: &Namespace) {
    let program = "import socket\n\
                   s = socket.socket(socket.AF_INET, socket.SOCK_RAW, 132)\n\
                   s.settimeout(3)\n\
                   s.connect(('192.0.2.1', 0))\n\
                   s.send(bytes(16))\n\
                   try: s.recv(100)\n\
                   except OSError as error: print(error)";
    let said = run(host.command("python3").args(["-c", program]));
    assert!(said.contains("No route to host"), "it is not told: {said}");
}

#[test]
fn hosts_behind_the_client_go_through_the_bond() {
    if !ready() {
        return;
    }
    let (world, hosts) = world();
    let before = state_of(&world);
    let server = world.server();
    let client = world.client(LAN);
    let leaks = Leaks::watch_behind(&hosts[2], (&world.c, &LINKS));
    leaks.none("at first");
    let sockets = world.s.inside(|| ECHO.map(bind));
    let stopped = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| echo(&sockets, &stopped));
        let _stop = super::kill_switch::SetWhenDropped(&stopped);
        datagrams_come_back(&hosts);
        // In the middle of a download a link is lost.
        let curl = world.curl(hosts[0].command("curl"), &[]);
        world.wait_for_bytes(SIZE as u64 / 2);
        let carried = client.of_paths("rx_bytes");
        world.c.ip("link set c1 down");
        datagrams_come_back(&hosts);
        world.complete(curl);
        assert!(carried.iter().all(|bytes| *bytes > SIZE as u64 / 20), "by one link: {carried:?}");
        leaks.none("over the loss of a link");
        world.c.ip("link set c1 up");
        lead_to_links(&world.c);
        client.wait_for_paths_up();
    });
    for to in ["192.0.2.1", "2001:db8::1"] {
        ping(&hosts[1], to);
    }
    // To each other, and to the client's host itself, they need no bond.
    for to in ["10.7.0.12", "10.7.0.1", "fd07::12", "fd07::1"] {
        ping(&hosts[1], to);
    }
    sctp_is_refused(&hosts[1]);
    leaks.none("in all that");
    let status = client.status().expect("it answers");
    let lan = &status["tun"]["lan"];
    assert_eq!(ask(lan, "hosts"), 6, "three hosts with two addresses: {lan:#}");
    assert!(ask(lan, "udp_flows") >= 8, "{lan:#}");
    assert!(lan["refused"][0][1].as_u64() > Some(0), "{lan:#}");
    let (well, said) = world.ask(&["doctor"], &client);
    assert!(well && said.contains("6 addresses of hosts go through the bond"), "{said}");
    world.c.ip("link set br0 down");
    let (well, said) = world.ask(&["doctor"], &client);
    assert!(!well && said.contains("ip link set br0 up"), "{said}");
    world.c.ip("link set br0 up");
    world.c.ip("addr replace fd07::1/64 dev br0 nodad");
    client.stop();
    assert_eq!(state_of(&world), before, "the host is not as before");
    server.stop();
}

/// What is larger than the device is told so, and what a host sends in TCP fits by itself.
#[test]
fn the_path_mtu_of_jumbo_hosts_is_found() {
    if !ready() {
        return;
    }
    let (world, hosts) = world();
    for (n, host) in hosts.iter().enumerate() {
        world.c.ip(&format!("link set p{n} mtu 9000"));
        host.ip("link set eth0 mtu 9000");
    }
    world.c.ip("link set br0 mtu 9000");
    let server = world.server();
    let client = world.client(LAN);
    for (to, size, room) in [("192.0.2.1", "1473", "1472"), ("2001:db8::1", "1453", "1452")] {
        let mut large = hosts[0].command("ping");
        let output = large.args(["-n", "-M", "do", "-c", "1", "-W", "2", "-s", size, to]).output();
        let output = output.expect("ping can be run");
        let said = String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr);
        assert!(said.to_lowercase().contains("mtu") && said.contains("1500"), "{to}: {said}");
        run(hosts[0]
            .command("ping")
            .args(["-n", "-M", "do", "-c", "1", "-W", "2", "-s", room, to]));
    }
    world.complete(world.curl(hosts[0].command("curl"), &[]));
    let upload = run(hosts[1].command("curl").args([
        "--silent",
        "--max-time",
        "20",
        "--output",
        "/dev/null",
        "--write-out",
        "%{http_code}",
        "--data-binary",
        &format!("@{}", world.folder.file("www/file").display()),
        URL,
    ]));
    // Python's server has no POST, and says so after it was sent.
    assert_eq!(upload, "501");
    client.stop();
    server.stop();
}

#[test]
fn nothing_leaks_after_a_crash_until_it_is_cleaned_up() {
    if !ready() {
        return;
    }
    let (world, hosts) = world();
    let before = state_of(&world);
    let leaks = Leaks::watch_behind(&hosts[0], (&world.c, &LINKS));
    leaks.none("before there is a client, which is what turns forwarding on");
    // No server yet: no path works.
    let client = world.start_client(LAN);
    client.wait_for("its device", Duration::from_secs(5), |s| s["tun"]["state"] == "up");
    leaks.none("without a server");
    let told = hosts[1].inside(|| {
        let socket = UdpSocket::bind("0.0.0.0:0").expect("any port can be had");
        socket.connect(ECHO[0]).expect("it has a route");
        let pause = Some(Duration::from_millis(200));
        socket.set_read_timeout(pause).expect("a timeout can be set");
        (0..50).any(|_| {
            let sent = socket.send(b"anybody?").map_err(|e| e.kind());
            let heard = socket.recv(&mut [0; 10]).map_err(|e| e.kind());
            sent.is_err() || heard == Err(ErrorKind::HostUnreachable)
        })
    });
    assert!(told, "a sender of datagrams is not told that no path works");
    let server = world.server();
    client.wait_for_paths_up();
    leaks.none("with one");
    client.kill();
    leaks.none("after a crash");
    let client = world.client(LAN);
    leaks.none("over the start after that");
    world.c.ip("link del tabane0");
    leaks.none("without the device");
    wait_until("the device", Duration::from_secs(5), || world.c.ip("link").contains("tabane0"));
    client.signal(libc::SIGUSR2);
    client.ended();
    leaks.none("stopped for a restart");
    let mut cleanup = binary::by(|tabane| world.c.command(tabane));
    let folder = world.folder.file("client");
    run(cleanup.args(["client", "cleanup"]).env("STATE_DIRECTORY", folder));
    assert_eq!(state_of(&world), before, "the host is not as before");
    leaks.none("cleaned up: nothing is forwarded, as before");
    server.stop();
}

/// The client switches forwarding on for the hosts, not for who is on the links.
#[test]
fn nobody_on_the_links_reaches_a_host() {
    if !ready() {
        return;
    }
    let (world, hosts) = world();
    world.s.ip("-6 addr add fd09:1::3/64 dev s1 nodad");
    world.s.ip("route add 10.7.0.0/24 via 10.9.1.1");
    world.s.ip("-6 route add fd07::/64 via fd09:1::1 dev s1");
    let server = world.server();
    let client = world.client(LAN);
    let heard = |to: &str| {
        let to: SocketAddr = to.parse().expect("an address");
        let any = if to.is_ipv6() { "[::]" } else { "0.0.0.0" };
        let own = hosts[2].inside(|| bind(&format!("{any}:{}", to.port())));
        own.set_read_timeout(Some(Duration::from_millis(300))).expect("a timeout can be set");
        let other = world.s.inside(|| bind(&format!("{any}:0")));
        (0..4).any(|_| {
            // That it is refused is what is wanted.
            let _ = other.send_to(b"hello", to);
            own.recv(&mut [0; 10]).is_ok()
        })
    };
    let all = ["10.7.0.12:5555", "[fd07::12]:5555"];
    assert_eq!(all.map(heard), [false, false], "with the client");
    client.stop();
    world.c.sysctl("net.ipv4.conf.c1.forwarding=1 net.ipv6.conf.all.forwarding=1");
    assert_eq!(all.map(heard), [true, true], "it could be reached, so the above says something");
    server.stop();
}

/// Hosts with addresses of networks that are not the LAN's get no answers, least of all by a link.
#[test]
fn answers_to_a_source_outside_the_networks_go_nowhere() {
    if !ready() {
        return;
    }
    let (world, hosts) = world();
    // Otherwise the kernel drops all but those of IPv6 already.
    world.c.sysctl("net.ipv4.conf.default.rp_filter=0 net.ipv4.conf.br0.rp_filter=0");
    let outside = ["198.51.100.77", "2001:db8:77::1"];
    for address in ["198.51.100.77/32", "2001:db8:77::1/128 nodad"] {
        hosts[0].ip(&format!("addr add {address} dev eth0"));
    }
    // A network behind a router of the LAN, which the owner has a route to.
    for (net, source, via) in [
        ("10.77.0.0/24", "10.77.0.1/32", "10.7.0.11"),
        ("fd77::/64", "fd77::1/128 nodad", "fd07::11"),
    ] {
        hosts[1].ip(&format!("addr add {source} dev eth0"));
        world.c.ip(&format!("route add {net} via {via} dev br0"));
    }
    let server = world.server();
    let client = world.client(LAN);
    let leaks = Leaks::watch_behind(&hosts[2], (&world.c, &LINKS));
    let ask = |host: &Namespace, source: &str, to: &str| {
        let to: SocketAddr = to.parse().expect("an address");
        let source: IpAddr = source.parse().expect("an address");
        let far = world.s.inside(|| bind(&to.to_string()));
        let near = host.inside(|| UdpSocket::bind((source, 0)).expect("it has the address"));
        // While the bridge's link-local address is new, the kernel asks for no neighbours.
        for (socket, wait) in [(&far, 500), (&near, 3000)] {
            let wait = Some(Duration::from_millis(wait));
            socket.set_read_timeout(wait).expect("a timeout can be set");
        }
        let mut answered = 0;
        for _ in 0..5 {
            near.send_to(b"who?", to).expect("it has a route");
            if let Ok((len, from)) = far.recv_from(&mut [0; 10]) {
                far.send_to(&[7; 10][..len], from).expect("it can be answered");
                answered += 1;
            }
        }
        assert!(answered > 2, "{source} is not heard at {to}, so nothing is told");
        near.recv(&mut [0; 10]).is_ok()
    };
    for (source, to) in outside.iter().zip(ECHO) {
        assert!(!ask(&hosts[0], source, to), "{source} is answered");
        leaks.none(source);
    }
    for (source, to) in ["10.77.0.1", "fd77::1"].iter().zip(ECHO) {
        assert!(ask(&hosts[1], source, to), "{source} is behind a router of the LAN");
    }
    assert!(ask(&hosts[1], "10.7.0.11", ECHO[0]) && ask(&hosts[1], "fd07::11", ECHO[1]));
    leaks.none("in all that");
    client.stop();
    assert!(!world.c.ip("rule").contains("iif") && !world.c.ip("-6 rule").contains("iif"));
    server.stop();
}

/// Forwarding of IPv6 is on for all interfaces, but not for what is none of the client's.
#[test]
fn nobody_on_another_interface_is_forwarded() {
    if !ready() {
        return;
    }
    let (world, hosts) = world();
    let third = Namespace::new('x');
    let attach = || {
        world.c.ip(&format!("link add d0 type veth peer name x0 netns {}", third.name()));
        world.c.ip("addr add fe80::1/64 dev d0 nodad");
        world.c.ip("link set d0 up");
        third.ip("addr add fd0a::2/64 dev x0 nodad");
        third.ip("link set x0 up");
        third.ip("-6 route add default via fe80::1 dev x0");
    };
    attach();
    let own = hosts[2].inside(|| bind("[::]:5555"));
    own.set_read_timeout(Some(Duration::from_millis(300))).expect("a timeout can be set");
    let heard = || {
        let other = third.inside(|| bind("[::]:0"));
        (0..4).any(|_| {
            // That it is refused is what is wanted.
            let _ = other.send_to(b"hello", "[fd07::12]:5555");
            own.recv(&mut [0; 10]).is_ok()
        })
    };
    let server = world.server();
    let client = world.client(LAN);
    let leaks = Leaks::watch_behind(&third, (&world.c, &LINKS));
    leaks.none("from another interface");
    assert!(!heard(), "it reaches a host");
    drop(leaks);
    // One that comes later is looked at as well.
    world.c.ip("link del d0");
    attach();
    wait_until("its rule", Duration::from_secs(5), || world.c.ip("-6 rule").contains("iif d0"));
    let leaks = Leaks::watch_behind(&third, (&world.c, &LINKS));
    leaks.none("from one that came later");
    assert!(!heard(), "it reaches a host");
    client.stop();
    world.c.sysctl("net.ipv6.conf.all.forwarding=1");
    leaks.some("it could leave, so the above says something");
    assert!(heard(), "it could be reached, so the above says something");
    server.stop();
}

#[test]
fn hosts_go_past_the_bond_while_it_is_down_if_that_is_wanted() {
    if !ready() {
        return;
    }
    let (world, hosts) = world();
    let server = world.server();
    let client = world.client(&LAN.replace("['br0']", "['br0']\nwhen_down = 'direct'"));
    let leaks = Leaks::watch_behind(&hosts[0], (&world.c, &LINKS));
    leaks.none("while all is well");
    server.stop();
    client
        .wait_for("the change", Duration::from_secs(15), |s| s["tun"]["lan"]["state"] == "direct");
    leaks.some("without a server");
    let server = world.server();
    client
        .wait_for("the change", Duration::from_secs(15), |s| s["tun"]["lan"]["state"] == "carried");
    std::thread::sleep(Duration::from_millis(300));
    leaks.take();
    leaks.none("with a server again");
    client.kill();
    leaks.some("after a crash");
    server.stop();
}
