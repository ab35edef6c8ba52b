//! The connections of programs whose TCP one of our own engines ends, each with its connection
//! through a bond, from the SYN to the last byte: what an agent does for TUN mode's TCP, and for
//! that of the clients of a server that forwards, short of choosing paths.
//!
//! Sans-I/O: events of the near ends in ([`Near`]); the bond is an [`Endpoint`] that the caller
//! drives. A program's SYN becomes a `ConnectRequest`; the caller opens the connection and says
//! so (`opening`), or that it has to wait (nothing to call: `retry` wishes again), or cannot be
//! (`fail`).

pub(crate) mod program;
pub(crate) mod splice;

use crate::listener::ConnectError;
use crate::relay::RelayState;
pub use program::{Denial, EngineProgram, Near, Program, ProgramEvent, Read};
pub(crate) use splice::Splice;
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use tabane_engine::record::CloseReason;
use tabane_engine::{ConnId, Duration, Endpoint, Event, Instant};

/// See the module.
pub(crate) struct Sessions<I> {
    all: BTreeMap<I, Session>,
    by_conn: BTreeMap<ConnId, I>,
    policy_requests: VecDeque<ConnectRequest<I>>,
    /// Those with more to do at once.
    again: VecDeque<I>,
    total: u64,
    refused: u64,
    /// Bytes read from programs, all together.
    pub(crate) taken: u64,
}

/// A program wants to connect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ConnectRequest<I> {
    /// Which connection.
    pub(crate) id: I,
    /// Where to.
    pub(crate) destination: SocketAddr,
    /// The program's address.
    pub(crate) source: SocketAddr,
}

/// What a session is between: the near ends, and the bond.
pub(crate) type Ends<'a, N> = (&'a mut N, &'a mut Endpoint);

/// A connected program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Snapshot<I> {
    /// Which connection.
    pub(crate) id: I,
    /// Its connection through the bond.
    pub(crate) conn: ConnId,
    /// Its address.
    pub(crate) source: SocketAddr,
    /// Where it goes.
    pub(crate) destination: SocketAddr,
    /// When it asked.
    pub(crate) since: Instant,
    /// Payload bytes from it.
    pub(crate) taken: u64,
    /// Payload bytes to it.
    pub(crate) given: u64,
}

struct Session {
    destination: SocketAddr,
    source: SocketAddr,
    since: Instant,
    stage: Stage,
}

enum Stage {
    /// For a path.
    Waiting,
    /// The connection is being opened, first by that path.
    Opening(ConnId, usize),
    Relaying(ConnId, Splice),
    /// The connection has ended in order; the program has not taken everything yet.
    Leaving(Splice),
}

/// How long a program waits for a path before it is told that there is none.
const PATIENCE: Duration = Duration::from_secs(10);

impl<I> Default for Sessions<I> {
    fn default() -> Self {
        Self {
            all: BTreeMap::new(),
            by_conn: BTreeMap::new(),
            policy_requests: VecDeque::new(),
            again: VecDeque::new(),
            total: 0,
            refused: 0,
            taken: 0,
        }
    }
}

impl<I: Copy + Ord> Sessions<I> {
    /// An event of a near end.
    pub(crate) fn on_program<N: Near<Id = I>>(
        &mut self,
        now: Instant,
        (near, bond): Ends<'_, N>,
        id: I,
        event: ProgramEvent,
    ) {
        match event {
            ProgramEvent::Incoming { destination, source } => {
                let stage = Stage::Waiting;
                self.all.insert(id, Session { destination, source, since: now, stage });
                self.policy_requests.push_back(ConnectRequest { id, destination, source });
                self.total += 1;
            }
            ProgramEvent::Closed(reason) => self.program_closed(now, bond, id, reason),
            _ => self.step(now, (near, bond), id),
        }
    }

    /// The next program that wants to connect.
    pub(crate) fn poll_connect_request(&mut self) -> Option<ConnectRequest<I>> {
        let all = &self.all;
        // Paths that change while nobody grants make several wishes of one, and programs go.
        let waits = |connect_request: &ConnectRequest<I>| {
            all.get(&connect_request.id)
                .is_some_and(|session| matches!(session.stage, Stage::Waiting))
        };
        std::iter::from_fn(|| self.policy_requests.pop_front()).find(waits)
    }

    /// Its connection is being opened, first by `path`.
    pub(crate) fn opening(&mut self, id: I, conn: ConnId, path: usize) {
        let Some(session) = self.all.get_mut(&id) else { return };
        session.stage = Stage::Opening(conn, path);
        self.by_conn.insert(conn, id);
    }

    /// It does not get what it wanted.
    pub(crate) fn fail<N: Near<Id = I>>(
        &mut self,
        now: Instant,
        near: &mut N,
        id: I,
        why: ConnectError,
    ) {
        if self.all.remove(&id).is_some() {
            self.refused += 1;
            near.refuse(now, id, Denial::from(why));
        }
    }

    /// An event of a connection of the bond; false if it is none of ours.
    pub(crate) fn on_event<N: Near<Id = I>>(
        &mut self,
        now: Instant,
        (near, bond): Ends<'_, N>,
        conn: ConnId,
        event: Event,
    ) -> bool {
        let Some(&id) = self.by_conn.get(&conn) else { return false };
        match event {
            Event::Connected => {
                if let Some(session) = self.all.get_mut(&id) {
                    session.stage = Stage::Relaying(conn, Splice::default());
                    near.admit(now, id);
                }
            }
            Event::Readable | Event::Writable | Event::PeerFinished => {
                self.step(now, (near, bond), id);
            }
            Event::Closed(reason) => self.connection_closed(now, near, (conn, id), reason),
            _ => {}
        }
        true
    }

    /// Paths have changed: wishes again for whoever waits and, with a path that is dead, for those
    /// whose connection is being opened on it, which is given up.
    pub(crate) fn retry(&mut self, now: Instant, bond: &mut Endpoint, dead: Option<usize>) {
        for (&id, session) in &mut self.all {
            match session.stage {
                Stage::Waiting if dead.is_none() => {}
                Stage::Opening(conn, path) if Some(path) == dead => {
                    abort(now, bond, conn);
                    self.by_conn.remove(&conn);
                    session.stage = Stage::Waiting;
                }
                _ => continue,
            }
            let Session { destination, source, .. } = *session;
            self.policy_requests.push_back(ConnectRequest { id, destination, source });
        }
    }

    /// Refuses those that have waited for too long.
    pub(crate) fn tick<N: Near<Id = I>>(&mut self, now: Instant, near: &mut N) {
        let late = |session: &Session| {
            matches!(session.stage, Stage::Waiting)
                && now.saturating_since(session.since) > PATIENCE
        };
        let late: Vec<_> =
            self.all.iter().filter(|(_, session)| late(session)).map(|(id, _)| *id).collect();
        for id in late {
            self.fail(now, near, id, ConnectError::NoPath);
        }
    }

    /// The far end says that a connection, by its addresses at the bond, cannot be; whether it
    /// was one of ours.
    pub(crate) fn unreachable<N: Near<Id = I>>(
        &mut self,
        now: Instant,
        (near, bond): Ends<'_, N>,
        (local, remote): (SocketAddr, SocketAddr),
        why: ConnectError,
    ) -> bool {
        let mut is_it = |session: &Session| match session.stage {
            Stage::Opening(conn, _) if session.destination == remote => {
                let info = bond.connection(conn).map(|connection| connection.info(now));
                let found = info.is_some_and(|i| i.subflows.iter().any(|s| s.local == local));
                found.then_some(conn)
            }
            _ => None,
        };
        let found = self.all.iter().find_map(|(id, session)| Some((*id, is_it(session)?)));
        let Some((id, conn)) = found else { return false };
        self.by_conn.remove(&conn);
        abort(now, bond, conn);
        self.fail(now, near, id, why);
        true
    }

    /// Every connection is lost: the server has changed.
    pub(crate) fn reset_all<N: Near<Id = I>>(&mut self, now: Instant, near: &mut N) {
        for (_, id) in std::mem::take(&mut self.by_conn) {
            if let Some(mut program) = near.program(now, id) {
                program.reset();
            }
            self.all.remove(&id);
        }
    }

    /// The agent ends: every program is told at once, whatever stage its connection is in.
    pub(crate) fn end_all<N: Near<Id = I>>(&mut self, now: Instant, near: &mut N) {
        self.by_conn.clear();
        for (id, session) in std::mem::take(&mut self.all) {
            match session.stage {
                Stage::Waiting | Stage::Opening(..) => {
                    near.refuse(now, id, Denial::from(ConnectError::NoPath));
                }
                Stage::Relaying(..) | Stage::Leaving(_) => {
                    if let Some(mut program) = near.program(now, id) {
                        program.reset();
                    }
                }
            }
        }
    }

    /// Steps those that had more to do, each once.
    pub(crate) fn step_again<N: Near<Id = I>>(&mut self, now: Instant, (near, bond): Ends<'_, N>) {
        for _ in 0..self.again.len() {
            if let Some(id) = self.again.pop_front() {
                self.step(now, (&mut *near, &mut *bond), id);
            }
        }
    }

    /// Whether there are such.
    #[must_use]
    pub(crate) fn has_again(&self) -> bool {
        !self.again.is_empty()
    }

    /// Programs that are connected through the bond.
    pub(crate) fn connected(&self) -> impl Iterator<Item = Snapshot<I>> {
        self.all.iter().filter_map(|(id, session)| {
            let Stage::Relaying(conn, splice) = &session.stage else { return None };
            let Session { destination, source, since, .. } = *session;
            let (taken, given) = (splice.taken(), splice.given());
            Some(Snapshot { id: *id, conn: *conn, source, destination, since, taken, given })
        })
    }

    /// Connections so far, and those of them that were refused.
    #[must_use]
    pub(crate) fn totals(&self) -> (u64, u64) {
        (self.total, self.refused)
    }

    /// Sessions there are, in whatever stage.
    #[must_use]
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether there are none.
    #[must_use]
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Moves what can be moved.
    fn step<N: Near<Id = I>>(&mut self, now: Instant, (near, bond): Ends<'_, N>, id: I) {
        let Some(session) = self.all.get_mut(&id) else { return };
        let Some(mut program) = near.program(now, id) else { return };
        match &mut session.stage {
            Stage::Relaying(conn, splice) => {
                let Some(connection) = bond.connection(*conn) else { return };
                let before = splice.taken();
                let state = splice.step(now, &mut program, connection);
                self.taken += splice.taken() - before;
                match state {
                    RelayState::More => self.again.push_back(id),
                    RelayState::Broken => connection.abort(now),
                    // Both ends close by themselves now, and say when they have.
                    RelayState::Open | RelayState::Finished | RelayState::Answered => {}
                }
            }
            Stage::Leaving(splice) => {
                splice.finish(&mut program);
            }
            Stage::Waiting | Stage::Opening(..) => {}
        }
    }

    /// The host's end is gone.
    fn program_closed(&mut self, now: Instant, bond: &mut Endpoint, id: I, reason: CloseReason) {
        let Some(session) = self.all.remove(&id) else { return };
        let (Stage::Opening(conn, _) | Stage::Relaying(conn, _)) = session.stage else { return };
        self.by_conn.remove(&conn);
        // In order: everything has been passed on, and the connection ends by itself.
        if reason != CloseReason::Finished {
            abort(now, bond, conn);
        }
    }

    /// The bond's end is gone.
    fn connection_closed<N: Near<Id = I>>(
        &mut self,
        now: Instant,
        near: &mut N,
        (conn, id): (ConnId, I),
        reason: CloseReason,
    ) {
        self.by_conn.remove(&conn);
        let Some(session) = self.all.get_mut(&id) else { return };
        match std::mem::replace(&mut session.stage, Stage::Waiting) {
            Stage::Opening(..) => self.fail(now, near, id, connect_error(reason)),
            Stage::Relaying(_, mut splice) if reason == CloseReason::Finished => {
                if let Some(mut program) = near.program(now, id) {
                    splice.finish(&mut program);
                }
                session.stage = Stage::Leaving(splice);
            }
            Stage::Relaying(..) => {
                self.all.remove(&id);
                if let Some(mut program) = near.program(now, id) {
                    program.reset();
                }
            }
            stage @ (Stage::Waiting | Stage::Leaving(_)) => session.stage = stage,
        }
    }
}

fn abort(now: Instant, bond: &mut Endpoint, conn: ConnId) {
    if let Some(connection) = bond.connection(conn) {
        connection.abort(now);
    }
}

fn connect_error(reason: CloseReason) -> ConnectError {
    match reason {
        CloseReason::Refused | CloseReason::Reset(_) => ConnectError::Refused,
        CloseReason::TimedOut => ConnectError::TimedOut,
        _ => ConnectError::General,
    }
}

#[cfg(test)]
mod tests;
