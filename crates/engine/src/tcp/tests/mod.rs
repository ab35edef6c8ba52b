//! Subflows against each other over a small virtual link, and against a scripted peer, by RFC
//! section. What a subflow has pending is visible only in its segments, counters and records.
#![allow(clippy::unwrap_used)]

mod hostile;
mod pair;
mod script;
mod transfer;
