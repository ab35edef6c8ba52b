//! The MPTCP options of an outgoing segment (RFC 8684 section 3), and what is left out when they do
//! not fit into the 40 bytes of options or the path's MTU (RFC 9293 section 3.7.1): SACK blocks
//! first, then (for ADD_ADDR) the DSS and the timestamps.

use super::session::Protocol;
use super::subflow::Join;
use super::{Connection, Role};
use crate::seq::Ssn;
use crate::tcp::{Kind, Outgoing};
use crate::view::SubflowId;
use tabane_wire::mptcp::MpJoin;
use tabane_wire::{Dss, Mapping, MptcpOption, TcpOptions};

impl Connection {
    /// Adds the MPTCP options to a segment of the subflow at index `at`, and drops what does not
    /// fit beside them.
    #[inline]
    pub(super) fn add_options(&mut self, at: usize, out: &mut Outgoing<'_>) {
        match &self.protocol {
            Protocol::Tcp => return,
            Protocol::Mptcp(_) => match out.kind {
                Kind::Data => self.add_data_options(at, out),
                Kind::Ack | Kind::Probe | Kind::Fin => self.add_ack_options(at, out),
                Kind::Syn | Kind::SynAck => self.add_join_options(at, out),
                Kind::Reset => self.add_reset_options(at, out),
            },
            Protocol::Opening(_) => self.add_opening_options(at, out),
            Protocol::Fallback(_) => match out.kind {
                Kind::Reset => self.add_reset_options(at, out),
                _ => self.add_fallback_options(at, out),
            },
        }
        let space = self.subflows[at].tcb.option_space(out.segment.payload.len());
        fit(&mut out.segment.options, space);
    }

    #[inline]
    fn add_data_options(&mut self, at: usize, out: &mut Outgoing<'_>) {
        let Some(dsn) = out.dsn else { return };
        if !self.subflows[at].signals.is_empty() {
            // This acknowledges too: the ACK that was asked for them is due no more.
            self.request_ack(at);
        }
        let ack = self.receive.next();
        if out.span.is_within() {
            if self.protocol.session().is_some_and(|session| session.acked < ack) {
                self.request_ack(at);
            }
            return;
        }
        let len = out.segment.payload.len();
        let end = dsn + len as u64;
        let last = self.send.is_closed() && end == self.send.end();
        let Some(session) = self.protocol.session_mut() else { return };
        let (agreed, payload) = (&session.agreed, &out.segment.payload);
        if self.role == Role::Client && !session.fully && out.ssn == Ssn(1) {
            let data = (len as u16, agreed.sum(dsn, 1, len as u16, payload));
            out.segment.options.push_mptcp(MptcpOption::Capable(agreed.capable(Some(data))));
            return;
        }
        let length = out.span.bytes().unwrap_or(len as u16 + u16::from(last));
        let ssn = out.ssn.0 as u32;
        let checksum = agreed.sum(dsn, ssn, length, payload);
        session.acked = ack;
        out.segment.options.dss = Some(Dss {
            data_ack: Some(agreed.ack_number(ack)),
            mapping: Some(Mapping { dsn: agreed.data_number(dsn), ssn, length, checksum }),
            data_fin: last,
        });
        if last && self.send.send_fin() {
            session.arm_fin(self.now, &self.subflows);
        }
        // Where 2^32 comes into sight, short numbers no longer do (RFC 8684 section 3.3.1).
        if dsn.0 > LONG_FROM && !session.agreed.is_long() {
            self.use_long_numbers();
        }
    }

    fn add_ack_options(&mut self, at: usize, out: &mut Outgoing<'_>) {
        let ack = self.receive.next();
        let fin = self.send.end();
        let Some(session) = self.protocol.session_mut() else { return };
        let join = self.subflows[at].join;
        match join {
            Join::Initiator { nonce, peer_nonce, confirmed: false, .. } => {
                let hmac = session.agreed.keys().join_ack(nonce, peer_nonce);
                out.segment.options.push_mptcp(MptcpOption::Join(MpJoin::Ack { hmac }));
                return;
            }
            // A challenge: nothing is acknowledged at data level before the peer has shown its key.
            Join::Responder { confirmed: false, .. } => return,
            _ => {}
        }
        let unknown = self.role == Role::Client && !session.fully && join == Join::First;
        if unknown && (session.keys_due || !session.fin_due) {
            // Repeated until the peer's first DSS shows that it has our key. A DATA_FIN, for which
            // there is no space beside it, follows at once.
            session.keys_due = false;
            let option = session.agreed.capable(None);
            let fin_due = session.fin_due;
            out.segment.options.push_mptcp(MptcpOption::Capable(option));
            if fin_due {
                self.request_ack(at);
            }
            return;
        }
        let agreed = &session.agreed;
        if out.kind == Kind::Probe {
            // What else is to be said has its own acknowledgement.
            let data_ack = Some(agreed.ack_number(ack));
            out.segment.options.dss = Some(Dss { data_ack, ..Dss::default() });
            return;
        }
        session.acked = ack;
        let mut dss = Dss { data_ack: Some(agreed.ack_number(ack)), ..Dss::default() };
        if session.fin_due {
            session.fin_due = false;
            self.send.send_fin();
            dss.data_fin = true;
            let checksum = agreed.sum(fin, 0, 1, &[]);
            let dsn = agreed.data_number(fin);
            dss.mapping = Some(Mapping { dsn, ssn: 0, length: 1, checksum });
        } else if out.kind == Kind::Ack
            && let Some(signal) = self.subflows[at].signals.pop_front()
        {
            out.segment.options.push_mptcp(signal);
        }
        out.segment.options.dss = Some(dss);
        if !self.subflows[at].signals.is_empty() {
            self.request_ack(at);
        }
    }

    /// SYN and SYN+ACK of the first subflow, and what else is sent before the peer's key is known.
    fn add_opening_options(&self, at: usize, out: &mut Outgoing<'_>) {
        let Protocol::Opening(handshake) = &self.protocol else { return };
        let config = &self.config.mptcp;
        let capable = match out.kind {
            // Timeouts, not transmissions: a SYN repeated for another reason than its timer says
            // nothing about middleboxes that drop the option.
            Kind::Syn if self.subflows[at].tcb.timeouts() < config.capable_syns => {
                handshake.syn(config)
            }
            Kind::SynAck if self.role == Role::Server => handshake.syn_ack(config),
            Kind::Reset => return self.add_reset_options(at, out),
            _ => return,
        };
        out.segment.options.push_mptcp(MptcpOption::Capable(capable));
    }

    /// SYN and SYN+ACK of a further subflow.
    fn add_join_options(&self, at: usize, out: &mut Outgoing<'_>) {
        let subflow = &self.subflows[at];
        let (backup, address_id) = (subflow.backup, subflow.local_id);
        let Some(agreed) = self.protocol.session().map(|s| &s.agreed) else { return };
        let join = match subflow.join {
            Join::First => return,
            Join::Initiator { nonce, .. } => {
                MpJoin::Syn { backup, address_id, token: agreed.remote_token(), nonce }
            }
            Join::Responder { nonce, peer_nonce, .. } => {
                let hmac = agreed.keys().join_syn_ack(nonce, peer_nonce);
                MpJoin::SynAck { backup, address_id, hmac, nonce }
            }
        };
        out.segment.options.push_mptcp(MptcpOption::Join(join));
    }

    fn add_reset_options(&self, at: usize, out: &mut Outgoing<'_>) {
        let subflow = &self.subflows[at];
        if let Some(key) = subflow.fast_close {
            out.segment.options.push_mptcp(MptcpOption::FastClose(key));
        } else if let Some(reset) = subflow.reset {
            out.segment.options.push_mptcp(MptcpOption::TcpRst(reset));
        }
        if let Some(dsn) = subflow.fail {
            out.segment.options.push_mptcp(MptcpOption::Fail(dsn));
        }
    }

    /// After a fallback that the peer must be told of: MP_FAIL waits among the signals, and the
    /// next data carries the infinite mapping (RFC 8684 section 3.7).
    fn add_fallback_options(&mut self, at: usize, out: &mut Outgoing<'_>) {
        let Protocol::Fallback(notice) = &mut self.protocol else { return };
        let signal = (out.kind == Kind::Ack).then(|| self.subflows[at].signals.pop_front());
        if let Some(signal) = signal.flatten() {
            out.segment.options.push_mptcp(signal);
        }
        if !self.subflows[at].signals.is_empty() {
            self.subflows[at].tcb.request_ack();
            self.pending.insert(self.subflows[at].id);
        }
        if matches!(out.kind, Kind::Ack | Kind::Probe) {
            return;
        }
        let Some(mapping) = out.dsn.and_then(|dsn| notice.take_infinite(dsn, out.ssn)) else {
            return;
        };
        out.segment.options.dss =
            Some(Dss { data_ack: None, mapping: Some(mapping), data_fin: false });
        self.subflows[at].tcb.set_option_reserve(0);
        self.outdated.insert(self.subflows[at].id);
    }

    /// 8-byte numbers from now on; segments shrink by what they take.
    pub(super) fn use_long_numbers(&mut self) {
        let Some(agreed) = self.protocol.session_mut().map(|s| &mut s.agreed) else { return };
        if agreed.is_long() {
            return;
        }
        agreed.lengthen();
        let reserve = agreed.data_options();
        for subflow in &mut self.subflows {
            subflow.tcb.set_option_reserve(reserve);
            self.outdated.insert(subflow.id);
        }
    }

    /// Asks a subflow for an ACK.
    pub(super) fn request_ack(&mut self, at: usize) {
        let id: SubflowId = self.subflows[at].id;
        self.subflows[at].tcb.request_ack();
        self.pending.insert(id);
    }
}

/// Cuts options down to `space` bytes. Only signals need more without SACK blocks, and they are on
/// acknowledgements, not on data.
#[inline]
fn fit(options: &mut TcpOptions, space: usize) {
    while options.emitted_len() > space && !options.sack.is_empty() {
        options.sack.truncate(options.sack.len() - 1);
    }
    if options.emitted_len() > space && options.mptcp.is_some() && options.dss.is_some() {
        options.dss = None;
    }
    if options.emitted_len() > TcpOptions::SPACE {
        options.timestamps = None;
    }
}

/// Data positions beyond this use 8-byte numbers.
const LONG_FROM: u64 = 1 << 30;

#[cfg(test)]
mod tests {
    use super::*;
    use tabane_wire::mptcp::AddAddr;
    use tabane_wire::{DataNumber, SeqNum, Timestamps};

    /// Timestamps, so many SACK blocks, and a DATA_ACK, with an announcement or without.
    fn fitted(blocks: u32, option: Option<MptcpOption>) -> TcpOptions {
        let timestamps = Some(Timestamps { value: 1, echo: 2 });
        let mut options = TcpOptions { timestamps, ..TcpOptions::default() };
        for n in 0..blocks {
            assert!(options.sack.push(SeqNum(n * 20), SeqNum(n * 20 + 10)));
        }
        options.dss = Some(Dss { data_ack: Some(DataNumber::Long(7)), ..Dss::default() });
        option.into_iter().for_each(|option| options.push_mptcp(option));
        fit(&mut options, TcpOptions::SPACE);
        assert!(options.emitted_len() <= TcpOptions::SPACE, "{options:?}");
        options
    }

    #[test]
    fn what_does_not_fit_gives_way_in_order() {
        for (blocks, left) in [(0, 0), (1, 1), (3, 2)] {
            let options = fitted(blocks, None);
            assert_eq!(options.sack.len(), left, "of {blocks} blocks");
            assert!(options.dss.is_some() && options.timestamps.is_some());
        }
        let announce = |address: &str| {
            let address = address.parse().expect("an address");
            let add = AddAddr { address_id: 1, address, port: None, hmac: Some(3) };
            fitted(3, Some(MptcpOption::AddAddr(add)))
        };
        let remove = fitted(3, Some(MptcpOption::RemoveAddr((0..28).collect())));
        let kept = |o: &TcpOptions| (o.sack.len(), o.dss.is_some(), o.timestamps.is_some());
        assert_eq!(kept(&announce("10.0.0.1")), (0, true, true));
        assert_eq!(kept(&announce("fd00::1")), (0, false, true));
        assert_eq!(kept(&remove), (0, false, false));
    }
}
