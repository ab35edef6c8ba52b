//! Paths that documents, help texts and comments name must exist: files of the project, written
//! from its root, from the root of their crate, or beside the document.

use crate::Violation;
use crate::source::Source;
use std::path::Path;

/// Folders of the root: a word that begins with one of them is a path.
const ROOTS: &[&str] = &[
    "crates/",
    "docs/",
    "grafana/",
    "packaging/",
    "papers/",
    "python/",
    "scenarios/",
    "src/",
    "tests/",
    ".ci/",
];

/// What a document asks its reader to make.
const TO_BE_MADE: &[&str] =
    &["crates/engine/src/scheduler/fewest_bytes.rs", "crates/engine/src/congestion/gentle.rs"];

/// Paths that do not exist.
pub(crate) fn paths(root: &Path, files: &[(String, String)]) -> Vec<Violation> {
    let mut found = Vec::new();
    for (file, text) in files {
        let document = file.ends_with(".md") && file != "CHANGELOG.md";
        let source = file.ends_with(".rs") && !is_test(file);
        if !document && !source {
            continue;
        }
        let tests = if source { Source::new(text).test_modules() } else { Vec::new() };
        for (index, line) in text.lines().enumerate() {
            let number = index + 1;
            if tests.iter().any(|(first, last)| (*first..=*last).contains(&number)) {
                continue;
            }
            for path in named(line).filter(|path| !exists(root, file, path)) {
                let message = format!("'{path}' does not exist: name the file that does");
                found.push(Violation { file: file.clone(), line: number, message });
            }
            for link in links(line).filter(|_| document) {
                if !folder_of(root, file).join(link).exists() {
                    let message = format!("the link to '{link}' leads nowhere");
                    found.push(Violation { file: file.clone(), line: number, message });
                }
            }
        }
    }
    found
}

fn is_test(file: &str) -> bool {
    let part = |name: &str| file.starts_with(name) || file.contains(&format!("/{name}"));
    part("tests/") || file.ends_with("tests.rs")
}

fn folder_of(root: &Path, file: &str) -> std::path::PathBuf {
    let file = root.join(file);
    file.parent().map(Path::to_owned).unwrap_or_default()
}

/// Words that look like a path of the project.
fn named(line: &str) -> impl Iterator<Item = &str> {
    let of_path = |c: char| c.is_ascii_alphanumeric() || "_-./*@".contains(c);
    line.split(move |c: char| !of_path(c))
        .map(|word| word.trim_end_matches(['.', '/']).trim_start_matches("../"))
        .filter(|word| ROOTS.iter().any(|root| word.starts_with(root) && word.len() > root.len()))
}

/// Targets of links that are files.
fn links(line: &str) -> impl Iterator<Item = &str> {
    let targets = line.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    targets
        .map(|target| target.split('#').next().unwrap_or_default())
        .filter(|target| !target.is_empty() && !target.contains(':') && !target.contains(' '))
}

/// As written, or as far as it says: `*` and words in capitals stand for something.
fn exists(root: &Path, file: &str, path: &str) -> bool {
    if TO_BE_MADE.contains(&path) {
        return true;
    }
    let stands_for = |part: &str| {
        let stem = part.split('.').next().unwrap_or_default();
        part.contains('*') || (!stem.is_empty() && stem.chars().all(|c| c.is_ascii_uppercase()))
    };
    let parts: Vec<&str> = path.split('/').take_while(|part| !stands_for(part)).collect();
    let known = parts.join("/");
    let krate = file.split('/').take(2).collect::<Vec<_>>().join("/");
    let beside = folder_of(root, file);
    [root.to_owned(), root.join(krate), beside].iter().any(|from| from.join(&known).exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_are_named_must_exist() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let wrong = |file: &str, text: &str| -> Vec<String> {
            let found = paths(root, &[(file.into(), text.into())]);
            found.into_iter().map(|violation| violation.message).collect()
        };
        let gone = wrong("docs/a.md", "run `scenarios/gone.toml`, see [b](gone.md#x).");
        assert!(gone.len() == 2 && gone[0].contains("'scenarios/gone.toml'"), "{gone:?}");
        let there = "see scenarios/wifi-lte.toml, papers/NAME/, crates/*/src and [a](adding.md).";
        assert_eq!(wrong("docs/a.md", there), [""; 0]);
        assert_eq!(wrong("src/a.rs", "// as docs/gone.md says").len(), 1);
        assert_eq!(wrong("tests/a.rs", "\"scenarios/gone.toml\""), [""; 0]);
        assert_eq!(wrong("crates/engine/src/a.rs", "//! `tests/policy_conformance.rs`"), [""; 0]);
    }
}
