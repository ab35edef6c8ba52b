//! A recording of links that vary, made in the simulator, exported, and run again: under the
//! policies of the recording it gives what was measured, and under others it tells which is better.
//!
//! What is recorded is what an agent could know: what each end of a path counts, markers every
//! 50 ms with the sender's clock, round-trip times. `all_ten_sets` takes minutes and is run by
//! hand: `cargo test --release --test record -- --ignored --nocapture`.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)] // Helpers of tests fail the test.

mod binary;

mod record {
    mod cases;
    mod feed;
    mod replay;

    mod commands;
}
