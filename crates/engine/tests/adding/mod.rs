//! The scheduler and the controller of `docs/adding.md`, compiled as if they were in the engine,
//! with their rows as the document has them. The test at the end compares them with the document,
//! so that what is read there is what has been compiled and put through the conformance tests.

use tabane_engine::policy::Entry;

/// What `crate::scheduler` has for its policies.
pub(crate) mod scheduler {
    mod fewest_bytes;

    use tabane_engine::policy::Entry;
    use tabane_engine::scheduler::{Build, Reason, Scheduler, Work};

    pub(crate) const ROWS: &[Entry<Build>] = &[Entry {
        name: "fewestbytes",
        aliases: &[],
        summary: "least in flight among those with room",
        params: &[],
        build: &fewest_bytes::FewestBytes::build,
    }];
}

/// What `crate::congestion` has for its policies.
pub(crate) mod congestion {
    mod gentle;
    #[allow(dead_code)] // The example needs a part of it.
    #[path = "../../../src/congestion/window.rs"]
    mod window;

    use tabane_engine::congestion::{
        Ack, Build, CcPhase, CcState, Congestion, CongestionController, CongestionKind, Start,
    };
    use tabane_engine::policy::Entry;

    pub(crate) const ROWS: &[Entry<Build>] = &[Entry {
        name: "gentle",
        aliases: &[],
        summary: "reno that keeps a share of its window at a loss",
        params: gentle::PARAMS,
        build: &gentle::Gentle::build,
    }];
}

/// Makes them known by name, as a program does that embeds the engine.
pub(crate) fn register() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        for row in scheduler::ROWS {
            let row = Entry { ..*row };
            tabane_engine::scheduler::REGISTRY.register(row).expect("a new name");
        }
        for row in congestion::ROWS {
            let row = Entry { ..*row };
            tabane_engine::congestion::REGISTRY.register(row).expect("a new name");
        }
    });
}

/// Blocks of a language, without the indentation of the list that they stand in.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let (mut blocks, mut open) = (Vec::new(), None);
    for line in page.lines() {
        let text = line.trim_start();
        match open {
            None if text == format!("```{language}") => {
                open = Some(line.len() - text.len());
                blocks.push(String::new());
            }
            Some(_) if text == "```" => open = None,
            Some(indent) => {
                let block = blocks.last_mut().expect("invariant: a block is open");
                *block += line.get(indent..).unwrap_or_default();
                block.push('\n');
            }
            None => {}
        }
    }
    blocks
}

#[test]
fn the_document_has_what_was_compiled() {
    let page = include_str!("../../../../docs/adding.md");
    let rust = blocks(page, "rust");
    let plain = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let here = plain(include_str!("mod.rs"));
    let files = [include_str!("scheduler/fewest_bytes.rs"), include_str!("congestion/gentle.rs")];
    let (mut rows, mut found) = (0, [false; 2]);
    for block in &rust {
        if let Some(n) = files.iter().position(|file| block == file) {
            found[n] = true;
        } else {
            assert!(block.starts_with("Entry {"), "not compiled by any test:\n{block}");
            assert!(
                here.contains(plain(block).trim_end_matches(',')),
                "another row than this file's:\n{block}"
            );
            rows += 1;
        }
    }
    assert_eq!((found, rows), ([true; 2], 2), "both files and both rows are in the document");
}
