//! The gateway as people run it: the built binary's `tabane server -c FILE` and `tabane client -c
//! FILE` as processes in network namespaces, with stock programs at both ends.
//!
//! Each test makes two namespaces joined by two links of 100 Mbit/s (see `gateway/world.rs`),
//! downloads 32 MiB by curl from an HTTP server behind `tabane server`, and compares SHA-256.
//! Needs root and a few tools; without them it says SKIPPED, and fails where `CI=true`. How fast
//! anything is, is not judged: the clock is real, and the machine may be busy.
#![allow(clippy::disallowed_methods)] // real packets need the real clock

mod binary;

mod gateway {
    #[path = "../interop/data.rs"]
    mod data;
    #[path = "../interop/link.rs"]
    #[allow(dead_code)] // what other tests use of it
    mod link;
    #[path = "../interop/namespace.rs"]
    mod namespace;
    #[path = "../interop/packet.rs"]
    #[allow(dead_code)]
    mod packet;
    mod pump;
    mod world;

    mod both;
    mod kill_switch;
    mod lan;
    mod leaks;
    mod listeners;
    mod stock;
    mod tun;
}
