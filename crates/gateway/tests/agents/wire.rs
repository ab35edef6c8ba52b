//! What is between a client and a server on one path, and all that can be wrong with it.

use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Forwards datagrams to the server and back.
pub(crate) struct Wire {
    pub(crate) near: SocketAddr,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// How it treats datagrams, both ways; probabilities from 0 to 1.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Faults {
    /// Nothing arrives.
    pub(crate) cut: bool,
    pub(crate) lose: f64,
    /// Arrives twice.
    pub(crate) copy: f64,
    /// Arrives once more, after a second.
    pub(crate) replay: f64,
    /// Held back for up to 20 ms: later ones overtake it.
    pub(crate) hold: f64,
    /// A bit is wrong.
    pub(crate) damage: f64,
    /// The end is missing.
    pub(crate) truncate: f64,
    /// Longer ones vanish without a word; 0: none is too long.
    pub(crate) largest: usize,
}

struct Shared {
    faults: Mutex<Faults>,
    /// Take another address towards the server, as a NAT does that has forgotten.
    rebind: AtomicBool,
    ended: AtomicBool,
    answers: AtomicU64,
}

/// The thread's side.
struct UpstreamClient {
    near: UdpSocket,
    out: UdpSocket,
    far: SocketAddr,
    user: Option<SocketAddr>,
    /// Each datagram holds up the next so long.
    pace: Duration,
    /// When the last one may leave, each way.
    busy: [Instant; 2],
    /// By when they leave, and in order; upwards or not.
    held: BTreeMap<(Instant, u64), (bool, Vec<u8>)>,
    count: u64,
    random: u64,
    shared: Arc<Shared>,
}

impl Wire {
    pub(crate) fn to(far: SocketAddr) -> Self {
        Self::slow(far, Duration::ZERO)
    }

    /// One that keeps every datagram so long, one after the other.
    pub(crate) fn slow(far: SocketAddr, pace: Duration) -> Self {
        let near = socket(far);
        let shared = Arc::new(Shared {
            faults: Mutex::new(Faults::default()),
            rebind: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            answers: AtomicU64::new(0),
        });
        let now = Instant::now();
        let upstream = UpstreamClient {
            near: near.try_clone().unwrap(),
            out: socket(far),
            far,
            user: None,
            pace,
            busy: [now, now],
            held: BTreeMap::new(),
            count: 0,
            random: 0x9e37_79b9_7f4a_7c15,
            shared: shared.clone(),
        };
        let thread = Some(thread::spawn(move || upstream.run()));
        Self { near: near.local_addr().unwrap(), shared, thread }
    }

    /// Datagrams that came from the far end.
    pub(crate) fn answers(&self) -> u64 {
        self.shared.answers.load(Ordering::Relaxed)
    }

    pub(crate) fn cut(&self, cut: bool) {
        self.set(Faults { cut, ..Faults::default() });
    }

    pub(crate) fn set(&self, faults: Faults) {
        *self.shared.faults.lock().unwrap() = faults;
    }

    /// From now on the server sees another address.
    pub(crate) fn rebind(&self) {
        self.shared.rebind.store(true, Ordering::Relaxed);
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A socket of the family of `like`, that does not block.
fn socket(like: SocketAddr) -> UdpSocket {
    let any = if like.is_ipv4() { "127.0.0.1:0" } else { "[::1]:0" };
    let socket = UdpSocket::bind(any).unwrap();
    socket.set_nonblocking(true).unwrap();
    socket
}

impl UpstreamClient {
    fn run(mut self) {
        let mut buffer = vec![0; 65_536];
        while !self.shared.ended.load(Ordering::Relaxed) {
            if self.shared.rebind.swap(false, Ordering::Relaxed) {
                self.out = socket(self.far);
            }
            let mut idle = true;
            for _ in 0..256 {
                let Ok((len, from)) = self.near.recv_from(&mut buffer) else { break };
                self.user = Some(from);
                self.take(true, &buffer[..len]);
                idle = false;
            }
            for _ in 0..256 {
                let Ok((len, _)) = self.out.recv_from(&mut buffer) else { break };
                self.shared.answers.fetch_add(1, Ordering::Relaxed);
                self.take(false, &buffer[..len]);
                idle = false;
            }
            self.let_out();
            if idle {
                thread::sleep(Duration::from_micros(300));
            }
        }
    }

    fn take(&mut self, up: bool, datagram: &[u8]) {
        let faults = *self.shared.faults.lock().unwrap();
        let too_long = faults.largest > 0 && datagram.len() > faults.largest;
        if faults.cut || too_long || self.chance(faults.lose) {
            return;
        }
        let mut datagram = datagram.to_vec();
        if self.chance(faults.damage) {
            let at = self.draw() as usize % datagram.len().max(1);
            datagram[at] ^= 1 << (self.draw() % 8);
        }
        if self.chance(faults.truncate) {
            datagram.truncate(self.draw() as usize % datagram.len().max(1));
        }
        let busy = &mut self.busy[usize::from(up)];
        *busy = (*busy).max(Instant::now()) + self.pace;
        let mut due = *busy;
        if self.chance(faults.hold) {
            due += Duration::from_micros(self.draw() % 20_000);
        }
        if self.chance(faults.copy) {
            self.hold(due, up, datagram.clone());
        }
        if self.chance(faults.replay) {
            self.hold(due + Duration::from_secs(1), up, datagram.clone());
        }
        self.hold(due, up, datagram);
    }

    fn hold(&mut self, due: Instant, up: bool, datagram: Vec<u8>) {
        self.count += 1;
        self.held.insert((due, self.count), (up, datagram));
    }

    fn let_out(&mut self) {
        while let Some(entry) = self.held.first_entry()
            && entry.key().0 <= Instant::now()
        {
            let (up, datagram) = entry.remove();
            // What a socket does not take is lost, as on any link.
            let _ = match self.user {
                _ if up => self.out.send_to(&datagram, self.far),
                Some(user) => self.near.send_to(&datagram, user),
                None => Ok(0),
            };
        }
    }

    /// Xorshift: enough to lose datagrams with.
    fn draw(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random >> 11
    }

    fn chance(&mut self, probability: f64) -> bool {
        probability > 0.0 && (self.draw() as f64 / (1u64 << 53) as f64) < probability
    }
}
