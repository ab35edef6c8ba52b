//! *Which subflow* carries the next data: the first plug point.
//!
//! A scheduler sees snapshots and returns a set of subflows; the connection checks the answer (a
//! pick without space is refused and recorded), does it and records it. To add one: write its
//! file, add its row to [`ALL`].

use crate::policy::{Entry, PolicyError, Registry, Spec, Values};
use crate::seq::Dsn;
use crate::time::{Duration, Instant};
use crate::view::{SubflowSet, SubflowView};

mod blest;
mod burst;
mod common;
mod daps;
mod ecf;
mod ecf3;
pub(crate) mod forecast;
mod min_rtt;
mod necf;
mod otias;
mod redundant;
mod round_robin;
mod stms;
mod sttf;
#[cfg(test)]
mod tests;

/// Decides which subflow carries data.
pub trait Scheduler: Send {
    /// The subflows that get this work now; several = a copy on each, none = hold it until
    /// something changes (an ACK, a timer, a new subflow).
    fn select(&mut self, work: &Work, subflows: &[SubflowView]) -> SubflowSet;

    /// `blocked` stalls the connection although a subflow has space. Returns the subflows that send
    /// it again (opportunistic retransmission) and those whose windows are halved because they hold
    /// it up (penalisation). By default neither.
    fn opportunistic_retransmission(
        &mut self,
        _blocked: &Blocked,
        _subflows: &[SubflowView],
    ) -> OpportunisticRetransmission {
        OpportunisticRetransmission::default()
    }

    /// Subflows that shall each carry *every* byte. For each of these the connection keeps a
    /// cursor over the data that is not yet acknowledged at data level, moves it past what has
    /// been, and offers new data last. Non-empty = [`Scheduler::select`] is asked only for
    /// reinjections. The order of the rotation is the connection's.
    fn replicas(&mut self, _subflows: &[SubflowView]) -> SubflowSet {
        SubflowSet::NONE
    }

    /// Whether [`Scheduler::gap`] is to be asked: never by default.
    fn looks_ahead(&self) -> bool {
        false
    }

    /// How far after [`Work::dsn`] the data begins that the subflow chosen by the last `select` is
    /// to carry, bytes; 0 is that data itself. Data that has been bound already is passed over, and
    /// what would lie beyond the end or the peer's window waits while anything is in flight. Only
    /// of new data.
    fn gap(&self) -> u64 {
        0
    }

    /// Whether new data may follow, unasked, where the last `select` sent some: what comes after it
    /// under one mapping over several segments
    /// ([`segments_per_mapping`](crate::config::MptcpConfig::segments_per_mapping)), once the
    /// subflow has been chosen as often in a row. For a scheduler that looks at the subflows alone
    /// and keeps no account of what it has given them; by default it is asked for each segment.
    fn places_runs(&self) -> bool {
        false
    }

    /// Why the last `select` answered as it did, for decision records. Called only when records
    /// are on.
    fn reason(&self) -> Reason {
        Reason::default()
    }
}

/// Data to be placed.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
#[non_exhaustive]
pub struct Work {
    /// When it is asked.
    pub now: Instant,
    /// Data position of the first byte.
    pub dsn: Dsn,
    /// Length in bytes: at most one segment of the largest MSS.
    pub len: u64,
    /// All bytes written by the application and not yet bound to a subflow, this included.
    pub unsent: u64,
    /// Subflows that have carried it already (reinjection), else empty.
    pub carried: SubflowSet,
    /// Whether this is a reinjection.
    pub reinjection: bool,
    /// Bytes that the peer's connection-level window still allows beyond what has been sent.
    pub window_space: u64,
    /// The peer's connection-level window: bytes allowed beyond its data-level acknowledgement.
    pub window: u64,
}

/// The oldest data not acknowledged at data level, when it blocks the connection.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
#[non_exhaustive]
pub struct Blocked {
    /// When it is asked.
    pub now: Instant,
    /// Data position of the first byte.
    pub dsn: Dsn,
    /// Subflows that have carried it.
    pub carried: SubflowSet,
    /// The subflow that has space but no new data may go on it.
    pub fast: crate::view::SubflowId,
    /// Blocked by the peer's window (penalise) rather than by our own send buffer.
    pub window_full: bool,
}

/// Answer of [`Scheduler::opportunistic_retransmission`].
#[derive(Clone, Copy, PartialEq, Default, Debug)]
#[non_exhaustive]
pub struct OpportunisticRetransmission {
    /// Send the blocked data again here.
    pub resend: SubflowSet,
    /// Halve the windows of these (Raiciu et al., NSDI 2012, section 4.2: penalisation).
    pub penalise: SubflowSet,
}

/// Why a scheduler decided so.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
#[non_exhaustive]
pub enum Reason {
    /// The only one that could.
    #[default]
    OnlyChoice,
    /// Smallest smoothed RTT among those with space.
    LowestRtt,
    /// It was its turn.
    Turn,
    /// Each active subflow carries every byte.
    Replicated,
    /// Its data arrives first, backlog and windows considered.
    SoonestArrival,
    /// Its queue drains first.
    ShortestQueue,
    /// No usable subflow has space.
    NoSpace,
    /// Only backups have space while an active subflow lives.
    BackupHeld,
    /// Only potentially failed subflows have space, while a sound one is usable.
    PotentiallyFailedHeld,
    /// Strict order: the one whose turn it is has no space, others do.
    AwaitsTurn(crate::view::SubflowId),
    /// A faster subflow, when it frees, beats sending now by this many nanoseconds.
    WaitingIsFaster {
        /// The subflow waited for.
        for_subflow: crate::view::SubflowId,
        /// How much sooner the data arrives by waiting.
        gain: Duration,
    },
    /// Data on a slower subflow would hold up what a faster one delivers: the peer's window
    /// (BLEST, STMS), or the program, by more than it gains (`necf`).
    WouldBlock {
        /// The subflow waited for.
        for_subflow: crate::view::SubflowId,
    },
    /// A copy goes by a subflow whose rate is not known yet, and delays nothing there.
    Explores {
        /// The subflow that has the copy.
        subflow: crate::view::SubflowId,
    },
}

/// Signature of a row's constructor.
pub type Build = dyn Fn(&Values<'_>) -> Result<Box<dyn Scheduler>, PolicyError> + Send + Sync;

/// The table of the schedulers that come with the engine.
pub const ALL: &[Entry<Build>] = &[
    Entry {
        name: "minrtt",
        aliases: &[],
        summary: "smallest smoothed RTT with room; backups only when no active subflow is left",
        params: &[],
        build: &min_rtt::MinRtt::build,
    },
    Entry {
        name: "roundrobin",
        aliases: &["rr"],
        summary: "subflows in turn",
        params: round_robin::PARAMS,
        build: &round_robin::RoundRobin::build,
    },
    Entry {
        name: "redundant",
        aliases: &[],
        summary: "every byte on every active subflow, each at its own pace",
        params: &[],
        build: &redundant::Redundant::build,
    },
    Entry {
        name: "blest",
        aliases: &[],
        summary: "as minrtt, unless a slower subflow would block the peer's window",
        params: blest::PARAMS,
        build: &blest::Blest::build,
    },
    Entry {
        name: "ecf",
        aliases: &[],
        summary: "as minrtt, unless waiting for the fastest completes the backlog sooner (Linux)",
        params: ecf::PARAMS,
        build: &ecf::Ecf::build,
    },
    Entry {
        name: "ecf3",
        aliases: &[],
        summary: "ECF for three subflows, the published rule",
        params: ecf3::PARAMS,
        build: &ecf3::Ecf3::build,
    },
    Entry {
        name: "necf",
        aliases: &["default"],
        summary: "soonest acknowledged; waits if all faster ones together are sooner",
        params: necf::PARAMS,
        build: &necf::NEcf::build,
    },
    Entry {
        name: "stms",
        aliases: &[],
        summary: "as minrtt, but slower subflows carry what will be next when it arrives",
        params: &[],
        build: &stms::Stms::build,
    },
    Entry {
        name: "sttf",
        aliases: &[],
        summary: "soonest arrival, windows' growth foreseen",
        params: &[],
        build: &sttf::Sttf::build,
    },
    Entry {
        name: "otias",
        aliases: &[],
        summary: "soonest arrival, windows as they are",
        params: &[],
        build: &otias::build,
    },
    Entry {
        name: "daps",
        aliases: &[],
        summary: "windows in order of the times at which they would leave",
        params: daps::PARAMS,
        build: &daps::Daps::build,
    },
    Entry {
        name: "burst",
        aliases: &[],
        summary: "64 KiB in a row to the queue that drains first (upstream Linux)",
        params: burst::PARAMS,
        build: &burst::Burst::build,
    },
];

/// What can be named: [`ALL`], and what a program registers.
pub static REGISTRY: Registry<Build> = Registry::new("scheduler", ALL);

/// Makes the scheduler that `spec` names.
///
/// # Errors
/// [`PolicyError`] for unknown names and parameters, and values out of range.
pub fn build(spec: &Spec) -> Result<Box<dyn Scheduler>, PolicyError> {
    let (entry, values) = REGISTRY.find(spec)?;
    (entry.build)(&values)
}
