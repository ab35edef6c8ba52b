//! The run loop of an [`Endpoint`] with real devices and a real clock.
//!
//! One thread, no queues of its own: what a device cannot take is dropped and counted, and the
//! engine's congestion control does the rest. It sleeps in `ppoll` until a packet comes, a timer
//! of the engine or of the application is due, or somebody calls [`Waker::wake`].

use crate::clock::{Clock, sharpen_timers};
use crate::device::PathDevice;
use crate::icmp::{self, Answer, SentLog};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tabane_engine::config::PathConfig;
use tabane_engine::view::PathId;
use tabane_engine::{ConnId, Duration, Endpoint, Event, Instant};
use thiserror::Error;

/// Runs an endpoint.
pub struct Driver {
    endpoint: Endpoint,
    clock: Clock,
    paths: Vec<Path>,
    waker: Waker,
    wakeups: u64,
    buffer: Vec<u8>,
}

/// What runs on the endpoint. Called on the driver's thread; must not block.
pub trait App {
    /// Something happened to a connection.
    fn on_event(&mut self, endpoint: &mut Endpoint, now: Instant, conn: ConnId, event: Event);

    /// Called in every round of the loop, after the events.
    fn on_wakeup(&mut self, _endpoint: &mut Endpoint, _now: Instant) {}

    /// When `on_wakeup` wants to be called at the latest.
    fn next_wakeup(&self) -> Option<Instant> {
        None
    }

    /// Stop (`false`) or go on reading what a connection receives, so that its window closes.
    fn set_reading(&mut self, _endpoint: &mut Endpoint, _now: Instant, _: ConnId, _on: bool) {}

    /// The driver was stopped: last words, which are sent before it ends.
    fn on_stop(&mut self, _endpoint: &mut Endpoint, _now: Instant) {}

    /// Whether the work is done: the loop then ends once all that is due has been sent.
    fn is_done(&self) -> bool {
        false
    }
}

/// A way out: a device with a name.
pub struct Path {
    id: PathId,
    label: String,
    /// Addresses of this host on it.
    addresses: Vec<IpAddr>,
    device: Box<dyn PathDevice>,
    counters: Arc<Counters>,
    sent: SentLog,
    alive: bool,
}

/// Counters of a path; written by the driver, read by anybody.
#[derive(Default, Debug)]
pub struct Counters {
    /// Packets received.
    pub rx_packets: AtomicU64,
    /// Their bytes.
    pub rx_bytes: AtomicU64,
    /// Packets that the device took.
    pub tx_packets: AtomicU64,
    /// Their bytes.
    pub tx_bytes: AtomicU64,
    /// Packets that the device did not take.
    pub tx_dropped: AtomicU64,
}

/// Wakes or stops a driver from another thread.
#[derive(Clone, Debug)]
pub struct Waker {
    event: Arc<OwnedFd>,
    stopped: Arc<AtomicBool>,
}

/// Why the loop ended before its time.
#[derive(Error, Debug)]
pub enum DriverError {
    /// Nothing to wait with.
    #[error("cannot set up the event loop: {0}")]
    Setup(#[source] io::Error),
    /// Waiting failed.
    #[error("cannot wait for packets: {0}")]
    Poll(#[source] io::Error),
    /// Every device is gone.
    #[error("the last device, {label}, is gone: {source}")]
    Devices {
        label: String,
        /// The system's word.
        source: io::Error,
    },
}

/// Packets taken from one device before others have their turn.
const RX_BATCH: usize = 64;
/// Packets sent before incoming ones have their turn.
const TX_BATCH: usize = 256;
/// Largest IP packet.
const PACKET_MAX: usize = 65_536;
/// Rounds in a row without a packet and with a timer that is due already, before the loop sleeps
/// all the same.
const IDLE_ROUNDS: u32 = 64;
/// That sleep.
const IDLE_SLEEP: Duration = Duration::from_millis(1);

impl Driver {
    /// A driver of `endpoint`, whose `Config::paths` must be these paths.
    ///
    /// # Errors
    /// [`DriverError::Setup`].
    pub fn new(endpoint: Endpoint, clock: Clock, paths: Vec<Path>) -> Result<Self, DriverError> {
        let flags = EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC;
        let event = eventfd(0, flags).map_err(|e| DriverError::Setup(e.into()))?;
        let waker = Waker { event: Arc::new(event), stopped: Arc::new(AtomicBool::new(false)) };
        let buffer = vec![0; PACKET_MAX];
        Ok(Self { endpoint, clock, paths, waker, wakeups: 0, buffer })
    }

    /// The endpoint, before or after a run.
    pub fn endpoint(&mut self) -> &mut Endpoint {
        &mut self.endpoint
    }

    /// Its paths.
    #[must_use]
    pub fn paths(&self) -> &[Path] {
        &self.paths
    }

    /// The clock of this driver.
    #[must_use]
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// To wake or stop it.
    #[must_use]
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// Times it woke up so far.
    #[must_use]
    pub fn wakeups(&self) -> u64 {
        self.wakeups
    }

    /// Runs until `app` is done or somebody stops it.
    ///
    /// # Errors
    /// [`DriverError`].
    pub fn run(&mut self, app: &mut dyn App) -> Result<(), DriverError> {
        sharpen_timers();
        let mut idle_rounds = 0;
        while !self.waker.stopped.load(Ordering::Relaxed) {
            self.wakeups += 1;
            let received = self.receive()?;
            let now = self.clock.now();
            if self.endpoint.poll_timeout().is_some_and(|due| due <= now) {
                self.endpoint.handle_timeout(now);
            }
            self.events(app, now);
            app.on_wakeup(&mut self.endpoint, now);
            let sent = self.transmit()?;
            // Sending makes events (the last words of a connection), and those more to send.
            let told = self.events(app, self.clock.now());
            if told || received == Progress::More || sent == Progress::More {
                continue;
            }
            if app.is_done() {
                return Ok(());
            }
            let quiet = received == Progress::Nothing && sent == Progress::Nothing;
            idle_rounds = if quiet { idle_rounds + 1 } else { 0 };
            let due = earlier(self.endpoint.poll_timeout(), app.next_wakeup());
            self.sleep(due, idle_rounds > IDLE_ROUNDS)?;
        }
        app.on_stop(&mut self.endpoint, self.clock.now());
        self.transmit().map(|_| ())
    }

    /// Hands out events; whether there were any.
    fn events(&mut self, app: &mut dyn App, now: Instant) -> bool {
        let mut any = false;
        while let Some((conn, event)) = self.endpoint.poll_event() {
            app.on_event(&mut self.endpoint, now, conn, event);
            any = true;
        }
        any
    }

    /// Takes a batch from every device.
    fn receive(&mut self) -> Result<Progress, DriverError> {
        let mut progress = Progress::Nothing;
        for i in 0..self.paths.len() {
            for taken in 0..RX_BATCH {
                let path = &mut self.paths[i];
                if !path.alive {
                    break;
                }
                let len = match path.device.recv(&mut self.buffer) {
                    Ok(Some(len)) => len,
                    Ok(None) => break,
                    Err(source) => {
                        self.lose(i, source)?;
                        break;
                    }
                };
                let more = taken + 1 == RX_BATCH;
                progress = progress.max(if more { Progress::More } else { Progress::Some });
                self.take(i, len);
            }
        }
        Ok(progress)
    }

    /// Gives the packet in the buffer to the engine, or answers it.
    fn take(&mut self, i: usize, len: usize) {
        let now = self.clock.now();
        let path = &mut self.paths[i];
        add(&path.counters.rx_packets, 1);
        add(&path.counters.rx_bytes, len as u64);
        let packet = &self.buffer[..len];
        match icmp::answer(packet, &path.addresses) {
            Answer::NotIcmp => self.endpoint.handle_packet(now, path.id, packet),
            Answer::TooBig(report) => {
                if let Some(mtu) = path.sent.believe(&report) {
                    self.endpoint.set_path_mtu(now, path.id, mtu);
                }
            }
            Answer::Reply(reply) => {
                // A device that is gone is noticed when it is read.
                let taken = path.device.send(&reply).unwrap_or(false);
                path.count_sent(taken, reply.len());
            }
            Answer::Ignored => {}
        }
    }

    /// Sends a batch of what the engine has to send.
    fn transmit(&mut self) -> Result<Progress, DriverError> {
        for sent in 0..TX_BATCH {
            let now = self.clock.now();
            let Some(transmit) = self.endpoint.poll_transmit(now, &mut self.buffer) else {
                return Ok(if sent == 0 { Progress::Nothing } else { Progress::Some });
            };
            for i in 0..self.paths.len() {
                if transmit.paths.contains(self.paths[i].id) {
                    self.send(i, transmit.len)?;
                }
            }
        }
        Ok(Progress::More)
    }

    fn send(&mut self, i: usize, len: usize) -> Result<(), DriverError> {
        let path = &mut self.paths[i];
        let packet = &self.buffer[..len];
        if !path.alive {
            path.count_sent(false, len);
            return Ok(());
        }
        match path.device.send(packet) {
            Ok(taken) => {
                path.count_sent(taken, len);
                path.sent.note(packet);
            }
            Err(source) => return self.lose(i, source),
        }
        Ok(())
    }

    /// A device is gone: its path is down for good, which only matters if it was the last.
    fn lose(&mut self, i: usize, source: io::Error) -> Result<(), DriverError> {
        self.paths[i].alive = false;
        self.endpoint.set_path_up(self.clock.now(), self.paths[i].id, false);
        if self.paths.iter().any(|path| path.alive) {
            return Ok(());
        }
        Err(DriverError::Devices { label: self.paths[i].label.clone(), source })
    }

    /// Waits for a packet, a wake or `due`.
    fn sleep(&mut self, due: Option<Instant>, at_least: bool) -> Result<(), DriverError> {
        let now = self.clock.now();
        let mut wait = due.map(|due| due.saturating_since(now));
        if at_least {
            wait = wait.map(|wait| wait.max(IDLE_SLEEP));
        }
        let timeout = wait.map(|wait| Timespec {
            tv_sec: (wait.0 / 1_000_000_000) as i64,
            tv_nsec: (wait.0 % 1_000_000_000) as i64,
        });
        let mut alive = self.paths.iter().filter(|path| path.alive);
        let count = 1 + alive.clone().count();
        // On the stack: this runs once a wakeup. The engine knows at most 64 paths.
        let mut fds: [PollFd<'_>; 65] = std::array::from_fn(|i| {
            let fd = if i == 0 { None } else { alive.next().map(|path| path.device.fd()) };
            PollFd::from_borrowed_fd(fd.unwrap_or(self.waker.event.as_fd()), PollFlags::IN)
        });
        match poll(&mut fds[..count.min(65)], timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(DriverError::Poll(error.into())),
        }
        if fds[0].revents().contains(PollFlags::IN) {
            // Takes the count, which makes it wait again.
            let _ = rustix::io::read(self.waker.event.as_fd(), &mut [0; 8]);
        }
        Ok(())
    }
}

impl Path {
    /// A path that the endpoint knows by this configuration.
    #[must_use]
    pub fn new(config: &PathConfig, label: &str, device: Box<dyn PathDevice>) -> Self {
        let counters = Arc::new(Counters::default());
        let (addresses, sent) = (config.addresses.clone(), SentLog::default());
        Self {
            id: config.id,
            label: label.to_owned(),
            addresses,
            device,
            counters,
            sent,
            alive: true,
        }
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> PathId {
        self.id
    }

    #[must_use]
    pub fn label(&self) -> &str {
        &self.label
    }

    /// Its counters, which go on being written.
    #[must_use]
    pub fn counters(&self) -> Arc<Counters> {
        self.counters.clone()
    }

    fn count_sent(&self, taken: bool, len: usize) {
        if taken {
            add(&self.counters.tx_packets, 1);
            add(&self.counters.tx_bytes, len as u64);
        } else {
            add(&self.counters.tx_dropped, 1);
        }
    }
}

impl Waker {
    /// Makes the driver go round once.
    pub fn wake(&self) {
        // Full means that it is about to wake anyway.
        let _ = rustix::io::write(self.event.as_fd(), &1_u64.to_ne_bytes());
    }

    /// Makes the driver's `run` return.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
        self.wake();
    }

    /// Whether `stop` was called.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }
}

/// What a batch did.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Progress {
    Nothing,
    Some,
    More,
}

/// One writer: a plain load and store is enough, and cheaper than an atomic addition.
fn add(counter: &AtomicU64, n: u64) {
    counter.store(counter.load(Ordering::Relaxed) + n, Ordering::Relaxed);
}

fn earlier(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
