//! The medium against what is published about it.
#![allow(clippy::unwrap_used)]

use super::dcf::{Counters, Dcf};
use super::*;

const UP: usize = 0;
const DOWN: usize = 1;

fn wifi(spec: &str) -> Wifi {
    build(&spec.parse().unwrap()).unwrap()
}

fn us(us: f64) -> Duration {
    Duration((us * 1e3) as u64)
}

/// A medium whose ends `own` always have packets of `len` bytes, after so many seconds.
fn saturated(wifi: &Wifi, own: &[usize], (len, bps): (u32, u64), seconds: u64) -> Dcf {
    let mut medium = Dcf::new(wifi, bps, Seed(1), "link/test");
    let end = Instant::ZERO + Duration::from_millis(seconds * 1000);
    own.iter().for_each(|end| medium.offer(*end, Instant::ZERO, len, bps));
    loop {
        let next = own.iter().map(|end| medium.outlook(*end)).min();
        let Some(at) = next.filter(|at| *at <= end) else { break };
        medium.advance(at);
        for end in own {
            if medium.take_outcome(*end).is_some() {
                medium.offer(*end, at, len, bps);
            }
        }
    }
    medium
}

/// Of all stations together.
fn all(medium: &Dcf, wifi: &Wifi) -> Counters {
    let add = |a: Counters, b: Counters| Counters {
        attempts: a.attempts + b.attempts,
        failed: a.failed + b.failed,
        received: a.received + b.received,
        given_up: a.given_up + b.given_up,
    };
    (0..2 + wifi.stations).map(|n| medium.counters(n)).fold(Counters::default(), add)
}

fn share(of: u64, whole: u64) -> f64 {
    of as f64 / whole as f64
}

fn near(what: &str, is: f64, expected: f64, tolerance: f64) {
    let off = is / expected - 1.0;
    println!("{what}: {is:.4}, expected {expected:.4}: {:+.2} %", 100.0 * off);
    assert!(off.abs() <= tolerance, "{what}: {is} is not {expected}");
}

/// The fixed point of Bianchi (2000), equations (7) and (9), for `n` stations whose frames collide
/// with probability p each time and are sent `attempts` times at most: probabilities of a collision
/// and that a station begins in a slot. For frames that are sent until they arrive, this is his
/// tau = 2 (1 - 2p) / ((1 - 2p) (W + 1) + p W (1 - (2p)^m)); where attempts end, the same ratio
/// of attempts to slots ends there (Wu et al., INFOCOM 2002).
fn fixed_point(n: usize, w: f64, m: i32, attempts: Option<i32>) -> (f64, f64) {
    let tau = |p: f64| match attempts {
        None => {
            let growth: f64 = (0..m).map(|i| (2.0 * p).powi(i)).sum();
            2.0 / (1.0 + w + p * w * growth)
        }
        Some(k) => {
            let sent: f64 = (0..k).map(|i| p.powi(i)).sum();
            let slots = |i: i32| p.powi(i) * f64::midpoint(w * 2_f64.powi(i.min(m)), 1.0);
            sent / (0..k).map(slots).sum::<f64>()
        }
    };
    let others = n as i32 - 1;
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..60 {
        let p = f64::midpoint(low, high);
        let collides = 1.0 - (1.0 - tau(p)).powi(others);
        if collides > p { low = p } else { high = p }
    }
    (low, tau(low))
}

/// Bianchi's saturation throughput, equations (10) to (14): payload over time, with his table II.
fn bianchi(n: usize, tau: f64) -> f64 {
    let idle = (1.0 - tau).powi(n as i32);
    let success = n as f64 * tau * (1.0 - tau).powi(n as i32 - 1);
    // In us, at 1 Mbit/s: payload, MAC and PHY headers, ACK; SIFS 28, DIFS 128, propagation 1.
    let (payload, headers, ack) = (8184.0, 272.0 + 128.0, 112.0 + 128.0);
    let t_success = headers + payload + 28.0 + 1.0 + ack + 128.0 + 1.0;
    let t_collision = headers + payload + 128.0 + 1.0;
    let collision = 1.0 - idle - success;
    success * payload / (idle * 50.0 + success * t_success + collision * t_collision)
}

/// Stations freeze their counters in a slot in which somebody sends, as the standard says, where
/// Bianchi counts that slot down; so the slot after a frame belongs to its sender, and with many
/// stations there are a little fewer collisions (Tinnirello, Bianchi and Xiao, IEEE TVT 59, 2010).
#[test]
fn saturation_throughput_is_bianchis() {
    let (w, seconds) = (32, 1000);
    for m in [3, 5] {
        for n in [5, 10, 20, 50] {
            let (cwmin, cwmax) = (w - 1, (w << m) - 1);
            let spec =
                format!("wifi-fhss:stations={},bytes=1023,cwmin={cwmin},cwmax={cwmax}", n - 1);
            let wifi = wifi(&spec);
            let sum = all(&saturated(&wifi, &[UP], (1023, 1_000_000), seconds), &wifi);
            let (p, tau) = fixed_point(n, f64::from(w), m, None);
            let throughput = share(sum.received * 8184, seconds * 1_000_000);
            near(&format!("throughput, m {m}, n {n}"), throughput, bianchi(n, tau), 0.015);
            near(&format!("collisions, m {m}, n {n}"), share(sum.failed, sum.attempts), p, 0.025);
        }
    }
}

/// What the attempts do not bring is lost: p^attempts, with p of the fixed point.
///
/// With p as measured, 30 % more is lost (W = 16, seven attempts): who has just been acknowledged
/// may draw 0 and has that slot to itself, so that first attempts collide less often than others.
/// With a window of 128, where that is rare, both are the same.
#[test]
fn loss_is_that_all_attempts_collide() {
    for (w, n, attempts) in [(16, 10, 2), (16, 10, 4), (16, 20, 4), (16, 20, 7), (128, 60, 4)] {
        let (cwmin, cwmax, others) = (w - 1, w * 64 - 1, n - 1);
        let spec = format!("cwmin={cwmin},cwmax={cwmax},stations={others},attempts={attempts}");
        let wifi = wifi(&format!("wifi:{spec}"));
        let medium = saturated(&wifi, &[UP], (1500, 54_000_000), 60);
        let sum = all(&medium, &wifi);
        let (p, _) = fixed_point(n, f64::from(w), 6, Some(attempts));
        let what = format!("W {w}, {n} stations, {attempts} attempts");
        let measured = share(sum.failed, sum.attempts);
        near(&format!("collisions, {what}"), measured, p, 0.05);
        let lost = share(sum.given_up, sum.received + sum.given_up);
        near(&format!("loss, {what}"), lost, p.powi(attempts), 0.1);
        if w > 100 {
            near(&format!("loss as measured, {what}"), lost, measured.powi(attempts), 0.03);
        }
    }
}

/// 20 us of preamble and 57 symbols, an ACK of 28 us: the sums of the standard. A lone station
/// waits for DIFS and 7.5 slots on average.
#[test]
fn a_lone_station_has_what_the_overhead_leaves() {
    let wifi = wifi("wifi");
    assert_eq!(wifi.packet_time(1500, 54_000_000), us(248.0));
    assert_eq!(wifi.ack_time(54_000_000), us(28.0));
    assert_eq!(wifi.ack_time(18_000_000), us(32.0), "at 12 Mbit/s");
    assert_eq!(wifi.ack_time(9_000_000), us(44.0), "at 6 Mbit/s");
    let cycle = 34.0 + 7.5 * 9.0 + 248.0 + 16.0 + 28.0;
    let seconds = Duration::from_millis(100_000);
    for way in ["link/a/up", "link/a/down"] {
        let rate = mean_rate(&wifi, 54_000_000, Seed(1), way, seconds);
        near("Mbit/s", rate / 1e6, 12_000.0 / cycle, 0.005);
    }
}

/// Both directions contend as two stations do: as many frames each, half of the air.
#[test]
fn directions_share_by_frames() {
    let wifi = wifi("wifi-fhss:bytes=1023,cwmin=31,cwmax=1023");
    let medium = saturated(&wifi, &[UP, DOWN], (1023, 1_000_000), 5_000);
    let [up, down] = [UP, DOWN].map(|end| medium.counters(end).received);
    near("up over down", share(up, down), 1.0, 0.01);
    let (_, tau) = fixed_point(2, 32.0, 5, None);
    let throughput = share((up + down) * 8184, 5_000 * 1_000_000);
    near("both", throughput, bianchi(2, tau), 0.015);
}

/// A station by the same rules does not have the air more often for longer frames.
#[test]
fn stations_share_by_frames_whatever_their_length() {
    let wifi = wifi("wifi:stations=3,bytes=300");
    let medium = saturated(&wifi, &[UP], (1500, 54_000_000), 300);
    let others = (2..5).map(|n| medium.counters(n).received).sum::<u64>();
    near("ours over theirs", share(medium.counters(UP).received * 3, others), 1.0, 0.02);
}

/// Hidden stations begin while the terminal sends, and it while they do. What the access point
/// sends all hear, so that it meets only what begins in the same slot, and of that the terminal
/// hears only what is not hidden from it: one station with the probability that it begins.
#[test]
fn hidden_stations_harm_the_uplink() {
    let failed = |spec: &str, end: usize| {
        let counters = saturated(&wifi(spec), &[end], (1500, 54_000_000), 100).counters(end);
        (share(counters.failed, counters.attempts), share(counters.given_up, counters.received))
    };
    let (p, tau) = fixed_point(3, 16.0, 6, Some(7));
    let heard = failed("wifi:stations=2", UP);
    near("none hidden, up", heard.0, p, 0.06);
    near("none hidden, down", failed("wifi:stations=2", DOWN).0, p, 0.06);
    let (up, down) =
        (failed("wifi:stations=2,hidden=1", UP), failed("wifi:stations=2,hidden=1", DOWN));
    println!("hidden: {up:?}, {down:?}");
    near("one hidden, down", down.0, tau, 0.1);
    assert!(up.0 > 2.0 * p && up.1 > 0.02 && down.1 < 1e-4, "{up:?} {down:?}");
}

/// A frame that is sent once is lost if a burst is on when it begins, or begins before it ends.
#[test]
fn interference_takes_the_frames_that_it_meets() {
    for (burst_ms, part) in [(5.0, 0.1), (0.2, 0.05), (10.0, 0.5)] {
        let wifi = wifi(&format!("wifi:attempts=1,interference={part},burst_ms={burst_ms}"));
        let mut medium = Dcf::new(&wifi, 54_000_000, Seed(1), "link/test");
        let (frames, mut lost) = (100_000, 0);
        for n in 0..frames {
            // Far enough apart to be independent.
            medium.offer(UP, Instant::ZERO + us(burst_ms * 12e3 + 500.0) * n, 1500, 54_000_000);
            let at = medium.outlook(UP);
            medium.advance(at);
            lost += u64::from(!medium.take_outcome(UP).unwrap().received);
        }
        let pause = burst_ms * (1.0 - part) / part;
        let expected = 1.0 - (1.0 - part) * (-0.248 / pause).exp();
        near(&format!("loss, {burst_ms} ms {part}"), share(lost, frames), expected, 0.03);
    }
}

/// When somebody looks changes nothing.
#[test]
fn what_happens_does_not_depend_on_who_asks() {
    let spec = "wifi:stations=4,hidden=2,interference=0.1";
    let run = |looks: bool| {
        let mut rng = Seed(7).stream("looks");
        let mut medium = Dcf::new(&wifi(spec), 54_000_000, Seed(1), "link/test");
        let mut outcomes = Vec::new();
        for n in 0..2000 {
            let at = Instant::ZERO + us(700.0) * n;
            medium.offer((n % 2) as usize, at, 1500, 54_000_000);
            while medium.outlook(UP).min(medium.outlook(DOWN)) < at + us(700.0) {
                let at = medium.outlook(UP).min(medium.outlook(DOWN));
                medium.advance(at);
                outcomes.extend([UP, DOWN].map(|end| medium.take_outcome(end)));
            }
            (0..5).filter(|_| looks).for_each(|k| {
                medium.advance(at + us(rng.uniform() * 20.0 + 140.0 * f64::from(k)));
            });
        }
        outcomes
    };
    assert_eq!(run(false), run(true));
}
