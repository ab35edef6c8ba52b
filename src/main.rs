//! The one binary of tabane.
fn main() {}
