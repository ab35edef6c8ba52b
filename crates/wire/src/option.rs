//! TCP options as one value (RFC 9293 section 3.2, RFC 7323, RFC 2018); MPTCP's are in
//! [`crate::mptcp`].

use crate::SeqNum;
use crate::mptcp::{Dss, MptcpOption};

pub(crate) mod codec;

/// All options of one segment. Option space is 40 bytes; emission refuses more.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct TcpOptions {
    /// Maximum segment size in bytes (only on SYNs).
    pub mss: Option<u16>,
    /// Window scale shift (only on SYNs; RFC 7323 section 2.2).
    pub window_scale: Option<u8>,
    /// SACK permitted (only on SYNs; RFC 2018 section 2).
    pub sack_permitted: bool,
    /// Timestamps (RFC 7323 section 3.2).
    pub timestamps: Option<Timestamps>,
    /// SACK blocks, newest first; a first block that is a DSACK included (RFC 2883).
    pub sack: SackBlocks,
    /// MPTCP data sequence signal: here and not among `mptcp`, as nearly every segment has one.
    pub dss: Option<Dss>,
    /// The other MPTCP options, in order. Boxed: rare, and segments are moved a lot.
    pub mptcp: Option<Box<Vec<MptcpOption>>>,
}

impl TcpOptions {
    /// Takes all out. Field by field: a whole set would be made elsewhere and copied.
    #[inline]
    pub fn clear(&mut self) {
        self.mss = None;
        self.window_scale = None;
        self.sack_permitted = false;
        self.timestamps = None;
        self.sack.truncate(0);
        self.dss = None;
        self.mptcp = None;
    }

    /// Adds a non-DSS MPTCP option.
    pub fn push_mptcp(&mut self, option: MptcpOption) {
        self.mptcp.get_or_insert_default().push(option);
    }

    /// The MPTCP options other than DSS.
    pub fn mptcp(&self) -> &[MptcpOption] {
        self.mptcp.as_deref().map_or(&[], Vec::as_slice)
    }

    /// Whether any MPTCP option is present.
    pub fn has_mptcp(&self) -> bool {
        self.dss.is_some() || self.mptcp.is_some()
    }
}

/// TSval and TSecr, in the sender's ticks.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Timestamps {
    /// TSval.
    pub value: u32,
    /// TSecr; meaningful only on segments with ACK set.
    pub echo: u32,
}

/// Up to four SACK blocks `[start, end)`, inline.
#[derive(Clone, Copy, Default, Debug)]
pub struct SackBlocks {
    len: u8,
    blocks: [(SeqNum, SeqNum); 4],
}

impl SackBlocks {
    /// How many blocks fit when nothing else uses option space.
    pub const MAX: usize = 4;

    /// Appends a block; returns false (and drops it) when four are there already.
    pub fn push(&mut self, start: SeqNum, end: SeqNum) -> bool {
        let at = usize::from(self.len);
        if at == Self::MAX {
            return false;
        }
        self.blocks[at] = (start, end);
        self.len += 1;
        true
    }

    /// Keeps the first `n` blocks.
    pub fn truncate(&mut self, n: usize) {
        self.len = self.len().min(n) as u8;
    }

    /// The blocks in wire order.
    pub fn as_slice(&self) -> &[(SeqNum, SeqNum)] {
        &self.blocks[..usize::from(self.len)]
    }

    /// Whether there is no block.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Number of blocks.
    pub fn len(&self) -> usize {
        usize::from(self.len)
    }
}

impl PartialEq for SackBlocks {
    /// Blocks cut off by [`SackBlocks::truncate`] do not count.
    fn eq(&self, other: &Self) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl Eq for SackBlocks {}
