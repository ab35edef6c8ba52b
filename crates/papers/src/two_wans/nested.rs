//! TCP within the bundle: a second run over a link that delivers what the bundle delivered.
//!
//! The outer connection is taken as always backlogged: its in-order deliveries are the chances to
//! send of the inner one. What the inner one does not use is lost to it, as in a tunnel; the outer
//! one does not slow down for it, which a real one would when the inner one is idle.

use super::{Course, Runs, settings};
use crate::PaperError;
use crate::context::{Context, Job};
use tabane_config::quantity::{Rate, Time};
use tabane_engine::Duration;
use tabane_sim::scenario::{Change, LinkDirection};

const TEXT: &str = "\
duration = \"10s\"
[link.tunnel]
rate = \"1Gbps\"
delay = \"15ms\"
queue = \"4MiB\"
mtu = 1348
[defaults]
congestion = \"cubic\"
mptcp = false
tcp = { receive_buffer_max = \"6MiB\", send_buffer = \"4MiB\" }
[[flow]]
name = \"inner\"
bulk = \"unlimited\"
";

/// An inner connection over each run of the bundle.
pub(super) fn run(context: &Context<'_>, outer: &[Runs]) -> Result<Vec<Runs>, PaperError> {
    let mut jobs = Vec::new();
    for course in outer.iter().flat_map(|runs| &runs.0) {
        let job = Job::new("nested.toml", TEXT, &[])?;
        jobs.push(job.with(|scenario| scenario.at = changes(course))?);
    }
    let all = context.watch("TCP within the bundle", &jobs, settings())?;
    let mut all = all.iter().map(|(_, seen)| Course::of(seen, "inner", "client"));
    let runs = outer.iter().map(|runs| Runs(all.by_ref().take(runs.0.len()).collect()));
    Ok(runs.collect())
}

/// The tunnel's rate, second by second; never quite zero, so that it can be told again.
fn changes(course: &Course) -> Vec<Change> {
    let change = |(second, rate): (usize, &f64)| Change {
        time: Time(Duration::from_secs(second as u64)),
        link: Some("tunnel".to_owned()),
        direction: Some(LinkDirection::Down),
        rate: Some(Rate((rate * 1e6).max(1e5) as u64)),
        ..Change::default()
    };
    course.0.iter().enumerate().map(change).collect()
}
