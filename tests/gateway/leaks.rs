//! Packets that leave a host beside its tunnel: a sender that never rests, and a count of all that
//! leaves by a link and is not the tunnel's own.
//!
//! The sender makes 2000 datagrams a second for addresses of both families that only the default
//! route leads to, so that a window of some milliseconds shows. The count is made by packet
//! sockets on the links, behind everything that the kernel decides.
#![expect(unsafe_code, reason = "packet sockets, which no crate of ours has")]

use super::namespace::Namespace;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle, sleep};
use std::time::Duration;

/// Counts until it is dropped.
pub(crate) struct Leaks {
    stopped: Arc<AtomicBool>,
    count: Arc<AtomicU64>,
    sent: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

/// Where the probes go; nobody is there.
const TARGETS: [&str; 3] = ["203.0.113.9:9", "198.51.100.9:9", "[2001:db8:9::9]:9"];
/// Between two rounds of probes, one to each target.
const PAUSE: Duration = Duration::from_micros(1_500);
/// The server's port: what goes there in UDP is the tunnel's.
const TUNNEL_PORT: u16 = 51_820;

impl Leaks {
    /// From programs of `host`, over `links`.
    pub(crate) fn watch(host: &Namespace, links: &[&str]) -> Self {
        Self::watch_to(host, links, &TARGETS)
    }

    /// As `watch`, with probes to `targets`.
    pub(crate) fn watch_to(host: &Namespace, links: &[&str], targets: &[&str]) -> Self {
        Self::watch_from(host, (host, links), targets)
    }

    /// From programs of `sender`, over links of another host.
    pub(crate) fn watch_behind(sender: &Namespace, at: (&Namespace, &[&str])) -> Self {
        Self::watch_from(sender, at, &TARGETS)
    }

    fn watch_from(
        sender: &Namespace,
        (host, links): (&Namespace, &[&str]),
        targets: &[&str],
    ) -> Self {
        let stopped = Arc::new(AtomicBool::new(false));
        let (count, sent) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let mut threads = Vec::new();
        for link in links {
            let socket = host.inside(|| packet_socket(link));
            let socket = socket.unwrap_or_else(|e| panic!("a packet socket on {link}: {e}"));
            let (stopped, count) = (stopped.clone(), count.clone());
            threads.push(thread::spawn(move || {
                while !stopped.load(Ordering::Relaxed) {
                    if is_leak(&socket) {
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                }
            }));
        }
        let bind = |any: &str| UdpSocket::bind(any).expect("any port can be had");
        let sockets = sender.inside(|| [bind("0.0.0.0:0"), bind("[::]:0")]);
        let targets: Vec<SocketAddr> =
            targets.iter().map(|text| text.parse().expect("an address")).collect();
        let (end, counted) = (stopped.clone(), sent.clone());
        threads.push(thread::spawn(move || {
            while !end.load(Ordering::Relaxed) {
                for target in &targets {
                    // That it is refused is what the kill switch is for.
                    let _ = sockets[usize::from(target.is_ipv6())].send_to(&[0; 32], target);
                }
                counted.fetch_add(1, Ordering::Relaxed);
                sleep(PAUSE);
            }
        }));
        Self { stopped, count, sent, threads }
    }

    /// Packets that left in the clear since the last call.
    pub(crate) fn take(&self) -> u64 {
        // What was sent last is on its way to the socket.
        sleep(Duration::from_millis(60));
        self.count.swap(0, Ordering::Relaxed)
    }

    /// Asserts that nothing has left since the last call, and that something would have.
    pub(crate) fn none(&self, during: &str) {
        let leaked = self.take();
        let rounds = self.sent.swap(0, Ordering::Relaxed);
        println!("{during}: {leaked} in the clear, {rounds} rounds of probes");
        assert!(rounds > 5, "{during}: the sender has stopped");
        assert_eq!(leaked, 0, "{during}: packets left in the clear");
    }

    /// Asserts that things leave now: the count is one.
    pub(crate) fn some(&self, when: &str) {
        self.take();
        sleep(Duration::from_millis(200));
        let leaked = self.take();
        self.sent.store(0, Ordering::Relaxed);
        assert!(leaked > 20, "{when}: only {leaked} packets leave, so nothing is told by none");
    }
}

impl Drop for Leaks {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Sees what crosses `link` in either direction, beginning with the IP header.
fn packet_socket(link: &str) -> io::Result<OwnedFd> {
    let name = std::ffi::CString::new(link).expect("a name without zeros");
    // SAFETY: calls of the C library with values and structures that outlive them; the descriptor
    // is owned by nobody else.
    unsafe {
        let all = (libc::ETH_P_ALL as u16).to_be();
        let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC;
        let fd = libc::socket(libc::AF_PACKET, kind, i32::from(all));
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        let socket = OwnedFd::from_raw_fd(fd);
        let mut at: libc::sockaddr_ll = std::mem::zeroed();
        at.sll_family = libc::AF_PACKET as u16;
        at.sll_protocol = all;
        at.sll_ifindex = libc::if_nametoindex(name.as_ptr()) as i32;
        let len = size_of_val(&at) as libc::socklen_t;
        if libc::bind(fd, (&raw const at).cast(), len) < 0 {
            return Err(io::Error::last_os_error());
        }
        let wait = libc::timeval { tv_sec: 0, tv_usec: 50_000 };
        let len = size_of_val(&wait) as libc::socklen_t;
        let to = (&raw const wait).cast();
        if libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_RCVTIMEO, to, len) < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(socket)
    }
}

/// Takes the next packet, if there is one soon; whether a program's left in it.
fn is_leak(socket: &OwnedFd) -> bool {
    let mut packet = [0_u8; 128];
    // SAFETY: the buffer and the address are as long as is said, and outlive the call.
    let (len, from) = unsafe {
        let mut from: libc::sockaddr_ll = std::mem::zeroed();
        let mut size = size_of_val(&from) as libc::socklen_t;
        let at = packet.as_mut_ptr().cast();
        let sender = (&raw mut from).cast();
        let len = libc::recvfrom(socket.as_raw_fd(), at, packet.len(), 0, sender, &raw mut size);
        (len, from)
    };
    let Ok(len) = usize::try_from(len) else { return false };
    if from.sll_pkttype != libc::PACKET_OUTGOING {
        return false;
    }
    match u16::from_be(from.sll_protocol) as i32 {
        libc::ETH_P_IP => is_clear_v4(&packet[..len.min(128)]),
        libc::ETH_P_IPV6 => is_clear_v6(&packet[..len.min(128)]),
        // ARP and the like.
        _ => false,
    }
}

const ICMP: u8 = 1;
const IGMP: u8 = 2;
const UDP: u8 = 17;
const ICMPV6: u8 = 58;
/// Hop-by-hop options: multicast listener reports.
const HOPOPTS: u8 = 0;

fn is_clear_v4(packet: &[u8]) -> bool {
    let [b0, ..] = packet else { return false };
    let header = usize::from(b0 & 15) * 4;
    let protocol = packet.get(9).copied().unwrap_or(IGMP);
    let to: Option<[u8; 4]> = packet.get(16..20).and_then(|to| to.try_into().ok());
    let local = to.is_some_and(|to| Ipv4Addr::from(to).is_multicast());
    let tunnel = protocol == UDP && port(packet, header) == TUNNEL_PORT;
    // The kernel's answer to the tunnel's server where nobody listens any more: it quotes that.
    let quoted = packet.get(header + 28..header + 30) == Some(&TUNNEL_PORT.to_be_bytes());
    let refused = protocol == ICMP && packet.get(header) == Some(&3) && quoted;
    !(protocol == IGMP || local || tunnel || refused)
}

fn is_clear_v6(packet: &[u8]) -> bool {
    let protocol = packet.get(6).copied().unwrap_or(ICMPV6);
    let local = packet.get(24).is_none_or(|first| *first == 0xff);
    // Neighbour discovery.
    let own = [ICMPV6, HOPOPTS].contains(&protocol) || local;
    let tunnel = protocol == UDP && port(packet, 40) == TUNNEL_PORT;
    !(own || tunnel)
}

/// The port that it goes to.
fn port(packet: &[u8], header: usize) -> u16 {
    let bytes = packet.get(header + 2..header + 4).and_then(|bytes| bytes.try_into().ok());
    bytes.map_or(0, u16::from_be_bytes)
}
