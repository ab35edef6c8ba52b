//! What acknowledgements bring, and what is kept of a segment until it is delivered.

use crate::time::{Duration, Instant};

/// The most recently sent of the segments that an ACK delivered (RACK.segment).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(in crate::tcp) struct Newest {
    pub(in crate::tcp) sent_at: Instant,
    pub(in crate::tcp) end: u64,
}

impl Newest {
    /// RFC 8985's RACK_sent_after.
    #[inline]
    pub(in crate::tcp) fn after(self, sent_at: Instant, end: u64) -> bool {
        self.sent_at > sent_at || (self.sent_at == sent_at && self.end > end)
    }
}

/// What an ACK brought.
#[derive(Clone, Copy, Default, Debug)]
pub(in crate::tcp) struct Delta {
    /// Bytes acknowledged cumulatively.
    pub(in crate::tcp) acked: u64,
    /// Bytes delivered for the first time, by either kind of acknowledgement.
    pub(in crate::tcp) delivered: u64,
    /// Send time of the oldest delivered segment that was sent once.
    pub(in crate::tcp) oldest: Option<Instant>,
    /// Send time of the newest delivered segment that was sent once.
    pub(in crate::tcp) latest: Option<Instant>,
    /// Candidate for RACK.segment and its RTT.
    pub(in crate::tcp) newest: Option<(Newest, Duration)>,
    /// Delivery rate bookkeeping of the most recently sent delivered segment.
    pub(in crate::tcp) rate: Option<RateMark>,
    /// A segment sent once, from before `high`, was delivered (F-RTO's evidence).
    pub(in crate::tcp) original: bool,
    /// A segment that had been sent again was delivered.
    pub(in crate::tcp) retransmitted: bool,
    /// An original was delivered after something sent later: reordering.
    pub(in crate::tcp) reordered: bool,
    /// Our FIN is acknowledged.
    pub(in crate::tcp) fin: bool,
    /// Segments newly SACKed.
    pub(in crate::tcp) sacked: u32,
}

/// Delivery rate bookkeeping carried by a segment.
#[derive(Clone, Copy, Debug)]
pub(in crate::tcp) struct RateMark {
    pub(in crate::tcp) sent_at: Instant,
    pub(in crate::tcp) delivered: u64,
    pub(in crate::tcp) delivered_at: Instant,
    pub(in crate::tcp) flight_start: Instant,
    pub(in crate::tcp) app_limited: bool,
}

/// What is needed to judge a delivered segment.
#[derive(Clone, Copy, Debug)]
pub(in crate::tcp) struct AckContext {
    pub(in crate::tcp) now: Instant,
    /// Segments sent at or before this may be what a timestamp echo refers to; `None` without
    /// timestamps. An ambiguous retransmission is skipped if sent after it.
    pub(in crate::tcp) echo_covers: Option<Instant>,
    pub(in crate::tcp) min_rtt: Duration,
    /// SND.NXT when the present RTO recovery began.
    pub(in crate::tcp) high: u64,
}
