//! QUIC itself, as others wrote it, in virtual time: one end with at most one connection.

use super::world::Datagram;
use bytes::BytesMut;
use quinn_proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn_proto::{
    ClientConfig, Connection, ConnectionEvent, ConnectionHandle, DatagramEvent, Dir, Endpoint,
    EndpointConfig, Event, ServerConfig, StreamEvent, StreamId, TransportConfig, VarInt,
};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant as Clock;
use tabane_engine::{Duration, Instant};

/// A program that speaks QUIC.
pub(super) struct Quic {
    endpoint: Endpoint,
    connection: Option<(ConnectionHandle, Connection)>,
    /// The origin of virtual time.
    origin: Clock,
    /// What is to be sent.
    pub(super) out: Vec<Vec<u8>>,
    /// Streams on which everything there is room for is sent.
    sending: Vec<StreamId>,
    reading: Vec<StreamId>,
    /// Bytes that have come.
    pub(super) read: u64,
    /// It sends, as soon as it is connected.
    sends: bool,
}

const REMOTE: ([u8; 4], u16) = ([192, 0, 2, 1], 443);

/// A client and a server; the server sends a stream without end.
#[expect(clippy::disallowed_methods, reason = "the origin of virtual time")]
pub(super) fn download(now: Instant, flows: usize) -> Vec<[Quic; 2]> {
    let key = rcgen::generate_simple_self_signed(["bond.test".to_owned()]).unwrap();
    let certificate = key.cert.der().clone();
    let secret = rustls::pki_types::PrivatePkcs8KeyDer::from(key.signing_key.serialize_der());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate.clone()).unwrap();
    let crypto = rustls::ClientConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let mut client = ClientConfig::new(Arc::new(QuicClientConfig::try_from(crypto).unwrap()));
    let crypto = rustls::ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], secret.into())
        .unwrap();
    let crypto = QuicServerConfig::try_from(crypto).unwrap();
    let mut server = ServerConfig::with_crypto(Arc::new(crypto));
    let transport = transport();
    client.transport_config(transport.clone());
    server.transport_config(transport);
    let (server, origin) = (Arc::new(server), Clock::now());
    let pair = |flow: usize| {
        let mut config = EndpointConfig::default();
        config.rng_seed(Some([flow as u8; 32]));
        let config = Arc::new(config);
        let quic = |server: Option<Arc<ServerConfig>>| Quic {
            sends: server.is_some(),
            endpoint: Endpoint::new(config.clone(), server, true, None),
            connection: None,
            origin,
            out: Vec::new(),
            sending: Vec::new(),
            reading: Vec::new(),
            read: 0,
        };
        let mut near = quic(None);
        let at = near.clock(now);
        let connected = near.endpoint.connect(at, client.clone(), REMOTE.into(), "bond.test");
        near.connection = Some(connected.unwrap());
        [near, quic(Some(server.clone()))]
    };
    (0..flows).map(pair).collect()
}

/// Windows that do not bound a fast and long path.
fn transport() -> Arc<TransportConfig> {
    let mut transport = TransportConfig::default();
    let window = 64 << 20;
    transport.stream_receive_window(VarInt::from_u32(window));
    transport.receive_window(VarInt::from_u32(window));
    transport.send_window(u64::from(window));
    Arc::new(transport)
}

impl Quic {
    fn clock(&self, now: Instant) -> Clock {
        self.origin + std::time::Duration::from(Duration(now.0))
    }

    /// When it wants to be asked.
    pub(super) fn next(&mut self) -> Option<Instant> {
        let due = self.connection.as_mut()?.1.poll_timeout()?;
        Some(Instant::ZERO + Duration::from(due.saturating_duration_since(self.origin)))
    }

    /// Takes a datagram.
    pub(super) fn handle(&mut self, now: Instant, datagram: &Datagram) {
        let (at, mut buffer) = (self.clock(now), Vec::new());
        let data = BytesMut::from(&datagram.payload[..]);
        let remote: SocketAddr = REMOTE.into();
        match self.endpoint.handle(at, remote, None, None, data, &mut buffer) {
            Some(DatagramEvent::ConnectionEvent(_, event)) => self.event(event),
            Some(DatagramEvent::NewConnection(incoming)) => {
                let accepted = self.endpoint.accept(incoming, at, &mut buffer, None);
                self.connection = accepted.ok();
            }
            Some(DatagramEvent::Response(transmit)) => {
                self.out.push(buffer[..transmit.size].to_vec());
            }
            None => {}
        }
    }

    fn event(&mut self, event: ConnectionEvent) {
        if let Some((_, connection)) = &mut self.connection {
            connection.handle_event(event);
        }
    }

    /// Does what there is to do now; what is to be sent is in `out`.
    pub(super) fn run(&mut self, now: Instant) {
        let at = self.clock(now);
        let Some((handle, connection)) = &mut self.connection else { return };
        if connection.poll_timeout().is_some_and(|due| due <= at) {
            connection.handle_timeout(at);
        }
        loop {
            let mut events = Vec::new();
            while let Some(event) = connection.poll_endpoint_events() {
                events.extend(self.endpoint.handle_event(*handle, event));
            }
            if events.is_empty() {
                break;
            }
            events.into_iter().for_each(|event| connection.handle_event(event));
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
        while let Some(transmit) = connection.poll_transmit(at, 1, &mut buffer) {
            self.out.push(buffer[..transmit.size].to_vec());
            buffer.clear();
        }
    }
}
