//! Programs, and hosts behind a client, that speak to the server as if they were the client.

use super::bed::{Agent, Keys, connect, echo, pair, socks};
use crate::address::{ClientNumber, Network};
use crate::index::PathIndex;
use crate::keys;
use crate::model::Role;
use crate::path::Use;
use crate::path::probe::{Ends, Probe};
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;
use tabane_net::wireguard::{Opened, Sealed, Session, StaticSecret};

/// The tunnel of a client's second path, by hand: what leaves by it may be of any address of the
/// client.
struct Tunnel {
    socket: UdpSocket,
    session: Session,
    buffer: Vec<u8>,
}

impl Tunnel {
    fn open(keys: &Keys, server: SocketAddr) -> Self {
        let secret = StaticSecret::from(&keys.secret.of_path(1));
        let public = keys::public(&keys::encode(&keys.server.public())).unwrap();
        let session = Session::new(&secret, public, None, 9, None);
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(server).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        let mut tunnel = Self { socket, session, buffer: vec![0; 1 << 16] };
        let len = tunnel.session.handshake(&mut tunnel.buffer, false).unwrap();
        tunnel.socket.send(&tunnel.buffer[..len]).unwrap();
        assert_eq!(tunnel.receive(), None, "the answer of the handshake");
        tunnel
    }

    /// The next datagram; the packet in it, if there is one.
    fn receive(&mut self) -> Option<Vec<u8>> {
        let mut datagram = vec![0; 1 << 16];
        let len = self.socket.recv(&mut datagram).ok()?;
        match self.session.open(None, &datagram[..len], &mut self.buffer) {
            Opened::Packet { len, .. } => Some(self.buffer[..len].to_vec()),
            _ => None,
        }
    }

    fn send(&mut self, packet: &[u8]) {
        let Sealed::Packet(len) = self.session.seal(packet, &mut self.buffer) else {
            panic!("there are no keys");
        };
        self.socket.send(&self.buffer[..len]).unwrap();
    }
}

/// A probe of another run than the client's, as a program's ping could have it.
fn probe(from: IpAddr, service: IpAddr, run: u32) -> Vec<u8> {
    let probe = Probe {
        path: 1,
        run,
        seq: 1 << 20,
        hears: true,
        using: Use::Unused,
        role: Role::Never,
        mtu: 1280,
        within_ms: 1000,
        cap_bps: Some(1),
        reports: true,
        far_reports: false,
        takes_roles: false,
        asked_role: None,
        full: false,
        server_info: None,
    };
    let mut packet = vec![0; 200];
    let len = probe.emit(&Ends { path: from, service }, 0, &mut packet).unwrap();
    packet.truncate(len);
    packet
}

/// A probe of another run ends all connections: whoever can ping could.
#[test]
fn a_programs_ping_is_no_probe() {
    let keys = Keys::new();
    let server = Agent::server(keys.server_config("127.0.0.1:0".parse().unwrap()));
    let mut config = keys.client_config(&[server.at]);
    config.path.pop();
    let client = Agent::client(config);
    client.until_paths_work();
    let mut stream = connect(client.at, echo()).unwrap();
    let mut tunnel = Tunnel::open(&keys, server.at);
    let (network, number) = (Network::default(), ClientNumber(1));
    for (family, service) in network.service().into_iter().enumerate() {
        for run in 1..4 {
            tunnel.send(&probe(network.own(number)[family], service, run));
            let answer = tunnel.receive().expect("a ping is answered");
            assert_eq!(
                Probe::answered(&answer, &Ends { path: network.own(number)[family], service })
                    .and_then(|answer| answer.server_info),
                None
            );
            stream.write_all(b"still there").unwrap();
            stream.read_exact(&mut [0; 11]).unwrap();
        }
    }
    // From the path's own address it is one, and the client has started again.
    let path = network.path(number, PathIndex::new(1));
    tunnel.send(&probe(path[0], network.service()[0], 7));
    assert!(stream.read_exact(&mut [0; 1]).is_err());
}

/// What a client asks of its server holds for all that use it.
#[test]
fn a_program_does_not_speak_to_the_servers_control_ports() {
    let (client, _server, _) = pair();
    for service in Network::default().service() {
        let (kind, octets) = match service {
            IpAddr::V4(v4) => (1, v4.octets().to_vec()),
            IpAddr::V6(v6) => (4, v6.octets().to_vec()),
        };
        let refused = socks(client.at, &[&[kind][..], &octets, &[0, 1]].concat()).err();
        assert_eq!(refused, Some(2), "not allowed, {service}");
    }
}
