//! The observer of a run on the page: the latest figures of each subflow, decisions since the last
//! look, events since the last look.
//!
//! What curves show are *series*: the subflows of a flow (of all copies of it, if it has a `count`)
//! on one path. Its memory is bounded by the scenario, and by [`EVENTS`].

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use tabane_engine::mptcp::{Info, SubflowInfo};
use tabane_engine::record::{ConnectionChange, Record, SubflowChange, What};
use tabane_engine::view::SubflowId;
use tabane_engine::{ConnId, Instant, tcp};
use tabane_sim::observe::{FlowIdx, HostIdx, Layout, LinkIdx, LinkSample, Observer, Wants};
use tabane_sim::topology::{NO_ROUTE, Topology};
use tabane_trace::idle::Decisions;

/// Events kept between two looks; later ones are not told.
const EVENTS: usize = 100;

/// What has been seen.
#[derive(Default)]
pub(crate) struct Watch {
    pub(crate) layout: Layout,
    pub(crate) series: Vec<Series>,
    /// Both ends of each flow's connection.
    pub(crate) ends: BTreeMap<(FlowIdx, HostIdx), End>,
    owners: BTreeMap<(HostIdx, ConnId), FlowIdx>,
    links: Vec<LinkSample>,
    events: Vec<Event>,
}

/// Subflows that share a curve.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Series {
    /// The flow, without the number of its copy.
    pub(crate) flow: String,
    /// Its path, as the host that connects calls it.
    pub(crate) path: String,
}

/// An event, in words; `kind` is for those who translate it.
#[derive(Clone, PartialEq, Debug, serde::Serialize)]
pub(crate) struct Event {
    /// Seconds of the run.
    at: f64,
    kind: &'static str,
    /// The flow or the path that it is about; of a change, the words of it.
    about: String,
    /// More, where there is more.
    detail: String,
}

/// One end of a flow's connection.
#[derive(Default)]
pub(crate) struct End {
    /// By how many the connection had before.
    pub(crate) subflows: BTreeMap<u32, Sub>,
    /// Series by the engine's slot.
    slots: BTreeMap<SubflowId, usize>,
    /// Since the last look.
    pub(crate) decisions: Decisions,
    /// Bytes that wait to be bound to a subflow.
    pub(crate) unsent: u64,
}

/// A subflow, as it was last seen from one end.
#[derive(Clone, Debug)]
pub(crate) struct Sub {
    pub(crate) series: usize,
    pub(crate) info: SubflowInfo,
}

impl Sub {
    /// Whether its connection is neither closed nor closing for good.
    pub(crate) fn is_alive(&self) -> bool {
        !matches!(self.info.state, tcp::State::Closed | tcp::State::TimeWait)
    }
}

/// The observer's handle; [`Watch`] is shared with who looks.
pub(crate) struct Watcher(pub(crate) Rc<RefCell<Watch>>);

impl Watch {
    /// Names the series of a run: those paths of each flow that lead where it goes.
    pub(crate) fn prepare(&mut self, topology: &Topology, layout: Layout) {
        for flow in &layout.flows {
            let (client, server) = (flow.client.0 as usize, flow.server.0 as usize);
            let destination = topology.shared_address(server);
            for (n, path) in topology.hosts[client].paths.iter().enumerate() {
                let series = Series { flow: group(&flow.name), path: path.name.clone() };
                let leads = topology.route(client, n, destination) != NO_ROUTE;
                if leads && !self.series.contains(&series) {
                    self.series.push(series);
                }
            }
        }
        self.links = vec![LinkSample::default(); layout.links.len()];
        self.layout = layout;
    }

    /// Whether a host is the end of a flow that sends most of it.
    pub(crate) fn sends(&self, flow: FlowIdx, host: HostIdx) -> bool {
        let flow = &self.layout.flows[flow.0 as usize];
        host == if flow.download { flow.server } else { flow.client }
    }

    /// A row of figures, as [`crate::Play::sample`] says.
    pub(crate) fn row(&self, now: f64) -> Vec<f64> {
        let mut sums = vec![Sums::default(); self.series.len()];
        for ((flow, host), end) in &self.ends {
            let sends = self.sends(*flow, *host);
            for sub in end.subflows.values() {
                let sum = &mut sums[sub.series];
                match sends {
                    true if sub.is_alive() => sum.add_sender(&sub.info),
                    true => {}
                    false => sum.delivered += sub.info.delivered,
                }
            }
        }
        let mut row = vec![now];
        sums.iter().for_each(|sum| row.extend(sum.columns()));
        for link in &self.links {
            row.extend([link.queued_bytes, link.delivered_bytes, link.lost].map(|n| n as f64));
        }
        row
    }

    /// Events since the last look.
    pub(crate) fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// What a slot of an end is called: the name of its path.
    pub(crate) fn slot_name(&self, end: &End, slot: SubflowId) -> String {
        let series = end.slots.get(&slot).and_then(|n| self.series.get(*n));
        series.map_or_else(|| format!("subflow {}", slot.0), |series| series.path.clone())
    }

    fn tell(&mut self, at: Instant, kind: &'static str, about: String, detail: String) {
        if self.events.len() < EVENTS {
            self.events.push(Event { at: at.0 as f64 / 1e9, kind, about, detail });
        }
    }

    fn series_of(&self, flow: FlowIdx, info: &SubflowInfo) -> Option<usize> {
        let ends = [info.local.ip(), info.remote.ip()];
        let path = self.layout.subflow_path(flow, ends)?;
        let name = group(&self.layout.flows[flow.0 as usize].name);
        self.series.iter().position(|series| series.path == path && series.flow == name)
    }

    /// What the events of a connection say, seen from the end that connects.
    fn note(&mut self, flow: FlowIdx, host: HostIdx, record: &Record) {
        let layout = &self.layout.flows[flow.0 as usize];
        if layout.client != host {
            return;
        }
        let name = layout.name.clone();
        let path = record.subflow.and_then(|slot| {
            let end = self.ends.get(&(flow, host))?;
            end.slots.contains_key(&slot).then(|| self.slot_name(end, slot))
        });
        // Of the first subflow nobody has had a look yet: it is the flow itself that opens.
        let path = path.unwrap_or_else(|| name.clone());
        let (kind, about, detail) = match &record.what {
            What::Subflow(SubflowChange::Established) => ("established", path, name),
            What::Subflow(SubflowChange::Closed(why)) => {
                ("closed", path, format!("{why:?}").to_lowercase())
            }
            What::Subflow(SubflowChange::Backup(true)) => ("backup", path, name),
            What::Subflow(SubflowChange::Backup(false)) => ("active", path, name),
            What::Subflow(SubflowChange::Stale(true)) => ("stale", path, name),
            What::Subflow(SubflowChange::Stale(false)) => ("answers", path, name),
            What::Fallback(why) => ("fallback", name, format!("{why:?}").to_lowercase()),
            What::Connection(ConnectionChange::Closed(why)) => {
                ("ended", name, format!("{why:?}").to_lowercase())
            }
            _ => return,
        };
        self.tell(record.at, kind, about, detail);
    }
}

/// A flow's name without the number of its copy: `type1.3@west` is of `type1@west`.
fn group(name: &str) -> String {
    let (flow, proxy) = name.split_once('@').map_or((name, None), |(f, p)| (f, Some(p)));
    let copy = flow.rsplit_once('.').filter(|(_, n)| n.parse::<u32>().is_ok());
    let flow = copy.map_or(flow, |(flow, _)| flow);
    proxy.map_or_else(|| flow.to_owned(), |proxy| format!("{flow}@{proxy}"))
}

impl Observer for Watcher {
    fn wants(&self) -> Wants {
        Wants { records: true, packets: false, sample: None }
    }

    fn wants_segments(&self) -> bool {
        false
    }

    fn opened(&mut self, _now: Instant, flow: FlowIdx, host: HostIdx, conn: ConnId) {
        let mut watch = self.0.borrow_mut();
        watch.owners.insert((host, conn), flow);
        watch.ends.entry((flow, host)).or_default().decisions.start_over();
    }

    fn record(&mut self, host: HostIdx, record: &Record) {
        // Most records are of single segments.
        if !matches!(
            record.what,
            What::Decision { .. } | What::Subflow(_) | What::Connection(_) | What::Fallback(_)
        ) {
            return;
        }
        let mut watch = self.0.borrow_mut();
        let Some(flow) = record.conn.and_then(|conn| watch.owners.get(&(host, conn)).copied())
        else {
            return;
        };
        if let Some(end) = watch.ends.get_mut(&(flow, host)) {
            end.decisions.record(record);
        }
        watch.note(flow, host, record);
    }

    fn sample(&mut self, _now: Instant, flow: FlowIdx, host: HostIdx, info: &Info) {
        let watch = &mut *self.0.borrow_mut();
        let series: Vec<Option<usize>> =
            info.subflows.iter().map(|subflow| watch.series_of(flow, subflow)).collect();
        let end = watch.ends.entry((flow, host)).or_default();
        end.decisions.take_numbers(info);
        end.unsent = info.written.saturating_sub(info.acked + info.outstanding);
        for (subflow, series) in info.subflows.iter().zip(series) {
            let Some(series) = series else { continue };
            end.slots.insert(subflow.view.id, series);
            end.subflows.insert(subflow.number, Sub { series, info: subflow.clone() });
        }
    }

    fn link_sample(&mut self, _now: Instant, link: LinkIdx, sample: &LinkSample) {
        if let Some(place) = self.0.borrow_mut().links.get_mut(link.0 as usize) {
            *place = *sample;
        }
    }

    fn changed(&mut self, now: Instant, change: &str) {
        self.0.borrow_mut().tell(now, "change", change.to_owned(), String::new());
    }

    fn completed(&mut self, now: Instant, flow: FlowIdx) {
        let mut watch = self.0.borrow_mut();
        let name = watch.layout.flows.get(flow.0 as usize).map(|flow| flow.name.clone());
        watch.tell(now, "completed", name.unwrap_or_default(), String::new());
    }
}

/// Of the subflows of a series.
#[derive(Clone, Default)]
struct Sums {
    delivered: u64,
    alive: u64,
    cwnd: u64,
    in_flight: u64,
    /// Of those that have been measured.
    rtts: u64,
    rtt_nanos: u64,
}

impl Sums {
    fn add_sender(&mut self, info: &SubflowInfo) {
        self.alive += 1;
        self.cwnd += info.view.cwnd;
        self.in_flight += info.view.in_flight;
        let rtt = info.view.srtt.0;
        self.rtts += u64::from(rtt > 0);
        self.rtt_nanos += rtt;
    }

    fn columns(&self) -> [f64; 4] {
        let mean = |sum: u64, count: u64| match count {
            0 => f64::NAN,
            count => sum as f64 / count as f64,
        };
        [
            self.delivered as f64,
            mean(self.cwnd, self.alive),
            mean(self.in_flight, self.alive),
            mean(self.rtt_nanos, self.rtts) / 1e9,
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_of_a_flow_share_their_series() {
        for (name, flow) in
            [("a", "a"), ("a.12", "a"), ("a.b", "a.b"), ("a.3@west", "a@west"), ("a@w", "a@w")]
        {
            assert_eq!(group(name), flow);
        }
    }
}
