//! Memory outside of the agent's own buffers: the kernel's queues of a socket, and what the
//! allocator keeps.

#![expect(unsafe_code, reason = "socket options and a call of the C library that no crate has")]

use socket2::SockRef;
use std::os::fd::{AsFd, AsRawFd};

/// Fields of `SO_MEMINFO` (socket(7)); which of them are bytes that are held.
const FIELDS: usize = 9;
const HELD: [usize; 3] = [0, 5, 7];

/// Bytes that wait in the kernel in both directions of a socket, with what it adds to each packet.
#[must_use]
pub(crate) fn held(socket: &impl AsFd) -> u64 {
    let mut info = [0_u32; FIELDS];
    let mut len = size_of_val(&info) as libc::socklen_t;
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: the kernel writes at most `len` bytes to `info`, and to `len` how many.
    let done = unsafe {
        let (level, name) = (libc::SOL_SOCKET, libc::SO_MEMINFO);
        libc::getsockopt(fd, level, name, (&raw mut info).cast(), &raw mut len)
    };
    if done == 0 { HELD.iter().map(|field| u64::from(info[*field])).sum() } else { 0 }
}

/// Limits what may wait in the kernel in each direction of a socket to so many bytes (of which it
/// makes twice as many), or lets the kernel choose again. Best effort.
pub(crate) fn limit(socket: &impl AsFd, bytes: Option<usize>) {
    let stream = SockRef::from(socket);
    if let Some(bytes) = bytes {
        let _ = stream.set_recv_buffer_size(bytes);
        let _ = stream.set_send_buffer_size(bytes);
        return;
    }
    let fd = socket.as_fd().as_raw_fd();
    let (unlocked, len) = (0_i32, size_of::<i32>() as libc::socklen_t);
    // SAFETY: the pointer is to an `i32` that lives until the call returns, whose size is passed.
    let _ = unsafe {
        let value = (&raw const unlocked).cast();
        libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_BUF_LOCK, value, len)
    };
}

/// Freed bytes that are worth giving back.
const WORTH: u64 = 16 << 20;

/// The most that was held since memory was last given back to the system, bytes.
#[derive(Default)]
pub(crate) struct Peak(u64);

impl Peak {
    /// So much is held now: what has become free since the peak goes back, if it is worth it.
    pub(crate) fn note(&mut self, held: u64) {
        self.0 = self.0.max(held);
        if self.0 - held >= WORTH {
            self.0 = held;
            give_back();
        }
    }
}

/// Gives memory back to the system that the allocator keeps for later.
fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: glibc's own locks make it safe at any time.
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn what_nobody_reads_is_counted_and_can_be_limited() {
        let filled = |bytes| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let far = listener.accept().unwrap().0;
            limit(&near, bytes);
            limit(&far, bytes);
            near.set_nonblocking(true).unwrap();
            while near.write(&[1; 65_536]).is_ok() {}
            (held(&near) + held(&far), near, far)
        };
        let (free, _near, _far) = filled(None);
        let (tight, _near, _far) = filled(Some(32 << 10));
        assert!(free > 0 && tight > 0);
        assert!(tight <= 300 << 10, "{tight} of {free}");
        give_back();
    }
}
