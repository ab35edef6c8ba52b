//! An emulated link between two namespaces: a TUN device at each end, one thread between them.
//!
//! Each direction is a drop-tail queue, a rate, loss, a delay and, on demand, reordering, a
//! middlebox that strips options, a black hole. Everything can be changed while it runs. It shapes
//! real packets in real time, so it is right to about a millisecond, no better.
#![expect(unsafe_code, reason = "ppoll and TUNSETIFF by the system's own structures")]

use super::namespace::Namespace;
use super::packet::{ACK, SYN, Tcp};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// A link with ends A and B.
pub(crate) struct Link {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// Which way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    AToB = 0,
    BToA = 1,
}

/// How one direction treats packets.
#[derive(Clone, Debug)]
pub(crate) struct Conditions {
    /// Bits a second.
    pub(crate) rate: u64,
    /// Bytes that may wait for the rate; more are dropped.
    pub(crate) queue: u64,
    /// One way, after the rate.
    pub(crate) delay: Duration,
    /// Probability that a packet is lost.
    pub(crate) loss: f64,
    /// Probability that a packet is held back, and for how long: later ones overtake it.
    pub(crate) reorder: (f64, Duration),
    /// Every packet vanishes.
    pub(crate) down: bool,
    /// What a middlebox takes out.
    pub(crate) strip: Strip,
    /// The next data packet is answered with a RST to both ends, and dropped.
    pub(crate) reset_next: bool,
    /// The next data packet is changed, with a right TCP checksum.
    pub(crate) damage_next: bool,
}

impl Conditions {
    /// A rate, Mbit/s, a delay, ms, and a queue, bytes; nothing else happens to packets.
    pub(crate) fn new(mbits: u64, delay_ms: u64, queue: u64) -> Self {
        Self {
            rate: mbits * 1_000_000,
            queue,
            delay: Duration::from_millis(delay_ms),
            loss: 0.0,
            reorder: (0.0, Duration::ZERO),
            down: false,
            strip: Strip::Nothing,
            reset_next: false,
            damage_next: false,
        }
    }
}

/// From which packets MPTCP options are taken out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Strip {
    Nothing,
    /// From every packet.
    All,
    /// From every packet that opens a connection's other direction.
    SynAck,
    /// From every packet but SYN and SYN/ACK: the handshake looks fine, data does not.
    AfterSyn,
}

/// What one direction has done.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Counters {
    /// Packets delivered.
    pub(crate) packets: u64,
    /// TCP payload delivered, bytes.
    pub(crate) payload: u64,
    /// Packets that found the queue full.
    pub(crate) overflowed: u64,
    /// Packets lost on the way, or because it is down.
    pub(crate) lost: u64,
    /// Packets held back.
    pub(crate) reordered: u64,
    /// Packets that had options taken out.
    pub(crate) stripped: u64,
    /// MPTCP options seen before any were taken out, by subtype.
    pub(crate) options: [u64; 16],
    /// DSS mappings of data, seen likewise, that have no checksum.
    pub(crate) unchecked_mappings: u64,
    /// Largest packet seen, bytes.
    pub(crate) largest: usize,
}

struct Shared {
    ways: [Mutex<(Conditions, Counters)>; 2],
    stop: AtomicBool,
}

impl Link {
    /// Makes the devices (without addresses, up) and starts forwarding.
    pub(crate) fn new(
        a: (&Namespace, &str),
        b: (&Namespace, &str),
        mtu: u16,
        conditions: &Conditions,
        seed: u64,
    ) -> Self {
        let ends = [a, b].map(|(namespace, name)| {
            let device = namespace.inside(|| open_tun(name));
            namespace.ip(&format!("link set {name} mtu {mtu} txqueuelen 1000 up"));
            device
        });
        let way = || Mutex::new((conditions.clone(), Counters::default()));
        let shared = Arc::new(Shared { ways: [way(), way()], stop: AtomicBool::new(false) });
        let forwarder = Forwarder {
            ends,
            pipes: [Pipe::new(seed), Pipe::new(seed.wrapping_add(1))],
            shared: shared.clone(),
        };
        Self { shared, thread: Some(thread::spawn(move || forwarder.run())) }
    }

    /// Changes both directions.
    pub(crate) fn set(&self, change: impl Fn(&mut Conditions)) {
        for way in [Way::AToB, Way::BToA] {
            self.set_way(way, &change);
        }
    }

    /// Changes one direction.
    pub(crate) fn set_way(&self, way: Way, change: impl FnOnce(&mut Conditions)) {
        change(&mut self.way(way).0);
    }

    /// What a direction has done so far.
    pub(crate) fn counters(&self, way: Way) -> Counters {
        self.way(way).1
    }

    /// Options of a subtype seen in both directions.
    pub(crate) fn options(&self, subtype: usize) -> u64 {
        let seen = |way| self.counters(way).options[subtype];
        seen(Way::AToB) + seen(Way::BToA)
    }

    fn way(&self, way: Way) -> MutexGuard<'_, (Conditions, Counters)> {
        lock(&self.shared.ways[way as usize])
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// The packets of one direction that are on their way.
struct Pipe {
    /// When the last packet has left the queue.
    free_at: Instant,
    /// On the wire, by arrival; the number keeps equal times in order.
    flying: BinaryHeap<Reverse<(Instant, u64, Vec<u8>)>>,
    sent: u64,
    random: u64,
}

impl Pipe {
    fn new(seed: u64) -> Self {
        let random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        Self { free_at: Instant::now(), flying: BinaryHeap::new(), sent: 0, random }
    }

    /// Xorshift: enough to lose packets with.
    fn chance(&mut self, probability: f64) -> bool {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) as f64 / (1u64 << 53) as f64 - probability < 0.0
    }

    fn admit(&mut self, now: Instant, packet: Vec<u8>, c: &Conditions, n: &mut Counters) {
        let waiting = self.free_at.saturating_duration_since(now).as_secs_f64();
        let queued = waiting * c.rate as f64 / 8.0;
        if queued + packet.len() as f64 > c.queue as f64 {
            n.overflowed += 1;
            return;
        }
        let serialisation = Duration::from_secs_f64(packet.len() as f64 * 8.0 / c.rate as f64);
        self.free_at = self.free_at.max(now) + serialisation;
        if c.down || self.chance(c.loss) {
            n.lost += 1;
            return;
        }
        let mut due = self.free_at + c.delay;
        if self.chance(c.reorder.0) {
            n.reordered += 1;
            due += c.reorder.1;
        }
        self.fly(due, packet);
    }

    fn fly(&mut self, due: Instant, packet: Vec<u8>) {
        self.sent += 1;
        self.flying.push(Reverse((due, self.sent, packet)));
    }
}

/// The thread.
struct Forwarder {
    ends: [File; 2],
    pipes: [Pipe; 2],
    shared: Arc<Shared>,
}

impl Forwarder {
    fn run(mut self) {
        let mut buffer = vec![0u8; 65_536];
        while !self.shared.stop.load(Ordering::Relaxed) {
            let now = Instant::now();
            for way in [Way::AToB, Way::BToA] {
                self.deliver(now, way);
            }
            let next = self.pipes.iter().filter_map(|pipe| pipe.flying.peek()).map(|p| p.0.0).min();
            let idle = Duration::from_millis(20);
            self.wait(next.map_or(idle, |at| at.saturating_duration_since(now).min(idle)));
            for way in [Way::AToB, Way::BToA] {
                // A bound, so that one direction cannot starve the other.
                for _ in 0..64 {
                    let Ok(len) = self.ends[way as usize].read(&mut buffer) else { break };
                    self.take(way, &buffer[..len]);
                }
            }
        }
    }

    fn deliver(&mut self, now: Instant, way: Way) {
        let pipe = &mut self.pipes[way as usize];
        while pipe.flying.peek().is_some_and(|Reverse((due, ..))| *due <= now) {
            let Some(Reverse((_, _, packet))) = pipe.flying.pop() else { break };
            let mut state = lock(&self.shared.ways[way as usize]);
            state.1.packets += 1;
            state.1.payload += Tcp::of(&packet).map_or(0, |tcp| tcp.payload_len() as u64);
            drop(state);
            // A device that is down or full loses the packet, as a link does.
            let _ = self.ends[1 - way as usize].write(&packet);
        }
    }

    fn wait(&self, timeout: Duration) {
        let poll =
            |end: &File| libc::pollfd { fd: end.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        let mut polled = [poll(&self.ends[0]), poll(&self.ends[1])];
        let timeout = libc::timespec {
            tv_sec: timeout.as_secs() as libc::time_t,
            tv_nsec: timeout.subsec_nanos().into(),
        };
        // SAFETY: the array and the timeout live through the call, and the length is right.
        unsafe { libc::ppoll(polled.as_mut_ptr(), 2, &timeout, std::ptr::null()) };
    }

    /// A packet from the end where `way` begins.
    fn take(&mut self, way: Way, bytes: &[u8]) {
        let now = Instant::now();
        let mut packet = bytes.to_vec();
        let mut state = lock(&self.shared.ways[way as usize]);
        let (conditions, counters) = &mut *state;
        counters.largest = counters.largest.max(packet.len());
        if let Some(tcp) = Tcp::of(&packet) {
            for (at, len, subtype) in tcp.mptcp(&packet) {
                counters.options[usize::from(subtype)] += 1;
                let unchecked = subtype == 2 && is_unchecked_mapping(&packet[at..at + len]);
                counters.unchecked_mappings += u64::from(unchecked);
            }
            if tcp.payload_len() > 0 && std::mem::take(&mut conditions.reset_next) {
                drop(state);
                self.pipes[way as usize].fly(now, tcp.reset_upstream(&packet));
                self.pipes[1 - way as usize].fly(now, tcp.reset_back(&packet));
                return;
            }
            if tcp.payload_len() > 0 && std::mem::take(&mut conditions.damage_next) {
                tcp.damage(&mut packet);
            }
            let opening = tcp.flags & SYN != 0;
            let strip = match conditions.strip {
                Strip::Nothing => false,
                Strip::All => true,
                Strip::SynAck => opening && tcp.flags & ACK != 0,
                Strip::AfterSyn => !opening,
            };
            if strip && tcp.strip_mptcp(&mut packet) {
                counters.stripped += 1;
            }
        }
        self.pipes[way as usize].admit(now, packet, conditions, counters);
    }
}

/// Whether a DSS option maps data and has no room for a checksum.
fn is_unchecked_mapping(option: &[u8]) -> bool {
    let flag = |bit: u8, yes: usize, no: usize| if option[3] & bit != 0 { yes } else { no };
    let ack = flag(1, flag(2, 8, 4), 0);
    let mapping = flag(4, flag(8, 8, 4) + 6, 0);
    mapping > 0 && option.len() == 4 + ack + mapping
}

/// A TUN device without packet information, in the namespace of the calling thread.
fn open_tun(name: &str) -> File {
    let device = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open("/dev/net/tun")
        .expect("/dev/net/tun can be opened");
    let name = CString::new(name).expect("invariant: our names have no NUL");
    // SAFETY: all-zero is a valid ifreq; the name is copied within its bounds, NUL included.
    let done = unsafe {
        let mut request: libc::ifreq = std::mem::zeroed();
        for (to, from) in request.ifr_name.iter_mut().zip(name.as_bytes()) {
            *to = *from as libc::c_char;
        }
        request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
        libc::ioctl(device.as_raw_fd(), libc::TUNSETIFF, &request)
    };
    assert_eq!(done, 0, "TUNSETIFF {name:?}: {}", io::Error::last_os_error());
    device
}
