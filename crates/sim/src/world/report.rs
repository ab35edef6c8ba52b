//! What a world tells: names for observers, samples on the way, results at the end.

use super::{FlowState, World};
use crate::observe::{
    FlowLayout, HostIdx, HostLayout, Layout, LinkIdx, LinkLayout, LinkSample, PathLayout,
};
use crate::result::{
    Cost, FlowDetail, FlowResult, LatencyResult, LinkResult, RunResult, SubflowResult,
};
use crate::scenario::Scenario;
use crate::topology::Topology;
use tabane_engine::Instant;
use tabane_engine::mptcp::{Info, SubflowInfo};
use tabane_engine::view::PathId;

/// The names behind the indices.
pub(super) fn layout(
    scenario: &Scenario,
    topology: &Topology,
    flows: &[FlowState],
    end: Instant,
) -> Layout {
    let paths = |host: usize| {
        let named = topology.hosts[host].paths.iter().enumerate();
        named.map(move |(n, path)| PathLayout {
            id: PathId(n as u8),
            name: path.name.clone(),
            addresses: vec![topology.address(host, n), topology.shared_address(host)],
        })
    };
    Layout {
        scenario: scenario.name.clone(),
        seed: scenario.seed,
        end,
        hosts: (topology.hosts.iter().enumerate())
            .map(|(n, h)| HostLayout { name: h.name.clone(), paths: paths(n).collect() })
            .collect(),
        links: (topology.links.iter())
            .map(|l| LinkLayout { name: l.name.clone(), from: l.from.clone(), to: l.to.clone() })
            .collect(),
        flows: (flows.iter().map(|f| f.leg(0)))
            .chain(flows.iter().flat_map(|f| (1..=f.relays.len()).map(|k| f.leg(k))))
            .map(|leg| FlowLayout {
                name: match leg.number {
                    0 => leg.flow.name.clone(),
                    // The connection that a proxy opened for it.
                    _ => format!("{}@{}", leg.flow.name, topology.hosts[leg.client.0].name),
                },
                client: HostIdx(leg.client.0 as u32),
                server: HostIdx(leg.server.0 as u32),
                download: leg.flow.download,
            })
            .chain(topology.tunnels.iter().zip(scenario.tunnel.names()).map(|(ends, name)| {
                let [client, server] = ends.map(|end| HostIdx(end as u32));
                FlowLayout { name: name.to_owned(), client, server, download: true }
            }))
            .collect(),
    }
}

impl World<'_> {
    /// Pictures of all that goes on.
    pub(super) fn sample(&mut self) {
        (0..self.flows.len()).for_each(|n| self.sample_flow(n));
        for n in 0..self.links.len() {
            let link = &mut self.links[n].link;
            let (backlog, stats) = (link.backlog(self.now), link.stats(self.now));
            let sample = LinkSample {
                queued_bytes: backlog.bytes,
                queued_packets: backlog.packets,
                delivered: stats.delivered.packets,
                delivered_bytes: stats.delivered.bytes,
                lost: self.lost(n),
            };
            self.observer.link_sample(self.now, LinkIdx(n as u32), &sample);
        }
        (0..self.tunnels.len()).for_each(|n| self.sample_tunnel(n));
    }

    /// Pictures of both ends of a flow.
    pub(super) fn sample_flow(&mut self, n: usize) {
        let flow = &self.flows[n];
        if flow.gone {
            return;
        }
        let mut gone = flow.done;
        for k in 0..=flow.relays.len() {
            let leg = flow.leg(k);
            let idx = flow.leg_idx(n, k);
            for (host, conn) in [leg.client, leg.server] {
                let endpoint = &mut self.hosts[host].endpoint;
                if let Some(connection) = conn.and_then(|id| endpoint.connection(id)) {
                    gone = false;
                    let info = connection.info(self.now);
                    self.observer.sample(self.now, idx, HostIdx(host as u32), &info);
                }
            }
        }
        self.flows[n].gone = gone;
    }

    /// Packets that a link direction has lost so far.
    fn lost(&mut self, link: usize) -> u64 {
        let stats = self.links[link].link.stats(self.now);
        let too_long = self.links[link].too_long;
        stats.dropped.packets + stats.lost.packets + stats.cut.packets + too_long
    }

    /// How a flow stands now.
    pub(super) fn flow_result(&mut self, n: usize) -> FlowResult {
        let flow = &self.flows[n];
        let bytes = flow.app.delivered();
        let elapsed = match flow.app.completed() {
            Some(at) => at - flow.start,
            None => self.now - flow.start,
        };
        let seconds = elapsed.as_secs_f64();
        let rate = |bytes: u64| if seconds > 0.0 { bytes as f64 * 8.0 / seconds } else { 0.0 };
        let hops = self.hop_results(n, seconds);
        let flow = &self.flows[n];
        let last = flow.leg(if flow.download { 0 } else { flow.relays.len() });
        let connecting = last.client.0;
        let (sink, conn) = if flow.download { last.client } else { last.server };
        let connection = conn.and_then(|id| self.hosts[sink].endpoint.connection(id));
        let info = connection.map(|c| c.info(self.now)).unwrap_or_default();
        let flow = &self.flows[n];
        let mut result = FlowResult {
            name: flow.name.clone(),
            bytes,
            completed_s: flow.app.completed().map(|_| seconds),
            goodput_bps: rate(bytes),
            subflows: Vec::new(),
            hops,
            latency: flow.app.latencies().and_then(LatencyResult::of),
            failed: flow.failed.clone(),
            corrupt_at: flow.app.wrong_at(),
            closed: flow.closed,
            detail: FlowDetail {
                latencies: flow.app.latencies().map_or_else(Vec::new, |l| l.nanos.clone()),
                stall: flow.app.stall(self.now, flow.start),
                began: flow.start - Instant::ZERO,
            },
        };
        result.subflows = self.subflows(&info, connecting, seconds);
        result
    }

    /// What the subflows of a connection have delivered at its receiving end.
    pub(super) fn subflows(&self, info: &Info, client: usize, seconds: f64) -> Vec<SubflowResult> {
        let rate = |bytes: u64| if seconds > 0.0 { bytes as f64 * 8.0 / seconds } else { 0.0 };
        let subflows = info.subflows.iter().map(|subflow| SubflowResult {
            path: self.path_of(client, subflow),
            bytes: subflow.delivered,
            goodput_bps: rate(subflow.delivered),
        });
        subflows.collect()
    }

    /// Name of a subflow's path at the host that connected: its address there tells.
    fn path_of(&self, client: usize, subflow: &SubflowInfo) -> String {
        let paths = &self.topology.hosts[client].paths;
        let ends = [subflow.local.ip(), subflow.remote.ip()];
        let found = (0..paths.len()).find(|p| ends.contains(&self.topology.address(client, *p)));
        found.map_or_else(|| "?".to_owned(), |p| paths[p].name.clone())
    }

    pub(super) fn into_result(mut self) -> RunResult {
        let flows = (0..self.flows.len())
            .map(|n| match self.flows[n].result.take() {
                Some(mut result) => {
                    // What was compared or measured after completion counts too.
                    result.corrupt_at = self.flows[n].app.wrong_at();
                    result.closed = self.flows[n].closed;
                    *result
                }
                None => self.flow_result(n),
            })
            .collect();
        let tunnels = self.tunnel_results();
        let links = (0..self.links.len())
            .map(|n| {
                let delivered = self.links[n].link.stats(self.now).delivered;
                let end = &self.topology.links[n];
                LinkResult {
                    link: end.name.clone(),
                    from: end.from.clone(),
                    to: end.to.clone(),
                    packets: delivered.packets,
                    bytes: delivered.bytes,
                    lost: self.lost(n),
                    frames: self.links[n].link.frames(),
                }
            })
            .chain(tunnels)
            .collect();
        let nodes = || self.topology.hosts.iter().zip(&self.hosts);
        let too_long = nodes().map(|(end, node)| (end.name.clone(), node.too_long));
        let too_long = too_long.filter(|(_, count)| *count > 0).collect();
        let nodes = nodes().take(self.topology.first_end()).zip(&self.asleep);
        let open = nodes
            .filter(|(_, asleep)| self.scenario.closing && **asleep <= self.end)
            .map(|((end, node), _)| (end.name.clone(), node.endpoint.connections()))
            .filter(|(_, count)| *count > 0)
            .collect();
        RunResult {
            scenario: self.scenario.name.clone(),
            seed: self.scenario.seed,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            ended_s: self.now.as_secs_f64(),
            flows,
            links,
            too_long,
            open,
            cost: Cost { packet_hops: self.hops, ..Cost::default() },
        }
    }
}
