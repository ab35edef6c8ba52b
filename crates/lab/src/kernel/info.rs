//! What the kernel says about a connection, as the engine would say it: `TCP_INFO`, `MPTCP_INFO`,
//! and `MPTCP_TCPINFO` and `MPTCP_SUBFLOW_ADDRS` for the subflows (linux/tcp.h, linux/mptcp.h).
//!
//! Fields are read by their place, since which of them there are depends on the kernel; what it
//! does not have is zero. Bytes of a subflow that has been closed are gone from the kernel: the
//! last snapshot of it is kept.
#![expect(unsafe_code, reason = "getsockopt into buffers whose length the kernel tells")]

use super::socket::KernelSocket;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsRawFd;
use tabane_engine::mptcp::{Info, SubflowInfo};
use tabane_engine::tcp::{State, Stats};
use tabane_engine::view::{PathId, RecoveryPhase, SubflowId, SubflowView};
use tabane_engine::{Duration, Instant};

/// Snapshots of one connection, the last one of each subflow kept.
#[derive(Default, Debug)]
pub(super) struct Snapshots {
    subflows: Vec<SubflowInfo>,
}

const SOL_MPTCP: libc::c_int = 284;
const MPTCP_INFO: libc::c_int = 1;
const MPTCP_TCPINFO: libc::c_int = 2;
const MPTCP_SUBFLOW_ADDRS: libc::c_int = 3;
/// Length of `struct mptcp_subflow_data`, and of an entry of addresses.
const HEAD: usize = 16;
const ADDRESSES: usize = 256;
/// Room for one `tcp_info`, and for how many subflows.
const TCP_INFO_ROOM: usize = 512;
const SUBFLOWS: usize = 16;

impl Snapshots {
    /// How the connection is now. `path_of` tells a path by a subflow's two addresses.
    pub(super) fn take(
        &mut self,
        socket: &KernelSocket,
        path_of: impl Fn([IpAddr; 2]) -> PathId,
    ) -> Info {
        let now: Vec<(Vec<u8>, SocketAddr, SocketAddr)> = if socket.is_mptcp() {
            subflows(socket)
        } else {
            let own = option(socket, libc::IPPROTO_TCP, libc::TCP_INFO, vec![0; TCP_INFO_ROOM]);
            own.zip(socket.ends())
                .map(|(info, (local, remote))| (info, local, remote))
                .into_iter()
                .collect()
        };
        self.subflows.iter_mut().for_each(|s| s.state = State::Closed);
        for (info, local, remote) in now {
            let known = self.subflows.iter().position(|s| (s.local, s.remote) == (local, remote));
            let number = known.unwrap_or(self.subflows.len());
            let path = path_of([local.ip(), remote.ip()]);
            let snapshot = subflow(&Fields(&info), number, path, [local, remote]);
            match known {
                Some(at) => self.subflows[at] = snapshot,
                None => self.subflows.push(snapshot),
            }
        }
        let mptcp = option(socket, SOL_MPTCP, MPTCP_INFO, vec![0; TCP_INFO_ROOM]);
        let mptcp = mptcp.filter(|_| socket.is_mptcp());
        let fields = Fields(mptcp.as_deref().unwrap_or_default());
        let outstanding = socket.outstanding();
        let subflows = self.subflows.clone();
        let in_flight = subflows.iter().map(|s| s.view.in_flight).sum();
        Info::default().with(|v| {
            v.mptcp = mptcp.is_some() && fields.u32(8) & 1 == 0;
            v.checksum = fields.byte(42) != 0;
            v.token = fields.u32(12);
            v.written = socket.written;
            v.acked = socket.written.saturating_sub(outstanding);
            v.received = socket.received;
            v.read = socket.received;
            v.reinjected = fields.u64(48);
            v.outstanding = in_flight;
            v.subflows = subflows;
        })
    }
}

/// The subflows of an MPTCP socket: `tcp_info`, local and remote address of each.
fn subflows(socket: &KernelSocket) -> Vec<(Vec<u8>, SocketAddr, SocketAddr)> {
    let ask = |name: libc::c_int, size: usize| {
        let mut buffer = vec![0; HEAD + SUBFLOWS * size];
        buffer[..4].copy_from_slice(&(HEAD as u32).to_ne_bytes());
        buffer[12..16].copy_from_slice(&(size as u32).to_ne_bytes());
        option(socket, SOL_MPTCP, name, buffer)
    };
    let (Some(infos), Some(addresses)) =
        (ask(MPTCP_TCPINFO, TCP_INFO_ROOM), ask(MPTCP_SUBFLOW_ADDRS, ADDRESSES))
    else {
        return Vec::new();
    };
    let count = |buffer: &[u8]| Fields(buffer).u32(4) as usize;
    // Between the two questions a subflow may have come or gone: then there is no snapshot now.
    if count(&infos) != count(&addresses) {
        return Vec::new();
    }
    let entries = (0..count(&infos).min(SUBFLOWS)).filter_map(|n| {
        let (info, ends) = (entry(&infos, n)?, entry(&addresses, n)?);
        Some((info.to_vec(), address(ends.get(..128)?)?, address(ends.get(128..)?)?))
    });
    entries.collect()
}

/// The `n`-th of what the kernel tells about subflows: entries are as long as it says, which is
/// at most what was asked for.
fn entry(buffer: &[u8], n: usize) -> Option<&[u8]> {
    let size = Fields(buffer).u32(12) as usize;
    buffer.get(HEAD + n * size..HEAD + (n + 1) * size)
}

/// A `sockaddr`; IPv4 in IPv6 is IPv4.
fn address(bytes: &[u8]) -> Option<SocketAddr> {
    let port = u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?);
    let family = u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?);
    let ip: IpAddr = match i32::from(family) {
        libc::AF_INET => <[u8; 4]>::try_from(bytes.get(4..8)?).map(Ipv4Addr::from).ok()?.into(),
        libc::AF_INET6 => {
            let octets: [u8; 16] = bytes.get(8..24)?.try_into().ok()?;
            Ipv6Addr::from(octets).to_canonical()
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

fn option(
    socket: &KernelSocket,
    level: libc::c_int,
    name: libc::c_int,
    mut buffer: Vec<u8>,
) -> Option<Vec<u8>> {
    let mut len = buffer.len() as libc::socklen_t;
    let fd = socket.fd().as_raw_fd();
    // SAFETY: the buffer has `len` bytes, and both live through the call.
    let done =
        unsafe { libc::getsockopt(fd, level, name, buffer.as_mut_ptr().cast(), &raw mut len) };
    (done == 0).then_some(buffer)
}

/// A structure of the kernel, read by place.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn byte(&self, at: usize) -> u8 {
        self.0.get(at).copied().unwrap_or(0)
    }

    fn u16(&self, at: usize) -> u16 {
        let bytes = self.0.get(at..at + 2).and_then(|b| b.try_into().ok());
        bytes.map_or(0, u16::from_ne_bytes)
    }

    fn u32(&self, at: usize) -> u32 {
        let bytes = self.0.get(at..at + 4).and_then(|b| b.try_into().ok());
        bytes.map_or(0, u32::from_ne_bytes)
    }

    fn u64(&self, at: usize) -> u64 {
        let bytes = self.0.get(at..at + 8).and_then(|b| b.try_into().ok());
        bytes.map_or(0, u64::from_ne_bytes)
    }
}

/// `struct tcp_info` as a subflow of the engine.
fn subflow(info: &Fields<'_>, number: usize, path: PathId, ends: [SocketAddr; 2]) -> SubflowInfo {
    let us = |at| Duration::from_micros(info.u32(at).into());
    let mss = u64::from(info.u32(16));
    let packets = |at| u64::from(info.u32(at));
    let in_flight = packets(24) + packets(36) - (packets(28) + packets(32)).min(packets(24));
    let ssthresh = packets(76);
    let view = SubflowView::default().with(|v| {
        v.id = SubflowId(number.min(63) as u8);
        v.path = path;
        v.usable = info.byte(0) == ESTABLISHED;
        v.phase = match info.byte(1) {
            3 => RecoveryPhase::Recovery,
            4 => RecoveryPhase::Loss,
            _ => RecoveryPhase::Open,
        };
        v.cwnd = packets(80) * mss;
        v.ssthresh = if ssthresh >= NO_SSTHRESH { u64::MAX } else { ssthresh * mss };
        v.in_flight = in_flight * mss;
        v.unacked = packets(24) * mss;
        v.oldest_sent = Instant::FAR_FUTURE;
        v.mss = mss;
        v.srtt = us(68);
        v.rttvar = us(72);
        v.latest_rtt = us(68);
        v.min_rtt = us(148);
        v.pacing_rate = info.u64(104);
        v.delivery_rate = info.u64(160);
    });
    let stats = Stats::default().with(|v| {
        v.bytes_sent = info.u64(200);
        v.bytes_retransmitted = info.u64(208);
        v.bytes_acked = info.u64(120);
        v.bytes_received = info.u64(128);
        v.segments_sent = packets(136);
        v.segments_received = packets(140);
        v.timeouts = info.u16(240).into();
    });
    SubflowInfo::new(view, ends).with(|v| {
        v.number = number as u32;
        v.state = if view.usable { State::Established } else { State::Closed };
        v.rto = us(8);
        v.stats = stats;
        v.delivered = info.u64(128);
    })
}

/// `TCP_ESTABLISHED` and `TCP_INFINITE_SSTHRESH` of Linux.
const ESTABLISHED: u8 = 1;
const NO_SSTHRESH: u64 = 0x7fff_ffff;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_where_the_kernel_has_them() {
        let mut bytes = vec![0; 248];
        bytes[0] = 1;
        let mut put = |at: usize, value: u32| {
            bytes[at..at + 4].copy_from_slice(&value.to_ne_bytes());
        };
        put(16, 1448);
        put(24, 30);
        put(28, 5);
        put(36, 2);
        put(68, 20_500);
        put(76, 0x7fff_ffff);
        put(80, 40);
        put(200, 1_000_000);
        put(208, 2896);
        let ends: [SocketAddr; 2] =
            ["10.0.0.1:1", "10.0.1.250:5001"].map(|end| end.parse().unwrap());
        let snapshot = subflow(&Fields(&bytes), 1, PathId(1), ends);
        assert_eq!(snapshot.view.in_flight, 27 * 1448);
        assert_eq!((snapshot.view.cwnd, snapshot.view.ssthresh), (40 * 1448, u64::MAX));
        assert_eq!(snapshot.view.srtt, Duration::from_micros(20_500));
        assert_eq!(
            (snapshot.stats.bytes_sent, snapshot.stats.bytes_retransmitted),
            (1_000_000, 2896)
        );
        // An older kernel tells less.
        let old = subflow(&Fields(&bytes[..200]), 0, PathId(0), ends);
        assert_eq!(old.stats.bytes_sent, 0);
    }

    #[test]
    fn addresses_of_both_families_are_read() {
        let mut v4 = vec![0; 128];
        v4[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
        v4[2..8].copy_from_slice(&[0x13, 0x89, 10, 0, 1, 250]);
        assert_eq!(address(&v4), Some("10.0.1.250:5001".parse().unwrap()));
        let mut v6 = vec![0; 128];
        v6[..2].copy_from_slice(&(libc::AF_INET6 as u16).to_ne_bytes());
        v6[2..4].copy_from_slice(&80u16.to_be_bytes());
        v6[8..24].copy_from_slice(&Ipv6Addr::LOCALHOST.octets());
        assert_eq!(address(&v6), Some("[::1]:80".parse().unwrap()));
        assert_eq!(address(&[0; 128]), None);
    }
}
