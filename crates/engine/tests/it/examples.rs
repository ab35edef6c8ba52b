//! The examples run, and say what they are meant to say. `cargo test` alone only compiles them.
#![allow(dead_code, clippy::duplicate_mod)] // Each is a program of its own, with its network.

#[path = "../../examples/own_policies.rs"]
mod own_policies;
#[path = "../../examples/two_endpoints.rs"]
mod two_endpoints;
#[path = "../../examples/udp.rs"]
mod udp;

#[test]
fn two_endpoints_in_memory() {
    two_endpoints::main().unwrap();
}

#[test]
fn policies_from_outside_the_crate() {
    own_policies::main().unwrap();
}

#[test]
fn an_endpoint_over_udp_sockets() {
    udp::main().unwrap();
}
