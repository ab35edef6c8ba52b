//! A scenario made ready to run: checked, names resolved, links made into models, files read. The
//! simulator and the lab start from it; runs that differ only in their seed share it.

use crate::expand::{Table, expand};
use crate::link::{
    ConditionsConfig, DelayConfig, Faults, Link, LinkConfig, LinkError, Packet, RateConfig, Series,
    Trace, loss, medium, queue,
};
use crate::scenario::{self, Conditions, Fault, LinkParams, Scenario, validate};
use crate::seed::Seed;
use crate::topology::{DEFAULT_MTU, Topology, check_mtu};
use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;
use tabane_config::bounded;
use tabane_engine::Duration;
use tabane_engine::policy::Spec;

/// What [`Scenario::compile`] makes.
#[derive(Clone, Debug)]
pub struct Plan {
    /// As it was written, with its templates.
    pub source: Arc<Scenario>,
    /// What these stand for, and the rest.
    pub scenario: Arc<Scenario>,
    pub topology: Arc<Topology>,
    /// Link directions, as in the topology.
    pub links: Arc<[LinkPlan]>,
    /// What it was made from besides, where another seed makes another network.
    templates: Option<Arc<Traces>>,
}

/// One direction of a link.
#[derive(Clone, Debug)]
pub struct LinkPlan {
    /// All that the scenario says about it.
    pub params: LinkParams,
    /// What it is made from.
    pub config: LinkConfig,
    /// Largest IP packet, bytes.
    pub mtu: u16,
    /// Of its random streams: `link/wifi/up`.
    name: String,
}

/// Files of measured rates and conditions that have been read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Traces {
    /// Texts of files that are not on the disk, by name.
    given: Arc<[(String, String)]>,
    rates: BTreeMap<String, Arc<Trace>>,
    conditions: BTreeMap<String, Arc<Series>>,
    tables: BTreeMap<String, Arc<Table>>,
}

impl Traces {
    /// None read yet; these files are not on the disk.
    pub(crate) fn given(files: &[(String, String)]) -> Self {
        Self { given: files.into(), ..Self::default() }
    }

    /// A file of values, flows or links.
    ///
    /// # Errors
    /// In words.
    pub(crate) fn table(&mut self, file: &str) -> Result<Arc<Table>, String> {
        read(file, &self.given, &mut self.tables, Table::parse)
            .map_err(|text| text.replacen("trace ", "", 1))
    }
}

impl Scenario {
    /// Checks it and makes it ready. Files that it names are read now, not when it runs.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn compile(&self) -> Result<Plan, Fault> {
        self.compile_with(&mut Traces::default())
    }

    /// As [`Scenario::compile`]; what is in `traces` is not read again.
    pub(crate) fn compile_with(&self, traces: &mut Traces) -> Result<Plan, Fault> {
        let source = Arc::new(self.clone());
        let Some(expanded) = expand(self, traces)? else {
            return Plan::build(source.clone(), source, traces);
        };
        let plan = Plan::build(source, expanded.scenario.clone(), traces);
        let templates = Some(Arc::new(traces.clone()));
        plan.map(|plan| Plan { templates, ..plan }).map_err(|fault| expanded.relocate(fault))
    }
}

impl Plan {
    /// Of a scenario without templates.
    fn build(
        source: Arc<Scenario>,
        scenario: Arc<Scenario>,
        traces: &mut Traces,
    ) -> Result<Self, Fault> {
        validate::settings(&scenario)?;
        let links = links(&scenario, traces)?.into();
        let topology = Topology::build(&scenario)?;
        validate::events(&scenario, &topology)?;
        Ok(Self { source, scenario, topology: Arc::new(topology), links, templates: None })
    }

    /// The same with another seed. Templates are drawn anew from it.
    ///
    /// # Errors
    /// What is wrong with what they make of this seed.
    pub fn with_seed(&self, seed: u64) -> Result<Self, Fault> {
        let source = Scenario { seed, ..Scenario::clone(&self.source) };
        match &self.templates {
            Some(traces) => source.compile_with(&mut Traces::clone(traces)),
            None => {
                let scenario = Arc::new(source);
                Ok(Self { source: scenario.clone(), scenario, ..self.clone() })
            }
        }
    }

    /// Both directions of a link, up first.
    pub fn link(&self, name: &str) -> Option<&[LinkPlan; 2]> {
        let n = self.scenario.link.position(name)?;
        self.links[2 * n..].first_chunk()
    }
}

impl LinkPlan {
    fn new(
        name: &str,
        link: &scenario::Link,
        up: bool,
        traces: &mut Traces,
    ) -> Result<Self, Fault> {
        let (params, way) = (link.direction(up), if up { "up" } else { "down" });
        let at: &[&dyn Display] = &[&"link", &name];
        let conditions = conditions(&params, traces)
            .map_err(|text| Fault::new(&[&"link", &name, &"conditions"], text))?;
        let has_rate = conditions.as_ref().is_some_and(ConditionsConfig::has_rate);
        let rate = match (&params.rate, &params.trace) {
            (None, None) if has_rate => RateConfig::Unlimited,
            _ if has_rate => {
                let message = format!("link '{name}' has a rate beside that of its conditions");
                return Err(Fault::new(at, format!("{message} ({way})")));
            }
            (None, None) => {
                let message = format!("link '{name}' has no rate ({way})");
                return Err(Fault::new(at, message).help("add rate = \"20Mbps\""));
            }
            (Some(_), Some(_)) => {
                return Err(Fault::new(
                    at,
                    format!("link '{name}' has a rate and a trace ({way})"),
                ));
            }
            (Some(_), None) => RateConfig::of(&params),
            (None, Some(file)) => RateConfig::Trace(
                read(file, &traces.given, &mut traces.rates, Trace::parse)
                    .map_err(|text| Fault::new(&[&"link", &name, &"trace"], text))?,
            ),
        };
        let base = LinkConfig::default();
        let config = LinkConfig {
            rate,
            delay: DelayConfig::of(&params),
            queue: params.queue.as_ref().map_or(base.queue, |queue| queue.0.clone()),
            loss: params.loss.as_ref().map_or(base.loss, |loss| loss.0.clone()),
            faults: Faults::of(&params),
            conditions,
            medium: link.medium.as_ref().map(|medium| medium.0.clone()),
            up: true,
        };
        config.check().map_err(|error| match &error {
            LinkError::Model(model) => {
                let wrong = |spec: &Spec| medium::build(spec).is_err();
                let key = match (queue::build(&config.queue), loss::build(&config.loss)) {
                    (Err(_), _) => "queue",
                    (_, Err(_)) => "loss",
                    _ if config.medium.as_ref().is_some_and(wrong) => "medium",
                    _ => "conditions",
                };
                Fault::policy(&[&"link", &name, &key], model)
            }
            LinkError::NoMediumRate => {
                let fault = Fault::new(&[&"link", &name, &"medium"], format!("{error} ({way})"));
                fault.help("add rate = \"54Mbps\"")
            }
            LinkError::MediumChanges => {
                let fault = Fault::new(&[&"link", &name, &"conditions"], error.to_string());
                fault.help("leave conditions or medium out")
            }
            other => Fault::new(at, format!("{other} ({way})")),
        })?;
        let mtu = link.mtu.unwrap_or(DEFAULT_MTU);
        Ok(Self { params, config, mtu, name: format!("link/{name}/{way}") })
    }

    /// Of its random streams: `link/wifi/up`, whatever other links there are.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Bits per second that it can send on average in the first `time` of a run with this seed.
    ///
    /// # Errors
    /// None where the plan was compiled.
    pub fn mean_rate(&self, seed: u64, time: Duration) -> Result<f64, LinkError> {
        self.config.mean_rate(Seed(seed), &self.name, time)
    }

    /// The link that it says.
    ///
    /// # Errors
    /// [`LinkError::Alone`], for a medium; no other where the plan was compiled: its parameters
    /// have been checked.
    pub fn build<P: Packet>(&self, seed: u64) -> Result<Link<P>, LinkError> {
        Link::new(&self.config, Seed(seed), &self.name)
    }

    /// Both directions of a link, up first, on one medium if they have one.
    ///
    /// # Errors
    /// None where the plan was compiled.
    pub fn both<P: Packet>(pair: &[Self; 2], seed: u64) -> Result<[Link<P>; 2], LinkError> {
        let [up, down] = pair;
        Link::both([&up.config, &down.config], Seed(seed), [&up.name, &down.name])
    }
}

fn links(scenario: &Scenario, traces: &mut Traces) -> Result<Vec<LinkPlan>, Fault> {
    if scenario.link.is_empty() {
        return Err(Fault::new(&[&"link"], "there is no link")
            .help("add [link.wifi] with rate = \"20Mbps\" and delay = \"10ms\""));
    }
    let mut plans = Vec::new();
    for (name, link) in scenario.link.iter() {
        for up in [true, false] {
            plans.push(LinkPlan::new(name, link, up, traces)?);
        }
        check_mtu(link.mtu, &[&"link", &name, &"mtu"])?;
    }
    Ok(plans)
}

/// Where a direction's conditions come from; files are read.
fn conditions(
    params: &LinkParams,
    traces: &mut Traces,
) -> Result<Option<ConditionsConfig>, String> {
    Ok(match &params.conditions {
        None => None,
        Some(Conditions::Model(spec)) => Some(ConditionsConfig::Model(spec.clone())),
        Some(Conditions::File(file)) => {
            let series = read(file, &traces.given, &mut traces.conditions, Series::parse)?;
            Some(ConditionsConfig::Series(series))
        }
    })
}

/// What a file holds; files in `known` are not read again, those in `given` not from the disk.
fn read<T, E: Error>(
    file: &str,
    given: &[(String, String)],
    known: &mut BTreeMap<String, Arc<T>>,
    parse: impl FnOnce(&str) -> Result<T, E>,
) -> Result<Arc<T>, String> {
    if let Some(trace) = known.get(file) {
        return Ok(trace.clone());
    }
    let text = match given.iter().find(|(name, _)| name == file) {
        Some((_, text)) => text.clone(),
        None => bounded::text(Path::new(file), bounded::DATA)
            .map_err(|e| format!("trace '{file}': {e}"))?,
    };
    let trace = Arc::new(parse(&text).map_err(|e| format!("trace '{file}': {e}"))?);
    known.insert(file.to_owned(), trace.clone());
    Ok(trace)
}
