//! Paths that do not come up: said once, with the reason, when it has lasted a while. What goes
//! down after it worked is an event at once; what never worked would otherwise be none.

use super::Core;
use crate::address::PATHS_MAX;
use crate::index::PathIndex;
use crate::model::{EventKind, PathState};
use tabane_engine::{Duration, Instant};

/// What has been said of each path.
#[derive(Default)]
pub(super) struct Waits([Option<PathState>; PATHS_MAX]);

/// Links take a moment when a host starts.
const PATIENCE: Duration = Duration::from_secs(5);

impl Core {
    /// Says which paths still do not work, and why.
    pub(super) fn tell_waits(&mut self, now: Instant) {
        for path in PathIndex::first(self.tunnels.all().len()) {
            let tunnel = &self.tunnels.all()[path];
            let (name, health) = (tunnel.name().to_owned(), tunnel.health(now));
            let said = &mut self.waits.0[path];
            match health.state {
                // Its own event has said so.
                PathState::Up | PathState::Down => *said = Some(health.state),
                state if health.age >= PATIENCE && *said != Some(state) => {
                    *said = Some(state);
                    let text = format!("{name} does not work yet: {}", health.reason);
                    self.event_log.add(now, EventKind::PathWaits, (None, Some(&name)), text);
                }
                _ => {}
            }
        }
    }
}
