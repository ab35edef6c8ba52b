//! The units as installed, under a real systemd: their users, folders, copies of files and limits,
//! and what a service's owner does with them.
//!
//! systemd runs as PID 1 of namespaces of its own (`service/boot.sh`). Needs root, systemd and
//! unshare; without them it says SKIPPED, and fails where `CI=true`.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)] // Helpers of tests; the clock is real.

mod binary;

mod service {
    mod machine;

    mod units;
}
