//! Datagrams of programs between two ends in virtual time, over the simulator's links.

mod bond;
mod quic;
mod voice;
mod world;
