//! Every target on its seeds, on the committed corpus, and on mutations of both, a short while.
//!
//! What `.ci/fuzz` finds is committed to `corpus/NAME/` and is a regression test from then on.
//! `PROPTEST_CASES=N` tries N mutations instead.

#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{TestError, TestRunner};
use std::path::{Path, PathBuf};
use tabane_fuzz::{ALL, Target, find};

/// Inputs are at most this long, as in `.ci/fuzz`.
const INPUT_MAX: usize = 4096;

fn folder(target: &Target) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target.name)
}

/// Seeds and corpus, in order of name.
fn inputs(target: &Target) -> Vec<(String, Vec<u8>)> {
    let seeds = (target.seeds)().into_iter().enumerate();
    let mut inputs: Vec<_> = seeds.map(|(n, bytes)| (format!("seed {n}"), bytes)).collect();
    let mut files: Vec<PathBuf> = match std::fs::read_dir(folder(target)) {
        Ok(entries) => entries.map(|entry| entry.unwrap().path()).collect(),
        Err(_) => Vec::new(),
    };
    files.sort();
    for file in files {
        let bytes = std::fs::read(&file).unwrap();
        inputs.push((file.display().to_string(), bytes));
    }
    inputs
}

/// Runs an input; one that fails is named first.
fn run(target: &Target, name: &str, bytes: &[u8]) {
    let result = std::panic::catch_unwind(|| (target.run)(bytes));
    if let Err(panic) = result {
        println!("{} failed on {name}", target.name);
        std::panic::resume_unwind(panic);
    }
}

/// A change to an input.
#[derive(Clone, Debug)]
enum Edit {
    Flip(Index, u8),
    Set(Index, u8),
    Cut(Index),
    Insert(Index, Vec<u8>),
    Copy(Index, Index, u8),
    /// The rest comes from another input.
    Splice(Index, Index),
}

fn edit() -> impl Strategy<Value = Edit> {
    let at = any::<Index>;
    prop_oneof![
        (at(), 0_u8..8).prop_map(|(at, bit)| Edit::Flip(at, bit)),
        (at(), prop::sample::select(vec![0, 1, 0x7f, 0x80, 0xff]))
            .prop_map(|(a, b)| Edit::Set(a, b)),
        (at(), any::<u8>()).prop_map(|(at, byte)| Edit::Set(at, byte)),
        at().prop_map(Edit::Cut),
        (at(), prop::collection::vec(any::<u8>(), 1..20)).prop_map(|(a, b)| Edit::Insert(a, b)),
        (at(), at(), 1_u8..40).prop_map(|(from, to, len)| Edit::Copy(from, to, len)),
        (at(), at()).prop_map(|(input, at)| Edit::Splice(input, at)),
    ]
}

fn apply(bytes: &mut Vec<u8>, edit: &Edit, others: &[(String, Vec<u8>)]) {
    let place = |at: &Index| at.index(bytes.len() + 1);
    match edit {
        Edit::Flip(at, bit) if !bytes.is_empty() => {
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
        }
        Edit::Set(at, byte) if !bytes.is_empty() => {
            let at = at.index(bytes.len());
            bytes[at] = *byte;
        }
        Edit::Flip(..) | Edit::Set(..) => {}
        Edit::Cut(at) => bytes.truncate(place(at)),
        Edit::Insert(at, new) => {
            let at = place(at);
            bytes.splice(at..at, new.iter().copied());
        }
        Edit::Copy(from, to, len) => {
            let (from, to) = (place(from), place(to));
            let end = bytes.len().min(from + usize::from(*len));
            let piece = bytes[from..end].to_vec();
            bytes.splice(to..to, piece);
        }
        Edit::Splice(input, at) => {
            let other = &others[input.index(others.len())].1;
            bytes.truncate(place(at));
            bytes.extend(&other[bytes.len().min(other.len())..]);
        }
    }
    bytes.truncate(INPUT_MAX);
}

fn check(name: &str) {
    let target = find(name).unwrap();
    let inputs = inputs(target);
    for (name, bytes) in &inputs {
        run(target, name, bytes);
    }
    let drawn = (any::<Index>(), prop::collection::vec(edit(), 1..12));
    let config = ProptestConfig {
        failure_persistence: None,
        max_shrink_iters: 300,
        ..ProptestConfig::default()
    };
    let made = |start: &Index, edits: &[Edit]| {
        let mut bytes = inputs[start.index(inputs.len())].1.clone();
        edits.iter().for_each(|edit| apply(&mut bytes, edit, &inputs));
        bytes
    };
    let result = TestRunner::new(config).run(&drawn, |(start, edits)| {
        (target.run)(&made(&start, &edits));
        Ok(())
    });
    if let Err(TestError::Fail(why, (start, edits))) = result {
        let bytes = made(&start, &edits);
        let shown: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        panic!("{name} failed: {why}\non the bytes {shown}");
    }
}

/// A test for each target, by its name.
macro_rules! targets {
    ($($name:ident,)*) => {
        $(
            #[test]
            fn $name() {
                check(stringify!($name));
            }
        )*

        #[test]
        fn every_target_is_tested() {
            let all: Vec<_> = ALL.iter().map(|target| target.name).collect();
            assert_eq!(all, [$(stringify!($name)),*]);
        }
    };
}

targets! {
    packet,
    options,
    endpoint,
    scenario,
    capture,
    client_config,
    server_config,
    invitation,
    negotiation,
    names,
    tunnel,
    inner,
}

#[test]
fn the_corpus_is_of_known_targets_and_small() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let mut bytes = 0;
    for entry in std::fs::read_dir(corpus).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        assert!(find(&name).is_some(), "{name} is no target");
        for file in std::fs::read_dir(path).unwrap() {
            let len = file.unwrap().metadata().unwrap().len();
            assert!(len <= INPUT_MAX as u64, "an input of {name} has {len} bytes");
            bytes += len;
        }
    }
    assert!(bytes < 2 << 20, "the corpus has {bytes} bytes: minimise it (.ci/fuzz --merge)");
}
