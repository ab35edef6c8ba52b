//! What is wrong with a file that people wrote: where, what, and what to do about it.

use std::fmt;
use tabane_engine::policy::{PolicyError, nearest};

/// What is wrong with a file. Prints as `file:line:column: what`, the line itself, and a remedy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    /// The file (or the name the text was given).
    pub file: String,
    /// Line and column, from 1; `None` where the fault is in an override or has no one place.
    pub position: Option<(usize, usize)>,
    /// The line of the file, or the override.
    pub excerpt: Option<String>,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub help: Option<String>,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some((line, column)) = self.position {
            write!(f, ":{line}:{column}")?;
        }
        write!(f, ": {}", self.message)?;
        match (&self.excerpt, self.position) {
            (Some(text), Some((line, column))) => {
                write!(f, "\n{line:5} | {text}\n      | {:>column$}", "^")?;
            }
            (Some(text), None) => write!(f, "\n      | {text}")?,
            (None, _) => {}
        }
        if let Some(help) = &self.help {
            write!(f, "\n      = {help}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Problem {}

/// A fault found after reading: the key it is about, and what is wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// Keys and indices from the root.
    pub at: Vec<String>,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub help: Option<String>,
}

impl Fault {
    /// A fault of the value at `at`.
    pub fn new(at: &[&dyn fmt::Display], message: impl Into<String>) -> Self {
        let at = at.iter().map(ToString::to_string).collect();
        Self { at, message: message.into(), help: None }
    }

    /// The same, with a remedy.
    #[must_use]
    pub fn help(self, help: impl Into<String>) -> Self {
        Self { help: Some(help.into()), ..self }
    }

    /// `what` called `name` does not exist; names the nearest of `known`.
    pub fn unknown<'a>(
        at: &[&dyn fmt::Display],
        what: &str,
        name: &str,
        known: impl Iterator<Item = &'a str>,
    ) -> Self {
        let fault = Self::new(at, format!("there is no {what} '{name}'"));
        let known: Vec<_> = known.collect();
        fault.help(suggest(name, &known))
    }

    /// A policy that cannot be made: the engine's own words, the remedy on its own line.
    pub fn policy(at: &[&dyn fmt::Display], error: &PolicyError) -> Self {
        match error {
            PolicyError::Unknown { kind, name, known, nearest: near } => {
                Self::new(at, format!("unknown {kind} '{name}'")).help(match near {
                    Some(near) => format!("did you mean '{near}'? All of them: {known}"),
                    None => format!("All of them: {known}"),
                })
            }
            other => Self::new(at, other.to_string()),
        }
    }
}

/// "did you mean", or the list of what there is.
pub fn suggest(name: &str, known: &[&str]) -> String {
    match nearest(name, known.iter().copied()) {
        Some(k) => format!("did you mean '{k}'?"),
        None if known.is_empty() => "there is none".into(),
        None => format!("known: {}", known.join(", ")),
    }
}

/// Rewrites serde's "unknown field" into our words; passes other messages on.
pub fn rephrase(message: &str) -> (String, Option<String>) {
    let mut quoted = message.split('`').skip(1).step_by(2);
    if message.starts_with("unknown field") || message.starts_with("unknown variant") {
        let what = if message.starts_with("unknown field") { "key" } else { "value" };
        let name = quoted.next().unwrap_or_default();
        let known: Vec<_> = quoted.collect();
        return (format!("unknown {what} '{name}'"), Some(suggest(name, &known)));
    }
    let list = message.starts_with("invalid type: map") && message.ends_with("a sequence");
    let help = list.then(|| "this is a list of tables: write [[name]]".to_owned());
    (message.replace('`', "'"), help)
}
