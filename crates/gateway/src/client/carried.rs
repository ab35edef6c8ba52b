//! The connections that a client carries: those of programs at its front ends, and of this host's
//! programs (TUN mode), each with its connection through the bond.

use super::Core;
use super::program::ProgramRequest;
use super::programs::Programs;
use super::upstream::UpstreamNotification;
use crate::index::PathIndex;
use crate::listener::{ConnectError, Target};
use crate::reactor::SocketId;
use crate::session::{Admitted, EndStream, Near, Patience, Program, Sessions};
use crate::tun::{self, LocalStack};
use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use tabane_engine::pipe::ConnectionStream;
use tabane_engine::{ConnId, Endpoint, Event, Instant};

/// Who asked for a connection.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum ProgramId {
    /// A program at a front end.
    FrontEnd(SocketId),
    /// A program of this host.
    Host(tun::ProgramId),
}

/// Whose an engine's connection is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Owner {
    /// A session's.
    Program(ProgramId),
    /// The server's that this client forwards for.
    Upstream,
    /// It tells the server what it shall do.
    PolicySync,
}

/// All programs there are.
pub(super) struct All<'a> {
    programs: &'a mut Programs,
    host: Option<&'a mut LocalStack>,
}

pub(super) type Carried = Sessions<ProgramId, ConnId>;

/// None yet.
pub(super) fn none() -> Carried {
    Sessions::new(Patience::default())
}

impl Core {
    /// The sessions and their two ends.
    pub(super) fn ends(&mut self) -> (&mut Carried, All<'_>, &mut Endpoint) {
        let host = self.host.as_mut().map(|host| &mut host.stack);
        let all = All { programs: &mut self.programs, host };
        (&mut self.carried, all, &mut self.bond.endpoint)
    }

    /// A program's socket is ready.
    pub(super) fn on_front_end(&mut self, now: Instant, id: SocketId, edges: (bool, bool)) {
        match self.programs.ready(id, edges) {
            ProgramRequest::Connect(Target::Address(address)) => {
                let target = Target::Address(address);
                self.connect_program(now, id, target, VecDeque::from([address]));
            }
            ProgramRequest::Connect(Target::Name(name, port)) => {
                self.look_up(now, id, &name, port);
            }
            ProgramRequest::Associate => self.associate(id),
            ProgramRequest::Step => self.step(now, ProgramId::FrontEnd(id)),
            ProgramRequest::Nothing | ProgramRequest::Gone | ProgramRequest::Again => {}
        }
    }

    /// Moves what can be moved for a program.
    pub(super) fn step(&mut self, now: Instant, id: ProgramId) {
        let (carried, mut all, endpoint) = self.ends();
        carried.step(now, (&mut all, endpoint), id);
        self.mind_uploads(now);
    }

    /// A program wants to go to one of these addresses.
    pub(super) fn connect_program(
        &mut self,
        now: Instant,
        id: SocketId,
        target: Target,
        addresses: VecDeque<SocketAddr>,
    ) {
        let Some(program) = self.programs.get(id) else { return };
        let asked = (program.source, program.since);
        program.stage = super::program::Stage::Connecting;
        let none = addresses.is_empty();
        self.carried.incoming(ProgramId::FrontEnd(id), asked, (target, addresses));
        if none {
            let (carried, mut all, _) = self.ends();
            carried.fail(now, &mut all, ProgramId::FrontEnd(id), ConnectError::HostUnreachable);
        }
        self.open_requested(now);
    }

    /// A program gets no session.
    pub(super) fn refuse_program(&mut self, id: SocketId, why: ConnectError) {
        self.refused += 1;
        self.programs.refuse(id, why);
    }

    /// An event of the TUN device's stack.
    pub(super) fn on_host_program(&mut self, now: Instant, id: tun::ProgramId, event: Event) {
        let id = ProgramId::Host(id);
        if let Event::Incoming { local, remote } = event {
            let wanted = (Target::Address(local), VecDeque::from([local]));
            return self.carried.incoming(id, (remote, now), wanted);
        }
        let (carried, mut all, endpoint) = self.ends();
        carried.on_near(now, (&mut all, endpoint), id, event);
        self.mind_uploads(now);
    }

    /// Opens connections for those that want them, as far as there are paths.
    pub(super) fn open_requested(&mut self, now: Instant) {
        while let Some(request) = self.carried.poll_request() {
            match self.open(now, request.address, &request.target, Owner::Program(request.id)) {
                Ok(Some((conn, path))) => {
                    if let Target::Name(name, _) = &request.target {
                        self.ask_for(now, conn, (request.address, name));
                    }
                    self.carried.opening(now, request.id, conn, Some(path));
                }
                // It is requested again when a path works.
                Ok(None) => {}
                Err(why) => {
                    let (carried, mut all, _) = self.ends();
                    carried.fail(now, &mut all, request.id, why);
                }
            }
        }
    }

    /// Hands out the engine's events; whether there were any.
    pub(super) fn events(&mut self, now: Instant) -> bool {
        let mut any = false;
        while let Some((conn, event)) = self.bond.endpoint.poll_event() {
            any = true;
            self.ask_again(now, conn, event);
            let owner = match event {
                Event::Closed(_) => self.owners.remove(&conn),
                _ => self.owners.get(&conn).copied(),
            };
            match owner {
                Some(Owner::Program(id)) => {
                    let (carried, mut all, endpoint) = self.ends();
                    carried.on_far(now, (&mut all, endpoint), (id, conn), event);
                    self.mind_uploads(now);
                }
                Some(Owner::Upstream) => {
                    if let Some(upstream) = &mut self.upstream {
                        upstream.tell(UpstreamNotification::Event(conn, event));
                    }
                }
                Some(Owner::PolicySync) => self.on_policy_sync(now, conn, event),
                None => {}
            }
        }
        self.open_requested(now);
        any
    }

    /// Somebody says by ICMP that a connection cannot be.
    pub(super) fn on_unreachable(
        &mut self,
        now: Instant,
        way: (SocketAddr, SocketAddr),
        why: ConnectError,
    ) {
        let (carried, mut all, endpoint) = self.ends();
        if carried.unreachable(now, (&mut all, endpoint), way, why) {
            self.open_requested(now);
        } else if let Some(upstream) = &mut self.upstream {
            upstream.tell(UpstreamNotification::Unreachable(way, why));
        }
    }

    /// A path works, or is `dead`: whoever waits, or is being connected by it, tries again.
    pub(super) fn retry(&mut self, now: Instant, dead: Option<PathIndex>) {
        self.carried.retry(now, &mut self.bond.endpoint, dead);
        if let Some(upstream) = &mut self.upstream {
            upstream.tell(UpstreamNotification::Paths { dead });
        }
        self.open_requested(now);
    }
}

impl Near for All<'_> {
    type Id = ProgramId;

    fn admit(&mut self, _now: Instant, id: ProgramId, local: Option<SocketAddr>) -> Admitted {
        match (id, &mut self.host) {
            (ProgramId::FrontEnd(id), _) => {
                let nowhere = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0);
                if let Some(program) = self.programs.get(id) {
                    program.connected(local.unwrap_or(nowhere));
                }
                return Admitted::Now;
            }
            (ProgramId::Host(id), Some(host)) => host.admit(id),
            (ProgramId::Host(_), None) => {}
        }
        Admitted::Later
    }

    fn refuse(&mut self, now: Instant, id: ProgramId, why: ConnectError) {
        match (id, &mut self.host) {
            (ProgramId::FrontEnd(id), _) => self.programs.refuse(id, why),
            (ProgramId::Host(id), Some(host)) => host.refuse(now, id, why),
            (ProgramId::Host(_), None) => {}
        }
    }

    fn stream(&mut self, now: Instant, id: ProgramId) -> Option<impl Program> {
        match id {
            ProgramId::FrontEnd(id) => self.programs.stream(id).map(EndStream::Socket),
            ProgramId::Host(id) => {
                let connection = self.host.as_mut()?.connection(id)?;
                Some(EndStream::Connection(ConnectionStream { connection, now }))
            }
        }
    }

    fn close(&mut self, id: ProgramId) {
        if let ProgramId::FrontEnd(id) = id {
            self.programs.remove(id);
        }
    }
}
