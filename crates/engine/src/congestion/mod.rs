//! *How much* may be in flight: the second plug point.
//!
//! A controller owns cwnd and ssthresh and nothing else: which segments are lost, and how the
//! window shrinks during recovery (PRR), is the subflow's business. It never logs; the engine
//! compares [`CongestionController::state`] before and after. To add one: its file, and its row
//! in [`ALL`].

use crate::policy::{Entry, PolicyError, Registry, Spec, Values};
use crate::time::{Duration, Instant};
use crate::view::{SubflowId, SubflowView};

mod balia;
mod bbr;
mod classic;
mod compensated;
mod coupled;
mod cubic;
mod cubicd;
mod ghstcp;
mod highspeed;
mod hystart;
mod lia;
mod olia;
mod queueing;
mod reno;
#[cfg(test)]
mod tests;
mod window;
mod wvegas;

pub(crate) use compensated::Compensated;

/// Decides how many bytes may be in flight on one subflow.
pub trait CongestionController: Send {
    /// Data was newly delivered (cumulatively or by SACK), also during recovery: see
    /// [`Ack::phase`]. `siblings` are all subflows of the connection, this one included (its
    /// own snapshot may be one ACK old: use `ack` for it).
    fn on_ack(&mut self, ack: &Ack, siblings: &[SubflowView]);

    /// A congestion signal; at most one per window of data for `Loss` and `Ecn`.
    fn on_congestion(&mut self, event: &Congestion, siblings: &[SubflowView]);

    /// Bytes left; `in_flight` includes them.
    fn on_sent(&mut self, _now: Instant, _bytes: u64, _in_flight: u64) {}

    /// The last congestion signal was spurious: restore what was before it.
    fn on_spurious(&mut self, _now: Instant) {}

    /// Acknowledgements return (also) by another path than the subflow's own. Called before each
    /// `on_ack` while that is so. After [`AckPath::moved`] earlier RTTs are not comparable with
    /// later ones.
    fn on_ack_path(&mut self, _now: Instant, _ack_path: &AckPath) {}

    /// Nothing was in flight for longer than an RTO and data is about to leave: restart window
    /// (RFC 5681 section 4.1, RFC 9438 section 5.8...). `restart` is min(IW, cwnd), bytes.
    fn on_idle_restart(&mut self, _now: Instant, _restart: u64) {}

    /// The scheduler penalises this subflow: halve the window without a congestion event (as
    /// `mptcp_rcv_buf_optimization` of Linux MPTCP v0.9x: cwnd to half, at least one segment;
    /// ssthresh to half only if cwnd was at or above it).
    fn on_penalty(&mut self) {}

    /// Bytes that may leave again at a timeout, if more than one segment: at most an initial window
    /// (RFC 6928), and next to nothing beside what the path has carried a short while ago. Timeouts
    /// then need neither wait long for fear of congestion nor double (RFC 6298 sections 2.4 and
    /// 5.5). Asked when a tail loss probe leaves and at timeouts, after `on_congestion`.
    fn retry_burst(&self) -> u64 {
        0
    }

    /// The segment size changed (path MTU).
    fn on_mss(&mut self, _mss: u64) {}

    /// Writes the window into `state`, field by field: this is asked with every segment, and what
    /// has just been written so is slow to be copied as a whole.
    fn report(&self, state: &mut CcState);

    /// The present window, as `report` writes it.
    fn state(&self) -> CcState {
        let mut state = CcState::default();
        self.report(&mut state);
        state
    }
}

/// Window of a controller.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
#[non_exhaustive]
pub struct CcState {
    /// Congestion window, bytes; at least one MSS.
    pub cwnd: u64,
    /// Slow start threshold, bytes; `u64::MAX` before the first loss.
    pub ssthresh: u64,
    /// Bytes per second, if the controller wants pacing. One that paces answers for recovery
    /// itself: cwnd bounds it then, not PRR.
    pub pacing_rate: Option<u64>,
    /// What it is doing.
    pub phase: CcPhase,
}

/// Phases, for records and plots.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub enum CcPhase {
    /// Slow start: exponential growth.
    #[default]
    SlowStart,
    /// HyStart++ conservative slow start (RFC 9406).
    ConservativeSlowStart,
    /// Congestion avoidance: growth about once per round trip.
    Avoidance,
    /// A phase of the controller's own (BBR and the like), by number.
    Other(u8),
}

/// What a controller is told per ACK that delivers data.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
#[non_exhaustive]
pub struct Ack {
    /// When the ACK or signal arrived.
    pub now: Instant,
    /// The subflow that it is about.
    pub subflow: SubflowId,
    /// Bytes newly acknowledged cumulatively.
    pub acked: u64,
    /// Bytes newly delivered: cumulative and SACKed, each byte once.
    pub delivered: u64,
    /// RTT sample of this ACK (Karn's rule applied), if any.
    pub rtt: Option<Duration>,
    /// Smoothed RTT after it.
    pub srtt: Duration,
    /// Smallest RTT seen (windowed).
    pub min_rtt: Duration,
    /// By how much longer this ACK was under way than the least seen, at least: zero unless the
    /// peer's timestamps tell (RFC 7323, in milliseconds), at most `rtt`. Where data goes
    /// both ways, a round trip less this has only the queue that the own data waits in.
    pub reverse_delay: Duration,
    /// Bytes in flight before this ACK.
    pub prior_in_flight: u64,
    /// Bytes in flight after it.
    pub in_flight: u64,
    /// Payload of a full segment, bytes.
    pub mss: u64,
    /// The window was what limited sending since the last ACK; without it the window of a
    /// controller that does not pace must not grow.
    pub cwnd_limited: bool,
    /// Fast recovery or RTO recovery is on; window-based controllers do not grow in fast
    /// recovery, and do slow start after an RTO.
    pub phase: crate::view::RecoveryPhase,
    /// First byte not acknowledged and next byte to send, as subflow positions: rounds.
    pub snd_una: u64,
    /// The next byte to send (SND.NXT), as a subflow position.
    pub snd_nxt: u64,
    /// Delivery rate sample in bytes/s and whether it was limited by the application.
    pub delivery_rate: Option<(u64, bool)>,
    /// Rate of the bottleneck by trains of segments that waited there, bytes/s; 0 if not known.
    pub capacity: u64,
    /// Bytes newly marked lost since the last ACK.
    pub lost: u64,
}

/// The path by which acknowledgements return, as congestion control sees it.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
#[non_exhaustive]
pub struct AckPath {
    /// RTT with data and acknowledgements on the subflow's own path.
    pub own_rtt: Duration,
    /// RTT with acknowledgements on the path by which they really return.
    pub rtt: Duration,
    /// Most acknowledgements come by another path than before this one.
    pub moved: bool,
    /// The shorter RTT must not make the window grow faster (`hayack-fair`); a wrapper around the
    /// controller compensates for it.
    pub compensate: bool,
}

/// A congestion signal, with what a controller needs to answer it.
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub struct Congestion {
    /// When the ACK or signal arrived.
    pub now: Instant,
    /// The subflow that it is about.
    pub subflow: SubflowId,
    /// What signalled congestion.
    pub kind: CongestionKind,
    /// Bytes in flight when it happened (FlightSize).
    pub in_flight: u64,
    /// Payload of a full segment, bytes.
    pub mss: u64,
    /// Next byte to send, as a subflow position.
    pub snd_nxt: u64,
}

impl Congestion {
    /// A signal with nothing in flight.
    pub fn new(now: Instant, kind: CongestionKind, mss: u64) -> Self {
        let subflow = SubflowId::default();
        Self { now, subflow, kind, in_flight: 0, mss, snd_nxt: 0 }
    }
}

/// Kinds of congestion signal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CongestionKind {
    /// Loss found by acknowledgements: fast recovery begins.
    Loss,
    /// A retransmission timeout: the window collapses to one segment.
    Rto,
    /// ECN echo (RFC 3168).
    Ecn,
}

/// What a new controller starts from. On a live change of controller, the old one's window.
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub struct Start {
    /// Payload of a full segment, bytes.
    pub mss: u64,
    /// Congestion window, bytes.
    pub cwnd: u64,
    /// Slow start threshold, bytes; `u64::MAX` if none.
    pub ssthresh: u64,
}

impl Start {
    /// So many bytes each.
    pub fn new(mss: u64, cwnd: u64, ssthresh: u64) -> Self {
        Self { mss, cwnd, ssthresh }
    }
}

/// Signature of a row's constructor.
pub type Build =
    dyn Fn(&Values<'_>, Start) -> Result<Box<dyn CongestionController>, PolicyError> + Send + Sync;

/// The table of the controllers that come with the engine.
pub const ALL: &[Entry<Build>] = &[
    Entry {
        name: "reno",
        aliases: &["newreno"],
        summary: "one segment more a round, half at a loss (RFC 5681, 6582)",
        params: reno::PARAMS,
        build: &reno::Reno::build,
    },
    Entry {
        name: "cubic",
        aliases: &[],
        summary: "cubic growth around the last maximum (RFC 9438), HyStart++ (RFC 9406)",
        params: cubic::PARAMS,
        build: &cubic::Cubic::build,
    },
    Entry {
        name: "cubicq",
        aliases: &[],
        summary: "as cubic, but a loss without a queue does not cost the window (ours)",
        params: cubic::PARAMS,
        build: &cubic::Cubic::build_with_queueing,
    },
    Entry {
        name: "cubicd",
        aliases: &[],
        summary: "cubic beside others; alone a short queue, and losses do not count (ours)",
        params: cubicd::PARAMS,
        build: &cubicd::Cubicd::build,
    },
    Entry {
        name: "highspeed",
        aliases: &["hstcp"],
        summary: "Reno up to 38 segments, faster above (RFC 3649)",
        params: highspeed::PARAMS,
        build: &highspeed::HighSpeed::build,
    },
    Entry {
        name: "ghstcp",
        aliases: &[],
        summary: "HighSpeed growth unless RTTs rise, then Reno's (Zhang, Hasegawa, Murata)",
        params: ghstcp::PARAMS,
        build: &ghstcp::Gentle::build,
    },
    Entry {
        name: "lia",
        aliases: &[],
        summary: "coupled: together as one TCP on the best path (RFC 6356)",
        params: &[],
        build: &lia::Lia::build,
    },
    Entry {
        name: "olia",
        aliases: &[],
        summary: "coupled: as lia, moving window to the best paths (Khalili et al.)",
        params: &[],
        build: &olia::Olia::build,
    },
    Entry {
        name: "balia",
        aliases: &[],
        summary: "coupled: between lia and olia (Walid et al.)",
        params: &[],
        build: &balia::Balia::build,
    },
    Entry {
        name: "wvegas",
        aliases: &[],
        summary: "coupled by delay: a share of ten segments in the queues (Cao et al.)",
        params: wvegas::PARAMS,
        build: &wvegas::WVegas::build,
    },
    Entry {
        name: "bbr",
        aliases: &["bbr3"],
        summary: "paced by a model of bandwidth and RTT (BBRv3, draft-ietf-ccwg-bbr)",
        params: bbr::PARAMS,
        build: &bbr::Bbr::build,
    },
];

/// What can be named: [`ALL`], and what a program registers.
pub static REGISTRY: Registry<Build> = Registry::new("congestion control", ALL);

/// Makes the controller that `spec` names.
///
/// # Errors
/// [`PolicyError`] for unknown names and parameters, and values out of range.
pub fn build(spec: &Spec, start: Start) -> Result<Box<dyn CongestionController>, PolicyError> {
    let (entry, values) = REGISTRY.find(spec)?;
    (entry.build)(&values, start)
}
