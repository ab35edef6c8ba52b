//! A subflow as the connection sees it: its TCB and what MPTCP adds to it.

use super::hedge::Hedge;
use super::mapping::Inbox;
use super::paths::Pair;
use super::session::Offset;
use crate::seq::Dsn;
use crate::tcp::{State, Tcb};
use crate::time::{Duration, Instant};
use crate::view::{PathId, SubflowId};
use std::collections::VecDeque;
use tabane_wire::MptcpOption;
use tabane_wire::mptcp::MpTcpRst;

/// A subflow of a connection: its TCP state and what the connection notes about it.
///
/// The connection owns it, from the SYN until the TCB has closed or entered TIME-WAIT. It may carry
/// new data while it is `usable`. A subflow that is `potentially_failed` gets new data only if no
/// other is usable; the data of one that is `unresponsive` is offered to the others.
// What is seldom needed comes last in memory.
#[repr(C, align(64))]
pub(super) struct Subflow {
    pub(super) id: SubflowId,
    pub(super) path: PathId,
    /// Id of our address.
    pub(super) local_id: u8,
    /// Id of the peer's.
    pub(super) remote_id: u8,
    /// Low priority: we ask for it.
    pub(super) backup: bool,
    /// Low priority: the peer asks for it.
    pub(super) peer_backup: bool,
    pub(super) stale: bool,
    /// Unanswered for two round trips: its data is offered to others (`reinject.rs`).
    pub(super) unresponsive: bool,
    /// `Event::SubflowEstablished` has been reported.
    pub(super) established: bool,
    /// No new data on it: its FIN is out or about to be.
    pub(super) closing: bool,
    /// A DSS has come on it.
    pub(super) dss_seen: bool,
    /// Retransmission timeouts in a row without an answer.
    pub(super) timeouts: u32,
    pub(super) join: Join,
    /// Mappings and data that wait for each other; made when first needed.
    pub(super) inbox: Option<Box<Inbox>>,
    /// Payload bytes received on it that were new at data level.
    pub(super) delivered: u64,
    /// Round trip as a receiver sees it; zero when unknown.
    pub(super) receive_rtt: Duration,
    /// Offsets from subflow to data positions in plain TCP: received, sent.
    pub(super) offset_in: Offset,
    pub(super) offset_out: Offset,
    pub(super) tcb: Tcb,
    /// How many its connection had before it.
    pub(super) number: u32,
    /// Acknowledgements of data in a row without any MPTCP option.
    pub(super) bare_acks: u32,
    /// Options to be carried by ACKs ([`Subflow::SIGNALS`] at most).
    pub(super) signals: VecDeque<MptcpOption>,
    /// MP_TCPRST for the RST.
    pub(super) reset: Option<MpTcpRst>,
    /// MP_FASTCLOSE with the peer's key for the RST.
    pub(super) fast_close: Option<u64>,
    /// MP_FAIL for the RST: the mapping whose checksum was wrong.
    pub(super) fail: Option<u64>,
    /// Everything before has been carried by this subflow or acknowledged, as far as is known:
    /// where it goes on when the scheduler replicates.
    pub(super) replica: Dsn,
    /// Not before then does it look for what it could deliver sooner than its siblings.
    pub(super) tail_reinjection_at: Instant,
    /// How its opening is hedged.
    pub(super) hedge: Hedge,
}

/// How it belongs to its connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Join {
    /// The first subflow.
    First,
    /// We joined; until `confirmed` the peer may not have our HMAC (PRE_ESTABLISHED).
    Initiator {
        nonce: u32,
        peer_nonce: u32,
        confirmed: bool,
        /// Transmissions of the third packet so far, and when it goes again.
        tries: u32,
        again: Instant,
    },
    /// The peer joined; until `confirmed` its HMAC has not come.
    Responder { nonce: u32, peer_nonce: u32, confirmed: bool },
}

impl Subflow {
    /// Options waiting at most; more are dropped, oldest first.
    pub(super) const SIGNALS: usize = 16;

    pub(super) fn new(tcb: Tcb, join: Join) -> Self {
        let (id, path) = (tcb.setup().id, tcb.setup().path);
        Self {
            tcb,
            id,
            path,
            number: 0,
            join,
            local_id: 0,
            remote_id: 0,
            backup: false,
            peer_backup: false,
            timeouts: 0,
            stale: false,
            unresponsive: false,
            established: false,
            closing: false,
            inbox: None,
            signals: VecDeque::new(),
            reset: None,
            fast_close: None,
            fail: None,
            dss_seen: false,
            bare_acks: 0,
            delivered: 0,
            replica: Dsn(1),
            tail_reinjection_at: Instant::ZERO,
            hedge: Hedge::default(),
            receive_rtt: Duration::ZERO,
            offset_in: Offset::default(),
            offset_out: Offset::default(),
        }
    }

    /// The addresses that it connects.
    pub(super) fn between(&self) -> Pair {
        let setup = self.tcb.setup();
        Pair { local: setup.local.ip(), remote: setup.remote }
    }

    /// Whether it may carry new data.
    #[inline]
    pub(super) fn usable(&self) -> bool {
        !self.closing && self.joined() && self.is_open()
    }

    /// Whether both directions are synchronised and ours is open.
    #[inline]
    pub(super) fn is_open(&self) -> bool {
        matches!(self.tcb.state(), State::Established | State::CloseWait)
    }

    /// Whether the peer may still send on it.
    #[inline]
    pub(super) fn receives(&self) -> bool {
        let state = self.tcb.state();
        self.joined() && matches!(state, State::Established | State::FinWait1 | State::FinWait2)
    }

    /// Whether both ends know that it belongs to the connection.
    #[inline]
    pub(super) fn joined(&self) -> bool {
        match self.join {
            Join::First => true,
            Join::Initiator { confirmed, .. } | Join::Responder { confirmed, .. } => confirmed,
        }
    }

    /// Use only if nothing better is there.
    #[inline]
    pub(super) fn potentially_failed(&self) -> bool {
        self.timeouts > 0 || self.stale || self.tcb.is_path_down()
    }

    /// Queues an option for the next ACK.
    pub(super) fn signal(&mut self, option: MptcpOption) {
        if self.signals.len() == Self::SIGNALS {
            self.signals.pop_front();
        }
        if !self.signals.contains(&option) {
            self.signals.push_back(option);
        }
        self.tcb.request_ack();
    }
}

/// Reason codes of MP_TCPRST (RFC 8684 section 3.6).
pub(super) mod reset_reason {
    pub(in crate::mptcp) const UNSPECIFIED: u8 = 0;
    pub(in crate::mptcp) const MPTCP: u8 = 1;
    pub(in crate::mptcp) const RESOURCES: u8 = 2;
    pub(in crate::mptcp) const PROHIBITED: u8 = 3;
    pub(in crate::mptcp) const MIDDLEBOX: u8 = 6;
}
