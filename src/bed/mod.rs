//! A gateway on loopback, for demonstrations and measurements: a client agent, a server agent and
//! what is between them, each on a thread of its own. Everything is what users run, but for the
//! configuration, which is made up.

pub(crate) mod flow;
pub(crate) mod requests;
pub(crate) mod source;
pub(crate) mod web;

use anyhow::{Context, anyhow, bail};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tabane_gateway::client::Client;
use tabane_gateway::config::client::{ClientConfig, ListenerConfig, PathConfig, ServerEntry};
use tabane_gateway::config::server::{AccessConfig, ClientEntry, ServerConfig};
use tabane_gateway::keys::{self, Key};
use tabane_gateway::model::{PathState, Status};
use tabane_gateway::request_channel::{Answer, Request, RequestSender};
use tabane_gateway::server::Server;
use tabane_lab::LabError;
use tabane_lab::loopback::{Loopback, Report};
use tabane_net::Clock;
use tabane_sim::link::LinkConfig;
use tabane_sim::seed::Seed;

/// What is between client and server.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// The paths: name, and the emulated link that it takes, up and down; none: straight to the
    /// server.
    pub(crate) paths: Vec<(String, Option<[LinkConfig; 2]>)>,
    /// Seed of what the links do.
    pub(crate) seed: u64,
    /// Changes to the client's configuration.
    pub(crate) client: fn(&mut ClientConfig),
    /// And to the server's.
    pub(crate) server: fn(&mut ServerConfig),
    /// What else the two configurations have.
    pub(crate) policies: tabane_gateway::config::rule::Policies,
}

/// A gateway that runs.
pub(crate) struct Bed {
    /// To ask the client.
    pub(crate) client: RequestSender,
    /// To ask the server.
    pub(crate) server: RequestSender,
    /// Where the client takes SOCKS5.
    pub(crate) socks: SocketAddr,
    /// The time of the links: what they do by themselves begins at its origin.
    pub(crate) clock: Clock,
    /// While set, that link carries nothing and says nothing.
    pub(crate) cut: Vec<Arc<AtomicBool>>,
    agents: [JoinHandle<anyhow::Result<f64>>; 2],
    /// The system's numbers of their threads.
    threads: [i32; 2],
    network: Option<(JoinHandle<Result<Report, LabError>>, UnixStream)>,
}

/// What became of it.
#[derive(Clone, Default, Debug)]
pub(crate) struct Ended {
    /// Processor time of client and server, seconds.
    pub(crate) cpu: [f64; 2],
    /// What the emulated links did.
    pub(crate) network: Report,
}

/// How long the tunnels may take to come up.
const SETUP: Duration = Duration::from_secs(15);
/// How long a program waits for the client's answers.
const PATIENCE: Duration = Duration::from_secs(20);

impl Bed {
    /// Starts it.
    ///
    /// # Errors
    /// No sockets, or wrong policies.
    pub(crate) fn start(plan: &Plan) -> anyhow::Result<Self> {
        let (server_key, secret) = (Key::random_private()?, Key::random()?);
        let mut config = server_config(plan, &server_key, &secret);
        (plan.server)(&mut config);
        let server = Server::new(config, None)?;
        let far = *server.local().first().context("the server listens nowhere")?;
        let named = |(name, link): &(String, Option<_>)| Some((name.clone(), link.clone()?));
        let links: Vec<_> = plan.paths.iter().filter_map(named).collect();
        let clock = Clock::start();
        let (mut near, mut cut, mut network) = (Vec::new(), Vec::new(), None);
        if !links.is_empty() {
            let made = Loopback::named(clock, Seed(plan.seed), far, &links)?;
            let (emulator, ends) = made;
            (near, cut) = (ends.near, ends.cut);
            network = Some((spawn("network", move || emulator.run())?, ends.stop));
        }
        let mut config = client_config(plan, (&server_key, far), &secret, near);
        (plan.client)(&mut config);
        let client = Client::new(config)?;
        let socks = *client.listeners().first().context("the client listens nowhere")?;
        let (to_client, to_server) = (client.request_channel(), server.request_channel());
        let (tell, told) = mpsc::channel();
        let (client_tell, server_tell) = (tell.clone(), tell);
        // Whoever started it waits for the number.
        let client = spawn("client", move || {
            let _ = client_tell.send((0, own_number()));
            client.run()?;
            Ok(cpu_seconds())
        })?;
        let server = spawn("server", move || {
            let _ = server_tell.send((1, own_number()));
            server.run()?;
            Ok(cpu_seconds())
        })?;
        let (agents, mut threads) = ([client, server], [0; 2]);
        for (agent, number) in told.iter().take(2) {
            threads[agent] = number;
        }
        let (client, server) = (to_client, to_server);
        Ok(Self { client, server, socks, clock, cut, agents, threads, network })
    }

    /// Processor time of client and server so far, seconds.
    pub(crate) fn cpu(&self) -> [f64; 2] {
        self.threads.map(|number| cpu_of(&format!("/proc/self/task/{number}/schedstat")))
    }

    /// Waits until every path works; gives up when `stop` says so.
    ///
    /// # Errors
    /// They do not come up.
    pub(crate) fn wait_for_paths(&self, stop: impl Fn() -> bool) -> anyhow::Result<()> {
        wait_for_paths(&self.client, stop)
    }

    /// Ends everything.
    ///
    /// # Errors
    /// What went wrong with an agent or the network.
    pub(crate) fn end(self) -> anyhow::Result<Ended> {
        for agent in [&self.client, &self.server] {
            // It may have ended by itself, which its thread tells.
            let _ = agent.ask(Request::Stop);
        }
        let mut ended = Ended::default();
        for (thread, cpu) in self.agents.into_iter().zip(&mut ended.cpu) {
            *cpu = thread.join().map_err(|_| anyhow!("an agent panicked"))??;
        }
        if let Some((thread, stop)) = self.network {
            drop(stop);
            let report = thread.join().map_err(|_| anyhow!("the emulated network panicked"))?;
            ended.network = report?;
        }
        Ok(ended)
    }
}

fn server_config(plan: &Plan, key: &Key, secret: &Key) -> ServerConfig {
    let public = |i| keys::encode(&secret.of_path(i).public());
    ServerConfig {
        listen: vec![(Ipv4Addr::LOCALHOST, 0).into()],
        private_key: Some(key.to_string().into()),
        client: vec![ClientEntry {
            name: "bed".into(),
            number: 1,
            keys: (0..plan.paths.len()).map(public).collect(),
            ..ClientEntry::default()
        }],
        access: AccessConfig { allow: vec!["127.0.0.1".into()], ..AccessConfig::default() },
        down: plan.policies.clone(),
        ..ServerConfig::default()
    }
}

fn client_config(
    plan: &Plan,
    (server, far): (&Key, SocketAddr),
    secret: &Key,
    near: Vec<SocketAddr>,
) -> ClientConfig {
    let mut near = near.into_iter();
    let path = |(name, link): &(String, Option<[LinkConfig; 2]>)| PathConfig {
        name: Some(name.clone()),
        source: Some(Ipv4Addr::LOCALHOST.into()),
        remote: link.as_ref().and_then(|_| near.next()),
        ..PathConfig::default()
    };
    ClientConfig {
        name: "bed".into(),
        number: 1,
        secret: Some(secret.to_string().into()),
        server: vec![ServerEntry {
            addresses: vec![far.to_string()],
            public_key: keys::encode(&server.public()),
            ..ServerEntry::default()
        }],
        path: plan.paths.iter().map(path).collect(),
        front: ListenerConfig {
            socks5: vec![(Ipv4Addr::LOCALHOST, 0).into()],
            ..ListenerConfig::default()
        },
        up: plan.policies.clone(),
        ..ClientConfig::default()
    }
}

/// See [`Bed::wait_for_paths`].
///
/// # Errors
/// They do not come up.
pub(crate) fn wait_for_paths(
    client: &RequestSender,
    stop: impl Fn() -> bool,
) -> anyhow::Result<()> {
    let clock = Clock::start();
    loop {
        let status = status(client)?;
        if status.paths.iter().all(|path| path.state == PathState::Up) {
            return Ok(());
        }
        if clock.now().as_secs_f64() > SETUP.as_secs_f64() {
            let reasons = status.paths.iter().map(|p| format!("{}: {}", p.name, p.reason));
            bail!("the tunnels did not come up: {}", reasons.collect::<Vec<_>>().join("; "));
        }
        if stop() {
            bail!("stopped");
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// What an agent says of itself.
///
/// # Errors
/// It does not answer.
pub(crate) fn status(agent: &RequestSender) -> anyhow::Result<Status> {
    match agent.ask(Request::Status)? {
        Answer::Status(status) => Ok(*status),
        other => bail!("the agent answered {other:?}"),
    }
}

/// Connects through SOCKS5 (RFC 1928), without a login.
///
/// # Errors
/// The client does not listen, or refuses.
pub(crate) fn connect(socks: SocketAddr, to: SocketAddr) -> anyhow::Result<TcpStream> {
    let mut stream = TcpStream::connect(socks).context("the client does not listen")?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let SocketAddr::V4(to) = to else { bail!("{to} is not IPv4") };
    let mut hello = vec![5, 1, 0, 5, 1, 0, 1];
    hello.extend_from_slice(&to.ip().octets());
    hello.extend_from_slice(&to.port().to_be_bytes());
    stream.write_all(&hello)?;
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).context("no answer from the client")?;
    if answer[..4] != [5, 0, 5, 0] {
        bail!("the client refused: reply code {}", answer[3]);
    }
    Ok(stream)
}

/// Asks SOCKS5 to carry datagrams (UDP ASSOCIATE), without a login: the connection that they last
/// as long as, and where to send them.
///
/// # Errors
/// The client does not listen, or refuses.
pub(crate) fn associate(socks: SocketAddr) -> anyhow::Result<(TcpStream, SocketAddr)> {
    let mut stream = TcpStream::connect(socks).context("the client does not listen")?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(&[5, 1, 0, 5, 3, 0, 1, 0, 0, 0, 0, 0, 0])?;
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).context("no answer from the client")?;
    let [5, 0, 5, 0, _, 1, a, b, c, d, high, low] = answer else {
        bail!("the client refused: reply code {}", answer[3]);
    };
    let at = SocketAddr::from(([a, b, c, d], u16::from_be_bytes([high, low])));
    Ok((stream, at))
}

fn spawn<T: Send + 'static>(
    name: &str,
    run: impl FnOnce() -> T + Send + 'static,
) -> anyhow::Result<JoinHandle<T>> {
    Ok(thread::Builder::new().name(name.into()).spawn(run)?)
}

/// The system's number of this thread.
fn own_number() -> i32 {
    rustix::thread::gettid().as_raw_pid()
}

/// Processor time of this thread so far, seconds; 0 where the system does not say.
pub(crate) fn cpu_seconds() -> f64 {
    cpu_of("/proc/thread-self/schedstat")
}

/// What `schedstat` says of a thread, seconds.
fn cpu_of(file: &str) -> f64 {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let nanoseconds = text.split_whitespace().next().and_then(|word| word.parse::<f64>().ok());
    nanoseconds.unwrap_or(0.0) / 1e9
}
