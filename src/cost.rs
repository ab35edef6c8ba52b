//! What a piece of work cost this process: user time, instructions, peak memory (Linux).

use std::time::Duration;

/// Measures from its creation on.
pub(crate) struct Meter {
    scope: Scope,
    user: Option<Duration>,
    instructions: Option<Counter>,
}

/// Whose work is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Scope {
    /// All threads.
    Process,
    /// Only the thread that started the meter and reads it.
    Thread,
}

/// What it cost.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Spent {
    /// Time in user mode; `None` on other systems than Linux.
    pub(crate) user: Option<Duration>,
    /// Instructions in user mode, threads started meanwhile included; `None` where the machine
    /// has no such counter or does not let us read it.
    pub(crate) instructions: Option<u64>,
    /// Largest resident set of the process so far, bytes.
    pub(crate) peak_rss: Option<u64>,
}

impl Meter {
    /// Starts to measure.
    pub(crate) fn start(scope: Scope) -> Self {
        Self { scope, user: user_time(scope), instructions: Counter::open(scope) }
    }

    /// What has been spent since.
    pub(crate) fn spent(&self) -> Spent {
        Spent {
            instructions: self.instructions.as_ref().and_then(Counter::read),
            user: user_time(self.scope).zip(self.user).map(|(now, then)| now.saturating_sub(then)),
            peak_rss: peak_rss(),
        }
    }
}

#[cfg(target_os = "linux")]
fn user_time(scope: Scope) -> Option<Duration> {
    use nix::sys::resource::{UsageWho, getrusage};
    let who = match scope {
        Scope::Process => UsageWho::RUSAGE_SELF,
        Scope::Thread => UsageWho::RUSAGE_THREAD,
    };
    let time = getrusage(who).ok()?.user_time();
    Some(Duration::new(time.tv_sec() as u64, time.tv_usec() as u32 * 1_000))
}

#[cfg(not(target_os = "linux"))]
fn user_time(_: Scope) -> Option<Duration> {
    None
}

/// `VmHWM`: unlike getrusage's figure it does not inherit that of the parent process.
fn peak_rss() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1_024)
}

#[cfg(target_os = "linux")]
use perf::Counter;

#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "perf_event_open, which no crate has")]
mod perf {
    //! `perf_event_open(2)`: instructions retired.

    use super::Scope;
    use std::fs::File;
    use std::io::Read;
    use std::os::fd::FromRawFd;

    /// `perf_event_attr` in its first published size.
    #[repr(C)]
    #[derive(Default)]
    struct Attributes {
        kind: u32,
        size: u32,
        config: u64,
        sample_period: u64,
        sample_type: u64,
        read_format: u64,
        flags: u64,
        wakeup_events: u32,
        breakpoint_type: u32,
        breakpoint_address: u64,
    }

    const HARDWARE: u32 = 0;
    const INSTRUCTIONS: u64 = 1;
    const INHERIT: u64 = 1 << 1;
    const EXCLUDE_KERNEL: u64 = 1 << 5;
    const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
    const CLOSE_ON_EXEC: libc::c_ulong = 1 << 3;

    pub(super) struct Counter(File);

    impl Counter {
        pub(super) fn open(scope: Scope) -> Option<Self> {
            let inherit = if scope == Scope::Process { INHERIT } else { 0 };
            let attributes = Attributes {
                kind: HARDWARE,
                size: size_of::<Attributes>() as u32,
                config: INSTRUCTIONS,
                flags: inherit | EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR,
                ..Attributes::default()
            };
            let (this_thread, any_cpu, no_group) = (0, -1, -1);
            // SAFETY: the attributes live through the call and say their own size; the kernel
            // reads them and returns a new descriptor or -1.
            let fd = unsafe {
                libc::syscall(
                    libc::SYS_perf_event_open,
                    &raw const attributes,
                    this_thread,
                    any_cpu,
                    no_group,
                    CLOSE_ON_EXEC,
                )
            };
            let fd = i32::try_from(fd).ok().filter(|&fd| fd >= 0)?;
            // SAFETY: the descriptor is new and nobody else's.
            Some(Self(unsafe { File::from_raw_fd(fd) }))
        }

        pub(super) fn read(&self) -> Option<u64> {
            let mut count = [0; 8];
            (&self.0).read_exact(&mut count).ok()?;
            Some(u64::from_ne_bytes(count)).filter(|&n| n > 0)
        }
    }
}

#[cfg(not(target_os = "linux"))]
struct Counter;

#[cfg(not(target_os = "linux"))]
impl Counter {
    fn open(_: Scope) -> Option<Self> {
        None
    }
    fn read(&self) -> Option<u64> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_costs_something() {
        let meter = Meter::start(Scope::Process);
        let mut sum = 0u64;
        for i in 0..60_000_000u64 {
            sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(i));
        }
        let spent = meter.spent();
        assert!(spent.user.is_none_or(|time| time > Duration::ZERO), "{sum}");
        assert!(spent.peak_rss.is_none_or(|bytes| bytes > 100_000));
        assert!(spent.instructions.is_none_or(|n| n > 60_000_000));
    }
}
