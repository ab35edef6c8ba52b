//! `tabane kernel` on the kernel that runs here: the compiled programs load, do what they say to
//! the kernel's own TCP and MPTCP in network namespaces, and leave nothing behind.
//!
//! The place is in `kernel/world.rs`. Needs root and a few tools; without them it says SKIPPED, and
//! fails where `CI=true`. The links are right to about a millisecond, and no test is of speed: what
//! is compared are counts, round-trip times that differ by a factor, and growth by acknowledged
//! segment.
#![allow(clippy::unwrap_used)]
#![allow(clippy::disallowed_methods)] // real packets need the real clock

mod binary;
#[path = "cli/program.rs"]
#[allow(dead_code)]
mod program;

mod kernel {
    #[path = "../interop/data.rs"]
    #[allow(dead_code)]
    mod data;
    #[path = "../interop/link.rs"]
    #[allow(dead_code)]
    mod link;
    #[path = "../interop/namespace.rs"]
    #[allow(dead_code)]
    mod namespace;
    #[path = "../interop/packet.rs"]
    #[allow(dead_code)]
    mod packet;
    mod world;

    mod cc;
    mod steer;
}
