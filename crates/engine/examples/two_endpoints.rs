//! Two endpoints in memory, two paths between them: a transfer uses both.
//!
//! `cargo run --release -p tabane-engine --example two_endpoints`

mod network;

use bytes::Bytes;
use network::{Link, config, transfer};
use tabane_engine::Duration;

pub(crate) fn main() -> Result<(), String> {
    let wifi = Link { delay: Duration::from_millis(10), rate: 2_500_000 };
    let lte = Link { delay: Duration::from_millis(30), rate: 1_250_000 };
    let data = Bytes::from(vec![7; 5_000_000]);
    let outcome = transfer(config(1, 2), &[wifi, lte], data.clone())?;
    let seconds = outcome.took.as_secs_f64();
    println!("5 MB in {seconds:.2} s: {:.1} Mbit/s", data.len() as f64 * 8e-6 / seconds);
    for (path, bytes) in &outcome.sent {
        println!("path {}: {bytes} bytes", path.0);
    }
    Ok(())
}
