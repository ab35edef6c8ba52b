//! Whether the kernel is short of memory for TCP. It then shrinks every window on the machine, in
//! every namespace: a run over 40 Mbit/s gives one, while every packet leaves its link in time.
//!
//! The kernel enters this state above the second of the three numbers of `net.ipv4.tcp_mem` (pages
//! of all TCP sockets together) and leaves it below the first; `/proc/net/protocols` says where it
//! is. Programs outside the lab use the same memory. Limits of a control group are not looked at.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// How much there is, in pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TcpMemory {
    /// In use by all TCP and MPTCP sockets.
    pub(crate) used: u64,
    /// Below the first windows grow as they like; above the second all are shrunk; the third is
    /// all there is.
    pub(crate) limits: [u64; 3],
    /// The kernel shrinks windows.
    pub(crate) short: bool,
}

impl TcpMemory {
    /// As it is now; `None` where the kernel does not say.
    pub(crate) fn look() -> Option<Self> {
        let protocols = fs::read_to_string("/proc/net/protocols").ok()?;
        let limits = fs::read_to_string("/proc/sys/net/ipv4/tcp_mem").ok()?;
        Self::parse(&protocols, &limits)
    }

    fn parse(protocols: &str, limits: &str) -> Option<Self> {
        let mut numbers = limits.split_whitespace().map(|word| word.parse().ok());
        let limits: [u64; 3] = [numbers.next()??, numbers.next()??, numbers.next()??];
        let mut found: Option<Self> = None;
        for line in protocols.lines() {
            // Name, size of a socket, sockets, memory, whether it is short of it.
            let words: Vec<&str> = line.split_whitespace().collect();
            let [name, _, _, memory, press, ..] = words[..] else { continue };
            if !matches!(name, "TCP" | "TCPv6" | "MPTCP" | "MPTCPv6") {
                continue;
            }
            // All of them show the same sum.
            let used = memory.parse().ok()?;
            let before = found.unwrap_or(Self { used, limits, short: false });
            let short = before.short || press == "yes" || used > limits[1];
            found = Some(Self { used: used.max(before.used), short, ..before });
        }
        found
    }

    /// Whether windows may be shrunk soon.
    pub(crate) fn is_tight(self) -> bool {
        self.short || self.used > self.limits[0]
    }

    /// In words.
    pub(crate) fn words(self) -> String {
        let mib = |pages: u64| pages * 4 / 1024;
        let [calm, short, _] = self.limits.map(mib);
        let used = mib(self.used);
        format!("{used} MiB in use; windows shrink above {short} MiB, until it is below {calm}")
    }
}

/// What to do about it.
pub(crate) const REMEDY: &str =
    "find who holds it (ss -tnmp), end it, or raise net.ipv4.tcp_mem (pages: low, pressure, most)";

/// Looks again and again while a run goes on.
#[derive(Debug)]
pub(crate) struct Watcher {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Option<TcpMemory>>>,
}

/// How often it looks.
const LOOK: Duration = Duration::from_millis(50);

impl Watcher {
    pub(crate) fn start() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            let mut worst: Option<TcpMemory> = None;
            loop {
                // Short counts more than much.
                let rank = |memory: &TcpMemory| (memory.short, memory.used);
                worst = worst.into_iter().chain(TcpMemory::look()).max_by_key(rank);
                if stopped.load(Ordering::Relaxed) {
                    return worst;
                }
                std::thread::sleep(LOOK);
            }
        });
        Self { stop, thread: Some(thread) }
    }

    /// Why the run should not be believed, if the machine was short of it at any time.
    pub(crate) fn finish(mut self) -> Option<String> {
        let worst = self.end()?;
        let why = format!("the kernel was short of memory for TCP: {}; {REMEDY}", worst.words());
        worst.short.then_some(why)
    }

    fn end(&mut self) -> Option<TcpMemory> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take()?.join().ok()?
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALM: &str = "\
protocol  size sockets  memory press maxhdr  slab module     cl co di ac\n\
PACKET    1600      0      -1   NI       0   no   kernel      n  n  n  n\n\
MPTCPv6   2064      0    5000   no       0   yes  kernel      y  y  y  n\n\
TCPv6     2480      3    5000   no     320   yes  kernel      y  y  y  n\n\
TCP       2336     17    5000   no     320   yes  kernel      y  y  y  n\n";

    #[test]
    fn a_machine_that_is_short_of_memory_is_seen() {
        let parse = |text: &str, limits: &str| TcpMemory::parse(text, limits).unwrap();
        let calm = parse(CALM, "10000\t20000\t30000\n");
        assert_eq!((calm.used, calm.short, calm.is_tight()), (5000, false, false));
        assert!(calm.words().starts_with("19 MiB in use; windows shrink above 78 MiB"));
        let tight = parse(CALM, "4000 20000 30000");
        assert_eq!((tight.short, tight.is_tight()), (false, true));
        // Above the second number, whatever the kernel has noticed so far.
        assert!(parse(CALM, "3000 4000 30000").short);
        // Between both, the kernel remembers where it came from.
        let pressed = CALM.replacen("5000   no     320", "5000   yes    320", 1);
        assert!(parse(&pressed, "4000 20000 30000").short);
        assert_eq!(TcpMemory::parse("nothing", "1 2 3"), None);
        assert_eq!(TcpMemory::parse(CALM, "1 2"), None);
    }

    #[test]
    fn the_kernel_that_runs_here_says_it() {
        if let Some(memory) = TcpMemory::look() {
            assert!(memory.limits[0] <= memory.limits[1], "{memory:?}");
        }
        // Whatever it finds, it ends when it shall.
        let _ = Watcher::start().finish();
    }
}
