//! Tests of the simulator from outside, in one program: it is linked once, and they run beside each
//! other. `adding` is a program of its own, since it registers a model for the whole process.
#![allow(clippy::unwrap_used)] // a test that cannot go on shall stop

mod ahead;
mod allocations;
mod both_ways;
mod common;
mod grid;
mod grid_bounds;
mod hedging;
mod links;
mod lives;
mod losses;
mod neighbours;
mod offload;
mod ops;
mod partition;
mod proxy;
mod replay;
mod requests;
mod right;
mod routes;
mod scenario;
mod slow;
mod swarm;
mod table;
mod templates;
mod theory;
mod tunnel;
mod wifi;
