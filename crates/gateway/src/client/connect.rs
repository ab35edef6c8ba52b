//! Connections through the bond: first by which path, with which policies.

use super::Core;
use super::carried::Owner;
use crate::index::PathIndex;
use crate::listener::{ConnectError, Target};
use crate::model::EventKind;
use std::net::SocketAddr;
use tabane_engine::endpoint;
use tabane_engine::{ConnId, Duration, Instant};
use tabane_wire::Unreachable;

/// Between two words about the same want.
const SAID_AGAIN: Duration = Duration::from_secs(60);
/// Ephemeral ports of an endpoint towards one destination.
const PORTS: u32 = 60_999 - 32_768 + 1;

impl Core {
    /// There was no connection for want of what there is only so much of: says so, once a minute.
    fn note_exhausted(&mut self, now: Instant, why: &endpoint::ConnectError) {
        if self.exhausted.is_some_and(|said| now.saturating_since(said) < SAID_AGAIN) {
            return;
        }
        self.exhausted = Some(now);
        let text = match why {
            endpoint::ConnectError::NoPort(remote) => format!(
                "programs are refused: all {PORTS} ports towards {remote} are in use, by open \
                 connections or by those that ended within the last second"
            ),
            other => format!("programs are refused: {other}"),
        };
        self.event_log.add(now, EventKind::Exhausted, (None, None), text);
    }

    /// Opens a connection through the bond, on the path on which it is best begun: which it is,
    /// and that path. `None` as long as no path works.
    pub(super) fn open(
        &mut self,
        now: Instant,
        remote: SocketAddr,
        target: &Target,
        owner: Owner,
    ) -> Result<Option<(ConnId, PathIndex)>, ConnectError> {
        if self.network.is_for_agents(remote) {
            return Err(ConnectError::NotAllowed);
        }
        let Some(path) = self.tunnels.best() else { return Ok(None) };
        let [v4, v6] = self.network.path(self.number, path);
        let local = SocketAddr::new(if remote.is_ipv4() { v4 } else { v6 }, 0);
        let profile = self.profile(remote, target).map_err(|_| ConnectError::General)?;
        match self.bond.endpoint.connect_as(now, local, remote, &profile) {
            Ok(conn) => {
                self.owners.insert(conn, owner);
                Ok(Some((conn, path)))
            }
            Err(why @ (endpoint::ConnectError::Limit(_) | endpoint::ConnectError::NoPort(_))) => {
                self.note_exhausted(now, &why);
                Err(ConnectError::Busy)
            }
            Err(_) => Err(ConnectError::General),
        }
    }
}

/// What a program is told of it.
pub(super) fn connect_error(why: Unreachable) -> ConnectError {
    match why {
        Unreachable::Network => ConnectError::NetUnreachable,
        Unreachable::Host => ConnectError::HostUnreachable,
        Unreachable::Port => ConnectError::Refused,
        Unreachable::Prohibited => ConnectError::NotAllowed,
    }
}
