//! A host whose stack is the engine: the driver of the data plane, and the applications of the
//! flows that begin or end here.

use crate::flows::{Action, Agenda, Flow, attached, carrier};
use crate::notification::{Notification, Notifier};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use tabane_engine::record::CloseReason;
use tabane_engine::view::PathId;
use tabane_engine::{ConnId, Endpoint, Event, Instant};
use tabane_net::App;
use tabane_sim::Plan;
use tabane_sim::app::Role;
use tabane_sim::change_connection;
use tabane_trace::observe::{HostIdx, Wants};

/// What runs on the endpoint of a host.
pub(crate) struct EngineHost {
    host: usize,
    plan: Plan,
    flows: Arc<Vec<Flow>>,
    agenda: Agenda,
    conns: BTreeMap<ConnId, usize>,
    notifier: Notifier,
    wants: Wants,
}

impl EngineHost {
    pub(crate) fn new(
        host: usize,
        plan: Plan,
        flows: Arc<Vec<Flow>>,
        (notifier, wants): (Notifier, Wants),
    ) -> Self {
        let agenda = Agenda::new(&plan, host, &flows, wants.sample);
        let conns = BTreeMap::new();
        Self { host, plan, flows, agenda, conns, notifier, wants }
    }

    /// Makes an endpoint accept what flows bring it.
    pub(crate) fn listen(&self, endpoint: &mut Endpoint) -> Result<(), String> {
        if !self.flows.iter().any(|flow| flow.server == self.host) {
            return Ok(());
        }
        let any: IpAddr = match self.plan.topology.ip {
            6 => Ipv6Addr::UNSPECIFIED.into(),
            _ => Ipv4Addr::UNSPECIFIED.into(),
        };
        endpoint.listen(SocketAddr::new(any, 0)).map_err(|error| error.to_string())
    }

    fn opened(&mut self, now: Instant, conn: ConnId, n: usize) {
        self.conns.insert(conn, n);
        let (flow, host) = (self.flows[n].idx, HostIdx(self.host as u32));
        self.notifier.send(Notification::Opened(now, flow, host, conn));
    }

    fn start(&mut self, endpoint: &mut Endpoint, now: Instant, n: usize) {
        let flow = &self.flows[n];
        let path = self.plan.topology.path_to_open(self.host, flow.server, endpoint);
        let local = SocketAddr::new(self.plan.topology.address(self.host, path), 0);
        let remote = SocketAddr::new(self.plan.topology.shared_address(flow.server), flow.port);
        match endpoint.connect(now, local, remote) {
            Ok(conn) => self.opened(now, conn, n),
            Err(error) => flow.fail(&self.notifier, error.to_string()),
        }
    }

    /// The connection of a flow.
    fn conn(&self, n: usize) -> Option<ConnId> {
        self.conns.iter().find(|(_, flow)| **flow == n).map(|(conn, _)| *conn)
    }

    fn tick(&mut self, endpoint: &mut Endpoint, now: Instant, n: usize, stop: bool) {
        let flow = &self.flows[n];
        let mut app = flow.app();
        if stop {
            app.stop();
        }
        let Some(connection) = self.conn(n).and_then(|conn| endpoint.connection(conn)) else {
            return;
        };
        let again = app.tick(now, flow.role(self.host), connection);
        self.agenda.plan(again, Action::Tick(n));
        flow.notify_if_complete(&self.notifier, &app, || connection.info(now));
    }

    fn carrier(&mut self, endpoint: &mut Endpoint, now: Instant, n: usize) {
        let Some((link, up)) = carrier(&self.plan.scenario.at[n]) else { return };
        for path in attached(&self.plan, self.host, link) {
            endpoint.set_path_up(now, PathId(path as u8), up);
        }
    }

    fn change(&mut self, endpoint: &mut Endpoint, now: Instant, n: usize) {
        let change = &self.plan.scenario.at[n];
        let paths = &self.plan.topology.hosts[self.host].paths;
        let path = change.path.as_ref();
        let path = path.and_then(|name| paths.iter().position(|p| p.name == *name));
        let on = path.map(|p| (PathId(p as u8), self.plan.topology.address(self.host, p)));
        let mut words = change.words();
        for (conn, flow) in &self.conns {
            let name = &self.flows[*flow].name;
            let base = name.split_once('.').map_or(name.as_str(), |(base, _)| base);
            if change.flow.as_ref().is_some_and(|f| f != name && f != base) {
                continue;
            }
            if let Err(refused) = change_connection(endpoint, now, *conn, on, change) {
                words = format!("{words} (refused: {refused})");
                break;
            }
        }
        self.notifier.try_send(Notification::Changed(now, words));
    }

    fn sample(&self, endpoint: &mut Endpoint, now: Instant, last: bool) {
        for (conn, n) in &self.conns {
            if let Some(connection) = endpoint.connection(*conn) {
                let (host, info) = (HostIdx(self.host as u32), Box::new(connection.info(now)));
                let notification = Notification::Sample(now, self.flows[*n].idx, host, info);
                if last {
                    self.notifier.send(notification)
                } else {
                    self.notifier.try_send(notification)
                }
            }
        }
    }

    fn records(&self, endpoint: &mut Endpoint) {
        while let Some(record) = endpoint.poll_record() {
            self.notifier
                .try_send(Notification::Record(HostIdx(self.host as u32), Box::new(record)));
        }
    }

    fn closed(&mut self, conn: ConnId, reason: CloseReason) {
        let Some(n) = self.conns.remove(&conn) else { return };
        let (flow, role) = (&self.flows[n], self.flows[n].role(self.host));
        if reason != CloseReason::Finished || role == Role::Sink {
            flow.fail(&self.notifier, format!("{reason:?} at the {role:?}").to_lowercase());
        }
    }
}

impl App for EngineHost {
    fn on_event(&mut self, endpoint: &mut Endpoint, now: Instant, conn: ConnId, event: Event) {
        if let Event::Accepted { local, .. } = &event {
            let port = local.port();
            let found = self.flows.iter().position(|f| f.server == self.host && f.port == port);
            if let Some(n) = found {
                self.opened(now, conn, n);
            }
        }
        let Some(&n) = self.conns.get(&conn) else { return };
        if let Event::Closed(reason) = event {
            return self.closed(conn, reason);
        }
        let Some(connection) = endpoint.connection(conn) else { return };
        let flow = &self.flows[n];
        let mut app = flow.app();
        let again = app.on_event(now, flow.role(self.host), &event, connection);
        self.agenda.plan(again, Action::Tick(n));
        flow.notify_if_complete(&self.notifier, &app, || connection.info(now));
    }

    fn on_wakeup(&mut self, endpoint: &mut Endpoint, now: Instant) {
        let scenario = self.plan.scenario.clone();
        while let Some(action) = self.agenda.due(now, &scenario) {
            match action {
                Action::Carrier(n) => self.carrier(endpoint, now, n),
                Action::Start(n) => self.start(endpoint, now, n),
                Action::Stop(n) => self.tick(endpoint, now, n, true),
                Action::Tick(n) => self.tick(endpoint, now, n, false),
                Action::Change(n) => self.change(endpoint, now, n),
                Action::Sample => self.sample(endpoint, now, false),
            }
        }
        if self.wants.records {
            self.records(endpoint);
        }
    }

    fn next_wakeup(&self) -> Option<Instant> {
        self.agenda.next()
    }

    fn on_stop(&mut self, endpoint: &mut Endpoint, now: Instant) {
        self.sample(endpoint, now, true);
        if self.wants.records {
            self.records(endpoint);
        }
    }
}
