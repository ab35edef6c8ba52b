//! From what a scenario says about a link direction to what the link model is made from.

use crate::link::{DelayConfig, Faults, LinkConfig, LinkError, RateConfig, Trace};
use crate::scenario::{Direction, Fault, policy_fault};
use std::fmt::Display;
use std::sync::Arc;
use tabane_engine::Duration;

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
            place(if queue { "queue" } else { "loss" }, policy_fault(&[], model))
        }
        other => Fault::new(at, format!("{other} ({way})")),
    })
}

/// The model of one direction.
///
/// # Errors
/// In words, when a trace file cannot be read.
pub(crate) fn config(direction: &Direction) -> Result<LinkConfig, String> {
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
pub(crate) fn delay(direction: &Direction) -> DelayConfig {
    let mean = direction.delay.map_or(Duration::ZERO, |delay| delay.0);
    match direction.jitter {
        Some(jitter) => jitter.around(mean),
        None => DelayConfig::Constant(mean),
    }
}

/// The rarer faults of one direction.
pub(crate) fn faults(direction: &Direction) -> Faults {
    let share = |ratio: Option<crate::quantity::Ratio>| ratio.map_or(0.0, |r| r.0);
    Faults {
        duplicate: share(direction.duplicate),
        corrupt: share(direction.corrupt),
        reorder: share(direction.reorder),
        ..Faults::default()
    }
}

fn read_trace(file: &str) -> Result<Trace, String> {
    let text = std::fs::read_to_string(file).map_err(|e| format!("trace '{file}': {e}"))?;
    Trace::parse(&text).map_err(|e| format!("trace '{file}': {e}"))
}
