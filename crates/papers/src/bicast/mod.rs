//! Paper `bicast` (S1): client-side constant bicast for MPTCP. A file over Wi-Fi that loses
//! packets in both directions, with LTE as backup; with and without copies of what the client
//! sends.
//!
//! What the paper does not state is in `papers/bicast/README.md`.

mod best;
mod capture;
mod figures;
mod offload;
mod table;
mod why;

use crate::context::Context;
use crate::report::Report;
use crate::{Paper, PaperError};

/// The row of this paper.
pub(crate) const PAPER: Paper = Paper {
    name: "bicast",
    alias: "s1",
    title: "Client-side constant bicast for MPTCP on a multihomed terminal",
    source: None,
    summary: "500 MB over lossy Wi-Fi with LTE as backup, 132 cells; beyond: within 5 % of the sum \
              of the links in every cell",
    inventory: include_str!("../../../../papers/bicast/inventory.csv"),
    run,
};

/// The scenario of the tables.
const TABLE: (&str, &str) =
    ("papers/bicast/table.toml", include_str!("../../../../papers/bicast/table.toml"));

/// Bytes of the file.
const BYTES: f64 = 500e6;

fn run(context: &Context<'_>) -> Result<Report, PaperError> {
    let mut report = Report::new(&PAPER, context);
    report.seeds = context.seeds(context.pick(1, 3));
    let grid = table::run(context, &mut report)?;
    table::claims(&grid, &mut report);
    table::base_rtt(context, &grid, &mut report)?;
    capture::check(context, &mut report)?;
    why::explain(context, &grid, &mut report)?;
    offload::compare(context, &grid, &mut report)?;
    best::run(context, &grid, &mut report)?;
    assumptions(&mut report);
    Ok(report)
}

fn assumptions(report: &mut Report) {
    report.assume("queues", "127 packets, drop-tail", "default of the router's emulator");
    report.assume("congestion control", "cubic, SACK, timestamps", "the kernel's default");
    report.assume("packets", "1500 bytes of IP, 1428 of payload", "Ethernet, DSS of 20 bytes");
    report.assume("MB", "10^6 bytes", "otherwise 41.4 s would be more than the link carries");
    let why = "the published times were measured without a relay";
    report.assume("relay", "none in the tables, one in the check by capture", why);
}

/// Uplink loss of the rows, percent.
fn rows(quick: bool) -> Vec<u8> {
    if quick { vec![0, 5, 10] } else { (0..=10).collect() }
}

/// Downlink loss of the columns, percent.
const COLUMNS: [u8; 6] = [0, 1, 2, 3, 4, 5];

#[cfg(test)]
mod tests;
