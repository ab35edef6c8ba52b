//! Emulated links between UDP sockets: datagrams that come to a link's near end leave from its far
//! end towards one address, and back, as the link model says (queue, rate, loss, delay).
//!
//! One thread that sleeps until a packet is due and measures how late it is.

use anyhow::Context;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tabane_engine::Duration;
use tabane_net::Clock;
use tabane_net::clock::sharpen_timers;
use tabane_sim::link::{Link, LinkConfig};
use tabane_sim::seed::Seed;

/// The network.
pub(crate) struct Emulator {
    clock: Clock,
    wires: Vec<Wire>,
    stop: UnixStream,
    /// Buffers that no packet is in.
    pool: Vec<Vec<u8>>,
    lateness: Lateness,
}

/// A link with both its ends.
struct Wire {
    near: UdpSocket,
    far: UdpSocket,
    /// Who sent to the near end last.
    user: Option<SocketAddr>,
    up: Link<Vec<u8>>,
    down: Link<Vec<u8>>,
    cut: Arc<AtomicBool>,
}

/// What is left to the one who made an emulator.
pub(crate) struct Ends {
    /// The near end of each link.
    pub(crate) near: Vec<SocketAddr>,
    /// While set, a link carries nothing and says nothing.
    pub(crate) cut: Vec<Arc<AtomicBool>>,
    /// Dropped, it ends the emulator.
    pub(crate) stop: UnixStream,
}
#[derive(Clone, Default, Debug)]
pub(crate) struct Report {
    /// How late packets left the links.
    pub(crate) lateness: Lateness,
    /// Packets that queues dropped, and that were lost on the way.
    pub(crate) dropped: u64,
    /// See `dropped`.
    pub(crate) lost: u64,
}

/// A histogram in steps of 10 us up to 100 ms; what is later is in the last step.
#[derive(Clone, Debug)]
pub(crate) struct Lateness {
    steps: Vec<u32>,
    count: u64,
}

const STEP: u64 = 10_000;
const STEPS: usize = 10_000;
/// Packets taken from one socket before others have their turn.
const BATCH: usize = 32;
/// Buffers kept: what the queues of both links hold, roughly.
const POOL: usize = 4096;
/// Largest packet.
const PACKET_MAX: usize = 2048;
/// Asked of the kernel for each direction of a socket.
const SOCKET_BUFFER: usize = 4 << 20;
/// Errors of a socket in a row before others have their turn.
const ERRORS: usize = 4;

impl Emulator {
    /// Links to `far`, each by its directions: up and down.
    ///
    /// # Errors
    /// No sockets, or a link that cannot be.
    pub(crate) fn new(
        clock: Clock,
        seed: Seed,
        far: SocketAddr,
        links: &[[LinkConfig; 2]],
    ) -> anyhow::Result<(Self, Ends)> {
        let (stop, far_stop) = UnixStream::pair().context("no socket pair")?;
        let mut ends = Ends { near: Vec::new(), cut: Vec::new(), stop: far_stop };
        let mut wires = Vec::new();
        for (i, [up, down]) in links.iter().enumerate() {
            let (near, to_far) = (socket()?, socket()?);
            to_far.connect(far)?;
            let cut = Arc::new(AtomicBool::new(false));
            ends.near.push(near.local_addr()?);
            ends.cut.push(cut.clone());
            let up = Link::new(up, seed, &format!("link/{i}/up"))?;
            let down = Link::new(down, seed, &format!("link/{i}/down"))?;
            wires.push(Wire { near, far: to_far, user: None, up, down, cut });
        }
        let (pool, lateness) = (Vec::new(), Lateness::default());
        Ok((Self { clock, wires, stop, pool, lateness }, ends))
    }

    /// Carries packets until the other end of `stop` is dropped.
    ///
    /// # Errors
    /// It cannot wait.
    pub(crate) fn run(mut self) -> anyhow::Result<Report> {
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
                    give_back(pool, packet);
                } else {
                    wire.up.push(clock.now(), packet);
                }
            }
            for _ in 0..BATCH {
                let Some((packet, _)) = receive(&wire.far, pool) else { break };
                if cut {
                    give_back(pool, packet);
                } else {
                    wire.down.push(clock.now(), packet);
                }
            }
        }
    }

    fn let_out(&mut self) {
        let Self { clock, wires, pool, lateness, .. } = self;
        for Wire { near, far, user, up, down, cut } in wires {
            for upwards in [true, false] {
                let link = if upwards { &mut *up } else { &mut *down };
                loop {
                    let now = clock.now();
                    let Some(due) = link.next_event().filter(|due| *due <= now) else { break };
                    let Some(packet) = link.pop(now) else { continue };
                    lateness.add(now.saturating_since(due));
                    // What a socket does not take is lost, as on any link.
                    let _ = match user {
                        _ if cut.load(Ordering::Relaxed) => Ok(0),
                        _ if upwards => far.send(&packet),
                        Some(user) => near.send_to(&packet, *user),
                        None => Ok(0),
                    };
                    give_back(pool, packet);
                }
            }
        }
    }

    /// Waits for a packet to come or to be due; whether to end.
    fn sleep(&mut self) -> anyhow::Result<bool> {
        let links = self.wires.iter().flat_map(|wire| [&wire.up, &wire.down]);
        let due = links.filter_map(Link::next_event).min();
        let timeout = due.map(|due| {
            let wait = due.saturating_since(self.clock.now()).0;
            Timespec {
                tv_sec: (wait / 1_000_000_000) as i64,
                tv_nsec: (wait % 1_000_000_000) as i64,
            }
        });
        let mut fds = vec![PollFd::from_borrowed_fd(self.stop.as_fd(), PollFlags::IN)];
        for wire in &self.wires {
            for socket in [&wire.near, &wire.far] {
                fds.push(PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::IN));
            }
        }
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) => Ok(!fds[0].revents().is_empty()),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(error) => Err(error).context("cannot wait for packets"),
        }
    }
}

impl Lateness {
    fn add(&mut self, late: Duration) {
        let step = usize::try_from(late.0 / STEP).unwrap_or(usize::MAX).min(STEPS - 1);
        self.steps[step] += 1;
        self.count += 1;
    }

    /// Adds another one's packets.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.count += other.count;
        for (step, count) in self.steps.iter_mut().zip(&other.steps) {
            *step += count;
        }
    }

    /// Packets counted.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// No more than this share of the packets was later than that.
    pub(crate) fn quantile(&self, share: f64) -> Duration {
        let wanted = (self.count as f64 * share).ceil() as u64;
        let mut seen = 0;
        for (step, count) in (1..).zip(&self.steps) {
            seen += u64::from(*count);
            if seen >= wanted {
                return Duration(step * STEP);
            }
        }
        Duration(STEP * STEPS as u64)
    }
}

impl Default for Lateness {
    fn default() -> Self {
        Self { steps: vec![0; STEPS], count: 0 }
    }
}

/// A socket on loopback.
fn socket() -> anyhow::Result<UdpSocket> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).context("no socket on loopback")?;
    socket.set_nonblocking(true)?;
    let options = socket2::SockRef::from(&socket);
    // Best effort: smaller buffers only drop more.
    let _ = options.set_recv_buffer_size(SOCKET_BUFFER);
    let _ = options.set_send_buffer_size(SOCKET_BUFFER);
    Ok(socket)
}

fn receive(socket: &UdpSocket, pool: &mut Vec<Vec<u8>>) -> Option<(Vec<u8>, SocketAddr)> {
    let mut packet = pool.pop().unwrap_or_default();
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
    give_back(pool, packet);
    None
}

fn give_back(pool: &mut Vec<Vec<u8>>, packet: Vec<u8>) {
    if pool.len() < POOL {
        pool.push(packet);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tabane_sim::link::DelayConfig;

    #[test]
    fn quantiles_are_upper_bounds() {
        let mut lateness = Lateness::default();
        for us in 1..=100 {
            lateness.add(Duration::from_micros(us * 100));
        }
        lateness.add(Duration::from_secs(9));
        assert_eq!(lateness.count(), 101);
        let median = lateness.quantile(0.5).as_micros();
        assert!((5_100..=5_110).contains(&median), "{median}");
        assert_eq!(lateness.quantile(1.0), Duration::from_millis(100));
    }

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
        let (emulator, ends) = Emulator::new(clock, Seed(1), far, &links).unwrap();
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
