//! A stock WireGuard interface, in user space: what the kernel's driver or boringtun-cli would be
//! at a host that has them. A TUN device, a UDP socket and a session between them; the far end's
//! address and keys are all it knows of tabane. No list of allowed addresses: the far end is ours.

use super::namespace::Namespace;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tabane_net::device::{PathDevice, TunDevice};
use tabane_net::wireguard::{Opened, PublicKey, Sealed, Session, StaticSecret, TIMER_MS};

/// A tunnel, which works while it lives.
pub(crate) struct Pump {
    counters: Arc<Counters>,
    thread: Option<JoinHandle<()>>,
}

/// Inner bytes.
#[derive(Default)]
struct Counters {
    sent: AtomicU64,
    received: AtomicU64,
    stop: AtomicBool,
}

/// What belongs to one tunnel.
struct Tunnel {
    device: TunDevice,
    socket: UdpSocket,
    session: Session,
    counters: Arc<Counters>,
    packet: Vec<u8>,
    out: Vec<u8>,
}

impl Pump {
    /// A tunnel through a device at `host`, given as `--tun` takes it, from the outer address
    /// `from` to the owner of `peer` at `to`.
    pub(crate) fn start(
        host: &Namespace,
        device: &str,
        (from, to): (&str, &str),
        (secret, peer): (&StaticSecret, PublicKey),
    ) -> Self {
        let (device, socket) = host.inside(|| {
            let config = device.parse().expect("invariant: it is written as it should");
            let device = TunDevice::open(&config).unwrap_or_else(|e| panic!("{e}"));
            let from = SocketAddr::new(from.parse().expect("invariant: an address"), 0);
            let socket = UdpSocket::bind(from).expect("the host has the address");
            socket.connect(to).expect("the host has a route");
            (device, socket)
        });
        socket.set_nonblocking(true).expect("sockets can be");
        socket2::SockRef::from(&socket).set_recv_buffer_size(1 << 20).expect("a size is a size");
        let counters = Arc::new(Counters::default());
        let mut tunnel = Tunnel {
            device,
            socket,
            session: Session::new(secret, peer, None, 1, None),
            counters: Arc::clone(&counters),
            packet: vec![0; 1 << 16],
            out: vec![0; 1 << 16],
        };
        let thread = std::thread::spawn(move || tunnel.run());
        Self { counters, thread: Some(thread) }
    }

    /// Inner bytes sent and received.
    pub(crate) fn bytes(&self) -> [u64; 2] {
        [&self.counters.sent, &self.counters.received].map(|n| n.load(Ordering::Relaxed))
    }
}

impl Drop for Pump {
    fn drop(&mut self) {
        self.counters.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Tunnel {
    fn run(&mut self) {
        let mut due = Instant::now();
        let pause = Timespec::try_from(Duration::from_millis(TIMER_MS)).expect("it is short");
        while !self.counters.stop.load(Ordering::Relaxed) {
            if due <= Instant::now() {
                due = Instant::now() + Duration::from_millis(TIMER_MS);
                let len = self.session.on_timer(&mut self.out);
                self.send(len);
            }
            let mut fds = [
                PollFd::from_borrowed_fd(self.device.fd(), PollFlags::IN),
                PollFd::new(&self.socket, PollFlags::IN),
            ];
            // An interrupted wait is a short one.
            let _ = poll(&mut fds, Some(&pause));
            self.outbound();
            self.ingress();
        }
    }

    /// From the host into the tunnel.
    fn outbound(&mut self) {
        while let Some(len) = self.device.recv(&mut self.packet).expect("the device is there") {
            let len = match self.session.seal(&self.packet[..len], &mut self.out) {
                Sealed::Packet(sealed) => {
                    self.counters.sent.fetch_add(len as u64, Ordering::Relaxed);
                    Some(sealed)
                }
                Sealed::Handshake(len) => Some(len),
                Sealed::Nothing => None,
            };
            self.send(len);
        }
    }

    /// From the tunnel to the host.
    fn ingress(&mut self) {
        while let Ok(len) = self.socket.recv(&mut self.packet) {
            match self.session.open(None, &self.packet[..len], &mut self.out) {
                Opened::Packet { len, .. } => {
                    self.counters.received.fetch_add(len as u64, Ordering::Relaxed);
                    self.device.send(&self.out[..len]).expect("the device is there");
                }
                Opened::Reply(len) => self.send(Some(len)),
                _ => {}
            }
            while let Some(len) = self.session.pending(&mut self.out) {
                self.send(Some(len));
            }
        }
    }

    /// What the socket does not take is lost, as on any link.
    fn send(&self, len: Option<usize>) {
        if let Some(len) = len {
            let _ = self.socket.send(&self.out[..len]);
        }
    }
}
