//! Who hears what: results go to standard output, prose and progress to standard error.
//!
//! Verbs do not use `println!`: it panics when the reader of a pipe is gone.

use crate::exit::Failure;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};
use tabane_gateway::event_log::Level;
use tabane_gateway::model::AgentEvent;

static LEVEL: AtomicU8 = AtomicU8::new(1);

/// Sets how much is said: 0 errors only, 1 normal, 2 details.
pub(crate) fn set_level(quiet: bool, verbose: bool) {
    LEVEL.store(1 + u8::from(verbose) - u8::from(quiet && !verbose), Ordering::Relaxed);
}

/// Whether notes and progress are wanted.
pub(crate) fn is_quiet() -> bool {
    LEVEL.load(Ordering::Relaxed) == 0
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
    if LEVEL.load(Ordering::Relaxed) >= 1 {
        stderr(&format!("{}warning: {text}", priority(Level::Warning)));
    }
}

/// What happens to an agent that runs, one line an event: its kind, what it is about, and the text.
/// Details only with `--verbose`; with `--quiet` what does not work.
pub(crate) fn event(event: &AgentEvent) {
    let level = Level::of(&event.kind);
    let least = match LEVEL.load(Ordering::Relaxed) {
        0 => Level::Error,
        1 => Level::Notice,
        _ => Level::Detail,
    };
    if level > least {
        return;
    }
    let field = |name: &str, value: &Option<String>| {
        value.as_ref().map(|value| format!(" {name}={value}")).unwrap_or_default()
    };
    let (client, path) = (field("client", &event.client), field("path", &event.path));
    // Names of files and clients may have line ends in them; an event is one line.
    let text = event.text.replace(char::is_control, " ");
    stderr(&format!("{}{}{client}{path}: {text}", priority(level), event.kind));
}

/// What the journal takes for a line's priority (sd-daemon(3)); nothing where no journal listens.
fn priority(level: Level) -> &'static str {
    static JOURNAL: OnceLock<bool> = OnceLock::new();
    // Set for whatever a service starts: it counts only if standard error is that stream.
    let is_journal = || {
        let stream = std::env::var("JOURNAL_STREAM").ok()?;
        let stderr = std::fs::metadata("/proc/self/fd/2").ok()?;
        Some(stream == format!("{}:{}", stderr.dev(), stderr.ino()))
    };
    if !*JOURNAL.get_or_init(|| is_journal().unwrap_or(false)) {
        return "";
    }
    match level {
        Level::Error => "<3>",
        Level::Warning => "<4>",
        Level::Notice => "<5>",
        Level::Detail => "<7>",
    }
}

/// What went wrong.
pub(crate) fn error(text: &str) {
    stderr(&format!("tabane: {text}"));
}

fn stderr(text: &str) {
    // Nothing sensible can be done if standard error is closed.
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}
