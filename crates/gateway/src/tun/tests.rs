//! TUN mode on a real kernel: a namespace whose default route is the device, programs that know
//! nothing of it, and the host as it was before, afterwards. Needs root, `ip` and `curl`; without
//! them it says SKIPPED, and fails where `CI=true`.
#![allow(clippy::disallowed_methods)] // real packets need the real clock

mod far;
mod host;
mod namespace;
mod throughput;
mod traffic;
