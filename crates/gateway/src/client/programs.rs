//! The programs at the front ends.

use super::ClientError;
use super::listeners::{Left, Listeners};
use super::program::{Program, ProgramRequest, ProgramStream, Stage};
use crate::config::ListenerConfig;
use crate::index::{AssociationIndex, ListenerIndex};
use crate::listener::{ConnectError, NEGOTIATING_MAX, Negotiation};
use crate::reactor::{EventSource, SocketId};
use crate::session::Pool;
use crate::shares::{self, Shares};
use mio::net::TcpStream;
use mio::{Interest, Registry};
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use tabane_engine::Instant;

pub(super) struct Programs {
    all: BTreeMap<SocketId, Program>,
    /// The name of the next one.
    next: SocketId,
    listeners: Listeners,
    /// Associated ones with more to throw away.
    again: VecDeque<SocketId>,
    /// Accepted, oldest first, to be closed unless they ask for something.
    talking: VecDeque<SocketId>,
    /// Those of other hosts.
    shares: Shares<SocketId>,
    registry: Registry,
    pool: Pool,
    /// Associations of programs that have gone.
    gone: Vec<AssociationIndex>,
}

/// Connections accepted at a time.
const BATCH: usize = 64;

impl Programs {
    pub(super) fn new(registry: Registry) -> Self {
        Self {
            all: BTreeMap::new(),
            next: SocketId::default(),
            listeners: Listeners::default(),
            again: VecDeque::new(),
            talking: VecDeque::new(),
            shares: Shares::new(shares::OF_ADDRESS),
            registry,
            pool: Pool::default(),
            gone: Vec::new(),
        }
    }

    /// Listens for programs as `front` says; where, in its order.
    ///
    /// # Errors
    /// [`ClientError::Listen`]; all is as before then.
    pub(super) fn listen(
        &mut self,
        front: &ListenerConfig,
    ) -> Result<Vec<SocketAddr>, ClientError> {
        self.listeners.set(&self.registry, front)
    }

    /// One of them.
    pub(super) fn get(&mut self, id: SocketId) -> Option<&mut Program> {
        self.all.get_mut(&id)
    }

    /// Somebody connects.
    pub(super) fn accept(&mut self, now: Instant, index: ListenerIndex) {
        for (stream, source) in self.listeners.accept(index, BATCH) {
            let negotiation = self.listeners.negotiation();
            self.add(now, stream, source, negotiation);
        }
    }

    fn accept_left(&mut self, now: Instant, left: Left) {
        for index in self.listeners.with(left) {
            self.accept(now, index);
        }
    }

    fn add(
        &mut self,
        now: Instant,
        stream: TcpStream,
        source: SocketAddr,
        negotiation: Box<dyn Negotiation>,
    ) {
        let sharer = other_host(&stream, source);
        if sharer.is_some_and(|address| self.shares.is_over(address)) {
            return;
        }
        let talking = |id: &SocketId| self.all.get(id).is_some_and(|p| p.stage == Stage::Talking);
        self.talking.retain(talking);
        if self.talking.len() >= NEGOTIATING_MAX
            && let Some(oldest) = self.talking.pop_front()
        {
            self.remove(oldest);
        }
        let id = self.next;
        let mut program = Program::new(now, stream, source, negotiation);
        let both = Interest::READABLE | Interest::WRITABLE;
        let token = EventSource::Socket(id).token();
        if self.registry.register(program.stream(), token, both).is_ok() {
            self.next = id.next();
            self.all.insert(id, program);
            self.talking.push_back(id);
            sharer.into_iter().for_each(|address| self.shares.add(id, address));
        }
    }

    /// The poll says that a program's socket is ready; what it wants.
    pub(super) fn ready(
        &mut self,
        id: SocketId,
        (readable, writable): (bool, bool),
    ) -> ProgramRequest {
        let Some(program) = self.all.get_mut(&id) else { return ProgramRequest::Nothing };
        let request = program.ready(readable, writable);
        self.take(id, request)
    }

    /// Does what can be done here; the rest is for the agent.
    fn take(&mut self, id: SocketId, request: ProgramRequest) -> ProgramRequest {
        match request {
            ProgramRequest::Gone => self.remove(id),
            ProgramRequest::Again => self.again.push_back(id),
            request => return request,
        }
        ProgramRequest::Nothing
    }

    /// The name that a program wants is being asked for.
    pub(super) fn resolving(&mut self, id: SocketId) {
        if let Some(program) = self.all.get_mut(&id) {
            program.stage = Stage::Resolving;
        }
    }

    /// Whether it still waits for a name.
    pub(super) fn is_resolving(&self, id: SocketId) -> bool {
        self.all.get(&id).is_some_and(|program| program.stage == Stage::Resolving)
    }

    /// Throws away more of what programs say that have nothing to say, and accepts more.
    pub(super) fn go_on(&mut self, now: Instant) {
        self.accept_left(now, Left::More);
        for id in std::mem::take(&mut self.again) {
            if let Some(request) = self.all.get_mut(&id).map(Program::listen) {
                self.take(id, request);
            }
        }
    }

    /// Whether there is more to do at once.
    pub(super) fn is_busy(&self) -> bool {
        !self.again.is_empty() || !self.listeners.with(Left::More).is_empty()
    }

    /// Ends programs that say nothing, and accepts those that could not be.
    pub(super) fn tick(&mut self, now: Instant) {
        self.accept_left(now, Left::Later);
        while let Some(&id) = self.talking.front() {
            match self.all.get(&id).and_then(Program::deadline) {
                Some(at) if at > now => break,
                Some(_) => self.remove(id),
                None => {}
            }
            self.talking.pop_front();
        }
    }

    /// It does not get what it wanted, and is told.
    pub(super) fn refuse(&mut self, id: SocketId, why: ConnectError) {
        if let Some(program) = self.all.get_mut(&id) {
            program.failed(why);
            self.remove(id);
        }
    }

    /// Its stream.
    pub(super) fn stream(&mut self, id: SocketId) -> Option<ProgramStream<'_>> {
        let program = self.all.get_mut(&id)?;
        Some(ProgramStream { program, pool: &mut self.pool })
    }

    /// It is over.
    pub(super) fn remove(&mut self, id: SocketId) {
        let Some(mut program) = self.all.remove(&id) else { return };
        self.shares.remove(&id);
        if let Stage::Associated(association) = program.stage {
            self.gone.push(association);
        }
        // Closing takes it out of the poll too.
        let _ = self.registry.deregister(program.stream());
    }

    /// Connections of other hosts that were closed at once because their host had its share.
    pub(super) fn refused(&self) -> u64 {
        self.shares.refused
    }

    /// Associations whose programs have gone.
    pub(super) fn take_gone(&mut self) -> Vec<AssociationIndex> {
        std::mem::take(&mut self.gone)
    }
}

/// The address of a program on another host, which has a share of the connections.
fn other_host(stream: &TcpStream, source: SocketAddr) -> Option<IpAddr> {
    let own = stream.local_addr().is_ok_and(|local| local.ip() == source.ip());
    (!own && !source.ip().to_canonical().is_loopback()).then(|| source.ip().to_canonical())
}
