//! A deterministic world of hosts, routers and links around the engine: scenario files in,
//! results out. The same seed gives the same bytes anywhere.
//!
//! [`scenario::Document`] reads a file and makes a [`Plan`] of each scenario in it, [`run`] runs
//! one under the eyes of an [`observe::Observer`], [`sweep::run`] runs every point of a sweep on
//! all cores.
#![forbid(unsafe_code)]

pub mod app;
pub mod attainable;
pub mod check;
mod expand;
pub mod grid;
pub mod link;
pub mod output;
mod packet;
pub mod pattern;
mod plan;
mod prefetch;
pub mod relay;
pub mod result;
pub mod scenario;
mod schedule;
pub mod seed;
pub mod swarm;
pub mod sweep;
pub mod topology;
pub mod what_if;
mod world;

pub use plan::{LinkPlan, Plan};
pub use world::{RunError, World, change_connection, engine_config, run};

/// The observers of a run, as [`tabane_trace`] defines them for every world.
pub use tabane_trace::observe;
