//! What is wrong with a source document: where, what, and what to do about it.

use std::fmt;
use tabane_engine::policy::{PolicyError, nearest};

/// What is wrong with a file. Prints as `file:line:column: what`, the line itself, and a remedy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    /// Path of the file, or the name that the text was given.
    pub file: String,
    /// Line and column, from 1; `None` where the fault is in an override or has no one place.
    pub position: Option<(usize, usize)>,
    /// The line of the file, or the override.
    pub excerpt: Option<String>,
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
                let (shown, mark) = around(text, column);
                write!(f, "\n{line:5} | {shown}\n      | {}^", " ".repeat(mark))?;
            }
            (Some(text), None) => write!(f, "\n      | {}", around(text, 1).0)?,
            (None, _) => {}
        }
        if let Some(help) = &self.help {
            write!(f, "\n      = {help}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Problem {}

/// Characters of a line that are shown.
const SHOWN: usize = 160;

/// The part of a line around a column (from 1), and how many characters are before that column in
/// it. A line of a file may be of any length: what is printed of it is not, and neither is a width
/// given to `format!`, which panics beyond 65 535.
fn around(line: &str, column: usize) -> (String, usize) {
    let at = column.saturating_sub(1);
    let length = line.chars().count();
    if length <= SHOWN {
        return (line.to_owned(), at.min(length));
    }
    let from = at.saturating_sub(SHOWN / 2).min(length - SHOWN);
    let shown: String = line.chars().skip(from).take(SHOWN).collect();
    let (before, after) = (if from > 0 { "..." } else { "" }, length > from + SHOWN);
    let mark = before.len() + (at - from).min(SHOWN);
    (format!("{before}{shown}{}", if after { "..." } else { "" }), mark)
}

/// A fault found after reading: the key it is about, and what is wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// Keys and indices from the root.
    pub at: Vec<String>,
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

/// Names that are listed, where there may be thousands.
const LISTED: usize = 60;

/// "did you mean", or the list of what there is.
pub fn suggest(name: &str, known: &[&str]) -> String {
    match nearest(name, known.iter().copied()) {
        Some(k) => format!("did you mean '{k}'?"),
        None if known.is_empty() => "there is none".into(),
        None if known.len() > LISTED => {
            let (some, more) = known.split_at(LISTED);
            format!("known: {} and {} more", some.join(", "), more.len())
        }
        None => format!("known: {}", known.join(", ")),
    }
}

/// Rewrites serde's "unknown field" and "invalid type" into our words; passes other messages on.
pub fn rephrase(message: &str) -> (String, Option<String>) {
    for (theirs, ours) in [("unknown field `", "key"), ("unknown variant `", "value")] {
        let Some(rest) = message.strip_prefix(theirs) else { continue };
        // The name may be anything, quotes included; what there is has none in it.
        let ends = ["`, expected ", "`, there are no "].iter().filter_map(|end| rest.rfind(end));
        let (name, known) = rest.split_at(ends.max().unwrap_or(rest.len()));
        let known: Vec<_> = known.split('`').skip(2).step_by(2).collect();
        return (format!("unknown {ours} '{name}'"), Some(suggest(name, &known)));
    }
    other_type(message).unwrap_or_else(|| (message.replace('`', "'"), None))
}

/// "invalid type: string "x", expected u64", without the names of our types.
fn other_type(message: &str) -> Option<(String, Option<String>)> {
    let rest = ["invalid type: ", "invalid value: "]
        .iter()
        .find_map(|start| message.strip_prefix(start))?;
    let (found, expected) = rest.split_at(rest.rfind(", expected ")?);
    let expected = match &expected[", expected ".len()..] {
        "u8" => "a whole number from 0 to 255",
        "u16" => "a whole number from 0 to 65535",
        "u32" | "u64" | "usize" => "a whole number, 0 or more",
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number",
        "f32" | "f64" => "a number",
        "a boolean" => "true or false",
        "a string" => "a string in quotes",
        "a sequence" => "a list",
        "a map" => "a table",
        other if other.starts_with("struct ") => "a table",
        other => other,
    };
    // A bare value stands in the message as in the file.
    let bare = |kind: &str| Some(found.strip_prefix(kind)?.trim_matches('`').to_owned());
    let bare = ["boolean ", "integer ", "floating point "].into_iter().find_map(bare);
    let found = match found {
        "map" => "a table",
        "sequence" => "a list",
        _ => bare.as_deref().or_else(|| found.strip_prefix("string ")).unwrap_or(found),
    };
    let unquoted = found.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    let help = match (expected, found, unquoted) {
        ("a list", "a table", _) => Some("this is a list of tables: write [[name]]".to_owned()),
        ("a string in quotes", "true" | "false", _) => Some("write a name, in quotes".to_owned()),
        ("a string in quotes", _, _) => bare.as_deref().map(|bare| format!("write \"{bare}\"")),
        ("true or false", _, Some(text @ ("true" | "false"))) => Some(format!("write {text}")),
        (_, _, Some(text)) if is_number(text, expected) => {
            Some(format!("write {text}, without quotes"))
        }
        _ => None,
    };
    Some((format!("expected {expected}, found {found}").replace('`', "'"), help))
}

/// Whether a text is the number that was expected, but for its quotes.
fn is_number(text: &str, expected: &str) -> bool {
    match expected {
        "a number" => text.parse::<f64>().is_ok(),
        _ => expected.starts_with("a whole number") && text.parse::<u64>().is_ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_names_may_be_anything() {
        for name in ["wifi", "a`b`c", "x`, expected `y", "`", "rat"] {
            let said = rephrase(&format!("unknown field `{name}`, expected one of `rate`, `loss`"));
            let known = suggest(name, &["rate", "loss"]);
            assert_eq!(said, (format!("unknown key '{name}'"), Some(known)));
        }
        let none = rephrase("unknown field `a`, there are no fields");
        assert_eq!(none, ("unknown key 'a'".to_owned(), Some("there is none".to_owned())));
        let (said, help) = rephrase("unknown variant `dwn`, expected `up` or `down`");
        assert_eq!(
            (&*said, help.as_deref()),
            ("unknown value 'dwn'", Some("did you mean 'down'?"))
        );
    }

    #[test]
    fn values_of_another_type_are_named_as_they_are_written() {
        let cases = [
            ("boolean `false`, expected a string", "a string in quotes, found false"),
            ("integer `3`, expected a string", "a string in quotes, found 3"),
            ("string \"3\", expected u64", "a whole number, 0 or more, found \"3\""),
            ("string \"many\", expected usize", "a whole number, 0 or more, found \"many\""),
            ("string \"true\", expected a boolean", "true or false, found \"true\""),
            ("string \"a, expected b\", expected f64", "a number, found \"a, expected b\""),
            ("map, expected a sequence", "a list, found a table"),
            ("sequence, expected a string", "a string in quotes, found a list"),
            ("string \"x\", expected struct LinkParams", "a table, found \"x\""),
            ("floating point `1.5`, expected u32", "a whole number, 0 or more, found 1.5"),
            ("string \"x\", expected a rate", "a rate, found \"x\""),
            ("string \"1.5\", expected u64", "a whole number, 0 or more, found \"1.5\""),
            ("string \"1.5\", expected f64", "a number, found \"1.5\""),
            ("unit, expected `up` or `down`", "'up' or 'down', found unit"),
        ];
        let remedies = [
            (0, "write a name, in quotes"),
            (1, "write \"3\""),
            (2, "write 3, without quotes"),
            (4, "write true"),
            (6, "this is a list of tables: write [[name]]"),
            (12, "write 1.5, without quotes"),
        ];
        for (n, (theirs, ours)) in cases.into_iter().enumerate() {
            let (said, help) = rephrase(&format!("invalid type: {theirs}"));
            assert_eq!(said, format!("expected {ours}"));
            let remedy = remedies.iter().find(|(at, _)| *at == n).map(|(_, remedy)| *remedy);
            assert_eq!(help.as_deref(), remedy, "{theirs}");
        }
        let (said, _) = rephrase("invalid value: integer `-1`, expected u8");
        assert_eq!(said, "expected a whole number from 0 to 255, found -1");
    }

    #[test]
    fn a_fault_far_out_in_a_line_is_shown_with_what_is_around_it() {
        for column in [1, 79, 400, 65_535, 65_536, 65_537, 300_000] {
            let problem = Problem {
                file: "f.toml".into(),
                position: Some((1, column)),
                excerpt: Some(format!("{}!", " ".repeat(column - 1))),
                message: "odd".into(),
                help: None,
            };
            let problem = problem.to_string();
            let lines: Vec<&str> = problem.lines().collect();
            assert_eq!(lines[0], format!("f.toml:1:{column}: odd"));
            let at = lines[2].find('^').expect("a mark");
            assert_eq!(&lines[1][at..=at], "!", "{problem}");
            assert!(problem.len() < 800, "{} bytes", problem.len());
        }
        let wide = Problem {
            file: "f".into(),
            position: Some((1, usize::MAX)),
            excerpt: Some("\u{e4}".repeat(500)),
            message: "m".into(),
            help: None,
        };
        assert!(wide.to_string().ends_with('^'));
    }
}
