//! Where lines with secrets come from: standard input, which a terminal does not show, or a file.

use crate::exit::Failure;
use crate::say;
use anyhow::Context;
use rustix::termios::{LocalModes, OptionalActions, Termios, isatty, tcgetattr, tcsetattr};
use std::io::{ErrorKind, Read, Stdin, stdin};
use std::path::Path;

/// A line with an invitation is shorter, and so is a terminal's.
const LINE_MAX: u64 = 65_536;

/// The line: the argument if it is one, else what stands in the file, else standard input.
///
/// # Errors
/// What cannot be read.
pub(super) fn line(argument: Option<&str>, file: Option<&Path>) -> Result<String, Failure> {
    let mut line = String::new();
    match (argument.filter(|line| *line != "-"), file) {
        (Some(line), _) => return Ok(line.to_owned()),
        (None, Some(file)) => {
            let opened = std::fs::File::open(file).with_context(|| file.display().to_string())?;
            let read = opened.take(LINE_MAX).read_to_string(&mut line);
            read.with_context(|| file.display().to_string())?;
        }
        (None, None) if isatty(stdin()) => {
            say::prompt("the line of `tabane server invite` (it is not shown): ");
            let hidden = Hidden::begin(stdin());
            let read = stdin().read_line(&mut line);
            drop(hidden);
            say::prompt("\n");
            read.context("standard input")?;
        }
        (None, None) => {
            stdin().take(LINE_MAX).read_to_string(&mut line).context("standard input")?;
        }
    }
    Ok(line)
}

/// What a file holds that may be replaced; `None` if there is none, or it stays.
///
/// # Errors
/// It cannot be read.
pub(super) fn read_if_there(path: &Path, replace: bool) -> Result<Option<String>, Failure> {
    match std::fs::read_to_string(path) {
        Ok(text) if replace => Ok(Some(text)),
        Err(error) if error.kind() != ErrorKind::NotFound && replace => {
            Err(anyhow::Error::new(error).context(path.display().to_string()).into())
        }
        _ => Ok(None),
    }
}

/// A terminal that does not show what is typed, until it is dropped.
struct Hidden(Stdin, Option<Termios>);

impl Hidden {
    fn begin(terminal: Stdin) -> Self {
        let before = tcgetattr(&terminal).ok();
        if let Some(mut modes) = before.clone() {
            modes.local_modes.remove(LocalModes::ECHO);
            // Then it is shown: better than not to be able to join.
            let _ = tcsetattr(&terminal, OptionalActions::Flush, &modes);
        }
        Self(terminal, before)
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        if let Some(before) = &self.1 {
            let _ = tcsetattr(&self.0, OptionalActions::Now, before);
        }
    }
}
