//! The MPTCP options of an outgoing segment (RFC 8684 section 3), and what is left out when they do
//! not fit into the 40 bytes of options or the path's MTU (RFC 9293 section 3.7.1): SACK blocks
//! first, then (for ADD_ADDR) the DSS and the timestamps.

use super::subflow::Join;
use super::{Connection, Role};
use crate::seq::Ssn;
use crate::tcp::{Kind, Outgoing};
use crate::view::SubflowId;
use tabane_wire::checksum::dss_checksum;
use tabane_wire::mptcp::{MpCapable, MpJoin};
use tabane_wire::{Checksum, Dss, Mapping, MptcpOption, TcpOptions};

impl Connection {
    /// Adds the MPTCP options to a segment of the subflow at index `at`, and drops what does not
    /// fit beside them.
    #[inline]
    pub(super) fn add_options(&mut self, at: usize, out: &mut Outgoing<'_>) {
        if !self.is_mptcp() {
            return self.add_options_without_mptcp(at, out);
        }
        match out.kind {
            Kind::Data => self.add_data_options(out),
            Kind::Ack | Kind::Fin => self.add_ack_options(at, out),
            Kind::Syn => self.add_syn_options(at, out),
            Kind::SynAck => self.add_syn_ack_options(at, out),
            Kind::Reset => self.add_reset_options(at, out),
        }
        self.fit(at, out);
    }

    /// Cuts down what does not fit.
    #[inline]
    fn fit(&self, at: usize, out: &mut Outgoing<'_>) {
        let space = self.subflows[at].tcb.option_space(out.segment.payload.len());
        fit(&mut out.segment.options, space);
    }

    /// As `add_options`, before the peer's key is known and after a fallback.
    fn add_options_without_mptcp(&mut self, at: usize, out: &mut Outgoing<'_>) {
        match out.kind {
            Kind::Syn => self.add_syn_options(at, out),
            Kind::SynAck => self.add_syn_ack_options(at, out),
            Kind::Reset => self.add_reset_options(at, out),
            Kind::Data | Kind::Ack | Kind::Fin => self.add_fallback_options(at, out),
        }
        self.fit(at, out);
    }

    #[inline]
    fn add_data_options(&mut self, out: &mut Outgoing<'_>) {
        let Some(dsn) = out.dsn else { return };
        let ack = self.receive.stream.next();
        let len = out.segment.payload.len();
        let end = dsn + len as u64;
        let last = self.send.closed && end == self.fin_position();
        let Some(session) = &mut self.session else { return };
        let sum = || Checksum::of(&out.segment.payload);
        if self.role == Role::Client && !session.fully && out.ssn == Ssn(1) {
            let checksum =
                session.checksum.then(|| dss_checksum(sum(), session.number(dsn), 1, len as u16));
            let option = session.capable(Some((len as u16, checksum)));
            out.segment.options.push_mptcp(MptcpOption::Capable(option));
            return;
        }
        let length = len as u16 + u16::from(last);
        let ssn = out.ssn.0 as u32;
        let checksum =
            session.checksum.then(|| dss_checksum(sum(), session.number(dsn), ssn, length));
        out.segment.options.dss = Some(Dss {
            data_ack: Some(session.ack_number(ack)),
            mapping: Some(Mapping { dsn: session.data_number(dsn), ssn, length, checksum }),
            data_fin: last,
        });
        // Where 2^32 comes into sight, short numbers no longer do (RFC 8684 section 3.3.1).
        if dsn.0 > LONG_FROM && !session.long {
            self.use_long_numbers();
        }
        if last && !self.send.fin_sent {
            self.send.fin_sent = true;
            self.arm_fin_timer();
        }
    }

    fn add_ack_options(&mut self, at: usize, out: &mut Outgoing<'_>) {
        if let Join::Initiator { nonce, peer_nonce, confirmed: false, .. } = self.subflows[at].join
        {
            if let Some(keys) = self.session.as_ref().and_then(|s| s.keys()) {
                let hmac = keys.join_ack(nonce, peer_nonce);
                out.segment.options.push_mptcp(MptcpOption::Join(MpJoin::Ack { hmac }));
            }
            return;
        }
        if let Join::Responder { confirmed: false, .. } = self.subflows[at].join {
            // A challenge: nothing is acknowledged at data level before the peer has shown its key.
            return;
        }
        let ack = self.receive.stream.next();
        let fin = self.fin_position();
        let Some(session) = &mut self.session else { return };
        let unknown =
            self.role == Role::Client && !session.fully && self.subflows[at].join == Join::First;
        if unknown && (session.keys_due || !session.fin_due) {
            // Repeated until the peer's first DSS shows that it has our key. A DATA_FIN, for which
            // there is no space beside it, follows at once.
            session.keys_due = false;
            let option = session.capable(None);
            let fin_due = session.fin_due;
            out.segment.options.push_mptcp(MptcpOption::Capable(option));
            if fin_due {
                self.request_ack(at);
            }
            return;
        }
        let mut dss = Dss { data_ack: Some(session.ack_number(ack)), ..Dss::default() };
        if session.fin_due {
            session.fin_due = false;
            self.send.fin_sent = true;
            dss.data_fin = true;
            let checksum = session
                .checksum
                .then(|| dss_checksum(Checksum::default(), session.number(fin), 0, 1));
            let dsn = session.data_number(fin);
            dss.mapping = Some(Mapping { dsn, ssn: 0, length: 1, checksum });
        } else if out.kind == Kind::Ack
            && let Some(signal) = self.subflows[at].signals.pop_front()
        {
            out.segment.options.push_mptcp(signal);
            if !self.subflows[at].signals.is_empty() {
                self.subflows[at].tcb.request_ack();
                self.pending.insert(self.subflows[at].id);
            }
        }
        out.segment.options.dss = Some(dss);
    }

    fn add_syn_options(&mut self, at: usize, out: &mut Outgoing<'_>) {
        let backup = self.subflows[at].backup;
        let address_id = self.subflows[at].local_id;
        let Some(session) = &self.session else { return };
        match self.subflows[at].join {
            // Timeouts, not transmissions: a SYN repeated for another reason than its timer says
            // nothing about middleboxes that drop the option.
            Join::First if self.subflows[at].tcb.timeouts() < self.config.mptcp.capable_syns => {
                let option = MpCapable {
                    version: VERSION,
                    checksum_required: self.config.mptcp.checksum,
                    deny_join_initial: self.config.mptcp.deny_join_initial,
                    hmac_sha256: true,
                    ..MpCapable::default()
                };
                out.segment.options.push_mptcp(MptcpOption::Capable(option));
            }
            Join::Initiator { nonce, .. } => {
                let token = session.remote_token;
                let option = MpJoin::Syn { backup, address_id, token, nonce };
                out.segment.options.push_mptcp(MptcpOption::Join(option));
            }
            _ => {}
        }
    }

    fn add_syn_ack_options(&mut self, at: usize, out: &mut Outgoing<'_>) {
        let subflow = &self.subflows[at];
        let (backup, address_id) = (subflow.backup, subflow.local_id);
        let Some(session) = &self.session else { return };
        match subflow.join {
            Join::First if self.role == Role::Server => {
                let option = MpCapable {
                    version: VERSION,
                    checksum_required: session.checksum || self.config.mptcp.checksum,
                    deny_join_initial: self.config.mptcp.deny_join_initial,
                    hmac_sha256: true,
                    sender_key: Some(session.local_key.0),
                    ..MpCapable::default()
                };
                out.segment.options.push_mptcp(MptcpOption::Capable(option));
            }
            Join::Responder { nonce, peer_nonce, .. } => {
                if let Some(keys) = session.keys() {
                    let hmac = keys.join_syn_ack(nonce, peer_nonce);
                    let option = MpJoin::SynAck { backup, address_id, hmac, nonce };
                    out.segment.options.push_mptcp(MptcpOption::Join(option));
                }
            }
            _ => {}
        }
    }

    fn add_reset_options(&mut self, at: usize, out: &mut Outgoing<'_>) {
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
        let Some(session) = &mut self.session else { return };
        if out.kind == Kind::Ack {
            if let Some(signal) = self.subflows[at].signals.pop_front() {
                out.segment.options.push_mptcp(signal);
            }
            return;
        }
        let (true, Some(dsn)) = (session.infinite_due, out.dsn) else { return };
        session.infinite_due = false;
        let checksum = session.checksum.then_some(0);
        let number = session.data_number(dsn);
        let mapping = Mapping { dsn: number, ssn: out.ssn.0 as u32, length: 0, checksum };
        out.segment.options.dss =
            Some(Dss { data_ack: None, mapping: Some(mapping), data_fin: false });
        self.subflows[at].tcb.set_option_reserve(0);
        self.outdated.insert(self.subflows[at].id);
    }

    /// 8-byte numbers from now on; segments shrink by what they take.
    pub(super) fn use_long_numbers(&mut self) {
        let Some(session) = &mut self.session else { return };
        if session.long {
            return;
        }
        session.long = true;
        let reserve = self.option_reserve();
        for subflow in &mut self.subflows {
            subflow.tcb.set_option_reserve(reserve);
            self.outdated.insert(subflow.id);
        }
    }

    /// Option space of a data segment, without padding.
    pub(super) fn option_reserve(&self) -> u16 {
        let Some(session) = &self.session else { return 0 };
        if !self.is_mptcp() && !session.infinite_due {
            return 0;
        }
        let numbers = if session.long { 16 } else { 8 };
        let checksum = if session.checksum { 2 } else { 0 };
        4 + numbers + 6 + checksum
    }

    /// Asks a subflow for an ACK.
    pub(super) fn request_ack(&mut self, at: usize) {
        let id: SubflowId = self.subflows[at].id;
        self.subflows[at].tcb.request_ack();
        self.pending.insert(id);
    }
}

impl super::session::Session {
    /// MP_CAPABLE with both keys, for the third packet and the first data.
    fn capable(&self, data: Option<(u16, Option<u16>)>) -> MpCapable {
        MpCapable {
            version: VERSION,
            checksum_required: self.checksum,
            hmac_sha256: true,
            sender_key: Some(self.local_key.0),
            receiver_key: self.remote_key.map(|k| k.0),
            data,
            ..MpCapable::default()
        }
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

/// Protocol version (RFC 8684).
pub(super) const VERSION: u8 = 1;

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
