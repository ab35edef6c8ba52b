//! The paths by which a segment leaves: what the [`Egress`] policy is shown, and which part of its
//! answer is obeyed.
//!
//! What must be seen on the subflow's own path leaves by it whatever the policy says: handshakes,
//! resets, FIN, ECN echoes, MPTCP signals, everything that says that something is missing, and
//! windows that open again.

use super::Connection;
use super::subflow::Subflow;
use crate::config::PathConfig;
use crate::egress::{self, Echo, Egress};
use crate::policy::{PolicyError, Spec};
use crate::record::What;
use crate::tcp::{Kind, Outgoing};
use crate::time::{Duration, Instant};
use crate::view::{PathId, PathSet, PathView, SubflowId, SubflowView};
use tabane_wire::{Flags, Segment};

/// An egress policy, and the snapshots that it is shown.
pub(super) struct EgressState {
    policy: Box<dyn Egress>,
    views: Vec<PathView>,
    /// By slot of a subflow.
    echoes: Vec<OwnEcho>,
    /// Siblings as compensated controllers see them: with windows and RTTs of their own paths.
    siblings: Vec<SubflowView>,
}

/// The echo of a subflow's own path. Slots of subflows are used again.
#[derive(Clone, Copy, Default)]
struct OwnEcho {
    /// Number of the subflow that this is about.
    number: Option<u32>,
    echo: Echo,
}

impl EgressState {
    /// `None` for `own`, which always answers the subflow's own path.
    pub(super) fn build(spec: &Spec) -> Result<Option<Box<Self>>, PolicyError> {
        let policy = egress::build(spec)?;
        let made = || Self { policy, views: Vec::new(), echoes: Vec::new(), siblings: Vec::new() };
        Ok((spec.name != "own").then(|| Box::new(made())))
    }

    fn echo(&mut self, subflow: &Subflow) -> &mut Echo {
        let at = usize::from(subflow.id.0);
        if self.echoes.len() <= at {
            self.echoes.resize(at + 1, OwnEcho::default());
        }
        let own = &mut self.echoes[at];
        if own.number != Some(subflow.number) {
            let echo = Echo::new(subflow.tcb.own_rtt());
            *own = OwnEcho { number: Some(subflow.number), echo };
        }
        &mut own.echo
    }

    /// What congestion control is shown of the siblings.
    pub(super) fn siblings<'a>(&'a self, views: &'a [SubflowView]) -> &'a [SubflowView] {
        if self.siblings.is_empty() { views } else { &self.siblings }
    }
}

impl Connection {
    /// The paths by which a segment of the subflow at `at` leaves.
    #[inline]
    pub(super) fn route(&mut self, at: usize, out: &Outgoing<'_>) -> PathSet {
        if self.egress.is_none() || self.config.paths.len() < 2 {
            return PathSet::only(self.subflows[at].path);
        }
        self.ask_egress(at, out)
    }

    fn ask_egress(&mut self, at: usize, out: &Outgoing<'_>) -> PathSet {
        let own = self.subflows[at].path;
        let asked = self.egress_question(at, out);
        let Some(mut egress) = self.egress.take() else { return PathSet::only(own) };
        egress.views.clear();
        let view = |path: &PathConfig| self.path_view(&egress.echoes, path.id);
        egress.views.extend(self.config.paths.iter().map(view));
        let answer = egress.policy.route(&asked, &egress.views);
        let known: PathSet = egress.views.iter().map(|v| v.id).collect();
        let up: PathSet = egress.views.iter().filter(|v| v.up).map(|v| v.id).collect();
        let carry = self.carrying(own, asked.len);
        let mut paths = answer.intersection(known);
        let refused = paths != answer || paths.intersection(up).is_empty() && up.contains(own);
        if refused {
            self.note(None, || What::PolicyRefused { policy: "egress" });
        }
        paths = paths.intersection(carry);
        if refused || asked.own_required || paths.is_empty() {
            paths.insert(own);
        }
        if let Some(timestamps) = out.segment.options.timestamps
            && !asked.handshake
        {
            let alone = paths == PathSet::only(own);
            egress.echo(&self.subflows[at]).on_sent(self.now, timestamps.value, alone);
        }
        self.egress = Some(egress);
        paths
    }

    /// The paths that carry a packet of so many bytes: segments are cut to the MTU of their own.
    pub(super) fn carrying(&self, own: PathId, len: u32) -> PathSet {
        let carries = |path: &&PathConfig| {
            let known = self.mtus.iter().flat_map(|mtus| mtus.iter()).find(|m| m.0 == path.id);
            path.id == own || u32::from(known.map_or(path.mtu, |m| m.1)) >= len
        };
        self.config.paths.iter().filter(carries).map(|path| path.id).collect()
    }

    /// A segment has come for the subflow at `at`, by `path`: what its TCB must know before it
    /// takes it.
    pub(super) fn set_arrival_path(&mut self, at: usize, path: PathId, segment: &Segment) {
        let own = self.subflows[at].path == path;
        // A hedged opening says nothing about where acknowledgements will come from.
        let hedges = self.config.mptcp.hedging && !self.subflows[at].tcb.has_exchanged();
        let Some(egress) = self.egress.as_mut().filter(|_| !hedges) else {
            let own = own || hedges;
            return self.subflows[at].tcb.arrives(own, false);
        };
        if let Some(timestamps) = segment.options.timestamps
            && own
            && !segment.payload.is_empty()
        {
            egress.echo(&self.subflows[at]).on_echo(self.now, timestamps.echo);
        }
        let compensates = egress.policy.compensates();
        self.subflows[at].tcb.arrives(own, compensates);
        egress.siblings.clear();
        if compensates {
            egress.siblings.extend_from_slice(&self.views);
            for (view, subflow) in egress.siblings.iter_mut().zip(&self.subflows) {
                by_own_path(view, subflow.tcb.own_rtt());
            }
        }
    }

    fn egress_question(&self, at: usize, out: &Outgoing<'_>) -> egress::Outgoing {
        let (segment, subflow) = (&out.segment, &self.subflows[at]);
        let special = Flags::ECE | Flags::CWR | Flags::FIN | Flags::SYN | Flags::RST;
        let pure_ack = matches!(out.kind, Kind::Ack | Kind::Probe);
        let seen = self.egress.as_ref().is_none_or(|egress| egress.policy.reports_losses_by_own());
        let reports = !segment.options.sack.is_empty()
            || self.receive.announces_window()
            || pure_ack && subflow.tcb.has_gap();
        let opening = !subflow.joined() || !self.established || !subflow.tcb.has_exchanged();
        egress::Outgoing {
            now: self.now,
            subflow: subflow.id,
            own: subflow.path,
            handshake: segment.flags.contains(Flags::SYN),
            pure_ack,
            own_required: !pure_ack && segment.payload.is_empty()
                || segment.flags.intersects(special)
                || !segment.options.mptcp().is_empty()
                || pure_ack && opening
                || reports && seen,
            len: segment.wire_len() as u32,
        }
    }

    /// A copy of a segment that another path had brought: it goes no further.
    pub(crate) fn on_copy(&mut self, now: Instant, path: PathId, id: SubflowId, copy: &Segment) {
        if let Some(at) = self.index(id)
            && self.subflows[at].path == path
        {
            self.subflows[at].tcb.on_copy(now, copy);
        }
    }

    fn path_view(&self, echoes: &[OwnEcho], id: PathId) -> PathView {
        let mut view = PathView {
            id,
            up: !self.paths_down.contains(id),
            rtt: Duration::ZERO,
            heard: Instant::ZERO,
        };
        for subflow in self.subflows.iter().filter(|s| s.path == id && s.established) {
            let echo = echoes.get(usize::from(subflow.id.0));
            let echo = echo.filter(|own| own.number == Some(subflow.number));
            let seen = echo.map_or(Duration::ZERO, |own| own.echo.rtt());
            let rtt = if seen.is_zero() { subflow.tcb.own_rtt() } else { seen };
            if view.rtt.is_zero() || !rtt.is_zero() && rtt < view.rtt {
                view.rtt = rtt;
            }
            view.heard = view.heard.max(subflow.tcb.last_heard());
        }
        view
    }
}

/// Changes a view to the RTT of the subflow's own path, and to the window that has the same rate
/// there.
fn by_own_path(view: &mut SubflowView, own: Duration) {
    if own <= view.srtt || view.srtt.is_zero() {
        return;
    }
    let scale = |bytes: u64| {
        let scaled = u128::from(bytes) * u128::from(own.0) / u128::from(view.srtt.0);
        u64::try_from(scaled).unwrap_or(u64::MAX)
    };
    let lag = own - view.srtt;
    (view.cwnd, view.ssthresh) = (scale(view.cwnd), scale(view.ssthresh));
    view.in_flight = scale(view.in_flight);
    view.latest_rtt = view.latest_rtt + lag;
    view.min_rtt = view.min_rtt + lag;
    view.max_rtt = view.max_rtt + lag;
    view.srtt = own;
}
