//! TCP options to bytes and back (RFC 9293 section 3.1).
//!
//! The layout is Linux's: MSS, SACK permitted and timestamps, window scale, SACK, MPTCP; each
//! aligned to 4 bytes by NOPs. Where that needs more than the 40 bytes there are, the NOPs
//! between options are left out; what does not fit even so is refused. MSS, window scale and
//! SACK permitted are parsed on any segment: that they count only on SYNs is the engine's
//! business.

use super::{SackBlocks, TcpOptions, Timestamps};
use crate::octets::{Writer, u16_at, u32_at};
use crate::{EmitError, ParseError, SeqNum};

impl TcpOptions {
    /// Option space of a TCP header, in bytes.
    pub const SPACE: usize = 40;

    /// No options.
    pub const NONE: Self = Self {
        mss: None,
        window_scale: None,
        sack_permitted: false,
        timestamps: None,
        sack: SackBlocks { len: 0, blocks: [(SeqNum(0), SeqNum(0)); 4] },
        dss: None,
        mptcp: None,
    };

    /// Bytes that the options take in the header, a multiple of 4. More than
    /// [`TcpOptions::SPACE`] means that emission will refuse them. MPTCP options without an
    /// encoding (emission refuses these too) count as nothing.
    #[inline]
    pub fn emitted_len(&self) -> usize {
        let aligned = self.len(Layout::Aligned);
        if aligned <= Self::SPACE {
            return aligned;
        }
        self.len(Layout::Packed).next_multiple_of(4)
    }

    #[inline]
    fn len(&self, layout: Layout) -> usize {
        let mut len = 0;
        if self.mss.is_some() {
            len += 4;
        }
        // Aligned, SACK permitted takes the place of the NOPs before the timestamps.
        len += match (self.sack_permitted, self.timestamps.is_some()) {
            (true, true) => 12,
            (false, true) => layout.round(10),
            (true, false) => layout.round(2),
            (false, false) => 0,
        };
        if self.window_scale.is_some() {
            len += layout.round(3);
        }
        if !self.sack.is_empty() {
            len += layout.round(2 + 8 * self.sack.len());
        }
        if let Some(dss) = &self.dss {
            len += layout.round(dss.encoded_len());
        }
        for option in self.mptcp() {
            len += layout.round(option.encoded_len().unwrap_or(0));
        }
        len
    }

    /// Writes the options into `buffer`, which must have exactly [`TcpOptions::emitted_len`]
    /// bytes, at most [`TcpOptions::SPACE`].
    pub(crate) fn emit(&self, buffer: &mut [u8]) -> Result<(), EmitError> {
        let len = buffer.len();
        let aligned = self.len(Layout::Aligned) == len;
        let layout = if aligned { Layout::Aligned } else { Layout::Packed };
        let mut out = Writer::new(buffer);
        if let Some(mss) = self.mss {
            out.put([kind::MSS, 4]);
            out.put_u16(mss);
        }
        if self.sack_permitted {
            if self.timestamps.is_none() {
                layout.pad_before(&mut out, 2);
            }
            out.put([kind::SACK_PERMITTED, 2]);
        }
        if let Some(Timestamps { value, echo }) = self.timestamps {
            if !self.sack_permitted {
                layout.pad_before(&mut out, 10);
            }
            out.put([kind::TIMESTAMPS, 10]);
            out.put_u32(value);
            out.put_u32(echo);
        }
        if let Some(shift) = self.window_scale {
            layout.pad_before(&mut out, 3);
            out.put([kind::WINDOW_SCALE, 3, shift]);
        }
        if !self.sack.is_empty() {
            layout.pad_before(&mut out, 2);
            out.put([kind::SACK, 2 + 8 * self.sack.len() as u8]);
            for (start, end) in self.sack.as_slice() {
                out.put_u32(start.0);
                out.put_u32(end.0);
            }
        }
        if let Some(dss) = &self.dss {
            dss.emit(&mut out)?;
            layout.pad_after(&mut out, dss.encoded_len());
        }
        for option in self.mptcp() {
            let len = option.encoded_len()?;
            option.emit(&mut out);
            layout.pad_after(&mut out, len);
        }
        pad(&mut out, len);
        Ok(())
    }

    /// Parses the option bytes of a header into what was [`TcpOptions::NONE`]. An option that
    /// occurs twice counts as it stands last; MPTCP options other than DSS may be repeated.
    #[inline]
    pub(crate) fn parse(&mut self, bytes: &[u8]) -> Result<(), ParseError> {
        let mut rest = bytes;
        loop {
            match *rest {
                [] | [kind::END, ..] => return Ok(()),
                [kind::NOP, ref after @ ..] => rest = after,
                [kind] => return Err(ParseError::OptionLength { kind, length: 0 }),
                [kind, length, ..] => {
                    let Some((option, after)) = rest.split_at_checked(usize::from(length)) else {
                        return Err(ParseError::OptionLength { kind, length });
                    };
                    self.parse_option(kind, length, option)?;
                    rest = after;
                }
            }
        }
    }

    #[inline]
    fn parse_option(&mut self, kind: u8, length: u8, option: &[u8]) -> Result<(), ParseError> {
        match (kind, length) {
            (_, 0 | 1) => return Err(ParseError::OptionLength { kind, length }),
            (kind::TIMESTAMPS, 10) => {
                let (value, echo) = (u32_at(option, 2), u32_at(option, 6));
                self.timestamps = Some(Timestamps { value, echo });
            }
            (kind::MPTCP, _) => self.parse_mptcp(option),
            (kind::SACK, 10 | 18 | 26 | 34) => {
                self.sack = SackBlocks::default();
                for block in option[2..].chunks_exact(8) {
                    self.sack.push(SeqNum(u32_at(block, 0)), SeqNum(u32_at(block, 4)));
                }
            }
            (kind::MSS, 4) => self.mss = Some(u16_at(option, 2)),
            (kind::WINDOW_SCALE, 3) => self.window_scale = Some(option[2]),
            (kind::SACK_PERMITTED, 2) => self.sack_permitted = true,
            (
                kind::TIMESTAMPS
                | kind::SACK
                | kind::MSS
                | kind::WINDOW_SCALE
                | kind::SACK_PERMITTED,
                _,
            ) => return Err(ParseError::OptionLength { kind, length }),
            _ => {}
        }
        Ok(())
    }
}

#[derive(Clone, Copy)]
enum Layout {
    Aligned,
    Packed,
}

impl Layout {
    #[inline]
    fn round(self, len: usize) -> usize {
        match self {
            Self::Aligned => len.next_multiple_of(4),
            Self::Packed => len,
        }
    }

    /// NOPs before an option of `len` bytes, so that it ends aligned.
    #[inline]
    fn pad_before(self, out: &mut Writer<'_>, len: usize) {
        let target = out.written() + self.round(len) - len;
        pad(out, target);
    }

    /// NOPs after an option of `len` bytes, where MPTCP has them in Linux.
    #[inline]
    fn pad_after(self, out: &mut Writer<'_>, len: usize) {
        self.pad_before(out, len);
    }
}

/// NOPs until `target` bytes are written.
#[inline]
fn pad(out: &mut Writer<'_>, target: usize) {
    while out.written() < target {
        out.put([kind::NOP]);
    }
}

pub(crate) mod kind {
    pub(crate) const END: u8 = 0;
    pub(crate) const NOP: u8 = 1;
    pub(crate) const MSS: u8 = 2;
    pub(crate) const WINDOW_SCALE: u8 = 3;
    pub(crate) const SACK_PERMITTED: u8 = 4;
    pub(crate) const SACK: u8 = 5;
    pub(crate) const TIMESTAMPS: u8 = 8;
    pub(crate) const MPTCP: u8 = 30;
}
