//! Helpers for hosts that stay on the Linux kernel's own TCP and MPTCP (`tabane kernel`): eBPF
//! programs, compiled beforehand (`bpf/`), and what loads them.
//!
//! - [`steer`]: `bicast` (what a host sends leaves by all its interfaces) and `hayack` (pure ACKs
//!   leave by the fastest), as classifiers at clsact egress.
//! - [`cc`]: congestion controls `highspeed` and `ghstcp`, as struct_ops.
//!
//! Whatever is loaded stays when the program that loaded it ends, until it is taken away: nothing
//! runs in user space meanwhile, and nothing is pinned to a file system. Reading objects and
//! relocating them to the running kernel is the crate aya-obj's; the system call is ours
//! (`sys`, the only `unsafe`), since no crate that fits registers struct_ops
//! (docs/adr/0008-stock-kernel-helpers.md).

pub mod cc;
mod error;
mod kernel;
mod object;
pub mod steer;
mod sys;

pub use error::Error;
