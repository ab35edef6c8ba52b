//! What is behind the device: every destination there is, each port with manners of its own.

use crate::listener::ConnectError;
use crate::tun::device::DeviceCounters;
use crate::tun::packets::{Counts, Datagrams};
use crate::tun::{
    Device, DeviceConfig, Frame, Inbound, LocalConfig, LocalStack, Packets, PacketsConfig,
    ProgramId,
};
use bytes::Bytes;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tabane_engine::{Connection, Event, Instant};
use tabane_net::clock::Clock;
use tabane_wire::ip::IpHeader;

/// Answers an HTTP request with [`FILE`] bytes.
pub(crate) const HTTP: u16 = 80;
/// Reads to the end, then says how many bytes there were.
pub(crate) const COUNT: u16 = 86;
/// Resets upon the first bytes.
pub(crate) const RESET: u16 = 84;
/// Reads nothing before it is told to.
pub(crate) const SLOW: u16 = 85;
/// Refuse, each in its way.
pub(crate) const REFUSED: u16 = 81;
pub(crate) const UNREACHABLE: u16 = 82;
pub(crate) const FORBIDDEN: u16 = 83;

/// Bytes that HTTP has.
pub(crate) const FILE: u64 = 64 << 20;

/// The host's addresses on the device.
pub(crate) fn host_addresses() -> Vec<IpAddr> {
    ["10.81.0.31", "fd74:6162:616e:6500::1f"].map(|text| text.parse().unwrap()).to_vec()
}

/// How to tell a running [`Far`] something.
#[derive(Clone, Default)]
pub(crate) struct Handle {
    stopped: Arc<AtomicBool>,
    /// [`SLOW`] may read.
    pub(crate) reading: Arc<AtomicBool>,
    /// What [`SLOW`] has read.
    pub(crate) read: Arc<AtomicU64>,
}

impl Handle {
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }
}

/// The agent's place: device, packets, stack, and no bond behind them.
pub(crate) struct Far {
    device: Device,
    stack: LocalStack,
    packets: Packets,
    clock: Clock,
    open: BTreeMap<ProgramId, Served>,
    handle: Handle,
}

/// A connection.
struct Served {
    port: u16,
    heard: Vec<u8>,
    count: u64,
    left: Bytes,
    /// Bytes of the file still to be written.
    file: u64,
    closing: bool,
}

impl Far {
    /// In the namespace of this thread.
    pub(crate) fn new(handle: &Handle) -> Self {
        let addresses = host_addresses();
        let config = DeviceConfig { name: "tabane0".into(), addresses, mtu: 1400 };
        let dns = vec!["10.81.0.1".parse().unwrap()];
        Self {
            device: Device::open(&config).unwrap_or_else(|e| panic!("{e}")),
            stack: LocalStack::new(LocalConfig::default(), [3; 32]).unwrap(),
            packets: Packets::new(PacketsConfig { dns, mtu: 1400 }),
            clock: Clock::start(),
            open: BTreeMap::new(),
            handle: handle.clone(),
        }
    }

    /// Until it is stopped.
    pub(crate) fn run(mut self) -> (Counts, DeviceCounters) {
        while !self.handle.stopped.load(Ordering::Relaxed) {
            let now = self.clock.now();
            for _ in 0..64 {
                let Some(frame) = self.device.recv().unwrap() else { break };
                self.take(now, frame);
            }
            if self.stack.poll_timeout().is_some_and(|due| due <= now) {
                self.stack.handle_timeout(now);
            }
            while let Some((id, event)) = self.stack.poll_event() {
                self.on_event(now, id, event);
            }
            let ids: Vec<ProgramId> = self.open.keys().copied().collect();
            ids.into_iter().for_each(|id| self.serve(now, id));
            while let Some(outgoing) = self.stack.poll_packet(now) {
                self.device.send(outgoing).unwrap();
            }
            self.device.flush().unwrap();
            let timeout = Timespec { tv_sec: 0, tv_nsec: 2_000_000 };
            let mut fds = [PollFd::from_borrowed_fd(self.device.as_fd(), PollFlags::IN)];
            let _ = poll(&mut fds, Some(&timeout));
        }
        (*self.packets.counts(), *self.device.counters())
    }

    fn take(&mut self, now: Instant, frame: Frame) {
        match self.packets.classify(now, frame) {
            Inbound::Tcp(segment) => self.stack.handle_segment(now, segment),
            Inbound::Udp(datagrams) => self.echo_datagrams(datagrams, b"udp "),
            Inbound::Dns(datagrams) => self.echo_datagrams(datagrams, b"dns "),
            Inbound::Echo(packet) => self.echo(&packet),
            Inbound::Answer(packet) => self.device.send_packet(&packet).unwrap(),
            Inbound::Nothing => {}
        }
    }

    fn echo_datagrams(&mut self, datagrams: Datagrams, mark: &[u8]) {
        for mut datagram in datagrams {
            std::mem::swap(&mut datagram.src, &mut datagram.dst);
            datagram.payload = [mark, &datagram.payload].concat().into();
            let mut packet = vec![0; datagram.wire_len()];
            datagram.emit(&mut packet).unwrap();
            self.device.send_packet(&packet).unwrap();
        }
    }

    /// Answers a ping over IPv4.
    fn echo(&mut self, packet: &[u8]) {
        let (header, range) = IpHeader::parse(packet).unwrap();
        assert!(header.src.is_ipv4(), "this test pings over IPv4");
        let mut answer = packet.to_vec();
        let reply = IpHeader::new(header.dst, header.src, header.protocol);
        reply.emit(&mut answer, range.len()).unwrap();
        answer[range.start] = 0;
        answer[range.start + 2..range.start + 4].fill(0);
        let sum = tabane_wire::Checksum::of(&answer[range.clone()]).finish();
        answer[range.start + 2..range.start + 4].copy_from_slice(&sum.to_be_bytes());
        self.device.send_packet(&answer).unwrap();
    }

    fn on_event(&mut self, now: Instant, id: ProgramId, event: Event) {
        match event {
            Event::Incoming { local, .. } => {
                let port = local.port();
                let connect_error = match port {
                    REFUSED => Some(ConnectError::Refused),
                    UNREACHABLE => Some(ConnectError::NetUnreachable),
                    FORBIDDEN => Some(ConnectError::NotAllowed),
                    _ => None,
                };
                if let Some(why) = connect_error {
                    return self.stack.refuse(now, id, why);
                }
                self.stack.admit(id);
                let (heard, left) = (Vec::new(), Bytes::new());
                let served = Served { port, heard, count: 0, left, file: 0, closing: false };
                self.open.insert(id, served);
            }
            Event::Closed(_) => drop(self.open.remove(&id)),
            _ => {}
        }
    }

    fn serve(&mut self, now: Instant, id: ProgramId) {
        let Some(program) = self.stack.connection(id) else { return };
        let Some(served) = self.open.get_mut(&id) else { return };
        if served.port == SLOW && !self.handle.reading.load(Ordering::Relaxed) {
            return;
        }
        while let Some(data) = program.read(usize::MAX) {
            if served.port == RESET {
                return program.abort(now);
            }
            served.count += data.len() as u64;
            if served.port == SLOW {
                self.handle.read.fetch_add(data.len() as u64, Ordering::Relaxed);
            }
            if served.port == HTTP {
                served.hear(&data);
            }
        }
        if program.is_finished() && !served.closing {
            if served.port == COUNT {
                served.left = served.count.to_string().into_bytes().into();
            }
            served.closing = true;
        }
        served.write(now, program);
    }
}

impl Served {
    fn hear(&mut self, data: &[u8]) {
        self.heard.extend_from_slice(data);
        if self.heard.ends_with(b"\r\n\r\n") {
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {FILE}\r\n\r\n");
            self.left = head.into_bytes().into();
            self.file = FILE;
        }
    }

    fn write(&mut self, now: Instant, program: &mut Connection) {
        loop {
            if self.left.is_empty() && self.file > 0 {
                let at = FILE - self.file;
                let len = self.file.min(100_000);
                self.left = (at..at + len).map(byte_of_file).collect();
                self.file -= len;
            }
            if self.left.is_empty() {
                break;
            }
            if program.write(&mut self.left) == 0 {
                return;
            }
        }
        if self.closing {
            program.close(now);
        }
    }
}

/// What the file has at a position.
pub(crate) fn byte_of_file(at: u64) -> u8 {
    (at % 251) as u8
}

/// An address that leads nowhere but into the device.
pub(crate) fn destination(v4: bool, port: u16) -> SocketAddr {
    let text = if v4 { "192.0.2.80" } else { "2001:db8::80" };
    SocketAddr::new(text.parse().unwrap(), port)
}
