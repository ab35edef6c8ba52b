//! Row `idle`: memory of a server with many clients, two paths each, and connections on which
//! nothing happens. The server is a process of its own, the clients are real sessions with real
//! connections in this one ([`ManyClients`]).

use super::figure::{Figure, Target, Unit};
use super::process::Process;
use super::tell;
use crate::plural::count;
use anyhow::{Context, ensure};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::thread;
use tabane_engine::Duration;
use tabane_gateway::agent::raise_descriptor_limit;
use tabane_gateway::config::server::{AccessConfig, ClientEntry, ServerConfig};
use tabane_gateway::keys::{self, Key};
use tabane_gateway::many_clients::{ManyClients, PATHS};

const ROW: &str = "idle";
const MEMORY: Target = Target::new(400e6, 150e6);

const CLIENTS: usize = 1000;
const CONNECTIONS: usize = 10_000;
/// In a quick run there are so many times fewer.
const QUICK: usize = 10;
/// Until all connections stand.
const SETUP: Duration = Duration::from_secs(60);
/// And then idle for so long.
const CALM: Duration = Duration::from_secs(4);
/// Descriptors beside those of connections.
const SPARE: u64 = 200;

/// Builds it up and looks.
///
/// # Errors
/// Connections that do not come about.
pub(super) fn measure(quick: bool) -> anyhow::Result<Vec<Figure>> {
    let part = if quick { QUICK } else { 1 };
    let (clients, connections) = (CLIENTS / part, CONNECTIONS / part);
    let what = format!(
        "server with {} and {}",
        count(clients, "client"),
        count(connections, "connection")
    );
    // As for the whole, since a part of it has its part of the memory.
    let target = MEMORY.part(1.0 / part as f64);
    let limit = raise_descriptor_limit();
    if limit < connections as u64 + SPARE {
        let why = format!("a process may open only {limit} files here: raise `ulimit -Hn`");
        let figure = Figure::skipped(ROW, what, Unit::Bytes, target, &why);
        tell(&figure);
        return Ok(vec![figure]);
    }
    let at = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).context("no socket")?.local_addr()?;
    let (key, secrets) = keys_of(clients)?;
    let server = Process::start("server", &config(at, &key, &secrets), &[])?;
    let empty = server.resident()?;
    let each = connections / clients;
    let mut sessions = ManyClients::new(&secrets, (at, &key.public()), (sink(connections)?, each))?;
    let standing = sessions.run(SETUP, true)?;
    ensure!(
        standing.connected == connections && standing.subflows == connections * PATHS,
        "{standing:?} within {} s",
        SETUP.as_secs_f64()
    );
    let cpu = server.cpu()?;
    let standing = sessions.run(CALM, false)?;
    ensure!(standing.lost == 0, "connections were lost while they were idle: {standing:?}");
    let busy = (server.cpu()? - cpu) / CALM.as_secs_f64();
    let full = server.resident()?;
    let note = format!(
        "{} of them before the first client came; {} subflows; {:.0} % of a core for probes",
        Unit::Bytes.text(empty as f64),
        standing.subflows,
        busy * 100.0
    );
    let figure = Figure::new(ROW, what, (full as f64, Unit::Bytes), target).note(note);
    tell(&figure);
    Ok(vec![figure])
}

fn keys_of(clients: usize) -> anyhow::Result<(Key, Vec<Key>)> {
    let secrets = (0..clients).map(|_| Key::random()).collect::<Result<_, _>>()?;
    Ok((Key::random_private()?, secrets))
}

fn config(at: SocketAddr, key: &Key, secrets: &[Key]) -> ServerConfig {
    let client = |(i, secret): (usize, &Key)| ClientEntry {
        name: format!("c{i}"),
        number: i as u16 + 1,
        keys: (0..PATHS).map(|path| keys::encode(&secret.of_path(path).public())).collect(),
        ..ClientEntry::default()
    };
    ServerConfig {
        listen: vec![at],
        private_key: Some(key.to_string().into()),
        client: secrets.iter().enumerate().map(client).collect(),
        access: AccessConfig { allow: vec!["127.0.0.1".into()], ..AccessConfig::default() },
        ..ServerConfig::default()
    }
}

/// Where connections lead: they are taken and kept until their server is gone.
fn sink(connections: usize) -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no listener")?;
    let at = listener.local_addr()?;
    thread::Builder::new().name("sink".into()).spawn(move || {
        let kept: Vec<_> = listener.incoming().take(connections).flatten().collect();
        let mut byte = [0];
        for mut stream in kept {
            // Nothing comes but the end.
            let _ = std::io::Read::read(&mut stream, &mut byte);
        }
    })?;
    Ok(at)
}
