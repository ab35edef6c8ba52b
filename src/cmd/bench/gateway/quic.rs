//! Row `quic`: a download by QUIC through the gateway, with `udp = "bond"`.
//!
//! QUIC is quinn's, which only a build with the feature `quic` contains; others say so.

use super::figure::Target;
#[cfg(not(feature = "quic"))]
use super::figure::{Figure, Unit};

/// Of the sum of both links alone, and of the better one of them.
const SUM: Target = Target::new(0.85, 0.90);
const BEST: Target = Target::new(0.98, 1.5);
/// Fewer than one: QUIC takes what comes late for lost.
const ORDER: Target = Target::new(0.5, 0.0);

/// Speed of a download by QUIC.
///
/// # Errors
/// A gateway that does not start, or a download that does not.
#[cfg(not(feature = "quic"))]
pub(super) fn measure(_quick: bool) -> anyhow::Result<Vec<Figure>> {
    let why = "built without QUIC: cargo build --release --features quic";
    let figure = |what, unit, target| Figure::skipped("quic", what, unit, target, why);
    Ok(vec![
        figure("of the sum of the links", Unit::Share, SUM),
        figure("of the better link", Unit::Share, BEST),
        figure("datagrams out of order", Unit::Count, ORDER),
    ])
}

#[cfg(feature = "quic")]
pub(super) use with_quic::measure;

#[cfg(feature = "quic")]
mod with_quic;
