//! The egress policy of a host whose stack is the kernel's: a switch at the terminal, which puts
//! what the host sends on one of its links on others as well, or instead.
//!
//! The policies are the engine's. What they are shown of a segment and of the paths, the engine
//! knows from its connections; here it is read from the headers that pass: round trips from
//! handshakes and timestamps (RFC 7323), what must leave by its own path from options and flags.
//! Copies keep every byte. None are dropped at the far end: its stack sees them.

use crate::packet::Packet;
use std::net::{IpAddr, SocketAddr};
use tabane_engine::Instant;
use tabane_engine::egress::{self, Echo, Egress, Outgoing};
use tabane_engine::view::{PathId, PathSet, PathView, SubflowId};
use tabane_sim::topology::{NO_ROUTE, Topology};
use tabane_sim::{Plan, engine_config};
use tabane_wire::segment::Trust;
use tabane_wire::{Flags, Segment};

/// The switch of one host.
pub(crate) struct Switch {
    host: usize,
    policy: Box<dyn Egress>,
    /// Whether each path's link has its carrier.
    up: Vec<bool>,
    subflows: Vec<Subflow>,
    views: Vec<PathView>,
}

/// A pair of sockets, as seen from outside.
struct Subflow {
    local: SocketAddr,
    remote: SocketAddr,
    /// Whose the remote address is.
    far: usize,
    /// By which the host sends it.
    own: PathId,
    echo: Echo,
    /// SYNs that have left, and when the only one did if nothing has come since.
    syns: u32,
    opened: Option<Instant>,
    /// When anything of it last came.
    heard: Instant,
    /// When anything of it last passed.
    seen: Instant,
    /// Data has come, and was acknowledged.
    came: bool,
    exchanged: bool,
    /// The last acknowledgement that left.
    acked: Option<u32>,
}

/// Subflows watched at once; beyond, a new one takes the place of that which is silent longest.
const WATCHED: usize = 64;

impl Switch {
    /// That of a host, if it has a policy and more than one path.
    pub(crate) fn of(plan: &Plan, host: usize) -> Result<Option<Self>, String> {
        let paths = plan.topology.hosts[host].paths.len();
        let spec = engine_config(plan, host).mptcp.egress;
        if spec.name == "own" || paths < 2 {
            return Ok(None);
        }
        let policy = egress::build(&spec).map_err(|error| error.to_string())?;
        let (subflows, views) = (Vec::new(), Vec::new());
        Ok(Some(Self { host, policy, up: vec![true; paths], subflows, views }))
    }

    /// The paths by which a packet for `to` goes on that the host sends by `path`; there is a
    /// route by each of them.
    pub(crate) fn route(
        &mut self,
        now: Instant,
        topology: &Topology,
        path: usize,
        (packet, to): (&Packet, IpAddr),
    ) -> PathSet {
        let own = PathId(path as u8);
        let far = topology.far_end(self.host, path, to).map(|(host, _)| host);
        let segment = Segment::parse_slice_with(&packet.bytes, Trust::Intact).ok();
        let at = match (&segment, far) {
            (Some(segment), Some(far)) => Some(self.watch(now, segment, own, far)),
            _ => None,
        };
        let asked = self.question(now, own, packet, segment.as_ref().zip(at));
        self.look(topology, to, far);
        let answer = self.policy.route(&asked, &self.views);
        let known: PathSet = self.views.iter().map(|view| view.id).collect();
        let up: PathSet = self.views.iter().filter(|view| view.up).map(|view| view.id).collect();
        let mut paths = answer.intersection(known);
        if paths != answer || paths.intersection(up).is_empty() || asked.own_required {
            paths.insert(own);
        }
        if let Some((segment, at)) = segment.zip(at) {
            self.subflows[at].leaves(now, &segment, paths == PathSet::only(own));
        }
        paths
    }

    /// A packet comes to the host by `path`.
    pub(crate) fn arrives(&mut self, now: Instant, path: usize, packet: &[u8]) {
        // What is damaged tells nothing.
        let Ok(segment) = Segment::parse_slice(packet) else { return };
        let (local, remote) = (segment.dst, segment.src);
        if let Some(at) = self.find(local, remote) {
            self.subflows[at].comes(now, PathId(path as u8), &segment);
        }
    }

    /// The link of `path` loses its carrier, or has it again.
    pub(crate) fn set_up(&mut self, path: usize, up: bool) {
        self.up[path] = up;
    }

    fn find(&self, local: SocketAddr, remote: SocketAddr) -> Option<usize> {
        self.subflows.iter().position(|s| s.local == local && s.remote == remote)
    }

    /// The subflow of a segment that leaves.
    fn watch(&mut self, now: Instant, segment: &Segment, own: PathId, far: usize) -> usize {
        if let Some(at) = self.find(segment.src, segment.dst) {
            self.subflows[at].own = own;
            return at;
        }
        let new = Subflow {
            local: segment.src,
            remote: segment.dst,
            far,
            own,
            echo: Echo::default(),
            syns: 0,
            opened: None,
            heard: Instant::ZERO,
            seen: now,
            came: false,
            exchanged: false,
            acked: None,
        };
        if self.subflows.len() < WATCHED {
            self.subflows.push(new);
            return self.subflows.len() - 1;
        }
        let silent = self.subflows.iter().enumerate().min_by_key(|(_, s)| s.seen);
        let at = silent.map_or(0, |(at, _)| at);
        self.subflows[at] = new;
        at
    }

    /// What the policy is asked. What is not TCP is neither handshake nor ACK.
    fn question(
        &self,
        now: Instant,
        own: PathId,
        packet: &Packet,
        tcp: Option<(&Segment, usize)>,
    ) -> Outgoing {
        let mut asked = Outgoing::default().with(|v| {
            v.now = now;
            v.own = own;
            v.len = packet.bytes.len() as u32;
        });
        let Some((segment, at)) = tcp else { return asked };
        let control = Flags::SYN | Flags::FIN | Flags::RST;
        asked.subflow = SubflowId(at as u8);
        asked.handshake = segment.flags.contains(Flags::SYN);
        asked.pure_ack = segment.payload.is_empty() && !segment.flags.intersects(control);
        asked.own_required = segment.flags.intersects(control | Flags::ECE | Flags::CWR)
            || !segment.options.sack.is_empty()
            || !segment.options.mptcp().is_empty()
            || asked.pure_ack && self.subflows[at].says_more(segment);
        asked
    }

    /// Snapshots of the paths that lead to `to`, a host with the number `far`.
    fn look(&mut self, topology: &Topology, to: IpAddr, far: Option<usize>) {
        self.views.clear();
        for path in 0..self.up.len() {
            if topology.route(self.host, path, to) == NO_ROUTE {
                continue;
            }
            let (id, up) = (PathId(path as u8), self.up[path]);
            let mut view = PathView::default().with(|v| {
                v.id = id;
                v.up = up;
            });
            for subflow in self.subflows.iter().filter(|s| s.own == id && Some(s.far) == far) {
                let rtt = subflow.echo.rtt();
                if view.rtt.is_zero() || !rtt.is_zero() && rtt < view.rtt {
                    view.rtt = rtt;
                }
                view.heard = view.heard.max(subflow.heard);
            }
            self.views.push(view);
        }
    }
}

impl Subflow {
    /// Whether an ACK is one that the peer and middleboxes should see by its own path: the first,
    /// and those that acknowledge nothing new, which tell of a gap or of a window.
    fn says_more(&self, ack: &Segment) -> bool {
        !self.exchanged || self.acked == Some(ack.ack.0)
    }

    /// A segment leaves, by the own path alone or not.
    fn leaves(&mut self, now: Instant, segment: &Segment, alone: bool) {
        self.seen = now;
        if segment.flags.contains(Flags::SYN) {
            self.syns += 1;
            // An answer to one of several says nothing of when.
            self.opened = (self.syns == 1).then_some(now);
        } else if let Some(timestamps) = segment.options.timestamps {
            self.echo.on_sent(now, timestamps.value, alone);
        }
        self.exchanged |= self.came;
        self.acked = Some(segment.ack.0);
    }

    /// A segment comes by `path`.
    fn comes(&mut self, now: Instant, path: PathId, segment: &Segment) {
        (self.seen, self.heard) = (now, now);
        let own = path == self.own;
        if let Some(opened) = self.opened.take().filter(|_| own) {
            self.echo = Echo::new(now - opened);
        }
        if segment.payload.is_empty() {
            return;
        }
        self.came = true;
        if let Some(timestamps) = segment.options.timestamps.filter(|_| own) {
            self.echo.on_echo(now, timestamps.echo);
        }
    }
}

#[cfg(test)]
mod tests;
