//! A recording of links that vary, made in the simulator, exported, and run again; and the verbs
//! for it. What is recorded is what an agent could know: what each end of a path counts, markers
//! every 50 ms with the sender's clock, round-trip times. How near replays of real agents are is
//! measured by `tabane bench gateway whatif`.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)] // Helpers of tests fail the test.

mod binary;

mod record {
    mod cases;
    mod feed;
    mod replay;

    mod commands;
}
