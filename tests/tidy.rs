//! The house rules as a test: sizes, heads of files, forbidden words, direction of dependencies.
//!
//! All violations are reported at once, each as `file:line: what is wrong; what to do`. The rules
//! are in `tidy/rules.rs` (one file), `tidy/vocabulary.rs` (words), `tidy/documents.rs` (paths
//! that are named) and
//! `tidy/workspace.rs` (manifests and the tree). It reads text, with a small lexer that knows
//! comments and strings (`tidy/source.rs`): it does not parse Rust, so a rule that needs types
//! belongs to clippy.

#[path = "tidy/documents.rs"]
mod documents;
#[path = "tidy/rules.rs"]
mod rules;
#[path = "tidy/source.rs"]
mod source;
#[path = "tidy/vocabulary.rs"]
mod vocabulary;
#[path = "tidy/workspace.rs"]
mod workspace;

use source::Source;
use std::fmt;
use std::path::Path;

/// A broken rule, with its remedy.
#[derive(PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Violation {
    file: String,
    line: usize,
    message: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.message)
    }
}

#[test]
fn the_house_rules_hold() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let files = workspace::files(root);
    assert!(files.len() > 20, "found only {} files: is the walk broken?", files.len());
    let mut violations = Vec::new();
    for (path, text) in &files {
        violations.extend(rules::text(path, text));
        if path.ends_with(".rs") {
            violations.extend(rules::source(path, &Source::new(text)));
            violations.extend(vocabulary::source(path, &Source::new(text)));
        }
        if path.ends_with("Cargo.toml") {
            violations.extend(workspace::manifest(path, text));
        }
    }
    violations.extend(documents::paths(root, &files));
    violations.extend(workspace::required(&files));
    violations.extend(workspace::named_tests(&files));
    violations.extend(workspace::musts(&files));
    violations.sort();
    let report: Vec<String> = violations.iter().map(ToString::to_string).collect();
    assert!(report.is_empty(), "{} house rules broken:\n{}", report.len(), report.join("\n"));
}
