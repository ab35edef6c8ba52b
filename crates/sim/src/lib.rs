//! tabane-sim.
