//! A target under libFuzzer: `TABANE_FUZZ=NAME tabane-fuzz FOLDER... [-flag=value...]`; see
//! `.ci/fuzz`, which builds it with coverage, and docs/adr/0009-fuzzing.md.

#![no_main]

use std::sync::OnceLock;
use tabane_fuzz::{ALL, Target, find};

libfuzzer_sys::fuzz_target!(|data: &[u8]| (chosen().run)(data));

fn chosen() -> &'static Target {
    static CHOSEN: OnceLock<&'static Target> = OnceLock::new();
    CHOSEN.get_or_init(|| {
        let name = std::env::var("TABANE_FUZZ").unwrap_or_default();
        find(&name).unwrap_or_else(|| {
            let names: Vec<_> = ALL.iter().map(|target| target.name).collect();
            eprintln!("TABANE_FUZZ names the target, one of {}", names.join(" "));
            std::process::exit(2);
        })
    })
}
