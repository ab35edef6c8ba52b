//! Read-only snapshots of subflows and paths that policies see, and the sets they answer with.

use crate::time::{Duration, Instant};
use crate::with::with;
use std::fmt;
use std::marker::PhantomData;

/// A subflow: its slot within its connection. A slot is used again only after its subflow has
/// been closed and reported.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct SubflowId(pub u8);

/// A path out of this host: an interface or a tunnel. The driver gives the numbers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct PathId(pub u8);

/// Small ids that a [`Set`] can hold: 0 to 63.
pub trait Id: Copy {
    /// The id as a number below 64.
    fn index(self) -> u8;
    /// The id with that number.
    fn from_index(index: u8) -> Self;
}

impl Id for SubflowId {
    fn index(self) -> u8 {
        self.0
    }
    fn from_index(index: u8) -> Self {
        Self(index)
    }
}

impl Id for PathId {
    fn index(self) -> u8 {
        self.0
    }
    fn from_index(index: u8) -> Self {
        Self(index)
    }
}

/// Subflows; more than one as an answer means duplicate, none means hold.
pub type SubflowSet = Set<SubflowId>;
/// Paths; more than one as an answer means a copy by each.
pub type PathSet = Set<PathId>;

/// A set of ids below 64, iterated in ascending order.
pub struct Set<T>(u64, PhantomData<T>);

impl<T: Id> Set<T> {
    /// The empty set.
    pub const NONE: Self = Self(0, PhantomData);

    /// The set that has only `id`.
    #[inline]
    pub fn only(id: T) -> Self {
        Self(1 << (id.index() & 63), PhantomData)
    }
    /// Adds `id`.
    #[inline]
    pub fn insert(&mut self, id: T) {
        self.0 |= 1 << (id.index() & 63);
    }
    /// Removes `id`.
    pub fn remove(&mut self, id: T) {
        self.0 &= !(1 << (id.index() & 63));
    }
    /// Whether `id` is in it.
    #[inline]
    pub fn contains(self, id: T) -> bool {
        self.0 >> (id.index() & 63) & 1 == 1
    }
    /// Whether it is empty.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
    /// How many ids it has.
    pub fn len(self) -> usize {
        self.0.count_ones() as usize
    }
    /// The lowest id.
    pub fn first(self) -> Option<T> {
        (self.0 != 0).then(|| T::from_index(self.0.trailing_zeros() as u8))
    }
    /// The ids that are in both sets.
    #[must_use]
    pub fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0, PhantomData)
    }
    /// The ids that are in either set.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self(self.0 | other.0, PhantomData)
    }
    /// Ids here that are not in `other`.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        Self(self.0 & !other.0, PhantomData)
    }
    /// The ids, ascending.
    pub fn iter(self) -> impl Iterator<Item = T> {
        let mut bits = self.0;
        std::iter::from_fn(move || {
            let id = (bits != 0).then(|| T::from_index(bits.trailing_zeros() as u8));
            bits &= bits.wrapping_sub(1);
            id
        })
    }
}

impl<T> Clone for Set<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Set<T> {}
impl<T> Default for Set<T> {
    fn default() -> Self {
        Self(0, PhantomData)
    }
}
impl<T> PartialEq for Set<T> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}
impl<T> Eq for Set<T> {}
impl<T: Id> fmt::Debug for Set<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter().map(Id::index)).finish()
    }
}
impl<T: Id> FromIterator<T> for Set<T> {
    fn from_iter<I: IntoIterator<Item = T>>(ids: I) -> Self {
        let mut set = Self::NONE;
        ids.into_iter().for_each(|id| set.insert(id));
        set
    }
}

/// Where loss recovery of a subflow stands (Linux's CA states).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum RecoveryPhase {
    /// No loss is being repaired.
    #[default]
    Open,
    /// Fast recovery (RFC 6675, 8985, 6937).
    Recovery,
    /// After a retransmission timeout.
    Loss,
}

/// A subflow as schedulers and coupled controllers see it. Byte counts are payload bytes.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
#[non_exhaustive]
pub struct SubflowView {
    /// The subflow's slot.
    pub id: SubflowId,
    /// The path that has its local address.
    pub path: PathId,
    /// Established at both levels and not closing: may carry data at all.
    pub usable: bool,
    /// Low priority, asked for by either side (MP_PRIO, MP_JOIN flag B).
    pub backup: bool,
    /// Retransmission timeouts have gone unanswered, or its path is down: use it only if nothing
    /// better is there. The next acceptable segment on the subflow clears the timeouts.
    pub potentially_failed: bool,
    /// Where loss recovery stands.
    pub phase: RecoveryPhase,
    /// New payload bytes that may leave now: congestion window (or PRR), pacing and the peer's
    /// subflow window allow them. 0 if not usable.
    pub sendable: u64,
    /// Congestion window, bytes.
    pub cwnd: u64,
    /// Slow start threshold, bytes; `u64::MAX` before the first loss.
    pub ssthresh: u64,
    /// RFC 6675 pipe, bytes.
    pub in_flight: u64,
    /// Bytes bound and not yet acknowledged cumulatively, those lost or SACKed included.
    pub unacked: u64,
    /// When the oldest of them was last sent; far in the future if there is none.
    pub oldest_sent: Instant,
    /// Payload of a full segment, MPTCP options accounted for.
    pub mss: u64,
    /// Smoothed RTT; zero before the first sample.
    pub srtt: Duration,
    /// RTT variation, RFC 6298's RTTVAR.
    pub rttvar: Duration,
    /// Latest RTT sample.
    pub latest_rtt: Duration,
    /// Smallest sample of the last ten seconds or so.
    pub min_rtt: Duration,
    /// Largest RTT sample of the last ten seconds or so.
    pub max_rtt: Duration,
    /// Pacing rate of the controller or, without one, an estimate cwnd/srtt, bytes/s.
    pub pacing_rate: u64,
    /// Delivery rate estimate, bytes/s; 0 when unknown.
    pub delivery_rate: u64,
    /// What the path's bottleneck forwards, bytes/s, as far as trains of segments that waited there
    /// have shown; 0 when unknown.
    pub capacity: u64,
    /// Whether segments wait at that bottleneck behind what others send, as spaced as they were
    /// sent.
    pub cross_traffic: bool,
    /// When the last train was seen that told of either.
    pub train_at: Instant,
    /// When that bottleneck will have forwarded all that has been sent, at the earliest.
    pub busy_until: Instant,
    /// Share of bytes lost, of the last half thousand segments or so.
    pub loss_rate: f32,
    /// Payload bytes acknowledged since the last loss, or between the last two, whichever is
    /// more: OLIA's l.
    pub loss_interval: u64,
    /// When a congestion signal (loss, timeout, ECN mark) last made the window smaller; zero if
    /// none has.
    pub reduced_at: Instant,
}

with!(SubflowView);

/// A path as egress policies see it.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
#[non_exhaustive]
pub struct PathView {
    /// The path's number.
    pub id: PathId,
    /// Known to work now.
    pub up: bool,
    /// Smallest recent round-trip time when data and ACKs both use this path; zero when unknown.
    pub rtt: Duration,
    /// When anything last came by a subflow of this path.
    pub heard: Instant,
}

/// What is known of a path's round trips before a connection has measured any (RFC 9040).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PathRtt {
    /// Smoothed round-trip time.
    pub srtt: Duration,
    /// Its variation (RFC 6298).
    pub rttvar: Duration,
}

impl PathRtt {
    /// Of a first measurement (RFC 6298 section 2.2).
    pub fn first(rtt: Duration) -> Self {
        Self { srtt: rtt, rttvar: rtt / 2 }
    }

    /// Takes another measurement (RFC 6298 section 2.3).
    pub(crate) fn add(&mut self, rtt: Duration) {
        let error = self.srtt.0.abs_diff(rtt.0);
        self.rttvar = Duration((self.rttvar.0 * 3 + error) / 4);
        self.srtt = Duration((self.srtt.0 * 7 + rtt.0) / 8);
    }

    /// An answer that has not come by then is probably lost: the timeout of RFC 6298 without its
    /// lower limit, and no sooner than a quarter of a round trip late (the reordering that RACK
    /// allows for, RFC 8985 section 6.2).
    pub fn answer_within(&self) -> Duration {
        self.srtt + (self.rttvar * 4).max(self.srtt / 4)
    }
}
