//! Row `tun`: one flow of a program that knows nothing of the gateway, through the TUN device of
//! a client agent. Client and server are processes in network namespaces of their own, joined by
//! two links without limits; the host's own network is not touched.
//!
//! ```text
//!   program, client   c1 10.9.1.1 ==== 10.9.1.2 s1   server, source at 192.0.2.1
//!                     c2 10.9.2.1 ==== 10.9.2.2 s2
//! ```

use super::figure::{Figure, Target, Unit};
use super::process::Process;
use super::unshaped::download;
use super::{median, tell};
use crate::bed::source::Source;
use anyhow::{Context, anyhow, bail};
use rustix::process::geteuid;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;
use tabane_gateway::config::client::{
    ClientConfig, ListenerConfig, PathConfig, ServerEntry, TunConfig,
};
use tabane_gateway::config::server::{AccessConfig, ClientEntry, ServerConfig};
use tabane_gateway::keys::{self, Key};
use tabane_gateway::model::PathState;
use tabane_net::Clock;

const ROW: &str = "tun";
const GOODPUT: Target = Target::new(1e9, 2e9);
const COST: Target = Target::new(8.0, 4.0);
const WHAT: &str = "goodput of one flow";

/// Bytes of a run.
const BYTES: u64 = 500_000_000;
const RUNS: usize = 3;
/// RFC 5737: leads nowhere but to where it is put.
pub(super) const FAR: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const PORT: u16 = 51_820;
/// Until both paths work.
const SETUP: f64 = 15.0;

/// A network namespace, gone when dropped.
struct Namespace(String);

/// What the runs are made in.
pub(super) struct World {
    client: Process,
    server: Process,
    source: Source,
    /// Dropped after the processes in them.
    inside: Namespace,
    outside: Namespace,
}

/// Makes the namespaces and measures.
///
/// # Errors
/// The download fails.
pub(super) fn measure(quick: bool) -> anyhow::Result<Vec<Figure>> {
    if let Some(why) = missing() {
        let figure = Figure::skipped(ROW, WHAT, Unit::Bps, GOODPUT, &why);
        tell(&figure);
        return Ok(vec![figure]);
    }
    let (bytes, runs) = if quick { (BYTES / 2, 1) } else { (BYTES, RUNS) };
    let world = World::new()?;
    let (mut goodputs, mut costs) = (Vec::new(), Vec::new());
    for _ in 0..runs {
        let before = world.cpu()?;
        let address = world.source.address();
        let connect = || TcpStream::connect(address).context("no connection through the device");
        let seconds = world.inside.enter(|| download(connect()?, bytes))?;
        goodputs.push(bytes as f64 * 8.0 / seconds);
        costs.push((world.cpu()? - before) / (bytes as f64 / 1e9));
    }
    let note = format!("median of {runs} runs of {} MB over two paths", bytes / 1_000_000);
    let goodput = (median(goodputs).context("no run")?, Unit::Bps);
    let cost = (median(costs).context("no run")?, Unit::SecondsPerGb);
    let cost = Figure::new(ROW, "processor time, client and server", cost, COST);
    let figures = vec![
        Figure::new(ROW, WHAT, goodput, GOODPUT).note(note),
        cost.note("both processes, kernel included"),
    ];
    figures.iter().for_each(tell);
    Ok(figures)
}

/// Why it cannot be measured here.
pub(super) fn missing() -> Option<String> {
    if !geteuid().is_root() {
        return Some("network namespaces and a TUN device need root".into());
    }
    if !std::path::Path::new("/dev/net/tun").exists() {
        return Some("there is no /dev/net/tun".into());
    }
    let ip = Command::new("ip").arg("-V").stdout(Stdio::null()).status();
    ip.is_err().then(|| "there is no `ip` (iproute2)".into())
}

impl World {
    /// Makes it, both paths working.
    ///
    /// # Errors
    /// No namespaces, or agents that do not start.
    pub(super) fn new() -> anyhow::Result<Self> {
        let (inside, outside) = (Namespace::new('c')?, Namespace::new('s')?);
        for n in [1, 2] {
            inside.ip(&format!("link add c{n} type veth peer name s{n} netns {}", outside.0))?;
            for (host, device, last) in [(&inside, "c", 1), (&outside, "s", 2)] {
                host.ip(&format!("addr add 10.9.{n}.{last}/24 dev {device}{n}"))?;
                host.ip(&format!("link set {device}{n} up"))?;
            }
        }
        outside.ip(&format!("addr add {FAR}/32 dev lo"))?;
        let source = outside.enter(|| Source::start_at(FAR))?;
        let (key, secret) = (Key::random_private()?, Key::random()?);
        let server = Process::start("server", &server_config(&key, &secret), &outside.exec())?;
        let client = Process::start("client", &client_config(&key, &secret), &inside.exec())?;
        let world = Self { client, server, source, inside, outside };
        world.wait_for_paths()?;
        Ok(world)
    }

    fn wait_for_paths(&self) -> anyhow::Result<()> {
        let clock = Clock::start();
        while !self.client.status()?.paths.iter().all(|path| path.state == PathState::Up) {
            if clock.now().as_secs_f64() > SETUP {
                bail!("the tunnels did not come up: {:?}", self.client.status()?.paths);
            }
            thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// Does it where the program is.
    pub(super) fn inside<T: Send>(
        &self,
        work: impl FnOnce() -> anyhow::Result<T> + Send,
    ) -> anyhow::Result<T> {
        self.inside.enter(work)
    }

    /// Does it where the server is.
    pub(super) fn outside<T: Send>(
        &self,
        work: impl FnOnce() -> anyhow::Result<T> + Send,
    ) -> anyhow::Result<T> {
        self.outside.enter(work)
    }

    /// Processor time of both agents so far, seconds.
    pub(super) fn cpu(&self) -> anyhow::Result<f64> {
        Ok(self.client.cpu()? + self.server.cpu()?)
    }
}

fn server_config(key: &Key, secret: &Key) -> ServerConfig {
    ServerConfig {
        listen: vec![(Ipv4Addr::UNSPECIFIED, PORT).into()],
        private_key: Some(key.to_string().into()),
        client: vec![ClientEntry {
            name: "bench".into(),
            number: 1,
            keys: [0, 1].map(|path| keys::encode(&secret.of_path(path).public())).to_vec(),
            ..ClientEntry::default()
        }],
        access: AccessConfig { allow: vec![FAR.to_string()], ..AccessConfig::default() },
        ..ServerConfig::default()
    }
}

fn client_config(key: &Key, secret: &Key) -> ClientConfig {
    let far = |n| SocketAddr::from(([10, 9, n, 2], PORT));
    let path = |n| PathConfig {
        interface: Some(format!("c{n}")),
        remote: Some(far(n)),
        ..PathConfig::default()
    };
    ClientConfig {
        name: "bench".into(),
        number: 1,
        secret: Some(secret.to_string().into()),
        server: vec![ServerEntry {
            addresses: vec![far(1).to_string()],
            public_key: keys::encode(&key.public()),
            ..ServerEntry::default()
        }],
        path: vec![path(1), path(2)],
        front: ListenerConfig { socks5: Vec::new(), ..ListenerConfig::default() },
        tun: Some(TunConfig { routes: vec![format!("{FAR}/32")], ..TunConfig::default() }),
        ..ClientConfig::default()
    }
}

impl Namespace {
    fn new(role: char) -> anyhow::Result<Self> {
        let name = format!("tabane-bench-{}{role}", std::process::id());
        ip(&["netns", "add", &name])?;
        let namespace = Self(name);
        namespace.ip("link set lo up")?;
        Ok(namespace)
    }

    /// `ip ARGS` in here.
    fn ip(&self, args: &str) -> anyhow::Result<()> {
        let args: Vec<&str> = ["-n", &self.0].into_iter().chain(args.split(' ')).collect();
        ip(&args)
    }

    /// What is put before a command so that it runs in here.
    fn exec(&self) -> [&str; 4] {
        ["ip", "netns", "exec", &self.0]
    }

    /// Does it on a thread that is in here; those that it starts are too.
    fn enter<T: Send>(&self, work: impl FnOnce() -> anyhow::Result<T> + Send) -> anyhow::Result<T> {
        thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let file = File::open(format!("/run/netns/{}", self.0))?;
                let network = Some(LinkNameSpaceType::Network);
                move_into_link_name_space(file.as_fd(), network)?;
                work()
            });
            thread.join().map_err(|_| anyhow!("a thread in a namespace panicked"))?
        })
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = ip(&["netns", "del", &self.0]);
    }
}

fn ip(args: &[&str]) -> anyhow::Result<()> {
    let output = Command::new("ip").args(args).output().context("`ip` cannot be run")?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        bail!("ip {}: {}", args.join(" "), words.trim());
    }
    Ok(())
}
