//! A terminal C with two access links, each behind a modem, a router R and a server S.
//!
//! ```text
//!   C c1 10.1.1.1 -- 10.1.1.2 M1 ==== 20 Mbit/s,  5 ms ==== R 10.9.0.1 -- 10.9.0.2 S
//!     c2 10.1.2.1 -- 10.1.2.2 M2 ==== 10 Mbit/s, 50 ms ====
//! ```
//! Delays are one way. Each address of C has a routing table of its own. IPv6 is the same with
//! fd00:1:1::1, fd00:1:2::1 and fd00:9::2.

use super::data::Folder;
use super::link::{Conditions, Counters, Link, Way};
use super::namespace::{Namespace, Process, run, wait_until};
use crate::binary;
use crate::program::has;
use serde_json::Value;
use std::process::{Command, Output};
use std::time::Duration;

/// Hosts and links; everything goes when it is dropped.
pub(crate) struct World {
    pub(crate) c: Namespace,
    pub(crate) s: Namespace,
    /// By way of M1 and M2; A is at the modem.
    pub(crate) links: [Link; 2],
    pub(crate) folder: Folder,
    _others: [Namespace; 3],
}

/// Whether tests can run here.
pub(crate) fn can_run() -> bool {
    if !rustix::process::geteuid().is_root() {
        println!("SKIPPED: namespaces and eBPF need root");
        assert!(std::env::var("CI").as_deref() != Ok("true"), "must not be skipped in CI");
        return false;
    }
    ["ip", "tc", "ss", "sysctl", "curl", "python3"].into_iter().all(has)
}

impl World {
    pub(crate) fn new() -> Self {
        let [c, s, r] = ['c', 's', 'r'].map(Namespace::new);
        let modems = ['m', 'n'].map(Namespace::new);
        for host in [&c, &s, &r, &modems[0], &modems[1]] {
            // What comes by one link may answer what went by another.
            host.sysctl("net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0");
            // A link-local address that is still being checked asks for no neighbour: copies that
            // leave by that link would be lost for the first two seconds.
            host.sysctl("net.ipv6.conf.default.accept_dad=0");
        }
        for host in [&r, &modems[0], &modems[1]] {
            host.sysctl("net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1");
        }
        wire(&r, "s0", "10.9.0.1", "fd00:9::1", &s, "e0", "10.9.0.2", "fd00:9::2");
        s.ip("route add default via 10.9.0.1");
        s.ip("-6 route add default via fd00:9::1");
        let rates = [(20, 5), (10, 50)];
        let links = [0, 1].map(|i| {
            let (n, modem) = (i + 1, &modems[i]);
            let [v4, v6] = [format!("10.1.{n}."), format!("fd00:1:{n}::")];
            let (ours, theirs) =
                ([format!("{v4}1"), format!("{v6}1")], [format!("{v4}2"), format!("{v6}2")]);
            let device = format!("c{n}");
            wire(&c, &device, &ours[0], &ours[1], modem, "m0", &theirs[0], &theirs[1]);
            for (family, own, hop) in [("-4", &ours[0], &theirs[0]), ("-6", &ours[1], &theirs[1])] {
                c.ip(&format!("{family} rule add from {own} table {n}"));
                let route = format!("via {hop} dev {device}");
                c.ip(&format!("{family} route add default {route} table {n}"));
                c.ip(&format!("{family} route add default {route} metric {n}"));
            }
            let (mbps, delay) = rates[i];
            let far = format!("w{n}");
            let way = Conditions::new(mbps, delay, 100_000);
            let link = Link::new((modem, "w0"), (&r, &far), 1500, &way, 7 + n as u64);
            for family in ["-4", "-6"] {
                modem.ip(&format!("{family} route add default dev w0"));
            }
            r.ip(&format!("route add {v4}0/24 dev {far}"));
            r.ip(&format!("-6 route add {v6}/64 dev {far}"));
            link
        });
        let [m, n] = modems;
        Self { c, s, links, folder: Folder::new(), _others: [r, m, n] }
    }

    /// `tabane ARGS` in C.
    pub(crate) fn tabane(&self, args: &str) -> Output {
        let mut command = binary::by(|tabane| self.c.command(tabane));
        command.args(args.split_whitespace()).output().unwrap()
    }

    /// It must succeed; its standard output.
    pub(crate) fn ok(&self, args: &str) -> String {
        let said = self.tabane(args);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(said.status.success(), "tabane {args}: {}", text(&said.stderr));
        text(&said.stdout)
    }

    /// It must fail; its standard error.
    pub(crate) fn fails(&self, args: &str) -> String {
        let said = self.tabane(args);
        assert!(!said.status.success(), "tabane {args} succeeded");
        String::from_utf8_lossy(&said.stderr).into_owned()
    }

    pub(crate) fn json(&self, args: &str) -> Value {
        serde_json::from_str(&self.ok(args)).unwrap()
    }

    /// An HTTP server on S with `file` of `len` bytes, on MPTCP or TCP.
    pub(crate) fn serve(&self, len: usize, protocol: &str) -> Process {
        self.folder.make("file", len, 7);
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/interop/peers/peer.py");
        let mut command = self.s.command("python3");
        command.args(["-u", script, "serve", "--port", "8080"]);
        command.args((protocol == "tcp").then_some("--tcp")).arg(self.folder.path());
        let mut server = Process::start(&mut command, self.folder.path(), "server");
        server.wait_for("serving");
        server
    }

    /// Downloads it to C with curl, which must succeed, by `interface`.
    pub(crate) fn download(&self, host: &str, interface: &str) {
        let url = format!("http://{host}:8080/file");
        let mut command = self.c.command("curl");
        command.args(["-sf", "--max-time", "60", "--interface", interface, "-o", "/dev/null"]);
        run(command.arg(url));
    }

    /// Packets that went up by each link since the last call of this kind, given its result.
    pub(crate) fn up(&self, since: [u64; 2]) -> [u64; 2] {
        [0, 1].map(|i| self.sent(i).packets - since[i])
    }

    fn sent(&self, link: usize) -> Counters {
        self.links[link].counters(Way::AToB)
    }

    /// Waits until what is under way has arrived.
    pub(crate) fn settle(&self) {
        let mut last = [u64::MAX; 2];
        wait_until("the links to be idle", Duration::from_secs(10), || {
            std::thread::sleep(Duration::from_millis(250));
            let now = self.up([0; 2]);
            std::mem::replace(&mut last, now) == now
        });
    }
}

/// Two hosts on one wire.
#[allow(clippy::too_many_arguments)] // two ends of four things each
fn wire(a: &Namespace, x: &str, a4: &str, a6: &str, b: &Namespace, y: &str, b4: &str, b6: &str) {
    let args = ["-n", a.name(), "link", "add", x, "type", "veth", "peer", "name", y, "netns"];
    run(Command::new("ip").args(args).arg(b.name()));
    for (host, device, v4, v6) in [(a, x, a4, a6), (b, y, b4, b6)] {
        host.ip(&format!("addr add {v4}/24 dev {device}"));
        host.ip(&format!("addr add {v6}/64 dev {device} nodad"));
        host.ip(&format!("link set {device} up"));
    }
    // Frames of one packet each, so that packets can be counted.
    for (host, device) in [(a, x), (b, y)] {
        let args = ["-K", device, "tso", "off", "gso", "off", "gro", "off"];
        run(host.command("ethtool").args(args));
    }
}
