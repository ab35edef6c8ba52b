//! From what a scenario says about a link direction to what the link model is made from.

use crate::link::{DelayConfig, Faults, LinkChange, LinkConfig, LinkError, RateConfig, Trace};
use crate::scenario::{Change, Direction, Fault};
use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;
use tabane_engine::Duration;
use tabane_trace::bounded;

/// Refuses models that do not exist and traces that cannot be read.
pub(crate) fn check(direction: &Direction, at: &[&dyn Display], way: &str) -> Result<(), Fault> {
    let key = |key: &'static str| {
        [at, &[&key as &dyn Display]].concat().iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let place = |k: &'static str, fault: Fault| Fault { at: key(k), ..fault };
    let config = config(direction).map_err(|message| place("trace", Fault::new(&[], message)))?;
    config.check().map_err(|error| match &error {
        LinkError::Model(model) => {
            let queue = crate::link::queue::build(&config.queue).is_err();
            place(if queue { "queue" } else { "loss" }, Fault::policy(&[], model))
        }
        other => Fault::new(at, format!("{other} ({way})")),
    })
}

/// The model of one direction.
///
/// # Errors
/// In words, when a trace file cannot be read.
pub fn config(direction: &Direction) -> Result<LinkConfig, String> {
    let base = LinkConfig::default();
    let rate = match (&direction.rate, &direction.trace) {
        (Some(rate), _) => RateConfig::Constant(rate.0),
        (None, Some(file)) => RateConfig::Trace(Arc::new(read_trace(file)?)),
        (None, None) => RateConfig::Unlimited,
    };
    Ok(LinkConfig {
        rate,
        delay: delay(direction),
        queue: direction.queue.as_ref().map_or(base.queue, |queue| queue.0.clone()),
        loss: direction.loss.as_ref().map_or(base.loss, |loss| loss.0.clone()),
        faults: faults(direction),
        up: true,
    })
}

/// The delay of one direction.
pub fn delay(direction: &Direction) -> DelayConfig {
    let mean = direction.delay.map_or(Duration::ZERO, |delay| delay.0);
    match direction.jitter {
        Some(jitter) => jitter.around(mean),
        None => DelayConfig::Constant(mean),
    }
}

/// The rarer faults of one direction.
pub fn faults(direction: &Direction) -> Faults {
    let share = |ratio: Option<tabane_trace::quantity::Ratio>| ratio.map_or(0.0, |r| r.0);
    Faults {
        duplicate: share(direction.duplicate),
        corrupt: share(direction.corrupt),
        reorder: share(direction.reorder),
        ..Faults::default()
    }
}

/// What `change` means for a direction that is `spec` until now, and `spec` from then on.
pub fn change(spec: &mut Direction, change: &Change) -> LinkChange {
    let mut link = LinkChange::default();
    if change.rate.is_some() {
        (spec.rate, spec.trace) = (change.rate, None);
        link.rate = config(spec).ok().map(|config| config.rate);
    }
    if change.delay.is_some() || change.jitter.is_some() {
        spec.delay = change.delay.or(spec.delay);
        spec.jitter = change.jitter.or(spec.jitter);
        link.delay = Some(delay(spec));
    }
    link.queue = change.queue.as_ref().map(|queue| queue.0.clone());
    link.loss = change.loss.as_ref().map(|loss| loss.0.clone());
    if change.reorder.is_some() || change.duplicate.is_some() || change.corrupt.is_some() {
        spec.reorder = change.reorder.or(spec.reorder);
        spec.duplicate = change.duplicate.or(spec.duplicate);
        spec.corrupt = change.corrupt.or(spec.corrupt);
        link.faults = Some(faults(spec));
    }
    link
}

fn read_trace(file: &str) -> Result<Trace, String> {
    let text = bounded::text(Path::new(file), bounded::DATA);
    let text = text.map_err(|e| format!("trace '{file}': {e}"))?;
    Trace::parse(&text).map_err(|e| format!("trace '{file}': {e}"))
}
