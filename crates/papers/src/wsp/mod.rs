//! Paper `wsp` (S6): the evaluation of Multipath QUIC by experimental design (De Coninck and
//! Bonaventure, after Paasch et al.): 253 scenarios in each of four classes, chosen by WSP, and
//! from either path a file of 20 MB; how much of the second path each stack adds to the first.
//!
//! What the paper does not state is in `papers/wsp/README.md`. Not here: QUIC.

mod design;
mod figures;
mod measure;
mod queues;
mod tell;
mod why;

use crate::context::Context;
use crate::report::Report;
use crate::{Paper, PaperError, Source};
use design::CLASSES;
use measure::{Measured, STACKS};
use std::fmt::Write as _;

/// The row of this paper.
pub(crate) const PAPER: Paper = Paper {
    name: "wsp",
    alias: "s6",
    title: "Aggregation benefit over an experimental design",
    source: Some(Source {
        authors: &["Quentin De Coninck", "Olivier Bonaventure"],
        title: "Multipath QUIC: Design and Evaluation",
        venue: "ACM CoNEXT",
        year: 2017,
        doi: "10.1145/3143361.3143370",
    }),
    summary: "253 scenarios of two paths in each of four classes, a file of 20 MB from either \
              path; beyond: never slower than the best path alone",
    inventory: include_str!("../../../../papers/wsp/inventory.csv"),
    run,
};

/// Scenarios of a class, in the paper and here.
const SCENARIOS: usize = 253;

fn run(context: &Context<'_>) -> Result<Report, PaperError> {
    let mut report = Report::new(&PAPER, context);
    let points = design::design(SCENARIOS, context.pick(Some(6), None));
    let mut all = Vec::new();
    for class in CLASSES.iter().enumerate() {
        all.extend(measure::class(context, class, &points)?);
    }
    assumptions(&mut report);
    tell::tell(&mut report, &all);
    why::behind(context, &mut report, &all)?;
    queues::run(context, &mut report, &points)?;
    report.figures = figures::distributions(&all);
    report.files.push(("points.csv".to_owned(), csv(&all).into_bytes()));
    Ok(report)
}

/// Every run.
fn csv(all: &[Measured]) -> String {
    let mut out = String::from(
        "class,stack,begins_on,capacity_1_mbps,rtt_1_ms,queueing_1_ms,loss_1_percent,\
         capacity_2_mbps,rtt_2_ms,queueing_2_ms,loss_2_percent,alone_1_mbps,alone_2_mbps,\
         together_mbps,benefit\n",
    );
    for one in all {
        for (n, stack) in STACKS.iter().enumerate() {
            for from in [0, 1] {
                let _ = write!(out, "{},{},{}", CLASSES[one.class].id, stack.id, from + 1);
                for path in &one.paths {
                    let design::Path { capacity, rtt, queueing, loss } = path;
                    let _ = write!(out, ",{capacity:.2},{rtt:.2},{queueing:.1},{loss:.2}");
                }
                let [first, second] = one.alone(n);
                let (together, benefit) = (one.together[n][from], one.benefit(n, from));
                let _ = writeln!(out, ",{first:.3},{second:.3},{together:.3},{benefit:.4}");
            }
        }
    }
    out
}

fn assumptions(report: &mut Report) {
    report.assume(
        "points of the design",
        "253 by WSP from 2000 random ones in the published ranges",
        "the authors' own are not in the paper; the same points in each class, as in their scripts",
    );
    report.assume(
        "queue",
        "queueing delay x capacity, at least 10 packets, drop-tail, both ways",
        "the table's words; the authors' scripts have a bandwidth-delay product more: see the \
         table of queues",
    );
    report.assume("losses", "of each packet by itself, both ways", "netem's loss in the scripts");
    report.assume(
        "protocols of single paths",
        "TCP CUBIC for the stacks with CUBIC and OLIA, MPTCP with cubicd over one path for others",
        "the paper compares MPTCP with OLIA with TCP CUBIC; ours with itself",
    );
    report.assume(
        "buffers",
        "receive 256 KiB to 16 MiB (CUBIC, OLIA: 87380 bytes to 16 MiB), send 16 MiB",
        "receive: the gateway's, and tcp_rmem of the scripts; send buffers are not stated",
    );
    report.assume(
        "TLS and HTTP",
        "none: the file begins with the connection",
        "the paper's took a TLS handshake more, of two round trips, with one path and with two",
    );
    report.assume(
        "initial path",
        "that of the design",
        "a gateway chooses it itself (hedging), so that the worst path first is no case of its own",
    );
    report.assume(
        "repetitions",
        "1",
        "the paper has the median of 3; without losses all are the same here",
    );
}
