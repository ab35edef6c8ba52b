//! How the program ends: 0 done, 1 failed, 2 wrong usage, 130 interrupted (as shells say it). The
//! only place that knows the numbers.

use crate::say;
use std::process::ExitCode;

/// Why a verb did not do what it was asked.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The user must ask differently; the text says how. Exit code 2.
    Usage(String),
    /// It was asked rightly and failed; the chain says why. Exit code 1.
    Failed(anyhow::Error),
    /// The user ended it before it was done; the text says what is left. Exit code 130.
    Interrupted(String),
    /// Nobody reads standard output any more (`tabane list | head -1`). Exit code 0.
    ReaderGone,
}

impl Failure {
    /// Wrong usage, and what to do.
    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Self::Usage(text.into())
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::Failed(error)
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::Failed(error.into())
    }
}

/// Reports a failure and gives the exit code.
pub(crate) fn code(result: Result<(), Failure>) -> ExitCode {
    match result {
        Ok(()) | Err(Failure::ReaderGone) => ExitCode::SUCCESS,
        Err(Failure::Failed(error)) => {
            say::error(&words(&error));
            ExitCode::from(1)
        }
        Err(Failure::Interrupted(text)) => {
            say::error(&text);
            ExitCode::from(130)
        }
        Err(Failure::Usage(text)) => {
            say::error(&text);
            ExitCode::from(2)
        }
    }
}

/// An error and its causes. Some say their cause themselves, for those who ask them alone: it is
/// said once.
fn words(error: &anyhow::Error) -> String {
    let mut words = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if words.is_empty() {
            words = cause;
        } else if !words.contains(&cause) {
            words = format!("{words}: {cause}");
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::words;
    use std::io;

    #[test]
    fn a_cause_is_said_once() {
        let system = || io::Error::from_raw_os_error(98);
        let says_it = format!("no socket on [::]:9: {}", system());
        let error = anyhow::Error::new(system()).context(says_it.clone());
        assert_eq!(words(&error), says_it);
        let with_remedy = format!("cannot listen on [::]:9: {}; end what listens", system());
        let error = anyhow::Error::new(system()).context(with_remedy.clone());
        assert_eq!(words(&error), with_remedy);
        let error = anyhow::Error::new(system()).context("reading").context("at the start");
        assert_eq!(words(&error), format!("at the start: reading: {}", system()));
    }
}
