//! The sockets of flows: unconnected UDP or unprivileged ICMP, with the queue in which Linux keeps
//! what routers and hosts report about datagrams (`IP_RECVERR`, ip(7)).

use mio::net::UdpSocket;
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::mem;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsRawFd;

/// A report by ICMP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Report {
    /// Where the datagram was sent to.
    pub(crate) about: SocketAddr,
    /// Type and code.
    pub(crate) kind: u8,
    pub(crate) code: u8,
}

/// Bytes that the system keeps of what has come and not been read.
const BUFFER: usize = 256 << 10;

/// Opens a socket that is bound to a port of the system's choice.
pub(super) fn open(v4: bool, echo: bool) -> io::Result<UdpSocket> {
    let domain = if v4 { Domain::IPV4 } else { Domain::IPV6 };
    let protocol = match (echo, v4) {
        (false, _) => Protocol::UDP,
        (true, true) => Protocol::ICMPV4,
        (true, false) => Protocol::ICMPV6,
    };
    let socket = Socket::new(domain, Type::DGRAM, Some(protocol))?;
    socket.set_nonblocking(true)?;
    // As much as the system gives.
    let _ = socket.set_recv_buffer_size(BUFFER);
    let any: SocketAddr = match v4 {
        true => (Ipv4Addr::UNSPECIFIED, 0).into(),
        false => {
            socket.set_only_v6(true)?;
            (Ipv6Addr::UNSPECIFIED, 0).into()
        }
    };
    let (level, option) = match v4 {
        true => (libc::IPPROTO_IP, libc::IP_RECVERR),
        false => (libc::IPPROTO_IPV6, libc::IPV6_RECVERR),
    };
    let on: libc::c_int = 1;
    // SAFETY: the option's value is an int, which lives for the call.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            (&raw const on).cast(),
            mem::size_of_val(&on) as libc::socklen_t,
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    socket.bind(&any.into())?;
    Ok(UdpSocket::from_std(socket.into()))
}

/// Takes the next report by ICMP from the socket's queue; those of the system itself are skipped.
pub(super) fn next_report(socket: &UdpSocket) -> Option<Report> {
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
fn receive(socket: &UdpSocket) -> Option<(SocketAddr, libc::sock_extended_err)> {
    // Aligned for the headers in it.
    let mut control = [0u64; 64];
    let mut datagram = [0u8; 64];
    let mut vector =
        libc::iovec { iov_base: datagram.as_mut_ptr().cast(), iov_len: datagram.len() };
    // SAFETY: all zeros is a valid msghdr, whose pointers are set below.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_iov = &raw mut vector;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = mem::size_of_val(&control) as _;
    let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
    let fd = socket.as_raw_fd();
    // SAFETY: SockAddr gives room for any address, `message` points to buffers that live for the
    // call, and a received address is what SockAddr then holds.
    let (received, about) = unsafe {
        socket2::SockAddr::try_init(|address, len| {
            message.msg_name = address.cast();
            message.msg_namelen = *len;
            let received = libc::recvmsg(fd, &raw mut message, flags);
            *len = message.msg_namelen;
            if received < 0 { Err(io::Error::last_os_error()) } else { Ok(received) }
        })
    }
    .ok()?;
    debug_assert!(received >= 0);
    let about = about.as_socket()?;
    // SAFETY: recvmsg has filled in `message`, whose control buffer still lives.
    let mut header = unsafe { libc::CMSG_FIRSTHDR(&raw const message) };
    while !header.is_null() {
        // SAFETY: the header lies within the control buffer, which is aligned.
        let (level, kind) = unsafe { ((*header).cmsg_level, (*header).cmsg_type) };
        let is_error = (level == libc::IPPROTO_IP && kind == libc::IP_RECVERR)
            || (level == libc::IPPROTO_IPV6 && kind == libc::IPV6_RECVERR);
        if is_error {
            // SAFETY: the data of such a header begins with this structure.
            let data = unsafe { libc::CMSG_DATA(header).cast::<libc::sock_extended_err>() };
            // SAFETY: as above; it need not be aligned.
            return Some((about, unsafe { data.read_unaligned() }));
        }
        // SAFETY: as for the first.
        header = unsafe { libc::CMSG_NXTHDR(&raw const message, header) };
    }
    None
}
