//! What paths are used for: roles, caps, quotas and limits, at the start and while agents run.

use super::bed::{Agent, Keys, LONG, connect, echo, serve};
use super::wire::Wire;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tabane_config::quantity::{Rate, Size};
use tabane_engine::policy::Spec;
use tabane_gateway::config::{ClientConfig, ClientLimits};
use tabane_gateway::model::{ConnStatus, PathState, PathStatus, Role};
use tabane_gateway::request_channel::{Answer, Request};

const MBPS: u64 = 1_000_000;

/// Agents with two paths that can be cut.
struct Bed {
    client: Agent,
    _server: Agent,
    wires: [Wire; 2],
    keys: Keys,
    config: ClientConfig,
}

impl Bed {
    /// `change` is made to the client's configuration; paths that may be used are up.
    fn new(rate: Option<Rate>, change: impl Fn(&mut ClientConfig)) -> Self {
        let keys = Keys::new();
        let mut config = keys.server_config("127.0.0.1:0".parse().unwrap());
        config.limits = ClientLimits { rate, ..ClientLimits::default() };
        let server = Agent::server(config);
        let wires = [Wire::to(server.at), Wire::to(server.at)];
        let mut config = keys.client_config(&[server.at]);
        for (path, wire) in config.path.iter_mut().zip(&wires) {
            path.remote = Some(wire.near);
        }
        change(&mut config);
        let client = Agent::client(config.clone());
        client.until_paths_work();
        Self { client, _server: server, wires, keys, config }
    }

    fn path(&self, path: usize) -> PathStatus {
        self.client.status().paths[path].clone()
    }

    fn set(&self, path: &str, role: Option<Role>, cap_bps: Option<u64>) {
        let request = Request::SetPath { path: path.into(), role, cap_bps };
        assert!(matches!(self.client.request_channel.ask(request).unwrap(), Answer::Done));
    }

    fn connections(&self) -> Vec<ConnStatus> {
        match self.client.request_channel.ask(Request::Connections).unwrap() {
            Answer::Connections(all) => all,
            other => panic!("{other:?}"),
        }
    }

    /// What a path carries, up and down, in bit/s, in so long a time.
    fn rates(&self, path: usize, time: Duration) -> [f64; 2] {
        let (start, before) = (Instant::now(), self.path(path));
        thread::sleep(time);
        let (after, time) = (self.path(path), start.elapsed().as_secs_f64());
        let rate = |before: u64, after: u64| (after - before) as f64 * 8.0 / time;
        [rate(before.tx_bytes, after.tx_bytes), rate(before.rx_bytes, after.rx_bytes)]
    }
}

/// Something that goes on in a thread until it is dropped.
struct Load {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Load {
    fn start(mut step: impl FnMut() -> bool + Send + 'static) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread =
            Some(thread::spawn(move || while !stopped.load(Ordering::Relaxed) && step() {}));
        Self { stop, thread }
    }

    /// Reads what a server of the test sends, as fast as it comes.
    fn download(listener: SocketAddr, block: usize, pause: Duration) -> Self {
        let far = serve(move |mut stream| {
            while stream.write_all(&vec![7; block]).is_ok() {
                thread::sleep(pause);
            }
        });
        let (mut stream, mut buffer) = (connect(listener, far).unwrap(), vec![0; 65_536]);
        Self::start(move || stream.read(&mut buffer).is_ok_and(|len| len > 0))
    }

    fn upload(listener: SocketAddr) -> Self {
        let far = serve(|mut stream: TcpStream| {
            let _ = std::io::copy(&mut stream, &mut std::io::sink());
        });
        let mut stream = connect(listener, far).unwrap();
        stream.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
        Self::start(move || {
            // A timeout only means that there is no room at the moment.
            let _ = stream.write(&[7; 16_384]);
            true
        })
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take()
            && !thread::panicking()
        {
            let _ = thread.join();
        }
    }
}

#[track_caller]
fn within(rate: f64, cap: u64) {
    let share = rate / cap as f64;
    assert!((0.9..1.1).contains(&share), "{rate:.0} bit/s of {cap}");
}

/// Not even a segment a second of each connection, which would ask whether the path is back.
#[track_caller]
fn carries_only_probes(bed: &Bed, path: usize) {
    let carried: Vec<f64> = (0..3).map(|_| bed.rates(path, Duration::from_secs(1))[1]).collect();
    assert!(carried.iter().all(|rate| *rate < 0.015 * MBPS as f64), "{carried:?} bit/s");
}

/// It is never exceeded, and reached soon: what a machine that does other things too sends in a
/// second is less at times.
#[track_caller]
fn is_kept(bed: &Bed, way: usize, cap: u64) {
    let reached = (0..10).any(|_| {
        let share = bed.rates(0, Duration::from_secs(1))[way] / cap as f64;
        assert!(share < 1.1, "{share} of {cap} bit/s");
        share >= 0.9
    });
    assert!(reached, "{cap} bit/s are not reached");
}

const PACE: Duration = Duration::from_millis(10);

#[test]
fn a_backup_carries_nothing_until_the_primary_is_dead() {
    let bed = Bed::new(None, |config| config.path[1].role = Role::Backup);
    let _load = Load::download(bed.client.at, 20_000, PACE);
    thread::sleep(Duration::from_secs(2));
    let [one, two] = [bed.path(0), bed.path(1)];
    assert_eq!((two.reason.as_str(), two.subflows), ("backup: one works", 1));
    assert!(one.rx_bytes > 1_000_000 && two.rx_bytes < 50_000, "{} {}", one.rx_bytes, two.rx_bytes);
    bed.wires[0].cut(true);
    let took = bed.client.until("taken over", |s| s.paths[1].rx_bytes > 500_000);
    assert!(took < Duration::from_secs(4), "{took:?}");
    bed.client.until("said", |s| s.paths[1].reason == "in use: no path but backups works");
    bed.wires[0].cut(false);
    bed.client.until("given back", |s| s.paths[1].reason == "backup: one works");
    // The server's retransmission timer on the primary has backed off meanwhile.
    let quiet = |_| bed.rates(1, Duration::from_secs(1))[1] < 0.1 * MBPS as f64;
    assert!((0..8).any(quiet), "the backup still carries data: {:#?}", bed.connections());
}

#[test]
fn backups_are_used_together_and_say_so() {
    let bed = Bed::new(None, |config| {
        config.path.iter_mut().for_each(|path| path.role = Role::Backup);
    });
    let _load = Load::download(bed.client.at, 20_000, PACE);
    bed.client.until("both said", |status| {
        status.paths.iter().all(|path| path.reason == "in use: no path but backups works")
    });
}

#[test]
fn a_path_that_may_not_be_used_is_not_from_now_on() {
    // Neither path alone can carry what there is.
    let bed = Bed::new(None, |config| {
        config.path[0].cap_down = Some(Rate(16 * MBPS));
        config.path[1].cap_down = Some(Rate(24 * MBPS));
    });
    let load = Load::download(bed.client.at, 40_000, PACE);
    bed.client.until("both used", |s| s.paths.iter().all(|path| path.rx_bytes > 200_000));
    bed.set("two", Some(Role::Never), None);
    thread::sleep(Duration::from_millis(500));
    carries_only_probes(&bed, 1);
    assert!(bed.rates(0, Duration::from_millis(500))[1] > 10.0 * MBPS as f64);
    let two = bed.path(1);
    assert_eq!((two.state, two.reason.as_str()), (PathState::Up, "never: not to be used"));
    // One that begins now has subflows on the other path only.
    let mut other = connect(bed.client.at, echo()).unwrap();
    other.write_all(b"ping").unwrap();
    other.read_exact(&mut [0; 4]).unwrap();
    thread::sleep(Duration::from_millis(300));
    let newest = bed.connections().into_iter().max_by_key(|conn| conn.id).unwrap();
    assert!(newest.subflows.iter().all(|subflow| subflow.path == "one"), "{newest:?}");
    bed.set("two", Some(Role::Primary), None);
    let before = bed.path(1).rx_bytes;
    bed.client.until("used again", |s| s.paths[1].rx_bytes > before + 200_000);
    drop(load);
}

#[test]
fn a_secondary_helps_when_the_primary_is_full() {
    let bed = Bed::new(None, |config| {
        config.path[0].cap_down = Some(Rate(8 * MBPS));
        config.path[1].role = Role::Secondary;
    });
    assert_eq!(bed.path(1).reason, "secondary: one suffices");
    let _load = Load::download(bed.client.at, 40_000, PACE);
    let took = bed.client.until("helped", |s| s.paths[1].rx_bytes > 1_000_000);
    assert!(took > Duration::from_secs(1), "{took:?}");
    bed.client.until("said", |s| s.paths[1].reason == "in use: one alone is full");
}

/// Both directions, and another one while it runs.
#[test]
fn caps_are_kept() {
    let bed = Bed::new(None, |config| {
        // What it asks for is what a cap lets through: of a controller that fills every queue.
        for policies in [&mut config.up, &mut config.down] {
            policies.congestion = Some(Spec::named("cubic").into());
        }
        config.path.truncate(1);
        config.path[0].cap_up = Some(Rate(8 * MBPS));
        config.path[0].cap_down = Some(Rate(16 * MBPS));
    });
    let up = Load::upload(bed.client.at);
    thread::sleep(Duration::from_secs(1));
    is_kept(&bed, 0, 8 * MBPS);
    drop(up);
    let _down = Load::download(bed.client.at, 40_000, PACE);
    thread::sleep(Duration::from_secs(2));
    is_kept(&bed, 1, 16 * MBPS);
    bed.set("one", None, Some(4 * MBPS));
    assert_eq!(bed.path(0).cap_bps, Some(4 * MBPS));
    thread::sleep(Duration::from_secs(1));
    is_kept(&bed, 1, 4 * MBPS);
}

#[test]
fn a_client_has_the_rate_that_its_server_allows() {
    let bed = Bed::new(Some(Rate(16 * MBPS)), |_| ());
    let _down = Load::download(bed.client.at, 40_000, PACE);
    thread::sleep(Duration::from_secs(2));
    let start = Instant::now();
    let before: u64 = bed.client.status().paths.iter().map(|path| path.rx_bytes).sum();
    thread::sleep(Duration::from_secs(2));
    let after: u64 = bed.client.status().paths.iter().map(|path| path.rx_bytes).sum();
    within((after - before) as f64 * 8.0 / start.elapsed().as_secs_f64(), 16 * MBPS);
}

#[test]
fn a_path_whose_quota_is_used_up_carries_nothing_also_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let mut bed = Bed::new(None, |config| {
        config.state = Some(folder.path().join("quotas.json"));
        // So that the other path is needed.
        config.path[0].cap_down = Some(Rate(16 * MBPS));
        config.path[1].quota = Some(Size(1_000_000));
    });
    assert!(bed.path(1).quota_left.is_some_and(|left| left > 900_000));
    let load = Load::download(bed.client.at, 40_000, PACE);
    bed.client.until("used up", |s| s.paths[1].quota_left == Some(0));
    thread::sleep(Duration::from_millis(600));
    let two = bed.path(1);
    assert!(two.reason.starts_with("its quota of 1MB is used up until "), "{}", two.reason);
    carries_only_probes(&bed, 1);
    assert!(bed.path(0).quota_left.is_none());
    drop(load);
    bed.client.stop();
    bed.client = Agent::client(bed.config.clone());
    bed.client.until("known", |s| s.paths[1].reason.starts_with("its quota of 1MB"));
    assert_eq!(bed.path(1).quota_left, Some(0));
    let _ = &bed.keys;
}

#[test]
fn a_path_without_an_interface_says_so_and_the_other_works() {
    let keys = Keys::new();
    let server = Agent::server(keys.server_config("127.0.0.1:0".parse().unwrap()));
    let mut config = keys.client_config(&[server.at]);
    (config.path[0].source, config.path[0].interface) = (None, Some("nowhere0".into()));
    let client = Agent::client(config);
    client.until("up", |s| s.paths[1].state == PathState::Up);
    let one = client.status().paths[0].clone();
    assert_eq!(one.reason, "interface nowhere0 is not there");
    assert_eq!(one.state, PathState::Absent);
    let mut stream = connect(client.at, echo()).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream.write_all(b"ping").unwrap();
    stream.read_exact(&mut [0; 4]).unwrap();
}
