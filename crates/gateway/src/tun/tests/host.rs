//! The host's routes, rules and resolvers: only what is configured, and as before afterwards,
//! also when the client was killed.

use super::namespace::{Namespace, ready};
use crate::access::Prefix;
use crate::tun::host::HostError;
use crate::tun::{Device, DeviceConfig, Host, HostConfig, Reconciled};
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::IpAddr;
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use tabane_net::device::TunError;

const PAUSE: Duration = Duration::from_millis(5);

/// A host with a link to somewhere and a default route.
fn host() -> Namespace {
    let namespace = Namespace::new();
    namespace.ip("link add up0 type veth peer name up1");
    namespace.ip("link set up1 up");
    namespace.ip("link set up0 up");
    namespace.ip("address add 10.7.0.2/24 dev up0");
    namespace.ip("route add default via 10.7.0.1");
    namespace
}

fn prefixes(list: &[&str]) -> Vec<Prefix> {
    list.iter().map(|text| text.parse().unwrap()).collect()
}

/// Everything that can be asked for.
fn config(folder: &Path) -> HostConfig {
    HostConfig {
        routes: prefixes(&["0.0.0.0/0"]),
        kill_switch: true,
        resolvers: vec!["10.81.0.1".parse().unwrap()],
        resolv_conf: folder.join("resolv.conf"),
        servers: vec!["198.51.100.7:51820".parse().unwrap()],
        state: folder.join("state/host.json"),
        ..HostConfig::default()
    }
}

fn device() -> Device {
    let addresses = vec!["10.81.0.31".parse().unwrap()];
    let config = DeviceConfig { name: "tabane0".into(), addresses, mtu: 1400 };
    let end = Instant::now() + Duration::from_secs(5);
    loop {
        match Device::open(&config) {
            // Other tests start programs: until those have begun they hold what this process had.
            Err(TunError::Busy(_)) if Instant::now() < end => thread::sleep(PAUSE),
            opened => return opened.unwrap_or_else(|e| panic!("{e}")),
        }
    }
}

/// Drops the device, and waits until it is gone; see [`device`] for who may hold it still.
fn remove(namespace: &Namespace, device: Device) {
    drop(device);
    let end = Instant::now() + Duration::from_secs(5);
    while namespace.ip("link show").contains("tabane0") {
        assert!(Instant::now() < end, "the device is gone");
        thread::sleep(PAUSE);
    }
}

/// A device, and the host changed for it.
fn applied(config: &HostConfig) -> (Device, Host) {
    (device(), Host::apply(config).unwrap_or_else(|e| panic!("{e}")))
}

/// What `ip route get` answers there.
fn route_in(namespace: &Namespace) -> impl Fn(&str) -> String + '_ {
    move |to| namespace.ip(&format!("route get {to}"))
}

/// As many as `config` makes: six routes, nine rules, the resolvers.
const CHANGES: usize = 16;

const RESOLVERS: &str = "search example.org\nnameserver 10.7.0.1\noptions edns0\n";

/// What is marked or not, as `rp_filter` asks for the way back.
const TO_SERVER: &str = "ipproto udp dport 51820";

fn is_changed(namespace: &Namespace) {
    let route = route_in(namespace);
    assert!(route("192.0.2.80").contains("dev tabane0"));
    assert!(route("10.81.0.1").contains("dev tabane0"));
    assert!(route("192.0.2.80 mark 0x7462").contains("dev up0"), "the paths' own packets");
    assert!(route(&format!("198.51.100.7 {TO_SERVER}")).contains("dev up0"), "the server");
    assert!(route("198.51.100.7 ipproto tcp dport 22").contains("dev tabane0"), "by other means");
    assert!(route("198.51.100.7 ipproto udp dport 53").contains("dev tabane0"), "its other ports");
    let local = route("10.7.0.99");
    assert!(local.contains("dev up0"), "the local network: {local}\n{}", namespace.snapshot());
}

#[test]
fn the_host_is_afterwards_as_before() {
    if !ready(&[]) {
        return;
    }
    let namespace = host();
    let folder = tempfile::tempdir().unwrap();
    let config = config(folder.path());
    fs::write(&config.resolv_conf, RESOLVERS).unwrap();
    namespace.inside(|| {
        let before = namespace.snapshot();
        let device = device();
        let with_device = namespace.snapshot();
        let host = Host::apply(&config).unwrap_or_else(|e| panic!("{e}"));
        is_changed(&namespace);
        let resolvers = fs::read_to_string(&config.resolv_conf).unwrap();
        assert!(resolvers.contains("nameserver 10.81.0.1\n"), "{resolvers}");
        assert!(resolvers.contains("search example.org\noptions edns0\n"), "{resolvers}");
        assert!(!resolvers.contains("10.7.0.1"), "{resolvers}");
        assert!(config.state.exists());
        let undone = host.restore().unwrap();
        assert_eq!(undone.notes, Vec::<String>::new());
        assert_eq!(undone.changes, CHANGES, "{undone:?}");
        assert_eq!(namespace.snapshot(), with_device);
        assert_eq!(fs::read_to_string(&config.resolv_conf).unwrap(), RESOLVERS);
        assert!(!config.state.exists());
        remove(&namespace, device);
        assert_eq!(namespace.snapshot(), before);
        // Merely dropped it stays, and whoever comes next takes it over.
        let _device = self::device();
        drop(Host::apply(&config).unwrap());
        is_changed(&namespace);
        let changed = namespace.snapshot();
        let host = Host::apply(&config).unwrap();
        assert_eq!(namespace.snapshot(), changed);
        host.restore().unwrap();
        assert_eq!(namespace.snapshot(), with_device);
        assert_eq!(fs::read_to_string(&config.resolv_conf).unwrap(), RESOLVERS);
    });
}

/// Not a test: what the tests kill. Changes the host of its namespace and waits.
#[test]
#[ignore = "started by other tests"]
fn victim() {
    let Ok(folder) = std::env::var("TABANE_TEST_VICTIM") else { return };
    let _device = device();
    let _host = Host::apply(&config(Path::new(&folder))).unwrap_or_else(|e| panic!("{e}"));
    println!("\nready");
    std::thread::park();
}

fn start_victim(namespace: &Namespace, folder: &Path) -> Child {
    let mut command = namespace.command(std::env::current_exe().unwrap());
    command.args(["tun::tests::host::victim", "--exact", "--ignored", "--nocapture"]);
    command.env("TABANE_TEST_VICTIM", folder).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let ready = lines.map_while(Result::ok).any(|line| line == "ready");
    assert!(ready, "the victim did not come up");
    child
}

#[test]
fn a_killed_client_leaks_nothing_and_is_cleaned_up_after() {
    if !ready(&[]) {
        return;
    }
    let namespace = host();
    let folder = tempfile::tempdir().unwrap();
    let config = config(folder.path());
    fs::write(&config.resolv_conf, RESOLVERS).unwrap();
    let before = namespace.snapshot();
    let kill = || {
        let mut victim = start_victim(&namespace, folder.path());
        is_changed(&namespace);
        let busy = namespace.inside(|| Host::cleanup(&config.state));
        assert!(matches!(busy, Err(HostError::Running { .. })), "it runs");
        // `ip netns exec` becomes the program, so this is the victim's own id: SIGKILL.
        victim.kill().unwrap();
        victim.wait().unwrap();
    };
    kill();
    assert!(config.state.exists());
    assert!(!namespace.ip("link").contains("tabane0"), "the device went with it");
    // The kill switch holds: neither family leaves by the host's own default route.
    for to in ["192.0.2.80", "2001:db8::80"] {
        let output = namespace.command("ip").args(["route", "get", to]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).to_lowercase();
        assert!(!output.status.success() && said.contains("no route to host"), "{output:?}");
    }
    assert!(namespace.ip("route get 10.7.0.99").contains("dev up0"));
    let undone = namespace.inside(|| Host::cleanup(&config.state)).unwrap();
    assert_eq!(undone.changes, CHANGES);
    assert_eq!(namespace.snapshot(), before);
    assert_eq!(fs::read_to_string(&config.resolv_conf).unwrap(), RESOLVERS);
    assert!(!config.state.exists());
    // Nothing is left to clean up.
    assert_eq!(namespace.inside(|| Host::cleanup(&config.state)).unwrap().changes, 0);
    // The next start takes it over, and its end is an end.
    kill();
    let noted = Host::open(&config.state).unwrap();
    assert_eq!(
        noted.resolvers_before(&config.resolv_conf),
        ["10.7.0.1".parse::<IpAddr>().unwrap()]
    );
    drop(noted);
    namespace.inside(|| {
        let (device, host) = applied(&config);
        is_changed(&namespace);
        host.restore().unwrap();
        remove(&namespace, device);
    });
    assert_eq!(namespace.snapshot(), before);
    assert_eq!(fs::read_to_string(&config.resolv_conf).unwrap(), RESOLVERS);
}

/// Rules in order, as text.
fn rules(namespace: &Namespace) -> Vec<String> {
    namespace.ip("rule").lines().map(str::to_owned).collect()
}

#[test]
fn only_what_differs_is_changed_and_what_was_taken_away_is_put_back() {
    if !ready(&[]) {
        return;
    }
    let namespace = host();
    let folder = tempfile::tempdir().unwrap();
    let config = HostConfig { resolvers: Vec::new(), ..config(folder.path()) };
    namespace.inside(|| {
        let (device, mut host) = applied(&config);
        let before = rules(&namespace);
        assert_eq!(host.reconcile(&config).unwrap(), Reconciled::default());
        assert_eq!(rules(&namespace), before);
        // Another server: its rule, and no other.
        let mut moved = config.clone();
        moved.servers = vec!["198.51.100.8:51820".parse().unwrap()];
        host.reconcile(&moved).unwrap();
        let after = rules(&namespace);
        let mut differing = after.iter().filter(|rule| !before.contains(rule));
        assert_eq!(differing.clone().count(), 1, "{after:#?}");
        assert!(differing.next_back().unwrap().contains("198.51.100.8"), "{after:#?}");
        assert_eq!(after.len(), before.len(), "{after:#?}");
        // Somebody takes away rules and routes, as systemd-networkd does with those of others.
        namespace.ip("rule flush");
        namespace.ip("rule add priority 32766 lookup main");
        namespace.ip("rule add priority 32767 lookup default");
        namespace.ip("route flush table 29794");
        let done = host.reconcile(&moved).unwrap();
        assert!(done.restored >= 5, "{done:?}");
        assert_eq!(rules(&namespace), after);
        // Another network: it is beside the tunnel from then on, and no longer than it is there.
        let route = route_in(&namespace);
        namespace.ip("address add 192.168.9.2/24 dev up0");
        host.reconcile(&moved).unwrap();
        assert!(route("192.168.9.77").contains("dev up0"));
        namespace.ip("address del 192.168.9.2/24 dev up0");
        host.reconcile(&moved).unwrap();
        assert!(route("192.168.9.77").contains("dev tabane0"));
        // A device that was made anew.
        drop(device);
        let _device = self::device();
        host.reconcile(&moved).unwrap();
        assert!(route("192.0.2.80").contains("dev tabane0"));
        host.restore().unwrap();
    });
}

#[test]
fn routes_of_an_access_point_do_not_win() {
    if !ready(&[]) {
        return;
    }
    let namespace = host();
    namespace.ip("address add 203.0.113.7/24 dev up0");
    let folder = tempfile::tempdir().unwrap();
    let config = HostConfig { resolvers: Vec::new(), ..config(folder.path()) };
    namespace.inside(|| {
        let (_device, host) = applied(&config);
        // As DHCP option 121 brings them.
        for to in ["0.0.0.0/1", "128.0.0.0/1", "192.0.2.80/32", "10.66.0.0/16"] {
            namespace.ip(&format!("route add {to} via 10.7.0.1"));
        }
        let route = route_in(&namespace);
        for to in ["192.0.2.80", "192.0.2.81", "10.66.0.1", "203.0.113.9", "8.8.8.8"] {
            let said = route(to);
            assert!(said.contains("dev tabane0"), "{to}: {said}");
        }
        assert!(route("10.7.0.99").contains("dev up0"), "the host's own network");
        assert!(route("10.7.0.1").contains("dev up0"), "its router");
        host.restore().unwrap();
        // The owner wants everything in the tunnel.
        let strict = HostConfig { local: Vec::new(), ..config.clone() };
        let host = Host::apply(&strict).unwrap();
        assert!(route("10.7.0.99").contains("dev tabane0"));
        host.restore().unwrap();
    });
}

#[test]
fn without_the_kill_switch_a_killed_client_is_out_of_the_way() {
    if !ready(&[]) {
        return;
    }
    let namespace = host();
    let folder = tempfile::tempdir().unwrap();
    let open = HostConfig { kill_switch: false, ..config(folder.path()) };
    namespace.inside(|| {
        let (device, host) = applied(&open);
        assert!(namespace.ip("route get 192.0.2.80").contains("dev tabane0"));
        remove(&namespace, device);
        assert!(namespace.ip("route get 192.0.2.80").contains("dev up0"));
        assert!(!fs::exists(folder.path().join("nothing")).unwrap());
        // There was no list of resolvers, and there is none.
        assert!(open.resolv_conf.exists());
        host.restore().unwrap();
        assert!(!open.resolv_conf.exists());
    });
}

#[test]
fn chosen_prefixes_yield_to_what_is_more_specific() {
    if !ready(&[]) {
        return;
    }
    let namespace = host();
    let folder = tempfile::tempdir().unwrap();
    let config = HostConfig {
        routes: prefixes(&["10.0.0.0/8", "192.0.2.0/24"]),
        resolvers: Vec::new(),
        kill_switch: false,
        ..config(folder.path())
    };
    namespace.inside(|| {
        let (_device, host) = applied(&config);
        let route = route_in(&namespace);
        assert!(route("10.9.9.9").contains("dev tabane0"));
        assert!(route("10.7.0.99").contains("dev up0"), "the local network is more specific");
        assert!(route("192.0.2.80").contains("dev tabane0"));
        assert!(route("203.0.113.1").contains("dev up0"), "the rest is not configured");
        host.restore().unwrap();
    });
}

#[test]
fn paths_find_their_way_by_the_hosts_own_rules() {
    if !ready(&[]) {
        return;
    }
    let namespace = host();
    // A second link, as hosts have it: routed by source.
    namespace.ip("link add lte0 type veth peer name lte1");
    namespace.ip("link set lte1 up");
    namespace.ip("link set lte0 up");
    namespace.ip("address add 10.8.0.2/24 dev lte0");
    namespace.ip("route add default via 10.8.0.1 dev lte0 table 8");
    namespace.ip("rule add from 10.8.0.2 lookup 8");
    let folder = tempfile::tempdir().unwrap();
    namespace.inside(|| {
        let (_device, host) = applied(&config(folder.path()));
        let route = route_in(&namespace);
        assert!(route("192.0.2.80 mark 0x7462 from 10.8.0.2").contains("dev lte0"));
        let to_server = format!("198.51.100.7 from 10.8.0.2 {TO_SERVER}");
        assert!(route(&to_server).contains("dev lte0"));
        assert!(route("192.0.2.80 mark 0x7462 from 10.7.0.2").contains("dev up0"));
        assert!(route("192.0.2.80 from 10.8.0.2").contains("dev tabane0"), "of a program");
        host.restore().unwrap();
    });
}

#[test]
fn what_belongs_to_others_is_left_alone() {
    if !ready(&[]) {
        return;
    }
    let namespace = host();
    let folder = tempfile::tempdir().unwrap();
    let mut config = config(folder.path());
    fs::write(&config.resolv_conf, RESOLVERS).unwrap();
    namespace.inside(|| {
        let _device = device();
        namespace.ip("route add 203.0.113.0/24 dev up0 table 29794");
        let before = namespace.snapshot();
        assert!(matches!(Host::apply(&config), Err(HostError::TableInUse { table: 29_794 })));
        assert_eq!(namespace.snapshot(), before);
        config.table = 1234;
        let host = Host::apply(&config).unwrap_or_else(|e| panic!("{e}"));
        let second = Host::apply(&config);
        assert!(matches!(second, Err(HostError::Running { .. })));
        // Somebody else writes the list in the meantime.
        fs::write(&config.resolv_conf, "nameserver 9.9.9.9\n").unwrap();
        let undone = host.restore().unwrap();
        assert_eq!(undone.notes.len(), 1, "{undone:?}");
        assert!(undone.notes[0].contains("left as it is"), "{undone:?}");
        assert_eq!(fs::read_to_string(&config.resolv_conf).unwrap(), "nameserver 9.9.9.9\n");
        assert_eq!(namespace.snapshot(), before);
    });
}

#[test]
fn the_list_of_resolvers_is_kept_and_is_at_the_end_what_others_wrote() {
    if !ready(&[]) {
        return;
    }
    let namespace = host();
    let folder = tempfile::tempdir().unwrap();
    let config = config(folder.path());
    fs::write(&config.resolv_conf, RESOLVERS).unwrap();
    let read = || fs::read_to_string(&config.resolv_conf).unwrap();
    namespace.inside(|| {
        let (_device, mut host) = applied(&config);
        let ours = read();
        // As it was before the client.
        fs::write(&config.resolv_conf, RESOLVERS).unwrap();
        assert!(host.reconcile(&config).unwrap().names_restored);
        assert_eq!(read(), ours);
        assert_eq!(host.reconcile(&config).unwrap(), Reconciled::default());
        // Of another network, and about to be written.
        let other = "search example.net\nnameserver 10.7.0.9\n";
        for text in [other, ""] {
            fs::write(&config.resolv_conf, text).unwrap();
            assert!(host.reconcile(&config).unwrap().names_restored);
            assert!(read().contains("nameserver 10.81.0.1\nsearch example.net\n"), "{}", read());
        }
        let before: Vec<IpAddr> = vec!["10.7.0.9".parse().unwrap()];
        assert_eq!(host.resolvers_before(&config.resolv_conf), before);
        // One that cannot be written: the rest is put in order all the same.
        fs::remove_file(&config.resolv_conf).unwrap();
        fs::create_dir(&config.resolv_conf).unwrap();
        namespace.ip("rule del priority 29801");
        let done = host.reconcile(&config).unwrap();
        assert!(done.restored == 1 && !done.names_restored, "{done:?}");
        assert!(done.names_lost.unwrap().contains("resolv.conf"));
        fs::remove_dir(&config.resolv_conf).unwrap();
        let done = host.reconcile(&config).unwrap();
        assert!(done.names_restored && done.names_lost.is_none(), "{done:?}");
        host.restore().unwrap();
        assert_eq!(read(), other);
    });
}

#[test]
fn without_ipv6_what_is_of_ipv4_is_made() {
    if !ready(&[]) {
        return;
    }
    let namespace = host();
    let off = ["net.ipv6.conf.all.disable_ipv6=1", "net.ipv6.conf.default.disable_ipv6=1"];
    assert!(namespace.command("sysctl").arg("-qw").args(off).status().unwrap().success());
    let folder = tempfile::tempdir().unwrap();
    let routes = prefixes(&["0.0.0.0/0", "::/0"]);
    let config = HostConfig { routes, resolvers: Vec::new(), ..config(folder.path()) };
    namespace.inside(|| {
        let before = namespace.snapshot();
        let addresses = vec!["10.81.0.31".parse().unwrap(), "fd81::31".parse().unwrap()];
        let wanted = DeviceConfig { name: "tabane0".into(), addresses, mtu: 1400 };
        let device = Device::open(&wanted).unwrap_or_else(|e| panic!("{e}"));
        let mut host = Host::apply(&config).unwrap_or_else(|e| panic!("{e}"));
        assert!(namespace.ip("route get 192.0.2.80").contains("dev tabane0"));
        let closed = namespace.ip("-6 route show table 29794");
        assert!(closed.starts_with("unreachable default") && closed.lines().count() == 1);
        assert_eq!(host.reconcile(&config).unwrap(), Reconciled::default());
        host.restore().unwrap();
        remove(&namespace, device);
        assert_eq!(namespace.snapshot(), before);
    });
}

#[test]
fn lists_of_resolvers_that_programs_keep_are_refused_before_anything_is_changed() {
    let folder = tempfile::tempdir().unwrap();
    let config = config(folder.path());
    for (target, named) in [
        ("/run/systemd/resolve/stub-resolv.conf", "resolvectl dns tabane0 10.81.0.1"),
        ("/run/resolvconf/resolv.conf", "dns = false"),
    ] {
        std::os::unix::fs::symlink(target, &config.resolv_conf).unwrap();
        let error = Host::apply(&config).err().unwrap().to_string();
        assert!(error.contains(named) && error.contains(target), "{error}");
        assert!(!config.state.exists());
        fs::remove_file(&config.resolv_conf).unwrap();
    }
    fs::create_dir_all(config.state.parent().unwrap()).unwrap();
    fs::write(&config.state, "{\"version\": 1, \"changes\": [").unwrap();
    let error = Host::cleanup(&config.state).unwrap_err().to_string();
    assert!(error.contains("damaged") && error.contains("29600"), "{error}");
}
