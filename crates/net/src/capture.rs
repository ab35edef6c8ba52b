//! Writes what the driver sends and receives into a pcapng file, one interface block a path.

use crate::clock::Clock;
use crate::driver::{Direction, Path, Tap};
use std::fs::File;
use std::io::{self, BufWriter};
use std::time::UNIX_EPOCH;
use tabane_engine::view::PathId;
use tabane_engine::{Duration, Instant};
use tabane_wire::pcapng::{InterfaceId, PcapngWriter};

/// A capture. The first failure to write ends it; the rest of the program goes on.
pub struct Capture {
    writer: Option<PcapngWriter<BufWriter<File>>>,
    interfaces: Vec<(PathId, InterfaceId)>,
    flushed: Instant,
    on_error: Box<dyn FnMut(io::Error) + Send>,
}

/// How old a packet may be that is not in the file yet: a killed program leaves a good capture.
const FLUSH: Duration = Duration::from_secs(1);

impl Capture {
    /// A new file with these paths; times are those of `clock`. `on_error` is told if the
    /// capture ends early.
    ///
    /// # Errors
    /// The system's.
    pub fn create(
        file: &std::path::Path,
        clock: Clock,
        paths: &[Path],
        on_error: Box<dyn FnMut(io::Error) + Send>,
    ) -> io::Result<Self> {
        let base = clock.wall_origin().duration_since(UNIX_EPOCH).unwrap_or_default();
        // 584 years after 1970. A clock that says 1970 is moved, as 0 is not allowed.
        let base = u64::try_from(base.as_nanos()).unwrap_or(u64::MAX).max(1);
        let out = BufWriter::with_capacity(1 << 18, File::create(file)?);
        let mut writer = PcapngWriter::with_base(out, "tabane", base)?;
        let mut interfaces = Vec::new();
        for path in paths {
            interfaces.push((path.id(), writer.interface(path.label(), u32::from(u16::MAX))?));
        }
        Ok(Self { writer: Some(writer), interfaces, flushed: Instant::ZERO, on_error })
    }
}

impl Tap for Capture {
    fn packet(&mut self, at: Instant, path: PathId, _: Direction, packet: &[u8]) {
        let Some(writer) = &mut self.writer else { return };
        let Some((_, interface)) = self.interfaces.iter().find(|(id, _)| *id == path) else {
            return;
        };
        let mut done = writer.packet(*interface, at.0, packet, "");
        if at.saturating_since(self.flushed) > FLUSH {
            self.flushed = at;
            done = done.and_then(|()| writer.flush());
        }
        if let Err(error) = done {
            self.writer = None;
            (self.on_error)(error);
        }
    }
}
