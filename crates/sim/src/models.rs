//! From what a scenario says about a link direction to what the link model is made from.

use crate::link::{DelayConfig, Faults, LinkChange, LinkConfig, LinkError, RateConfig, Trace};
use crate::scenario::{Fault, LinkParams, Stage};
use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;
use tabane_trace::bounded;

/// Refuses models that do not exist and traces that cannot be read.
pub(crate) fn check(params: &LinkParams, at: &[&dyn Display], way: &str) -> Result<(), Fault> {
    let key = |key: &'static str| {
        [at, &[&key as &dyn Display]].concat().iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let place = |k: &'static str, fault: Fault| Fault { at: key(k), ..fault };
    let config = config(params).map_err(|message| place("trace", Fault::new(&[], message)))?;
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
pub fn config(params: &LinkParams) -> Result<LinkConfig, String> {
    let base = LinkConfig::default();
    let rate = match &params.trace {
        Some(file) if params.rate.is_none() => RateConfig::Trace(Arc::new(read_trace(file)?)),
        _ => RateConfig::of(params),
    };
    Ok(LinkConfig {
        rate,
        delay: DelayConfig::of(params),
        queue: params.queue.as_ref().map_or(base.queue, |queue| queue.0.clone()),
        loss: params.loss.as_ref().map_or(base.loss, |loss| loss.0.clone()),
        faults: Faults::of(params),
        up: true,
    })
}

/// What it means for a direction with `params` that it gets those of `over`, and `params` from
/// then on.
pub fn change(params: &mut LinkParams, over: &LinkParams) -> LinkChange {
    params.lay(over);
    let params = &*params;
    LinkChange {
        rate: over.shapes(Stage::Rate).then(|| RateConfig::of(params)),
        delay: over.shapes(Stage::Delay).then(|| DelayConfig::of(params)),
        queue: over.queue.as_ref().map(|queue| queue.0.clone()),
        loss: over.loss.as_ref().map(|loss| loss.0.clone()),
        faults: over.shapes(Stage::Faults).then(|| Faults::of(params)),
        up: None,
    }
}

fn read_trace(file: &str) -> Result<Trace, String> {
    let text = bounded::text(Path::new(file), bounded::DATA);
    let text = text.map_err(|e| format!("trace '{file}': {e}"))?;
    Trace::parse(&text).map_err(|e| format!("trace '{file}': {e}"))
}
