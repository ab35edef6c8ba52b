//! The same with QUIC: one connection of a client behind the gateway to a server beyond it, each
//! on a thread of its own.

use super::super::figure::{Figure, Unit};
use super::super::link::{Link, bed};
use super::super::program::Program;
use super::super::tell;
use super::{BEST, SUM};
use anyhow::{Context, anyhow};
use bytes::BytesMut;
use quinn_proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig,
    Event, ServerConfig, StreamEvent, StreamId, TransportConfig, VarInt,
};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use tabane_gateway::config::rule::{Policies, UdpMode};

/// As far apart as a cable and a satellite in low orbit.
const LINKS: [Link; 2] = [Link::new(100, 10), Link::new(60, 60)];
/// Time in which QUIC finds its window, and the time that is measured.
const WARM_UP: f64 = 8.0;
const MEASURED: f64 = 15.0;
/// A socket's buffer: some milliseconds of both links.
const BUFFER: usize = 4 << 20;
/// Datagrams taken from a socket before others are sent.
const TURN: usize = 64;
const PATIENCE: Duration = Duration::from_millis(5);

/// An end with at most one connection.
struct End {
    endpoint: Endpoint,
    connection: Option<(ConnectionHandle, Connection)>,
    sends: bool,
    sending: Vec<StreamId>,
    reading: Vec<StreamId>,
    read: u64,
}

struct Configs {
    client: ClientConfig,
    server: Arc<ServerConfig>,
}

/// Speed of a download by QUIC.
///
/// # Errors
/// A gateway that does not start, or a download that does not.
pub(in super::super) fn measure(quick: bool) -> anyhow::Result<Vec<Figure>> {
    let scale = if quick { 0.5 } else { 1.0 };
    let mut alone = Vec::new();
    for link in LINKS {
        alone.push(download(&[link], scale)?);
    }
    let both = download(&LINKS, scale)?;
    let (sum, best) = (alone.iter().sum::<f64>(), alone.iter().copied().fold(0.0, f64::max));
    let [a, b] = LINKS;
    let rates = [both, alone[0], alone[1]].map(|rate| Unit::Bps.text(rate));
    let note = format!("{} over {a} + {b}; alone {} and {}", rates[0], rates[1], rates[2]);
    let figure = |what: &str, value, target| {
        Figure::new("quic", what, (value, Unit::Share), target).note(note.clone())
    };
    let figures = vec![
        figure("of the sum of the links", both / sum, SUM),
        figure("of the better link", both / best, BEST),
    ];
    figures.iter().for_each(tell);
    Ok(figures)
}

/// Bits of payload per second.
#[expect(clippy::disallowed_methods, reason = "quinn counts in the system's time")]
fn download(links: &[Link], scale: f64) -> anyhow::Result<f64> {
    let policies = Policies { udp: Some(UdpMode::Bond), ..Policies::default() };
    let bed = bed(links, policies, |_| {})?;
    let configs = configs()?;
    let far = socket()?;
    let stop = Arc::new(AtomicBool::new(false));
    let (at, stopped, server) = (far.local_addr()?, stop.clone(), configs.server.clone());
    let thread = thread::Builder::new().name("quic".into()).spawn(move || {
        let mut end = End::new(Some(server));
        serve(&mut end, &far, &stopped)
    })?;
    let program = Program::new(bed.socks, at)?;
    let mut client = End::new(None);
    let start = Instant::now();
    let connected = client.endpoint.connect(start, configs.client, at, "bench.test");
    client.connection = Some(connected.map_err(|error| anyhow!("{error}"))?);
    let [warm, end] = [WARM_UP * scale, (WARM_UP + MEASURED) * scale].map(Duration::from_secs_f64);
    let (mut before, mut buffer) = (None, vec![0; 1 << 16]);
    while start.elapsed() < end {
        if before.is_none() && start.elapsed() >= warm {
            before = Some((client.read, Instant::now()));
        }
        client.run(Instant::now(), |payload| program.send_bytes(payload));
        let mut patience = client.patience();
        for _ in 0..TURN {
            let Some(payload) = program.recv(patience, &mut buffer)? else { break };
            client.handle(at, payload, |answer| program.send_bytes(answer));
            patience = Duration::ZERO;
        }
    }
    let (read, since) = before.context("it has not begun")?;
    let rate = (client.read - read) as f64 * 8.0 / since.elapsed().as_secs_f64();
    stop.store(true, Ordering::Relaxed);
    thread.join().map_err(|_| anyhow!("the far end panicked"))??;
    bed.end()?;
    anyhow::ensure!(rate > 0.0, "QUIC carries nothing");
    Ok(rate)
}

#[expect(clippy::disallowed_methods, reason = "quinn counts in the system's time")]
fn serve(end: &mut End, socket: &UdpSocket, stop: &AtomicBool) -> anyhow::Result<()> {
    let (mut buffer, mut program) = (vec![0; 1 << 16], None::<SocketAddr>);
    while !stop.load(Ordering::Relaxed) {
        let send = |payload: &[u8]| {
            if let Some(program) = program {
                let _ = socket.send_to(payload, program);
            }
        };
        end.run(Instant::now(), send);
        let mut patience = end.patience();
        for _ in 0..TURN {
            socket.set_read_timeout(Some(patience.max(Duration::from_micros(50))))?;
            let Ok((len, from)) = socket.recv_from(&mut buffer) else { break };
            program = Some(from);
            end.handle(from, &buffer[..len], |answer| {
                let _ = socket.send_to(answer, from);
            });
            patience = Duration::ZERO;
        }
    }
    Ok(())
}

impl End {
    fn new(server: Option<Arc<ServerConfig>>) -> Self {
        let config = Arc::new(EndpointConfig::default());
        Self {
            sends: server.is_some(),
            endpoint: Endpoint::new(config, server, true, None),
            connection: None,
            sending: Vec::new(),
            reading: Vec::new(),
            read: 0,
        }
    }

    /// Until it has something to do.
    #[expect(clippy::disallowed_methods, reason = "quinn counts in the system's time")]
    fn patience(&mut self) -> Duration {
        let due = self.connection.as_mut().and_then(|(_, connection)| connection.poll_timeout());
        let wait = due.map(|due| due.saturating_duration_since(Instant::now()));
        wait.map_or(PATIENCE, |wait| wait.min(PATIENCE))
    }

    #[expect(clippy::disallowed_methods, reason = "quinn counts in the system's time")]
    fn handle(&mut self, remote: SocketAddr, payload: &[u8], answer: impl Fn(&[u8])) {
        let (now, mut buffer) = (Instant::now(), Vec::new());
        let data = BytesMut::from(payload);
        match self.endpoint.handle(now, remote, None, None, data, &mut buffer) {
            Some(DatagramEvent::ConnectionEvent(_, event)) => {
                if let Some((_, connection)) = &mut self.connection {
                    connection.handle_event(event);
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) => {
                self.connection = self.endpoint.accept(incoming, now, &mut buffer, None).ok();
            }
            Some(DatagramEvent::Response(transmit)) => answer(&buffer[..transmit.size]),
            None => {}
        }
    }

    fn run(&mut self, now: Instant, send: impl Fn(&[u8])) {
        let Some((handle, connection)) = &mut self.connection else { return };
        if connection.poll_timeout().is_some_and(|due| due <= now) {
            connection.handle_timeout(now);
        }
        while let Some(event) = connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(*handle, event) {
                connection.handle_event(event);
            }
        }
        while let Some(event) = connection.poll() {
            match event {
                Event::Connected if self.sends => {
                    self.sending.extend(connection.streams().open(Dir::Uni));
                }
                Event::Stream(StreamEvent::Opened { dir }) => {
                    self.reading.extend(connection.streams().accept(dir));
                }
                _ => {}
            }
        }
        for id in &self.sending {
            while connection.send_stream(*id).write(&[0x5a; 16_384]).is_ok() {}
        }
        for id in &self.reading {
            let mut stream = connection.recv_stream(*id);
            let Ok(mut chunks) = stream.read(true) else { continue };
            while let Ok(Some(chunk)) = chunks.next(usize::MAX) {
                self.read += chunk.bytes.len() as u64;
            }
            let _ = chunks.finalize();
        }
        let mut buffer = Vec::new();
        while let Some(transmit) = connection.poll_transmit(now, 1, &mut buffer) {
            send(&buffer[..transmit.size]);
            buffer.clear();
        }
    }
}

fn socket() -> anyhow::Result<UdpSocket> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).context("no socket")?;
    let options = socket2::SockRef::from(&socket);
    options.set_recv_buffer_size(BUFFER)?;
    Ok(socket)
}

fn configs() -> anyhow::Result<Configs> {
    let key = rcgen::generate_simple_self_signed(["bench.test".to_owned()])?;
    let certificate = key.cert.der().clone();
    let secret = rustls::pki_types::PrivatePkcs8KeyDer::from(key.signing_key.serialize_der());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate.clone())?;
    let crypto = rustls::ClientConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let mut client = ClientConfig::new(Arc::new(QuicClientConfig::try_from(crypto)?));
    let crypto = rustls::ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_no_client_auth()
        .with_single_cert(vec![certificate], secret.into())?;
    let mut server = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(crypto)?));
    let mut transport = TransportConfig::default();
    // Windows that do not bound the links.
    let window = 64 << 20;
    transport.stream_receive_window(VarInt::from_u32(window));
    transport.receive_window(VarInt::from_u32(window));
    transport.send_window(u64::from(window));
    let transport = Arc::new(transport);
    client.transport_config(transport.clone());
    server.transport_config(transport);
    Ok(Configs { client, server: Arc::new(server) })
}
