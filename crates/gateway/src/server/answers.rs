//! What other threads ask of the server.

use super::Core;
use super::client_session::ClientSession;
use super::upstream_hop::Next;
use crate::config::Policies;
use crate::index::PathIndex;
use crate::model::{ConnStatus, EventKind, PathStatus, RecordTotals, Role, Status};
use crate::request_channel::{Answer, Request};
use crate::snapshots::{self, Load};
use crate::udp::DatagramCounters;
use std::net::SocketAddr;
use tabane_engine::{ConnId, Instant};
use tabane_net::wireguard::UdpPort;

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
            Request::Connections => Answer::Connections(self.snapshots(now)),
            Request::Events { since } => Answer::Events(self.event_log.since(since)),
            Request::SetPath { path, role, cap_bps } => {
                self.set_path(now, &path, (role, cap_bps)).into()
            }
            Request::CloseConnection { id } => self.close(now, id),
            Request::SetPolicy { policy, spec, connection } => {
                self.set_policy(now, (&policy, &spec), connection).into()
            }
            Request::Reload => self.reload(now, None).into(),
            Request::Configure { text } => self.reload(now, Some(&text)).into(),
            Request::Stop | Request::StopForRestart => {
                self.stopped = true;
                Answer::Done
            }
        }
    }

    fn status(&mut self, now: Instant) -> Status {
        let (mut paths, mut copies, mut malformed, mut spoofed) = (Vec::new(), 0, 0, 0);
        let mut datagrams = DatagramCounters::default();
        let (mut clients, mut total, mut refused) = (0, 0, 0);
        let mut record_counters = None::<RecordTotals>;
        for at in self.client_sessions.places() {
            let remotes: Vec<_> = PathIndex::all()
                .map(|path| self.client_sessions.four_tuple(at, path).map(|w| w.remote))
                .collect();
            let Some(session) = self.client_sessions.get(at) else { continue };
            clients += u64::from(session.is_there());
            if let Some(own) = &session.bond.record_counters {
                own.add_to(record_counters.get_or_insert_default());
            }
            (total, refused) = (total + session.opened, refused + session.refused);
            copies += session.bond.endpoint.stats().copies;
            malformed += session.bond.endpoint.stats().malformed;
            spoofed += session.spoofed;
            datagrams.add(&session.dispatcher);
            let conns: Vec<ConnId> = session.conns.iter().copied().collect();
            let loads = snapshots::loads(&mut session.bond, now, conns.into_iter());
            for (path, remote) in PathIndex::enumerate(remotes) {
                if let Some(remote) = remote {
                    paths.push(path_status(now, session, (path, remote), &loads[path]));
                }
            }
        }
        let mut udp_flows = self.flows.len();
        if let Some(next) = &mut self.next {
            udp_flows += next.udp_flows();
            paths.extend(next.status(now).paths);
        }
        let counters = [
            ("copies_removed", copies),
            ("malformed", malformed),
            ("spoofed", spoofed),
            ("connections_shed", self.memory.shed),
        ];
        let counters = counters.into_iter().chain(self.stranger_counters());
        let counters = counters.map(|(name, count)| (name.to_owned(), count));
        Status {
            agent: "server".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            name: "server".into(),
            uptime_s: now.as_secs_f64(),
            server: self.ports.first().map(UdpPort::local),
            paths,
            connections: self.carried.len() as u64,
            connections_total: total,
            refused_total: refused,
            clients,
            held_bytes: self.memory.held(),
            record_counters,
            udp_flows: udp_flows as u64,
            configuration: self.source.as_ref().and_then(|s| s.file()).map(Into::into),
            configuration_copied: self.source.as_ref().is_some_and(|s| s.is_copied()),
            no_pings: crate::udp::no_pings(),
            counters: counters.chain(datagrams.named()).collect(),
            ..Status::default()
        }
    }

    /// What came of datagrams of those who are no clients, or not yet.
    fn stranger_counters(&self) -> [(&'static str, u64); 5] {
        let strangers = self.client_sessions.strangers();
        [
            ("strangers_malformed", strangers.malformed),
            ("strangers_unauthentic", strangers.unauthentic),
            ("strangers_unknown", strangers.unknown_key + strangers.unknown_index),
            ("handshakes_refused", strangers.refused),
            ("cookies", strangers.cookies),
        ]
    }

    fn snapshots(&mut self, now: Instant) -> Vec<ConnStatus> {
        let mut all = Vec::new();
        for session in self.carried.connected_ones() {
            let (at, id) = session.id;
            let Some(client) = self.client_sessions.get(at) else { continue };
            let Some(conn) = client.bond.endpoint.connection(id) else { continue };
            all.push(ConnStatus {
                client: Some(client.name.clone()),
                source: Some(session.source),
                target: session.target.to_string(),
                age_s: now.saturating_since(session.since).as_secs_f64(),
                ..snapshots::connection(now, conn, |path| format!("{}/{path}", client.name))
            });
        }
        all
    }
}

impl Core {
    fn close(&mut self, now: Instant, id: u64) -> Answer {
        for at in self.client_sessions.places() {
            let Some(session) = self.client_sessions.get(at) else { continue };
            if session.conns.contains(&ConnId(id))
                && let Some(conn) = session.bond.endpoint.connection(ConnId(id))
            {
                conn.abort(now);
                self.client_sessions.touch(at);
                return Answer::Done;
            }
        }
        Answer::Error(format!("there is no connection {id}"))
    }

    /// Paths are the clients', but for those to the next server: a client is asked for another role
    /// in the answers to its probes, and says what it does in the next.
    fn set_path(
        &mut self,
        now: Instant,
        name: &str,
        change: (Option<Role>, Option<u64>),
    ) -> Result<(), String> {
        if let (Some(path), Some(next)) = (Next::path(name), &mut self.next) {
            return next.upstream().set_path(now, path, change);
        }
        let wrong = "write CLIENT/PATH, as in 'laptop/1': `tabane path list` has them";
        let (client, path) = name.rsplit_once('/').ok_or(wrong)?;
        let (Some(role), None) = change else {
            return Err("rate caps are the client's: change them there".into());
        };
        let all = self.client_sessions.places();
        let found =
            all.filter(|at| self.client_sessions.get(*at).is_some_and(|s| s.name == client)).last();
        let session = found.and_then(|at| self.client_sessions.get(at));
        let session = session.ok_or_else(|| format!("there is no client '{client}'; {wrong}"))?;
        let path = PathIndex::all().find(|at| at.to_string() == path);
        let path = path.filter(|path| session.peers[*path].is_some());
        let path = path.ok_or_else(|| format!("there is no path '{name}'; {wrong}"))?;
        let responder = &mut session.responders[path];
        if !responder.takes_roles() {
            return Err(format!(
                "'{client}' takes no roles from its server by this path: it is not connected, \
                 keeps its own (`keep_roles`), or is of an earlier version"
            ));
        }
        responder.ask_role(role);
        self.event_log.add(
            now,
            EventKind::Role,
            (Some(client), Some(&path.to_string())),
            format!("{client} is asked to use its path {path} as {role}"),
        );
        Ok(())
    }

    /// On one connection, or on all that are open; for those to come clients ask by their
    /// configuration.
    fn set_policy(
        &mut self,
        now: Instant,
        (policy, spec): (&str, &str),
        connection: Option<u64>,
    ) -> Result<(), String> {
        let wanted = Policies::one(policy, spec)?;
        let mut any = false;
        for at in self.client_sessions.places() {
            let Some(session) = self.client_sessions.get(at) else { continue };
            let meant = |id: &ConnId| connection.is_none_or(|meant| meant == id.0);
            let all: Vec<ConnId> = session.conns.iter().copied().filter(meant).collect();
            for id in all {
                let Some(conn) = session.bond.endpoint.connection(id) else { continue };
                for (_, policy) in wanted.given() {
                    conn.set_policy(now, policy).map_err(|error| error.to_string())?;
                }
                any = true;
            }
            self.client_sessions.touch(at);
        }
        match connection {
            Some(id) if !any => Err(format!("there is no connection {id}")),
            _ => Ok(()),
        }
    }
}

fn path_status(
    now: Instant,
    session: &ClientSession,
    (path, remote): (PathIndex, SocketAddr),
    load: &Load,
) -> PathStatus {
    let health = session.responders[path].health(now);
    let mut status = PathStatus {
        // The client's own names of its paths are not told.
        name: path.to_string(),
        id: path.id(),
        client: Some(session.name.clone()),
        remote: Some(remote),
        role: session.role(path),
        state: health.state,
        reason: health.reason,
        since_s: health.age.as_secs_f64(),
        mtu: health.mtu,
        too_big: session.responders[path].too_big(),
        sending: snapshots::direction(session.reports[path].sending(now)),
        receiving: snapshots::direction(session.reports[path].receiving(now)),
        cap_bps: session.cap_bps(path),
        ..PathStatus::default()
    };
    snapshots::fill(&mut status, &session.bond, path, load);
    status
}
