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
            say::error(&format!("{error:#}"));
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
