//! Source documents: TOML files that users write (scenarios, configurations), with overrides from
//! elsewhere applied, and errors that name file, line, column and remedy.
//!
//! What the keys mean is the caller's business; so is where overrides come from.

mod problem;
mod tree;

pub use problem::{Fault, Problem, rephrase, suggest};
pub use tree::lookup_mut;

use crate::bounded;
use std::ops::Range;
use std::path::Path;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A TOML file and its overrides. It keeps the text, so that a fault found later can be reported
/// with the line and column of the value that it is about.
#[derive(Clone, Debug)]
pub struct SourceDocument {
    file: String,
    text: String,
    /// The span of a value from the n-th is at `text.len() + 1 + n`.
    overrides: Vec<Override>,
}

/// A value that replaces one of the file, or is added to it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Override {
    /// Where it comes from, as messages show it.
    pub label: String,
    /// Keys from the root. An element of a list is named by its index or its `name`.
    pub keys: Vec<String>,
    /// A TOML value; what is none is a string that lacks its quotes.
    pub value: String,
}

/// Why a caller refuses an override: message and remedy.
pub type Objection = (String, Option<String>);

impl SourceDocument {
    /// Reads a file of at most [`bounded::SOURCE_DOCUMENT`] bytes.
    ///
    /// # Errors
    /// [`Problem`] if it cannot be read.
    pub fn read(path: &Path) -> Result<Self, Problem> {
        let file = path.display().to_string();
        match bounded::text(path, bounded::SOURCE_DOCUMENT) {
            Ok(text) => Ok(Self::new(&file, &text)),
            Err(error) => {
                let message = format!("cannot be read: {error}");
                Err(Problem { file, position: None, excerpt: None, message, help: None })
            }
        }
    }

    /// A file of that text; `name` stands in messages.
    #[must_use]
    pub fn new(name: &str, text: &str) -> Self {
        Self { file: name.into(), text: text.into(), overrides: Vec::new() }
    }

    /// The same with these overrides; of several for one key the last one counts.
    #[must_use]
    pub fn with(self, overrides: Vec<Override>) -> Self {
        Self { overrides, ..self }
    }

    #[must_use]
    pub fn file(&self) -> &str {
        &self.file
    }

    /// The tree with its overrides; it borrows the text.
    ///
    /// # Errors
    /// [`Problem`] if it is not TOML, or has no place for an override.
    pub fn root(&self) -> Result<Spanned<DeTable<'_>>, Problem> {
        self.root_if(|_, _| Ok(()))
    }

    /// As [`SourceDocument::root`]; `allow` sees the tree before each override is applied.
    ///
    /// # Errors
    /// As [`SourceDocument::root`], and what `allow` has against an override.
    pub fn root_if(
        &self,
        allow: impl Fn(&DeTable<'_>, &[String]) -> Result<(), Objection>,
    ) -> Result<Spanned<DeTable<'_>>, Problem> {
        let mut root = DeTable::parse(&self.text).map_err(|e| self.toml_problem(&e))?;
        for (n, over) in self.overrides.iter().enumerate() {
            let place = self.text.len() + 1 + n;
            let span = place..place;
            let object = |(message, help): Objection| {
                let problem = self.problem_at(Some(span.clone()), message);
                Problem { help, ..problem }
            };
            allow(root.get_ref(), &over.keys).map_err(object)?;
            let mut value = match DeValue::parse(over.value.trim()) {
                Ok(value) => tree::respan(value.into_inner(), &span),
                Err(_) => Spanned::new(span.clone(), DeValue::String(over.value.trim().into())),
            };
            tree::insert(root.get_mut(), &over.keys, &mut value, &span)
                .map_err(|message| object((message, None)))?;
        }
        Ok(root)
    }

    /// Says where `fault` is.
    #[must_use]
    pub fn problem(&self, fault: Fault) -> Problem {
        let span = self.root().ok().and_then(|root| tree::locate(root.get_ref(), &fault.at));
        Problem { help: fault.help, ..self.problem_at(span, fault.message) }
    }

    /// An error of reading, in our words.
    #[must_use]
    pub fn toml_problem(&self, error: &toml::de::Error) -> Problem {
        let (message, help) = rephrase(error.message());
        Problem { help, ..self.problem_at(error.span(), message) }
    }

    fn problem_at(&self, span: Option<Range<usize>>, message: String) -> Problem {
        let start = span.map(|s| s.start);
        let over = start.and_then(|at| at.checked_sub(self.text.len() + 1));
        let over = over.and_then(|n| self.overrides.get(n)).map(|over| over.label.clone());
        let file = self.file.clone();
        let mut problem = Problem { file, position: None, excerpt: over, message, help: None };
        if let (Some(at), None) = (start, &problem.excerpt) {
            let at = at.min(self.text.len());
            let before = &self.text[..at];
            let line_start = before.rfind('\n').map_or(0, |n| n + 1);
            let line = before.matches('\n').count() + 1;
            let column = self.text[line_start..at].chars().count() + 1;
            problem.position = Some((line, column));
            problem.excerpt = self.text[line_start..].lines().next().map(str::to_owned);
        }
        problem
    }
}
