//! How a stream came to be, and whether as a part of MPTCP (RFC 8684 sections 3.1, 3.2, 3.7).

use super::classify::Side;
use serde::Serialize;
use tabane_engine::mptcp::crypto::{Key, Keys};
use tabane_wire::mptcp::{MpJoin, MptcpOption};
use tabane_wire::{Flags, Headers};

/// What was seen of a handshake.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Opening {
    /// Who sent the SYN.
    pub(super) client: Option<Side>,
    requested: Request,
    stage: Stage,
    /// SYNs, repeats included.
    pub(super) syns: u32,
    /// The SYN+ACK carried the option that was asked for.
    answered: bool,
    /// The ACK that ends the handshake did.
    confirmed: bool,
    reset: bool,
    bad_hmac: bool,
    nonces: [Option<u32>; 2],
    pub(super) backup: [bool; 2],
}

#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum Request {
    #[default]
    Plain,
    Capable,
    Join,
}

#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum Stage {
    /// No SYN yet.
    #[default]
    Unseen,
    Requested,
    Answered,
    /// The ACK that ends it was seen, but no data yet.
    Ended,
    /// Nothing more to learn, or the capture begins later.
    Past,
}

/// How an opening ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Opened {
    /// The handshake was not captured.
    NotCaptured,
    /// Plain TCP was asked for, and given.
    Plain,
    /// The first subflow of an MPTCP connection.
    Mptcp,
    /// A further subflow.
    Joined,
    /// MPTCP was asked for and not answered: plain TCP.
    Fallback,
    /// MPTCP was asked for and answered, but the ACK that ends the handshake does not carry it:
    /// plain TCP.
    FallbackUnconfirmed,
    /// The SYN had no answer.
    NoAnswer,
    /// The SYN or the handshake was answered by a reset.
    Reset,
    /// A join was answered as if it were plain TCP.
    JoinOptionMissing,
    /// A join with an HMAC that does not fit the keys.
    JoinBadHmac,
    /// The SYN+ACK of a join was not answered with an HMAC.
    JoinUnconfirmed,
}

impl Opened {
    /// Whether it is a subflow that could not be made.
    pub fn is_failed_join(self) -> bool {
        use Opened::{JoinBadHmac, JoinOptionMissing, JoinUnconfirmed};
        matches!(self, JoinBadHmac | JoinOptionMissing | JoinUnconfirmed)
    }

    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Self::NotCaptured => "handshake not captured",
            Self::Plain => "TCP",
            Self::Mptcp => "first",
            Self::Joined => "joined",
            Self::Fallback => "fell back: MP_CAPABLE not answered",
            Self::FallbackUnconfirmed => "fell back: MP_CAPABLE not confirmed",
            Self::NoAnswer => "no answer",
            Self::Reset => "refused by reset",
            Self::JoinOptionMissing => "join failed: MP_JOIN not answered",
            Self::JoinBadHmac => "join failed: wrong HMAC",
            Self::JoinUnconfirmed => "join failed: not confirmed",
        }
    }
}

impl Opening {
    /// Whether a packet can tell something new.
    #[inline]
    pub(super) fn is_open(&self, flags: Flags) -> bool {
        self.stage != Stage::Past || flags.intersects(Flags::SYN)
    }

    /// A packet of `side`; `key` gives a side's key, if it is known.
    pub(super) fn packet(
        &mut self,
        side: Side,
        headers: &Headers,
        key: impl Fn(Side) -> Option<Key>,
    ) {
        let flags = headers.flags;
        let (syn, ack) = (flags.contains(Flags::SYN), flags.contains(Flags::ACK));
        if flags.contains(Flags::RST) {
            self.reset |= matches!(self.stage, Stage::Requested | Stage::Answered | Stage::Ended);
            self.stage = Stage::Past;
        } else if syn && !ack {
            self.syn(side, headers);
        } else if syn {
            self.syn_ack(side, headers, key);
        } else {
            match self.stage {
                Stage::Unseen => self.stage = Stage::Past,
                Stage::Answered if self.client == Some(side) && ack => {
                    self.third(side, headers, key);
                }
                // The option is repeated on the first data; the server's turn ends it all.
                Stage::Ended if self.client == Some(side) => {
                    self.confirmed |= headers.options.has_mptcp();
                    if headers.payload_len > 0 {
                        self.stage = Stage::Past;
                    }
                }
                Stage::Ended => self.stage = Stage::Past,
                _ => {}
            }
        }
    }

    fn syn(&mut self, side: Side, headers: &Headers) {
        self.syns += 1;
        if self.stage != Stage::Unseen && self.stage != Stage::Requested {
            return;
        }
        self.client = Some(side);
        self.stage = Stage::Requested;
        for option in headers.options.mptcp() {
            match option {
                MptcpOption::Capable(_) => self.requested = Request::Capable,
                MptcpOption::Join(MpJoin::Syn { nonce, backup, .. }) => {
                    self.requested = Request::Join;
                    self.nonces[side] = Some(*nonce);
                    self.backup[side] = *backup;
                }
                _ => {}
            }
        }
    }

    fn syn_ack(&mut self, side: Side, headers: &Headers, key: impl Fn(Side) -> Option<Key>) {
        if self.stage == Stage::Unseen {
            self.client = Some(side ^ 1);
            self.requested = requested_by(headers);
        }
        if !matches!(self.stage, Stage::Unseen | Stage::Requested) {
            return;
        }
        self.stage = Stage::Answered;
        for option in headers.options.mptcp() {
            match (option, self.requested) {
                (MptcpOption::Capable(_), Request::Capable) => self.answered = true,
                (MptcpOption::Join(MpJoin::SynAck { hmac, nonce, backup, .. }), Request::Join) => {
                    self.answered = true;
                    self.nonces[side] = Some(*nonce);
                    self.backup[side] = *backup;
                    if let (Some(keys), Some(theirs)) = (keys(side, key), self.nonces[side ^ 1]) {
                        self.bad_hmac |= keys.join_syn_ack(*nonce, theirs) != *hmac;
                    }
                    return;
                }
                _ => {}
            }
        }
    }

    fn third(&mut self, side: Side, headers: &Headers, key: impl Fn(Side) -> Option<Key>) {
        self.confirmed = headers.options.has_mptcp();
        self.stage = if headers.payload_len > 0 { Stage::Past } else { Stage::Ended };
        for option in headers.options.mptcp() {
            if let MptcpOption::Join(MpJoin::Ack { hmac }) = option
                && let [Some(_), Some(_)] = self.nonces
                && let Some(keys) = keys(side, &key)
            {
                let nonce = |side: Side| self.nonces[side].unwrap_or_default();
                self.bad_hmac |= keys.join_ack(nonce(side), nonce(side ^ 1)) != *hmac;
            }
        }
    }

    /// How it ended.
    pub(super) fn opened(&self) -> Opened {
        let (seen, answered) = (self.client.is_some(), self.answered);
        match (self.requested, self.stage) {
            _ if !seen => Opened::NotCaptured,
            (Request::Join, _) if self.bad_hmac => Opened::JoinBadHmac,
            _ if self.reset => Opened::Reset,
            (_, Stage::Requested) => Opened::NoAnswer,
            (Request::Plain, _) => Opened::Plain,
            (Request::Capable, _) if !answered => Opened::Fallback,
            (Request::Capable, Stage::Answered) => Opened::Mptcp,
            (Request::Capable, _) if !self.confirmed => Opened::FallbackUnconfirmed,
            (Request::Capable, _) => Opened::Mptcp,
            (Request::Join, _) if !answered => Opened::JoinOptionMissing,
            (Request::Join, _) if !self.confirmed => Opened::JoinUnconfirmed,
            (Request::Join, _) => Opened::Joined,
        }
    }
}

/// What a SYN+ACK answers, where the SYN was not captured.
fn requested_by(headers: &Headers) -> Request {
    let first = headers.options.mptcp().first();
    match first {
        Some(MptcpOption::Capable(_)) => Request::Capable,
        Some(MptcpOption::Join(_)) => Request::Join,
        _ => Request::Plain,
    }
}

fn keys(side: Side, key: impl Fn(Side) -> Option<Key>) -> Option<Keys> {
    Some(Keys { local: key(side)?, remote: key(side ^ 1)? })
}
