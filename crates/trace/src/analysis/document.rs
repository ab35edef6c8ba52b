//! A whole capture as one document: what `tabane pcap --json` prints.

use super::{Analysis, Analyzer, Settings};
use crate::pcap::{Buffered, End, OpenError, Segments, Skip, Skips};
use serde::Serialize;
use std::io::{self, Read};
use tabane_wire::Headers;
use thiserror::Error;

/// What a capture says, and how much of it could be read.
#[derive(Serialize, Debug)]
pub struct Document {
    pub file: About,
    /// Version of Wireshark whose labels these are.
    pub rules: &'static str,
    #[serde(flatten)]
    pub analysis: Analysis,
}

/// About the file itself.
#[derive(Serialize, Debug)]
pub struct About {
    pub name: String,
    pub format: &'static str,
    /// Read until the end, or until where it is cut off or damaged.
    pub bytes: u64,
    /// Frames of all kinds.
    pub frames: u64,
    /// Bytes of frames that the file keeps.
    pub captured_bytes: u64,
    /// Frames without a time of their own.
    pub untimed_frames: u64,
    /// Whether it ends after a whole packet; if not, `end` says where.
    pub whole: bool,
    pub end: String,
    pub skipped_frames: u64,
    /// By reason.
    pub skipped: Skips,
}

/// Why a capture could not be read at all. One that is cut off or damaged is read up to there.
#[derive(Error, Debug)]
pub enum ReadError {
    #[error("{0}: {1}")]
    NoCapture(String, OpenError),
    #[error("{0}: at offset {1}")]
    Io(String, u64, #[source] io::Error),
}

impl Document {
    /// Reads a capture to its end; `name` stands in messages and in the document.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn read(name: &str, reader: impl Read, settings: Settings) -> Result<Self, ReadError> {
        let opened = Segments::open(Buffered::new(reader));
        let mut segments = opened.map_err(|error| ReadError::NoCapture(name.to_owned(), error))?;
        let rules = settings.rules.name();
        let mut analyzer = Analyzer::new(settings);
        let mut headers = Headers::default();
        loop {
            let next = segments.next_segment(&mut headers);
            let at = segments.position();
            let next = next.map_err(|error| ReadError::Io(name.to_owned(), at, error))?;
            let Some(seen) = next else { break };
            analyzer.packet(seen.time, &headers);
        }
        let analysis = analyzer.analysis();
        let mut skipped = segments.skips().clone();
        skipped.add_many(Skip::TooManyStreams, analysis.beyond_limit);
        let end = segments.end().cloned().unwrap_or(End::Whole);
        let file = About {
            name: name.to_owned(),
            format: segments.format(),
            bytes: segments.position(),
            frames: segments.frames(),
            captured_bytes: segments.captured(),
            untimed_frames: segments.untimed(),
            whole: end == End::Whole,
            end: end.to_string(),
            skipped_frames: skipped.total(),
            skipped,
        };
        Ok(Self { file, rules, analysis })
    }
}
