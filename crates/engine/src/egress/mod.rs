//! *By which paths* a segment leaves: the third plug point.
//!
//! Normally a segment leaves by its subflow's own path. To add a policy: its file, and its row in
//! [`ALL`].

use crate::policy::{Entry, PolicyError, Registry, Spec, Values};
use crate::time::Instant;
use crate::view::{PathId, PathSet, PathView, SubflowId};

mod bicast;
mod echo;
mod hayack;
mod own;

pub use echo::Echo;

/// Decides by which paths a segment leaves.
pub trait Egress: Send {
    /// The paths for this segment; several = a copy by each. An empty answer, or one without any
    /// path that is up, is refused: the segment leaves by its own path. So it does, too, when
    /// [`Outgoing::own_required`].
    fn route(&mut self, segment: &Outgoing, paths: &[PathView]) -> PathSet;

    /// Of ACKs that the peer sends by other paths than their subflows': congestion control grows
    /// no faster than if they had come by their own.
    fn compensates(&self) -> bool {
        false
    }

    /// Whether ACKs that report losses, and those that open the window, go by their subflow's own
    /// path too ([`Outgoing::own_required`]): a middlebox there, and who captures there, sees them.
    fn reports_losses_by_own(&self) -> bool {
        true
    }
}

/// A segment about to leave.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
#[non_exhaustive]
pub struct Outgoing {
    /// When it leaves.
    pub now: Instant,
    /// The subflow that it belongs to.
    pub subflow: SubflowId,
    /// Its subflow's own path.
    pub own: PathId,
    /// Whether it is a SYN or SYN+ACK.
    pub handshake: bool,
    /// No payload and none of SYN, FIN, RST.
    pub pure_ack: bool,
    /// Must leave by its own path too: handshake, SACK information, flags, a window that opened.
    pub own_required: bool,
    /// Length of the IP packet, bytes.
    pub len: u32,
}

/// Signature of a row's constructor.
pub type Build = dyn Fn(&Values<'_>) -> Result<Box<dyn Egress>, PolicyError> + Send + Sync;

/// The table of the egress policies that come with the engine.
pub const ALL: &[Entry<Build>] = &[
    Entry {
        name: "own",
        aliases: &[],
        summary: "every segment by its subflow's own path",
        params: &[],
        build: &own::Own::build,
    },
    Entry {
        name: "bicast",
        aliases: &[],
        summary: "every segment by every path that is up",
        params: bicast::PARAMS,
        build: &bicast::Bicast::all,
    },
    Entry {
        name: "bicast-ack",
        aliases: &[],
        summary: "pure ACKs by every path that is up, all else by its own",
        params: &[],
        build: &bicast::Bicast::acks,
    },
    Entry {
        name: "hayack",
        aliases: &[],
        summary: "pure ACKs by the path with the smallest RTT",
        params: hayack::PARAMS,
        build: &hayack::HayAck::raw,
    },
    Entry {
        name: "hayack-fair",
        aliases: &[],
        summary: "as hayack; windows grow as if ACKs came by their own paths",
        params: hayack::PARAMS,
        build: &hayack::HayAck::fair,
    },
];

/// What can be named: [`ALL`], and what a program registers.
pub static REGISTRY: Registry<Build> = Registry::new("egress", ALL);

/// Makes the egress policy that `spec` names.
///
/// # Errors
/// [`PolicyError`] for unknown names and parameters, and values out of range.
pub fn build(spec: &Spec) -> Result<Box<dyn Egress>, PolicyError> {
    let (entry, values) = REGISTRY.find(spec)?;
    (entry.build)(&values)
}
