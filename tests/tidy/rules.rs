//! The rules that look at one file: sizes, heads, forbidden words, direction of `use`.

use crate::Violation;
use crate::source::Source;

const FILE_LINES: usize = 600;
const FUNCTION_LINES: usize = 70;
const LINE_CHARS: usize = 100;

/// Crates that are sans-I/O: no `unsafe`, no clock, no unordered collections.
const PURE: &[&str] = &["wire", "engine", "config", "trace", "sim", "papers"];

/// What each crate may name, from left to right in the design's arrow.
pub(crate) const MAY_NAME: &[(&str, &[&str])] = &[
    ("wire", &[]),
    ("engine", &["wire"]),
    ("config", &["engine"]),
    ("trace", &["wire", "engine"]),
    ("sim", &["wire", "engine", "config", "trace"]),
    ("papers", &["wire", "engine", "config", "trace", "sim"]),
    ("play", &["wire", "engine", "config", "trace", "sim"]),
    ("net", &["wire", "engine"]),
    ("interop", &["wire", "engine", "net"]),
    ("record", &["engine", "config"]),
    ("learned", &["engine", "config"]),
    ("gateway", &["wire", "engine", "config", "net", "record"]),
    ("kernel", &["net"]),
    ("lab", &["wire", "engine", "trace", "sim", "net"]),
    ("python", &["engine", "config", "trace", "sim", "learned", "papers"]),
    ("fuzz", &["wire", "engine", "trace", "sim", "net", "gateway"]),
];

/// Words that stand for unfinished or ambient things, with the remedy; not in the pure crates.
const NOT_PURE: &[(&str, &str)] = &[
    ("HashMap", "BTreeMap, slab or a table with a stated order"),
    ("HashSet", "BTreeSet"),
    ("SystemTime", "time is an argument"),
    ("thread_rng", "randomness comes from a seed"),
];

/// Rules of any text file of the project.
pub(crate) fn text(path: &str, text: &str) -> Vec<Violation> {
    let mut found = Vec::new();
    let banned = banned_words();
    let code = [".rs", ".py", ".sh"].iter().any(|end| path.ends_with(end)) || path == ".ci/run";
    for (index, line) in text.lines().enumerate() {
        let mut say = |message: String| {
            found.push(Violation { file: path.to_owned(), line: index + 1, message });
        };
        let chars = line.chars().count();
        if code && chars > LINE_CHARS {
            say(format!("{chars} characters in a line, allowed are {LINE_CHARS}: break it"));
        }
        let lower = line.to_lowercase();
        for (word, remedy) in &banned {
            if lower.contains(word.as_str()) {
                say(format!("'{word}' has no place here: {remedy}"));
            }
        }
    }
    found
}

/// Rules of a Rust file.
pub(crate) fn source(path: &str, source: &Source) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut say = |line: usize, message: String| {
        found.push(Violation { file: path.to_owned(), line, message });
    };
    sizes(path, source, &mut say);
    words(path, source, &mut say);
    // The interoperation tests have a binary of their own, which reads nothing of the host.
    if !path.starts_with("tests/binary/") && !path.starts_with("crates/interop/") {
        // Read as text: what stands in `env!` is a string.
        for (at, _) in source.text.match_indices(&["CARGO_BIN", "_EXE"].concat()) {
            let remedy = "a test starts the binary by `tests/binary`, where it cannot see the host";
            say(source.line_of(at), remedy.into());
        }
    }
    if let Some(krate) = crate_of(path) {
        arrows(path, krate, source, &mut say);
    }
    if path.starts_with("crates/engine/src/") {
        engine(path, source, &mut say);
    }
    found
}

fn sizes(path: &str, source: &Source, say: &mut impl FnMut(usize, String)) {
    if !source.text.starts_with("//!") {
        say(1, "no `//!` head: say what it is, which RFC section, what it does not do".into());
    }
    let modules = source.test_modules();
    let tests: usize = modules.iter().map(|(first, last)| last + 1 - first).sum();
    let lines = source.text.lines().count().saturating_sub(tests);
    if !is_test_file(path) && lines > FILE_LINES {
        say(1, format!("{lines} lines without tests, allowed are {FILE_LINES}: split by concern"));
    }
    for function in source.functions() {
        let lines = function.last + 1 - function.first;
        if lines > FUNCTION_LINES {
            let message = format!(
                "fn {} has {lines} lines, allowed are {FUNCTION_LINES}: take out a step",
                function.name
            );
            say(function.first, message);
        }
    }
}

fn words(path: &str, source: &Source, say: &mut impl FnMut(usize, String)) {
    for word in ["todo", "unimplemented", "dbg"] {
        for at in source.words(word) {
            if source.code[at + word.len()..].starts_with('!') {
                let remedy = "finish it, or leave it out and say so in the docs";
                say(source.line_of(at), format!("`{word}!`: {remedy}"));
            }
        }
    }
    let Some(krate) = crate_of(path) else { return };
    let mut ban = |word: &str, remedy: &str| {
        for at in source.words(word) {
            say(source.line_of(at), format!("`{word}`: {remedy}"));
        }
    };
    if PURE.contains(&krate) {
        ban("unsafe", "not in this crate");
        for (word, remedy) in NOT_PURE {
            ban(word, remedy);
        }
        // An example may be a driver, and a driver is where the clock is.
        if !path.contains("/examples/") {
            for (at, _) in source.code.match_indices("Instant::now") {
                say(source.line_of(at), "`Instant::now`: time is an argument".into());
            }
        }
        if path.ends_with("src/lib.rs") && !source.code.contains("#![forbid(unsafe_code)]") {
            say(1, "no `#![forbid(unsafe_code)]`".into());
        }
    }
}

fn arrows(path: &str, krate: &str, source: &Source, say: &mut impl FnMut(usize, String)) {
    let allowed = may_name(krate);
    for (at, _) in source.code.match_indices("tabane_") {
        let name: String =
            source.code[at + 7..].chars().take_while(char::is_ascii_alphanumeric).collect();
        let known = MAY_NAME.iter().any(|row| row.0 == name);
        let tested = is_test_file(path) && tests_may_name(krate).contains(&name.as_str());
        if known && name != krate && !tested && !allowed.contains(&name.as_str()) {
            say(source.line_of(at), format!("{krate} must not name {name}: arrows point left"));
        }
    }
}

/// Inside the engine: `tcp` below `mptcp`, policies apart, nothing for tests alone.
fn engine(path: &str, source: &Source, say: &mut impl FnMut(usize, String)) {
    for line in source.test_only_items() {
        say(line, "test-only code: make it a record or part of `info()`".into());
    }
    let folder = path.trim_start_matches("crates/engine/src/").split('/').next().unwrap_or("");
    if folder == "tcp" {
        for place in ["crate::mptcp", "super::mptcp"] {
            for (at, _) in source.code.match_indices(place) {
                say(source.line_of(at), "tcp must not name mptcp: return a value instead".into());
            }
        }
    }
    let policy = ["scheduler", "congestion", "egress"].contains(&folder) && !is_test_file(path);
    let tests = source.test_modules();
    for (at, tree) in source.uses() {
        let line = source.line_of(at);
        let in_tests = tests.iter().any(|(first, last)| (*first..=*last).contains(&line));
        if folder == "tcp" && names_mptcp(&tree) {
            say(line, "tcp must not name mptcp: return a value instead".into());
        }
        if policy && !in_tests && !policy_may_use(folder, &tree) {
            let message = format!(
                "`use {tree}`: a policy names only view, time, seq, policy and SeqNum; \
                 pass the rest in as a value"
            );
            say(line, message);
        }
    }
}

/// `use crate::{mptcp, …}`; wire's module of the same name is another matter.
fn names_mptcp(tree: &str) -> bool {
    let Some(rest) = tree.strip_prefix("crate::{").or_else(|| tree.strip_prefix("super::{")) else {
        return false;
    };
    let mut depth = 0;
    rest.split_inclusive([',', '{', '}']).any(|part| {
        let top = depth == 0;
        depth += i32::from(part.ends_with('{')) - i32::from(part.ends_with('}'));
        top && part
            .trim()
            .split("::")
            .next()
            .is_some_and(|name| name.trim_end_matches([',', '}', ' ']) == "mptcp")
    })
}

fn policy_may_use(folder: &str, tree: &str) -> bool {
    let may = |module: &str| {
        ["view", "time", "seq", "policy", folder].contains(&module.trim_matches([' ', ',', '}']))
    };
    let module = |path: &str| path.split("::").next().unwrap_or("").to_owned();
    if let Some(several) = tree.strip_prefix("crate::{") {
        // Only the outermost names of the braces matter.
        let mut depth = 0;
        return several.split_inclusive([',', '{', '}']).all(|part| {
            let top = depth == 0;
            depth += i32::from(part.ends_with('{')) - i32::from(part.ends_with('}'));
            let name = module(part.trim());
            !top || name.trim_matches([' ', ',', '}']).is_empty() || may(&name)
        });
    }
    match tree.split_once("::") {
        Some(("crate", rest)) => may(&module(rest)),
        Some(("tabane_wire", rest)) => rest == "SeqNum" || rest == "seq::SeqNum",
        Some(("super", rest)) => !rest.starts_with("super::"),
        _ => true,
    }
}

/// What `krate` may name.
pub(crate) fn may_name(krate: &str) -> &'static [&'static str] {
    MAY_NAME.iter().find(|row| row.0 == krate).map_or(&[], |row| row.1)
}

/// What only the tests of `krate` may name: what paths do is tried on the simulator's links.
pub(crate) fn tests_may_name(krate: &str) -> &'static [&'static str] {
    if ["gateway", "learned"].contains(&krate) { &["sim"] } else { &[] }
}

/// `engine` of `crates/engine/…`.
pub(crate) fn crate_of(path: &str) -> Option<&str> {
    if path.starts_with("python/") {
        return Some("python");
    }
    path.strip_prefix("crates/")?.split('/').next()
}

fn is_test_file(path: &str) -> bool {
    let mut parts = path.split('/');
    parts.any(|part| ["tests", "benches", "tests.rs"].contains(&part))
        || path.ends_with("_tests.rs")
}

/// Words that must not appear anywhere, written so that this list does not contain them.
fn banned_words() -> Vec<(String, &'static str)> {
    let join = |parts: &[&str]| parts.concat();
    let machine = "an absolute path of one machine; use a relative one or a temporary directory";
    let registry = "registries are the package manager's business";
    let tooling = "the project speaks of itself only";
    vec![
        (join(&["fix", "me"]), "fix it, or state the limit in the docs"),
        (join(&["/wo", "rk/"]), machine),
        (join(&["/ro", "ot/"]), machine),
        (join(&["/ho", "me/"]), machine),
        (join(&["crates", ".io/"]), registry),
        (join(&["py", "pi."]), registry),
        (join(&["deb.", "debian.org"]), registry),
        (join(&["cla", "ude"]), tooling),
        (join(&["anth", "ropic"]), tooling),
        (join(&["co", "pilot"]), tooling),
        (join(&["chat", "gpt"]), tooling),
        (join(&["language", " model"]), tooling),
        (join(&["co-auth", "ored-by"]), tooling),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(path: &str, code: &str) -> Vec<String> {
        let found = source(path, &Source::new(code));
        found.into_iter().map(|v| format!("{} {}", v.line, v.message)).collect()
    }

    fn one(path: &str, code: &str, part: &str) {
        let found = messages(path, &format!("//! Head.\n{code}"));
        assert!(found.len() == 1 && found[0].contains(part), "{path}: {code}: {found:?}");
    }

    fn none(path: &str, code: &str) {
        assert_eq!(messages(path, &format!("//! Head.\n{code}")), [""; 0], "{path}: {code}");
    }

    #[test]
    fn heads_and_sizes() {
        assert_eq!(messages("src/a.rs", "fn a() {}").len(), 1);
        let long = "\n".repeat(FILE_LINES);
        one("src/a.rs", &long, "601 lines");
        none("src/a.rs", &format!("{}#[cfg(test)]\nmod tests {{{long}}}\n", "\n".repeat(590)));
        none("crates/engine/src/tcp/tests.rs", &long);
        let body = "\n".repeat(FUNCTION_LINES - 1);
        none("src/a.rs", &format!("fn a() {{{body}}}"));
        one("src/a.rs", &format!("fn a() {{\n{body}}}"), "fn a has 71 lines");
    }

    #[test]
    fn unfinished_and_ambient_things() {
        one("crates/net/src/a.rs", "fn a() { todo!() }", "`todo!`");
        none(
            "crates/net/src/a.rs",
            "fn todo() { let a = Instant::now(); let m = HashMap::new(); }",
        );
        one("crates/sim/src/a.rs", "use std::time; fn a() { time::Instant::now() }", "time is an");
        none("crates/engine/examples/a.rs", "fn a() { time::Instant::now() }");
        one("crates/sim/src/a.rs", "fn a(_: HashMap<u8, u8>) {}", "BTreeMap");
        none("crates/sim/src/a.rs", "// HashMap\nconst A: &str = \"HashMap\";");
        one("crates/wire/src/a.rs", "fn a() { unsafe { b() } }", "`unsafe`");
        one("crates/wire/src/lib.rs", "mod a;", "forbid");
        none("crates/wire/src/lib.rs", "#![forbid(unsafe_code)]");
    }

    #[test]
    fn tests_start_the_binary_by_its_helper() {
        let by_hand = ["Command::new(env!(\"CARGO_BIN", "_EXE_tabane\"))"].concat();
        one("tests/a.rs", &by_hand, "cannot see the host");
        none("tests/binary/mod.rs", &by_hand);
    }

    #[test]
    fn arrows_point_left() {
        one("crates/engine/src/a.rs", "use tabane_sim::World;", "must not name sim");
        one("crates/net/src/a.rs", "fn a() { tabane_sim::b() }", "must not name sim");
        none("crates/sim/src/a.rs", "use tabane_engine::Endpoint;");
        one("crates/engine/src/tcp/a.rs", "use crate::mptcp::Connection;", "tcp must not");
        one("crates/engine/src/tcp/a.rs", "use crate::{seq::{A, B}, mptcp};", "tcp must not");
        none("crates/engine/src/tcp/a.rs", "use tabane_wire::mptcp::Dss;");
    }

    #[test]
    fn policies_stay_apart() {
        let path = "crates/engine/src/scheduler/a.rs";
        none(path, "use crate::view::{SubflowSet, SubflowView};\nuse super::{Work, Scheduler};");
        none(path, "use crate::{view::{A, B}, time::Instant};");
        one(path, "use crate::tcp::Tcb;", "a policy names only");
        one(path, "use crate::{view::A, mptcp::B};", "a policy names only");
        one(path, "use tabane_wire::Segment;", "a policy names only");
        one(path, "#[cfg(test)]\nfn peek() {}", "test-only");
        none(path, "#[cfg(test)]\nmod tests {\n  use crate::tcp::Tcb;\n}");
    }

    #[test]
    fn lines_and_words() {
        let long = "x".repeat(LINE_CHARS + 1);
        assert_eq!(text("a.rs", &long).len(), 1);
        assert_eq!(text("a.md", &long).len(), 0);
        assert_eq!(text("a.md", &["see /wo", "rk/x"].concat()).len(), 1);
        assert_eq!(text("a.toml", &["# FIX", "ME"].concat())[0].line, 1);
    }
}
