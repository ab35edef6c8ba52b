//! QUIC itself, as others wrote it: one end with at most one connection, for whoever brings it a
//! clock and carries its datagrams. The tests of spreading have virtual time, the row `quic` of
//! `tabane bench gateway` has sockets.

use bytes::BytesMut;
use quinn_proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig,
    Event, ServerConfig, StreamEvent, StreamId, TransportConfig, VarInt,
};
use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

/// A program that speaks QUIC.
pub(super) struct End {
    endpoint: Endpoint,
    connection: Option<(ConnectionHandle, Connection)>,
    /// Streams on which everything there is room for is sent.
    sending: Vec<StreamId>,
    reading: Vec<StreamId>,
    /// Bytes that have come.
    pub(super) read: u64,
    /// It sends, as soon as it is connected.
    sends: bool,
}

/// A client and a server that trust each other, with windows that do not bound a fast and long
/// path.
pub(super) struct Configs {
    client: ClientConfig,
    server: Arc<ServerConfig>,
}

const NAME: &str = "quic.test";
const WINDOW: u32 = 64 << 20;

impl Configs {
    /// # Errors
    /// No key can be made.
    pub(super) fn new() -> Result<Self, Box<dyn Error + Send + Sync>> {
        let key = rcgen::generate_simple_self_signed([NAME.to_owned()])?;
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
        transport.stream_receive_window(VarInt::from_u32(WINDOW));
        transport.receive_window(VarInt::from_u32(WINDOW));
        transport.send_window(u64::from(WINDOW));
        let transport = Arc::new(transport);
        client.transport_config(transport.clone());
        server.transport_config(transport);
        Ok(Self { client, server: Arc::new(server) })
    }
}

impl End {
    /// One that connects to `remote`; `seed` if it is to draw the same each time.
    ///
    /// # Errors
    /// QUIC's.
    pub(super) fn client(
        configs: &Configs,
        (now, remote): (Instant, SocketAddr),
        seed: Option<[u8; 32]>,
    ) -> Result<Self, Box<dyn Error + Send + Sync>> {
        let mut end = Self::new(None, seed);
        let connected = end.endpoint.connect(now, configs.client.clone(), remote, NAME)?;
        end.connection = Some(connected);
        Ok(end)
    }

    /// One that sends a stream without end to who connects.
    pub(super) fn server(configs: &Configs, seed: Option<[u8; 32]>) -> Self {
        Self::new(Some(configs.server.clone()), seed)
    }

    fn new(server: Option<Arc<ServerConfig>>, seed: Option<[u8; 32]>) -> Self {
        let mut config = EndpointConfig::default();
        config.rng_seed(seed);
        Self {
            sends: server.is_some(),
            endpoint: Endpoint::new(Arc::new(config), server, true, None),
            connection: None,
            sending: Vec::new(),
            reading: Vec::new(),
            read: 0,
        }
    }

    /// When it wants to be asked.
    pub(super) fn poll_timeout(&mut self) -> Option<Instant> {
        self.connection.as_mut()?.1.poll_timeout()
    }

    /// Takes a datagram.
    pub(super) fn handle(
        &mut self,
        (now, remote): (Instant, SocketAddr),
        payload: &[u8],
        send: &mut dyn FnMut(&[u8]),
    ) {
        let (data, mut buffer) = (BytesMut::from(payload), Vec::new());
        match self.endpoint.handle(now, remote, None, None, data, &mut buffer) {
            Some(DatagramEvent::ConnectionEvent(_, event)) => {
                if let Some((_, connection)) = &mut self.connection {
                    connection.handle_event(event);
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) => {
                self.connection = self.endpoint.accept(incoming, now, &mut buffer, None).ok();
            }
            Some(DatagramEvent::Response(transmit)) => send(&buffer[..transmit.size]),
            None => {}
        }
    }

    /// Does what there is to do now.
    pub(super) fn run(&mut self, now: Instant, send: &mut dyn FnMut(&[u8])) {
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
