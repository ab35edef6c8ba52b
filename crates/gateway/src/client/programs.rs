//! The programs at the front ends, and the connections that they have through the bond.

use super::program::{ConnectRequest, Program, Stage};
use crate::bond::Bond;
use crate::listener::{ConnectError, NEGOTIATING_MAX, Negotiation, Target};
use crate::reactor::{Kind, token};
use crate::relay::{Pool, RelayState};
use mio::net::{TcpListener, TcpStream};
use mio::{Interest, Registry};
use slab::Slab;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use tabane_engine::record::CloseReason;
use tabane_engine::{ConnId, Duration, Event, Instant};

/// See the module.
pub(super) struct Programs {
    all: Slab<Program>,
    by_conn: BTreeMap<ConnId, usize>,
    listeners: Vec<Listener>,
    /// Those with more to do at once.
    again: VecDeque<usize>,
    /// Accepted, oldest first, to be closed unless they ask for something.
    talking: VecDeque<usize>,
    /// Waiting for a path or for an answer.
    pending: Vec<usize>,
    registry: Registry,
    pool: Pool,
    /// Associations of programs that have gone.
    gone: Vec<usize>,
    /// Programs that have their response, and when it is over for both ends whatever they say;
    /// oldest first. As many as have ended within [`LINGER`].
    answered: VecDeque<(Instant, usize, ConnId)>,
    pub(super) total: u64,
    pub(super) refused: u64,
}

/// Where programs connect.
struct Listener {
    socket: TcpListener,
    negotiation: Box<dyn Fn() -> Box<dyn Negotiation> + Send>,
    /// Whether somebody may wait whom the poll, which tells of changes, will not tell again.
    left: Left,
}

/// Who is left in the queue of a listener.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Left {
    Nobody,
    /// The batch was full: more at once.
    More,
    /// It could not be accepted, for want of descriptors: again at the next tick.
    Later,
}

/// How long a program waits for a path before it is told that there is none.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
/// How long one address is tried before the next, if there is one.
const NEXT_ADDRESS: Duration = Duration::from_secs(5);
/// How long both ends may take to close after a response.
const LINGER: Duration = Duration::from_secs(5);
/// Connections accepted at a time.
const BATCH: usize = 64;

impl Programs {
    pub(super) fn new(registry: Registry) -> Self {
        Self {
            all: Slab::new(),
            by_conn: BTreeMap::new(),
            listeners: Vec::new(),
            again: VecDeque::new(),
            talking: VecDeque::new(),
            pending: Vec::new(),
            registry,
            pool: Pool::default(),
            gone: Vec::new(),
            answered: VecDeque::new(),
            total: 0,
            refused: 0,
        }
    }

    /// Listens for programs, each of which gets a new front end; where it listens.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn listen(
        &mut self,
        at: SocketAddr,
        negotiation: Box<dyn Fn() -> Box<dyn Negotiation> + Send>,
    ) -> io::Result<SocketAddr> {
        let mut socket = TcpListener::bind(at)?;
        let local = socket.local_addr()?;
        let token = token(Kind::Listener, self.listeners.len());
        self.registry.register(&mut socket, token, Interest::READABLE)?;
        self.listeners.push(Listener { socket, negotiation, left: Left::Nobody });
        Ok(local)
    }

    /// Connections open.
    pub(super) fn open(&self) -> usize {
        self.by_conn.len()
    }

    /// The programs with a connection.
    pub(super) fn connected(&self) -> impl Iterator<Item = (ConnId, &Program)> {
        self.by_conn.iter().filter_map(|(id, index)| Some((*id, self.all.get(*index)?)))
    }

    /// Connections whose programs have their response, and which are about to end.
    pub(super) fn answered(&self) -> impl Iterator<Item = ConnId> {
        self.answered.iter().map(|(_, _, id)| *id)
    }

    /// One of them.
    pub(super) fn get(&mut self, index: usize) -> Option<&mut Program> {
        self.all.get_mut(index)
    }

    /// Somebody connects.
    pub(super) fn accept(&mut self, now: Instant, index: usize) {
        for _ in 0..BATCH {
            let Some(listener) = self.listeners.get_mut(index) else { return };
            let (stream, source) = match listener.socket.accept() {
                Ok(accepted) => accepted,
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => {
                        listener.left = Left::Nobody;
                        return;
                    }
                    // The program has gone again: the next one.
                    io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted => continue,
                    _ => {
                        listener.left = Left::Later;
                        return;
                    }
                },
            };
            let negotiation = (listener.negotiation)();
            self.add(now, stream, source, negotiation);
        }
        if let Some(listener) = self.listeners.get_mut(index) {
            listener.left = Left::More;
        }
    }

    fn accept_left(&mut self, now: Instant, left: Left) {
        for index in 0..self.listeners.len() {
            if self.listeners[index].left == left {
                self.accept(now, index);
            }
        }
    }

    fn add(
        &mut self,
        now: Instant,
        stream: TcpStream,
        source: SocketAddr,
        negotiation: Box<dyn Negotiation>,
    ) {
        let talking =
            |index: &usize| self.all.get(*index).is_some_and(|p| matches!(p.stage, Stage::Talking));
        self.talking.retain(talking);
        if self.talking.len() >= NEGOTIATING_MAX
            && let Some(oldest) = self.talking.pop_front()
        {
            self.remove(oldest);
        }
        let index = self.all.insert(Program::new(now, stream, source, negotiation));
        let both = Interest::READABLE | Interest::WRITABLE;
        let registered = self.all.get_mut(index).map(|program| {
            self.registry.register(program.stream(), token(Kind::Program, index), both)
        });
        match registered {
            Some(Ok(())) => self.talking.push_back(index),
            _ => self.remove(index),
        }
    }

    /// The poll says that a program's socket is ready; what it wants.
    pub(super) fn ready(
        &mut self,
        now: Instant,
        index: usize,
        (readable, writable): (bool, bool),
        bond: &mut Bond,
    ) -> ConnectRequest {
        let Some(program) = self.all.get_mut(index) else { return ConnectRequest::Nothing };
        let connect_request = program.ready(readable, writable);
        if let Stage::Relaying(_) = program.stage {
            self.step(now, index, bond);
        }
        match connect_request {
            ConnectRequest::Gone => self.remove(index),
            ConnectRequest::Again => self.again.push_back(index),
            connect_request => return connect_request,
        }
        ConnectRequest::Nothing
    }

    /// A program's connection is being opened.
    pub(super) fn opening(
        &mut self,
        index: usize,
        (conn, path): (ConnId, usize),
        rest: VecDeque<SocketAddr>,
    ) {
        let Some(program) = self.all.get_mut(index) else { return };
        program.stage = Stage::Opening { conn, path, rest };
        self.by_conn.insert(conn, index);
        if !self.pending.contains(&index) {
            self.pending.push(index);
        }
        self.total += 1;
    }

    /// The name that a program wants is being asked for.
    pub(super) fn resolving(&mut self, index: usize) {
        if let Some(program) = self.all.get_mut(index) {
            program.stage = Stage::Resolving;
        }
    }

    /// Whether it still waits for a name.
    pub(super) fn is_resolving(&self, index: usize) -> bool {
        self.all.get(index).is_some_and(|program| matches!(program.stage, Stage::Resolving))
    }

    /// A program waits for a path.
    pub(super) fn wait(&mut self, index: usize, addresses: VecDeque<SocketAddr>) {
        let Some(program) = self.all.get_mut(index) else { return };
        program.stage = Stage::Waiting(addresses);
        if !self.pending.contains(&index) {
            self.pending.push(index);
        }
    }

    /// It does not get what it wanted.
    pub(super) fn fail(&mut self, index: usize, why: ConnectError) {
        let Some(program) = self.all.get_mut(index) else { return };
        program.failed(why);
        self.refused += 1;
        self.remove(index);
    }

    /// An event of a connection. What is left to be tried for a program whose connection did not
    /// come about.
    pub(super) fn on_event(
        &mut self,
        now: Instant,
        bond: &mut Bond,
        conn: ConnId,
        event: Event,
    ) -> Option<(usize, VecDeque<SocketAddr>)> {
        let index = *self.by_conn.get(&conn)?;
        let program = self.all.get_mut(index)?;
        match event {
            Event::Connected => {
                let info = bond.endpoint.connection(conn)?.info(now);
                let bound = info.subflows.first()?.local;
                program.connected(conn, bound);
                self.step(now, index, bond);
            }
            Event::Readable | Event::Writable | Event::PeerFinished => {
                self.step(now, index, bond);
            }
            Event::Closed(reason) => {
                self.by_conn.remove(&conn);
                return self.closed(index, reason);
            }
            _ => {}
        }
        None
    }

    fn closed(
        &mut self,
        index: usize,
        reason: CloseReason,
    ) -> Option<(usize, VecDeque<SocketAddr>)> {
        let program = self.all.get_mut(index)?;
        if let Stage::Opening { rest, .. } = &mut program.stage {
            let rest = std::mem::take(rest);
            if !rest.is_empty() {
                return Some((index, rest));
            }
            self.fail(index, connect_error(reason));
        } else if reason == CloseReason::Finished {
            if let ConnectRequest::Gone = program.leave() {
                self.remove(index);
            }
        } else {
            program.reset();
            self.remove(index);
        }
        None
    }

    /// Moves what can be moved, and ends what is over.
    pub(super) fn step(&mut self, now: Instant, index: usize, bond: &mut Bond) {
        let Some(program) = self.all.get_mut(index) else { return };
        if let Stage::Associated(_) | Stage::Answered(_) = program.stage {
            return self.discard(index);
        }
        let Stage::Relaying(id) = program.stage else { return };
        let Some(conn) = bond.endpoint.connection(id) else { return };
        match program.step(now, conn, &mut self.pool) {
            RelayState::Open => {}
            RelayState::More => self.again.push_back(index),
            RelayState::Finished => {
                self.by_conn.remove(&id);
                self.remove(index);
            }
            RelayState::Answered => {
                program.stage = Stage::Answered(id);
                self.by_conn.remove(&id);
                self.answered.push_back((now + LINGER, index, id));
                self.discard(index);
            }
            RelayState::Broken => {
                conn.abort(now);
                self.by_conn.remove(&id);
                self.remove(index);
            }
        }
    }

    /// Throws away what a program says that has nothing to say.
    fn discard(&mut self, index: usize) {
        match self.all.get_mut(index).map(Program::discard) {
            Some(ConnectRequest::Gone) => self.remove(index),
            Some(ConnectRequest::Again) => self.again.push_back(index),
            _ => {}
        }
    }

    /// Ends what both ends were told is over, and did not end.
    fn end_answered(&mut self, now: Instant, bond: &mut Bond) {
        while let Some((_, index, id)) = self.answered.pop_front_if(|(at, ..)| *at <= now) {
            if let Some(conn) = bond.endpoint.connection(id) {
                conn.abort(now);
            }
            // The place may have been given to another one since.
            let stage = self.all.get(index).map(|program| &program.stage);
            if matches!(stage, Some(Stage::Answered(of)) if *of == id) {
                self.remove(index);
            }
        }
    }

    /// Bytes read from programs, all together.
    pub(super) fn taken(&self) -> u64 {
        self.pool.taken
    }

    /// Steps those that had more to do, each once.
    pub(super) fn step_again(&mut self, now: Instant, bond: &mut Bond) {
        self.accept_left(now, Left::More);
        for _ in 0..self.again.len() {
            if let Some(index) = self.again.pop_front() {
                self.step(now, index, bond);
            }
        }
    }

    /// Whether there are such.
    pub(super) fn has_again(&self) -> bool {
        !self.again.is_empty() || self.listeners.iter().any(|l| l.left == Left::More)
    }

    /// Programs that wait for a path, or whose connection is being opened on `dead`: what is to
    /// be tried for each. The connections are given up.
    pub(super) fn retry(
        &mut self,
        now: Instant,
        bond: &mut Bond,
        dead: Option<usize>,
    ) -> Vec<(usize, VecDeque<SocketAddr>)> {
        let mut found = Vec::new();
        for &index in &self.pending {
            let Some(program) = self.all.get_mut(index) else { continue };
            match &mut program.stage {
                Stage::Waiting(addresses) if dead.is_none() => {
                    found.push((index, std::mem::take(addresses)));
                }
                Stage::Opening { conn, path, rest } if Some(*path) == dead => {
                    let Some(target) = remote_of(bond, now, *conn) else { continue };
                    let mut again = VecDeque::from([target]);
                    again.append(rest);
                    self.by_conn.remove(conn);
                    if let Some(conn) = bond.endpoint.connection(*conn) {
                        conn.abort(now);
                    }
                    found.push((index, again));
                }
                _ => {}
            }
        }
        found
    }

    /// Ends programs that say nothing, gives up waiting, and tries next addresses; what is to be
    /// tried for whom.
    pub(super) fn tick(
        &mut self,
        now: Instant,
        bond: &mut Bond,
    ) -> Vec<(usize, VecDeque<SocketAddr>)> {
        self.accept_left(now, Left::Later);
        self.end_answered(now, bond);
        while let Some(&index) = self.talking.front() {
            match self.all.get(index).and_then(Program::deadline) {
                Some(at) if at > now => break,
                Some(_) => self.remove(index),
                None => {}
            }
            self.talking.pop_front();
        }
        let all = &self.all;
        self.pending.retain(|index| {
            let stage = all.get(*index).map(|program| &program.stage);
            matches!(stage, Some(Stage::Waiting(_) | Stage::Opening { .. }))
        });
        let (mut late, mut next) = (Vec::new(), Vec::new());
        for &index in &self.pending {
            let Some(program) = self.all.get_mut(index) else { continue };
            let age = now.saturating_since(program.since);
            match &mut program.stage {
                Stage::Waiting(_) if age > PATIENCE => late.push(index),
                Stage::Opening { conn, rest, .. } if age > NEXT_ADDRESS && !rest.is_empty() => {
                    self.by_conn.remove(conn);
                    if let Some(conn) = bond.endpoint.connection(*conn) {
                        conn.abort(now);
                    }
                    program.since = now;
                    next.push((index, std::mem::take(rest)));
                }
                _ => {}
            }
        }
        for index in late {
            self.fail(index, ConnectError::NoPath);
        }
        next
    }

    /// The far end says that a connection cannot be.
    pub(super) fn unreachable(
        &mut self,
        now: Instant,
        bond: &mut Bond,
        way: (SocketAddr, SocketAddr),
        why: ConnectError,
    ) -> Option<(usize, VecDeque<SocketAddr>)> {
        let is_it = |conn: ConnId, bond: &mut Bond| {
            let info = bond.endpoint.connection(conn)?.info(now);
            info.subflows.first().map(|s| (s.local, s.remote) == way)
        };
        let opening = |index: &&usize| match self.all.get(**index).map(|p| &p.stage) {
            Some(Stage::Opening { conn, .. }) => is_it(*conn, bond) == Some(true),
            _ => false,
        };
        let index = *self.pending.iter().find(opening)?;
        let program = self.all.get_mut(index)?;
        let Stage::Opening { conn, rest, .. } = &mut program.stage else { return None };
        let rest = std::mem::take(rest);
        self.by_conn.remove(conn);
        if let Some(conn) = bond.endpoint.connection(*conn) {
            conn.abort(now);
        }
        if !rest.is_empty() {
            return Some((index, rest));
        }
        self.fail(index, why);
        None
    }

    /// Every connection is lost: the server has changed.
    pub(super) fn reset_all(&mut self) {
        for (_, index) in std::mem::take(&mut self.by_conn) {
            if let Some(program) = self.all.get_mut(index) {
                program.reset();
            }
            self.remove(index);
        }
    }

    /// It is over.
    pub(super) fn remove(&mut self, index: usize) {
        let Some(mut program) = self.all.try_remove(index) else { return };
        if let Stage::Associated(association) = program.stage {
            self.gone.push(association);
        }
        // Closing takes it out of the poll too.
        let _ = self.registry.deregister(program.stream());
    }

    /// Associations whose programs have gone.
    pub(super) fn take_gone(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.gone)
    }

    /// What the program at `index` asked for.
    pub(super) fn target(&self, index: usize) -> Option<&Target> {
        self.all.get(index)?.target.as_ref()
    }
}

fn remote_of(bond: &mut Bond, now: Instant, conn: ConnId) -> Option<SocketAddr> {
    bond.endpoint.connection(conn)?.info(now).subflows.first().map(|s| s.remote)
}

fn connect_error(reason: CloseReason) -> ConnectError {
    match reason {
        CloseReason::Refused | CloseReason::Reset(_) => ConnectError::Refused,
        CloseReason::TimedOut => ConnectError::TimedOut,
        _ => ConnectError::General,
    }
}
