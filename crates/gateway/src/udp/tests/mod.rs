//! Datagrams of programs between two ends in virtual time, over the simulator's links.

mod bond;
#[path = "../../../tests/quic/mod.rs"]
mod end;
mod quic;
mod voice;
mod world;
