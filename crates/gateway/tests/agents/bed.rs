//! Agents in threads of the test.

use super::wire::Wire;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tabane_gateway::client::Client;
use tabane_gateway::config::{
    AccessConfig, ClientConfig, ClientEntry, ListenerConfig, NextConfig, PathConfig, ServerConfig,
    ServerEntry,
};
use tabane_gateway::keys::{self, Key};
use tabane_gateway::model::{ConnStatus, PathState, Status};
use tabane_gateway::request_channel::{Answer, Request, RequestSender};
use tabane_gateway::server::Server;

/// Keys of both sides, so that either can be started again.
pub(crate) struct Keys {
    pub(crate) server: Key,
    pub(crate) secret: Key,
}

/// An agent in a thread; stopped when it is dropped.
pub(crate) struct Agent {
    pub(crate) request_channel: RequestSender,
    pub(crate) at: SocketAddr,
    thread: Option<JoinHandle<()>>,
    /// The thread's folder in /proc.
    task: PathBuf,
}

pub(crate) const LONG: Duration = Duration::from_secs(20);

impl Keys {
    pub(crate) fn new() -> Self {
        Self { server: Key::random_private().unwrap(), secret: Key::random().unwrap() }
    }

    pub(crate) fn server_config(&self, listen: SocketAddr) -> ServerConfig {
        let public = |i| keys::encode(&self.secret.of_path(i).public());
        ServerConfig {
            listen: vec![listen],
            private_key: Some(self.server.to_string().into()),
            client: vec![ClientEntry {
                name: "test".into(),
                number: 1,
                keys: (0..2).map(public).collect(),
                ..ClientEntry::default()
            }],
            access: AccessConfig { allow: vec!["127.0.0.1".into()], ..AccessConfig::default() },
            ..ServerConfig::default()
        }
    }

    pub(crate) fn client_config(&self, servers: &[SocketAddr]) -> ClientConfig {
        let path = |name: &str| PathConfig {
            name: Some(name.into()),
            source: Some(Ipv4Addr::LOCALHOST.into()),
            ..PathConfig::default()
        };
        let server = |at: &SocketAddr| ServerEntry {
            addresses: vec![at.to_string()],
            public_key: keys::encode(&self.server.public()),
            ..ServerEntry::default()
        };
        ClientConfig {
            name: "test".into(),
            number: 1,
            secret: Some(self.secret.to_string().into()),
            server: servers.iter().map(server).collect(),
            path: vec![path("one"), path("two")],
            front: ListenerConfig {
                socks5: vec![(Ipv4Addr::LOCALHOST, 0).into()],
                ..ListenerConfig::default()
            },
            ..ClientConfig::default()
        }
    }
}

impl Keys {
    /// What a server needs that is a client of such servers.
    pub(crate) fn next_config(&self, servers: &[SocketAddr]) -> NextConfig {
        let ClientConfig { name, number, secret, server, path, .. } = self.client_config(servers);
        NextConfig { name, number, secret, server, path, ..NextConfig::default() }
    }
}

impl Agent {
    pub(crate) fn server(config: ServerConfig) -> Self {
        Self::of_server(Server::new(config, None).unwrap())
    }

    pub(crate) fn of_server(server: Server) -> Self {
        let (request_channel, at) = (server.request_channel(), server.local()[0]);
        Self::run(request_channel, at, move || server.run().unwrap())
    }

    pub(crate) fn client(config: ClientConfig) -> Self {
        let client = Client::new(config).unwrap();
        let (request_channel, at) = (client.request_channel(), client.listeners()[0]);
        Self::run(request_channel, at, move || client.run().unwrap())
    }

    /// A server that reads its configuration there again when it is to.
    pub(crate) fn server_of(file: &Arc<Mutex<ServerConfig>>) -> Self {
        let mut server = Server::new(file.lock().unwrap().clone(), None).unwrap();
        let file = file.clone();
        server.set_source(Box::new(move || Ok(file.lock().unwrap().clone())));
        let (request_channel, at) = (server.request_channel(), server.local()[0]);
        Self::run(request_channel, at, move || server.run().unwrap())
    }

    /// A client that reads its configuration there again when it is to.
    pub(crate) fn client_of(file: &Arc<Mutex<ClientConfig>>) -> Self {
        let mut client = Client::new(file.lock().unwrap().clone()).unwrap();
        let file = file.clone();
        client.set_source(Box::new(move || Ok(file.lock().unwrap().clone())));
        let (request_channel, at) = (client.request_channel(), client.listeners()[0]);
        Self::run(request_channel, at, move || client.run().unwrap())
    }

    fn run(
        request_channel: RequestSender,
        at: SocketAddr,
        run: impl FnOnce() + Send + 'static,
    ) -> Self {
        let (sender, task) = std::sync::mpsc::channel();
        let thread = thread::spawn(move || {
            sender.send(std::fs::read_link("/proc/thread-self").unwrap()).unwrap();
            run();
        });
        let task = PathBuf::from("/proc").join(task.recv().unwrap());
        Self { request_channel, at, thread: Some(thread), task }
    }

    /// Processor time that it has taken.
    pub(crate) fn cpu(&self) -> Duration {
        let text = std::fs::read_to_string(self.task.join("schedstat")).unwrap();
        Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
    }

    pub(crate) fn connections(&self) -> Vec<ConnStatus> {
        match self.request_channel.ask(Request::Connections).unwrap() {
            Answer::Connections(all) => all,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn status(&self) -> Status {
        match self.request_channel.ask(Request::Status).unwrap() {
            Answer::Status(status) => *status,
            other => panic!("{other:?}"),
        }
    }

    /// Waits until a snapshot of it is as wanted.
    #[track_caller]
    pub(crate) fn until(&self, what: &str, wanted: impl Fn(&Status) -> bool) -> Duration {
        let start = Instant::now();
        loop {
            let status = self.status();
            if wanted(&status) {
                return start.elapsed();
            }
            assert!(start.elapsed() < LONG, "never {what}: {status:#?}");
            thread::sleep(Duration::from_millis(10));
        }
    }

    #[track_caller]
    pub(crate) fn until_paths_work(&self) -> Duration {
        self.until("up", |s| s.paths.iter().all(|path| path.state == PathState::Up))
    }

    pub(crate) fn stop(&mut self) {
        let _ = self.request_channel.ask(Request::Stop);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        if !thread::panicking() {
            self.stop();
        }
    }
}

/// Both agents, paths up.
pub(crate) fn pair() -> (Agent, Agent, Keys) {
    let keys = Keys::new();
    let server = Agent::server(keys.server_config("127.0.0.1:0".parse().unwrap()));
    let client = Agent::client(keys.client_config(&[server.at]));
    client.until_paths_work();
    (client, server, keys)
}

/// Both agents on that loopback address, with a wire for each path.
pub(crate) fn wired(loopback: &str) -> (Agent, Agent, [Wire; 2]) {
    wired_by(&Keys::new(), loopback)
}

/// The same, with keys by which either can be started again.
pub(crate) fn wired_by(keys: &Keys, loopback: &str) -> (Agent, Agent, [Wire; 2]) {
    let address: IpAddr = loopback.parse().unwrap();
    let server = Agent::server(keys.server_config((address, 0).into()));
    let wires = [Wire::to(server.at), Wire::to(server.at)];
    let mut config = keys.client_config(&[server.at]);
    for (path, wire) in config.path.iter_mut().zip(&wires) {
        (path.source, path.remote) = (Some(address), Some(wire.near));
    }
    let client = Agent::client(config);
    client.until_paths_work();
    (client, server, wires)
}

/// A server that does `serve` with every connection, in a thread each.
pub(crate) fn serve(serve: impl Fn(TcpStream) + Send + Clone + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let serve = serve.clone();
            thread::spawn(move || serve(stream));
        }
    });
    at
}

/// Sends back what comes, until the end.
pub(crate) fn echo() -> SocketAddr {
    serve(|mut stream| {
        let mut reader = stream.try_clone().unwrap();
        let _ = std::io::copy(&mut reader, &mut stream);
        let _ = stream.shutdown(std::net::Shutdown::Write);
    })
}

/// A connection through SOCKS5: the stream, or the reply code.
pub(crate) fn socks(listener: SocketAddr, request: &[u8]) -> Result<TcpStream, u8> {
    let mut stream = TcpStream::connect(listener).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream.write_all(&[5, 1, 0]).unwrap();
    let mut answer = [0; 2];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(answer, [5, 0]);
    stream.write_all(&[&[5, 1, 0][..], request].concat()).unwrap();
    let mut answer = [0; 4];
    stream.read_exact(&mut answer).unwrap();
    let rest = if answer[3] == 4 { 18 } else { 6 };
    stream.read_exact(&mut vec![0; rest]).unwrap();
    if answer[1] == 0 { Ok(stream) } else { Err(answer[1]) }
}

/// To an address.
pub(crate) fn connect(listener: SocketAddr, to: SocketAddr) -> Result<TcpStream, u8> {
    let SocketAddr::V4(to) = to else { panic!("IPv4") };
    let port = to.port().to_be_bytes();
    socks(listener, &[&[1][..], &to.ip().octets(), &port].concat())
}

/// A relay of datagrams: the connection that holds it, and where it takes them.
pub(crate) fn associate(listener: SocketAddr) -> (TcpStream, SocketAddr) {
    let mut stream = TcpStream::connect(listener).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream.write_all(&[5, 1, 0, 5, 3, 0, 1, 0, 0, 0, 0, 0, 0]).unwrap();
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(answer[2..6], [5, 0, 0, 1]);
    let address = Ipv4Addr::new(answer[6], answer[7], answer[8], answer[9]);
    (stream, (address, u16::from_be_bytes([answer[10], answer[11]])).into())
}

/// Bytes that are not all alike.
pub(crate) fn pattern(len: usize, seed: u32) -> Vec<u8> {
    let next = |state: &mut u32| {
        *state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        Some((*state >> 24) as u8)
    };
    let mut state = seed;
    std::iter::from_fn(|| next(&mut state)).take(len).collect()
}

/// A server that sends datagrams back, with a mark in front.
pub(crate) fn datagram_echo() -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let at = socket.local_addr().unwrap();
    thread::spawn(move || {
        let mut buffer = vec![0; 65_536];
        while let Ok((len, from)) = socket.recv_from(&mut buffer[1..]) {
            buffer[0] = b'>';
            let _ = socket.send_to(&buffer[..=len], from);
        }
    });
    at
}

/// A datagram through an association, and its answer without the header.
pub(crate) fn ask(socket: &UdpSocket, relay: SocketAddr, head: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut buffer = vec![0; 65_536];
    // Datagrams may be lost: asked again, as programs do.
    for _ in 0..10 {
        socket.send_to(&[&[0, 0, 0][..], head, payload].concat(), relay).unwrap();
        if let Ok((len, from)) = socket.recv_from(&mut buffer) {
            assert_eq!(from, relay);
            return buffer[10..len].to_vec();
        }
    }
    panic!("no answer");
}

/// Sends `len` bytes and gets them back.
pub(crate) fn exchange(client: SocketAddr, far: SocketAddr, len: usize, seed: u32) {
    let data = pattern(len, seed);
    let mut stream = connect(client, far).unwrap();
    let mut reader = stream.try_clone().unwrap();
    let back = thread::spawn(move || {
        let mut back = Vec::new();
        reader.read_to_end(&mut back).unwrap();
        back
    });
    stream.write_all(&data).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let back = back.join().unwrap();
    let same = back.iter().zip(&data).take_while(|(a, b)| a == b).count();
    assert!(back == data, "of {len} bytes {} came back, the first {same} as they were", back.len());
}

/// Reads late what a server sends, which must stop meanwhile, and loses nothing of it.
pub(crate) fn read_late(client: SocketAddr) {
    let far = serve(|mut stream| {
        stream.set_write_timeout(Some(Duration::from_millis(700))).unwrap();
        let block = vec![1; 1 << 20];
        let mut sent = 0_u64;
        while stream.write_all(&block).is_ok() {
            sent += block.len() as u64;
            assert!(sent < 300 << 20, "nobody reads, and still it goes on");
        }
    });
    let mut stream = connect(client, far).unwrap();
    thread::sleep(Duration::from_secs(2));
    stream.set_read_timeout(Some(LONG)).unwrap();
    let (mut block, mut got) = (vec![0; 1 << 16], 0);
    while let Ok(len @ 1..) = stream.read(&mut block) {
        assert!(block[..len].iter().all(|byte| *byte == 1));
        got += len;
    }
    assert!(got > 1 << 20, "{got}");
}
