//! The network between the two ends of the demo: UDP sockets, and the simulator's link model in
//! real time. The client has a socket for each link, the server has one; packets for the client
//! are told apart by their destination, as a router does.
//!
//! One thread does all links. It sleeps until the next packet is due and measures how late it is.

use anyhow::Context;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use tabane_engine::Duration;
use tabane_net::clock::sharpen_timers;
use tabane_net::device::UdpDevice;
use tabane_net::{Clock, PathDevice};
use tabane_sim::link::{Link, LinkConfig};
use tabane_sim::seed::Seed;

/// The network.
pub(crate) struct Emulator {
    clock: Clock,
    wires: Vec<Wire>,
    server: UdpDevice,
    stop: UnixStream,
    /// Buffers that no packet is in.
    pool: Vec<Vec<u8>>,
    lateness: Lateness,
}

/// A link with the client's end of it.
struct Wire {
    /// The client's address on it.
    client: IpAddr,
    device: UdpDevice,
    up: Link<Vec<u8>>,
    down: Link<Vec<u8>>,
}

/// The ends that belong to an emulator.
pub(crate) struct Ends {
    /// The client's device of each link.
    pub(crate) clients: Vec<UdpDevice>,
    /// The server's device.
    pub(crate) server: UdpDevice,
    /// Dropped, it ends the emulator.
    pub(crate) stop: UnixStream,
}

/// What came of it.
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

impl Emulator {
    /// A network of these links, each with the client's address on it.
    ///
    /// # Errors
    /// No sockets, or a link that cannot be.
    pub(crate) fn new(
        clock: Clock,
        seed: Seed,
        links: &[(IpAddr, LinkConfig)],
    ) -> anyhow::Result<(Self, Ends)> {
        let (server, far_server) = pair()?;
        let (mut wires, mut clients) = (Vec::new(), Vec::new());
        for (i, (client, config)) in links.iter().enumerate() {
            let (device, far) = pair()?;
            clients.push(far);
            let up = Link::new(config, seed, &format!("link/{i}/up"))?;
            let down = Link::new(config, seed, &format!("link/{i}/down"))?;
            wires.push(Wire { client: *client, device, up, down });
        }
        let (stop, far_stop) = UnixStream::pair().context("no socket pair")?;
        let (pool, lateness) = (Vec::new(), Lateness::default());
        let emulator = Self { clock, wires, server, stop, pool, lateness };
        Ok((emulator, Ends { clients, server: far_server, stop: far_stop }))
    }

    /// Carries packets until the other end of `stop` is dropped.
    ///
    /// # Errors
    /// A socket that is gone.
    pub(crate) fn run(mut self) -> anyhow::Result<Report> {
        sharpen_timers();
        loop {
            self.take_in()?;
            self.let_out()?;
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

    fn take_in(&mut self) -> anyhow::Result<()> {
        for wire in &mut self.wires {
            for _ in 0..BATCH {
                let Some(packet) = receive(&mut wire.device, &mut self.pool)? else { break };
                wire.up.push(self.clock.now(), packet);
            }
        }
        for _ in 0..BATCH * self.wires.len() {
            let Some(packet) = receive(&mut self.server, &mut self.pool)? else { break };
            let to = destination(&packet);
            match self.wires.iter_mut().find(|wire| Some(wire.client) == to) {
                Some(wire) => wire.down.push(self.clock.now(), packet),
                None => give_back(&mut self.pool, packet),
            }
        }
        Ok(())
    }

    fn let_out(&mut self) -> anyhow::Result<()> {
        let Self { clock, wires, server, pool, lateness, .. } = self;
        for Wire { device, up, down, .. } in wires {
            let ways: [(&mut Link<Vec<u8>>, &mut UdpDevice); 2] = [(up, server), (down, device)];
            for (link, to) in ways {
                loop {
                    let now = clock.now();
                    let Some(due) = link.next_event().filter(|due| *due <= now) else { break };
                    let Some(packet) = link.pop(now) else { continue };
                    lateness.add(now.saturating_since(due));
                    // What the socket does not take is lost, as on any link.
                    to.send(&packet)?;
                    give_back(pool, packet);
                }
            }
        }
        Ok(())
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
        let mut fds = vec![
            PollFd::from_borrowed_fd(self.stop.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.server.fd(), PollFlags::IN),
        ];
        for wire in &self.wires {
            fds.push(PollFd::from_borrowed_fd(wire.device.fd(), PollFlags::IN));
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

/// Two sockets on loopback that know each other.
fn pair() -> anyhow::Result<(UdpDevice, UdpDevice)> {
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let (near, far) = (UdpDevice::bind(any)?, UdpDevice::bind(any)?);
    near.connect(far.local_addr()?)?;
    far.connect(near.local_addr()?)?;
    Ok((near, far))
}

fn receive(device: &mut UdpDevice, pool: &mut Vec<Vec<u8>>) -> anyhow::Result<Option<Vec<u8>>> {
    let mut packet = pool.pop().unwrap_or_default();
    packet.resize(PACKET_MAX, 0);
    match device.recv(&mut packet)? {
        Some(len) => {
            packet.truncate(len);
            Ok(Some(packet))
        }
        None => {
            give_back(pool, packet);
            Ok(None)
        }
    }
}

fn give_back(pool: &mut Vec<Vec<u8>>, packet: Vec<u8>) {
    if pool.len() < POOL {
        pool.push(packet);
    }
}

/// Where an IPv4 packet goes.
fn destination(packet: &[u8]) -> Option<IpAddr> {
    let octets: [u8; 4] = packet.get(16..20)?.try_into().ok()?;
    (packet[0] >> 4 == 4).then(|| IpAddr::from(octets))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cmd::demo::links::LinkSpec;

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

    /// A packet each way, with the right neighbour, after the right time.
    #[test]
    fn packets_take_their_link_and_their_time() {
        let clock = Clock::start();
        let links: Vec<(IpAddr, LinkConfig)> = [("10.81.1.1", "5"), ("10.81.2.1", "20")]
            .iter()
            .map(|(ip, delay)| {
                let changes = format!("delay={delay},loss=0").parse().unwrap();
                (ip.parse().unwrap(), LinkSpec::lte().with(&changes).config())
            })
            .collect();
        let (emulator, mut ends) = Emulator::new(clock, Seed(1), &links).unwrap();
        let thread = std::thread::spawn(move || emulator.run().unwrap());
        let mut packet = vec![0_u8; 100];
        packet[0] = 0x45;
        packet[16..20].copy_from_slice(&[10, 81, 2, 1]);
        let start = clock.now();
        assert!(ends.server.send(&packet).unwrap());
        assert!(ends.clients[0].send(&packet).unwrap());
        let mut buffer = [0; 200];
        let mut wait = |device: &mut UdpDevice| {
            while device.recv(&mut buffer).unwrap().is_none() {
                assert!(clock.now() - start < Duration::from_secs(10), "it never came");
                std::thread::yield_now();
            }
            clock.now() - start
        };
        assert!(wait(&mut ends.server) >= Duration::from_millis(5));
        assert!(wait(&mut ends.clients[1]) >= Duration::from_millis(20));
        assert_eq!(ends.clients[0].recv(&mut buffer).unwrap(), None);
        drop(ends);
        assert_eq!(thread.join().unwrap().lateness.count(), 2);
    }
}
