//! The bytes of a recording: a file has a head and then blocks, each with a length and a CRC, so
//! that what was being written when the power failed is told from what is whole.
//!
//! ```text
//! file  := "tabane-record\n" version:u8 agent:u8 block*
//! block := length:u32le crc:u32le payload            (CRC-32 of IEEE 802.3, of the payload)
//! payload := start_ms:varint record*                 (each block can be read without the others)
//! record := name | path | connection | skipped       (first byte says which)
//! ```
//! Numbers are LEB128; what changes little from row to row of a path is written as the difference
//! (zigzag). Times are in 50 us, sizes in 64 bytes, capacities in steps of 1 %.

use super::{ConnectionRow, DirectionRow, Kind, PathRow, Row, Using};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a file begins with; the version and who wrote it follow.
pub(crate) const MAGIC: &[u8] = b"tabane-record\n";
/// Of this format. In version 1 connections have no owner.
pub(crate) const VERSION: u8 = 2;
/// Bytes of the head.
pub(crate) const HEAD: usize = MAGIC.len() + 2;
/// Longest payload of a block that is read: a damaged length is not believed.
pub(crate) const BLOCK_MAX: usize = 4 << 20;

/// Time steps, microseconds.
const STEP_US: u64 = 50;
/// Size steps, bytes.
const STEP_BYTES: u64 = 64;
/// A capacity is this to the power of its number, bits per second.
const RATIO: f64 = 1.01;
/// Names known in a block; a file that has more is damaged.
const NAMES_MAX: usize = 1 << 16;

const NAME: u8 = 0;
const PATH: u8 = 1;
const CONNECTION: u8 = 2;
const SKIPPED: u8 = 3;

/// Makes the payload of one block.
#[derive(Debug, Default)]
pub(crate) struct Encoder {
    bytes: Vec<u8>,
    start_ms: u64,
    last_ms: u64,
    names: BTreeMap<String, u64>,
    paths: BTreeMap<u64, Last>,
}

/// What a row is written as the difference to.
#[derive(Clone, Copy, Debug, Default)]
struct Last {
    rtt: u64,
    directions: [[u64; 3]; 2],
}

impl Encoder {
    /// Whether there is nothing in it.
    #[must_use]
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Bytes so far.
    #[must_use]
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Adds a row; rows come in order of time. How many bytes it takes.
    pub(crate) fn add(&mut self, row: &Row) -> usize {
        let before = self.bytes.len();
        match row {
            Row::Path(row) => self.path(row),
            Row::Connection(row) => self.connection(row),
            Row::Skipped(rows) => {
                self.bytes.push(SKIPPED);
                put(&mut self.bytes, *rows);
            }
        }
        self.bytes.len() - before
    }

    /// The block, with length and CRC; the next one begins.
    pub(crate) fn finish(&mut self) -> Vec<u8> {
        let whole = std::mem::take(self);
        let mut payload = Vec::with_capacity(whole.bytes.len() + 10);
        put(&mut payload, whole.start_ms);
        payload.extend_from_slice(&whole.bytes);
        let mut block = Vec::with_capacity(payload.len() + 8);
        block.extend_from_slice(&(payload.len() as u32).to_le_bytes());
        block.extend_from_slice(&crc32(&payload).to_le_bytes());
        block.extend_from_slice(&payload);
        block
    }

    fn since(&mut self, unix_ms: u64) -> u64 {
        if self.start_ms == 0 {
            (self.start_ms, self.last_ms) = (unix_ms, unix_ms);
        }
        // A wall clock that is set back: rows keep their order.
        let since = unix_ms.saturating_sub(self.last_ms);
        self.last_ms += since;
        since
    }

    fn name(&mut self, name: &str) -> u64 {
        if let Some(number) = self.names.get(name) {
            return *number;
        }
        let number = self.names.len() as u64;
        self.names.insert(name.to_owned(), number);
        self.bytes.push(NAME);
        put(&mut self.bytes, name.len() as u64);
        self.bytes.extend_from_slice(name.as_bytes());
        number
    }

    fn path(&mut self, row: &PathRow) {
        let (since, name) = (self.since(row.unix_ms), self.name(&row.path));
        let last = self.paths.entry(name).or_default();
        let out = &mut self.bytes;
        out.push(PATH);
        put(out, since);
        put(out, name);
        put_signed(out, i64::from(row.lasts_ms) - 100);
        let using = row.using as u8;
        let flags = u8::from(row.up) | u8::from(row.rtt_us.is_some()) << 1;
        out.push(flags | u8::from(row.waits) << 2 | using << 3);
        if let Some(rtt) = row.rtt_us {
            difference(out, u64::from(rtt) / STEP_US, &mut last.rtt);
        }
        for (direction, last) in row.directions.iter().zip(&mut last.directions) {
            put_direction(out, direction, last);
        }
    }

    fn connection(&mut self, row: &ConnectionRow) {
        let since = self.since(row.unix_ms);
        let (policies, target) = (self.name(&row.policies), self.name(&row.target));
        let owner = (!row.owner.is_empty()).then(|| self.name(&row.owner));
        let kind = Kind::ALL.iter().position(|kind| *kind == row.kind).unwrap_or(0) as u8;
        let out = &mut self.bytes;
        out.push(CONNECTION);
        put(out, since);
        let flags = u8::from(row.ended) | kind << 1 | u8::from(row.rtt_us.is_some()) << 3;
        out.push(flags | u8::from(owner.is_some()) << 4);
        for number in [row.id, row.age_ms, row.bytes[0], row.bytes[1]] {
            put(out, number);
        }
        put(out, u64::from(row.exchanges));
        put(out, row.active_ms);
        put(out, u64::from(row.stall_ms));
        for rtt in row.rtt_us.into_iter().flatten() {
            put(out, u64::from(rtt) / STEP_US);
        }
        for name in [Some(policies), Some(target), owner].into_iter().flatten() {
            put(out, name);
        }
    }
}

fn put_direction(out: &mut Vec<u8>, row: &DirectionRow, last: &mut [u64; 3]) {
    let capacity = row.capacity_bps.filter(|bps| *bps > 0);
    let confidence = (row.confidence.clamp(0.0, 1.0) * 7.0).round() as u8;
    let flags = u8::from(row.bytes > 0)
        | u8::from(row.lost > 0) << 1
        | u8::from(row.queue_us.is_some()) << 2
        | u8::from(capacity.is_some()) << 3
        | u8::from(row.exercised) << 4;
    out.push(flags | confidence << 5);
    if row.bytes > 0 {
        difference(out, row.bytes.div_ceil(STEP_BYTES), &mut last[0]);
    }
    if row.lost > 0 {
        put(out, u64::from(row.packets));
        put(out, u64::from(row.lost));
    }
    if let Some(queue) = row.queue_us {
        difference(out, u64::from(queue) / STEP_US, &mut last[1]);
    }
    if let Some(bps) = capacity {
        difference(out, ((bps as f64).ln() / RATIO.ln()).round() as u64, &mut last[2]);
    }
}

/// Why a block is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Damage {
    /// The file ends within it: the agent, or its machine, ended while it was written.
    Torn,
    /// Its CRC is another, or its bytes make no sense.
    Wrong,
}

/// Splits what follows the head of a file into payloads; `Err` is what cannot be read. What
/// follows a length that cannot be is not read: nothing says where the next block begins.
pub(crate) fn blocks(bytes: &[u8]) -> impl Iterator<Item = Result<&[u8], Damage>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let head = rest.split_first_chunk::<8>();
        let Some((&[a, b, c, d, e, f, g, h], after)) = head else {
            rest = &[];
            return Some(Err(Damage::Torn));
        };
        let length = u32::from_le_bytes([a, b, c, d]) as usize;
        if length > BLOCK_MAX {
            rest = &[];
            return Some(Err(Damage::Wrong));
        }
        let Some((payload, after)) = after.split_at_checked(length) else {
            rest = &[];
            return Some(Err(Damage::Torn));
        };
        rest = after;
        let sound = crc32(payload) == u32::from_le_bytes([e, f, g, h]);
        Some(if sound { Ok(payload) } else { Err(Damage::Wrong) })
    })
}

/// The rows of a block's payload.
///
/// # Errors
/// [`Damage::Wrong`]: it is of another program.
pub(crate) fn decode(payload: &[u8]) -> Result<Vec<Row>, Damage> {
    let mut decoder = Decoder { rest: payload, ..Decoder::default() };
    decoder.now_ms = decoder.number().ok_or(Damage::Wrong)?;
    let mut rows = Vec::new();
    while let Some((&kind, rest)) = decoder.rest.split_first() {
        decoder.rest = rest;
        let row = match kind {
            NAME => {
                decoder.take_name().ok_or(Damage::Wrong)?;
                continue;
            }
            PATH => decoder.path(),
            CONNECTION => decoder.connection(),
            SKIPPED => decoder.number().map(Row::Skipped),
            _ => None,
        };
        rows.push(row.ok_or(Damage::Wrong)?);
    }
    Ok(rows)
}

#[derive(Default)]
struct Decoder<'a> {
    rest: &'a [u8],
    now_ms: u64,
    names: Vec<Arc<str>>,
    paths: BTreeMap<u64, Last>,
}

impl Decoder<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (&byte, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(byte)
    }

    fn number(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f).checked_shl(shift)?;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn small(&mut self) -> Option<u32> {
        self.number()?.try_into().ok()
    }

    fn signed(&mut self) -> Option<i64> {
        let value = self.number()?;
        Some((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    fn difference(&mut self, last: &mut u64) -> Option<u64> {
        *last = last.checked_add_signed(self.signed()?)?;
        Some(*last)
    }

    fn take_name(&mut self) -> Option<()> {
        let length = usize::try_from(self.number()?).ok()?;
        let (name, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        self.names.push(std::str::from_utf8(name).ok()?.into());
        (self.names.len() <= NAMES_MAX).then_some(())
    }

    fn name(&mut self) -> Option<(u64, Arc<str>)> {
        let number = self.number()?;
        Some((number, self.names.get(usize::try_from(number).ok()?)?.clone()))
    }

    fn since(&mut self) -> Option<u64> {
        self.now_ms = self.now_ms.checked_add(self.number()?)?;
        Some(self.now_ms)
    }

    fn path(&mut self) -> Option<Row> {
        let unix_ms = self.since()?;
        let (number, path) = self.name()?;
        let lasts_ms = u32::try_from(self.signed()?.checked_add(100)?).ok()?;
        let flags = self.byte()?;
        let mut last = self.paths.get(&number).copied().unwrap_or_default();
        let time = |steps: u64| u32::try_from(steps.checked_mul(STEP_US)?).ok();
        let rtt_us = match flags & 2 {
            0 => None,
            _ => Some(time(self.difference(&mut last.rtt)?)?),
        };
        let mut directions = [DirectionRow::default(); 2];
        for (row, last) in directions.iter_mut().zip(&mut last.directions) {
            *row = self.direction(last)?;
        }
        self.paths.insert(number, last);
        let (up, waits) = (flags & 1 != 0, flags & 4 != 0);
        let using = *[Using::Active, Using::Backup, Using::Unused].get(usize::from(flags >> 3))?;
        Some(Row::Path(PathRow { unix_ms, lasts_ms, path, up, waits, using, rtt_us, directions }))
    }

    fn direction(&mut self, last: &mut [u64; 3]) -> Option<DirectionRow> {
        let flags = self.byte()?;
        let mut row = DirectionRow {
            exercised: flags & 16 != 0,
            confidence: f32::from(flags >> 5) / 7.0,
            ..DirectionRow::default()
        };
        if flags & 1 != 0 {
            row.bytes = self.difference(&mut last[0])?.checked_mul(STEP_BYTES)?;
        }
        if flags & 2 != 0 {
            (row.packets, row.lost) = (self.small()?, self.small()?);
        }
        if flags & 4 != 0 {
            let steps = self.difference(&mut last[1])?;
            row.queue_us = Some(u32::try_from(steps.checked_mul(STEP_US)?).ok()?);
        }
        if flags & 8 != 0 {
            row.capacity_bps = Some(RATIO.powf(self.difference(&mut last[2])? as f64) as u64);
        }
        Some(row)
    }

    fn connection(&mut self) -> Option<Row> {
        let unix_ms = self.since()?;
        let flags = self.byte()?;
        let kind = *Kind::ALL.get(usize::from(flags >> 1 & 3))?;
        let (id, age_ms) = (self.number()?, self.number()?);
        let bytes = [self.number()?, self.number()?];
        let (exchanges, active_ms, stall_ms) = (self.small()?, self.number()?, self.small()?);
        let mut time = || u32::try_from(self.number()?.checked_mul(STEP_US)?).ok();
        let rtt_us = if flags & 8 != 0 { Some([time()?, time()?]) } else { None };
        let (policies, target) = (self.name()?.1, self.name()?.1);
        let owner = if flags & 16 != 0 { self.name()?.1 } else { "".into() };
        let ended = flags & 1 != 0;
        Some(Row::Connection(ConnectionRow {
            unix_ms,
            id,
            age_ms,
            ended,
            kind,
            bytes,
            exchanges,
            active_ms,
            stall_ms,
            rtt_us,
            policies,
            target,
            owner,
        }))
    }
}

fn put(out: &mut Vec<u8>, mut value: u64) {
    while value > 0x7f {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn put_signed(out: &mut Vec<u8>, value: i64) {
    put(out, (value << 1 ^ value >> 63) as u64);
}

fn difference(out: &mut Vec<u8>, value: u64, last: &mut u64) {
    put_signed(out, value.wrapping_sub(*last) as i64);
    *last = value;
}

/// CRC-32 as of IEEE 802.3 (reflected, 0xedb88320), a bit at a time: blocks are few and short.
#[must_use]
pub(crate) fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = crc >> 1 ^ (0xedb8_8320 & (crc & 1).wrapping_neg());
        }
    }
    !crc
}

#[cfg(test)]
mod tests;
