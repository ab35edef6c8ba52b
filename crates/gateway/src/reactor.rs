//! One poll for everything that an agent waits for.
//!
//! mio waits in whole milliseconds and rounds up, which is far too coarse for pacing: the wait
//! itself is a `ppoll` on mio's own descriptor.

use mio::{Events, Poll, Registry, Token, Waker};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::sync::Arc;
use tabane_engine::Duration;

/// Waits for sockets, for other threads and for time.
pub(crate) struct Reactor {
    poll: Poll,
    events: Events,
    waker: Arc<Waker>,
}

/// What a token stands for; the rest of the token is an index into what the agent keeps of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Another thread has something.
    Wake,
    /// A UDP port of a path.
    Port,
    /// A server's port for handshakes.
    Handshakes,
    /// Programs connect here.
    Listener,
    /// A program's connection, or one of ours to a server.
    Program,
    /// Datagrams from and to the outside.
    Flow,
    /// A program's datagrams.
    Associate,
    /// The TUN device.
    Tun,
    /// What a client inside a server waits for.
    Next,
}

/// What a source is ready for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ready {
    /// Of which kind.
    pub(crate) kind: Kind,
    /// Which of them.
    pub(crate) index: usize,
    /// It can be read, or has ended.
    pub(crate) readable: bool,
    /// It can be written, or has failed.
    pub(crate) writable: bool,
}

/// Events taken at a time at most.
pub(crate) const EVENTS: usize = 1024;
const KINDS: [Kind; 9] = [
    Kind::Wake,
    Kind::Port,
    Kind::Handshakes,
    Kind::Listener,
    Kind::Program,
    Kind::Flow,
    Kind::Associate,
    Kind::Tun,
    Kind::Next,
];

impl Reactor {
    /// Sets up.
    ///
    /// # Errors
    /// The system has no descriptors left.
    pub(crate) fn new() -> io::Result<Self> {
        let poll = Poll::new()?;
        let waker = Arc::new(Waker::new(poll.registry(), token(Kind::Wake, 0))?);
        Ok(Self { poll, events: Events::with_capacity(EVENTS), waker })
    }

    /// To register sources with a token from [`token`].
    #[must_use]
    pub(crate) fn registry(&self) -> &Registry {
        self.poll.registry()
    }

    /// To be waited for inside another reactor: it becomes readable when something here is ready,
    /// and then not again before all of it has been taken.
    #[must_use]
    pub(crate) fn inside(&self) -> RawFd {
        self.poll.as_raw_fd()
    }

    /// Ends a wait from another thread.
    #[must_use]
    pub(crate) fn waker(&self) -> Arc<Waker> {
        self.waker.clone()
    }

    /// Waits at most so long (`None`: for ever) and writes what is ready to `ready`.
    ///
    /// # Errors
    /// The system's; never that a signal came.
    pub(crate) fn wait(
        &mut self,
        limit: Option<Duration>,
        ready: &mut Vec<Ready>,
    ) -> io::Result<()> {
        if limit != Some(Duration::ZERO) {
            self.sleep(limit)?;
        }
        match self.poll.poll(&mut self.events, Some(std::time::Duration::ZERO)) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(()),
            other => other?,
        }
        ready.extend(self.events.iter().map(|event| {
            let Token(token) = event.token();
            Ready {
                kind: KINDS[token >> KIND_SHIFT],
                index: token & ((1 << KIND_SHIFT) - 1),
                readable: event.is_readable() || event.is_read_closed() || event.is_error(),
                writable: event.is_writable() || event.is_error(),
            }
        }));
        Ok(())
    }

    fn sleep(&self, limit: Option<Duration>) -> io::Result<()> {
        let limit = limit.map(|limit| Timespec {
            tv_sec: (limit.0 / 1_000_000_000) as i64,
            tv_nsec: (limit.0 % 1_000_000_000) as i64,
        });
        let fd = borrow(&self.poll);
        match poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)], limit.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

const KIND_SHIFT: u32 = usize::BITS - 8;

/// The token of a source.
#[must_use]
pub(crate) fn token(kind: Kind, index: usize) -> Token {
    debug_assert!(index < 1 << KIND_SHIFT);
    Token((kind as usize) << KIND_SHIFT | index)
}

#[expect(unsafe_code, reason = "mio's poll has no AsFd")]
fn borrow(poll: &Poll) -> BorrowedFd<'_> {
    // SAFETY: the descriptor belongs to `poll` and lives as long as the borrow of it.
    unsafe { BorrowedFd::borrow_raw(poll.as_raw_fd()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mio::Interest;
    use std::io::Write;

    #[test]
    fn it_says_who_is_ready_and_for_what() {
        let mut reactor = Reactor::new().unwrap();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let far = listener.accept().unwrap().0;
        far.set_nonblocking(true).unwrap();
        let mut far = mio::net::TcpStream::from_std(far);
        let all = Interest::READABLE | Interest::WRITABLE;
        reactor.registry().register(&mut far, token(Kind::Program, 77), all).unwrap();
        let mut ready = Vec::new();
        reactor.wait(None, &mut ready).unwrap();
        assert_eq!((ready[0].kind, ready[0].index), (Kind::Program, 77));
        assert!(ready[0].writable && !ready[0].readable);
        ready.clear();
        near.write_all(b"x").unwrap();
        reactor.wait(None, &mut ready).unwrap();
        assert!(ready[0].readable);
        reactor.waker().wake().unwrap();
        ready.clear();
        reactor.wait(None, &mut ready).unwrap();
        assert_eq!(ready[0].kind, Kind::Wake);
    }

    #[test]
    fn a_wait_ends_in_time() {
        let mut reactor = Reactor::new().unwrap();
        let mut ready = Vec::new();
        reactor.wait(Some(Duration::from_micros(200)), &mut ready).unwrap();
        reactor.wait(Some(Duration::ZERO), &mut ready).unwrap();
        assert!(ready.is_empty());
    }
}
