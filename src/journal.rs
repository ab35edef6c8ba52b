//! Events of an agent on standard error, with the priorities that the journal of systemd reads.

use crate::say;
use std::os::unix::fs::MetadataExt;
use std::sync::OnceLock;
use tabane_gateway::model::{AgentEvent, Level};

/// What happens to an agent that runs, one line an event: its kind, what it is about, and the text.
/// Details only with `--verbose`; with `--quiet` what does not work.
pub(crate) fn event(event: &AgentEvent) {
    let level = event.kind.level();
    let least = match say::level() {
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
    say::stderr(&format!("{}{}{client}{path}: {text}", priority(level), event.kind));
}

/// Of warnings.
pub(crate) fn warning_priority() -> &'static str {
    priority(Level::Warning)
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
