//! What a subflow is made from: chosen by the endpoint, fixed from then on (but for the MTU and the
//! congestion control).

use crate::policy::Spec;
use crate::time::Duration;
use crate::view::{PathId, PathRtt, SubflowId};
use std::net::SocketAddr;
use tabane_wire::SeqNum;

/// What a subflow is made from. In this order in memory: what every segment needs comes first.
#[derive(Clone, Debug)]
#[repr(C)]
pub(crate) struct Setup {
    /// Our address and port.
    pub(crate) local: SocketAddr,
    /// The peer's address and port.
    pub(crate) remote: SocketAddr,
    /// Initial send sequence number (RFC 6528; the endpoint makes it).
    pub(crate) iss: u32,
    /// Offset of this connection's timestamps (RFC 7323 section 5.4).
    pub(crate) timestamp_offset: u32,
    /// The subflow's slot in its connection.
    pub(crate) id: SubflowId,
    /// The path that has the local address.
    pub(crate) path: PathId,
    /// Largest IP packet of that path, bytes.
    pub(crate) mtu: u16,
    /// Largest window we will ever advertise: decides the window scale.
    pub(crate) window_max: u64,
    /// Which congestion control it begins with.
    pub(crate) congestion: Spec,
    /// What is known of the path before the first answer.
    pub(crate) expected: Option<PathRtt>,
    /// For how long a SYN or SYN+ACK goes unanswered before a copy leaves where nothing is known;
    /// `None`: until the timer of RFC 6298.
    pub(crate) patience: Option<Duration>,
}

impl Setup {
    /// A 4-tuple is used again: it begins beyond everything of the old connection, which ended
    /// there (RFC 9293 section 3.6.1).
    pub(crate) fn begin_after(&mut self, end: Option<SeqNum>) {
        if let Some(end) = end
            && SeqNum(self.iss).before(end)
        {
            self.iss = end.plus(1 << 16).0;
        }
    }
}
