//! tabane-net.
