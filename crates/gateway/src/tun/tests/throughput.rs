//! What TUN mode costs by itself: a program's TCP through the device, ended by the engine, in a
//! network namespace of its own. Nothing is encrypted, nothing leaves the machine.
//!
//! The program, its kernel, the device and the stack share the machine's cores, as they do in
//! use. Needs CAP_NET_ADMIN and CAP_SYS_ADMIN (for the namespace); the host is not touched.

use crate::access::Prefix;
use crate::tun::device::{Device, DeviceConfig};
use crate::tun::host::{Host, HostConfig, HostError};
use crate::tun::local::{LocalConfig, LocalStack, ProgramId};
use crate::tun::packets::{Inbound, Packets, PacketsConfig};
use bytes::Bytes;
use nix::sched::{CloneFlags, unshare};
use nix::time::{ClockId, clock_gettime};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::env;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::thread;
use std::time::Duration;
use tabane_engine::{Event, Instant};
use tabane_net::clock::Clock;
use tabane_net::device::TunError;
use thiserror::Error;

/// Which way the bytes go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Flow {
    /// From the program.
    Up,
    /// To the program.
    Down,
}

/// What a run came to.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Throughput {
    /// Payload bits per second, from the first byte to the last.
    pub bits_per_second: f64,
    /// Processor time of everything (program, kernel, device, stack) per 10^9 bytes of payload.
    pub cpu_seconds_per_gb: f64,
    /// Mean size of a packet with data at the device, bytes.
    pub packet_bytes: f64,
}

/// Why there is no result.
#[derive(Error, Debug)]
pub(crate) enum BenchError {
    /// No network namespace for us.
    #[error("cannot make a network namespace ({0}): this needs root")]
    Namespace(#[source] io::Error),
    /// No device.
    #[error(transparent)]
    Device(#[from] TunError),
    /// No routes.
    #[error(transparent)]
    Host(#[from] HostError),
    /// Something failed on the way.
    #[error("the transfer failed: {0}")]
    Transfer(#[from] io::Error),
}

const HOST: Ipv4Addr = Ipv4Addr::new(10, 81, 0, 31);
/// RFC 5737 documentation addresses lead nowhere.
const SERVER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 80);
/// Written or read at once, as busy programs do.
const CHUNK: usize = 256 << 10;

/// Moves `bytes` through a device of this MTU.
///
/// # Errors
/// [`BenchError`].
pub(crate) fn run(flow: Flow, bytes: u64, mtu: u16) -> Result<Throughput, BenchError> {
    thread::scope(|scope| {
        let stack = scope.spawn(|| {
            // It concerns only this thread and those it starts.
            unshare(CloneFlags::CLONE_NEWNET).map_err(|e| BenchError::Namespace(e.into()))?;
            let config = DeviceConfig { name: "tabane0".into(), addresses: vec![HOST.into()], mtu };
            let mut device = Device::open(&config)?;
            let host = Host::apply(&host_config(&config.name))?;
            thread::scope(|scope| {
                let program = scope.spawn(|| program(flow, bytes));
                let done = Bench::new(flow, bytes)?.run(&mut device);
                let program = program.join().expect("invariant: the program does not panic");
                host.restore()?;
                program.and(done).map_err(BenchError::Transfer)
            })
        });
        stack.join().expect("invariant: the stack does not panic")
    })
}

/// The program: sends or receives `bytes`.
fn program(flow: Flow, bytes: u64) -> io::Result<()> {
    let to = SocketAddr::new(IpAddr::V4(SERVER), 9);
    let mut socket = TcpStream::connect(to)?;
    let mut chunk = vec![0; CHUNK];
    match flow {
        Flow::Up => {
            let mut left = bytes;
            while left > 0 {
                let len = left.min(CHUNK as u64) as usize;
                socket.write_all(&chunk[..len])?;
                left -= len as u64;
            }
            socket.shutdown(Shutdown::Write)?;
            // Until the other end has read everything.
            let _ = socket.read(&mut chunk)?;
        }
        Flow::Down => while socket.read(&mut chunk)? > 0 {},
    }
    Ok(())
}

/// The other end.
struct Bench {
    flow: Flow,
    bytes: u64,
    moved: u64,
    stack: LocalStack,
    packets: Packets,
    clock: Clock,
    chunk: Bytes,
    started: Option<(Instant, f64)>,
}

impl Bench {
    fn new(flow: Flow, bytes: u64) -> io::Result<Self> {
        let stack = LocalStack::new(LocalConfig::default(), [7; 32]).map_err(io::Error::other)?;
        let packets = Packets::new(PacketsConfig { dns: Vec::new(), mtu: 1400 });
        let chunk = vec![0; CHUNK].into();
        let clock = Clock::start();
        Ok(Self { flow, bytes, moved: 0, stack, packets, clock, chunk, started: None })
    }

    fn run(mut self, device: &mut Device) -> io::Result<Throughput> {
        let mut current = None;
        loop {
            let now = self.clock.now();
            for _ in 0..64 {
                let Some(frame) = device.recv()? else { break };
                if let Inbound::Tcp(segment) = self.packets.classify(now, frame) {
                    self.stack.handle_segment(now, segment);
                }
            }
            if self.stack.poll_timeout().is_some_and(|due| due <= now) {
                self.stack.handle_timeout(now);
            }
            while let Some((id, event)) = self.stack.poll_event() {
                match event {
                    Event::Incoming { .. } => self.stack.admit(id),
                    Event::Accepted { .. } => {
                        current = Some(id);
                        self.started = Some((now, cpu_seconds()));
                    }
                    Event::Closed(_) => return Ok(self.result(now, device)),
                    _ => {}
                }
            }
            if let Some(id) = current {
                self.relay(now, id);
            }
            while let Some(outgoing) = self.stack.poll_packet(now) {
                device.send(outgoing)?;
            }
            device.flush()?;
            self.sleep(device)?;
        }
    }

    /// What a relay would do, without a far end.
    fn relay(&mut self, now: Instant, id: ProgramId) {
        let Some(program) = self.stack.connection(id) else { return };
        while let Some(data) = program.read(usize::MAX) {
            self.moved += data.len() as u64;
        }
        if self.flow == Flow::Down {
            while self.moved < self.bytes {
                let left = (self.bytes - self.moved).min(CHUNK as u64) as usize;
                let taken = program.write(&mut self.chunk.slice(..left));
                self.moved += taken as u64;
                if taken < left {
                    break;
                }
            }
        }
        if self.moved == self.bytes {
            program.close(now);
        }
    }

    fn sleep(&self, device: &Device) -> io::Result<()> {
        let now = self.clock.now();
        let wait = self.stack.poll_timeout().map(|due| due.saturating_since(now).0);
        let timeout = wait.map(|wait| Timespec {
            tv_sec: (wait / 1_000_000_000) as i64,
            tv_nsec: (wait % 1_000_000_000) as i64,
        });
        let mut fds = [PollFd::from_borrowed_fd(device.as_fd(), PollFlags::IN)];
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn result(&self, now: Instant, device: &Device) -> Throughput {
        let (start, cpu) = self.started.unwrap_or((now, 0.0));
        let seconds = (now - start).0 as f64 / 1e9;
        let bytes = self.moved as f64;
        let counters = device.counters();
        let (packets, size) = match self.flow {
            Flow::Up => (counters.rx_packets, counters.rx_bytes),
            Flow::Down => (counters.tx_packets, counters.tx_bytes),
        };
        Throughput {
            bits_per_second: bytes * 8.0 / seconds,
            cpu_seconds_per_gb: (cpu_seconds() - cpu) / bytes * 1e9,
            packet_bytes: size as f64 / packets.max(1) as f64,
        }
    }
}

/// Everything into the device; the namespace has nothing else.
fn host_config(device: &str) -> HostConfig {
    HostConfig {
        device: device.to_owned(),
        routes: vec![Prefix::new(Ipv4Addr::UNSPECIFIED.into(), 0).expect("invariant: a prefix")],
        state: env::temp_dir().join(format!("tabane-bench-{}.json", std::process::id())),
        ..HostConfig::default()
    }
}

/// Processor time of this process so far, in seconds.
fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).map(Duration::from);
    time.map_or(0.0, |time| time.as_secs_f64())
}
