//! tabane-engine.
