//! The place of every test: a kernel host K and tabane's host T, joined by two links.
//!
//! ```text
//!   K: stock kernel                                   T: forwards between x and t
//!   10.0.1.1 k1 ==== link 1 (emulated) ==== x1   t1 10.1.1.1 -- TUN -- tabane 10.1.1.2
//!   10.0.2.1 k2 ==== link 2 (emulated) ==== x2   t2 10.1.2.1 -- TUN -- tabane 10.1.2.2
//! ```
//! IPv6 is the same with `fd00:0:N::1` and `fd00:1:N::2`. A packet takes link 2 exactly if either
//! of its addresses is a second one, so that a subflow has one link in both directions, whichever
//! end made it.

use super::data::Folder;
use super::link::{Conditions, Link, Way};
use super::namespace::{Namespace, Process, run};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Which IP a test runs on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Family {
    V4,
    V6,
}

/// What is in tabane's place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Far {
    Tabane,
    Kernel,
}

/// Two hosts, two links, a folder for files and logs.
pub(crate) struct World {
    pub(crate) family: Family,
    pub(crate) far: Far,
    pub(crate) folder: Folder,
    /// Links 1 and 2; A is the kernel's end.
    pub(crate) links: [Link; 2],
    pub(crate) k: Namespace,
    pub(crate) t: Namespace,
    mtus: [u16; 2],
    /// Drops first, so that it sees everything and its file is whole.
    _capture: Option<Process>,
}

/// From tabane to the kernel.
pub(crate) const TO_KERNEL: Way = Way::BToA;
/// From the kernel to tabane.
pub(crate) const TO_TABANE: Way = Way::AToB;

impl World {
    /// The usual links: 100 Mbit/s and 10 ms, 50 Mbit/s and 20 ms, each way, MTU 1500.
    pub(crate) fn new(family: Family) -> Self {
        Self::with_mtus(family, [1500, 1500])
    }

    pub(crate) fn with_mtus(family: Family, mtus: [u16; 2]) -> Self {
        let far = match std::env::var("TABANE_INTEROP_FAR").as_deref() {
            Ok("kernel") => Far::Kernel,
            _ => Far::Tabane,
        };
        let (k, t) = (Namespace::new('k'), Namespace::new('t'));
        let every = |name: &str, value: u8| {
            format!("net.ipv4.conf.all.{name}={value} net.ipv4.conf.default.{name}={value} ")
        };
        for host in [&k, &t] {
            host.sysctl(&every("rp_filter", 0));
            host.sysctl("net.ipv4.tcp_no_metrics_save=1");
        }
        t.sysctl(&every("send_redirects", 0));
        if far == Far::Tabane {
            t.sysctl("net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1");
        }
        let links = [(1u8, 100, 10), (2, 50, 20)].map(|(n, mbits, delay)| {
            let (near, other) = (format!("k{n}"), format!("x{n}"));
            let mtu = mtus[usize::from(n) - 1];
            Link::new((&k, &near), (&t, &other), mtu, &usual(mbits, delay), n.into())
        });
        let folder = Folder::new();
        let _capture = capture(&k, &folder);
        let world = Self { family, far, folder, links, k, t, mtus, _capture };
        world.address();
        world.k.ip("mptcp limits set subflows 4 add_addr_accepted 4");
        world
    }

    fn address(&self) {
        for n in [1, 2] {
            self.k.ip(&format!("addr add 10.0.{n}.1/24 dev k{n}"));
            self.k.ip(&format!("-6 addr add fd00:0:{n}::1/64 dev k{n} nodad"));
            for (host, device) in [(&self.k, "k"), (&self.t, "x")] {
                host.ip(&format!("route add default dev {device}{n} table {n}"));
                host.ip(&format!("-6 route add default dev {device}{n} table {n}"));
            }
            if self.far == Far::Kernel {
                self.t.ip(&format!("link add t{n} type veth peer name z{n}"));
                self.t.ip(&format!("addr add 10.1.{n}.2/24 dev t{n}"));
                self.t.ip(&format!("-6 addr add fd00:1:{n}::2/64 dev t{n} nodad"));
                self.t.ip(&format!("link set t{n} up"));
            }
        }
        let far = [
            ("", "10.1.0.0/16", "10.1.2.0/24", "10.0.2.0/24"),
            ("-6 ", "fd00:1::/32", "fd00:1:2::/64", "fd00:0:2::/64"),
        ];
        for (family, tabane, second_tabane, second_kernel) in far {
            let rule = |host: &Namespace, order: u8, what: &str, table: &str| {
                host.ip(&format!("{family}rule add priority {order} {what} lookup {table}"));
            };
            rule(&self.t, 5, &format!("to {tabane}"), "main");
            for host in [&self.k, &self.t] {
                for (order, direction) in [(10, "from"), (11, "to")] {
                    rule(host, order, &format!("{direction} {second_tabane}"), "2");
                    rule(host, order, &format!("{direction} {second_kernel}"), "2");
                }
                rule(host, 20, "to all", "1");
            }
        }
    }

    /// The kernel's address on link `n`.
    pub(crate) fn kernel_address(&self, n: usize) -> IpAddr {
        self.pick(format!("10.0.{n}.1"), format!("fd00:0:{n}::1"))
    }

    /// Tabane's address behind link `n`.
    pub(crate) fn tabane_address(&self, n: usize) -> IpAddr {
        self.pick(format!("10.1.{n}.2"), format!("fd00:1:{n}::2"))
    }

    fn pick(&self, v4: String, v6: String) -> IpAddr {
        let text = if self.family == Family::V4 { v4 } else { v6 };
        text.parse().expect("invariant: these are addresses")
    }

    /// What tabane is told about its paths: `--tun` specifications.
    pub(crate) fn tuns(&self) -> [String; 2] {
        let spec =
            |n: usize| format!("t{n}=10.1.{n}.2/24,fd00:1:{n}::2/64,mtu={}", self.mtus[n - 1]);
        [spec(1), spec(2)]
    }

    /// Bytes of TCP payload delivered by each link, in one direction.
    pub(crate) fn payload(&self, way: Way) -> [u64; 2] {
        [0, 1].map(|link| self.links[link].counters(way).payload)
    }

    /// Counters of the kernel at K that are not zero.
    pub(crate) fn kernel_counters(&self) -> BTreeMap<String, u64> {
        let text = run(self.k.command("nstat").arg("-asz"));
        let row = |line: &str| {
            let mut words = line.split_whitespace();
            let (name, value) = (words.next()?, words.next()?.parse().ok()?);
            Some((name.to_owned(), value))
        };
        text.lines().filter_map(row).filter(|(_, value)| *value != 0).collect()
    }

    /// One of them.
    pub(crate) fn kernel_counter(&self, name: &str) -> u64 {
        self.kernel_counters().get(name).copied().unwrap_or(0)
    }

    /// Prints what happened: payload by link and the kernel's MPTCP counters.
    pub(crate) fn report(&self, what: &str) {
        let mib = |bytes: u64| bytes as f64 / (1 << 20) as f64;
        let [k1, k2] = self.payload(TO_KERNEL).map(mib);
        let [t1, t2] = self.payload(TO_TABANE).map(mib);
        println!("{what} ({:?}, far end {:?})", self.family, self.far);
        println!("  MiB of payload to the kernel: {k1:.1} + {k2:.1}, from it: {t1:.1} + {t2:.1}");
        let counters = self.kernel_counters();
        let shown = |name: &str| {
            name.strip_prefix("MPTcpExt").map(str::to_owned).or_else(|| {
                let plain = ["TcpRetransSegs", "TcpExtTCPTimeouts", "TcpEstabResets"];
                plain.contains(&name).then(|| name.to_owned())
            })
        };
        let seen = counters.iter().filter_map(|(name, n)| Some(format!("{}={n}", shown(name)?)));
        println!("  kernel: {}", seen.collect::<Vec<_>>().join(" "));
    }
}

/// Each link carried a real part of the file.
pub(crate) fn both_carried(payload: [u64; 2]) {
    let all: u64 = payload.iter().sum();
    assert!(payload.iter().all(|part| *part > all / 10), "one link carried it all: {payload:?}");
}

/// Makes tests `v4::NAME` and `v6::NAME` of each case.
macro_rules! on_both_families {
    ($($case:ident),+ $(,)?) => {
        mod v4 { $(#[test] fn $case() { super::$case(super::Family::V4); })+ }
        mod v6 { $(#[test] fn $case() { super::$case(super::Family::V6); })+ }
    };
}
pub(crate) use on_both_families;

/// Headers of what K sends and receives, as `FOLDER/TEST.pcap`, if TABANE_INTEROP_CAPTURE says so.
fn capture(k: &Namespace, folder: &Folder) -> Option<Process> {
    let target = std::env::var("TABANE_INTEROP_CAPTURE").ok()?;
    let test = std::thread::current().name().unwrap_or("test").replace("::", "-");
    let mut command = k.command("tcpdump");
    command.args(["-U", "-n", "-i", "any", "-s", "160", "-w", &format!("{target}/{test}.pcap")]);
    let mut process = Process::start(&mut command, folder.path(), "tcpdump");
    process.wait_for("listening");
    Some(process)
}

fn usual(mbits: u64, delay: u64) -> Conditions {
    // 40 ms at the rate: more than the product of rate and round trip, as access links have.
    Conditions::new(mbits, delay, (mbits * 1_000_000 / 8 * 40 / 1000).max(150_000))
}
