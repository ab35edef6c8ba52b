//! One run of the demo: a server with a directory, a client that downloads a file from it, and
//! the emulated links between them, each on a thread of its own.

use super::emulator::{Emulator, Report};
use super::links::LinkSpec;
use anyhow::{Context, anyhow};
use sha2::Sha256;
use std::fs::File;
use std::io::BufWriter;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path as FilePath;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use tabane_engine::config::PathConfig;
use tabane_engine::policy::Spec;
use tabane_engine::view::PathId;
use tabane_engine::{Config, ConnId, Duration, Endpoint, Event, Instant};
use tabane_net::driver::Waker;
use tabane_net::http::{Fetch, FetchRequest, FileServer, ServerConfig};
use tabane_net::{App, Clock, Driver, Path};
use tabane_sim::seed::Seed;

/// What is the same in all runs.
pub(crate) struct Setup<'a> {
    /// Where the file is.
    pub(crate) root: &'a FilePath,
    /// Its name in a URL.
    pub(crate) target: String,
    /// Where it goes.
    pub(crate) output: &'a FilePath,
    /// Policies.
    pub(crate) scheduler: Spec,
    /// See `scheduler`.
    pub(crate) congestion: Spec,
    /// Seed of everything random.
    pub(crate) seed: u64,
}

/// A run on its way.
pub(crate) struct Transfer {
    /// How far it is.
    pub(crate) progress: Arc<Progress>,
    client: JoinHandle<anyhow::Result<Outcome>>,
    server: JoinHandle<anyhow::Result<f64>>,
    network: JoinHandle<anyhow::Result<(Report, f64)>>,
    wakers: [Waker; 2],
}

/// Written by the client, read by whoever shows it.
#[derive(Default, Debug)]
pub(crate) struct Progress {
    /// Bytes that came over each link, in the order of the links.
    pub(crate) links: [AtomicU64; 2],
    /// It has ended, well or not.
    pub(crate) ended: AtomicBool,
}

/// What came of a run.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    /// From the call to connect to the last byte.
    pub(crate) seconds: f64,
    /// Bytes of the file.
    pub(crate) bytes: u64,
    /// Bytes that came over each link.
    pub(crate) links: Vec<u64>,
    /// What the network did.
    pub(crate) network: Report,
    /// Processor time of client, server and network, seconds.
    pub(crate) cpu: [f64; 3],
}

const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 80, 0, 1));
const PORT: u16 = 80;
const MTU: u16 = 1500;
/// How often the client says how far it is.
const LOOK: Duration = Duration::from_millis(50);

impl Transfer {
    /// Starts a run over these links.
    ///
    /// # Errors
    /// No sockets, no files, or wrong policies.
    pub(crate) fn start(setup: &Setup<'_>, links: &[&LinkSpec]) -> anyhow::Result<Self> {
        let clock = Clock::start();
        let seed = Seed(setup.seed);
        let client_of = |i: usize| IpAddr::V4(Ipv4Addr::new(10, 81, i as u8 + 1, 1));
        let configs: Vec<_> =
            links.iter().enumerate().map(|(i, link)| (client_of(i), link.config())).collect();
        let (emulator, ends) = Emulator::new(clock, seed, &configs)?;
        let path = |id: u8, address| PathConfig {
            id: PathId(id),
            addresses: vec![address],
            mtu: MTU,
            backup: false,
        };
        let (mut config, mut paths) = (setup.config(), Vec::new());
        for ((i, device), link) in ends.clients.into_iter().enumerate().zip(links) {
            let path = path(i as u8, client_of(i));
            paths.push(Path::new(&path, link.name, Box::new(device)));
            config.paths.push(path);
        }
        let client = Driver::new(Endpoint::new(config, seed.key("client"))?, clock, paths)?;
        let mut config = setup.config();
        config.paths.push(path(0, SERVER));
        let paths = vec![Path::new(&config.paths[0], "server", Box::new(ends.server))];
        let mut server = Driver::new(Endpoint::new(config, seed.key("server"))?, clock, paths)?;
        server.endpoint().listen(SocketAddr::new(SERVER, PORT))?;

        let progress = Arc::new(Progress::default());
        let files = FileServer::new(ServerConfig::new(setup.root, clock.wall_origin())?);
        let out = File::create(setup.output).context("cannot write the received file")?;
        let request = setup.request(BufWriter::with_capacity(1 << 18, out));
        let wakers = [client.waker(), server.waker()];
        let shown = progress.clone();
        let spawn = |name: &str| thread::Builder::new().name(name.into());
        Ok(Self {
            progress,
            server: spawn("server").spawn(move || serve(server, files))?,
            network: spawn("network").spawn(move || Ok((emulator.run()?, cpu_seconds())))?,
            client: spawn("client").spawn(move || {
                // The network ends with the client.
                let _stop = ends.stop;
                let outcome = fetch(client, client_of(0), request, shown.clone());
                shown.ended.store(true, Ordering::Release);
                outcome
            })?,
            wakers,
        })
    }

    /// Ends the run where it is.
    pub(crate) fn stop(&self) {
        self.wakers.iter().for_each(Waker::stop);
    }

    /// Whether it has ended.
    pub(crate) fn is_finished(&self) -> bool {
        self.progress.ended.load(Ordering::Acquire)
    }

    /// Waits for the end.
    ///
    /// # Errors
    /// Why the file did not arrive.
    pub(crate) fn join(self) -> anyhow::Result<Outcome> {
        let died = |_| anyhow!("a thread panicked");
        let outcome = self.client.join().map_err(died)?;
        self.wakers[1].stop();
        let server = self.server.join().map_err(died)?;
        let (network, network_cpu) = self.network.join().map_err(died)??;
        let mut outcome = outcome?;
        outcome.network = network;
        outcome.cpu[1..].copy_from_slice(&[server?, network_cpu]);
        Ok(outcome)
    }
}

impl Setup<'_> {
    fn config(&self) -> Config {
        config(&self.scheduler, &self.congestion)
    }

    fn request(&self, sink: BufWriter<File>) -> FetchRequest {
        FetchRequest {
            host: SERVER.to_string(),
            target: self.target.clone(),
            resume: 0,
            hashed: Sha256::default(),
            upload: None,
            sink: Box::new(sink),
            idle_timeout: Duration::from_secs(20),
        }
    }
}

/// Settings of both ends, without paths.
pub(crate) fn config(scheduler: &Spec, congestion: &Spec) -> Config {
    let mut config = Config::default();
    config.tcp.congestion = congestion.clone();
    config.mptcp.scheduler = scheduler.clone();
    config
}

fn serve(mut driver: Driver, mut files: FileServer) -> anyhow::Result<f64> {
    driver.run(&mut files)?;
    Ok(cpu_seconds())
}

fn fetch(
    mut driver: Driver,
    local: IpAddr,
    request: FetchRequest,
    progress: Arc<Progress>,
) -> anyhow::Result<Outcome> {
    let (local, remote) = (SocketAddr::new(local, 0), SocketAddr::new(SERVER, PORT));
    let begin = driver.clock().now();
    let conn = driver.endpoint().connect(begin, local, remote)?;
    let fetch = Fetch::new(begin, conn, request);
    let mut watched = Watched { fetch, progress, next: begin, end: None };
    driver.run(&mut watched)?;
    let (end, progress) = (watched.end, watched.progress);
    let report = watched.fetch.into_outcome()?;
    let end = end.context("it ended without an end")?;
    Ok(Outcome {
        seconds: end.saturating_since(begin).as_secs_f64(),
        bytes: report.received,
        links: progress.links.iter().map(|link| link.load(Ordering::Relaxed)).collect(),
        network: Report::default(),
        cpu: [cpu_seconds(), 0.0, 0.0],
    })
}

/// The client, which says now and then how far it is.
struct Watched {
    fetch: Fetch,
    progress: Arc<Progress>,
    next: Instant,
    end: Option<Instant>,
}

impl Watched {
    fn look(&mut self, endpoint: &mut Endpoint, now: Instant) {
        let Some(conn) = endpoint.connection(self.fetch.conn()) else { return };
        let mut links = [0; 2];
        for subflow in conn.info(now).subflows {
            if let Some(link) = links.get_mut(usize::from(subflow.path.0)) {
                *link += subflow.delivered;
            }
        }
        for (shown, bytes) in self.progress.links.iter().zip(links) {
            shown.store(bytes, Ordering::Relaxed);
        }
    }
}

impl App for Watched {
    fn on_event(&mut self, endpoint: &mut Endpoint, now: Instant, conn: ConnId, event: Event) {
        self.fetch.on_event(endpoint, now, conn, event);
        if self.end.is_none() && self.fetch.state().finished {
            self.end = Some(now);
            self.look(endpoint, now);
        }
    }

    fn on_wakeup(&mut self, endpoint: &mut Endpoint, now: Instant) {
        self.fetch.on_wakeup(endpoint, now);
        if now >= self.next && self.end.is_none() {
            self.next = now + LOOK;
            self.look(endpoint, now);
        }
    }

    fn next_wakeup(&self) -> Option<Instant> {
        let next = self.end.is_none().then_some(self.next);
        self.fetch.next_wakeup().into_iter().chain(next).min()
    }

    fn on_stop(&mut self, endpoint: &mut Endpoint, now: Instant) {
        self.fetch.on_stop(endpoint, now);
    }

    fn is_done(&self) -> bool {
        self.fetch.is_done()
    }
}

/// Processor time of this thread so far, seconds; 0 where the system does not say.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = text.split_whitespace().next().and_then(|word| word.parse::<f64>().ok());
    nanoseconds.unwrap_or(0.0) / 1e9
}
