//! Tests of the engine from outside, in one program: it is linked once, and they run beside each
//! other. Programs of their own are `musts`, which campaigns of mutants run without the others, and
//! `policy_conformance`, which registers policies for the whole process.
#![allow(clippy::unwrap_used)] // a test that cannot go on shall stop

mod driving;
mod egress;
mod examples;
mod mptcp_again;
mod mptcp_closing;
mod mptcp_fallback;
mod mptcp_hostile;
mod mptcp_mapping;
mod mptcp_musts;
mod mptcp_net;
mod mptcp_paths;
mod mptcp_rs;
mod mptcp_script;
mod mptcp_transfer;
mod mtu;
mod policy_rounds;
mod policy_schedulers;
mod receive_window;
