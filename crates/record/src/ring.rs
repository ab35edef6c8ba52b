//! The files of a recording: one an hour, the oldest deleted. Written by a thread of its own, so
//! that an agent never waits for a disk; read by `tabane record`.
//!
//! A file is called by when it begins (milliseconds since 1970) and only its owner can read it.
//! One is never continued: after a restart there is a new one, and what an abrupt end left torn
//! stays the end of its file. When something cannot be written, the thread says so and ends; the
//! agent goes on.

use super::codec::{self, Damage, HEAD, MAGIC, VERSION};
use super::{RecordSettings, Row};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use tabane_config::bounded;
use tabane_engine::Duration;
use thiserror::Error;

/// A file is continued for so long, milliseconds.
pub(crate) const SEGMENT_MS: u64 = 3_600_000;
/// Most bytes of all files for each day that they are kept.
pub(crate) const DAY_MAX: u64 = 50_000_000;
/// Blocks that wait to be written; when there are more, the disk is too slow, and they are lost.
const WAITING: usize = 64;
/// Files read at most.
const FILES_MAX: usize = 20_000;
const SUFFIX: &str = ".rec";

/// Which agent wrote a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// A client.
    Client,
    /// A server.
    Server,
}

/// Hands blocks to the thread that writes them.
#[derive(Debug)]
pub(crate) struct Writer {
    blocks: Option<SyncSender<Block>>,
    failed: Arc<Mutex<Option<String>>>,
    thread: Option<JoinHandle<()>>,
    lost: u64,
}

#[derive(Debug)]
struct Block {
    start_ms: u64,
    bytes: Vec<u8>,
}

struct Files {
    settings: RecordSettings,
    role: Role,
    open: Option<(u64, File)>,
}

/// Why there is nothing to read.
#[derive(Error, Debug)]
pub enum ReadError {
    /// No such folder, or no right to read it.
    #[error("{0}: {1}")]
    Folder(PathBuf, io::Error),
    /// A file of it.
    #[error("{0}: {1}")]
    File(PathBuf, io::Error),
    /// A file of another program, or of another version of this.
    #[error("{0}: no recording of this version ({1})")]
    Version(PathBuf, u8),
}

/// The files of a folder, by time.
#[derive(Debug)]
pub struct Recording {
    /// In order of time.
    pub files: Vec<RecordFile>,
}

/// One of them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecordFile {
    /// Where it is.
    pub path: PathBuf,
    /// When it begins, milliseconds since 1970.
    pub start_ms: u64,
    /// Its bytes.
    pub size: u64,
}

/// What a part of a recording holds.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Contents {
    /// In order of time.
    pub rows: Vec<Row>,
    /// Files that end within a block: their last seconds are missing.
    pub torn: Vec<PathBuf>,
    /// Files with blocks that cannot be read, and how many.
    pub damaged: Vec<(PathBuf, usize)>,
    /// The agents that wrote it.
    pub roles: Vec<Role>,
}

impl Writer {
    /// Makes the folder and the thread.
    ///
    /// # Errors
    /// The folder cannot be made, or the system gives no thread.
    pub(crate) fn start(settings: RecordSettings, role: Role) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(&settings.folder)?;
        let (blocks, waiting) = sync_channel(WAITING);
        let failed = Arc::new(Mutex::new(None));
        let says = failed.clone();
        let files = Files { settings, role, open: None };
        let thread = thread::Builder::new().name("record".into());
        let thread = thread.spawn(move || {
            if let Err(why) = files.run(&waiting) {
                *says.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(why);
            }
        })?;
        Ok(Self { blocks: Some(blocks), failed, thread: Some(thread), lost: 0 })
    }

    /// Hands over a block whose first row is of then; whether there was room for it.
    pub(crate) fn write(&mut self, start_ms: u64, bytes: Vec<u8>) -> bool {
        let Some(blocks) = &self.blocks else { return false };
        match blocks.try_send(Block { start_ms, bytes }) {
            Ok(()) => true,
            Err(TrySendError::Full(_)) => {
                self.lost += 1;
                false
            }
            Err(TrySendError::Disconnected(_)) => {
                self.blocks = None;
                false
            }
        }
    }

    /// Why nothing is written any more; said once.
    pub(crate) fn poll_failure(&mut self) -> Option<String> {
        let failed = self.failed.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        failed.inspect(|_| self.blocks = None)
    }

    /// Blocks that were lost because the disk was too slow.
    #[must_use]
    pub(crate) fn lost(&self) -> u64 {
        self.lost
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.blocks = None;
        if let Some(thread) = self.thread.take() {
            // What it has failed at does not matter any more.
            let _ = thread.join();
        }
    }
}

impl Files {
    fn run(mut self, blocks: &Receiver<Block>) -> Result<(), String> {
        while let Ok(block) = blocks.recv() {
            self.write(&block).map_err(|error| {
                let folder = self.settings.folder.display();
                format!("nothing is recorded any more: {folder}: {error}")
            })?;
        }
        Ok(())
    }

    fn write(&mut self, block: &Block) -> io::Result<()> {
        let within = |start: u64| block.start_ms.saturating_sub(start) < SEGMENT_MS;
        if !self.open.as_ref().is_some_and(|(start, _)| within(*start)) {
            self.open = None;
            self.prune(block.start_ms)?;
            self.open = Some((block.start_ms, self.create(block.start_ms)?));
        }
        if let Some((_, file)) = &mut self.open {
            file.write_all(&block.bytes)?;
        }
        Ok(())
    }

    fn create(&self, start_ms: u64) -> io::Result<File> {
        for later in 0..1000 {
            let path = self.settings.folder.join(format!("{:013}{SUFFIX}", start_ms + later));
            match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
                Ok(mut file) => {
                    let role = u8::from(self.role == Role::Server);
                    file.write_all(&[MAGIC, &[VERSION, role]].concat())?;
                    return Ok(file);
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// Deletes what is too old, and the oldest while there is too much.
    fn prune(&self, now_ms: u64) -> io::Result<()> {
        let keep_ms = self.settings.keep.0 / 1_000_000;
        // The file that begins now may grow to an hour's part.
        let most = (DAY_MAX as f64 * (keep_ms as f64 / 86_400_000.0).max(1.0)) as u64
            - DAY_MAX * SEGMENT_MS / 86_400_000;
        let files = files(&self.settings.folder)?;
        let mut total: u64 = files.iter().map(|file| file.size).sum();
        for file in files {
            let old = file.start_ms + SEGMENT_MS + keep_ms < now_ms;
            if old || total > most {
                unless_gone(fs::remove_file(&file.path))?;
                total -= file.size;
            }
        }
        Ok(())
    }
}

fn files(folder: &Path) -> io::Result<Vec<RecordFile>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)?.take(FILES_MAX) {
        let entry = entry?;
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_suffix(SUFFIX));
        let is_ours = |text: &&str| text.len() >= 13 && text.bytes().all(|b| b.is_ascii_digit());
        let Some(start_ms) = number.filter(is_ours).and_then(|text| text.parse().ok()) else {
            continue;
        };
        if let Some(data) = unless_gone(entry.metadata())?.filter(fs::Metadata::is_file) {
            files.push(RecordFile { path: entry.path(), start_ms, size: data.len() });
        }
    }
    files.sort_by_key(|file| file.start_ms);
    Ok(files)
}

/// `None` where a file is there no more: an agent deletes old ones while others read.
fn unless_gone<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        other => other.map(Some),
    }
}

impl Recording {
    /// Finds the files of a folder.
    ///
    /// # Errors
    /// [`ReadError::Folder`].
    pub fn open(folder: &Path) -> Result<Self, ReadError> {
        let files = files(folder).map_err(|e| ReadError::Folder(folder.to_owned(), e))?;
        Ok(Self { files })
    }

    /// What was recorded between two times, milliseconds since 1970.
    ///
    /// # Errors
    /// [`ReadError::File`], [`ReadError::Version`].
    pub fn read(&self, from_ms: u64, to_ms: u64) -> Result<Contents, ReadError> {
        let mut contents = Contents::default();
        // A file's last block may begin before its hour is over and end after it.
        let slack = Duration::from_secs(60).0 / 1_000_000;
        let meant = |file: &&RecordFile| {
            file.start_ms < to_ms && file.start_ms + SEGMENT_MS + slack > from_ms
        };
        for file in self.files.iter().filter(meant) {
            contents.add(file, from_ms, to_ms)?;
        }
        Ok(contents)
    }
}

impl Contents {
    fn add(&mut self, file: &RecordFile, from_ms: u64, to_ms: u64) -> Result<(), ReadError> {
        let bytes = unless_gone(bounded::bytes(&file.path, bounded::DATA));
        let bytes = bytes.map_err(|e| ReadError::File(file.path.clone(), e))?;
        let Some(bytes) = bytes else { return Ok(()) };
        let Some((head, rest)) = bytes.split_at_checked(HEAD) else {
            self.torn.push(file.path.clone());
            return Ok(());
        };
        let (magic, version) = (&head[..MAGIC.len()], head[MAGIC.len()]);
        if magic != MAGIC || !(1..=VERSION).contains(&version) {
            return Err(ReadError::Version(file.path.clone(), version));
        }
        let role = if head[HEAD - 1] == 0 { Role::Client } else { Role::Server };
        if !self.roles.contains(&role) {
            self.roles.push(role);
        }
        let mut damaged = 0;
        // What says that rows are missing is as old as the row before it.
        let mut at = file.start_ms;
        let mut within = |row: &Row| {
            at = row.unix_ms().unwrap_or(at);
            (from_ms..to_ms).contains(&at)
        };
        for block in codec::blocks(rest) {
            match block.and_then(codec::decode) {
                Ok(rows) => self.rows.extend(rows.into_iter().filter(&mut within)),
                Err(Damage::Torn) => self.torn.push(file.path.clone()),
                Err(Damage::Wrong) => damaged += 1,
            }
        }
        if damaged > 0 {
            self.damaged.push((file.path.clone(), damaged));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
