//! Making the socket of a [`UdpPort`](super::UdpPort), with the options that socket2 does not
//! know.

#![expect(unsafe_code, reason = "socket options that no crate has")]

use super::TYPE_DATA;
use super::port::{Bind, PortConfig};
use quinn_udp::{UdpSockRef, UdpSocketState};
use socket2::{Domain, Protocol, Socket, Type};
use std::ffi::CString;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;

/// A socket where the configuration says.
pub(super) fn bound(config: &PortConfig) -> io::Result<Socket> {
    let address = config.bind.address();
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_nonblocking(true)?;
    if address.is_ipv6() {
        let both = matches!(config.bind, Bind::Listen(_)) && address.ip().is_unspecified();
        socket.set_only_v6(!both)?;
    }
    if let Some(name) = config.bind.interface() {
        socket.bind_device(Some(name.as_bytes()))?;
    }
    if let Some(mark) = config.mark {
        socket.set_mark(mark)?;
    }
    // Best effort: smaller buffers only drop more.
    if set_option(&socket, libc::SO_RCVBUFFORCE, config.receive_buffer).is_err() {
        let _ = socket.set_recv_buffer_size(config.receive_buffer);
    }
    if set_option(&socket, libc::SO_SNDBUFFORCE, config.send_buffer).is_err() {
        let _ = socket.set_send_buffer_size(config.send_buffer);
    }
    if config.joins {
        socket.set_reuse_port(true)?;
    }
    socket.bind(&address.into())?;
    Ok(socket)
}

/// Lets a second socket be bound where the first is, which is bound alone: nobody had the address
/// before, and from now on only the same user can join it.
pub(super) fn share(first: &Socket) -> io::Result<()> {
    first.set_reuse_port(true)
}

/// Tells the kernel which of the two sockets of an address a datagram is for: data for the first,
/// everything else for the second. Classic BPF (`SO_ATTACH_REUSEPORT_CBPF`, socket(7)), which needs
/// no privilege; the program sees the UDP payload.
pub(super) fn steer(socket: &Socket) -> io::Result<()> {
    let op =
        |class: u32, jt: u8, jf: u8, k: u32| libc::sock_filter { code: class as u16, jt, jf, k };
    let mut program = [
        op(libc::BPF_LD | libc::BPF_B | libc::BPF_ABS, 0, 0, 0),
        op(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, TYPE_DATA.into()),
        op(libc::BPF_RET | libc::BPF_K, 0, 0, 0),
        op(libc::BPF_RET | libc::BPF_K, 0, 0, 1),
    ];
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    let len = size_of::<libc::sock_fprog>() as libc::socklen_t;
    let (level, name) = (libc::SOL_SOCKET, libc::SO_ATTACH_REUSEPORT_CBPF);
    // SAFETY: the kernel copies `len` bytes of `program` and the instructions that it points to,
    // all of which live until the call returns.
    let done = unsafe {
        libc::setsockopt(socket.as_raw_fd(), level, name, (&raw const program).cast(), len)
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Sets the options of batches, offload and path MTU.
pub(super) fn offload_state(socket: &Socket, config: &PortConfig) -> io::Result<UdpSocketState> {
    let state = UdpSocketState::new(UdpSockRef::from(socket))?;
    // quinn-udp asks for the time of every datagram, which nobody here reads.
    let _ = set_option(socket, libc::SO_TIMESTAMPNS, 0);
    if !config.offload {
        coalesce(socket, false)?;
    }
    Ok(state)
}

/// Sets an option of the socket level.
fn set_option(fd: &impl AsRawFd, name: i32, value: usize) -> io::Result<()> {
    let value = i32::try_from(value).unwrap_or(i32::MAX);
    set(fd, libc::SOL_SOCKET, name, value)
}

/// `UDP_GRO`.
fn coalesce(fd: &impl AsRawFd, on: bool) -> io::Result<()> {
    set(fd, libc::SOL_UDP, libc::UDP_GRO, i32::from(on))
}

fn set(fd: &impl AsRawFd, level: i32, name: i32, value: i32) -> io::Result<()> {
    let len = size_of::<i32>() as libc::socklen_t;
    // SAFETY: the pointer is to an `i32` on the stack, whose size is passed.
    let done =
        unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, (&raw const value).cast(), len) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The index of an interface.
pub(super) fn interface_index(name: &str) -> io::Result<u32> {
    let name = CString::new(name)?;
    // SAFETY: the name ends in a zero byte and lives until the call returns.
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    if index == 0 { Err(io::Error::last_os_error()) } else { Ok(index) }
}

/// Refusals that may mean segmentation offload.
pub(super) fn may_be_offload(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EIO | libc::EINVAL | libc::EMSGSIZE))
}

/// IPv4 as a socket of both families wants it.
pub(super) fn mapped(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V4(v4) => (v4.ip().to_ipv6_mapped(), v4.port()).into(),
        SocketAddr::V6(_) => address,
    }
}
