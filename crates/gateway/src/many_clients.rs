//! Many clients in one thread, for the memory of a server: each with a WireGuard session and a
//! watch for each path, an engine, and connections of its own. Nothing is pretended: it is what a
//! client agent is, but for programs.
//!
//! All clients share one socket for each path: which session a datagram belongs to is in its
//! header (the receiver's index).

use crate::address::{ClientNumber, Network};
use crate::agent::AgentError;
use crate::bond::{Bond, paths};
use crate::client::ClientError;
use crate::config::Choice;
use crate::engine_config::engine_config;
use crate::index::PathIndex;
use crate::keys::Key;
use crate::path::{
    Demand, Ends, INTERVAL, LinkState, Monitor, MonitorConfig, PathEvent, inner_limit,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use tabane_engine::view::PathId;
use tabane_engine::{Duration, Event, Instant};
use tabane_net::Clock;
use tabane_net::wireguard::{Opened, PublicKey, Sealed, Session, StaticSecret, seal_space};

pub struct ManyClients {
    clock: Clock,
    server: SocketAddr,
    sockets: Vec<UdpSocket>,
    clients: Vec<Client>,
    /// Where all connect to, and how often each.
    target: (SocketAddr, usize),
    scratch: Vec<u8>,
    opened: Vec<u8>,
}

/// Paths of a client.
pub const PATHS: usize = 2;

struct Client {
    number: ClientNumber,
    bond: Bond,
    tunnels: Vec<Tunnel>,
    requested: usize,
    connected: usize,
    lost: usize,
    subflows: usize,
}

struct Tunnel {
    session: Session,
    monitor: Monitor,
}

/// How far they are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Standing {
    /// Paths that work.
    pub paths: usize,
    /// Connections that stand.
    pub connected: usize,
    /// Connections that stood, or were to stand, and are gone.
    pub lost: usize,
    /// Subflows of those that stand.
    pub subflows: usize,
}

/// Connections being opened at a time.
const OPENING: usize = 200;
/// Largest packet.
const PACKET_MAX: usize = 65_536;
/// Between rounds over all clients.
const PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 5_000_000 };
/// Packets taken from a socket before the clients have their turn.
const BATCH: usize = 4096;
const SOCKET_BUFFER: usize = 4 << 20;
/// Of the links that are not there.
const OUTER_MTU: u32 = 1500;

impl ManyClients {
    /// A client for each secret, numbered from 1, with `target.1` connections to `target.0`.
    ///
    /// # Errors
    /// No sockets.
    pub fn new(
        secrets: &[Key],
        (server, key): (SocketAddr, &PublicKey),
        target: (SocketAddr, usize),
    ) -> Result<Self, AgentError> {
        Self::open(secrets, (server, key), target).map_err(AgentError::new)
    }

    fn open(
        secrets: &[Key],
        (server, key): (SocketAddr, &PublicKey),
        target: (SocketAddr, usize),
    ) -> Result<Self, ClientError> {
        let clock = Clock::start();
        let socket = |_| {
            let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
            socket.set_nonblocking(true)?;
            // Best effort: smaller buffers only drop more.
            let _ = socket2::SockRef::from(&socket).set_recv_buffer_size(SOCKET_BUFFER);
            io::Result::Ok(socket)
        };
        let sockets = (0..PATHS).map(socket).collect::<io::Result<_>>()?;
        let clients = secrets.iter().enumerate();
        let clients = clients.map(|(at, secret)| Client::new(clock.now(), at, secret, key));
        Ok(Self {
            clock,
            server,
            sockets,
            clients: clients.collect::<Result<_, _>>()?,
            target,
            scratch: vec![0; PACKET_MAX],
            opened: vec![0; PACKET_MAX],
        })
    }

    /// Lives for so long, or until all connections stand and all paths work if `eager`.
    ///
    /// # Errors
    /// It cannot wait.
    pub fn run(&mut self, length: Duration, eager: bool) -> io::Result<Standing> {
        let end = self.clock.now() + length;
        loop {
            for path in 0..PATHS {
                self.receive(path);
            }
            self.round();
            let relay_state = self.relay_state();
            let wanted = self.clients.len();
            let all = relay_state.paths == wanted * PATHS
                && relay_state.connected == wanted * self.target.1
                && relay_state.subflows == relay_state.connected * PATHS;
            if self.clock.now() >= end || eager && all {
                return Ok(relay_state);
            }
            let socket = |socket| PollFd::from_borrowed_fd(UdpSocket::as_fd(socket), PollFlags::IN);
            let mut fds: Vec<_> = self.sockets.iter().map(socket).collect();
            match poll(&mut fds, Some(&PAUSE)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn relay_state(&mut self) -> Standing {
        let mut relay_state = Standing { paths: 0, connected: 0, lost: 0, subflows: 0 };
        for client in &mut self.clients {
            relay_state.paths +=
                client.tunnels.iter().filter(|tunnel| tunnel.monitor.is_up()).count();
            relay_state.connected += client.connected;
            relay_state.lost += client.lost;
            relay_state.subflows += client.subflows;
        }
        relay_state
    }

    /// Takes what has come by a path.
    fn receive(&mut self, path: usize) {
        let Self { clock, sockets, clients, server, scratch, opened, .. } = self;
        for _ in 0..BATCH {
            // An error is that of a datagram sent before, or that there is nothing more.
            let Ok((len, from)) = sockets[path].recv_from(scratch) else { return };
            let datagram = &scratch[..len];
            let Some(at) = receiver(datagram).filter(|_| from == *server) else { continue };
            let Some(client) = clients.get_mut(at / PATHS) else { continue };
            let send = |datagram: &[u8]| drop(sockets[path].send_to(datagram, *server));
            client.take(clock.now(), path, datagram, opened, send);
        }
    }

    /// What is due, and what is to be sent.
    fn round(&mut self) {
        let now = self.clock.now();
        let Self { sockets, clients, server, target, scratch, opened, .. } = self;
        let opening = |client: &Client| client.requested - client.connected - client.lost;
        let mut free = OPENING.saturating_sub(clients.iter().map(opening).sum());
        for client in clients {
            let ready = client.tunnels.iter().all(|tunnel| tunnel.monitor.is_up());
            while ready && free > 0 && client.requested < target.1 {
                client.connect(now, target.0);
                free -= 1;
            }
            client.round(now, (scratch, opened), |path, datagram| {
                // What the socket does not take is lost, as on any link.
                let _ = sockets[path].send_to(datagram, *server);
            });
        }
    }
}

impl Client {
    fn new(now: Instant, at: usize, secret: &Key, server: &PublicKey) -> Result<Self, ClientError> {
        let number = ClientNumber(u16::try_from(at + 1).map_err(io::Error::other)?);
        let network = Network::default();
        let four_tuples = paths(|path| network.path(number, path).to_vec(), 1280);
        let mut seed = *Key::random()?.bytes();
        let run = u32::from_le_bytes([seed[0], seed[1], seed[2], seed[3]]);
        seed[0] ^= 1;
        let tunnel = |path: usize| {
            let ends = Ends {
                path: network.path(number, PathIndex::new(path))[0],
                service: network.service()[0],
            };
            let config =
                MonitorConfig { ends, path: path as u8, run, interval: INTERVAL, mtu: None };
            let mut monitor = Monitor::new(now, config);
            let limit = inner_limit(OUTER_MTU, false);
            monitor.handle_link(now, LinkState::Ready { limit });
            let own = StaticSecret::from(&secret.of_path(path));
            let index = (at * PATHS + path) as u32;
            Tunnel { session: Session::new(&own, *server, None, index, None), monitor }
        };
        Ok(Self {
            number,
            bond: Bond::new(engine_config(four_tuples, &Choice::default()), seed)?,
            tunnels: (0..PATHS).map(tunnel).collect(),
            requested: 0,
            connected: 0,
            lost: 0,
            subflows: 0,
        })
    }

    fn connect(&mut self, now: Instant, target: SocketAddr) {
        let local: IpAddr = Network::default().path(self.number, PathIndex::new(0))[0];
        self.requested += 1;
        if self.bond.endpoint.connect(now, (local, 0).into(), target).is_err() {
            self.lost += 1;
        }
    }

    /// A datagram that came by a path.
    fn take(
        &mut self,
        now: Instant,
        path: usize,
        datagram: &[u8],
        opened: &mut [u8],
        send: impl Fn(&[u8]),
    ) {
        let Tunnel { session, monitor } = &mut self.tunnels[path];
        match session.open(None, datagram, opened) {
            Opened::Packet { len, .. } => {
                if !monitor.handle_packet(now, &opened[..len]) {
                    let id = PathId(path as u8);
                    self.bond.endpoint.handle_packet(now, id, &opened[..len]);
                }
            }
            Opened::Reply(len) => {
                send(&opened[..len]);
                monitor.handle_heard(now);
                monitor.handle_session(now, session.has_keys());
                while let Some(len) = session.pending(opened) {
                    send(&opened[..len]);
                }
            }
            Opened::Keepalive => monitor.handle_heard(now),
            Opened::Cookie | Opened::Bad(_) => {}
        }
    }

    /// Timers, events, and what is to be sent.
    fn round(
        &mut self,
        now: Instant,
        (scratch, sealed): (&mut [u8], &mut [u8]),
        mut send: impl FnMut(usize, &[u8]),
    ) {
        let open = self.requested > self.lost;
        for (path, Tunnel { session, monitor }) in self.tunnels.iter_mut().enumerate() {
            monitor.handle_demand(now, Demand { open, standby: false, alone: false });
            if monitor.poll_timeout() <= now {
                monitor.handle_timeout(now);
                while let Some(len) = monitor.poll_probe(now, scratch) {
                    seal(session, &scratch[..len], sealed, |datagram| send(path, datagram));
                }
                if monitor.poll_handshake(now)
                    && let Some(len) = session.handshake(sealed, true)
                {
                    send(path, &sealed[..len]);
                }
            }
            let (id, endpoint) = (PathId(path as u8), &mut self.bond.endpoint);
            while let Some(event) = monitor.poll_event() {
                match event {
                    PathEvent::Up => endpoint.set_path_up(now, id, true),
                    PathEvent::Down(_) => endpoint.set_path_up(now, id, false),
                    PathEvent::Mtu(mtu) => endpoint.set_path_mtu(now, id, mtu),
                    PathEvent::TooBig(_) | PathEvent::Announced(_) | PathEvent::AskedRole(_) => {}
                }
            }
        }
        let endpoint = &mut self.bond.endpoint;
        if endpoint.poll_timeout().is_some_and(|due| due <= now) {
            endpoint.handle_timeout(now);
        }
        let tunnels = &mut self.tunnels;
        while self.bond.transmit(now, scratch, |path, packet| {
            seal(&mut tunnels[path].session, packet, sealed, |datagram| send(path.get(), datagram))
        }) {}
        self.events();
    }

    fn events(&mut self) {
        while let Some((_, event)) = self.bond.endpoint.poll_event() {
            match event {
                Event::Connected => self.connected += 1,
                Event::SubflowEstablished(_) => self.subflows += 1,
                Event::SubflowClosed(..) => self.subflows = self.subflows.saturating_sub(1),
                Event::Closed(_) => self.lost += 1,
                _ => {}
            }
        }
    }
}

/// Seals a packet and sends what comes of it; whether that was the packet.
fn seal(session: &mut Session, packet: &[u8], out: &mut [u8], send: impl FnOnce(&[u8])) -> bool {
    match session.seal(packet, &mut out[..seal_space(packet.len())]) {
        Sealed::Packet(len) => {
            send(&out[..len]);
            true
        }
        Sealed::Handshake(len) => {
            send(&out[..len]);
            false
        }
        Sealed::Nothing => false,
    }
}

/// Which session a message is for: boringtun gives each 256 indices, one after the other.
fn receiver(datagram: &[u8]) -> Option<usize> {
    let at = match datagram.first()? {
        2 => 8,
        3 | 4 => 4,
        _ => return None,
    };
    let index = datagram.get(at..at + 4)?.try_into().ok()?;
    Some((u32::from_le_bytes(index) >> 8) as usize)
}
