//! Transfers over a link with faults.

use super::pair::{Fate, Pair};
use crate::config::TcpConfig;
use crate::policy::Spec;
use crate::tcp::State;
use crate::time::{Duration, Instant};

fn config(congestion: &str) -> TcpConfig {
    TcpConfig { congestion: Spec::named(congestion), ..TcpConfig::default() }
}

/// A small generator of pseudo-random numbers, for fates.
fn dice(mut state: u64) -> impl FnMut(u64) -> u64 {
    move |n| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) % n
    }
}

#[test]
fn clean_transfer_repeats_nothing() {
    let mut pair = Pair::connect(config("cubic"));
    pair.transfer(5_000_000);
    let stats = *pair.end(0).tcb.stats();
    assert_eq!((stats.bytes_retransmitted, stats.timeouts, stats.recoveries), (0, 0, 0));
}

#[test]
fn orderly_close_both_ways() {
    let mut pair = Pair::connect(config("reno"));
    pair.transfer(100_000);
    pair.end(0).close_when_sent = true;
    pair.run(Duration::from_secs(5), |p| p.end(1).tcb.state() == State::CloseWait);
    pair.end(1).to_send = 50_000;
    pair.end(1).close_when_sent = true;
    pair.run(Duration::from_secs(5), |p| p.end(1).tcb.state() == State::Closed);
    assert_eq!(pair.end(0).got(), 50_000);
    assert_eq!(pair.end(0).tcb.state(), State::TimeWait);
    pair.run(Duration::from_secs(70), |p| p.end(0).tcb.state() == State::Closed);
}

#[test]
fn simultaneous_close() {
    let mut pair = Pair::connect(config("reno"));
    pair.transfer(1000);
    for side in 0..2 {
        pair.end(side).close_when_sent = true;
    }
    pair.run(Duration::from_secs(300), |p| {
        (0..2).all(|side| p.end(side).tcb.state() == State::Closed)
    });
}

#[test]
fn single_loss_is_repaired_in_one_round_trip_without_timeout() {
    let mut pair = Pair::connect(config("reno"));
    pair.fate = Box::new(|side, n, _| match (side, n) {
        (0, 40) => Fate::Drop,
        _ => Fate::Deliver,
    });
    pair.transfer(1_000_000);
    let stats = *pair.end(0).tcb.stats();
    assert_eq!((stats.recoveries, stats.timeouts), (1, 0));
    assert_eq!(stats.bytes_retransmitted, 1448);
    assert_eq!(pair.end(1).tcb.stats().bytes_duplicate, 0);
}

#[test]
fn lost_tail_is_repaired_by_a_probe() {
    let mut pair = Pair::connect(config("reno"));
    pair.fate = Box::new(|side, n, s| {
        let last = side == 0 && !s.payload.is_empty() && s.payload.len() < 1448;
        if last && n < 40 { Fate::Drop } else { Fate::Deliver }
    });
    pair.run(Duration::from_secs(1), |p| p.ends[1].is_some());
    pair.end(0).to_send = 10_000;
    let start = pair.now;
    pair.fate = Box::new({
        let mut dropped = false;
        move |side, _, s| {
            let tail = side == 0 && !s.payload.is_empty() && s.payload.len() < 1448;
            if tail && !dropped {
                dropped = true;
                return Fate::Drop;
            }
            Fate::Deliver
        }
    });
    pair.run(Duration::from_secs(5), |p| p.end(1).got() == 10_000);
    let stats = *pair.end(0).tcb.stats();
    assert_eq!((stats.tail_loss_probes, stats.timeouts), (1, 0));
    assert!(pair.now - start < Duration::from_millis(300));
}

#[test]
fn random_loss_both_ways_with_and_without_sack_and_timestamps() {
    for (sack, timestamps) in [(true, true), (true, false), (false, true), (false, false)] {
        for seed in 0..20 {
            let config = TcpConfig { sack, timestamps, ..config("reno") };
            let mut pair = Pair::connect(config);
            let mut dice = dice(seed);
            pair.fate = Box::new(move |_, _, _| match dice(100) {
                0..3 => Fate::Drop,
                3 => Fate::Late(Duration::from_micros(400)),
                4 => Fate::Twice(Duration::from_millis(3)),
                _ => Fate::Deliver,
            });
            pair.transfer(500_000);
            pair.end(0).close_when_sent = true;
            pair.end(1).close_when_sent = true;
            pair.run(Duration::from_secs(4000), |p| {
                (0..2).all(|side| p.end(side).tcb.state() == State::Closed)
            });
        }
    }
}

#[test]
fn delay_spike_is_recognised_as_spurious() {
    for timestamps in [true, false] {
        let config = TcpConfig { timestamps, ..config("reno") };
        let mut pair = Pair::connect(config);
        pair.transfer(200_000);
        pair.end(1).window = 60_000;
        let spike = pair.now + Duration::from_millis(100);
        pair.end(0).to_send = 2_000_000;
        let mut hold = Instant::ZERO;
        let clock = std::rc::Rc::new(std::cell::Cell::new(pair.now));
        let seen = clock.clone();
        pair.fate = Box::new(move |side, _, _| {
            let now = seen.get();
            if side == 0 && now > spike && now < spike + Duration::from_millis(400) {
                // Everything sent in these 400 ms arrives after them, in order.
                hold = hold.max(spike + Duration::from_millis(400)) + Duration::from_micros(100);
                return Fate::Late(hold - now);
            }
            Fate::Deliver
        });
        pair.run(Duration::from_secs(60), |p| {
            clock.set(p.now);
            p.end(1).got() == 2_000_000
        });
        let stats = *pair.end(0).tcb.stats();
        assert!(stats.timeouts >= 1, "{stats:?}");
        assert!(stats.undone >= 1, "timestamps {timestamps}: {stats:?}");
    }
}

#[test]
fn duplicating_network_never_causes_an_undo() {
    let mut pair = Pair::connect(config("reno"));
    pair.fate = Box::new(|side, n, _| match (side, n % 97) {
        (0, 0) => Fate::Drop,
        (0, _) => Fate::Twice(Duration::from_millis(2)),
        _ => Fate::Deliver,
    });
    pair.transfer(1_000_000);
    let stats = *pair.end(0).tcb.stats();
    assert!(stats.recoveries > 3);
    assert_eq!(stats.undone, 0);
}

#[test]
fn zero_window_is_probed_and_reopens() {
    let mut pair = Pair::connect(config("cubic"));
    pair.transfer(50_000);
    pair.end(1).window = 0;
    pair.end(1).tcb.request_ack();
    let stop = pair.now + Duration::from_secs(10);
    let mut open = true;
    while open {
        open = pair.step() && pair.end(1).tcb.stats().segments_sent > 0;
        let now = pair.now;
        open &= pair.end(0).tcb.view(now).sendable > 0;
    }
    pair.end(0).to_send = 100_000;
    let now = pair.now;
    pair.end(0).tcb.set_blocked(now, true);
    while pair.now < stop && pair.step() {}
    let got = pair.end(1).got();
    assert!(got < 100_000);
    pair.end(1).window = 1 << 20;
    // No window update is sent: the probe must find out.
    pair.run(Duration::from_secs(30), |p| {
        let now = p.now;
        p.end(0).tcb.sendable(now) > 0
    });
    let now = pair.now;
    pair.end(0).tcb.set_blocked(now, false);
    pair.run(Duration::from_secs(5), |p| p.end(1).got() == 100_000);
}

#[test]
fn dead_peer_is_given_up_after_the_configured_retries() {
    let mut pair = Pair::connect(TcpConfig { retries: 4, ..config("reno") });
    pair.transfer(10_000);
    pair.fate = Box::new(|_, _, _| Fate::Drop);
    pair.end(0).to_send = 20_000;
    pair.run(Duration::from_secs(60), |p| p.end(0).tcb.state() == State::Closed);
    assert_eq!(pair.end(0).tcb.stats().timeouts, 4);
}

#[test]
fn smaller_mtu_splits_what_is_in_flight() {
    let mut pair = Pair::connect(config("reno"));
    pair.transfer(20_000);
    pair.end(0).to_send = 200_000;
    pair.fate =
        Box::new(
            |side, _, s| {
                if side == 0 && s.payload.len() > 1000 { Fate::Drop } else { Fate::Deliver }
            },
        );
    for _ in 0..5 {
        pair.step();
    }
    pair.end(0).tcb.set_mtu(1000);
    pair.run(Duration::from_secs(60), |p| p.end(1).got() == 200_000);
}
