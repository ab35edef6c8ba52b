//! Programs send and receive while links do everything that links do: every byte is compared.
//!
//! `TABANE_SOAK_SECONDS` says for how long (12 s unless told), `TABANE_SOAK_SEED` draws other
//! faults; the seed is printed.

use super::bed::{Agent, LONG, connect, echo, pattern, wired};
use super::wire::{Faults, Wire};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Programs at a time.
const PROGRAMS: u32 = 4;
/// No link is dead for longer: a second without any path is no reason to end a connection.
const DEAD: Duration = Duration::from_millis(1500);

fn setting(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |text| text.parse().expect(name))
}

/// Linear congruence, its upper half.
struct Draw(u64);

impl Draw {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (self.0 >> 33) % n
    }

    /// One of six: three kinds of trouble, alone and together, and none.
    fn faults(&mut self) -> Faults {
        let some = |draw: &mut Self, percent: u64| draw.below(percent * 10) as f64 / 1000.0;
        let bad = Faults {
            lose: some(self, 5),
            copy: some(self, 10),
            replay: some(self, 5),
            hold: some(self, 10),
            damage: some(self, 3),
            truncate: some(self, 3),
            ..Faults::default()
        };
        match self.below(6) {
            0 => Faults { cut: true, ..Faults::default() },
            1 => Faults { lose: bad.lose, ..Faults::default() },
            2 => Faults { copy: bad.copy, replay: bad.replay, hold: bad.hold, ..Faults::default() },
            3 => Faults { largest: 700 + self.below(800) as usize, ..Faults::default() },
            4 => bad,
            _ => Faults::default(),
        }
    }
}

/// Sends a drawn number of bytes to an echo and compares what comes back. Bytes compared.
fn program(listener: SocketAddr, far: SocketAddr, draw: &mut Draw) -> u64 {
    let len = if draw.below(3) == 0 { 3_000_000 } else { 60_000 };
    let data = pattern(1 + draw.below(len) as usize, draw.below(1 << 31) as u32);
    let mut stream = connect(listener, far).unwrap_or_else(|code| panic!("refused: {code}"));
    stream.set_read_timeout(Some(2 * LONG)).unwrap();
    let mut writer = stream.try_clone().unwrap();
    let sent = data.clone();
    let writing = thread::spawn(move || {
        writer.write_all(&sent).unwrap();
        writer.shutdown(Shutdown::Write).unwrap();
    });
    let mut back = Vec::new();
    stream.read_to_end(&mut back).unwrap_or_else(|e| {
        panic!("{e} after {} of {} bytes came back", back.len(), data.len());
    });
    let differ = data.iter().zip(&back).position(|(a, b)| a != b);
    assert_eq!((differ, back.len()), (None, data.len()), "first difference, length");
    writing.join().unwrap();
    data.len() as u64
}

fn trouble(wires: &[Wire; 2], until: Instant, draw: &mut Draw) -> u32 {
    let mut changes = 0;
    while Instant::now() < until {
        let wire = &wires[draw.below(2) as usize];
        match draw.below(6) {
            0 => wire.rebind(),
            _ => wire.set(draw.faults()),
        }
        changes += 1;
        thread::sleep(Duration::from_millis(50 + draw.below(DEAD.as_millis() as u64 - 50)));
        if draw.below(2) == 0 {
            wire.set(Faults::default());
        }
    }
    wires.iter().for_each(|wire| wire.set(Faults::default()));
    changes
}

#[test]
fn nothing_is_lost_or_doubled_whatever_links_do() {
    let seed = setting("TABANE_SOAK_SEED", 1);
    let (client, server, wires) = wired("127.0.0.1");
    let (listener, far) = (client.at, echo());
    let until = Instant::now() + Duration::from_secs(setting("TABANE_SOAK_SECONDS", 12));
    let over = Arc::new(AtomicBool::new(false));
    let programs: Vec<_> = (0..PROGRAMS)
        .map(|i| {
            let over = over.clone();
            thread::spawn(move || {
                let mut draw = Draw(seed << 8 | u64::from(i));
                let (mut runs, mut bytes) = (0, 0);
                while !over.load(Ordering::Relaxed) {
                    bytes += program(listener, far, &mut draw);
                    runs += 1;
                }
                (runs, bytes)
            })
        })
        .collect();
    let changes = trouble(&wires, until, &mut Draw(seed));
    over.store(true, Ordering::Relaxed);
    let done: Vec<(u32, u64)> = programs.into_iter().map(|p| p.join().unwrap()).collect();
    let runs: u32 = done.iter().map(|(runs, _)| runs).sum();
    let bytes: u64 = done.iter().map(|(_, bytes)| bytes).sum();
    println!("seed {seed}: {changes} changes, {runs} connections, {bytes} bytes each way compared");
    assert!(runs >= PROGRAMS, "every program came to its end");
    let idle = |agent: &Agent| agent.until("all over", |status| status.connections == 0);
    idle(&client);
    idle(&server);
    // Both paths are as good as new.
    client.until_paths_work();
}
