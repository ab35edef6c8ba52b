//! Interoperation with the Linux kernel's TCP and MPTCP, in both roles, over IPv4 and IPv6.
//!
//! Each test makes two namespaces joined by two emulated links (see `interop/world.rs`), moves a
//! file over them, compares it by SHA-256, and prints what it saw: bytes by link, the kernel's own
//! counters. Needs root and a few tools; without them it says SKIPPED, and fails where `CI=true`.
//!
//! `TABANE_INTEROP_FAR=kernel` puts a second kernel where tabane would be: what a scenario gives
//! between two stock stacks, to tell a mistake of the scenario from one of ours.
//! `TABANE_INTEROP_CAPTURE=FOLDER` has tcpdump write what each test's kernel sends and receives.
#![allow(clippy::disallowed_methods)] // real packets need the real clock

mod interop {
    #[path = "../../../../tests/interop/data.rs"]
    mod data;
    mod far;
    mod kernel;
    #[path = "../../../../tests/interop/link.rs"]
    mod link;
    #[path = "../../../../tests/interop/namespace.rs"]
    mod namespace;
    #[path = "../../../../tests/interop/packet.rs"]
    mod packet;
    mod transfers;
    mod world;

    mod fallback;
    mod faults;
    mod paths;
    mod transfer;
}
