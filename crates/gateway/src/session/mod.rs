//! Connections that an agent carries on: each from whoever asked for it (the *near* end) to where
//! it goes (the *far* end), from the request to the last byte. The near end is a program's socket,
//! a connection of this host's programs (TUN mode), or a connection of a client; the far end is a
//! connection through a bond, or a socket to a destination.
//!
//! Sans-I/O: events of both ends in, and what is to be done to them by [`Near`] and [`Far`]. A
//! request becomes a [`ConnectRequest`]; the caller opens the far end and says so
//! ([`Sessions::opening`]), or that it cannot be ([`Sessions::fail`]), or leaves it waiting until
//! paths change ([`Sessions::retry`]).
//!
//! A session ends when both streams have ended and all of it has been passed on: the ends finish
//! by themselves. An end with an error is passed on as a reset. If one end is gone in order, the
//! other still gets what is left.

mod ends;
mod finished;
mod retry;
mod socket;

pub(crate) use ends::{Admitted, Discarded, EndStream, Far, Near, Program, Verdict};
pub(crate) use finished::Finished;
pub(crate) use socket::{IDLE, INTERVAL, PROBES, Pool, Socket, SocketStream};

use crate::index::PathIndex;
use crate::listener::{ConnectError, Target};
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use tabane_engine::pipe::{Flow, Pipe, Sink, Stream};
use tabane_engine::record::CloseReason;
use tabane_engine::{Duration, Event, Instant};

/// See the module. `N` names near ends, `F` far ends.
pub(crate) struct Sessions<N, F> {
    all: BTreeMap<N, Session<F>>,
    /// Those that want a far end.
    requests: VecDeque<N>,
    /// Those with more to do at once.
    again: VecDeque<N>,
    patience: Patience,
    total: u64,
    refused: u64,
    taken: u64,
    finished: finished::Log<N>,
}

/// How long sessions wait for what may never come; `None`: for as long as the ends themselves.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Patience {
    /// For the far end's answer.
    pub(crate) answer: Option<Duration>,
    /// For the far end to take what is left when the near one is gone.
    pub(crate) last_words: Option<Duration>,
}

/// Somebody wants to connect.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ConnectRequest<N> {
    pub(crate) id: N,
    /// Whose address this is.
    pub(crate) source: SocketAddr,
    /// The address to try now.
    pub(crate) address: SocketAddr,
    /// What was asked for.
    pub(crate) target: Target,
}

/// What is between two ends: whoever asked, and where it goes.
pub(crate) type Ends<'a, N, F> = (&'a mut N, &'a mut F);

/// A session with a far end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Snapshot<'a, N, F> {
    pub(crate) id: N,
    pub(crate) far: F,
    pub(crate) source: SocketAddr,
    pub(crate) target: &'a Target,
    /// When it was asked for.
    pub(crate) since: Instant,
    /// The far end has answered.
    pub(crate) connected: bool,
    /// Bytes between the ends.
    pub(crate) held: u64,
    /// How many sessions there had been with it.
    pub(crate) number: u64,
    /// Bytes passed on to the far end, and to the near one.
    pub(crate) passed: [u64; 2],
}

struct Session<F> {
    source: SocketAddr,
    target: Target,
    since: Instant,
    stage: Stage<F>,
    number: u64,
    passed: [u64; 2],
}

enum Stage<F> {
    /// For a path, to try the first of these addresses.
    Waiting(VecDeque<SocketAddr>),
    /// The far end is being asked, at the first of these addresses.
    Opening {
        far: F,
        path: Option<PathIndex>,
        since: Instant,
        addresses: VecDeque<SocketAddr>,
        /// A path has come up meanwhile.
        choice: bool,
    },
    /// Bytes flow.
    Relaying(F, Pipe),
    /// The far end is gone, in order; the near one has not taken everything yet.
    FarGone(Pipe),
    /// The near end is gone, in order; the far one has not taken everything yet.
    NearGone { far: F, pipe: Pipe, since: Instant },
    /// The near end has all that it asked for and knows so, and what it says now is thrown away:
    /// were a socket closed with that unread, the system would reset the connection, and the
    /// response might be lost with it (RFC 9112 section 9.6).
    Answered { far: F, until: Instant },
}

/// How long somebody waits for a path before being told that there is none.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
/// How long one address is tried before the next, if there is one.
const NEXT_ADDRESS: Duration = Duration::from_secs(5);
/// How long both ends may take to close after a response.
const LINGER: Duration = Duration::from_secs(5);
/// Bytes moved in one step in one direction, before others have their turn.
const TURN: u64 = 512 << 10;

impl<F: Copy> Stage<F> {
    /// The far end, while there is one that matters.
    fn far(&self) -> Option<F> {
        match self {
            Self::Waiting(_) | Self::FarGone(_) => None,
            Self::Opening { far, .. }
            | Self::Relaying(far, _)
            | Self::NearGone { far, .. }
            | Self::Answered { far, .. } => Some(*far),
        }
    }
}

impl<N: Copy + Ord, F: Copy + Eq> Sessions<N, F> {
    pub(crate) fn new(patience: Patience) -> Self {
        Self {
            all: BTreeMap::new(),
            requests: VecDeque::new(),
            again: VecDeque::new(),
            patience,
            total: 0,
            refused: 0,
            taken: 0,
            finished: finished::Log::default(),
        }
    }

    /// Somebody wants to go to `target`, at one of these addresses, and waits since `since`.
    pub(crate) fn incoming(
        &mut self,
        id: N,
        (source, since): (SocketAddr, Instant),
        (target, addresses): (Target, VecDeque<SocketAddr>),
    ) {
        let stage = Stage::Waiting(addresses);
        self.total += 1;
        let (number, passed) = (self.total, [0, 0]);
        self.all.insert(id, Session { source, target, since, stage, number, passed });
        self.requests.push_back(id);
    }

    /// The next one that wants to connect.
    pub(crate) fn poll_request(&mut self) -> Option<ConnectRequest<N>> {
        let Self { all, requests, .. } = self;
        // Paths that change while nobody opens make several requests of one, and programs go.
        std::iter::from_fn(|| requests.pop_front()).find_map(|id| {
            let Session { source, target, stage, .. } = all.get(&id)?;
            let Stage::Waiting(addresses) = stage else { return None };
            let (source, target) = (*source, target.clone());
            Some(ConnectRequest { id, source, address: *addresses.front()?, target })
        })
    }

    /// Its far end is being asked, first by `path`.
    pub(crate) fn opening(&mut self, now: Instant, id: N, far: F, path: Option<PathIndex>) {
        let Some(session) = self.all.get_mut(&id) else { return };
        if let Stage::Waiting(addresses) = &mut session.stage {
            let addresses = std::mem::take(addresses);
            session.stage = Stage::Opening { far, path, since: now, addresses, choice: false };
        }
    }

    /// It does not get what it wanted.
    pub(crate) fn fail(
        &mut self,
        now: Instant,
        near: &mut impl Near<Id = N>,
        id: N,
        why: ConnectError,
    ) {
        if self.forget(id).is_some() {
            self.refused += 1;
            near.refuse(now, id, why);
        }
    }

    /// An event of a near end that is a connection of an engine.
    pub(crate) fn on_near(
        &mut self,
        now: Instant,
        ends: Ends<'_, impl Near<Id = N>, impl Far<Id = F>>,
        id: N,
        event: Event,
    ) {
        match event {
            Event::Accepted { .. } | Event::Readable | Event::Writable | Event::PeerFinished => {
                self.step(now, ends, id);
            }
            Event::Closed(reason) => self.near_closed(now, ends, id, reason),
            _ => {}
        }
    }

    /// An event of a far end that is a connection of an engine, and was opened for `id`.
    pub(crate) fn on_far(
        &mut self,
        now: Instant,
        ends: Ends<'_, impl Near<Id = N>, impl Far<Id = F>>,
        (id, far): (N, F),
        event: Event,
    ) {
        // It may have been given up since.
        if self.all.get(&id).and_then(|session| session.stage.far()) != Some(far) {
            return;
        }
        match event {
            Event::Connected => self.connected(now, ends, id),
            Event::Readable | Event::Writable | Event::PeerFinished => self.step(now, ends, id),
            Event::Closed(reason) => self.far_closed(now, ends, id, reason),
            _ => {}
        }
    }

    /// The far end has answered.
    pub(crate) fn connected<Y: Far<Id = F>>(
        &mut self,
        now: Instant,
        (near, far): Ends<'_, impl Near<Id = N>, Y>,
        id: N,
    ) {
        let Some(session) = self.all.get_mut(&id) else { return };
        let Stage::Opening { far: at, .. } = session.stage else { return };
        session.stage = Stage::Relaying(at, Pipe::default());
        if near.admit(now, id, far.local(now, at)) == Admitted::Now {
            self.step(now, (near, far), id);
        }
    }

    /// The far end cannot be reached at the address that was tried; the next one is, if there is
    /// one.
    pub(crate) fn unreached(
        &mut self,
        now: Instant,
        (near, far): Ends<'_, impl Near<Id = N>, impl Far<Id = F>>,
        id: N,
        why: ConnectError,
    ) {
        let Some(session) = self.all.get_mut(&id) else { return };
        let Stage::Opening { far: at, addresses, .. } = &mut session.stage else { return };
        let mut rest = std::mem::take(addresses);
        abandon(now, far, *at);
        rest.pop_front();
        let last = rest.is_empty();
        session.stage = Stage::Waiting(rest);
        if last {
            self.fail(now, near, id, why);
        } else {
            self.requests.push_back(id);
        }
    }

    /// Somebody says by ICMP that a connection, by its addresses at the far end, cannot be;
    /// whether it was one of these.
    pub(crate) fn unreachable<Y: Far<Id = F>>(
        &mut self,
        now: Instant,
        (near, far): Ends<'_, impl Near<Id = N>, Y>,
        (local, remote): (SocketAddr, SocketAddr),
        why: ConnectError,
    ) -> bool {
        let found = self.all.iter().find(|(_, session)| match &session.stage {
            Stage::Opening { far: at, addresses, .. } => {
                addresses.front() == Some(&remote) && far.local(now, *at) == Some(local)
            }
            _ => false,
        });
        let Some(id) = found.map(|(id, _)| *id) else { return false };
        self.unreached(now, (near, far), id, why);
        true
    }

    /// Gives up what has been waited for too long.
    pub(crate) fn tick<X: Near<Id = N>, Y: Far<Id = F>>(
        &mut self,
        now: Instant,
        (near, far): Ends<'_, X, Y>,
    ) {
        self.retry_unanswered(now, far);
        let Patience { answer, last_words } = self.patience;
        let over = |since: Instant, limit| now.saturating_since(since) > limit;
        let due = |session: &Session<F>| match &session.stage {
            Stage::Waiting(_) => over(session.since, PATIENCE),
            Stage::Opening { since, addresses, .. } => {
                let next = (addresses.len() > 1).then_some(NEXT_ADDRESS);
                [next, answer].into_iter().flatten().any(|limit| over(*since, limit))
            }
            Stage::NearGone { since, .. } => last_words.is_some_and(|limit| over(*since, limit)),
            Stage::Answered { until, .. } => *until <= now,
            Stage::Relaying(..) | Stage::FarGone(_) => false,
        };
        let due: Vec<N> = self.all.iter().filter(|(_, s)| due(s)).map(|(id, _)| *id).collect();
        for id in due {
            match self.all.get(&id).map(|session| &session.stage) {
                Some(Stage::Waiting(_)) => self.fail(now, near, id, ConnectError::NoPath),
                Some(Stage::Opening { .. }) => {
                    self.unreached(now, (near, far), id, ConnectError::HostUnreachable);
                }
                Some(_) => self.end(now, (near, far), id),
                None => {}
            }
        }
    }

    /// Everything that has a far end is lost.
    pub(crate) fn reset_all<X: Near<Id = N>, Y: Far<Id = F>>(
        &mut self,
        now: Instant,
        (near, far): Ends<'_, X, Y>,
    ) {
        let lost = |stage: &Stage<F>| matches!(stage, Stage::Opening { .. } | Stage::Relaying(..));
        let lost = self.all.iter().filter(|(_, session)| lost(&session.stage));
        let lost: Vec<N> = lost.map(|(id, _)| *id).collect();
        for id in lost {
            self.cut(now, (near, far), id);
        }
    }

    /// Whoever still waits for an answer gets one now, and whoever has a connection sees it end.
    pub(crate) fn dismiss<X: Near<Id = N>, Y: Far<Id = F>>(
        &mut self,
        now: Instant,
        (near, far): Ends<'_, X, Y>,
    ) {
        let all: Vec<N> = self.all.keys().copied().collect();
        for id in all {
            match self.all.get_mut(&id).map(|session| &mut session.stage) {
                Some(Stage::Opening { far: at, .. }) => {
                    abandon(now, far, *at);
                    self.fail(now, near, id, ConnectError::NoPath);
                }
                Some(Stage::Waiting(_)) => self.fail(now, near, id, ConnectError::NoPath),
                // It has been told of the end, and a reset could take the response from it.
                Some(Stage::Answered { .. }) => self.end(now, (near, far), id),
                Some(_) => self.cut(now, (near, far), id),
                None => {}
            }
        }
    }

    /// Resets both ends.
    pub(crate) fn cut(
        &mut self,
        now: Instant,
        (near, far): Ends<'_, impl Near<Id = N>, impl Far<Id = F>>,
        id: N,
    ) {
        if let Some(mut program) = near.stream(now, id) {
            program.reset();
        }
        self.end(now, (near, far), id);
    }

    /// Resets the far end, and leaves the near one as it is.
    fn end(
        &mut self,
        now: Instant,
        (near, far): Ends<'_, impl Near<Id = N>, impl Far<Id = F>>,
        id: N,
    ) {
        near.close(id);
        if let Some(at) = self.forget(id).and_then(|session| session.stage.far()) {
            abandon(now, far, at);
        }
    }

    fn forget(&mut self, id: N) -> Option<Session<F>> {
        let session = self.all.remove(&id)?;
        self.finished.add(|| Finished {
            id,
            target: session.target.clone(),
            since: session.since,
            number: session.number,
            passed: session.passed,
        });
        Some(session)
    }

    /// Those that had more to do, to be stepped once each.
    pub(crate) fn take_again(&mut self) -> VecDeque<N> {
        std::mem::take(&mut self.again)
    }

    /// Whether there are such.
    pub(crate) fn has_again(&self) -> bool {
        !self.again.is_empty()
    }

    /// Those that have a far end, asked or connected.
    pub(crate) fn connected_ones(&self) -> impl Iterator<Item = Snapshot<'_, N, F>> {
        self.all.keys().filter_map(|id| self.get(*id))
    }

    /// One of them.
    pub(crate) fn get(&self, id: N) -> Option<Snapshot<'_, N, F>> {
        let Session { source, target, since, stage, number, passed } = self.all.get(&id)?;
        let held = match stage {
            Stage::Opening { .. } => 0,
            Stage::Relaying(_, pipe) | Stage::NearGone { pipe, .. } => pipe.held(),
            Stage::Waiting(_) | Stage::FarGone(_) | Stage::Answered { .. } => return None,
        };
        let (far, source, since) = (stage.far()?, *source, *since);
        let connected = !matches!(stage, Stage::Opening { .. });
        let (number, passed) = (*number, *passed);
        Some(Snapshot { id, far, source, target, since, connected, held, number, passed })
    }

    /// Far ends that are about to end because their response has been given.
    pub(crate) fn answered(&self) -> impl Iterator<Item = F> {
        self.all.values().filter_map(|session| match session.stage {
            Stage::Answered { far, .. } => Some(far),
            _ => None,
        })
    }

    /// Sessions so far, and those of them that were refused.
    pub(crate) fn totals(&self) -> (u64, u64) {
        (self.total, self.refused)
    }

    /// Bytes that near ends have sent, all together.
    pub(crate) fn taken(&self) -> u64 {
        self.taken
    }

    /// Sessions there are that are not as good as over.
    pub(crate) fn len(&self) -> usize {
        self.all.len() - self.answered().count()
    }

    /// Moves what can be moved, and ends what is over.
    pub(crate) fn step<X: Near<Id = N>, Y: Far<Id = F>>(
        &mut self,
        now: Instant,
        (near, far): Ends<'_, X, Y>,
        id: N,
    ) {
        let Some(session) = self.all.get_mut(&id) else { return };
        let flow = match &mut session.stage {
            Stage::Waiting(_) | Stage::Opening { .. } => return,
            Stage::Relaying(at, pipe) => {
                let at = *at;
                let (Some(mut program), Some(mut beyond)) =
                    (near.stream(now, id), far.stream(now, at))
                else {
                    return;
                };
                let before = pipe.up.passed();
                let flow = pipe.step(&mut program, &mut beyond, TURN);
                self.taken += pipe.up.passed() - before;
                session.passed = [pipe.up.passed(), pipe.down.passed()];
                let verdict = if flow == Flow::Broken { None } else { program.take_verdict() };
                if let Some(verdict) = verdict {
                    match verdict {
                        Verdict::Complete => beyond.shutdown(),
                        Verdict::Failed => beyond.reset(),
                    }
                    session.stage = Stage::Answered { far: at, until: now + LINGER };
                    drop((program, beyond));
                    return self.step(now, (near, far), id);
                }
                flow
            }
            Stage::FarGone(pipe) => {
                let Some(mut program) = near.stream(now, id) else { return };
                let flow = pipe.down.finish(&mut program);
                // In order by its own protocol, too, which the far end has no more use for.
                program.take_verdict();
                // What it still says has nowhere to go.
                if flow == Flow::Ended && !pipe.up.has_ended() { Flow::Broken } else { flow }
            }
            Stage::NearGone { far: at, pipe, .. } => {
                let Some(mut beyond) = far.stream(now, *at) else { return };
                pipe.up.finish(&mut beyond)
            }
            Stage::Answered { .. } => match near.stream(now, id).map(|mut near| near.discard()) {
                None | Some(Discarded::Waits) => Flow::Waits,
                Some(Discarded::More) => Flow::More,
                // Until the far end has closed, too.
                Some(Discarded::Ended) => {
                    near.close(id);
                    Flow::Waits
                }
            },
        };
        match flow {
            Flow::Waits => {}
            Flow::More => self.again.push_back(id),
            Flow::Ended => {
                near.close(id);
                if let Some(at) = self.forget(id).and_then(|session| session.stage.far()) {
                    far.close(at);
                }
            }
            Flow::Broken => self.cut(now, (near, far), id),
        }
    }

    /// The near end is gone.
    fn near_closed(
        &mut self,
        now: Instant,
        (near, far): Ends<'_, impl Near<Id = N>, impl Far<Id = F>>,
        id: N,
        reason: CloseReason,
    ) {
        let Some(session) = self.all.get_mut(&id) else { return };
        match &mut session.stage {
            Stage::Relaying(at, pipe) if reason == CloseReason::Finished => {
                let (far_id, pipe) = (*at, std::mem::take(pipe));
                session.stage = Stage::NearGone { far: far_id, pipe, since: now };
                self.step(now, (near, far), id);
            }
            _ => self.end(now, (near, far), id),
        }
    }

    /// The far end is gone.
    fn far_closed(
        &mut self,
        now: Instant,
        (near, far): Ends<'_, impl Near<Id = N>, impl Far<Id = F>>,
        id: N,
        reason: CloseReason,
    ) {
        let Some(session) = self.all.get_mut(&id) else { return };
        match &mut session.stage {
            Stage::Opening { .. } => self.unreached(now, (near, far), id, connect_error(reason)),
            Stage::Relaying(_, pipe) if reason == CloseReason::Finished => {
                session.stage = Stage::FarGone(std::mem::take(pipe));
                self.step(now, (near, far), id);
            }
            Stage::Relaying(..) => self.cut(now, (near, far), id),
            Stage::NearGone { .. } => self.end(now, (near, far), id),
            Stage::Waiting(_) | Stage::FarGone(_) | Stage::Answered { .. } => {}
        }
    }
}

fn abandon<Y: Far>(now: Instant, far: &mut Y, at: Y::Id) {
    if let Some(mut stream) = far.stream(now, at) {
        stream.reset();
    }
    far.close(at);
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
