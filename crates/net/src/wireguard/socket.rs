//! Making the socket of a [`UdpPort`](super::UdpPort), with the options that socket2 does not
//! know.

#![allow(unsafe_code)]

use super::port::{Bind, PortConfig};
use quinn_udp::{UdpSockRef, UdpSocketState};
use socket2::{Domain, Protocol, Socket, Type};
use std::ffi::CString;
use std::io;
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
    socket.bind(&address.into())?;
    Ok(socket)
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
