//! The client's end of enrolment: one question to a server and its answer, in a session of its own.
//! It waits, so it belongs on a thread of its own or into a command.

use super::{Ask, ExchangeError, LENGTH_MAX, PORT, Reply};
use crate::address::{ClientNumber, Network};
use crate::keys::Key;
use crate::udp_packet;
use boringtun::x25519::PublicKey;
use bytes::Bytes;
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use tabane_engine::{Duration, Instant};
use tabane_net::Clock;
use tabane_net::wireguard::{Opened, Sealed, Session, random_index};
use tabane_wire::segment::Trust;
use tabane_wire::udp::Datagram;

/// Whom to ask, and as whom.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    /// Where it is; each is tried in turn.
    pub addresses: Vec<SocketAddr>,
    /// Its public key.
    pub public_key: PublicKey,
    /// The addresses inside its tunnels.
    pub network: Network,
    /// The client's number there.
    pub number: ClientNumber,
}

/// By which link a question leaves; the default is the host's choice.
#[derive(Clone, Default, Debug)]
pub(crate) struct Link {
    /// Its interface.
    pub(crate) interface: Option<String>,
    /// The address that it leaves from.
    pub(crate) source: Option<IpAddr>,
    /// Mark of its packets, which leads them past the host's own tunnel.
    pub(crate) mark: Option<u32>,
}

/// Between two attempts at an address.
const AGAIN: Duration = Duration::from_millis(500);
/// Room for what a session makes of one question.
const SPACE: usize = 65_536;

/// Asks until there is an answer, `patience` at each address and link; the server's clock in
/// milliseconds since 1970. `key` and `preshared` are those of the session.
///
/// # Errors
/// [`ExchangeError`]; after [`ExchangeError::Silent`] the server may have done it all the same.
pub(crate) fn ask(
    server: &Server,
    (key, preshared): (&Key, &Key),
    question: &Ask,
    links: &[Link],
    patience: Duration,
) -> Result<u64, ExchangeError> {
    let text = serde_json::to_vec(question).expect("invariant: plain data");
    debug_assert!(text.len() <= LENGTH_MAX, "{} bytes", text.len());
    let mut trouble = String::from("it has no address");
    for link in links {
        for address in &server.addresses {
            match attempt(server, (key, preshared), &text, (link, *address), patience) {
                Ok(Some(Reply::Done { unix_ms })) => return Ok(unix_ms),
                Ok(Some(Reply::Refused(why))) => return Err(ExchangeError::Refused(why)),
                Ok(None) => trouble = format!("{address} says nothing"),
                Err(error) => trouble = format!("{address}: {error}"),
            }
        }
    }
    Err(ExchangeError::Silent(trouble))
}

/// At one address, by one link; `None` if nobody answers.
fn attempt(
    server: &Server,
    (key, preshared): (&Key, &Key),
    question: &[u8],
    (link, address): (&Link, SocketAddr),
    patience: Duration,
) -> io::Result<Option<Reply>> {
    let socket = open(link, address)?;
    let [own, service] = [server.network.own(server.number)[0], server.network.service()[0]];
    let (from, to) = (SocketAddr::new(own, PORT), SocketAddr::new(service, PORT));
    let packet = udp_packet(from, to, Bytes::copy_from_slice(question));
    let preshared = Some(*preshared.bytes());
    let mut session = Session::new(&key.into(), server.public_key, preshared, random_index(), None);
    let (mut out, mut datagram) = (vec![0; SPACE], vec![0; SPACE]);
    let clock = Clock::start();
    let mut next = Instant::ZERO;
    while clock.now() < Instant::ZERO + patience {
        if clock.now() >= next {
            next = clock.now() + AGAIN;
            // What the timer wants said is said below anyway.
            let _ = session.on_timer(&mut out);
            let len = match session.has_keys() {
                true => match session.seal(&packet, &mut out) {
                    Sealed::Packet(len) | Sealed::Handshake(len) => Some(len),
                    Sealed::Nothing => None,
                },
                false => session.handshake(&mut out, true),
            };
            if let Some(len) = len {
                send(&socket, &out[..len], address)?;
            }
        }
        let len = match socket.recv_from(&mut datagram) {
            Ok((len, source)) if source == address => len,
            Ok(_) => continue,
            Err(error) if is_late(&error) => continue,
            Err(error) => return Err(error),
        };
        match session.open(Some(address.ip()), &datagram[..len], &mut out) {
            Opened::Reply(len) => {
                send(&socket, &out[..len], address)?;
                next = clock.now();
            }
            Opened::Packet { len, .. } => {
                if let Some(reply) = parse(&out[..len], (to, from)) {
                    return Ok(Some(reply));
                }
            }
            Opened::Keepalive | Opened::Cookie | Opened::Bad(_) => {}
        }
    }
    Ok(None)
}

/// The answer in a packet, if it is one.
fn parse(packet: &[u8], way: (SocketAddr, SocketAddr)) -> Option<Reply> {
    let datagram = Datagram::parse_slice(packet, Trust::Verify).ok()?;
    let fits = (datagram.src, datagram.dst) == way && datagram.payload.len() <= LENGTH_MAX;
    fits.then(|| serde_json::from_slice(&datagram.payload).ok()).flatten()
}

fn open(link: &Link, to: SocketAddr) -> io::Result<UdpSocket> {
    let (domain, any) = match to {
        SocketAddr::V4(_) => (Domain::IPV4, IpAddr::from(Ipv4Addr::UNSPECIFIED)),
        SocketAddr::V6(_) => (Domain::IPV6, Ipv6Addr::UNSPECIFIED.into()),
    };
    let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?;
    if let Some(interface) = &link.interface {
        socket.bind_device(Some(interface.as_bytes()))?;
    }
    if let Some(mark) = link.mark {
        socket.set_mark(mark)?;
    }
    socket.bind(&SocketAddr::new(link.source.unwrap_or(any), 0).into())?;
    socket.set_read_timeout(Some(std::time::Duration::from_millis(100)))?;
    Ok(socket.into())
}

/// Sends; that nobody listens at the moment is no reason to give up.
fn send(socket: &UdpSocket, datagram: &[u8], to: SocketAddr) -> io::Result<()> {
    match socket.send_to(datagram, to) {
        Err(error) if !is_late(&error) => Err(error),
        _ => Ok(()),
    }
}

fn is_late(error: &io::Error) -> bool {
    let passing = [ErrorKind::WouldBlock, ErrorKind::TimedOut, ErrorKind::ConnectionRefused];
    passing.contains(&error.kind()) || error.kind() == ErrorKind::Interrupted
}
