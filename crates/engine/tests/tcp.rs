//! Subflows against each other over a small virtual link, and against a scripted peer, by RFC
//! section. What a subflow has pending is visible only in its segments, counters and records.
#![allow(clippy::unwrap_used)]

#[path = "tcp/hostile.rs"]
mod hostile;
#[path = "tcp/pair.rs"]
mod pair;
#[path = "tcp/script.rs"]
mod script;
#[path = "tcp/transfer.rs"]
mod transfer;
