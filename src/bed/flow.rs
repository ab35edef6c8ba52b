//! A download or an upload through a gateway that is watched from outside: how much had come by
//! when, and the longest time without a byte.

use super::connect;
use anyhow::{Context, anyhow};
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use tabane_engine::{Duration, Instant};
use tabane_net::Clock;

/// A download from a [`super::source::Source`], or an upload, that ends when it is told to.
pub(crate) struct Flow {
    stop: Arc<AtomicBool>,
    /// When the last bytes came, nanoseconds.
    last: Arc<AtomicU64>,
    thread: JoinHandle<anyhow::Result<Arrivals>>,
}

/// When how many bytes had come.
#[derive(Clone, Default, Debug)]
pub(crate) struct Arrivals(Vec<(Instant, u64)>);

/// More than any download here comes to.
const ENDLESS: u64 = 1 << 50;
/// Read at a time.
const BLOCK: usize = 256 << 10;
/// Between looks at whether to end.
const GLANCE: std::time::Duration = std::time::Duration::from_millis(50);

impl Flow {
    /// Connects and begins to read.
    ///
    /// # Errors
    /// The client refuses, or the system gives no thread.
    pub(crate) fn start(clock: Clock, socks: SocketAddr, from: SocketAddr) -> anyhow::Result<Self> {
        let mut stream = connect(socks, from)?;
        stream.set_read_timeout(Some(GLANCE))?;
        stream.write_all(format!("{ENDLESS}\n").as_bytes())?;
        Self::watch(clock, stream)
    }

    /// Connects and begins to write; what counts is what arrives at the far end.
    ///
    /// # Errors
    /// The client refuses, or the system gives no socket or thread.
    pub(crate) fn upload(clock: Clock, socks: SocketAddr) -> anyhow::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no listener")?;
        let mut program = connect(socks, listener.local_addr()?)?;
        let (far, _) = listener.accept().context("the upload does not come")?;
        far.set_read_timeout(Some(GLANCE))?;
        let flow = Self::watch(clock, far)?;
        // Without a limit: it ends with an error when the far end is gone.
        program.set_write_timeout(None)?;
        thread::Builder::new().name("upload".into()).spawn(move || {
            let block = vec![0x5a; BLOCK];
            while program.write_all(&block).is_ok() {}
        })?;
        Ok(flow)
    }

    /// Reads and notes, on a thread of its own.
    fn watch(clock: Clock, mut stream: TcpStream) -> anyhow::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let last = Arc::new(AtomicU64::new(0));
        let (stopped, came) = (stop.clone(), last.clone());
        let thread = thread::Builder::new().name("flow".into()).spawn(move || {
            let (mut block, mut total) = (vec![0; BLOCK], 0);
            let mut arrivals = vec![(clock.now(), 0)];
            while !stopped.load(Ordering::Relaxed) {
                match stream.read(&mut block) {
                    Ok(0) => return Err(anyhow!("the flow ended after {total} bytes")),
                    Ok(len) => total += len as u64,
                    Err(error) if is_late(error.kind()) => continue,
                    Err(error) => return Err(error).context("the flow failed"),
                }
                let now = clock.now();
                arrivals.push((now, total));
                came.store(now.0, Ordering::Relaxed);
            }
            Ok(Arrivals(arrivals))
        })?;
        Ok(Self { stop, last, thread })
    }

    /// Whether bytes have come since that moment.
    pub(crate) fn has_since(&self, at: Instant) -> bool {
        self.last.load(Ordering::Relaxed) > at.0
    }

    /// Ends it.
    ///
    /// # Errors
    /// It had failed before.
    pub(crate) fn end(self) -> anyhow::Result<Arrivals> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| anyhow!("the flow panicked"))?
    }
}

impl Arrivals {
    /// Those of several flows as if they were one's.
    pub(crate) fn together(flows: &[Self]) -> Self {
        let steps = |flow: &Self| {
            let before = std::iter::once(0).chain(flow.0.iter().map(|(_, total)| *total));
            let steps: Vec<_> =
                flow.0.iter().zip(before).map(|((at, total), old)| (*at, total - old)).collect();
            steps
        };
        let mut all: Vec<(Instant, u64)> = flows.iter().flat_map(steps).collect();
        all.sort_unstable();
        let mut sum = 0;
        for (_, bytes) in &mut all {
            sum += *bytes;
            *bytes = sum;
        }
        Self(all)
    }

    /// Bits per second between two moments.
    pub(crate) fn bps(&self, from: Instant, to: Instant) -> f64 {
        let bytes = self.total(to) - self.total(from);
        bytes as f64 * 8.0 / to.saturating_since(from).as_secs_f64()
    }

    /// The longest time without a byte that ended, or had not ended, between two moments.
    pub(crate) fn longest_gap(&self, from: Instant, to: Instant) -> Duration {
        let end = std::iter::once((to, 0));
        let within = self.0.iter().copied().filter(|(at, _)| *at < to).chain(end);
        let (mut gap, mut last) = (Duration::ZERO, None);
        for (at, _) in within {
            if let Some(last) = last
                && at >= from
            {
                gap = gap.max(at.saturating_since(last));
            }
            last = Some(at);
        }
        gap
    }

    /// When the first byte after a moment came.
    pub(crate) fn first_after(&self, at: Instant) -> Option<Instant> {
        self.0.iter().map(|(then, _)| *then).find(|then| *then > at)
    }

    /// Bytes that had come by then.
    fn total(&self, at: Instant) -> u64 {
        let after = self.0.partition_point(|(then, _)| *then <= at);
        after.checked_sub(1).map_or(0, |last| self.0[last].1)
    }
}

fn is_late(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_and_rates_are_those_between_the_moments() {
        let at = |ms: u64| Instant(ms * 1_000_000);
        let arrivals = [(0, 0), (100, 1000), (110, 2000), (400, 3000), (1000, 4000)];
        let arrivals = Arrivals(arrivals.map(|(ms, bytes)| (at(ms), bytes)).to_vec());
        let gap = |from, to| arrivals.longest_gap(at(from), at(to)).as_millis();
        assert_eq!(gap(0, 150), 100);
        // One that began before counts whole, one that has not ended as far as it has come.
        assert_eq!(gap(300, 500), 290);
        assert_eq!(gap(300, 900), 500);
        assert_eq!(gap(0, 2000), 1000);
        let other = Arrivals(vec![(at(200), 10), (at(300), 30)]);
        let both = Arrivals::together(&[arrivals.clone(), other]);
        assert_eq!(both.longest_gap(at(0), at(410)).as_millis(), 100);
        assert_eq!((both.total(at(250)), both.total(at(1000))), (2010, 4030));
        assert_eq!(arrivals.first_after(at(110)), Some(at(400)));
        assert_eq!(arrivals.first_after(at(1000)), None);
        assert_eq!(arrivals.bps(at(105), at(405)), 2000.0 * 8.0 / 0.3);
    }
}
