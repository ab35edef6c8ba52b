//! What emulated networks have in common, whatever their ends are: packets that are due, buffers,
//! and the wait for what comes next.

use rustix::event::{PollFd, Timespec, poll};
use std::io;
use tabane_engine::Instant;
use tabane_net::Clock;
use tabane_sim::link::{Link, Packet};

/// The next packet that should have left `link` by now, with when it should have, and now.
pub(crate) fn pop_due<P: Packet>(
    link: &mut Link<P>,
    clock: Clock,
) -> Option<(Instant, Instant, P)> {
    loop {
        let now = clock.now();
        let due = link.next_event().filter(|due| *due <= now)?;
        if let Some(packet) = link.pop(now) {
            return Some((due, now, packet));
        }
    }
}

/// Waits until it is time, or until something can be read; whether that is the first of `fds`.
pub(crate) fn wait(
    clock: Clock,
    until: Option<Instant>,
    fds: &mut [PollFd<'_>],
) -> io::Result<bool> {
    let timeout = until.map(|until| {
        let wait = until.saturating_since(clock.now()).0;
        Timespec { tv_sec: (wait / 1_000_000_000) as i64, tv_nsec: (wait % 1_000_000_000) as i64 }
    });
    match poll(fds, timeout.as_ref()) {
        Ok(_) => Ok(!fds[0].revents().is_empty()),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Buffers that no packet is in, at most so many.
pub(crate) struct Pool {
    buffers: Vec<Vec<u8>>,
    most: usize,
}

impl Pool {
    pub(crate) fn new(most: usize) -> Self {
        Self { buffers: Vec::new(), most }
    }

    /// One of whatever contents and length.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        self.buffers.pop().unwrap_or_default()
    }

    pub(crate) fn give_back(&mut self, buffer: Vec<u8>) {
        if self.buffers.len() < self.most {
            self.buffers.push(buffer);
        }
    }
}
