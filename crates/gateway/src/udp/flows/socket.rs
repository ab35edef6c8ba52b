//! The sockets of flows: unconnected UDP or unprivileged ICMP, with the queue in which Linux keeps
//! what routers and hosts report about datagrams (`IP_RECVERR`, ip(7)).

use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, setsockopt, sockopt,
};
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{self, IoSliceMut};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::AsRawFd;
use tabane_net::datagrams::DatagramSocket;

/// A report by ICMP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Report {
    /// Where the datagram was sent to.
    pub(crate) about: SocketAddr,
    /// Type and code.
    pub(crate) kind: u8,
    pub(crate) code: u8,
}

/// Bytes that the system keeps of what has come and not been read, and of what is to leave: as for
/// the tunnels' own ports, ten milliseconds of 200 000 datagrams a second.
const BUFFER: usize = 4 << 20;

/// Opens a socket that is bound to a port of the system's choice.
pub(super) fn open(v4: bool, echo: bool) -> io::Result<DatagramSocket> {
    let domain = if v4 { Domain::IPV4 } else { Domain::IPV6 };
    let protocol = match (echo, v4) {
        (false, _) => Protocol::UDP,
        (true, true) => Protocol::ICMPV4,
        (true, false) => Protocol::ICMPV6,
    };
    let socket = Socket::new(domain, Type::DGRAM, Some(protocol))?;
    socket.set_nonblocking(true)?;
    // As much as the system gives.
    if setsockopt(&socket, sockopt::RcvBufForce, &BUFFER).is_err() {
        let _ = socket.set_recv_buffer_size(BUFFER);
    }
    if setsockopt(&socket, sockopt::SndBufForce, &BUFFER).is_err() {
        let _ = socket.set_send_buffer_size(BUFFER);
    }
    let any: SocketAddr = match v4 {
        true => (Ipv4Addr::UNSPECIFIED, 0).into(),
        false => {
            socket.set_only_v6(true)?;
            (Ipv6Addr::UNSPECIFIED, 0).into()
        }
    };
    match v4 {
        true => setsockopt(&socket, sockopt::Ipv4RecvErr, &true)?,
        false => setsockopt(&socket, sockopt::Ipv6RecvErr, &true)?,
    }
    socket.bind(&any.into())?;
    DatagramSocket::new(socket)
}

/// Takes the next report by ICMP from the socket's queue; those of the system itself are skipped.
pub(super) fn next_report(socket: &DatagramSocket) -> Option<Report> {
    loop {
        match receive(socket)? {
            (about, error)
                if [libc::SO_EE_ORIGIN_ICMP, libc::SO_EE_ORIGIN_ICMP6]
                    .contains(&error.ee_origin) =>
            {
                return Some(Report { about, kind: error.ee_type, code: error.ee_code });
            }
            _ => {}
        }
    }
}

/// One entry of the queue: where the datagram was sent to, and what became of it.
fn receive(socket: &DatagramSocket) -> Option<(SocketAddr, libc::sock_extended_err)> {
    let mut control = nix::cmsg_space!(libc::sock_extended_err, libc::sockaddr_in6);
    let mut datagram = [0; 64];
    let mut parts = [IoSliceMut::new(&mut datagram)];
    let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
    let message =
        recvmsg::<SockaddrStorage>(socket.as_raw_fd(), &mut parts, Some(&mut control), flags)
            .ok()?;
    let about = socket_address(message.address.as_ref()?)?;
    let error = message.cmsgs().ok()?.find_map(|part| match part {
        ControlMessageOwned::Ipv4RecvErr(error, _) | ControlMessageOwned::Ipv6RecvErr(error, _) => {
            Some(error)
        }
        _ => None,
    })?;
    Some((about, error))
}

fn socket_address(storage: &SockaddrStorage) -> Option<SocketAddr> {
    let v4 = storage.as_sockaddr_in().map(|v4| SocketAddrV4::from(*v4).into());
    v4.or_else(|| storage.as_sockaddr_in6().map(|v6| SocketAddrV6::from(*v6).into()))
}
