//! An ordinary UDP socket, in batches both ways, with segmentation offload (`UDP_SEGMENT`,
//! `UDP_GRO`) where the kernel has it. Unlike a tunnel's port ([`crate::wireguard::UdpPort`]) it
//! has no queue, and what is longer than the way carries is fragmented, as any program's datagrams
//! are.

#![expect(unsafe_code, reason = "socket options that no crate has")]

use crate::wireguard::Batch;
use quinn_udp::{Transmit, UdpSockRef, UdpSocketState};
use socket2::Socket;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, RawFd};

/// The socket; not connected.
#[derive(Debug)]
pub struct DatagramSocket {
    socket: Socket,
    state: UdpSocketState,
}

/// Datagrams sent by one call at most: `UDP_MAX_SEGMENTS` of every kernel that has the offload.
pub const RUN_DATAGRAMS: usize = 64;
/// Their bytes at most: the largest UDP payload over IPv4.
pub const RUN_BYTES: usize = 65_507;

impl DatagramSocket {
    /// Takes a bound socket over.
    ///
    /// # Errors
    /// The system's.
    pub fn new(socket: Socket) -> io::Result<Self> {
        let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
        let v4 = socket.local_addr()?.is_ipv4();
        // What quinn-udp asks for and nobody here reads; best effort.
        let _ = set(&socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 0);
        if v4 {
            let _ = set(&socket, libc::IPPROTO_IP, libc::IP_PKTINFO, 0);
            let _ = set(&socket, libc::IPPROTO_IP, libc::IP_RECVTOS, 0);
            set(&socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_WANT)?;
        } else {
            let _ = set(&socket, libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, 0);
            let _ = set(&socket, libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS, 0);
            // And what it sets so that nothing is fragmented.
            let (level, want) = (libc::IPPROTO_IPV6, libc::IPV6_PMTUDISC_WANT);
            set(&socket, level, libc::IPV6_MTU_DISCOVER, want)?;
            set(&socket, level, libc::IPV6_DONTFRAG, 0)?;
        }
        Ok(Self { socket, state })
    }

    /// The socket itself.
    #[must_use]
    pub fn inner(&self) -> &Socket {
        &self.socket
    }

    /// Receives a batch; [`Batch::datagrams`] has it then.
    ///
    /// # Errors
    /// The system's; [`io::ErrorKind::WouldBlock`] if there is nothing.
    pub fn recv(&self, batch: &mut Batch) -> io::Result<()> {
        let socket = UdpSockRef::from(&self.socket);
        // Large buffers in any case: a datagram that was put together from fragments fits, too.
        batch.fill(true, |slices, meta| self.state.recv(socket, slices, meta))?;
        batch.note(0, false);
        Ok(())
    }

    /// Datagrams that [`DatagramSocket::send`] takes at once; 1 once it is known that the way out
    /// has no offload, or that they have to be fragmented.
    #[must_use]
    pub fn most(&self) -> usize {
        self.state.max_gso_segments().min(RUN_DATAGRAMS)
    }

    /// Sends a run: datagrams of `size` bytes each, of which the last may be shorter. What cannot
    /// be sent at once is sent one by one; how many the system took.
    ///
    /// # Errors
    /// The system's, when it took none.
    pub fn send(&self, to: SocketAddr, run: &[u8], size: usize) -> io::Result<usize> {
        if run.len() <= size {
            return self.send_once(to, run, None).map(|()| 1);
        }
        if self.most() > 1 && self.send_once(to, run, Some(size)).is_ok() {
            return Ok(run.len().div_ceil(size));
        }
        let mut sent = 0;
        for datagram in run.chunks(size) {
            match self.send_once(to, datagram, None) {
                Ok(()) => sent += 1,
                Err(error) if sent == 0 => return Err(error),
                Err(_) => break,
            }
        }
        Ok(sent)
    }

    fn send_once(&self, to: SocketAddr, bytes: &[u8], size: Option<usize>) -> io::Result<()> {
        let transmit = Transmit {
            destination: to,
            ecn: None,
            contents: bytes,
            segment_size: size,
            src_ip: None,
        };
        let send = || self.state.try_send(UdpSockRef::from(&self.socket), &transmit);
        // An error reported about an earlier datagram comes out of the next call: it is not this
        // one's.
        match send() {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => send(),
            other => other,
        }
    }
}

impl AsRawFd for DatagramSocket {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

fn set(socket: &Socket, level: i32, name: i32, value: i32) -> io::Result<()> {
    let len = size_of::<i32>() as libc::socklen_t;
    // SAFETY: the pointer is to an `i32` on the stack, whose size is passed.
    let done = unsafe {
        libc::setsockopt(socket.as_raw_fd(), level, name, (&raw const value).cast(), len)
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use socket2::{Domain, Type};
    use std::net::{Ipv4Addr, UdpSocket};

    fn socket() -> DatagramSocket {
        let socket = Socket::new(Domain::IPV4, Type::DGRAM, None).unwrap();
        socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).unwrap();
        DatagramSocket::new(socket).unwrap()
    }

    #[test]
    fn runs_are_datagrams_both_ways() {
        let (ours, peer) = (socket(), UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
        peer.set_read_timeout(Some(std::time::Duration::from_secs(5))).unwrap();
        let run: Vec<u8> = (0..2500_u32).map(|i| i as u8).collect();
        assert_eq!(ours.send(peer.local_addr().unwrap(), &run, 1000).unwrap(), 3);
        let (mut buffer, mut back) = ([0; 2000], None);
        for expected in run.chunks(1000) {
            let (len, from) = peer.recv_from(&mut buffer).unwrap();
            assert_eq!(&buffer[..len], expected);
            peer.send_to(expected, from).unwrap();
            back = Some(from);
        }
        let (mut batch, mut got) = (Batch::new(), Vec::new());
        while got.len() < 3 {
            match ours.recv(&mut batch) {
                Ok(()) => got.extend(batch.datagrams().map(|(_, datagram)| datagram.to_vec())),
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
            }
        }
        assert_eq!(got, run.chunks(1000).map(<[u8]>::to_vec).collect::<Vec<_>>());
        assert!(back.is_some());
    }

    #[test]
    fn empty_datagrams_are_datagrams() {
        let (ours, peer) = (socket(), UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
        ours.send(peer.local_addr().unwrap(), &[], 1000).unwrap();
        let (len, from) = peer.recv_from(&mut [0; 8]).unwrap();
        assert_eq!(len, 0);
        let sent = [&b""[..], b"one", b"", b"", b"the end"];
        for datagram in sent {
            peer.send_to(datagram, from).unwrap();
        }
        let (mut batch, mut got) = (Batch::new(), Vec::new());
        while !got.ends_with(&[b"the end".to_vec()]) {
            match ours.recv(&mut batch) {
                Ok(()) => got.extend(batch.datagrams().map(|(_, datagram)| datagram.to_vec())),
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
            }
        }
        assert_eq!(got, sent);
    }

    #[test]
    fn what_is_longer_than_a_packet_is_fragmented() {
        let (ours, peer) = (socket(), UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
        peer.set_read_timeout(Some(std::time::Duration::from_secs(5))).unwrap();
        let long = vec![7; 60_000];
        assert_eq!(ours.send(peer.local_addr().unwrap(), &long, long.len()).unwrap(), 1);
        let mut buffer = vec![0; 65_536];
        assert_eq!(peer.recv_from(&mut buffer).unwrap().0, long.len());
    }
}
