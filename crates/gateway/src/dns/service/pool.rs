//! A few threads that do what blocks, one job after the other, with a bounded queue.

use std::io;
use std::sync::mpsc::{Receiver, Sender, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// The threads. They end when this is dropped, each after its job.
pub(super) struct Pool<J, R> {
    jobs: SyncSender<J>,
    results: std::marker::PhantomData<fn() -> R>,
}

/// Enough for the system's resolver, whose modules are modest.
const STACK: usize = 256 << 10;

impl<J: Send + 'static, R: Send + 'static> Pool<J, R> {
    /// Starts `threads` that do `work` and send each job back with its result.
    pub(super) fn start(
        name: &str,
        threads: usize,
        queue: usize,
        work: Arc<dyn Fn(&J) -> R + Send + Sync>,
        done: Sender<(J, R)>,
        wake: Arc<dyn Fn() + Send + Sync>,
    ) -> io::Result<Self> {
        let (jobs, inbox) = sync_channel(queue);
        let inbox = Arc::new(Mutex::new(inbox));
        for number in 0..threads {
            let (inbox, work) = (Arc::clone(&inbox), Arc::clone(&work));
            let (done, wake) = (done.clone(), Arc::clone(&wake));
            let builder = thread::Builder::new().name(format!("{name}-{number}")).stack_size(STACK);
            builder.spawn(move || {
                while let Some(job) = next(&inbox) {
                    let result = work(&job);
                    if done.send((job, result)).is_err() {
                        return;
                    }
                    wake();
                }
            })?;
        }
        Ok(Self { jobs, results: std::marker::PhantomData })
    }

    /// Queues a job; false if the queue is full.
    pub(super) fn put(&self, job: J) -> bool {
        self.jobs.try_send(job).is_ok()
    }
}

fn next<J>(inbox: &Mutex<Receiver<J>>) -> Option<J> {
    inbox.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()
}
