//! The protocol that a connection speaks, and what each has of its own.

use super::keys::{Agreed, Handshake, OwnKey};
use super::overdue::Head;
use super::paths::PathManager;
use super::reinject::Carried;
use super::timers::{Timer, Timers};
use crate::seq::{Dsn, Ssn};
use crate::tcp::Tcb;
use crate::time::Instant;
use crate::view::{PathId, SubflowId, SubflowSet};
use std::net::SocketAddr;
use tabane_wire::{DataNumber, Dss, Mapping};

/// Which protocol a connection speaks, and what it needs for that.
pub(super) enum Protocol {
    /// TCP, from the start or since a fallback.
    Tcp,
    /// MPTCP was asked for; the peer's key is not known yet.
    Opening(Box<Handshake>),
    /// MPTCP: both keys are known.
    Mptcp(Box<Session>),
    /// TCP since a fallback that the peer is told of.
    Fallback(Box<Notice>),
}

impl Protocol {
    /// MPTCP's part.
    #[inline]
    pub(super) fn session(&self) -> Option<&Session> {
        match self {
            Self::Mptcp(session) => Some(session),
            _ => None,
        }
    }

    #[inline]
    pub(super) fn session_mut(&mut self) -> Option<&mut Session> {
        match self {
            Self::Mptcp(session) => Some(session),
            _ => None,
        }
    }

    /// Our key, while the peer may know it.
    pub(super) fn own_key(&self) -> Option<&OwnKey> {
        match self {
            Self::Tcp => None,
            Self::Opening(handshake) => Some(handshake.own()),
            Self::Mptcp(session) => Some(session.agreed.own()),
            Self::Fallback(notice) => Some(notice.agreed.own()),
        }
    }

    /// Option space of a data segment, without padding.
    pub(super) fn data_options(&self) -> u16 {
        match self {
            Self::Mptcp(session) => session.agreed.data_options(),
            Self::Fallback(notice) => notice.data_options(),
            Self::Tcp | Self::Opening(_) => 0,
        }
    }

    /// Option space that MP_CAPABLE with data takes beyond a short DSS, until the peer is known to
    /// have our key.
    #[inline]
    pub(super) fn capable_space(&self) -> u64 {
        let fully = match self {
            Self::Mptcp(session) => session.fully,
            Self::Fallback(notice) => notice.fully,
            Self::Tcp | Self::Opening(_) => true,
        };
        if fully { 0 } else { 4 }
    }
}

/// What MPTCP has beyond TCP: what the ends agreed on, addresses, which subflow carries which data,
/// and the timers of the data level.
pub(super) struct Session {
    pub(super) agreed: Agreed,
    pub(super) paths: PathManager,
    pub(super) carried: Carried,
    pub(super) head: Head,
    /// Subflows that have joined since data was bound to others.
    pub(super) joined: SubflowSet,
    pub(super) timers: Timers,
    /// A DSS from the peer has arrived: it knows our key.
    pub(super) fully: bool,
    /// A DATA_ACK from the peer has arrived.
    pub(super) data_acked: bool,
    /// Our last DATA_ACK.
    pub(super) acked: Dsn,
    /// The DATA_FIN leaves alone with the next ACK.
    pub(super) fin_due: bool,
    /// As client, until the peer's first DSS: the keys go before the DATA_FIN does.
    pub(super) keys_due: bool,
    pub(super) fin_backoff: u32,
    /// When the DATA_FIN was last sent.
    pub(super) fin_at: Instant,
    /// Only the first subflow has ever carried data, each byte once: subflow and data positions
    /// have kept step, and falling back is possible.
    pub(super) in_step: bool,
    /// No subflow but the first was ever established.
    pub(super) first_alone: bool,
}

impl Session {
    pub(super) fn new(agreed: Agreed, paths: PathManager) -> Self {
        Self {
            agreed,
            paths,
            carried: Carried::default(),
            head: Head::default(),
            joined: SubflowSet::NONE,
            timers: Timers::default(),
            fully: false,
            data_acked: false,
            acked: Dsn(0),
            fin_due: false,
            keys_due: true,
            fin_backoff: 0,
            fin_at: Instant::ZERO,
            in_step: true,
            first_alone: true,
        }
    }

    /// What a DSS says: the peer knows our key. `una` and `next` are where its numbers are near.
    #[inline]
    pub(super) fn read_dss(&mut self, dss: &Dss, una: Dsn, next: Dsn) -> DssRead {
        self.fully = true;
        self.data_acked |= dss.data_ack.is_some();
        let acked = dss.data_ack.and_then(|number| self.agreed.own_position(number, una));
        let Some(map) = &dss.mapping else {
            return DssRead { acked, lengthens: false, mapping: MappingRead::TooFar };
        };
        let lengthens = matches!(map.dsn, DataNumber::Long(_)) && !self.agreed.is_long();
        let mapping = if map.length == 0 {
            MappingRead::Infinite
        } else if map.checksum.is_some() != self.agreed.checksum() {
            MappingRead::OtherChecksum
        } else if let Some(dsn) = self.agreed.peer_position(map.dsn, next) {
            MappingRead::At(dsn, self.agreed.remote_number(dsn))
        } else {
            MappingRead::TooFar
        };
        DssRead { acked, lengthens, mapping }
    }

    /// A range of data leaves by the subflows `by`.
    #[inline]
    pub(super) fn on_bound(&mut self, dsn: Dsn, len: u64, by: SubflowSet, range: Again) {
        match range {
            Again::No => {
                self.in_step &= by.len() == 1;
                self.carried.sent(dsn, len, by);
            }
            Again::Yes => {
                self.in_step = false;
                self.carried.sent_again(dsn, len, by);
            }
        }
    }

    /// Our DATA_FIN has been acknowledged.
    pub(super) fn on_fin_acked(&mut self) {
        self.timers.stop(Timer::Fin);
        self.timers.stop(Timer::Data);
        self.fin_due = false;
    }

    /// The last subflow has closed: whatever is `under_way` without a DATA_ACK goes by the next,
    /// also what the last ones had acknowledged themselves.
    pub(super) fn on_bare(&mut self, under_way: impl Iterator<Item = (Dsn, u64)>) {
        self.timers.stop(Timer::Data);
        self.carried.offer_all(under_way);
    }

    /// The connection is over.
    pub(super) fn end(&mut self) {
        self.timers = Timers::default();
        self.carried.clear();
    }
}

/// What a DSS says, in positions.
pub(super) struct DssRead {
    /// Our position that is acknowledged, if it makes sense.
    pub(super) acked: Option<Dsn>,
    /// It uses 8-byte numbers for the first time.
    pub(super) lengthens: bool,
    /// Where there is a mapping: what it is.
    pub(super) mapping: MappingRead,
}

/// A mapping, in positions of the stream.
pub(super) enum MappingRead {
    /// Its first byte, and the same as 64-bit number.
    At(Dsn, u64),
    /// Too far off to be meant.
    TooFar,
    /// The rest of the stream is plain.
    Infinite,
    /// With a checksum where none was agreed, or the reverse.
    OtherChecksum,
}

/// Whether data has been sent before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Again {
    Yes,
    No,
}

/// What is left to say after a fallback that the peer must be told of (RFC 8684 section 3.7).
pub(super) struct Notice {
    agreed: Agreed,
    /// As in [`Session`].
    fully: bool,
    /// The mapping to be sent next is infinite.
    infinite_due: bool,
}

impl Notice {
    pub(super) fn new(session: &Session) -> Self {
        Self { agreed: session.agreed, fully: session.fully, infinite_due: true }
    }

    fn data_options(&self) -> u16 {
        if self.infinite_due { self.agreed.data_options() } else { 0 }
    }

    /// The peer's DSS beside the MP_FAIL that made us fall back: it knows our key. Our position
    /// that it acknowledges.
    pub(super) fn on_dss(&mut self, dss: &Dss, una: Dsn) -> Option<Dsn> {
        self.fully = true;
        if let Some(mapping) = &dss.mapping
            && matches!(mapping.dsn, DataNumber::Long(_))
        {
            self.agreed.lengthen();
        }
        self.agreed.own_position(dss.data_ack?, una)
    }

    /// The peer's position that `number` means.
    pub(super) fn peer_position(&self, number: DataNumber, near: Dsn) -> Option<Dsn> {
        self.agreed.peer_position(number, near)
    }

    /// The infinite mapping, once: from the data at `dsn` and `ssn` on the stream is plain.
    pub(super) fn take_infinite(&mut self, dsn: Dsn, ssn: Ssn) -> Option<Mapping> {
        let due = std::mem::take(&mut self.infinite_due);
        let checksum = self.agreed.checksum().then_some(0);
        let dsn = self.agreed.data_number(dsn);
        due.then_some(Mapping { dsn, ssn: ssn.0 as u32, length: 0, checksum })
    }
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
    /// `None` for plain TCP.
    pub(crate) key: Option<OwnKey>,
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
