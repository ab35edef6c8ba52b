//! The classifier against tshark, packet by packet and label by label, on random packets: wrapped
//! sequence numbers, missing handshakes, holes, repeats, probes, closed windows, clocks that run
//! backwards, reused ports, MPTCP connections of several subflows.
//!
//! Needs tshark 4.0; says SKIPPED without it, and fails where `CI=true`.
#![allow(clippy::unwrap_used)]

mod tshark {
    pub(crate) mod generate;
    pub(crate) mod run;
}

use tshark::generate::{Kind, generate};
use tshark::run::{compare, has_tshark};

/// A failing seed is all that is needed to see it again: `TABANE_TSHARK_SEED=n`.
fn seeds(standard: std::ops::Range<u64>) -> std::ops::Range<u64> {
    match std::env::var("TABANE_TSHARK_SEED").ok().and_then(|seed| seed.parse().ok()) {
        Some(seed) => seed..seed + 1,
        None => standard,
    }
}

fn agree(kind: Kind, standard: std::ops::Range<u64>) {
    if !has_tshark() {
        return;
    }
    for seed in seeds(standard) {
        let packets = generate(kind, seed, 400);
        compare(&format!("{kind:?}, seed {seed}"), &packets);
    }
}

#[test]
fn plain_tcp() {
    agree(Kind::Plain, 0..4);
}

#[test]
fn mptcp_connections() {
    agree(Kind::Mptcp, 0..4);
}

#[test]
fn small_numbers_where_zero_means_unknown() {
    agree(Kind::Tiny, 0..3);
}
