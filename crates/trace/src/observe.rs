//! What a world tells those who watch it: the simulator calls an [`Observer`], and every table,
//! plot, capture and check is one.
//!
//! Times are simulated (or real) nanoseconds since the driver's origin. An observer is told only
//! what its [`Wants`] asks for, because records and packets cost time; everything that it does
//! not implement is ignored.

use std::net::IpAddr;
use tabane_engine::mptcp::Info;
use tabane_engine::record::Record;
use tabane_engine::view::PathId;
use tabane_engine::{ConnId, Duration, Instant};
use tabane_wire::Segment;

/// Somebody who watches a run.
pub trait Observer {
    /// What it wants to be told. Asked once, before `begin`.
    fn wants(&self) -> Wants {
        Wants::default()
    }
    /// Whether records of single segments are wanted, where records are; they cost most.
    fn wants_segments(&self) -> bool {
        true
    }
    /// The run starts; the names behind the indices.
    fn begin(&mut self, _layout: &Layout) {}
    /// A connection of a flow exists at a host (once at each of its two ends).
    fn opened(&mut self, _now: Instant, _flow: FlowIdx, _host: HostIdx, _conn: ConnId) {}
    /// A record of a host's engine (`wants().records`).
    fn record(&mut self, _host: HostIdx, _record: &Record) {}
    /// A packet passes a point (`wants().packets`).
    fn packet(&mut self, _point: CapturePoint, _now: Instant, _segment: &Segment) {}
    /// A packet was lost in a link direction (`wants().packets`); `cause` is one word or two.
    fn lost(&mut self, _link: LinkIdx, _now: Instant, _cause: &'static str, _segment: &Segment) {}
    /// A picture of a flow's connection at one of its two hosts, every `wants().sample`, when the
    /// flow completes and at the end of the run (if the connection still exists).
    fn sample(&mut self, _now: Instant, _flow: FlowIdx, _host: HostIdx, _info: &Info) {}
    /// A picture of a link direction, every `wants().sample`.
    fn link_sample(&mut self, _now: Instant, _link: LinkIdx, _sample: &LinkSample) {}
    /// Something was changed on the world, in words ("wifi down").
    fn changed(&mut self, _now: Instant, _change: &str) {}
    /// A flow has delivered everything it had to.
    fn completed(&mut self, _now: Instant, _flow: FlowIdx) {}
    /// Time goes on: called about a thousand times a run.
    fn progress(&mut self, _now: Instant, _end: Instant) {}
    /// Whether the run is broken off here; asked after each [`Observer::progress`].
    fn stops(&self) -> bool {
        false
    }
    /// The run is over.
    fn end(&mut self, _now: Instant) {}
}

/// What an observer wants to be told.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Wants {
    pub records: bool,
    /// Packets at hosts and links, and losses.
    pub packets: bool,
    /// Pictures of connections and links, this often.
    pub sample: Option<Duration>,
}

impl Wants {
    /// What either wants; the smaller sample interval serves both.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        let sample = match (self.sample, other.sample) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        Self {
            records: self.records || other.records,
            packets: self.packets || other.packets,
            sample,
        }
    }
}

/// A host: index into [`Layout::hosts`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct HostIdx(pub u32);

/// One direction of a link: index into [`Layout::links`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct LinkIdx(pub u32);

/// A flow: index into [`Layout::flows`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct FlowIdx(pub u32);

/// Where a packet is seen.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum CapturePoint {
    /// It leaves a host by a path.
    Sent(HostIdx, PathId),
    /// It reaches a host by a path.
    Received(HostIdx, PathId),
    /// It enters a link direction, before the queue.
    Link(LinkIdx),
}

/// The names behind the indices.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Layout {
    /// Name of the scenario.
    pub scenario: String,
    /// Seed of the run.
    pub seed: u64,
    /// End of the run at the latest.
    pub end: Instant,
    /// Hosts (and proxies: whatever has an engine).
    pub hosts: Vec<HostLayout>,
    pub links: Vec<LinkLayout>,
    pub flows: Vec<FlowLayout>,
}

impl Layout {
    /// What a path of a host is called; `path3` if it has no name.
    pub fn path_name(&self, host: HostIdx, path: PathId) -> String {
        let known = self.hosts.get(host.0 as usize);
        let named = known.and_then(|h| h.paths.iter().find(|p| p.id == path));
        named.map_or_else(|| format!("path{}", path.0), |p| p.name.clone())
    }

    /// What a subflow's path is called at the host that connects, whichever end sees it: one of
    /// the subflow's addresses is that host's first on the path. `None` if neither is.
    pub fn subflow_path(&self, flow: FlowIdx, ends: [IpAddr; 2]) -> Option<&str> {
        let client = self.flows.get(flow.0 as usize)?.client;
        let paths = &self.hosts.get(client.0 as usize)?.paths;
        let own = |p: &&PathLayout| p.addresses.first().is_some_and(|a| ends.contains(a));
        paths.iter().find(own).map(|p| p.name.as_str())
    }
}

#[derive(Clone, PartialEq, Debug)]
pub struct HostLayout {
    pub name: String,
    /// Its paths, ascending by id.
    pub paths: Vec<PathLayout>,
}

/// A path of a host.
#[derive(Clone, PartialEq, Debug)]
pub struct PathLayout {
    pub id: PathId,
    /// Its name: that of the access link.
    pub name: String,
    /// The host's addresses on it; the first is on no other path.
    pub addresses: Vec<IpAddr>,
}

/// One direction of a link.
#[derive(Clone, PartialEq, Debug)]
pub struct LinkLayout {
    /// Name of the link; both directions have the same.
    pub name: String,
    /// Node that sends into it.
    pub from: String,
    /// Node that it leads to.
    pub to: String,
}

#[derive(Clone, PartialEq, Debug)]
pub struct FlowLayout {
    pub name: String,
    /// Host that connects.
    pub client: HostIdx,
    /// Host that listens.
    pub server: HostIdx,
    /// Whether the bulk of the data goes from server to client.
    pub download: bool,
}

/// A picture of one direction of a link; counters are since the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LinkSample {
    /// Bytes waiting in the queue.
    pub queued_bytes: u64,
    /// Packets waiting in the queue.
    pub queued_packets: u64,
    /// Packets delivered.
    pub delivered: u64,
    /// Bytes delivered, IP headers included.
    pub delivered_bytes: u64,
    /// Packets lost, for whatever reason.
    pub lost: u64,
}

/// Nobody watches.
#[derive(Clone, Copy, Default, Debug)]
pub struct Silent;

impl Observer for Silent {}

/// Several observers as one: each is told what any of them wants.
#[derive(Default)]
pub struct Observers<'a>(pub Vec<&'a mut dyn Observer>);

impl Observer for Observers<'_> {
    fn wants(&self) -> Wants {
        self.0.iter().fold(Wants::default(), |all, o| all.union(o.wants()))
    }
    fn wants_segments(&self) -> bool {
        self.0.iter().any(|o| o.wants().records && o.wants_segments())
    }
    fn begin(&mut self, layout: &Layout) {
        self.0.iter_mut().for_each(|o| o.begin(layout));
    }
    fn opened(&mut self, now: Instant, flow: FlowIdx, host: HostIdx, conn: ConnId) {
        self.0.iter_mut().for_each(|o| o.opened(now, flow, host, conn));
    }
    fn record(&mut self, host: HostIdx, record: &Record) {
        self.0.iter_mut().for_each(|o| o.record(host, record));
    }
    fn packet(&mut self, point: CapturePoint, now: Instant, segment: &Segment) {
        self.0.iter_mut().for_each(|o| o.packet(point, now, segment));
    }
    fn lost(&mut self, link: LinkIdx, now: Instant, cause: &'static str, segment: &Segment) {
        self.0.iter_mut().for_each(|o| o.lost(link, now, cause, segment));
    }
    fn sample(&mut self, now: Instant, flow: FlowIdx, host: HostIdx, info: &Info) {
        self.0.iter_mut().for_each(|o| o.sample(now, flow, host, info));
    }
    fn link_sample(&mut self, now: Instant, link: LinkIdx, sample: &LinkSample) {
        self.0.iter_mut().for_each(|o| o.link_sample(now, link, sample));
    }
    fn changed(&mut self, now: Instant, change: &str) {
        self.0.iter_mut().for_each(|o| o.changed(now, change));
    }
    fn completed(&mut self, now: Instant, flow: FlowIdx) {
        self.0.iter_mut().for_each(|o| o.completed(now, flow));
    }
    fn progress(&mut self, now: Instant, end: Instant) {
        self.0.iter_mut().for_each(|o| o.progress(now, end));
    }
    fn stops(&self) -> bool {
        self.0.iter().any(|o| o.stops())
    }
    fn end(&mut self, now: Instant) {
        self.0.iter_mut().for_each(|o| o.end(now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Asks(Wants);

    impl Observer for Asks {
        fn wants(&self) -> Wants {
            self.0
        }
    }

    #[test]
    fn together_they_want_what_any_wants_and_the_shortest_interval() {
        let ms = |n| Some(Duration::from_millis(n));
        let mut slow = Asks(Wants { sample: ms(100), ..Wants::default() });
        let mut fast = Asks(Wants { records: true, packets: false, sample: ms(10) });
        let both = Observers(vec![&mut slow, &mut Silent, &mut fast]).wants();
        assert_eq!(both, Wants { records: true, packets: false, sample: ms(10) });
    }
}
