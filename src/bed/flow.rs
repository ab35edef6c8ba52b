//! A download through a gateway that is watched from outside: how much had come by when, and the
//! longest time without a byte.

use super::connect;
use anyhow::{Context, anyhow};
use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use tabane_engine::{Duration, Instant};
use tabane_net::Clock;

/// A download from a [`super::source::Source`] that ends when it is told to.
pub(crate) struct Flow {
    stop: Arc<AtomicBool>,
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
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = thread::Builder::new().name("download".into()).spawn(move || {
            let (mut block, mut total) = (vec![0; BLOCK], 0);
            let mut arrivals = vec![(clock.now(), 0)];
            while !stopped.load(Ordering::Relaxed) {
                match stream.read(&mut block) {
                    Ok(0) => return Err(anyhow!("the download ended after {total} bytes")),
                    Ok(len) => total += len as u64,
                    Err(error) if is_late(error.kind()) => continue,
                    Err(error) => return Err(error).context("the download failed"),
                }
                arrivals.push((clock.now(), total));
            }
            Ok(Arrivals(arrivals))
        })?;
        Ok(Self { stop, thread })
    }

    /// Ends it.
    ///
    /// # Errors
    /// It had failed before.
    pub(crate) fn end(self) -> anyhow::Result<Arrivals> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| anyhow!("the download panicked"))?
    }
}

impl Arrivals {
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
        assert_eq!(arrivals.bps(at(105), at(405)), 2000.0 * 8.0 / 0.3);
    }
}
