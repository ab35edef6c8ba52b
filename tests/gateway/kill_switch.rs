//! The kill switch: whatever becomes of server, client and device, nothing leaves in the clear
//! before the client is stopped in order.

use super::data::ready;
use super::leaks::Leaks;
use super::namespace::wait_until;
use super::world::{Agent, User, World};
use std::fs;
use std::net::UdpSocket;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Everything through the tunnel, or nowhere.
const ALL: &str = "[tun]\nroutes = ['0.0.0.0/0', '::/0']\nkill_switch = true\n[front]\nsocks5 = []";
const LINKS: [&str; 2] = ["c1", "c2"];

/// A world whose client's host would send everything by its first link.
fn world() -> World {
    let world = World::new(User::Root);
    world.c.ip("route add default via 10.9.1.2 dev c1");
    world.c.ip("addr add fd09:1::1/64 dev c1 nodad");
    world.c.ip("-6 route add default via fd09:1::2 dev c1");
    world.c.ip("-6 neigh add fd09:1::2 lladdr 02:00:00:00:00:02 dev c1 nud permanent");
    world
}

/// A sender that is seen, and a client that holds it back.
fn held(world: &World) -> (Leaks, Agent) {
    let leaks = Leaks::watch(&world.c, &LINKS);
    leaks.some("before there is a client");
    let client = world.client(ALL);
    leaks.take();
    (leaks, client)
}

#[test]
fn a_silent_server_opens_nothing() {
    if !ready() {
        return;
    }
    let world = world();
    let server = world.server();
    let (leaks, client) = held(&world);
    leaks.none("while all is well");
    let rules = world.c.ip("rule");
    server.stop();
    // The client turns to the next address, which is the same, after 6 s.
    std::thread::sleep(Duration::from_secs(8));
    leaks.none("while the server is silent");
    assert_eq!(world.c.ip("rule"), rules, "the server has not moved");
    let server = world.server();
    client.wait_for_paths_up();
    leaks.none("while it comes back");
    client.stop();
    leaks.some("after an orderly stop");
    assert!(!world.c.ip("rule").contains("297"), "rules are left");
    server.stop();
}

#[test]
fn a_crash_a_restart_and_a_failed_start_open_nothing() {
    if !ready() {
        return;
    }
    let world = world();
    let server = world.server();
    let (leaks, client) = held(&world);
    client.kill();
    leaks.none("after the crash");
    let client = world.client(ALL);
    leaks.none("over the restart");
    client.kill();
    // Somebody else's route in the table: seen only when the routes are about to be changed.
    world.c.ip("route add 203.0.113.200/32 dev c1 table 29794");
    let mut failing = world.start_client(ALL);
    assert!(!failing.finish().success(), "it started");
    leaks.none("after a start that failed");
    let rules = world.c.ip("rule");
    assert!(rules.contains("lookup 29794"), "the rules that stood do not any more:\n{rules}");
    world.c.ip("route del 203.0.113.200/32 dev c1 table 29794");
    let client = world.client(ALL);
    leaks.none("over the start after that");
    client.stop();
    leaks.some("after an orderly stop");
    server.stop();
}

#[test]
fn a_device_that_is_lost_opens_nothing_and_is_made_again() {
    if !ready() {
        return;
    }
    let world = world();
    let server = world.server();
    let (leaks, client) = held(&world);
    for loss in ["link del tabane0", "link set tabane0 down"] {
        let routed = || world.c.ip("route show table 29794").contains("default dev tabane0");
        assert!(routed());
        world.c.ip(loss);
        leaks.none(loss);
        wait_until("the device", Duration::from_secs(5), || {
            world.c.ip("link").contains("tabane0") && routed()
        });
        leaks.none("while it is made again");
        client.wait_for("its status", Duration::from_secs(3), |s| s["tun"]["state"] == "up");
    }
    let happened = client.happened();
    assert!(happened.contains("tun-gone") && happened.contains("tun-up"), "{happened}");
    // It works: a download is not in the clear.
    world.complete(world.curl(world.c.command("curl"), &[]));
    leaks.none("and used");
    // So are rules that somebody takes away.
    world.c.ip("rule del priority 29801");
    wait_until("the rule", Duration::from_secs(5), || world.c.ip("rule").contains("29801:"));
    client.stop();
    server.stop();
}

#[test]
fn an_upgrade_opens_nothing() {
    if !ready() {
        return;
    }
    let world = world();
    let server = world.server();
    let (leaks, client) = held(&world);
    // What systemd sends when it restarts a service (RestartKillSignal=).
    client.signal(libc::SIGUSR2);
    client.ended();
    leaks.none("stopped for a restart");
    // The next version wants other rules, by other names.
    let other = "[tun]\nname = 'tbn'\nroutes = ['0.0.0.0/1', '128.0.0.0/1', '::/0']\n\
                 kill_switch = true\nmark = 77\ntable = 7777\n[front]\nsocks5 = []";
    let client = world.client(other);
    leaks.none("over the upgrade");
    wait_until("the old rules", Duration::from_secs(2), || {
        !world.c.ip("rule").contains("29794") && !world.c.ip("-6 rule").contains("29794")
    });
    assert_eq!(world.c.ip("route show table 29794 default"), "");
    client.stop();
    leaks.some("after an orderly stop");
    server.stop();
}

#[test]
fn routes_of_an_access_point_do_not_win() {
    if !ready() {
        return;
    }
    let world = world();
    let server = world.server();
    let (leaks, client) = held(&world);
    // As DHCP option 121 and router advertisements bring them.
    for to in ["0.0.0.0/1", "128.0.0.0/1", "203.0.113.9/32"] {
        world.c.ip(&format!("route add {to} via 10.9.1.2 dev c1"));
    }
    for to in ["::/1", "8000::/1", "2001:db8:9::9/128"] {
        world.c.ip(&format!("-6 route add {to} via fd09:1::2 dev c1"));
    }
    std::thread::sleep(Duration::from_millis(300));
    leaks.none("with routes of an access point");
    let (_, said) = world.ask(&["doctor"], &client);
    for named in ["0.0.0.0/1 via 10.9.1.2 dev c1", "without effect because of the kill switch"] {
        assert!(said.contains(named), "{said}");
    }
    // The network that the host is in stays where it is.
    let near = Leaks::watch_to(&world.c, &LINKS, &["10.9.1.2:9"]);
    near.some("to the local network");
    client.stop();
    server.stop();
}

/// Also when a test fails, or it would wait for ever.
pub(crate) struct SetWhenDropped<'a>(pub(crate) &'a AtomicBool);

impl Drop for SetWhenDropped<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Answers questions for addresses (RFC 1035) at `socket` until it is told to stop; how many.
fn answer_names(socket: &UdpSocket, stopped: &AtomicBool) -> u64 {
    let mut count = 0;
    let wait = socket.set_read_timeout(Some(Duration::from_millis(50)));
    wait.expect("a timeout can be set");
    while !stopped.load(Ordering::Relaxed) {
        let mut packet = [0; 512];
        let Ok((len, from)) = socket.recv_from(&mut packet) else { continue };
        let mut answer = packet[..len].to_vec();
        let is_a = answer[len - 4..len - 2] == [0, 1];
        (answer[2], answer[3]) = (0x81, 0x80);
        answer[6..12].copy_from_slice(&[0, u8::from(is_a), 0, 0, 0, 0]);
        if is_a {
            answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 10, 9, 1, 2]);
        }
        count += 1;
        socket.send_to(&answer, from).expect("it can be answered");
    }
    count
}

/// After a crash the list of resolvers names one in a tunnel that is not there.
#[test]
fn a_server_given_by_name_is_found_again_after_a_crash() {
    if !ready() {
        return;
    }
    let world = world();
    let server = world.server();
    let list = world.folder.file("etc/resolv.conf");
    let own = "nameserver 10.9.1.2\nsearch test\n";
    fs::create_dir_all(world.folder.file("etc")).expect("the temporary folder can be written");
    fs::write(&list, own).expect("the temporary folder can be written");
    let start = || {
        let tun = ALL.replace("[tun]", "[tun]\ndns = true");
        let client = world.client_of("'vpn.test:51820'", &["c1"], &tun);
        client.wait_for("its path", Duration::from_secs(8), |s| s["paths"][0]["state"] == "up");
        client
    };
    let names = world.s.inside(|| UdpSocket::bind("10.9.1.2:53").expect("the port is free"));
    let stopped = AtomicBool::new(false);
    let asked = std::thread::scope(|scope| {
        let running = scope.spawn(|| answer_names(&names, &stopped));
        let stop = SetWhenDropped(&stopped);
        let client = start();
        let now = fs::read_to_string(&list).expect("it is there");
        assert!(now.contains("nameserver 10.81.0.1") && !now.contains("10.9.1.2"), "{now}");
        client.kill();
        start().kill();
        drop(stop);
        running.join().expect("it does not panic")
    });
    assert!(asked >= 4, "A and AAAA of each start: {asked}");
    // And when nobody answers at all.
    let client = start();
    // A DHCP client writes its list: the tunnel's is there again at once, and that is told.
    let renewed = "nameserver 10.9.1.9\nsearch renewed\n";
    fs::write(&list, renewed).expect("the temporary folder can be written");
    let now = || fs::read_to_string(&list).expect("it is there");
    wait_until("the tunnel's resolver", Duration::from_secs(5), || {
        now().contains("nameserver 10.81.0.1") && now().contains("search renewed")
    });
    let happened = client.happened();
    assert!(happened.contains("tun-mended") && happened.contains("resolv.conf"), "{happened}");
    // Another program takes it over: nothing can be done, and that is told.
    fs::remove_file(&list).expect("the temporary folder can be written");
    symlink("/run/resolvconf/resolv.conf", &list).expect("the temporary folder can be written");
    client.wait_for("its trouble", Duration::from_secs(5), |s| {
        s["tun"]["state"] == "faulty" && s["tun"]["reason"].to_string().contains("resolvconf")
    });
    world.c.ip("rule del priority 29805");
    wait_until("the rule", Duration::from_secs(5), || world.c.ip("rule").contains("29805:"));
    fs::remove_file(&list).expect("the temporary folder can be written");
    fs::write(&list, renewed).expect("the temporary folder can be written");
    client.wait_for("its end", Duration::from_secs(5), |s| s["tun"]["state"] == "up");
    client.stop();
    assert_eq!(now(), renewed);
    server.stop();
}

/// Nobody can be asked where the server is, neither at the first start nor after an orderly stop.
#[test]
fn nothing_leaves_before_a_servers_name_is_resolved() {
    if !ready() {
        return;
    }
    let world = world();
    let list = world.folder.file("etc/resolv.conf");
    fs::create_dir_all(world.folder.file("etc")).expect("the temporary folder can be written");
    fs::write(&list, "").expect("the temporary folder can be written");
    let leaks = Leaks::watch(&world.c, &LINKS);
    leaks.some("before there is a client");
    let start = || world.client_of("'vpn.test:51820'", &["c1"], ALL);
    let client = start();
    wait_until("the rules", Duration::from_secs(3), || world.c.ip("-6 rule").contains("29803:"));
    leaks.take();
    std::thread::sleep(Duration::from_secs(1));
    leaks.none("while the name leads nowhere");
    let status = client.status().expect("it answers");
    assert_eq!(status["tun"]["state"], "waiting", "{status:#}");
    // Now it leads somewhere.
    let server = world.server();
    fs::write(world.folder.file("etc/hosts"), "10.9.1.2 vpn.test\n").expect("it can be written");
    let up = |client: &Agent| {
        client.wait_for("its path", Duration::from_secs(20), |s| s["paths"][0]["state"] == "up");
    };
    up(&client);
    leaks.none("when it is found");
    client.stop();
    leaks.some("after an orderly stop");
    fs::remove_file(world.folder.file("etc/hosts")).expect("it can be written");
    let client = start();
    wait_until("the rules", Duration::from_secs(3), || world.c.ip("-6 rule").contains("29803:"));
    leaks.take();
    up(&client);
    leaks.none("by the address that was known before");
    client.stop();
    server.stop();
}

/// All of a family, in halves.
#[test]
fn halves_of_one_family_close_the_other() {
    if !ready() {
        return;
    }
    let world = world();
    let server = world.server();
    let leaks = Leaks::watch(&world.c, &LINKS);
    let client = world.client(&ALL.replace("'0.0.0.0/0', '::/0'", "'0.0.0.0/1', '128.0.0.0/1'"));
    leaks.take();
    leaks.none("with halves of IPv4 alone");
    client.stop();
    server.stop();
}
