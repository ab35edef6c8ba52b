//! Connections for programs: to which address, first by which path.

use super::Core;
use crate::listener::{ConnectError, Target};
use std::collections::VecDeque;
use std::net::SocketAddr;
use tabane_engine::endpoint;
use tabane_engine::{ConnId, Duration, Instant};
use tabane_wire::Unreachable;

/// Between two words about the same want.
const SAID_AGAIN: Duration = Duration::from_secs(60);
/// Ephemeral ports of an endpoint towards one destination.
const PORTS: u32 = 60_999 - 32_768 + 1;

impl Core {
    /// A program wants to go there.
    pub(super) fn connect(&mut self, now: Instant, index: usize, target: &Target) {
        match target {
            Target::Address(address) => {
                self.connect_first(now, index, VecDeque::from([*address]));
            }
            Target::Name(name, port) => self.look_up(now, index, name, *port),
        }
    }

    /// Tries the first of these addresses, and keeps the others in case it fails.
    pub(super) fn connect_first(
        &mut self,
        now: Instant,
        index: usize,
        mut addresses: VecDeque<SocketAddr>,
    ) {
        let Some(remote) = addresses.front().copied() else {
            return self.programs.fail(index, ConnectError::HostUnreachable);
        };
        let named = self.programs.target(index).cloned();
        match self.open(now, remote, named.as_ref()) {
            Ok(None) => self.programs.wait(index, addresses),
            Ok(Some(opening)) => {
                addresses.pop_front();
                if let Some(Target::Name(name, _)) = &named {
                    self.ask_for(now, opening.0, (remote, name));
                }
                self.programs.opening(index, opening, addresses);
            }
            Err(why) => self.programs.fail(index, why),
        }
    }

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
        self.event_log.add(now, "exhausted", (None, None), text);
    }

    /// Opens a connection through the bond, on the path on which it is best begun: which it is,
    /// and that path. `None` as long as no path works.
    pub(super) fn open(
        &mut self,
        now: Instant,
        remote: SocketAddr,
        named: Option<&Target>,
    ) -> Result<Option<(ConnId, usize)>, ConnectError> {
        let Some(path) = self.tunnels.best() else { return Ok(None) };
        let [v4, v6] = self.network.path(self.number, path);
        let local = SocketAddr::new(if remote.is_ipv4() { v4 } else { v6 }, 0);
        let profile = self.profile(remote, named).map_err(|_| ConnectError::General)?;
        match self.bond.endpoint.connect_as(now, local, remote, &profile) {
            Ok(conn) => Ok(Some((conn, path))),
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
