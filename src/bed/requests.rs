//! A program that asks a [`super::source::Source`] for a little, again and again over one
//! connection through a gateway, and notes how long each answer took.

use super::connect;
use anyhow::{Context, anyhow};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tabane_engine::Instant;
use tabane_net::Clock;

/// One that ends when it is told to.
pub(crate) struct Requests {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<anyhow::Result<Vec<(Instant, f64)>>>,
}

/// What it asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Habit {
    /// Bytes of an answer.
    pub(crate) size: u64,
    /// Between an answer and the next request.
    pub(crate) think: Duration,
    /// Before the first.
    pub(crate) wait: Duration,
}

/// Between looks at whether to end.
const GLANCE: Duration = Duration::from_millis(50);

impl Requests {
    /// Connects, waits and begins to ask.
    ///
    /// # Errors
    /// The client refuses, or the system gives no thread.
    pub(crate) fn start(
        clock: Clock,
        socks: SocketAddr,
        from: SocketAddr,
        habit: Habit,
    ) -> anyhow::Result<Self> {
        let stream = connect(socks, from)?;
        stream.set_read_timeout(Some(GLANCE))?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = thread::Builder::new().name("requests".into()).spawn(move || {
            let ended = || stopped.load(Ordering::Relaxed);
            ask(clock, stream, habit, &ended)
        })?;
        Ok(Self { stop, thread })
    }

    /// Ends it: when each request was made, and how many seconds its answer took. The last one
    /// counts as far as it had come.
    ///
    /// # Errors
    /// It had failed before.
    pub(crate) fn end(self) -> anyhow::Result<Vec<(Instant, f64)>> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| anyhow!("a program panicked"))?
    }
}

fn ask(
    clock: Clock,
    mut stream: TcpStream,
    habit: Habit,
    ended: &impl Fn() -> bool,
) -> anyhow::Result<Vec<(Instant, f64)>> {
    let mut times = Vec::new();
    let (mut block, mut pause) = (vec![0; 64 << 10], habit.wait);
    loop {
        let until = clock.now() + tabane_engine::Duration(pause.as_nanos() as u64);
        while clock.now() < until {
            if ended() {
                return Ok(times);
            }
            let left = Duration::from_nanos(until.saturating_since(clock.now()).0);
            thread::sleep(GLANCE.min(left));
        }
        pause = habit.think;
        let asked = clock.now();
        stream.write_all(format!("{}\n", habit.size).as_bytes()).context("no request")?;
        let mut left = habit.size;
        while left > 0 && !ended() {
            match stream.read(&mut block) {
                Ok(0) => return Err(anyhow!("a connection ended")),
                Ok(len) => left -= (len as u64).min(left),
                Err(error) if is_late(error.kind()) => {}
                Err(error) => return Err(error).context("a request failed"),
            }
        }
        times.push((asked, clock.now().saturating_since(asked).as_secs_f64()));
    }
}

fn is_late(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}
