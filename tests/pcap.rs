//! `tabane pcap` on captures of the simulator and of the Linux kernel: its labels against
//! tshark's, packet by packet; its figures against what the simulator knows; what it says about
//! files that are no captures.
//!
//! The kernel's captures need root, namespaces and a few tools; without them those tests say
//! SKIPPED, and fail where `CI=true`.
#![allow(clippy::unwrap_used)]
#![allow(clippy::disallowed_methods)] // real packets need the real clock

mod binary;
#[path = "../crates/trace/tests/tshark/run.rs"]
mod run;

#[path = "cli/program.rs"]
#[allow(dead_code)]
mod program;

#[path = "interop/namespace.rs"]
#[allow(dead_code)]
mod namespace;

mod pcap {
    mod kernel;
    mod simulated;
    mod subflows;
    mod verb;
}
