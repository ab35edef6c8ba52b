//! The way out of a segment: what the [`Egress`] policy is shown, and what of its answer holds.
//!
//! What must be seen on the subflow's own path leaves by it whatever the policy says: handshakes,
//! resets, FIN, ECN echoes, MPTCP signals, everything that says that something is missing, and
//! windows that open again.

use super::Connection;
use crate::egress::{self, Egress};
use crate::policy::{PolicyError, Spec};
use crate::record::What;
use crate::tcp::{Kind, Outgoing};
use crate::time::Duration;
use crate::view::{PathId, PathSet, PathView};
use tabane_wire::Flags;

/// An egress policy, and the pictures that it is shown.
pub(super) struct Ways {
    policy: Box<dyn Egress>,
    views: Vec<PathView>,
}

impl Ways {
    /// `None` for `own`, which needs no asking.
    pub(super) fn build(spec: &Spec) -> Result<Option<Self>, PolicyError> {
        let policy = egress::build(spec)?;
        Ok((spec.name != "own").then_some(Self { policy, views: Vec::new() }))
    }
}

impl Connection {
    /// The paths by which a segment of the subflow at `at` leaves.
    #[inline]
    pub(super) fn route(&mut self, at: usize, out: &Outgoing) -> PathSet {
        if self.ways.is_none() || self.config.paths.len() < 2 {
            return PathSet::only(self.subflows[at].path);
        }
        self.ask_egress(at, out)
    }

    fn ask_egress(&mut self, at: usize, out: &Outgoing) -> PathSet {
        let own = self.subflows[at].path;
        let asked = self.question(at, out);
        let Some(mut ways) = self.ways.take() else { return PathSet::only(own) };
        ways.views.clear();
        ways.views.extend(self.config.paths.iter().map(|path| self.path_view(path.id)));
        let answer = ways.policy.route(&asked, &ways.views);
        let known: PathSet = ways.views.iter().map(|v| v.id).collect();
        let up: PathSet = ways.views.iter().filter(|v| v.up).map(|v| v.id).collect();
        self.ways = Some(ways);
        let mut paths = answer.intersection(known);
        let refused = paths != answer || paths.intersection(up).is_empty() && up.contains(own);
        if refused {
            self.note(None, || What::PolicyRefused { policy: "egress" });
        }
        if refused || asked.own_required || paths.is_empty() {
            paths.insert(own);
        }
        paths
    }

    fn question(&self, at: usize, out: &Outgoing) -> egress::Outgoing {
        let (segment, subflow) = (&out.segment, &self.subflows[at]);
        let special = Flags::ECE | Flags::CWR | Flags::FIN | Flags::SYN | Flags::RST;
        let pure_ack = out.kind == Kind::Ack;
        let opening = !subflow.joined() || !self.established || !subflow.tcb.has_exchanged();
        egress::Outgoing {
            now: self.now,
            subflow: subflow.id,
            own: subflow.path,
            handshake: segment.flags.contains(Flags::SYN),
            pure_ack,
            own_required: !pure_ack && segment.payload.is_empty()
                || segment.flags.intersects(special)
                || !segment.options.sack.is_empty()
                || !segment.options.mptcp().is_empty()
                || self.receive.closed_window
                || self.receive.updates_left > 0
                || pure_ack && (opening || subflow.tcb.has_gap()),
            len: segment.wire_len() as u32,
        }
    }

    fn path_view(&self, id: PathId) -> PathView {
        let rtts = self.subflows.iter().filter(|s| s.path == id).map(|s| s.tcb.srtt());
        let srtt = rtts.filter(|r| !r.is_zero()).min().unwrap_or(Duration::ZERO);
        PathView { id, up: !self.paths_down.contains(id), srtt }
    }
}
