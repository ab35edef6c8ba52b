//! Real-time priorities (`SCHED_FIFO`). Links come before hosts, and hosts before whatever else
//! this machine does: on machines of their own, nothing else would keep them waiting.
#![expect(unsafe_code, reason = "sched_setscheduler, which no crate of ours has")]

/// Of the emulator.
pub(crate) const LINKS: i32 = 10;
/// Of hosts.
pub(crate) const HOSTS: i32 = 5;

/// Gives the calling thread a priority; whether that is allowed.
pub(crate) fn take(priority: i32) -> bool {
    // SAFETY: a C struct of integers, of which musl's has more than glibc's; all may be zero.
    let mut parameters: libc::sched_param = unsafe { std::mem::zeroed() };
    parameters.sched_priority = priority;
    // SAFETY: the structure lives through the call, which concerns only this thread.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &parameters) == 0 }
}

/// Whether this process may have one.
pub(crate) fn may_take() -> bool {
    std::thread::spawn(|| take(HOSTS)).join().unwrap_or(false)
}
