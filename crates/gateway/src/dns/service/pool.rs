//! Threads that do what blocks, fairly: each client has a queue of its own, the queues have their
//! turn one after the other, and no client may have more threads than are left for the others.
//!
//! A client may take a thread while it holds fewer than are free. So one client alone may hold half
//! of them, a second one half of the rest, and so on: whoever asks little always finds one, however
//! long the resolver takes over what the others ask. Threads are started when they are needed.

use crate::address::ClientNumber;
use std::collections::{BTreeMap, VecDeque};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

/// The threads. They end when this is dropped, each after its job.
pub(super) struct Pool<J, R> {
    shared: Arc<Shared<J, R>>,
    name: &'static str,
    threads: usize,
    each: usize,
}

struct Shared<J, R> {
    state: Mutex<State<J>>,
    /// There may be a job that can begin, or no more jobs.
    changed: Condvar,
    work: Work<J, R>,
    done: Sender<(ClientNumber, J, R)>,
    wake: Arc<dyn Fn() + Send + Sync>,
}

/// What is done with a job.
pub(super) type Work<J, R> = Arc<dyn Fn(&J) -> R + Send + Sync>;

/// What the pool's threads and its owner share.
struct State<J> {
    /// Jobs that wait; the clients in the order of their turns.
    queues: BTreeMap<ClientNumber, VecDeque<J>>,
    turns: VecDeque<ClientNumber>,
    /// Jobs under way, of each client.
    running: BTreeMap<ClientNumber, usize>,
    /// Threads started, and those of them without a job.
    started: usize,
    idle: usize,
    closed: bool,
}

impl<J> Default for State<J> {
    fn default() -> Self {
        let (queues, turns, running) = (BTreeMap::new(), VecDeque::new(), BTreeMap::new());
        Self { queues, turns, running, started: 0, idle: 0, closed: false }
    }
}

/// Enough for the system's resolver, whose modules are modest.
const STACK: usize = 256 << 10;

impl<J: Send + 'static, R: Send + 'static> Pool<J, R> {
    /// A pool of at most `threads`, for at most `each` jobs that wait of one client. Results go
    /// to `done`, each followed by a call of `wake`.
    pub(super) fn new(
        (name, threads, each): (&'static str, usize, usize),
        work: Work<J, R>,
        done: Sender<(ClientNumber, J, R)>,
        wake: Arc<dyn Fn() + Send + Sync>,
    ) -> Self {
        let (state, changed) = (Mutex::default(), Condvar::new());
        let shared = Arc::new(Shared { state, changed, work, done, wake });
        Self { shared, name, threads, each }
    }

    /// Queues a job; false if the client's queue is full, or there is no thread at all.
    pub(super) fn put(&self, client: ClientNumber, job: J) -> bool {
        let mut state = self.shared.state();
        let queue = state.queues.entry(client).or_default();
        if queue.len() >= self.each {
            return false;
        }
        queue.push_back(job);
        if queue.len() == 1 {
            state.turns.push_back(client);
        }
        // Idle ones may have been called for other jobs already.
        let waiting: usize = state.queues.values().map(VecDeque::len).sum();
        if waiting > state.idle && state.started < self.threads {
            let (shared, threads) = (Arc::clone(&self.shared), self.threads);
            let builder = thread::Builder::new().name(self.name.into()).stack_size(STACK);
            if builder.spawn(move || shared.run(threads)).is_ok() {
                state.started += 1;
            } else if state.started == 0 {
                state.queues.remove(&client);
                state.turns.retain(|other| *other != client);
                return false;
            }
        }
        drop(state);
        self.shared.changed.notify_one();
        true
    }
}

impl<J, R> Drop for Pool<J, R> {
    fn drop(&mut self) {
        self.shared.state().closed = true;
        self.shared.changed.notify_all();
    }
}

impl<J, R> Shared<J, R> {
    fn state(&self) -> MutexGuard<'_, State<J>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A thread.
    fn run(&self, threads: usize) {
        let mut state = self.state();
        loop {
            if state.closed {
                return;
            }
            let Some((client, job)) = state.next(threads) else {
                state.idle += 1;
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                state.idle -= 1;
                continue;
            };
            drop(state);
            let result = (self.work)(&job);
            if self.done.send((client, job, result)).is_err() {
                return;
            }
            (self.wake)();
            state = self.state();
            state.end(client);
            // Somebody else may begin now who was not allowed to.
            self.changed.notify_all();
        }
    }
}

impl<J> State<J> {
    /// The next job of the client whose turn it is, of those that may have a thread.
    fn next(&mut self, threads: usize) -> Option<(ClientNumber, J)> {
        let free = threads - self.running.values().sum::<usize>();
        let may = |client: &ClientNumber| self.running.get(client).is_none_or(|held| *held < free);
        let place = self.turns.iter().position(may)?;
        let client = self.turns.remove(place)?;
        let queue = self.queues.get_mut(&client)?;
        let job = queue.pop_front()?;
        if queue.is_empty() {
            self.queues.remove(&client);
        } else {
            self.turns.push_back(client);
        }
        *self.running.entry(client).or_default() += 1;
        Some((client, job))
    }

    fn end(&mut self, client: ClientNumber) {
        if let Some(held) = self.running.get_mut(&client) {
            *held -= 1;
            if *held == 0 {
                self.running.remove(&client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(jobs: &[(u16, usize)]) -> State<usize> {
        let mut state = State::default();
        for &(client, jobs) in jobs {
            state.queues.insert(ClientNumber(client), (0..jobs).collect());
            state.turns.push_back(ClientNumber(client));
        }
        state
    }

    #[test]
    fn clients_have_their_turn_one_after_the_other() {
        let mut state = state(&[(1, 3), (2, 1), (3, 2)]);
        let order: Vec<_> = std::iter::from_fn(|| {
            let (client, job) = state.next(64)?;
            state.end(client);
            Some((client.0, job))
        })
        .collect();
        assert_eq!(order, [(1, 0), (2, 0), (3, 0), (1, 1), (3, 1), (1, 2)]);
    }

    #[test]
    fn nobody_holds_more_threads_than_are_left() {
        let mut state = state(&[(1, 100)]);
        let held = |state: &mut State<usize>| std::iter::from_fn(|| state.next(64)).count();
        assert_eq!(held(&mut state), 32);
        state.queues.insert(ClientNumber(2), (0..100).collect());
        state.turns.push_back(ClientNumber(2));
        assert_eq!(held(&mut state), 16);
        state.queues.insert(ClientNumber(3), (0..1).collect());
        state.turns.push_back(ClientNumber(3));
        assert_eq!(state.next(64), Some((ClientNumber(3), 0)), "who asks little has a thread");
        state.end(ClientNumber(3));
        state.end(ClientNumber(1));
        assert!(state.next(64).is_some(), "what one gives back is there for the next");
    }
}
