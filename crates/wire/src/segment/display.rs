//! Segments as one line of text, much as tcpdump writes them; for test scripts and records.
//!
//! `10.0.0.1:1000 > 10.0.0.2:80 [P.] seq 1:11 ack 1 win 500 len 10 <ts 7 3,dss ack 5>`. Numbers
//! are as on the wire, not relative. The format is for people: it may grow.

use super::{Ecn, Flags, Segment};
use crate::mptcp::{AddAddr, DataNumber, Dss, MpCapable, MpJoin, MptcpOption};
use crate::option::TcpOptions;
use std::fmt::{Display, Formatter, Result};
use std::net::SocketAddr;

impl Display for Segment {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{} > {} [{}] seq {}", self.src, self.dst, self.flags, self.seq.0)?;
        if self.seq_len() > 0 {
            write!(f, ":{}", self.seq.plus(self.seq_len()).0)?;
        }
        if self.flags.contains(Flags::ACK) {
            write!(f, " ack {}", self.ack.0)?;
        }
        write!(f, " win {} len {}", self.window, self.payload.len())?;
        match self.ecn {
            Ecn::NotEct => {}
            Ecn::Ect0 => f.write_str(" ect0")?,
            Ecn::Ect1 => f.write_str(" ect1")?,
            Ecn::Ce => f.write_str(" ce")?,
        }
        if self.options == TcpOptions::default() {
            return Ok(());
        }
        write!(f, " <{}>", self.options)
    }
}

/// tcpdump's letters: `S` SYN, `F` FIN, `P` PSH, `R` RST, `W` CWR, `E` ECE, `U` URG, `.` ACK.
impl Display for Flags {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        const LETTERS: [(Flags, &str); 8] = [
            (Flags::SYN, "S"),
            (Flags::FIN, "F"),
            (Flags::PSH, "P"),
            (Flags::RST, "R"),
            (Flags::CWR, "W"),
            (Flags::ECE, "E"),
            (Flags::URG, "U"),
            (Flags::ACK, "."),
        ];
        if self.0 == 0 {
            return f.write_str("none");
        }
        for (flag, letter) in LETTERS {
            if self.contains(flag) {
                f.write_str(letter)?;
            }
        }
        Ok(())
    }
}

/// Options in the order of emission, with commas between them.
impl Display for TcpOptions {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let mut list = List { f, empty: true };
        if let Some(mss) = self.mss {
            list.item(format_args!("mss {mss}"))?;
        }
        if self.sack_permitted {
            list.item(format_args!("sackOK"))?;
        }
        if let Some(ts) = self.timestamps {
            list.item(format_args!("ts {} {}", ts.value, ts.echo))?;
        }
        if let Some(shift) = self.window_scale {
            list.item(format_args!("wscale {shift}"))?;
        }
        for (start, end) in self.sack.as_slice() {
            list.item(format_args!("sack {}:{}", start.0, end.0))?;
        }
        if let Some(dss) = &self.dss {
            list.item(format_args!("{dss}"))?;
        }
        for option in self.mptcp() {
            list.item(format_args!("{option}"))?;
        }
        Ok(())
    }
}

struct List<'a, 'b> {
    f: &'a mut Formatter<'b>,
    empty: bool,
}

impl List<'_, '_> {
    fn item(&mut self, item: std::fmt::Arguments<'_>) -> Result {
        if !self.empty {
            self.f.write_str(",")?;
        }
        self.empty = false;
        self.f.write_fmt(item)
    }
}

impl Display for DataNumber {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Self::Short(number) => write!(f, "{number}"),
            Self::Long(number) => write!(f, "{number}L"),
        }
    }
}

impl Display for Dss {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str("dss")?;
        if let Some(ack) = self.data_ack {
            write!(f, " ack {ack}")?;
        }
        if let Some(mapping) = &self.mapping {
            write!(f, " dsn {} ssn {} len {}", mapping.dsn, mapping.ssn, mapping.length)?;
            if let Some(checksum) = mapping.checksum {
                write!(f, " csum {checksum:#06x}")?;
            }
        }
        if self.data_fin { f.write_str(" fin") } else { Ok(()) }
    }
}

impl Display for MptcpOption {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Self::Capable(capable) => capable.fmt(f),
            Self::Join(join) => join.fmt(f),
            Self::AddAddr(add) => add.fmt(f),
            Self::RemoveAddr(ids) => write!(f, "remove-addr {ids:?}"),
            Self::Prio { backup: true } => f.write_str("prio backup"),
            Self::Prio { backup: false } => f.write_str("prio normal"),
            Self::Fail(dsn) => write!(f, "fail {dsn}"),
            Self::FastClose(key) => write!(f, "fastclose {key:#018x}"),
            Self::TcpRst(rst) => {
                write!(f, "tcprst {}", rst.reason)?;
                if rst.transient { f.write_str(" transient") } else { Ok(()) }
            }
            Self::Unknown { subtype } => write!(f, "mptcp-unknown {subtype}"),
        }
    }
}

impl Display for MpCapable {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "capable v{}", self.version)?;
        for (set, name) in [
            (self.checksum_required, " csum-required"),
            (self.extensibility, " ext"),
            (self.deny_join_initial, " deny-join"),
            (!self.hmac_sha256, " no-sha256"),
        ] {
            f.write_str(if set { name } else { "" })?;
        }
        if let Some(key) = self.sender_key {
            write!(f, " key {key:#018x}")?;
        }
        if let Some(key) = self.receiver_key {
            write!(f, " peer {key:#018x}")?;
        }
        if let Some((length, checksum)) = self.data {
            write!(f, " len {length}")?;
            if let Some(checksum) = checksum {
                write!(f, " csum {checksum:#06x}")?;
            }
        }
        Ok(())
    }
}

impl Display for MpJoin {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let role = |backup| if backup { " backup" } else { "" };
        match *self {
            Self::Syn { backup, address_id, token, nonce } => {
                write!(f, "join id {address_id} token {token:#010x} nonce {nonce:#010x}")?;
                f.write_str(role(backup))
            }
            Self::SynAck { backup, address_id, hmac, nonce } => {
                write!(f, "join id {address_id} hmac {hmac:#018x} nonce {nonce:#010x}")?;
                f.write_str(role(backup))
            }
            Self::Ack { hmac } => {
                f.write_str("join hmac 0x")?;
                hmac.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }
    }
}

impl Display for AddAddr {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "add-addr id {} ", self.address_id)?;
        match self.port {
            Some(port) => write!(f, "{}", SocketAddr::new(self.address, port))?,
            None => write!(f, "{}", self.address)?,
        }
        match self.hmac {
            Some(hmac) => write!(f, " hmac {hmac:#018x}"),
            None => f.write_str(" echo"),
        }
    }
}
