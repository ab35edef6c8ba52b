//! What an agent holds of its recording: the sampler, the block that is being filled, and the
//! thread that writes.

use super::codec::Encoder;
use super::ring::{Role, Writer};
use super::sampler::Sampler;
use super::{ConnectionReading, PathReading, RecordSettings, Row};
use std::io;
use std::sync::Arc;
use tabane_engine::{Duration, Instant};

/// Records for an agent; a thread writes the files.
#[derive(Debug)]
pub struct Recorder {
    sampler: Sampler,
    encoder: Encoder,
    /// When the block began, by both clocks.
    began: (Instant, u64),
    writer: Writer,
    names: bool,
    /// What has been said of the disk.
    slow: bool,
}

/// A block is written when it has so many bytes,
const BLOCK: usize = 4096;
/// or when its first row is so old: what a crash loses.
const BLOCK_AGE: Duration = Duration::from_secs(10);

impl Recorder {
    /// Begins to record.
    ///
    /// # Errors
    /// The folder cannot be made, or the system gives no thread.
    pub fn start(settings: &RecordSettings, role: Role) -> io::Result<Self> {
        Ok(Self {
            sampler: Sampler::default(),
            encoder: Encoder::default(),
            began: (Instant::ZERO, 0),
            writer: Writer::start(settings.clone(), role)?,
            names: settings.names,
            slow: false,
        })
    }

    /// Whether names of clients and destinations may be in it.
    #[must_use]
    pub fn has_names(&self) -> bool {
        self.names
    }

    /// Whether readings are to be taken now.
    #[must_use]
    pub fn is_due(&self, now: Instant) -> bool {
        self.sampler.is_due(now)
    }

    /// When they are to be taken next, while something moves.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.sampler.poll_timeout()
    }

    /// Takes readings of all paths and of some connections. What went wrong since the last time,
    /// for people.
    pub fn take(
        &mut self,
        at: (Instant, u64),
        paths: impl IntoIterator<Item = (Arc<str>, PathReading)>,
        connections: impl IntoIterator<Item = ConnectionReading>,
    ) -> Option<String> {
        let rows = self.sampler.take(at, paths, connections);
        self.add(at, &rows);
        let full = self.encoder.len() >= BLOCK;
        let old = at.0.saturating_since(self.began.0) >= BLOCK_AGE;
        if !self.encoder.is_empty() && (full || old) {
            self.flush();
        }
        let slow = self.writer.lost() > 0 && !std::mem::replace(&mut self.slow, true);
        let slow = slow.then(|| "the disk is too slow: parts of the recording are missing".into());
        self.writer.poll_failure().or(slow)
    }

    /// A connection has ended; its last reading.
    pub fn ended(&mut self, at: (Instant, u64), last: &ConnectionReading) {
        let rows = self.sampler.ended(at, last);
        self.add(at, &rows);
    }

    /// The agent ends: everything is written that is known.
    pub fn end(mut self, at: (Instant, u64)) {
        let rows = self.sampler.end(at.1);
        self.add(at, &rows);
        self.flush();
    }

    fn add(&mut self, at: (Instant, u64), rows: &[Row]) {
        for row in rows {
            if self.encoder.is_empty() {
                self.began = at;
            }
            let bytes = self.encoder.add(row);
            self.sampler.wrote(bytes as u64);
        }
    }

    fn flush(&mut self) {
        if !self.encoder.is_empty() {
            self.writer.write(self.began.1, self.encoder.finish());
        }
    }
}
