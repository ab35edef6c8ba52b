//! What waits to be sent by a [`UdpPort`](super::UdpPort): runs of datagrams of one size to one
//! far end, as segmentation offload takes them (`UDP_SEGMENT`, udp(7)).
//!
//! One lane collects one run. Several exist so that the interleaved output of a server to many
//! clients still makes runs; the order to each far end is kept.

use super::FourTuple;

/// The lanes of a port. At most [`GSO_BATCHES_MAX`], of [`RUN_BYTES`] each, made when first needed.
#[derive(Debug)]
pub(super) struct GsoBatches {
    gso_batches: Vec<GsoBatch>,
    /// The lane of the last datagram: mostly also that of the next.
    last: usize,
    /// Counts runs, to tell their age.
    runs: u64,
}

/// A run: whole datagrams of `segment` bytes; only the last may be shorter.
#[derive(Debug)]
pub(super) struct GsoBatch {
    pub(super) four_tuple: FourTuple,
    buffer: Box<[u8]>,
    /// Sent already, of a run that the kernel took a part of.
    start: usize,
    end: usize,
    segment: usize,
    /// The last datagram was shorter: nothing can follow.
    closed: bool,
    /// When it began, in runs.
    since: u64,
}

/// Far ends with unsent datagrams at a time. Another one sends the oldest run.
const GSO_BATCHES_MAX: usize = 16;
/// Bytes in a run: the largest UDP payload over IPv4, which is also the kernel's limit for all
/// segments together.
pub(super) const RUN_BYTES: usize = 65_507;
/// Datagrams in a run: `UDP_MAX_SEGMENTS` of every kernel that has segmentation offload.
pub(super) const RUN_DATAGRAMS: usize = 64;

impl GsoBatches {
    pub(super) fn new() -> Self {
        Self { gso_batches: Vec::new(), last: 0, runs: 0 }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.gso_batches.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.gso_batches.iter().all(GsoBatch::is_empty)
    }

    pub(super) fn get(&mut self, i: usize) -> &mut GsoBatch {
        &mut self.gso_batches[i]
    }

    /// The lane with a run to `four_tuple`.
    pub(super) fn find(&mut self, four_tuple: &FourTuple) -> Option<usize> {
        let is_it =
            |gso_batch: &GsoBatch| !gso_batch.is_empty() && gso_batch.four_tuple == *four_tuple;
        if !self.gso_batches.get(self.last).is_some_and(is_it) {
            self.last = self.gso_batches.iter().position(is_it)?;
        }
        Some(self.last)
    }

    /// A lane for a new run; `Err` with the oldest run if all are taken.
    pub(super) fn free(&mut self, four_tuple: &FourTuple) -> Result<usize, usize> {
        if let Some(i) = self.gso_batches.iter().position(GsoBatch::is_empty) {
            self.begin(i, four_tuple);
            return Ok(i);
        }
        if self.gso_batches.len() < GSO_BATCHES_MAX {
            self.gso_batches.push(GsoBatch::new(*four_tuple));
            self.begin(self.gso_batches.len() - 1, four_tuple);
            return Ok(self.last);
        }
        let oldest = (0..self.gso_batches.len()).min_by_key(|&i| self.gso_batches[i].since);
        Err(oldest.expect("invariant: all lanes are taken, so there are some"))
    }

    fn begin(&mut self, i: usize, four_tuple: &FourTuple) {
        self.runs += 1;
        let gso_batch = &mut self.gso_batches[i];
        (gso_batch.four_tuple, gso_batch.since) = (*four_tuple, self.runs);
        gso_batch.clear();
        self.last = i;
    }
}

impl GsoBatch {
    fn new(four_tuple: FourTuple) -> Self {
        let buffer = vec![0; RUN_BYTES].into_boxed_slice();
        Self { four_tuple, buffer, start: 0, end: 0, segment: 0, closed: false, since: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    pub(super) fn clear(&mut self) {
        (self.start, self.end, self.segment, self.closed) = (0, 0, 0, false);
    }

    /// What is to be sent.
    pub(super) fn run(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Size of its datagrams.
    pub(super) fn segment(&self) -> usize {
        self.segment
    }

    /// Datagrams to be sent.
    pub(super) fn count(&self) -> usize {
        if self.segment == 0 { 0 } else { (self.end - self.start).div_ceil(self.segment) }
    }

    /// The next datagram, for a run that is sent one by one.
    pub(super) fn first(&self) -> &[u8] {
        let len = self.segment.min(self.end - self.start);
        &self.buffer[self.start..self.start + len]
    }

    /// The next datagram is done with.
    pub(super) fn advance(&mut self) {
        self.start += self.segment.min(self.end - self.start);
        if self.is_empty() {
            self.clear();
        }
    }

    /// Whether a datagram of up to `space` bytes may follow in runs of `most` datagrams.
    pub(super) fn has_space(&self, space: usize, most: usize) -> bool {
        let full = self.closed || self.end + space > RUN_BYTES || self.count() >= most;
        self.is_empty() || !full
    }

    /// Where the next datagram is to be written.
    pub(super) fn tail(&mut self, space: usize) -> &mut [u8] {
        &mut self.buffer[self.end..self.end + space]
    }

    /// Whether a datagram of `len` bytes, written to the tail, continues the run.
    pub(super) fn continues(&self, len: usize) -> bool {
        self.is_empty() || len <= self.segment
    }

    /// Takes the datagram of `len` bytes at the tail into the run.
    pub(super) fn take(&mut self, len: usize) {
        debug_assert!(self.continues(len));
        if self.is_empty() {
            self.segment = len;
        }
        self.closed = len < self.segment;
        self.end += len;
    }

    /// Makes the datagram of `len` bytes at `from`, behind a run that is gone, the first of a new
    /// one.
    pub(super) fn restart(&mut self, from: usize, len: usize) {
        self.clear();
        self.buffer.copy_within(from..from + len, 0);
        self.take(len);
    }

    /// Where its run ends in the buffer.
    pub(super) fn end(&self) -> usize {
        self.end
    }
}
