//! The rules that look at the tree: manifests, and files that must be there.

use crate::Violation;
use crate::rules::{crate_of, may_name, tests_may_name};
use std::fs;
use std::path::Path;

/// Endings of the files that are read; others (captures, published figures) are data.
const TEXT: &[&str] = &[".rs", ".toml", ".md", ".py", ".sh", ".txt", "justfile"];
/// Directories that are not the project's own text.
const SKIPPED: &[&str] = &["target", ".git", "node_modules", "corpus", "artifacts"];

/// Every text file, as path relative to `root` and contents, in order of path.
pub(crate) fn files(root: &Path) -> Vec<(String, String)> {
    let mut files = Vec::new();
    collect(root, root, &mut files);
    files.sort();
    files
}

fn collect(root: &Path, folder: &Path, files: &mut Vec<(String, String)>) {
    let entries = fs::read_dir(folder).expect("the project can be read");
    for entry in entries {
        let path = entry.expect("the project can be read").path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if path.is_dir() {
            if !SKIPPED.contains(&name) {
                collect(root, &path, files);
            }
        } else if TEXT.iter().any(|end| name.ends_with(end)) || path.ends_with(".ci/run") {
            let relative = path.strip_prefix(root).expect("invariant: the walk starts at root");
            let text = fs::read_to_string(&path).expect("text files are UTF-8");
            files.push((relative.to_string_lossy().into_owned(), text));
        }
    }
}

/// Rules of a `Cargo.toml`: lints inherited, dependencies point left.
pub(crate) fn manifest(path: &str, text: &str) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut say = |line: usize, message: String| {
        found.push(Violation { file: path.to_owned(), line, message });
    };
    let own_workspace = path != "Cargo.toml" && text.lines().any(|l| l.trim() == "[workspace]");
    let mut lines = text.lines().map(str::trim).skip_while(|line| *line != "[lints]").skip(1);
    if !own_workspace && !lines.any(|line| line.replace(' ', "") == "workspace=true") {
        say(1, "the workspace's lints are not inherited: add `[lints] workspace = true`".into());
    }
    let Some(krate) = crate_of(path) else { return found };
    let (mut dependencies, mut for_tests) = (false, false);
    for (index, line) in text.lines().enumerate() {
        if line.starts_with('[') {
            dependencies = line.contains("dependencies");
            for_tests = line.starts_with("[dev-dependencies");
        }
        let Some(rest) = line.strip_prefix("tabane-").filter(|_| dependencies) else { continue };
        let name: String = rest.chars().take_while(char::is_ascii_alphanumeric).collect();
        let tested = for_tests && tests_may_name(krate).contains(&name.as_str());
        if !tested && !may_name(krate).contains(&name.as_str()) {
            say(index + 1, format!("{krate} must not depend on {name}: arrows point left"));
        }
    }
    found
}

/// Files that every release has.
pub(crate) fn required(files: &[(String, String)]) -> Vec<Violation> {
    let missing = |name: &&str| !files.iter().any(|(path, _)| path == *name);
    ["README.md", "CHANGELOG.md", "docs/conformance.md", ".ci/run"]
        .iter()
        .filter(|name| missing(name))
        .map(|name| Violation { file: (*name).into(), line: 1, message: "is missing".into() })
        .collect()
}

/// Tests that `docs/conformance.md` names must exist: a name in code type that looks like a test's.
pub(crate) fn named_tests(files: &[(String, String)]) -> Vec<Violation> {
    let path = "docs/conformance.md";
    let Some((_, page)) = files.iter().find(|(file, _)| file == path) else { return Vec::new() };
    let sources = || files.iter().filter(|(file, _)| file.ends_with(".rs"));
    let exists = |name: &str| {
        let (function, setting) = (format!("fn {name}("), format!("pub {name}:"));
        let case = format!("    {name},");
        let has = |text: &str| [&function, &setting, &case].iter().any(|form| text.contains(*form));
        sources().any(|(file, text)| has(text) || file.ends_with(&format!("/{name}")))
    };
    let mut found = Vec::new();
    for (index, line) in page.lines().enumerate() {
        for name in line.split('`').skip(1).step_by(2).filter(|name| looks_like_a_test(name)) {
            if !exists(name) {
                let message = format!("`{name}` is no test or setting: name the one that is");
                found.push(Violation { file: path.to_owned(), line: index + 1, message });
            }
        }
    }
    found
}

/// Requirements of RFC 9293 by its appendix B: `docs/conformance.md` has something on each.
const MUSTS: u32 = 69;

/// Every MUST of RFC 9293 is in the table of them.
pub(crate) fn musts(files: &[(String, String)]) -> Vec<Violation> {
    let path = "docs/conformance.md";
    let Some((_, page)) = files.iter().find(|(file, _)| file == path) else { return Vec::new() };
    let table = page.lines().skip_while(|line| *line != "### RFC 9293, each MUST").skip(1);
    let rows = table.take_while(|line| !line.starts_with('#'));
    let numbers: Vec<u32> = rows
        .filter_map(|line| line.strip_prefix("| ")?.split('|').next())
        .flat_map(|cell| cell.split(','))
        .filter_map(|number| number.trim().parse().ok())
        .collect();
    let missing = (1..=MUSTS).filter(|must| !numbers.contains(must));
    let say = |must| format!("MUST-{must} of RFC 9293 is not in the table: say what is done");
    missing.map(|must| Violation { file: path.to_owned(), line: 1, message: say(must) }).collect()
}

fn looks_like_a_test(name: &str) -> bool {
    let word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let stem = name.strip_suffix(".rs").unwrap_or(name);
    stem.contains('_') && stem.chars().all(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manifests() {
        let lints = "[lints]\nworkspace = true\n";
        let good = format!("{lints}[dependencies]\ntabane-wire.workspace = true\n");
        assert_eq!(manifest("crates/engine/Cargo.toml", &good), []);
        let right = format!("{lints}[dev-dependencies]\ntabane-sim = {{ path = \"../sim\" }}\n");
        let found = manifest("crates/engine/Cargo.toml", &right);
        assert!(found.len() == 1 && found[0].line == 4, "{found:?}");
        assert_eq!(manifest("crates/engine/Cargo.toml", "[package]\n").len(), 1);
    }

    #[test]
    fn tests_that_are_named_must_exist() {
        let page =
            "| x | `a_test`, `a_setting` 3, `ACK`, `gone_test`, `file_of.rs`, `no_file.rs` |";
        let code = "fn a_test() {}\npub a_setting: u8,";
        let file = |path: &str, text: &str| (path.to_owned(), text.to_owned());
        let files = [file("docs/conformance.md", page), file("tests/file_of.rs", code)];
        let found: Vec<String> = named_tests(&files).into_iter().map(|v| v.message).collect();
        let names = |name: &str| found.iter().any(|message| message.starts_with(name));
        assert!(found.len() == 2 && names("`gone_test`") && names("`no_file.rs`"), "{found:?}");
    }

    #[test]
    fn every_must_is_in_the_table() {
        let rows: String =
            (1..=MUSTS).filter(|n| *n != 7).map(|n| format!("| {n}, {n} | x |\n")).collect();
        let page =
            format!("| 7 |\n### RFC 9293, each MUST\n\n| MUST | a |\n{rows}## Next\n| 7 |\n");
        let found = musts(&[("docs/conformance.md".into(), page)]);
        assert!(found.len() == 1 && found[0].message.starts_with("MUST-7 "), "{found:?}");
    }

    #[test]
    fn what_must_be_there() {
        assert_eq!(required(&[("README.md".into(), String::new())]).len(), 3);
    }
}
