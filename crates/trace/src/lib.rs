//! tabane-trace.
