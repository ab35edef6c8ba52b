//! Queues: which packets wait, which are dropped or marked, and when.
//!
//! The link holds the packets; a model only judges them, when they come and when they go. So no
//! model can lose or reorder one by mistake, and one can replace another while packets wait.

mod codel;
mod drop_tail;
mod fq_codel;
mod pie;
mod red;
mod subqueues;

use crate::seed::Rng;
use tabane_engine::policy::{Entry, PolicyError, Registry, Spec, Values};
use tabane_engine::{Duration, Instant};

pub use drop_tail::{MOST_BYTES, MOST_PACKETS};
pub use subqueues::Subqueues;

/// A queue discipline.
pub trait Queue: Send {
    /// What becomes of a packet that comes.
    fn admit(&mut self, arrival: &Arrival, rng: &mut Rng) -> Verdict;

    /// What becomes of the packet at the head, which would be sent now.
    fn leave(&mut self, _head: &Head) -> Verdict {
        Verdict::Pass
    }

    /// The link would send another packet, and there is none.
    fn on_empty(&mut self, _now: Instant) {}

    /// Subqueues in which packets wait, each first in first out. More than one keeps flows apart;
    /// then the three methods below are asked, and `admit` never about a packet that will not wait.
    fn subqueues(&self) -> usize {
        1
    }

    /// The subqueue of packets of this flow ([`Packet::flow`](super::Packet::flow)).
    fn subqueue(&self, _flow: u64) -> usize {
        0
    }

    /// The subqueue whose head is sent next; `None` only if nothing waits.
    fn next_subqueue(&mut self, _now: Instant, _waiting: &Subqueues) -> Option<usize> {
        Some(0)
    }

    /// A subqueue that loses its head because too much waits. Asked after each packet that came,
    /// until it answers `None`.
    fn evict(&mut self, _waiting: &Subqueues) -> Option<usize> {
        None
    }
}

/// A packet that comes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Arrival {
    /// Now.
    pub now: Instant,
    /// Its length, bytes.
    pub len: u32,
    /// It may be marked instead of dropped.
    pub ect: bool,
    /// Packets that wait, without it and without the one that is being sent.
    pub packets: usize,
    /// Their bytes.
    pub bytes: u64,
    /// It will not wait: the link is free (where flows are kept apart, or a medium is shared, for
    /// no longer than that takes).
    pub at_once: bool,
    /// How long the last packet took to send; what 1500 bytes take at the mean rate where packets
    /// leave at moments (of a trace), and before the first.
    pub service: Duration,
    /// Its subqueue; 0 if there is one only.
    pub subqueue: usize,
}

/// The packet at the head.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Head {
    /// Now.
    pub now: Instant,
    /// How long it has waited.
    pub waited: Duration,
    /// It may be marked instead of dropped.
    pub ect: bool,
    /// Its length, bytes.
    pub len: u32,
    /// Bytes that wait behind it, in its subqueue.
    pub behind: u64,
    /// Its subqueue; 0 if there is one only.
    pub subqueue: usize,
}

/// What becomes of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It goes on.
    Pass,
    /// It goes on, marked Congestion Experienced.
    Mark,
    /// It is gone.
    Drop,
}

/// Signature of a row's constructor.
pub type Build = dyn Fn(&Values<'_>) -> Result<Box<dyn Queue>, PolicyError> + Send + Sync;

/// Every queue model.
pub const ALL: &[Entry<Build>] = &[
    Entry {
        name: "droptail",
        aliases: &["fifo"],
        summary: "what does not fit is dropped",
        params: drop_tail::PARAMS,
        build: &drop_tail::DropTail::build,
    },
    Entry {
        name: "codel",
        aliases: &[],
        summary: "drops at the head when packets wait too long for too long (RFC 8289)",
        params: codel::PARAMS,
        build: &codel::CoDel::build,
    },
    Entry {
        name: "fq_codel",
        aliases: &[],
        summary: "flows apart, by deficit round robin, each under CoDel (RFC 8290)",
        params: fq_codel::PARAMS,
        build: &fq_codel::FqCoDel::build,
    },
    Entry {
        name: "pie",
        aliases: &[],
        summary: "drops at random what comes, by delay and its trend (RFC 8033)",
        params: pie::PARAMS,
        build: &pie::Pie::build,
    },
    Entry {
        name: "red",
        aliases: &[],
        summary: "random early detection by average length, gentle (Floyd and Jacobson 1993)",
        params: red::PARAMS,
        build: &red::Red::build,
    },
];

/// What can be named: [`ALL`], and what a program registers.
pub static REGISTRY: Registry<Build> = Registry::new("queue model", ALL);

/// Makes the model that `spec` names.
///
/// # Errors
/// [`PolicyError`] for unknown names and parameters, and values out of range.
pub fn build(spec: &Spec) -> Result<Box<dyn Queue>, PolicyError> {
    let (entry, values) = REGISTRY.find(spec)?;
    (entry.build)(&values)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Half a packet would be none, and half a switch on.
    #[test]
    fn what_is_counted_is_whole() {
        for (spec, word) in [
            ("droptail:packets=1.5", "'packets' is 1.5"),
            ("droptail:bytes=9000.5", "'bytes'"),
            ("codel:ecn=0.5", "'ecn' is 0.5, allowed are whole numbers from 0 to 1"),
            ("codel:packets=1.5", "'packets'"),
            ("fq_codel:flows=2.5", "'flows'"),
            ("fq_codel:quantum=1.5", "'quantum'"),
            ("pie:packets=1.5", "'packets'"),
            ("red:packets=1.5", "'packets'"),
            ("red:gentle=0.9", "'gentle'"),
        ] {
            let error = build(&spec.parse().expect("a spec")).err().expect("refused").to_string();
            assert!(error.contains(word), "{spec}: {error}");
        }
        assert!(build(&"red:min=1.5,max=4.5".parse().expect("a spec")).is_ok());
    }
}
