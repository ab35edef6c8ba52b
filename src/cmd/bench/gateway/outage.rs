//! Row `outage`: all links are dead for a while, then bulk goes on.

use super::figure::{Figure, Target, Unit};
use super::scene::Scene;
use super::tell;
use super::trail::Trail;
use crate::bed::flow::Flow;
use crate::bed::source::Source;
use std::sync::atomic::Ordering;
use tabane_engine::Duration;

const ROW: &str = "outage";
/// From when links are back to the next byte.
const RESUMED: Target = Target::new(2.0, 0.5);

/// Before it.
const WARM: Duration = Duration::from_secs(4);
/// How long links are dead, as in the scenario.
const DEAD: Duration = Duration::from_secs(105);
const QUICK: Duration = Duration::from_secs(20);
/// What has not resumed by then counts as that.
const AFTER: Duration = Duration::from_secs(25);
/// Between looks at whether it has resumed.
const GLANCE: Duration = Duration::from_millis(500);

const TEXT: &str = include_str!("../../../../scenarios/links/outage.toml");

/// A download and an upload at once.
///
/// # Errors
/// A flow ends.
pub(super) fn measure(quick: bool) -> anyhow::Result<Vec<Figure>> {
    let dead = if quick { QUICK } else { DEAD };
    let (scene, source) = (Scene::new("outage", TEXT)?, Source::start()?);
    let bed = scene.bed()?;
    let down = Flow::start(bed.clock, bed.socks, source.address())?;
    let up = Flow::upload(bed.clock, bed.socks)?;
    let mut trail = Trail::new("outage", false);
    trail.until(&bed, bed.clock.now() + WARM)?;
    bed.cut.iter().for_each(|cut| cut.store(true, Ordering::Relaxed));
    // What had left the links is still read.
    trail.until(&bed, bed.clock.now() + dead)?;
    bed.cut.iter().for_each(|cut| cut.store(false, Ordering::Relaxed));
    let back = bed.clock.now();
    while bed.clock.now() < back + AFTER && !(down.has_since(back) && up.has_since(back)) {
        trail.until(&bed, bed.clock.now() + GLANCE)?;
    }
    let flows = [("download", down.end()?), ("upload", up.end()?)];
    trail.events(&bed)?;
    bed.end()?;
    let figures: Vec<Figure> = flows
        .iter()
        .map(|(what, arrivals)| {
            let resumed = arrivals.first_after(back).unwrap_or(back + AFTER);
            let value = (resumed.saturating_since(back).as_secs_f64(), Unit::Seconds);
            let title = format!("{what} resumes after {} s without links", dead.as_secs_f64());
            Figure::new(ROW, title, value, RESUMED)
        })
        .collect();
    figures.iter().for_each(tell);
    Ok(figures)
}
