//! Emulated links between UDP sockets: datagrams that come to a link's near end leave from its far
//! end towards one address, and back, as the link model says (queue, rate, loss, delay).
//!
//! One thread that sleeps until a packet is due and measures how late it is. No privilege.

use crate::LabError;
use crate::accuracy::Lateness;
use crate::wires::{Pool, pop_due, wait};
use rustix::event::{PollFd, PollFlags};
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tabane_net::Clock;
use tabane_net::clock::sharpen_timers;
use tabane_sim::link::{Link, LinkConfig, Packet};
use tabane_sim::seed::Seed;

/// Links, ready to carry datagrams.
pub struct Loopback {
    clock: Clock,
    wires: Vec<Wire>,
    stop: UnixStream,
    pool: Pool,
    lateness: Lateness,
}

/// A link with both its ends.
struct Wire {
    near: UdpSocket,
    far: UdpSocket,
    /// Who sent to the near end last.
    user: Option<SocketAddr>,
    up: Link<Datagram>,
    down: Link<Datagram>,
    cut: Arc<AtomicBool>,
}

/// What a datagram carries. On a link it has the headers that sockets do not show, too.
struct Datagram(Vec<u8>);

impl Packet for Datagram {
    fn wire_len(&self) -> u32 {
        self.0.wire_len().saturating_add(HEADERS)
    }
    fn corrupt(&mut self, bits: u64) {
        self.0.corrupt(bits);
    }
    fn duplicate(&self) -> Self {
        Self(self.0.clone())
    }
}

/// What is left to the one who made an emulator.
pub struct Ends {
    /// The near end of each link.
    pub near: Vec<SocketAddr>,
    /// While set, a link carries nothing and says nothing.
    pub cut: Vec<Arc<AtomicBool>>,
    /// Dropped, it ends the emulator.
    pub stop: UnixStream,
}

/// What became of the links.
#[derive(Clone, Default, Debug)]
pub struct Report {
    /// How late packets left the links.
    pub lateness: Lateness,
    /// Packets that queues dropped, and that were lost on the way.
    pub dropped: u64,
    /// See `dropped`.
    pub lost: u64,
}

/// Packets taken from one socket before others have their turn.
const BATCH: usize = 32;
/// Buffers kept: what the queues of both links hold, roughly.
const POOL: usize = 4096;
/// Largest packet.
const PACKET_MAX: usize = 2048;
/// Asked of the kernel for each direction of a socket.
const SOCKET_BUFFER: usize = 4 << 20;
/// Of IPv4 and UDP.
const HEADERS: u32 = 20 + 8;
const NO_SOCKET: &str = "no socket on loopback";
/// Errors of a socket in a row before others have their turn.
const ERRORS: usize = 4;

impl Loopback {
    /// Links to `far`, each by its directions: up and down.
    ///
    /// # Errors
    /// No sockets, or a link that cannot be.
    pub fn new(
        clock: Clock,
        seed: Seed,
        far: SocketAddr,
        links: &[[LinkConfig; 2]],
    ) -> Result<(Self, Ends), LabError> {
        let named = links.iter().enumerate().map(|(i, link)| (i.to_string(), link.clone()));
        Self::named(clock, seed, far, &named.collect::<Vec<_>>())
    }

    /// The same with their names: what a link does at random is what the simulator's link of that
    /// name does.
    ///
    /// # Errors
    /// As [`Loopback::new`].
    pub fn named(
        clock: Clock,
        seed: Seed,
        far: SocketAddr,
        links: &[(String, [LinkConfig; 2])],
    ) -> Result<(Self, Ends), LabError> {
        let (stop, far_stop) = UnixStream::pair().map_err(|e| broken("no socket pair", &e))?;
        let mut ends = Ends { near: Vec::new(), cut: Vec::new(), stop: far_stop };
        let mut wires = Vec::new();
        for (name, [up, down]) in links {
            let (near, to_far) = (socket()?, socket()?);
            to_far.connect(far).map_err(|e| broken(NO_SOCKET, &e))?;
            let cut = Arc::new(AtomicBool::new(false));
            ends.near.push(near.local_addr().map_err(|e| broken(NO_SOCKET, &e))?);
            ends.cut.push(cut.clone());
            let up = Link::new(up, seed, &format!("link/{name}/up"))
                .map_err(|e| LabError::Broken(e.to_string()))?;
            let down = Link::new(down, seed, &format!("link/{name}/down"))
                .map_err(|e| LabError::Broken(e.to_string()))?;
            wires.push(Wire { near, far: to_far, user: None, up, down, cut });
        }
        let (pool, lateness) = (Pool::new(POOL), Lateness::default());
        Ok((Self { clock, wires, stop, pool, lateness }, ends))
    }

    /// Carries packets until the other end of `stop` is dropped.
    ///
    /// # Errors
    /// It cannot wait.
    pub fn run(mut self) -> Result<Report, LabError> {
        sharpen_timers();
        loop {
            self.take_in();
            self.let_out();
            if self.sleep()? {
                break;
            }
        }
        let now = self.clock.now();
        let mut report = Report { lateness: self.lateness, dropped: 0, lost: 0 };
        for wire in &mut self.wires {
            for stats in [wire.up.stats(now), wire.down.stats(now)] {
                report.dropped += stats.dropped.packets;
                report.lost += stats.lost.packets;
            }
        }
        Ok(report)
    }

    fn take_in(&mut self) {
        let Self { clock, wires, pool, .. } = self;
        for wire in wires {
            let cut = wire.cut.load(Ordering::Relaxed);
            for _ in 0..BATCH {
                let Some((packet, from)) = receive(&wire.near, pool) else { break };
                wire.user = Some(from);
                if cut {
                    pool.give_back(packet);
                } else {
                    wire.up.push(clock.now(), Datagram(packet));
                }
            }
            for _ in 0..BATCH {
                let Some((packet, _)) = receive(&wire.far, pool) else { break };
                if cut {
                    pool.give_back(packet);
                } else {
                    wire.down.push(clock.now(), Datagram(packet));
                }
            }
        }
    }

    fn let_out(&mut self) {
        let Self { clock, wires, pool, lateness, .. } = self;
        for Wire { near, far, user, up, down, cut } in wires {
            for upwards in [true, false] {
                let link = if upwards { &mut *up } else { &mut *down };
                while let Some((due, now, Datagram(packet))) = pop_due(link, *clock) {
                    lateness.add(now.saturating_since(due));
                    // What a socket does not take is lost, as on any link.
                    let _ = match user {
                        _ if cut.load(Ordering::Relaxed) => Ok(0),
                        _ if upwards => far.send(&packet),
                        Some(user) => near.send_to(&packet, *user),
                        None => Ok(0),
                    };
                    pool.give_back(packet);
                }
            }
        }
    }

    /// Waits for a packet to come or to be due; whether to end.
    fn sleep(&mut self) -> Result<bool, LabError> {
        let links = self.wires.iter().flat_map(|wire| [&wire.up, &wire.down]);
        let due = links.filter_map(Link::next_event).min();
        let mut fds = vec![PollFd::from_borrowed_fd(self.stop.as_fd(), PollFlags::IN)];
        for wire in &self.wires {
            for socket in [&wire.near, &wire.far] {
                fds.push(PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::IN));
            }
        }
        wait(self.clock, due, &mut fds)
            .map_err(|error| LabError::Broken(format!("cannot wait for packets: {error}")))
    }
}

fn broken(what: &str, error: &std::io::Error) -> LabError {
    LabError::Broken(format!("{what}: {error}"))
}

/// A socket on loopback.
fn socket() -> Result<UdpSocket, LabError> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).map_err(|e| broken(NO_SOCKET, &e))?;
    socket.set_nonblocking(true).map_err(|e| broken(NO_SOCKET, &e))?;
    let options = socket2::SockRef::from(&socket);
    // Best effort: smaller buffers only drop more.
    let _ = options.set_recv_buffer_size(SOCKET_BUFFER);
    let _ = options.set_send_buffer_size(SOCKET_BUFFER);
    Ok(socket)
}

fn receive(socket: &UdpSocket, pool: &mut Pool) -> Option<(Vec<u8>, SocketAddr)> {
    let mut packet = pool.take();
    packet.resize(PACKET_MAX, 0);
    for _ in 0..ERRORS {
        match socket.recv_from(&mut packet) {
            Ok((len, from)) => {
                packet.truncate(len);
                return Some((packet, from));
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            // The ICMP answer to something sent before: packets may lie behind it.
            Err(_) => {}
        }
    }
    pool.give_back(packet);
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use tabane_engine::Duration;
    use tabane_sim::link::DelayConfig;

    /// A packet each way, with the right neighbour, after the right time; none while cut.
    #[test]
    fn packets_take_their_link_and_their_time() {
        let clock = Clock::start();
        let links = [5, 20].map(|millis| {
            let delay = DelayConfig::Constant(Duration::from_millis(millis));
            let way = LinkConfig { delay, ..LinkConfig::default() };
            [way.clone(), way]
        });
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let far = server.local_addr().unwrap();
        let (emulator, ends) = Loopback::new(clock, Seed(1), far, &links).unwrap();
        let thread = std::thread::spawn(move || emulator.run().unwrap());
        let user = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut buffer = [0; 200];
        for (near, millis) in ends.near.iter().zip([5, 20]) {
            let start = clock.now();
            user.send_to(b"there", near).unwrap();
            let (_, from) = server.recv_from(&mut buffer).unwrap();
            assert!(clock.now() - start >= Duration::from_millis(millis));
            server.send_to(b"back", from).unwrap();
            let (len, from) = user.recv_from(&mut buffer).unwrap();
            assert_eq!((&buffer[..len], from), (&b"back"[..], *near));
            assert!(clock.now() - start >= Duration::from_millis(2 * millis));
        }
        ends.cut[0].store(true, Ordering::Relaxed);
        user.send_to(b"lost", ends.near[0]).unwrap();
        user.send_to(b"kept", ends.near[1]).unwrap();
        let (len, _) = server.recv_from(&mut buffer).unwrap();
        assert_eq!(&buffer[..len], b"kept");
        drop(ends);
        assert_eq!(thread.join().unwrap().lateness.count(), 5);
    }
}
