//! One poll for everything that an agent waits for.
//!
//! mio waits in whole milliseconds and rounds up, which is far too coarse for pacing: the wait
//! itself is a `ppoll` on mio's own descriptor. An agent that is woken often is woken less often
//! ([`Moderation`]).

use crate::moderation::Moderation;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Registry, Token, Waker};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::sync::Arc;
use tabane_engine::Duration;
use tabane_net::Clock;
use tabane_net::wireguard::UdpPort;

/// Waits for sockets, for other threads and for time.
pub(crate) struct Reactor {
    poll: Poll,
    events: Events,
    waker: Arc<Waker>,
}

/// What becomes ready; told from others by its token in the poll.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum EventSource {
    /// Another thread has something.
    Wake,
    /// A UDP port of a path.
    Port(usize),
    /// A server's port for handshakes.
    Handshakes(usize),
    /// Programs connect here.
    Listener(usize),
    /// A program's connection, or one of ours to a destination.
    Socket(SocketId),
    /// Datagrams from and to the outside.
    Flow(usize),
    /// A program's datagrams.
    Associate(usize),
    /// The TUN device.
    Tun,
    /// What a client inside a server waits for.
    Next,
}

/// Names a TCP socket of an agent; never used twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub(crate) struct SocketId(u64);

/// What a source is ready for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ready {
    pub(crate) source: EventSource,
    /// It can be read, or has ended.
    pub(crate) readable: bool,
    /// It can be written, or has failed.
    pub(crate) writable: bool,
}

/// What goes round in one thread: an agent.
pub(crate) trait Agent {
    /// Why it cannot go on.
    type Error: From<io::Error>;

    /// Does what is due, and sends what is to be sent; whether there is more to do at once.
    ///
    /// # Errors
    /// Why it cannot go on.
    fn round(&mut self) -> Result<bool, Self::Error>;

    /// How long it can be left alone.
    fn sleep(&self) -> Option<Duration>;

    /// Something is ready.
    fn ready(&mut self, ready: Ready);

    /// Whether it is to stop.
    fn is_stopped(&self) -> bool;
}

/// Events taken at a time at most.
pub(crate) const EVENTS: usize = 1024;
/// The kind of a source is in the upper bits of its token, which of them in the lower.
const KIND_SHIFT: u32 = usize::BITS - 8;

impl SocketId {
    /// The one after it.
    pub(crate) fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl EventSource {
    /// To be registered with.
    pub(crate) fn token(self) -> Token {
        let (kind, which) = match self {
            Self::Wake => (0, 0),
            Self::Port(at) => (1, at),
            Self::Handshakes(at) => (2, at),
            Self::Listener(at) => (3, at),
            Self::Socket(SocketId(id)) => (4, id as usize),
            Self::Flow(at) => (5, at),
            Self::Associate(at) => (6, at),
            Self::Tun => (7, 0),
            Self::Next => (8, 0),
        };
        debug_assert!(which < 1 << KIND_SHIFT);
        Token(kind << KIND_SHIFT | which)
    }

    /// Registered with that token.
    pub(crate) fn of(Token(token): Token) -> Self {
        let which = token & ((1 << KIND_SHIFT) - 1);
        match token >> KIND_SHIFT {
            1 => Self::Port(which),
            2 => Self::Handshakes(which),
            3 => Self::Listener(which),
            4 => Self::Socket(SocketId(which as u64)),
            5 => Self::Flow(which),
            6 => Self::Associate(which),
            7 => Self::Tun,
            8 => Self::Next,
            _ => Self::Wake,
        }
    }
}

/// Has a UDP port looked after: it is read, and for as long as it is full it is waited for until it
/// can be written.
///
/// # Errors
/// The system's.
pub(crate) fn register_port(
    registry: &Registry,
    port: &UdpPort,
    source: EventSource,
) -> io::Result<()> {
    registry.register(&mut SourceFd(&port.as_raw_fd()), source.token(), Interest::READABLE)
}

/// The same after it was flushed.
pub(crate) fn follow_port(registry: &Registry, port: &mut UdpPort, source: EventSource) {
    let Some(waits) = port.poll_waiting() else { return };
    let readable = Interest::READABLE;
    let interest = if waits { readable | Interest::WRITABLE } else { readable };
    // At worst what is queued leaves with the next round.
    let _ = registry.reregister(&mut SourceFd(&port.as_raw_fd()), source.token(), interest);
}

impl Reactor {
    /// Sets up.
    ///
    /// # Errors
    /// The system has no descriptors left.
    pub(crate) fn new() -> io::Result<Self> {
        let poll = Poll::new()?;
        let waker = Arc::new(Waker::new(poll.registry(), EventSource::Wake.token())?);
        Ok(Self { poll, events: Events::with_capacity(EVENTS), waker })
    }

    /// To register sources with [`EventSource::token`].
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

    /// Goes round with an agent until it stops.
    ///
    /// # Errors
    /// The agent's; the system's, when it cannot even wait.
    pub(crate) fn run<A: Agent>(&mut self, agent: &mut A) -> Result<(), A::Error> {
        let (mut ready, clock, mut moderation) = (Vec::new(), Clock::start(), Moderation::new());
        while !agent.is_stopped() {
            if !agent.round()? {
                let hold = moderation.hold(clock.now());
                if hold > Duration::ZERO {
                    sleep(&mut [], Some(hold))?;
                    self.take(&mut ready)?;
                }
                let before = clock.now();
                if ready.is_empty() {
                    self.sleep(agent.sleep())?;
                }
                let now = clock.now();
                moderation.handle_wake(now, now.saturating_since(before));
            }
            if ready.is_empty() {
                self.take(&mut ready)?;
            }
            ready.drain(..).for_each(|ready| agent.ready(ready));
        }
        Ok(())
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
        self.sleep(limit)?;
        self.take(ready)
    }

    /// Writes what is ready to `ready`.
    fn take(&mut self, ready: &mut Vec<Ready>) -> io::Result<()> {
        match self.poll.poll(&mut self.events, Some(std::time::Duration::ZERO)) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(()),
            other => other?,
        }
        ready.extend(self.events.iter().map(|event| Ready {
            source: EventSource::of(event.token()),
            readable: event.is_readable() || event.is_read_closed() || event.is_error(),
            writable: event.is_writable() || event.is_error(),
        }));
        Ok(())
    }

    /// Until something is ready, or for so long.
    fn sleep(&self, limit: Option<Duration>) -> io::Result<()> {
        if limit == Some(Duration::ZERO) {
            return Ok(());
        }
        let fd = borrow(&self.poll);
        sleep(&mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)], limit)
    }
}

/// Until one of these is ready, or for so long.
fn sleep(fds: &mut [PollFd<'_>], limit: Option<Duration>) -> io::Result<()> {
    let limit = limit.map(|limit| Timespec {
        tv_sec: (limit.0 / 1_000_000_000) as i64,
        tv_nsec: (limit.0 % 1_000_000_000) as i64,
    });
    match poll(fds, limit.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[expect(unsafe_code, reason = "mio's poll has no AsFd")]
fn borrow(poll: &Poll) -> BorrowedFd<'_> {
    // SAFETY: the descriptor belongs to `poll` and lives as long as the borrow of it.
    unsafe { BorrowedFd::borrow_raw(poll.as_raw_fd()) }
}

#[cfg(test)]
mod tests {
    use super::*;
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
        reactor
            .registry()
            .register(&mut far, EventSource::Socket(SocketId(77)).token(), all)
            .unwrap();
        let mut ready = Vec::new();
        reactor.wait(None, &mut ready).unwrap();
        assert_eq!(ready[0].source, EventSource::Socket(SocketId(77)));
        assert!(ready[0].writable && !ready[0].readable);
        ready.clear();
        near.write_all(b"x").unwrap();
        reactor.wait(None, &mut ready).unwrap();
        assert!(ready[0].readable);
        reactor.waker().wake().unwrap();
        ready.clear();
        reactor.wait(None, &mut ready).unwrap();
        assert_eq!(ready[0].source, EventSource::Wake);
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
