//! Who hears what: results go to standard output, prose and progress to standard error.
//!
//! Verbs do not use `println!`: it panics when the reader of a pipe is gone.

use crate::exit::Failure;
#[cfg(target_os = "linux")]
use crate::journal::warning_priority;
use std::io::{ErrorKind, Write};
use std::sync::atomic::{AtomicU8, Ordering};

static LEVEL: AtomicU8 = AtomicU8::new(1);

/// Sets how much is said: 0 errors only, 1 normal, 2 details.
pub(crate) fn set_level(quiet: bool, verbose: bool) {
    LEVEL.store(1 + u8::from(verbose) - u8::from(quiet && !verbose), Ordering::Relaxed);
}

/// Whether notes and progress are wanted.
pub(crate) fn is_quiet() -> bool {
    LEVEL.load(Ordering::Relaxed) == 0
}

/// Whether details are wanted.
#[cfg(target_os = "linux")]
pub(crate) fn is_verbose() -> bool {
    LEVEL.load(Ordering::Relaxed) >= 2
}

/// Writes to standard output, a line end added.
///
/// # Errors
/// [`Failure::ReaderGone`] if nobody reads, else the I/O error.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    let done = out.write_all(text.as_bytes()).and_then(|()| out.write_all(b"\n"));
    match done.and_then(|()| out.flush()) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Err(Failure::ReaderGone),
        Err(error) => Err(anyhow::Error::new(error).context("standard output").into()),
    }
}

/// Prose for the user, unless `--quiet`.
pub(crate) fn note(text: &str) {
    if LEVEL.load(Ordering::Relaxed) >= 1 {
        stderr(text);
    }
}

/// A question to whoever sits before a terminal; the answer follows on the same line.
pub(crate) fn prompt(text: &str) {
    let mut err = std::io::stderr().lock();
    // Nothing sensible can be done if standard error is closed.
    let _ = err.write_all(text.as_bytes()).and_then(|()| err.flush());
}

/// What only `--verbose` shows.
pub(crate) fn detail(text: &str) {
    if LEVEL.load(Ordering::Relaxed) >= 2 {
        stderr(text);
    }
}

/// What is allowed and probably not meant, unless `--quiet`.
pub(crate) fn warning(text: &str) {
    // The journal of a service takes a priority before the text; elsewhere there is none.
    #[cfg(target_os = "linux")]
    let priority = warning_priority();
    #[cfg(not(target_os = "linux"))]
    let priority = "";
    if LEVEL.load(Ordering::Relaxed) >= 1 {
        stderr(&format!("{priority}warning: {text}"));
    }
}

/// What went wrong.
pub(crate) fn error(text: &str) {
    stderr(&format!("tabane: {text}"));
}

/// How much is said, as [`set_level`] has it.
#[cfg(target_os = "linux")]
pub(crate) fn level() -> u8 {
    LEVEL.load(Ordering::Relaxed)
}

pub(crate) fn stderr(text: &str) {
    // Nothing sensible can be done if standard error is closed.
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}
