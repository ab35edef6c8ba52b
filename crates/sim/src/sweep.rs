//! Many runs on all cores. Results come in the order of the runs, whichever finished first.

use crate::observe::Silent;
use crate::result::RunResult;
use crate::scenario::Variant;
use crate::world::{self, RunError};
use std::num::NonZero;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes of a thread's stack: a policy may be Python's, whose interpreter ends a recursion without
/// end only far down. It is address space, which costs nothing until it is used.
const STACK: usize = 16 << 20;

/// Runs every variant with nobody watching. `progress` is told how many are done, of how many.
pub fn run(
    variants: &[Variant],
    progress: impl Fn(usize, usize) + Sync,
) -> Vec<Result<RunResult, RunError>> {
    each(variants, |variant| world::run(&variant.plan, &mut Silent), progress)
}

/// Does `job` for every item, on all cores; results in the order of the items.
pub fn each<I: Sync, T: Send>(
    items: &[I],
    job: impl Fn(&I) -> T + Sync,
    progress: impl Fn(usize, usize) + Sync,
) -> Vec<T> {
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    each_on(cores, items, job, progress)
}

/// As [`each`], on this many threads (at least one).
pub fn each_on<I: Sync, T: Send>(
    threads: usize,
    items: &[I],
    job: impl Fn(&I) -> T + Sync,
    progress: impl Fn(usize, usize) + Sync,
) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let done = AtomicUsize::new(0);
    let results: Vec<Mutex<Option<T>>> = items.iter().map(|_| Mutex::new(None)).collect();
    let work = || {
        loop {
            let n = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(n) else { return };
            let result = job(item);
            *results[n].lock().expect("invariant: no job holds a result while it runs") =
                Some(result);
            progress(done.fetch_add(1, Ordering::Relaxed) + 1, items.len());
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.min(items.len()) {
            let thread = std::thread::Builder::new().stack_size(STACK);
            thread.spawn_scoped(scope, work).expect("invariant: the system has threads for cores");
        }
        work();
    });
    let finished = results.into_iter().map(|result| {
        let result = result.into_inner().expect("invariant: no job holds a result while it runs");
        result.expect("invariant: every item was taken")
    });
    finished.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_keep_the_order_of_the_items() {
        let items: Vec<u64> = (0..100).collect();
        let told = AtomicUsize::new(0);
        let job = |n: &u64| {
            std::thread::sleep(std::time::Duration::from_micros(100 - n));
            n * n
        };
        let squares = each(&items, job, |_, all| {
            told.fetch_add(1, Ordering::Relaxed);
            assert_eq!(all, 100);
        });
        assert!(squares.iter().zip(&items).all(|(square, n)| *square == n * n));
        assert_eq!(told.load(Ordering::Relaxed), 100);
        assert!(each(&[], |n: &u64| *n, |_, _| ()).is_empty());
    }
}
