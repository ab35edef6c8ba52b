//! Words: identifiers use the field's word and none that the project has retired; comments that
//! only repeat a name are dropped.

use crate::Violation;
use crate::source::Source;

/// A retired word, the field's word, and where the old one still stands: beginnings of paths, or
/// whole identifiers. A row whose third column is empty holds in the whole project. Forms of a word
/// (plural, past) are rows of their own.
const RETIRED: &[(&str, &str, &[&str])] = &[
    ("book", "override cache", &[]),
    ("buried", "closed", &[]),
    ("bury", "remove", &[]),
    ("crowded", "over its memory limit", &[]),
    ("deaf", "one-way", &[]),
    ("dress", "add options", &[]),
    ("dressed", "with options", &[]),
    ("drawn", "sampled or generated", &["crates/fuzz/", "crates/papers/", "src/", "tests/"]),
    ("gates", "rate limiters", &[]),
    ("happening", "event", &[]),
    ("happenings", "events", &[]),
    ("inward", "ingress", &[]),
    ("lane", "tunnel or GSO batch", &["crates/wire/"]),
    ("lanes", "tunnels or GSO batches", &["crates/wire/"]),
    ("mailbox", "request channel", &[]),
    ("mended", "fixed or restored", &[]),
    ("onward", "upstream", &[]),
    ("onwards", "upstream", &[]),
    ("outward", "outbound", &[]),
    ("owed", "pending", &[]),
    ("owes", "has pending", &[]),
    ("picture", "snapshot", &[]),
    ("pictures", "snapshots", &[]),
    ("pieces", "ranges, chunks or parts", &["crates/trace/", "crates/wire/"]),
    ("raced", "reinjected at the tail", &[]),
    ("rescue", "opportunistic retransmission", &["crates/sim/"]),
    ("rescued", "retransmitted opportunistically", &[]),
    ("settle", "flush", &["crates/fuzz/", "tests/kernel/"]),
    ("settled", "flushed or final", &["crates/gateway/src/path/", "crates/papers/"]),
    ("surroundings", "runtime", &[]),
    ("suspect", "potentially failed", &["crates/gateway/"]),
    ("suspects", "potentially failed subflows", &[]),
    ("tally", "counters", &[]),
    ("teller", "policy sync or sender", &[]),
    ("telling", "policy sync or notification", &[]),
    ("wish", "request", &[]),
    ("wishes", "requests", &[]),
];

/// Doc comments that say nothing: a comment says what its name does not, or is not there.
const NOISE: &[&str] = &[
    "Its name.",
    "See above.",
    "See below.",
    "See the module.",
    "What came of it.",
    "What it is.",
    "What it was.",
    "What.",
];

/// Where such comments still stand, or are the help texts of options.
const NOISE_STANDS: &[&str] = &["crates/interop/", "src/cmd/server/clients.rs"];

/// Retired words in identifiers, and noise in doc comments.
pub(crate) fn source(path: &str, source: &Source) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut say = |at: usize, message: String| {
        let line = source.line_of(at);
        found.push(Violation { file: path.to_owned(), line, message });
    };
    for (at, identifier) in identifiers(&source.code) {
        let parts = parts(identifier);
        for (word, field, allowed) in RETIRED {
            let stands = |place: &&str| path.starts_with(*place) || *place == identifier;
            if parts.iter().any(|part| part == word) && !allowed.iter().any(stands) {
                say(at, format!("`{identifier}`: '{word}' is retired; the word is {field}"));
            }
        }
    }
    if !NOISE_STANDS.iter().any(|place| path.starts_with(place)) {
        found.extend(noise(path, &source.text));
    }
    found
}

/// A doc comment of one line that is on the list.
fn noise(path: &str, text: &str) -> Vec<Violation> {
    let docs: Vec<Option<&str>> =
        text.lines().map(|line| line.trim_start().strip_prefix("///")).collect();
    let doc = |index: usize| docs.get(index).copied().flatten();
    let alone =
        |index: usize| index.checked_sub(1).and_then(doc).is_none() && doc(index + 1).is_none();
    let says_nothing = |index: &usize| {
        doc(*index).is_some_and(|comment| NOISE.contains(&comment.trim())) && alone(*index)
    };
    (0..docs.len())
        .filter(says_nothing)
        .map(|index| Violation {
            file: path.to_owned(),
            line: index + 1,
            message: "this doc comment says nothing: say what the name does not, or drop it".into(),
        })
        .collect()
}

/// Identifiers and keywords, each with its position; `code` has neither comments nor strings.
fn identifiers(code: &str) -> impl Iterator<Item = (usize, &str)> {
    let of_word = |c: char| c.is_alphanumeric() || c == '_';
    code.split(move |c: char| !of_word(c))
        .filter(|word| word.starts_with(|c: char| c.is_alphabetic() || c == '_'))
        .map(move |word| (word.as_ptr() as usize - code.as_ptr() as usize, word))
}

/// The words of `snake_case`, `CamelCase` and `CAPITALS`, in small letters.
fn parts(identifier: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut before = '_';
    for c in identifier.chars() {
        let begins = c.is_uppercase() && !before.is_uppercase();
        if c == '_' || begins {
            parts.push(String::new());
        }
        if c != '_' {
            parts.last_mut().expect("invariant: it begins with one").extend(c.to_lowercase());
        }
        before = c;
    }
    parts.retain(|part| !part.is_empty());
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_fall_apart_into_words() {
        assert_eq!(parts("snake_case_2"), ["snake", "case", "2"]);
        assert_eq!(parts("PathTally"), ["path", "tally"]);
        assert_eq!(parts("HAPPENINGS_MAX"), ["happenings", "max"]);
        assert_eq!(parts("r#type").len(), 1);
    }

    #[test]
    fn retired_words_are_refused_in_code_only() {
        let lines = |path: &str, text: &str| -> Vec<usize> {
            source(path, &Source::new(text)).into_iter().map(|found| found.line).collect()
        };
        let text = "// a picture\nlet a = \"picture\";\nlet PICTURE = old_picture(SetPicture);";
        assert_eq!(lines("crates/sim/src/a.rs", text), [3, 3, 3]);
        assert_eq!(lines("crates/sim/src/a.rs", "let pictured = depicture;"), [0; 0]);
    }

    #[test]
    fn comments_that_say_nothing_are_refused() {
        let lines = |text: &str| noise("a.rs", text).len();
        assert_eq!(lines("    /// Its name.\n    pub name: u8,"), 1);
        assert_eq!(lines("/// What.\n///\n/// More.\nfn a() {}\n// What.\n"), 0);
    }
}
