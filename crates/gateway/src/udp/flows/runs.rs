//! What waits to leave by the sockets of flows: runs of datagrams of one size, of one flow to one
//! host, as segmentation offload takes them (`UDP_SEGMENT`, udp(7)). Whoever fills them sends them
//! before the thread waits.

use std::net::SocketAddr;
use tabane_net::datagrams::{RUN_BYTES, RUN_DATAGRAMS};

/// The runs of all flows, at most [`RUNS_MAX`].
#[derive(Default, Debug)]
pub(super) struct Runs {
    runs: Vec<Run>,
    /// That of the last datagram: mostly also that of the next.
    last: usize,
}

/// Whole datagrams of `size` bytes; only the last may be shorter.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) flow: usize,
    pub(super) to: SocketAddr,
    pub(super) bytes: Vec<u8>,
    pub(super) size: usize,
    count: usize,
}

/// Flows with unsent datagrams at a time; another one's are kept by sending the first.
const RUNS_MAX: usize = 16;

impl Runs {
    /// Adds a datagram of a flow. The run that must be sent now, if there is one: what was before
    /// in the same flow, or the oldest if there are too many.
    pub(super) fn push(
        &mut self,
        (flow, to): (usize, SocketAddr),
        datagram: &[u8],
        most: usize,
    ) -> Option<Run> {
        let is_it = |run: &Run| run.flow == flow && run.to == to;
        if !self.runs.get(self.last).is_some_and(is_it) {
            self.last = self.runs.iter().position(is_it).unwrap_or(self.runs.len());
        }
        let Some(run) = self.runs.get_mut(self.last) else {
            let oldest = (self.runs.len() >= RUNS_MAX).then(|| self.runs.remove(0));
            self.runs.push(Run::new((flow, to), datagram));
            self.last = self.runs.len() - 1;
            return oldest;
        };
        if run.take(datagram, most) {
            return None;
        }
        Some(std::mem::replace(run, Run::new((flow, to), datagram)))
    }

    /// A run that waits; all of them, one after the other.
    pub(super) fn pop(&mut self) -> Option<Run> {
        self.runs.pop()
    }

    /// The runs of a flow that is no more.
    pub(super) fn pop_of(&mut self, flow: usize) -> Option<Run> {
        let at = self.runs.iter().position(|run| run.flow == flow)?;
        Some(self.runs.remove(at))
    }
}

impl Run {
    fn new((flow, to): (usize, SocketAddr), datagram: &[u8]) -> Self {
        Self { flow, to, bytes: datagram.to_vec(), size: datagram.len(), count: 1 }
    }

    /// Whether it continues.
    fn take(&mut self, datagram: &[u8], most: usize) -> bool {
        let closed = self.bytes.len() < self.count * self.size;
        let fits = !closed
            && (1..=self.size).contains(&datagram.len())
            && self.count < most.min(RUN_DATAGRAMS)
            && self.bytes.len() + datagram.len() <= RUN_BYTES;
        if fits {
            self.bytes.extend_from_slice(datagram);
            self.count += 1;
        }
        fits
    }

    /// Datagrams in it.
    pub(super) fn count(&self) -> usize {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to(last: u8) -> SocketAddr {
        ([192, 0, 2, last], 9).into()
    }

    /// Flow, bytes and datagrams of a run.
    fn seen(run: Option<Run>) -> Option<(usize, usize, usize)> {
        run.map(|run| (run.flow, run.bytes.len(), run.count()))
    }

    #[test]
    fn what_continues_joins_until_something_short_comes() {
        let mut runs = Runs::default();
        for len in [100, 100, 30] {
            assert!(runs.push((1, to(1)), &vec![0; len], 64).is_none());
        }
        assert_eq!(seen(runs.push((1, to(1)), &[0; 100], 64)), Some((1, 230, 3)));
        assert_eq!(seen(runs.push((1, to(1)), &[0; 101], 64)), Some((1, 100, 1)));
        assert_eq!(seen(runs.push((1, to(1)), &[], 64)), Some((1, 101, 1)));
        assert_eq!(seen(runs.push((1, to(1)), &[], 64)), Some((1, 0, 1)));
        assert_eq!((seen(runs.pop()), seen(runs.pop())), (Some((1, 0, 1)), None));
    }

    #[test]
    fn each_flow_and_host_has_its_own() {
        let mut runs = Runs::default();
        for _ in 0..3 {
            for at in [(1, to(1)), (1, to(2)), (2, to(1))] {
                assert!(runs.push(at, &[0; 10], 64).is_none());
            }
        }
        assert_eq!(seen(runs.pop_of(1)), Some((1, 30, 3)));
        assert_eq!(seen(runs.pop_of(1)), Some((1, 30, 3)));
        assert!(runs.pop_of(1).is_none());
        assert_eq!(seen(runs.pop()), Some((2, 30, 3)));
    }

    #[test]
    fn runs_and_their_number_are_bounded() {
        let mut runs = Runs::default();
        for flow in 0..RUNS_MAX {
            assert!(runs.push((flow, to(1)), &[0; 10], 64).is_none());
        }
        assert_eq!(seen(runs.push((99, to(1)), &[0; 10], 64)), Some((0, 10, 1)));
        assert!(runs.push((99, to(1)), &[0; 10], 2).is_none());
        assert_eq!(seen(runs.push((99, to(1)), &[0; 10], 2)), Some((99, 20, 2)));
        while runs.pop().is_some() {}
        for (len, count) in [(1000, RUN_DATAGRAMS), (1400, RUN_BYTES / 1400)] {
            for _ in 0..count {
                assert!(runs.push((1, to(1)), &vec![0; len], usize::MAX).is_none());
            }
            let full = runs.push((1, to(1)), &vec![0; len], usize::MAX);
            assert_eq!(seen(full), Some((1, count * len, count)));
            while runs.pop().is_some() {}
        }
    }
}
