//! What other threads ask of the client.

use super::carried::{Owner, ProgramId};
use super::{Core, idle};
use crate::config::Policies;
use crate::config::client::check_cap;
use crate::index::PathIndex;
use crate::model::{ConnStatus, EventKind, PathStatus, RecordTotals, Role, Status};
use crate::request_channel::{Answer, Request};
use crate::session::Snapshot;
use crate::snapshots;
use crate::udp::DatagramCounters;
use tabane_engine::{ConnId, Instant};

impl Core {
    pub(super) fn requests(&mut self, now: Instant) {
        while let Some((request, reply)) = self.inbox.take() {
            let answer = self.answer(now, request);
            // Whoever asked may be gone.
            let _ = reply.send(answer);
        }
    }

    fn answer(&mut self, now: Instant, request: Request) -> Answer {
        match request {
            Request::Status => Answer::Status(Box::new(self.status(now))),
            Request::Connections => Answer::Connections(self.connections(now)),
            Request::Events { since } => Answer::Events(self.event_log.since(since)),
            Request::SetPath { path, role, cap_bps } => {
                self.set_path(now, &path, role, cap_bps).into()
            }
            Request::CloseConnection { id } => match self.bond.endpoint.connection(ConnId(id)) {
                Some(conn) => {
                    conn.abort(now);
                    Answer::Done
                }
                None => Answer::Error(format!("there is no connection {id}")),
            },
            Request::SetPolicy { policy, spec, connection } => {
                self.set_policy(now, &policy, &spec, connection).into()
            }
            Request::Reload => self.reload(now, None).into(),
            Request::Configure { text } => self.reload(now, Some(&text)).into(),
            Request::Stop => {
                self.stopped = true;
                Answer::Done
            }
            Request::StopForRestart => {
                (self.stopped, self.restarts) = (true, true);
                Answer::Done
            }
        }
    }

    pub(super) fn status(&mut self, now: Instant) -> Status {
        let conns = self.open_connections();
        let loads = snapshots::loads(&mut self.bond, now, conns.iter().copied());
        let conns = conns.len();
        let (total, refused) = self.carried.totals();
        let unix = self.unix(now);
        let count = self.tunnels.all().len();
        let left: Vec<_> =
            PathIndex::first(count).map(|path| self.quotas.left(path, unix)).collect();
        let paths = PathIndex::enumerate(self.tunnels.all()).map(|(i, tunnel)| {
            let mut status = self.path_status(now, i);
            snapshots::fill(&mut status, &self.bond, i, &loads[i]);
            status.cap_bps = tunnel.config().cap_up.or(tunnel.config().cap_down).map(|rate| rate.0);
            status.quota_left = left[i];
            status
        });
        let paths: Vec<PathStatus> = paths.collect();
        let stats = *self.bond.endpoint.stats();
        let unopened = self.refused + self.programs.refused();
        let mut datagrams = DatagramCounters::default();
        datagrams.add(&self.dispatcher);
        let mut status = Status {
            agent: "client".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            name: self.config.name.clone(),
            uptime_s: now.as_secs_f64(),
            server: self.tunnels.server(),
            paths,
            connections: conns as u64,
            connections_total: total + unopened,
            refused_total: refused + unopened,
            udp_flows: self.datagrams.len() as u64,
            clock_ahead_ms: self.clock_ahead_ms(),
            tun: self.host.as_ref().map(|host| host.status(now)),
            record_counters: self.bond.record_counters.as_ref().map(|record_counters| {
                let mut all = RecordTotals::default();
                record_counters.add_to(&mut all);
                all
            }),
            held_bytes: self.memory.held,
            configuration: self.source.as_ref().and_then(|s| s.file()).map(Into::into),
            configuration_copied: self.source.as_ref().is_some_and(|s| s.is_copied()),
            counters: [
                ("malformed".into(), stats.malformed),
                ("copies_removed".into(), stats.copies),
            ]
            .into_iter()
            .chain(datagrams.named())
            .collect(),
            ..Status::default()
        };
        idle::say_why(&mut status);
        status
    }

    /// By the path whose answers take the least time.
    fn clock_ahead_ms(&self) -> Option<f64> {
        let told = self.tunnels.all().iter().filter_map(|tunnel| tunnel.monitor().far());
        let far = told.min_by_key(|far| far.within)?;
        let ours = self.clock.unix(far.at).as_secs_f64();
        Some(far.unix_ms as f64 - ours * 1e3)
    }

    fn path_status(&self, now: Instant, i: PathIndex) -> PathStatus {
        let tunnel = &self.tunnels.all()[i];
        let health = tunnel.health(now);
        PathStatus {
            name: tunnel.name().to_owned(),
            id: i.id(),
            interface: tunnel.config().interface.clone(),
            local: tunnel.local(),
            remote: tunnel.remote(),
            seen_as: tunnel.monitor().far().map(|far| far.seen_as),
            role: tunnel.config().role,
            state: health.state,
            reason: if tunnel.monitor().is_up() {
                tunnel.decision().reason.clone()
            } else {
                health.reason
            },
            since_s: health.age.as_secs_f64(),
            rtt_ms: health.rtt.map(|rtt| rtt.as_secs_f64() * 1e3),
            loss: health.loss,
            mtu: health.mtu,
            too_big: tunnel.monitor().too_big(),
            sending: snapshots::direction(tunnel.reports().sending(now)),
            receiving: snapshots::direction(tunnel.reports().receiving(now)),
            handshake_age_s: tunnel.handshake_age().map(|age| age.as_secs_f64()),
            ..PathStatus::default()
        }
    }

    fn connections(&mut self, now: Instant) -> Vec<ConnStatus> {
        let Self { carried, bond, tunnels, .. } = self;
        let status = |session: Snapshot<'_, ProgramId, ConnId>| {
            let conn = bond.endpoint.connection(session.far)?;
            let name = |path| tunnels.name(path).to_owned();
            Some(ConnStatus {
                source: Some(session.source),
                target: session.target.to_string(),
                age_s: now.saturating_since(session.since).as_secs_f64(),
                ..snapshots::connection(now, conn, name)
            })
        };
        carried.connected_ones().filter_map(status).collect()
    }

    /// The connections that are carried, for programs and for a server.
    pub(super) fn open_connections(&self) -> Vec<ConnId> {
        let programs = self.carried.connected_ones().map(|session| session.far);
        let upstream = self.owners.iter().filter(|(_, owner)| **owner == Owner::Upstream);
        programs.chain(upstream.map(|(id, _)| *id)).collect()
    }

    pub(super) fn set_path(
        &mut self,
        now: Instant,
        path: &str,
        role: Option<Role>,
        cap_bps: Option<u64>,
    ) -> Result<(), String> {
        let Some(at) = self.tunnels.find(path) else {
            let all: Vec<&str> = self.tunnels.all().iter().map(|l| l.name()).collect();
            return Err(format!("there is no path '{path}'; there are: {}", all.join(", ")));
        };
        let cap = cap_bps.filter(|cap| *cap > 0);
        cap.map_or(Ok(()), check_cap)?;
        if let Some(role) = role {
            self.tunnels.set_role(at, role);
            self.event_log.add(
                now,
                EventKind::Role,
                (None, Some(path)),
                format!("{path} is {role} now"),
            );
        }
        if cap_bps.is_some() {
            self.tunnels.set_cap(now, at, cap);
        }
        self.decide(now);
        Ok(())
    }

    /// The server asks for another role of a path. What came of it, for people. A path that is
    /// never used here stays so: it may cost money.
    pub(super) fn take_role(&mut self, now: Instant, path: PathIndex, role: Role) -> String {
        let name = self.tunnels.name(path).to_owned();
        let present = self.tunnels.all()[path].config().role;
        if self.config.keep_roles || present == Role::Never {
            return format!("{name} stays {present}: the server asked for {role}");
        }
        self.tunnels.set_role(path, role);
        self.decide(now);
        format!("{name} is {role} now: the server asked for it")
    }

    fn set_policy(
        &mut self,
        now: Instant,
        policy: &str,
        spec: &str,
        connection: Option<u64>,
    ) -> Result<(), String> {
        let wanted = Policies::one(policy, spec)?;
        let all: Vec<ConnId> = match connection {
            Some(id) => vec![ConnId(id)],
            None => self.open_connections(),
        };
        for id in all {
            let Some(conn) = self.bond.endpoint.connection(id) else {
                return Err(format!("there is no connection {}", id.0));
            };
            for (_, policy) in wanted.given() {
                conn.set_policy(now, policy).map_err(|error| error.to_string())?;
            }
        }
        if connection.is_none() {
            self.set_default_policies(&wanted)?;
        }
        Ok(())
    }
}
