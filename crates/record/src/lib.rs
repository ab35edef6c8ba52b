//! What an agent keeps of its paths and connections, for `tabane record` and `tabane whatif`: a
//! ring of files in which the oldest are deleted.
//!
//! ```text
//! readings -> Sampler -> rows -> Encoder -> blocks -> Writer (a thread) -> NAME.rec files
//!                                                        files -> Recording -> Export
//! ```
//! Readings are what an agent knows every [`TICK`] ([`PathReading`], [`ConnectionReading`]); rows
//! are what has changed since ([`PathRow`], [`ConnectionRow`]). All but the files (`ring`) is
//! without clocks and I/O, and is fed from the simulator in tests as it is from agents.
//!
//! Limits: 463 bytes a second on average, 10 MB at once, so that a day has at most 50 MB
//! (`sampler`); 4096 connections at a time (`connections`); as many days as the configuration
//! says. What is not kept is counted.

#![warn(unreachable_pub)]

mod codec;
mod connections;
mod export;
mod recorder;
mod ring;
mod sampler;
mod settings;
mod trace;

pub use connections::ConnectionReading;
pub use export::{Export, ExportError, Measured, MeasuredFlow, MeasuredPath, Window};
pub use recorder::Recorder;
pub use ring::{Contents, ReadError, RecordFile, Recording, Role};
pub use sampler::{DirectionReading, PathReading};
pub use settings::{RecordSettings, keep, usual_folder};
pub use trace::{Unseen, unseen_in};

use std::sync::Arc;
use tabane_engine::Duration;

/// From one row of a busy path to the next.
pub const TICK: Duration = Duration::from_millis(100);
/// Directions of a path, as the client sees them.
pub const UP: usize = 0;
/// From the server to the client.
pub const DOWN: usize = 1;

/// What a path did since its last row.
#[derive(Clone, PartialEq, Debug)]
pub struct PathRow {
    /// When the time that it is about ended, milliseconds since 1970.
    pub unix_ms: u64,
    /// How long that was, milliseconds.
    pub lasts_ms: u32,
    /// The path's name.
    pub path: Arc<str>,
    /// Whether it worked.
    pub up: bool,
    /// Data waited, for an answer or for room on it.
    pub waits: bool,
    /// What it was used for.
    pub using: Using,
    /// Latest round-trip time, microseconds.
    pub rtt_us: Option<u32>,
    /// [`UP`] and [`DOWN`].
    pub directions: [DirectionRow; 2],
}

/// What a path was used for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Using {
    /// Everything.
    #[default]
    Active,
    /// When nothing better worked.
    Backup,
    /// Nothing.
    Unused,
}

/// What a direction of a path did since the last row.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct DirectionRow {
    /// Bytes of inner packets that arrived: the rate at which they did, times how long that was.
    pub bytes: u64,
    /// Packets that arrived; known only beside losses.
    pub packets: u32,
    /// Packets that did not arrive.
    pub lost: u32,
    /// One-way delay above its base, microseconds.
    pub queue_us: Option<u32>,
    /// It was the bottleneck all the time: what arrived is what it can carry. Otherwise what it
    /// can carry is not known, but at least that.
    pub exercised: bool,
    /// What it has shown to carry before, bits per second.
    pub capacity_bps: Option<u64>,
    /// How much that may be trusted, 0 to 1.
    pub confidence: f32,
}

/// What a connection was, and how it went, until now.
#[derive(Clone, PartialEq, Debug)]
pub struct ConnectionRow {
    /// When this was written, milliseconds since 1970.
    pub unix_ms: u64,
    /// Tells connections of one run of an agent apart.
    pub id: u64,
    /// How long it had been there, milliseconds.
    pub age_ms: u64,
    /// It has ended.
    pub ended: bool,
    /// What it looked like.
    pub kind: Kind,
    /// Payload bytes, [`UP`] and [`DOWN`].
    pub bytes: [u64; 2],
    /// Times that an answer followed a request, as far as they were told apart.
    pub exchanges: u32,
    /// How long bytes moved, milliseconds.
    pub active_ms: u64,
    /// The longest time without a byte while some waited, milliseconds.
    pub stall_ms: u32,
    /// Round-trip times of the paths that it used while it did, microseconds: half and 95 % of
    /// them were at most that long.
    pub rtt_us: Option<[u32; 2]>,
    /// Scheduler, congestion control and egress of both directions, see [`policies`].
    pub policies: Arc<str>,
    /// Where it went; only if the configuration asks for names.
    pub target: Arc<str>,
    /// Of a server's recording: whose it was, as its paths have it; empty if it is not known.
    pub owner: Arc<str>,
}

/// What a connection looks like.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Kind {
    /// As much as the paths carry.
    #[default]
    Bulk,
    /// A steady rate below that.
    Paced,
    /// Questions and answers.
    Requests,
}

/// What is in a block.
#[derive(Clone, PartialEq, Debug)]
pub enum Row {
    /// Of a path.
    Path(PathRow),
    /// Of a connection.
    Connection(ConnectionRow),
    /// So many rows of paths and connections were not kept, for want of room.
    Skipped(u64),
}

impl Row {
    /// When it was written, milliseconds since 1970, if it says so.
    #[must_use]
    pub fn unix_ms(&self) -> Option<u64> {
        match self {
            Self::Path(row) => Some(row.unix_ms),
            Self::Connection(row) => Some(row.unix_ms),
            Self::Skipped(_) => None,
        }
    }
}

impl Kind {
    /// All of them, in the order of their numbers in files.
    pub const ALL: [Self; 3] = [Self::Bulk, Self::Paced, Self::Requests];

    /// For people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Bulk => "bulk",
            Self::Paced => "paced",
            Self::Requests => "requests",
        }
    }
}

/// The policies of a connection as rows have them: of what goes up, then of what comes down.
#[must_use]
pub fn policies(up: [&str; 3], down: [&str; 3]) -> String {
    format!("{} | {}", up.join(" "), down.join(" "))
}

/// The opposite of [`policies`]; `None` if it is none.
#[must_use]
pub fn policies_of(text: &str) -> Option<[[&str; 3]; 2]> {
    let (up, down) = text.split_once(" | ")?;
    Some([three(up)?, three(down)?])
}

fn three(text: &str) -> Option<[&str; 3]> {
    let mut parts = text.split(' ');
    let three = [parts.next()?, parts.next()?, parts.next()?];
    parts.next().is_none().then_some(three)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_read_as_they_were_written() {
        let (up, down) = (["necf", "cubicd", "own"], ["ecf:beta=0.3", "bbr", "own"]);
        assert_eq!(policies_of(&policies(up, down)), Some([up, down]));
        assert_eq!(policies_of("necf cubicd own"), None);
        assert_eq!(policies_of("necf cubicd | bbr"), None);
    }
}
