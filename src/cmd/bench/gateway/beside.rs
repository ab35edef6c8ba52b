//! What stands beside the link rows: the kernel's MPTCP with BBR over the same emulated links, in
//! network namespaces, without a tunnel. Needs root.

use super::figure::{Figure, Unit};
use super::scene::Scene;
use crate::say;
use std::sync::atomic::AtomicBool;
use tabane_engine::{Duration, Instant};
use tabane_lab::{LabError, LabResult, Stack};
use tabane_sim::observe::Silent;

/// What the kernel's stack did, if it could be asked.
pub(super) struct Beside(Option<Measured>);

struct Measured {
    result: LabResult,
    /// Bits per second.
    attainable: f64,
}

/// Whose figures these are.
pub(super) const WHOSE: &str = "the kernel's MPTCP with BBR, without a tunnel";

impl Beside {
    /// Runs the scenario for so long, its flows as `sets` have them; not in a quick run.
    pub(super) fn kernel(scene: &Scene, length: Duration, sets: &[String], quick: bool) -> Self {
        let measured = if quick { Ok(None) } else { measure(scene, length, sets) };
        Self(measured.unwrap_or_else(|error| {
            say::note(&format!("  beside it: none of {WHOSE}: {error:#}"));
            None
        }))
    }

    /// With what its downloads or uploads got.
    pub(super) fn goodput(&self, figure: Figure) -> Figure {
        let Some(Measured { result, attainable }) = &self.0 else { return figure };
        let bulk = result.run.flows.iter().filter(|flow| flow.latency.is_none());
        let bps: f64 = bulk.map(|flow| flow.goodput_bps).sum();
        debug_assert!(figure.unit == Unit::Share, "goodputs are shares of what is attainable");
        figure.beside(bps / attainable)
    }

    /// With how long its answers took, of the shares that results have.
    pub(super) fn latency(&self, share: f64, figure: Figure) -> Figure {
        let flows = self.0.iter().flat_map(|measured| &measured.result.run.flows);
        match flows.filter_map(|flow| flow.latency.as_ref()).next() {
            Some(latency) if share <= 0.5 => figure.beside(latency.p50_s),
            Some(latency) if share <= 0.95 => figure.beside(latency.p95_s),
            Some(latency) => figure.beside(latency.p99_s),
            None => figure,
        }
    }
}

fn measure(scene: &Scene, length: Duration, sets: &[String]) -> anyhow::Result<Option<Measured>> {
    let mut all = vec![
        "defaults.congestion=bbr".to_owned(),
        format!("duration={}s", length.as_secs_f64().ceil()),
    ];
    all.extend_from_slice(sets);
    let plan = scene.with(&all)?;
    let upload = sets.iter().any(|set| set.ends_with("=upload"));
    let attainable = scene.attainable(upload, Instant::ZERO, Instant::ZERO + length)?;
    let run = tabane_lab::run(&plan, Stack::Kernel, &mut Silent, &AtomicBool::new(false));
    let result = match run {
        Err(LabError::Privilege) => {
            say::note(&format!("  beside it: none of {WHOSE}: network namespaces need root"));
            return Ok(None);
        }
        other => other?,
    };
    if let Some(why) = &result.accuracy.poor {
        say::note(&format!("  beside it: the accuracy of that run is poor: {why}"));
    }
    Ok(Some(Measured { result, attainable }))
}
