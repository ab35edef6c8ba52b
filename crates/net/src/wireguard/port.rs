//! A UDP socket for tunnels: bound to an interface, to a source address, or listening; in batches
//! both ways, with segmentation offload (`UDP_SEGMENT`, `UDP_GRO`) where the kernel has it.
//!
//! It never fragments and never believes ICMP about the path's MTU (`IP_PMTUDISC_PROBE`): whoever
//! uses it finds the MTU by probing inside the tunnel (RFC 8899). Passing troubles of the way are
//! drops, counted by kind; only a port that cannot work any more is an error.

use super::FourTuple;
use super::batch::Batch;
use super::gso_batches::{GsoBatches, RUN_BYTES, RUN_DATAGRAMS};
use super::socket::{bound, interface_index, mapped, may_be_offload, offload_state, share, steer};
use quinn_udp::{Transmit, UdpSockRef, UdpSocketState};
use socket2::Socket;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use thiserror::Error;

mod counters;

pub use counters::PortCounters;

/// A UDP socket with queues.
///
/// ```no_run
/// # use tabane_net::wireguard::{Batch, Bind, PortConfig, UdpPort};
/// # fn f() -> Result<(), tabane_net::wireguard::PortError> {
/// let bind = Bind::Interface { name: "eth0".into(), ipv6: false };
/// let mut port = UdpPort::open(PortConfig::new(bind))?;
/// let mut batch = Batch::new();
/// while port.recv(&mut batch)? {
///     for (four_tuple, datagram) in batch.datagrams() {
///         port.queue(four_tuple, datagram.len(), |out| {
///             out[..datagram.len()].copy_from_slice(datagram);
///             datagram.len()
///         });
///     }
/// }
/// port.flush()?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct UdpPort {
    socket: Socket,
    state: UdpSocketState,
    config: PortConfig,
    local: SocketAddr,
    /// Index of the interface that it is bound to.
    interface: Option<u32>,
    gso_batches: GsoBatches,
    /// The kernel's buffer is full: until the next flush nothing is sent.
    blocked: bool,
    /// The caller knows that it waits for the kernel's buffer.
    waits: bool,
    /// What the link did not carry whole: to where, and the shortest of them.
    too_big: Vec<(SocketAddr, usize)>,
    /// The error that the next flush returns.
    gone: Option<io::Error>,
    counters: PortCounters,
}

/// What a port is to be.
#[derive(Clone, Debug)]
pub struct PortConfig {
    /// Where.
    pub bind: Bind,
    /// A number of the caller's, which every [`FourTuple`] carries.
    pub id: u8,
    /// Firewall mark of what it sends (needs CAP_NET_ADMIN).
    pub mark: Option<u32>,
    /// Use segmentation offload where the kernel has it (default).
    pub offload: bool,
    /// Asked of the kernel for received datagrams, bytes; without CAP_NET_ADMIN it gives at most
    /// `net.core.rmem_max`.
    pub receive_buffer: usize,
    /// The same for what waits to be sent. What the link takes longer for than this holds is
    /// standing in line for nothing.
    pub send_buffer: usize,
    /// Bound where another port of this process is.
    pub(super) joins: bool,
}

/// Where a port is bound.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Bind {
    /// To an interface, whatever its addresses (`SO_BINDTODEVICE`, without privilege since Linux
    /// 5.7), at any UDP port.
    Interface {
        name: String,
        /// For far ends of IPv6 (and only for those).
        ipv6: bool,
    },
    /// To a source address, at any UDP port.
    Source(IpAddr),
    /// To both.
    SourceOn { name: String, source: IpAddr },
    /// At an address and port; `[::]` takes IPv4 also.
    Listen(SocketAddr),
}

/// Why there is no port, or none any more.
#[derive(Error, Debug)]
pub enum PortError {
    /// Nothing to bind to: no such interface or address (yet).
    #[error("{at} is not there: {source}")]
    Absent {
        /// What is missing.
        at: String,
        /// The system's word.
        source: io::Error,
    },
    /// Everything else.
    #[error("cannot open a UDP socket on {at}: {source}")]
    Open {
        /// Where.
        at: String,
        /// The system's word.
        source: io::Error,
    },
    /// The interface or address that it was bound to has vanished: drop the port, and open
    /// another when it is back.
    #[error("{at} has vanished: {source}")]
    Gone {
        /// What has.
        at: String,
        /// The system's word.
        source: io::Error,
    },
}

/// Asked of the kernel for handshakes that wait, bytes: it takes twice that, for 28 to 85 of them,
/// as the driver has it. Where more wait than are answered within a second (a thousand clients
/// behind a server that has been started again), all answers come too late, for ever: who waits
/// for one has begun anew.
const HANDSHAKES_BUFFER: usize = 32 << 10;
/// Errors of receiving that are passed over in a row.
const RX_TRIES: usize = 4;

/// Destinations remembered of datagrams that were too big.
const TOO_BIG_MAX: usize = 16;

/// What became of a run.
enum Sent {
    All,
    Blocked,
}

impl PortConfig {
    /// The usual: port 0, no mark, offload, 4 MiB to receive and 1 MiB to send.
    #[must_use]
    pub fn new(bind: Bind) -> Self {
        let (receive_buffer, send_buffer) = (4 << 20, 1 << 20);
        let (mark, offload, joins) = (None, true, false);
        Self { bind, id: 0, mark, offload, receive_buffer, send_buffer, joins }
    }
}

impl Bind {
    pub(super) fn address(&self) -> SocketAddr {
        match self {
            Self::Interface { ipv6: false, .. } => (Ipv4Addr::UNSPECIFIED, 0).into(),
            Self::Interface { ipv6: true, .. } => (Ipv6Addr::UNSPECIFIED, 0).into(),
            Self::Source(address) | Self::SourceOn { source: address, .. } => (*address, 0).into(),
            Self::Listen(address) => *address,
        }
    }

    pub(super) fn interface(&self) -> Option<&str> {
        match self {
            Self::Interface { name, .. } | Self::SourceOn { name, .. } => Some(name),
            Self::Source(_) | Self::Listen(_) => None,
        }
    }

    fn describe(&self) -> String {
        match self {
            Self::Interface { name, .. } => format!("interface {name}"),
            Self::Source(address) => format!("address {address}"),
            Self::SourceOn { name, source } => format!("address {source} of interface {name}"),
            Self::Listen(address) => address.to_string(),
        }
    }
}

impl UdpPort {
    /// Opens a port.
    ///
    /// # Errors
    /// [`PortError::Absent`] if there is nothing to bind to, [`PortError::Open`].
    pub fn open(config: PortConfig) -> Result<Self, PortError> {
        let absent = |e: &io::Error| {
            let absent = [libc::ENODEV, libc::EADDRNOTAVAIL, libc::ENXIO];
            e.raw_os_error().is_some_and(|code| absent.contains(&code))
        };
        let failed = |source| {
            let at = config.bind.describe();
            if absent(&source) {
                PortError::Absent { at, source }
            } else {
                PortError::Open { at, source }
            }
        };
        let socket = bound(&config).map_err(failed)?;
        let state = offload_state(&socket, &config).map_err(failed)?;
        let local = socket.local_addr().map_err(failed)?;
        let local = local.as_socket().expect("invariant: it was bound to an IP address");
        let interface = config.bind.interface().map(interface_index).transpose();
        let interface = interface.map_err(failed)?;
        Ok(Self {
            socket,
            state,
            config,
            local,
            interface,
            gso_batches: GsoBatches::new(),
            blocked: false,
            waits: false,
            too_big: Vec::new(),
            gone: None,
            counters: PortCounters::default(),
        })
    }

    /// Opens a companion at the same address of a listening port, to which the kernel gives from
    /// now on whatever is no data: handshakes and junk then have a queue of their own, and fill
    /// no other. Answers leave by the first. Each may still receive what the other should (a run
    /// of datagrams is judged by its first): look at each datagram ([`super::is_handshake`]).
    ///
    /// # Errors
    /// [`PortError::Open`].
    pub fn open_handshakes(&self) -> Result<Self, PortError> {
        let at = self.config.bind.describe();
        let failed = |source| PortError::Open { at: at.clone(), source };
        share(&self.socket).map_err(failed)?;
        let mut config = self.config.clone();
        config.bind = Bind::Listen(self.local);
        (config.joins, config.offload) = (true, false);
        config.receive_buffer = HANDSHAKES_BUFFER;
        let companion = Self::open(config)?;
        steer(&self.socket).map_err(failed)?;
        Ok(companion)
    }

    /// Where it is bound; with a wildcard address for interfaces.
    #[must_use]
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// How it was opened.
    #[must_use]
    pub fn config(&self) -> &PortConfig {
        &self.config
    }

    /// What it has done.
    #[must_use]
    pub fn counters(&self) -> &PortCounters {
        &self.counters
    }

    /// Whether datagrams are sent and received in runs: (sent, received).
    #[must_use]
    pub fn offload(&self) -> (bool, bool) {
        (self.most() > 1, self.config.offload && self.state.gro_segments() > 1)
    }

    /// Whether datagrams wait for [`UdpPort::flush`].
    #[must_use]
    pub fn has_queued(&self) -> bool {
        !self.gso_batches.is_empty()
    }

    /// Receives up to 32 buffers of datagrams; `false` if there are none now. Until then, or until
    /// [`Batch::took_all`], call it again, though others may have their turn meanwhile: readiness
    /// is told once.
    ///
    /// # Errors
    /// [`PortError::Gone`].
    pub fn recv(&mut self, batch: &mut Batch) -> Result<bool, PortError> {
        let coalesced = self.offload().1;
        for _ in 0..RX_TRIES {
            let socket = UdpSockRef::from(&self.socket);
            match batch.fill(coalesced, |slices, meta| self.state.recv(socket, slices, meta)) {
                Ok(()) => {
                    let (datagrams, bytes) = batch.note(self.config.id, self.listens_everywhere());
                    self.counters.rx_calls += 1;
                    self.counters.rx_datagrams += datagrams;
                    self.counters.rx_bytes += bytes;
                    return Ok(true);
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(e) if self.is_gone(&e) => return Err(self.vanished(e)),
                Err(_) => self.counters.rx_errors += 1,
            }
        }
        Ok(false)
    }

    /// Queues a datagram that `fill` writes: it gets `space` bytes and returns how many of them it
    /// used (0: nothing to send). Runs that are complete are sent at once, the others by
    /// [`UdpPort::flush`], which must follow before the thread waits.
    ///
    /// `false` if the datagram was dropped, because the kernel's buffer is full; `fill` may not
    /// have been called then.
    ///
    /// A datagram that needs more space than UDP has, 65507 bytes, is dropped, too: how long a
    /// packet is may be somebody else's choice.
    ///
    /// # Panics
    /// If `fill` returns more than `space`.
    pub fn queue(
        &mut self,
        to: &FourTuple,
        space: usize,
        fill: impl FnOnce(&mut [u8]) -> usize,
    ) -> bool {
        let fits = space <= RUN_BYTES;
        let Some(i) = fits.then(|| self.gso_batch(to, space)).flatten() else {
            self.counters.dropped_full += 1;
            return false;
        };
        let gso_batch = self.gso_batches.get(i);
        let len = fill(gso_batch.tail(space));
        assert!(len <= space, "more written than there was room for");
        if len == 0 {
            return true;
        }
        if gso_batch.continues(len) {
            gso_batch.take(len);
            return true;
        }
        // Longer than the datagrams before it: they go, and it begins the next run.
        let from = gso_batch.end();
        if let Sent::Blocked = self.send(i) {
            self.counters.dropped_full += 1;
            return false;
        }
        self.gso_batches.get(i).restart(from, len);
        true
    }

    /// Sends what is queued; `false` if the kernel's buffer is full: call again when the socket
    /// is writable (what is queued meanwhile and finds no room is dropped and counted). Wait for
    /// that only as long as [`UdpPort::poll_waiting`] says so.
    ///
    /// # Errors
    /// [`PortError::Gone`], also if sending from [`UdpPort::queue`] met it.
    pub fn flush(&mut self) -> Result<bool, PortError> {
        self.blocked = false;
        for i in 0..self.gso_batches.len() {
            if !self.gso_batches.get(i).is_empty() {
                let _ = self.send(i);
            }
        }
        match self.gone.take() {
            Some(error) => Err(self.vanished(error)),
            None => Ok(!self.blocked),
        }
    }

    /// Whether it waits from now on until the socket is writable, or no longer; `None` if that is
    /// as it was. To be asked after each [`UdpPort::flush`]: a socket of datagrams becomes writable
    /// anew with each one that has left, and who listens to that is woken by all of them.
    pub fn poll_waiting(&mut self) -> Option<bool> {
        let waits = self.blocked && self.has_queued();
        (std::mem::replace(&mut self.waits, waits) != waits).then_some(waits)
    }

    /// The next destination of a datagram that the link did not carry whole, and the length of the
    /// shortest such one: whoever sent it must send shorter ones, for it would be refused again.
    /// Of so many destinations at once the first 16 are remembered.
    pub fn poll_too_big(&mut self) -> Option<(SocketAddr, usize)> {
        self.too_big.pop()
    }

    /// A lane with room for one more datagram; `None` if the kernel takes none.
    fn gso_batch(&mut self, to: &FourTuple, space: usize) -> Option<usize> {
        let most = self.most();
        if let Some(i) = self.gso_batches.find(to) {
            if self.gso_batches.get(i).has_space(space, most) {
                return Some(i);
            }
            // The emptied lane keeps its way.
            return matches!(self.send(i), Sent::All).then_some(i);
        }
        match self.gso_batches.free(to) {
            Ok(i) => Some(i),
            Err(oldest) => {
                if let Sent::Blocked = self.send(oldest) {
                    return None;
                }
                self.gso_batches.free(to).ok()
            }
        }
    }

    /// Sends the run of a lane and empties it, unless the kernel's buffer is full.
    fn send(&mut self, i: usize) -> Sent {
        if self.blocked {
            return Sent::Blocked;
        }
        let gso_batch = self.gso_batches.get(i);
        let (count, bytes) = (gso_batch.count(), gso_batch.run().len());
        if count > 1 && self.most() == 1 {
            return self.send_each(i);
        }
        match self.try_send(i, false) {
            Ok(()) => {
                self.gso_batches.get(i).clear();
                self.count_sent(count, bytes);
                Sent::All
            }
            Err(e) if e.kind() == ErrorKind::WouldBlock => self.block(),
            Err(e) if count > 1 && may_be_offload(&e) => {
                // Either the kernel or the card refuses segmentation (which `state` has then
                // noted), or one of these datagrams is not to its liking.
                let drops = self.counters.dropped();
                let sent = self.send_each(i);
                if self.counters.dropped() > drops && self.most() == 1 {
                    self.restore_offload();
                }
                sent
            }
            Err(e) => {
                self.drop_for(i, e, count);
                self.gso_batches.get(i).clear();
                Sent::All
            }
        }
    }

    /// The same, one datagram at a time.
    fn send_each(&mut self, i: usize) -> Sent {
        while !self.gso_batches.get(i).is_empty() {
            match self.try_send(i, true) {
                Ok(()) => {
                    let len = self.gso_batches.get(i).first().len();
                    self.count_sent(1, len);
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => return self.block(),
                Err(e) => self.drop_for(i, e, 1),
            }
            self.gso_batches.get(i).advance();
        }
        Sent::All
    }

    /// Gives the run of a lane, or only its first datagram, to the kernel.
    fn try_send(&mut self, i: usize, single: bool) -> io::Result<()> {
        let v6 = self.local.is_ipv6();
        let listens_everywhere = self.listens_everywhere();
        let gso_batch = self.gso_batches.get(i);
        let transmit = Transmit {
            destination: if v6 {
                mapped(gso_batch.four_tuple.remote)
            } else {
                gso_batch.four_tuple.remote
            },
            ecn: None,
            contents: if single { gso_batch.first() } else { gso_batch.run() },
            segment_size: (!single).then_some(gso_batch.segment()),
            src_ip: gso_batch.four_tuple.local.filter(|_| listens_everywhere),
        };
        self.state.try_send(UdpSockRef::from(&self.socket), &transmit)
    }

    fn block(&mut self) -> Sent {
        self.blocked = true;
        Sent::Blocked
    }

    fn count_sent(&mut self, datagrams: usize, bytes: usize) {
        self.counters.tx_calls += 1;
        self.counters.tx_datagrams += datagrams as u64;
        self.counters.tx_bytes += bytes as u64;
    }

    /// Counts datagrams of a lane that the kernel refused; remembers the error if it is for good.
    fn drop_for(&mut self, i: usize, error: io::Error, datagrams: usize) {
        if error.raw_os_error() == Some(libc::EMSGSIZE) {
            self.note_too_big(i);
        }
        let c = &mut self.counters;
        let counter = match error.raw_os_error() {
            Some(
                libc::EHOSTUNREACH
                | libc::ENETUNREACH
                | libc::ENETDOWN
                | libc::ECONNREFUSED
                | libc::EADDRNOTAVAIL,
            ) => &mut c.dropped_unreachable,
            Some(libc::EMSGSIZE) => &mut c.dropped_too_big,
            Some(libc::ENOBUFS | libc::ENOMEM) => &mut c.dropped_no_buffer,
            Some(libc::EPERM | libc::EACCES) => &mut c.dropped_forbidden,
            _ => &mut c.dropped_other,
        };
        *counter += datagrams as u64;
        if self.is_gone(&error) {
            self.gone = Some(error);
        }
    }

    /// The first datagram of a lane (its run has one length) is too long.
    fn note_too_big(&mut self, i: usize) {
        let gso_batch = self.gso_batches.get(i);
        let (to, len) = (gso_batch.four_tuple.remote, gso_batch.first().len());
        if let Some((_, shortest)) = self.too_big.iter_mut().find(|(remote, _)| *remote == to) {
            *shortest = len.min(*shortest);
        } else if self.too_big.len() < TOO_BIG_MAX {
            self.too_big.push((to, len));
        }
    }

    /// Whether an error means that the port will not work again. Most errors do not tell: they
    /// are the same when an interface is down and when it is gone.
    fn is_gone(&self, error: &io::Error) -> bool {
        match error.raw_os_error() {
            Some(libc::ENODEV | libc::ENXIO | libc::EBADF | libc::ENOTSOCK) => true,
            Some(
                libc::ENETUNREACH
                | libc::ENETDOWN
                | libc::EHOSTUNREACH
                | libc::EADDRNOTAVAIL
                | libc::EINVAL,
            ) => {
                // One of the same name is another.
                let other = |name: &str| interface_index(name).ok() != self.interface;
                let absent = |source: IpAddr| {
                    UdpSocket::bind((source, 0))
                        .is_err_and(|e| e.kind() == ErrorKind::AddrNotAvailable)
                };
                match &self.config.bind {
                    Bind::Interface { name, .. } => other(name),
                    Bind::Source(source) => absent(*source),
                    Bind::SourceOn { name, source } => other(name) || absent(*source),
                    Bind::Listen(_) => false,
                }
            }
            _ => false,
        }
    }

    fn vanished(&self, source: io::Error) -> PortError {
        PortError::Gone { at: self.config.bind.describe(), source }
    }

    /// `state` takes every refusal for one of offload, and would never use it again.
    fn restore_offload(&mut self) {
        if let Ok(state) = offload_state(&self.socket, &self.config) {
            self.state = state;
        }
    }

    /// Datagrams in a run.
    fn most(&self) -> usize {
        if self.config.offload { self.state.max_gso_segments().min(RUN_DATAGRAMS) } else { 1 }
    }

    fn listens_everywhere(&self) -> bool {
        matches!(self.config.bind, Bind::Listen(_)) && self.local.ip().is_unspecified()
    }
}

impl AsFd for UdpPort {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl AsRawFd for UdpPort {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

#[cfg(test)]
mod tests;
