//! The state of a connection by part: sending, receiving, and what only MPTCP has.

use super::buffer::SendBuffer;
use super::crypto::{Key, Keys};
use super::mapping::Delivery;
use super::reassembly::Reassembler;
use super::reinject::Reinjections;
use super::timers::Timers;
use crate::scheduler::Reason;
use crate::seq::{Dsn, Ssn};
use crate::tcp::Tcb;
use crate::time::{Duration, Instant};
use crate::view::{PathId, SubflowId, SubflowSet};
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use tabane_wire::DataNumber;

/// Sending side of the stream.
#[repr(C)]
pub(super) struct Sender {
    /// Next position to bind to a subflow (data_snd_nxt).
    pub(super) nxt: Dsn,
    /// First position that the peer's connection-level window does not allow. Plain TCP's
    /// window is obeyed by the subflow.
    pub(super) edge: Dsn,
    /// Largest window seen, bytes.
    pub(super) window_max: u64,
    /// When data that is short for want of window may leave all the same (RFC 9293 section
    /// 3.8.6.2.1, override timeout).
    pub(super) override_at: Instant,
    pub(super) override_due: bool,
    /// The application has closed.
    pub(super) closed: bool,
    /// Bytes that it may hold, if less than the configuration says.
    pub(super) limit: u64,
    /// The last `write` was cut short.
    pub(super) short_write: bool,
    /// DATA_FIN has left, or FIN has been handed down.
    pub(super) fin_sent: bool,
    /// DATA_FIN or FIN has been acknowledged.
    pub(super) fin_acked: bool,
    /// `Event::Flushed` has been reported.
    pub(super) flushed: bool,
    /// The persist timer of a subflow runs on our account.
    pub(super) blocked: bool,
    /// End of the last segment that was short of a full one: Nagle's algorithm waits for it.
    pub(super) short: Dsn,
    /// Lone last push: subflow and length, to save asking it again.
    pub(super) pushed: Option<(SubflowId, usize)>,
    pub(super) buffer: SendBuffer,
    /// Bytes written, acknowledged and sent again in all.
    pub(super) written: u64,
    pub(super) acked: u64,
    pub(super) reinjected: u64,
}

impl Sender {
    pub(super) fn new() -> Self {
        Self {
            buffer: SendBuffer::new(Dsn(1)),
            nxt: Dsn(1),
            edge: Dsn(u64::MAX),
            window_max: 0,
            closed: false,
            limit: u64::MAX,
            short_write: false,
            fin_sent: false,
            fin_acked: false,
            flushed: false,
            blocked: false,
            override_at: Instant::FAR_FUTURE,
            override_due: false,
            written: 0,
            acked: 0,
            reinjected: 0,
            short: Dsn(1),
            pushed: None,
        }
    }

    /// Bytes written and not yet bound.
    #[inline]
    pub(super) fn unsent(&self) -> u64 {
        self.buffer.end() - self.nxt
    }
}

/// Receiving side of the stream.
#[repr(C)]
pub(super) struct Receiver {
    /// Bytes the application has read.
    pub(super) read: u64,
    /// Autotuning: start of this round, bytes read then, most read in one round.
    pub(super) round_read: u64,
    pub(super) round_start: Instant,
    pub(super) round_most: u64,
    /// Round trip as a receiver sees it; zero when unknown.
    pub(super) rtt: Duration,
    /// Buffer size now, bytes.
    pub(super) buffer: u64,
    /// Right edge advertised: never moves left.
    pub(super) edge: Dsn,
    /// When window updates are repeated.
    pub(super) update_at: Instant,
    /// Window updates still to be repeated until the peer sends.
    pub(super) updates_left: u8,
    /// Everything up to the peer's end has arrived.
    pub(super) finished: bool,
    /// `Event::Readable` is out and `read` has not returned `None` since.
    pub(super) readable_reported: bool,
    /// The window was advertised as (near) zero.
    pub(super) closed_window: bool,
    /// Position of the peer's DATA_FIN.
    pub(super) fin: Option<Dsn>,
    /// Bytes received in order.
    pub(super) received: u64,
    pub(super) stream: Reassembler,
    /// Since when the first gap holds up data; kept for records only.
    pub(super) gap_since: Option<Instant>,
    /// Bytes received more than once.
    pub(super) duplicate: u64,
    /// What an inbox has just let through: empty between segments, kept for its memory.
    pub(super) passed: Vec<Delivery>,
}

impl Receiver {
    pub(super) fn new(now: Instant, buffer: u64) -> Self {
        Self {
            stream: Reassembler::new(Dsn(1)),
            gap_since: None,
            passed: Vec::new(),
            buffer,
            edge: Dsn(1) + buffer,
            fin: None,
            finished: false,
            readable_reported: false,
            read: 0,
            received: 0,
            duplicate: 0,
            closed_window: false,
            updates_left: 0,
            update_at: Instant::FAR_FUTURE,
            round_start: now,
            round_read: 0,
            round_most: 0,
            rtt: Duration::ZERO,
        }
    }
}

/// The state that a connection has beyond plain TCP: keys and data sequence numbers, which subflow
/// carries which data, addresses, and the timers of the data level.
///
/// It exists from the start if MPTCP was asked for. A fallback drops it, unless the peer has still
/// to be told of that; whether MPTCP is spoken is in the connection's `mode`. `sent` has every byte
/// that is bound and not acknowledged at data level, once and in order; `reinjections` has the
/// ranges that wait to be sent again on another subflow.
pub(super) struct Session {
    pub(super) local_key: Key,
    pub(super) token: u32,
    pub(super) idsn: u64,
    /// Known from the peer's first MP_CAPABLE with a key.
    pub(super) remote_key: Option<Key>,
    pub(super) remote_token: u32,
    pub(super) remote_idsn: u64,
    /// DSS checksums are in use.
    pub(super) checksum: bool,
    /// 8-byte numbers: the peer uses them, or we must.
    pub(super) long: bool,
    /// A DSS from the peer has arrived: it knows our key.
    pub(super) fully: bool,
    /// A DATA_ACK from the peer has arrived.
    pub(super) data_acked: bool,
    /// Flag C of the peer: no joins to its first address.
    pub(super) deny_initial: bool,
    /// Address and port of the first subflow, from here.
    pub(super) first_local: SocketAddr,
    pub(super) first_remote: SocketAddr,
    /// Bound data that is not DATA_ACKed, in order.
    pub(super) sent: VecDeque<Sent>,
    pub(super) reinjections: Reinjections,
    /// The DATA_FIN leaves alone with the next ACK.
    pub(super) fin_due: bool,
    /// As client, until the peer's first DSS: the keys go before the DATA_FIN does.
    pub(super) keys_due: bool,
    pub(super) fin_backoff: u32,
    pub(super) data_backoff: u32,
    /// After a data timeout: sent again up to the first, and everything before the second is
    /// assumed lost at data level although subflows acknowledged it.
    pub(super) data_recovery: Option<(Dsn, Dsn)>,
    pub(super) timers: Timers,
    /// Ids of our addresses; the first address is 0.
    pub(super) local_ids: Vec<(IpAddr, u8)>,
    pub(super) next_local_id: u8,
    pub(super) announced: Vec<Announced>,
    /// Addresses of the peer (`Limits::addresses`).
    pub(super) addresses: Vec<PeerAddress>,
    pub(super) attempts: Vec<Attempt>,
    /// Whose turn it is in the rotation of replicas.
    pub(super) rotation: u8,
    /// When the scheduler last asked for an opportunistic retransmission or a penalty.
    pub(super) opportunistic_at: Instant,
    pub(super) last_decision: Option<(SubflowSet, Reason)>,
    /// Only the first subflow has ever carried data, each byte once: subflow and data positions
    /// have kept step, and falling back is possible.
    pub(super) in_step: bool,
    /// After our MP_FAIL or infinite mapping: the mapping to be sent next is infinite.
    pub(super) infinite_due: bool,
}

impl Session {
    pub(super) fn new(local: (Key, u32, u64), ends: (SocketAddr, SocketAddr)) -> Self {
        Self {
            local_key: local.0,
            token: local.1,
            idsn: local.2,
            remote_key: None,
            remote_token: 0,
            remote_idsn: 0,
            checksum: false,
            long: false,
            fully: false,
            data_acked: false,
            deny_initial: false,
            first_local: ends.0,
            first_remote: ends.1,
            sent: VecDeque::new(),
            reinjections: Reinjections::default(),
            fin_due: false,
            keys_due: true,
            fin_backoff: 0,
            data_backoff: 0,
            data_recovery: None,
            timers: Timers::default(),
            local_ids: vec![(ends.0.ip(), 0)],
            next_local_id: 1,
            announced: Vec::new(),
            addresses: Vec::new(),
            attempts: Vec::new(),
            rotation: 0,
            opportunistic_at: Instant::ZERO,
            last_decision: None,
            in_step: true,
            infinite_due: false,
        }
    }

    /// Learns the peer's key.
    pub(super) fn set_remote_key(&mut self, key: Key) {
        self.remote_key = Some(key);
        (self.remote_token, self.remote_idsn) = key.token_and_idsn();
    }

    /// Both keys, once known.
    pub(super) fn keys(&self) -> Option<Keys> {
        Some(Keys { local: self.local_key, remote: self.remote_key? })
    }

    /// A position of ours as 64-bit number.
    #[inline]
    pub(super) fn number(&self, dsn: Dsn) -> u64 {
        self.idsn.wrapping_add(dsn.0)
    }

    /// A position of ours as it is sent.
    #[inline]
    pub(super) fn data_number(&self, dsn: Dsn) -> DataNumber {
        let number = self.number(dsn);
        if self.long { DataNumber::Long(number) } else { DataNumber::Short(number as u32) }
    }

    /// A DATA_ACK of ours as it is sent.
    #[inline]
    pub(super) fn ack_number(&self, dsn: Dsn) -> DataNumber {
        let number = self.remote_idsn.wrapping_add(dsn.0);
        if self.long { DataNumber::Long(number) } else { DataNumber::Short(number as u32) }
    }

    /// The peer's position that `number` means, near `near`; `None` if it is too far off to be
    /// meant (RFC 8684 section 3.3.1 on wrapping).
    #[inline]
    pub(super) fn peer_position(&self, number: DataNumber, near: Dsn) -> Option<Dsn> {
        position(number, self.remote_idsn, near)
    }

    /// Our position that a DATA_ACK means.
    #[inline]
    pub(super) fn own_position(&self, number: DataNumber, near: Dsn) -> Option<Dsn> {
        position(number, self.idsn, near)
    }
}

fn position(number: DataNumber, base: u64, near: Dsn) -> Option<Dsn> {
    let distance = match number {
        DataNumber::Short(n) => i64::from(n.wrapping_sub(base.wrapping_add(near.0) as u32) as i32),
        DataNumber::Long(n) => n.wrapping_sub(base.wrapping_add(near.0)) as i64,
    };
    if distance.unsigned_abs() > MAX_DISTANCE {
        return None;
    }
    near.0.checked_add_signed(distance).map(Dsn)
}

/// Further from what is expected than this (four of the largest windows there are), a number
/// is nonsense.
const MAX_DISTANCE: u64 = 1 << 32;

/// Bound data and who has carried it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    pub(super) dsn: Dsn,
    pub(super) carried: SubflowSet,
    pub(super) len: u32,
}

/// An address that we announced.
#[derive(Clone, Copy, Debug)]
pub(super) struct Announced {
    pub(super) id: u8,
    pub(super) address: SocketAddr,
    /// Transmissions left until it is given up.
    pub(super) tries: u8,
    pub(super) next: Instant,
}

/// An address that the peer announced.
#[derive(Clone, Copy, Debug)]
pub(super) struct PeerAddress {
    pub(super) id: u8,
    pub(super) address: SocketAddr,
}

/// What became of subflows from an address to another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attempt {
    pub(super) local: IpAddr,
    pub(super) remote: SocketAddr,
    pub(super) failures: u32,
    pub(super) next: Instant,
}

/// A subflow that the endpoint is to open: it has ports, ISNs and the table of flows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    /// The slot reserved for it.
    pub(crate) id: SubflowId,
    /// Port 0 asks for an ephemeral one.
    pub(crate) local: SocketAddr,
    pub(crate) remote: SocketAddr,
    pub(crate) path: PathId,
    pub(super) backup: bool,
}

/// What the endpoint makes a connection from, beside the TCB.
pub(crate) struct Opening {
    pub(crate) tcb: Tcb,
    /// Key, token and IDSN; `None` for plain TCP.
    pub(crate) key: Option<(Key, u32, u64)>,
}

/// The 4-tuple of a closed subflow: the endpoint forgets it, or keeps it in TIME-WAIT.
#[derive(Clone, Debug)]
pub(crate) struct ClosedTuple {
    pub(crate) id: SubflowId,
    pub(crate) local: SocketAddr,
    pub(crate) remote: SocketAddr,
    pub(crate) path: PathId,
    /// The last ACK, to be repeated in TIME-WAIT.
    pub(crate) time_wait: Option<Box<tabane_wire::Segment>>,
    pub(crate) timestamp_offset: u32,
}

/// Constant offset from subflow to data positions, once there is an infinite mapping.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct Offset(pub(super) i64);

impl Offset {
    pub(super) fn between(dsn: Dsn, ssn: Ssn) -> Self {
        Self(dsn.0.wrapping_sub(ssn.0) as i64)
    }

    #[inline]
    pub(super) fn dsn(self, ssn: Ssn) -> Dsn {
        Dsn(ssn.0.wrapping_add_signed(self.0))
    }
}
