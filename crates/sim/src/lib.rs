//! A deterministic world of hosts, routers and links around the engine: scenario files in,
//! results out. The same seed gives the same bytes anywhere.
#![forbid(unsafe_code)]

pub mod link;
pub mod seed;

/// The observers of a run, as [`tabane_trace`] defines them for every world.
pub use tabane_trace::observe;
