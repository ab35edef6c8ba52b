//! Queues: which packets wait, which are dropped or marked, and when.
//!
//! The link holds the packets; a model only judges them, when they come and when they go. So no
//! model can lose or reorder one by mistake, and one can replace another while packets wait.

mod codel;
mod drop_tail;
mod red;

use crate::seed::Rng;
use tabane_engine::policy::{Entry, PolicyError, Registry, Spec, Values};
use tabane_engine::{Duration, Instant};

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
    /// It will not wait: the link is free.
    pub at_once: bool,
    /// How long the last packet took to send; zero before the first.
    pub service: Duration,
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
    /// Bytes that wait behind it.
    pub behind: u64,
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
