//! The state machine against a model of a bottleneck: round by round, not packet by packet.

use super::*;
use crate::congestion::tests;
use crate::time::Instant;
use crate::view::SubflowId;

use std::collections::VecDeque;

const MSS: u64 = 1000;
const BASE_MS: u64 = 40;
/// Segments that leave the bottleneck in a base round trip.
const BDP: u64 = 100;

/// A bottleneck and what others have in flight there, segments.
struct Bottleneck {
    cc: Cubicd,
    now: Instant,
    others: u64,
    /// What others have in flight does not make way, and what is beyond the pipe waits.
    base_ms: u64,
    /// By how much a round trip may be longer than another, whatever is in flight.
    jitter_ms: u64,
    luck: u64,
    /// What acknowledgements wait on their way back, and whether timestamps tell.
    back: Duration,
    told: bool,
    /// What trains of segments say, bytes/s.
    capacity: u64,
}

impl Bottleneck {
    fn new(others: u64) -> Self {
        let start = Start { mss: MSS, cwnd: 10 * MSS, ssthresh: u64::MAX };
        let cc = Cubicd::made(&Values::defaults(PARAMS), start);
        Self {
            cc,
            now: Instant(1_000_000_000),
            others,
            base_ms: BASE_MS,
            jitter_ms: 0,
            luck: 1,
            back: Duration::ZERO,
            told: true,
            capacity: 0,
        }
    }

    /// A round trip: what the window held is delivered, one segment of it `lost` times.
    fn round(&mut self, lost: u64) {
        let window = self.cc.state().cwnd / MSS;
        let base = Duration::from_millis(self.base_ms) + self.back;
        let pipe = BDP * base.0 / Duration::from_millis(BASE_MS).0;
        let queue = (window + self.others).saturating_sub(pipe);
        let rtt = base + Duration::from_micros(queue * BASE_MS * 1000 / BDP);
        let reverse_delay = if self.told { self.back } else { Duration::ZERO };
        for n in 0..window {
            self.now += rtt / window.max(1);
            let in_flight = self.cc.state().cwnd;
            let lost = if n == 0 { lost * MSS } else { 0 };
            let ack = tests::ack(0, 1);
            let sample = rtt + self.late();
            let ack = Ack { now: self.now, rtt: Some(sample), srtt: rtt, in_flight, lost, ..ack };
            let ack = Ack { capacity: self.capacity, prior_in_flight: in_flight, ..ack };
            let ack = Ack { reverse_delay, ..ack };
            if lost > 0 {
                let event = Congestion::new(self.now, CongestionKind::Loss, MSS);
                self.cc.on_congestion(&event, &[]);
            }
            self.cc.on_ack(&ack, &[]);
        }
    }

    fn late(&mut self) -> Duration {
        self.luck = self.luck.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        Duration::from_micros(((self.luck >> 33) * self.jitter_ms * 1000) >> 31)
    }

    /// A program writes so many segments and waits until they have arrived: how long that takes.
    fn request(&mut self, segments: u64) -> Duration {
        let (begin, base) = (self.now, Duration::from_millis(self.base_ms));
        let (mut left, mut free_at) = (segments, self.now);
        let mut flight: VecDeque<(Instant, Instant)> = VecDeque::new();
        let mut most = 0;
        loop {
            while left > 0 && (flight.len() as u64) < self.segments() {
                free_at = free_at.max(self.now) + base / BDP;
                flight.push_back((self.now, free_at + base));
                left -= 1;
            }
            most = most.max(flight.len() as u64);
            let Some((sent, acked)) = flight.pop_front() else { return self.now - begin };
            self.now = acked;
            let rtt = acked - sent;
            let (in_flight, cwnd_limited) = (flight.len() as u64 * MSS, self.segments() < 2 * most);
            let ack = Ack { now: self.now, rtt: Some(rtt), srtt: rtt, ..tests::ack(0, 1) };
            let ack = Ack { in_flight, prior_in_flight: in_flight + MSS, cwnd_limited, ..ack };
            self.cc.on_ack(&ack, &[]);
        }
    }

    fn rounds(&mut self, n: u32) -> &mut Self {
        (0..n).for_each(|_| self.round(0));
        self
    }

    fn segments(&self) -> u64 {
        self.cc.window() / MSS
    }
}

#[test]
fn alone_it_fills_the_pipe_and_keeps_the_queue_at_the_limit() {
    let mut link = Bottleneck::new(0);
    link.rounds(20);
    assert_eq!(link.cc.mode, Mode::Alone);
    for _ in 0..200 {
        link.round(0);
        // An eighth of 40 ms is 5 ms: 12 segments.
        assert!((90..=116).contains(&link.segments()), "{} segments", link.segments());
    }
}

/// A program that has nothing to send for a while does not tell what became of the queue, and what
/// it sends is not what the path carries: once the window is large enough, no request takes longer
/// than others.
#[test]
fn pauses_of_a_program_say_nothing_of_the_path() {
    for segments in [50, 100, 125, 150, 200] {
        let mut link = Bottleneck::new(0);
        link.request(segments);
        let took: Vec<Duration> = (0..40)
            .map(|_| {
                link.now += Duration::from_millis(100);
                link.request(segments)
            })
            .collect();
        let least = *took.iter().min().unwrap();
        let most = *took.iter().max().unwrap();
        assert!(most <= least / 10 * 11, "{segments} segments: {took:?}");
    }
}

/// After a pause a little faster than what trains have told, where something was lost then of late
/// no faster, and a full window is not held back.
#[test]
fn after_a_pause_it_sends_as_fast_as_the_path_forwards() {
    let known = BDP * MSS * 1000 / BASE_MS;
    let mut link = Bottleneck { capacity: known, ..Bottleneck::new(0) };
    link.rounds(40);
    let pace = |link: &Bottleneck| link.cc.state().pacing_rate.unwrap();
    let usual = pace(&link);
    assert!(usual > known, "{usual}");
    let after_a_pause = |link: &mut Bottleneck, lost: u64| {
        let rtt = Some(Duration::from_millis(BASE_MS));
        for n in 0..3 {
            link.now += Duration::from_millis(BASE_MS);
            // All that was in flight, and then less than the window.
            let (segments, in_flight) = if n == 0 { (2 * BDP, 0) } else { (1, MSS) };
            let srtt = Duration::from_millis(BASE_MS);
            let ack = Ack { now: link.now, rtt, srtt, lost, ..tests::ack(0, 1) };
            let delivered = segments * MSS;
            let ack = Ack { delivered, capacity: known, in_flight, cwnd_limited: false, ..ack };
            link.cc.on_ack(&ack, &[]);
        }
        pace(link)
    };
    link.cc.cwnd = 3 * BDP * MSS;
    let paced = after_a_pause(&mut link, 0);
    assert_eq!(paced, known.max(link.cc.path.peak()) / 100 * GAIN);
    let careful = after_a_pause(&mut link, MSS);
    assert_eq!(careful, known.max(link.cc.path.peak()));
}

#[test]
fn alone_losses_do_not_count() {
    let mut link = Bottleneck::new(0);
    (0..20).for_each(|_| link.round(3));
    for _ in 0..200 {
        link.round(3);
        assert!(link.segments() >= 90, "{} segments", link.segments());
        assert_eq!(link.cc.mode, Mode::Alone);
    }
}

/// In a drain one of a few round trips is short by luck. The mean of them is what it was before:
/// nothing has gone with what was not sent.
#[test]
fn round_trips_that_vary_are_no_queue() {
    for jitter_ms in [0, 40] {
        let mut link = Bottleneck::new(0);
        link.rounds(20);
        link.jitter_ms = jitter_ms;
        link.cc.alone(12 * MSS);
        link.rounds(2);
        link.cc.start_drain(link.now);
        link.cc.drain.as_mut().unwrap().cwnd = 6 * MSS;
        // The drain before said that it is none.
        link.cc.path.take_for_noise(Duration::from_millis(40));
        let before = link.cc.cwnd;
        while link.cc.drain.is_some() {
            link.round(0);
        }
        assert_eq!(link.cc.cwnd >= before, jitter_ms > 0, "{before} -> {} bytes", link.cc.cwnd);
    }
}

#[test]
fn losses_that_come_only_with_a_queue_of_others_count() {
    let mut link = Bottleneck::new(0);
    link.rounds(20);
    link.others = 60;
    let mut before = 0;
    let cut = (0..200).any(|_| {
        before = link.segments();
        // What drops keeps a queue of 4 ms.
        link.round(u64::from(before + link.others > BDP + 10));
        link.cc.mode == Mode::Beside
    });
    (0..3).for_each(|_| link.round(1));
    assert!(cut && link.segments() <= before * 3 / 4, "{} segments", link.segments());
}

/// A queue of 3 ms overflows before it is long enough to ask for a drain. Where the path loses by
/// chance, too, those losses do.
#[test]
fn losses_of_a_short_queue_of_ones_own_ask_for_drains() {
    for chance in [17, 5] {
        let mut link = Bottleneck::new(0);
        for n in 1..600 {
            let overflow = link.segments().saturating_sub(BDP + 8);
            link.round(overflow.min(3) + u64::from(n % chance == 0));
            if n > 60 {
                let (mode, window) = (link.cc.mode, link.segments());
                assert!(mode == Mode::Alone && (90..=116).contains(&window), "{chance}: {window}");
            }
        }
    }
}

#[test]
fn a_mark_ends_being_alone_whatever_the_queue() {
    let mut link = Bottleneck::new(0);
    link.rounds(40);
    assert_eq!(link.cc.mode, Mode::Alone);
    let before = link.segments();
    link.cc.on_congestion(&Congestion::new(link.now, CongestionKind::Ecn, MSS), &[]);
    assert_eq!(link.cc.mode, Mode::Beside);
    assert!(link.segments() <= before * 3 / 4);
}

#[test]
fn a_path_that_begins_to_lose_is_soon_ignored() {
    let mut link = Bottleneck::new(0);
    link.rounds(200);
    (0..60).for_each(|_| link.round(3));
    for _ in 0..200 {
        link.round(3);
        assert!(link.segments() >= 90, "{} segments", link.segments());
    }
}

/// As when satellites are changed: losses until hardly anything is in flight, and then a round trip
/// that is longer by less than what asks for a drain. If that comes in the middle of a drain, the
/// window is back before it shows, and it looks like others' queue for some seconds.
#[test]
fn a_path_that_has_become_a_little_longer_has_no_queue() {
    let short = |rounds: &u32| {
        let mut link = Bottleneck::new(0);
        link.rounds(*rounds);
        let now = link.now;
        link.cc.on_congestion(&Congestion::new(now, CongestionKind::Rto, MSS), &[]);
        (link.cc.cwnd, link.cc.ssthresh) = (10 * MSS, 10 * MSS);
        link.base_ms = BASE_MS + 2;
        link.rounds(20);
        let windows: Vec<u64> = (0..200).map(|_| link.rounds(1).segments()).collect();
        assert!(windows.iter().all(|window| *window >= 90), "{rounds} rounds: {windows:?}");
        windows.iter().all(|window| *window <= 125)
    };
    assert!((60..80).filter(short).count() >= 18);
}

/// A queue that grows as the window does is one, however slowly that is.
#[test]
fn a_queue_of_its_own_is_none_of_the_path() {
    let mut link = Bottleneck::new(0);
    link.rounds(2_000);
    assert_eq!(link.cc.path.base(), Duration::from_millis(BASE_MS));
}

#[test]
fn a_rate_that_comes_back_is_found_again_in_slow_start() {
    let mut link = Bottleneck::new(0);
    link.rounds(20);
    let now = link.now;
    link.cc.alone(10 * MSS);
    while link.segments() < 90 {
        link.round(0);
    }
    // Two rounds tell that there is no queue; three double the window, and there is one to spare.
    assert!((link.now - now).0 <= 6 * BASE_MS * 1_000_000, "{:?}", link.now - now);
}

#[test]
fn acknowledgements_in_bunches_do_not_make_a_path_faster() {
    let mut link = Bottleneck::new(0);
    link.rounds(20);
    let carries = BDP * MSS * 1000 / BASE_MS;
    for _ in 0..40 {
        link.now += Duration::from_millis(BASE_MS);
        let window = link.segments();
        for left in (0..window).rev() {
            link.now += Duration::from_micros(1);
            let rtt = Duration::from_millis(BASE_MS);
            let ack = Ack { now: link.now, rtt: Some(rtt), srtt: rtt, ..tests::ack(0, 1) };
            // Half of them are there when the first is looked at.
            let in_flight = if left > window / 2 { left - window / 2 } else { left } * MSS;
            link.cc.on_ack(&Ack { in_flight, ..ack }, &[]);
        }
        let (peak, held) = (link.cc.path.peak(), window * MSS * 1000 / BASE_MS);
        assert!(peak <= held.max(carries * 6 / 5), "{peak} of {carries} bytes/s");
    }
}

#[test]
fn slow_start_ends_where_the_path_overflows_in_recovery() {
    let mut link = Bottleneck::new(0);
    link.rounds(20);
    link.cc.ssthresh = u64::MAX;
    for n in 0..40 {
        link.now += Duration::from_millis(1);
        let rtt = Duration::from_millis(BASE_MS + 50);
        let in_flight = link.cc.window();
        let ack = Ack { now: link.now, rtt: Some(rtt), srtt: rtt, in_flight, ..tests::ack(0, 1) };
        let phase = RecoveryPhase::Recovery;
        link.cc.on_ack(&Ack { lost: MSS * (n % 2), phase, ..ack }, &[]);
    }
    assert!(link.cc.drain.is_some() || link.cc.mode == Mode::Beside);
}

/// Slow start that a burst of losses ended goes on to what trains of segments say that the path
/// carries, and not faster than that.
#[test]
fn slow_start_goes_on_to_what_trains_have_told() {
    let after = |capacity: u64| {
        let mut link = Bottleneck { capacity, ..Bottleneck::new(0) };
        link.rounds(2).cc.alone(20 * MSS);
        let (mut rounds, mut fastest) = (0, 0);
        while link.segments() < 90 {
            fastest = fastest.max(link.cc.state().pacing_rate.unwrap());
            link.round(0);
            rounds += 1;
        }
        assert_eq!(link.cc.mode, Mode::Alone);
        (rounds, fastest)
    };
    let capacity = BDP * MSS * 1000 / BASE_MS;
    let (known, fastest) = after(capacity);
    assert!((capacity / 2..=capacity / 5 * 6).contains(&fastest), "{fastest} of {capacity}");
    let (unknown, _) = after(0);
    assert!(known < unknown, "{known} rounds, and {unknown} without trains");
}

/// Rounds tell too late what a long path carries: the drain that ends slow start leaves what trains
/// of segments have told, and what rounds delivered only where the queue stays with that.
#[test]
fn the_first_drain_leaves_what_trains_have_told() {
    let capacity = BDP * MSS * 1000 / BASE_MS;
    for (others, told, left) in [
        (0, capacity, BDP..=BDP + 10),
        (0, 0, 20..=BDP * 8 / 10),
        // A token bucket had some of it forwarded at once.
        (0, 100 * capacity, 20..=BDP * 8 / 10),
    ] {
        let mut link = Bottleneck { capacity: told, ..Bottleneck::new(others) };
        while link.cc.drain.is_none() {
            link.round(0);
        }
        assert!(left.contains(&link.segments()), "{told}: {} segments", link.segments());
        while link.cc.drain.is_some() {
            link.round(0);
        }
        assert_eq!(link.cc.mode, Mode::Alone);
    }
    let mut link = Bottleneck { capacity, ..Bottleneck::new(0) };
    link.rounds(2).others = 150;
    while link.cc.mode == Mode::Startup {
        link.round(0);
    }
    assert_eq!(link.cc.mode, Mode::Beside, "who is there is found nevertheless");
}

/// What slow start lost by itself is none of a managed queue: a single loss soon after is ignored.
#[test]
fn what_slow_start_lost_is_no_evidence() {
    let mut link = Bottleneck::new(0);
    link.rounds(3);
    (0..2).for_each(|_| link.round(link.segments() / 2));
    while link.cc.mode == Mode::Startup {
        link.round(0);
    }
    for _ in 0..10 {
        link.round(1);
        assert_eq!(link.cc.mode, Mode::Alone);
    }
}

#[test]
fn a_queue_that_stays_is_anothers() {
    let mut link = Bottleneck::new(0);
    link.rounds(20);
    link.others = 100;
    link.rounds(20);
    assert_eq!(link.cc.mode, Mode::Beside);
    let before = link.segments();
    link.round(1);
    link.round(0);
    assert!(link.segments() <= before * 3 / 4, "a loss counts as in CUBIC");
    link.others = 0;
    link.rounds(400);
    assert_eq!(link.cc.mode, Mode::Alone, "they have left");
    assert!(link.segments() <= 116);
}

/// Two at one bottleneck beside others: the n-th part of growth, and the losses of both, once.
#[test]
fn what_a_sibling_at_the_same_bottleneck_loses_counts() {
    let view = |id: u8, reduced_at, rtt| SubflowView {
        id: SubflowId(id),
        reduced_at,
        usable: true,
        in_flight: MSS,
        srtt: rtt,
        latest_rtt: rtt,
        ..SubflowView::default()
    };
    let after = |shared: bool| {
        let mut link = Bottleneck::new(0);
        link.rounds(20);
        link.others = 100;
        link.rounds(40);
        assert_eq!(link.cc.mode, Mode::Beside);
        for n in 0..40_u64 {
            let rtt = Duration::from_millis(60 + n * n % 7);
            let other = if shared { rtt } else { Duration::from_millis(60 + n * 5 % 11) };
            link.cc.shared.on_rtt(SubflowId(0), rtt, &[view(1, Instant::ZERO, other)]);
            let now = link.now + Duration::from_secs(n + 1);
            link.cc.shared.on_round(now, &[view(1, Instant::ZERO, other)]);
        }
        assert_eq!(link.cc.shared.count(), 1 + u64::from(shared));
        let rtt = link.cc.srtt;
        let mut windows = vec![link.segments()];
        // It loses something, nothing more, again at once; then later.
        for (ms, lost) in [(1, 1), (2, 1), (3, 1), (4, 4), (200, 4), (201, 201)] {
            let [now, lost] = [ms, lost].map(|ms| link.now + Duration::from_millis(ms));
            let views = [view(0, Instant::ZERO, rtt), view(1, lost, rtt)];
            let ack = Ack { now, in_flight: MSS, srtt: rtt, ..tests::ack(0, 1) };
            link.cc.on_ack(&Ack { rtt: Some(rtt), ..ack }, &views);
            windows.push(link.segments());
        }
        windows
    };
    let windows = after(true);
    let once = windows[0] * 7 / 10;
    assert!(windows[1..6].iter().all(|w| w.abs_diff(once) <= 1), "{windows:?}");
    assert!(windows[6].abs_diff(once * 7 / 10) <= 1, "{windows:?}");
    let apart = after(false);
    assert!(apart.iter().all(|window| window.abs_diff(apart[0]) <= 1), "{apart:?}");
}

/// Whoever is left when its siblings have closed is no n-th part of anything.
#[test]
fn what_siblings_took_part_in_ends_with_them() {
    let mut link = Bottleneck::new(100);
    link.rounds(40);
    let rtt = Duration::from_millis;
    for n in 0..40_u64 {
        let rtt = rtt(60 + n * n % 7);
        let usable = true;
        let (srtt, latest_rtt) = (rtt, rtt);
        let id = SubflowId(1);
        let view =
            SubflowView { id, usable, srtt, latest_rtt, in_flight: MSS, ..Default::default() };
        link.cc.shared.on_rtt(SubflowId(0), rtt, &[view]);
        link.cc.shared.on_round(link.now + Duration::from_secs(n + 1), &[view]);
    }
    link.cc.cubic.set_share(0.5);
    assert_eq!(link.cc.shared.count(), 2);
    link.rounds(2);
    assert_eq!(link.cc.shared.count(), 1);
}

/// Only the last signal can have been spurious.
#[test]
fn an_undo_gives_back_what_the_last_signal_took_and_no_more() {
    let mut link = Bottleneck::new(0);
    let signal = |link: &mut Bottleneck, kind| {
        let event = Congestion::new(link.now, kind, MSS);
        link.cc.on_congestion(&event, &[]);
    };
    link.rounds(3);
    assert_eq!(link.cc.mode, Mode::Startup);
    let before = link.segments();
    signal(&mut link, CongestionKind::Rto);
    assert_eq!((link.cc.mode, link.segments()), (Mode::Alone, 1));
    link.cc.on_spurious(link.now);
    assert_eq!((link.cc.mode, link.segments()), (Mode::Startup, before));
    signal(&mut link, CongestionKind::Rto);
    link.rounds(2);
    signal(&mut link, CongestionKind::Loss);
    let (mode, window) = (link.cc.mode, link.segments());
    assert!(window < before);
    link.cc.on_spurious(link.now);
    assert_eq!((link.cc.mode, link.segments()), (mode, window));
}

/// RFC 7661 section 4.4: a window is good for minutes, and no longer.
#[test]
fn a_window_outlasts_minutes_of_idleness_and_not_an_hour() {
    for others in [0, 100] {
        let mut link = Bottleneck::new(0);
        link.rounds(20);
        link.others = others;
        link.rounds(40);
        let before = link.segments();
        link.now += Duration::from_secs(100);
        link.cc.on_idle_restart(link.now, 10 * MSS);
        assert_eq!(link.segments(), before);
        link.now += Duration::from_secs(3600);
        link.cc.on_idle_restart(link.now, 10 * MSS);
        assert_eq!(link.segments(), 10, "{others}");
        link.rounds(8);
        assert!(link.segments() > before / 2, "{} of {before}, {others}", link.segments());
    }
}

#[test]
fn a_host_that_is_late_in_one_drain_is_not_taken_for_others() {
    let mut link = Bottleneck::new(0);
    link.rounds(20);
    while link.cc.drain.is_none() {
        link.round(0);
    }
    link.others = 40;
    while link.cc.found == 0 {
        link.round(0);
    }
    link.others = 0;
    for _ in 0..20 {
        link.round(0);
        assert_eq!(link.cc.mode, Mode::Alone);
    }
    assert!(link.segments() >= 90, "{} segments", link.segments());
}

#[test]
fn who_sees_no_queue_for_a_second_is_alone() {
    let mut link = Bottleneck::new(0);
    link.rounds(20);
    link.cc.beside(link.now, 30 * MSS);
    link.rounds(40);
    assert_eq!(link.cc.mode, Mode::Alone);
    assert!(link.segments() >= 90, "{} segments", link.segments());
}

#[test]
fn a_timeout_does_not_cost_what_was_known() {
    let mut link = Bottleneck::new(0);
    link.rounds(20);
    link.cc.on_congestion(&Congestion::new(link.now, CongestionKind::Rto, MSS), &[]);
    assert_eq!(link.segments(), 1);
    link.rounds(10);
    assert!(link.segments() >= 85, "{} segments", link.segments());
}

#[test]
fn a_longer_path_is_no_queue() {
    let mut link = Bottleneck::new(0);
    link.rounds(20);
    link.base_ms = 100;
    link.rounds(30);
    assert_eq!(link.cc.mode, Mode::Alone);
    assert_eq!(link.cc.path.base(), Duration::from_millis(100));
}

/// Beside others, the queue is gone after a drain that happened to come when they made way.
#[test]
fn a_queue_that_is_gone_once_may_be_luck() {
    let mut link = Bottleneck::new(0);
    link.others = 60;
    link.rounds(100);
    assert_eq!(link.cc.mode, Mode::Beside);
    let drains = |link: &mut Bottleneck| {
        let begun = (0..400).find(|_| {
            link.round(u64::from(link.segments() > BDP));
            link.cc.drain.is_some()
        });
        assert!(begun.is_some(), "asked again after a while");
        link.others = 0;
        while link.cc.drain.is_some() {
            link.round(0);
        }
        link.others = 60;
    };
    drains(&mut link);
    assert_eq!((link.cc.mode, link.cc.missed), (Mode::Beside, 1));
    drains(&mut link);
    // A queue that leaps by 24 ms might as well be jitter, until round trips tell that it is none.
    assert_eq!((link.cc.mode, link.cc.missed), (Mode::Beside, 2));
    link.others = 0;
    link.rounds(60);
    assert_eq!((link.cc.mode, link.cc.missed), (Mode::Alone, 0));
}

#[test]
fn a_queue_that_little_less_in_flight_cannot_have_taken_went_by_itself() {
    let mut link = Bottleneck::new(0);
    link.others = 60;
    link.rounds(100);
    let ms = Duration::from_millis;
    // 2.5 segments a millisecond.
    assert!(!link.cc.misses_others(4 * MSS, ms(10), false) && link.cc.missed == 0);
    assert!(!link.cc.misses_others(20 * MSS, ms(10), false) && link.cc.missed == 1);
    assert!(link.cc.misses_others(20 * MSS, ms(10), false));
}

/// All that was in flight is lost, and the first that is sent again may meet the same burst.
#[test]
fn after_a_timeout_little_of_what_the_path_carries_is_sent_again() {
    let mut link = Bottleneck::new(0);
    link.rounds(40);
    assert_eq!(link.cc.retry_burst(), PROBES * MSS);
    link.cc.on_congestion(&Congestion::new(link.now, CongestionKind::Rto, MSS), &[]);
    assert_eq!((link.cc.state().cwnd, link.cc.retry_burst()), (MSS, PROBES * MSS));
}

#[test]
fn where_nothing_is_known_a_timeout_sends_one_segment() {
    let mut link = Bottleneck::new(0);
    link.cc.on_congestion(&Congestion::new(link.now, CongestionKind::Rto, MSS), &[]);
    assert_eq!((link.cc.state().cwnd, link.cc.retry_burst()), (MSS, 0));
}

/// What is sent again has no samples: a drain after an overflow that sees nothing else is given up.
/// Slow start begins anew with what was delivered, and a second such overflow ends it.
#[test]
fn an_overflow_without_samples_is_not_repeated() {
    let mut cc = Bottleneck::new(0).cc;
    let mut now = Instant(1_000_000_000);
    let srtt = Duration::from_millis(BASE_MS);
    let mut overflow = |cc: &mut Cubicd, cwnd: u64| {
        cc.cwnd = 4 * cwnd;
        cc.start_drain(now);
        let drain = cc.drain.as_mut().expect("invariant: begun");
        (drain.cwnd, drain.overflow) = (cwnd, true);
        for in_flight in [2 * cwnd, cwnd, cwnd / 2, 0] {
            now += srtt * 2;
            let repaired = Ack { now, rtt: None, srtt, in_flight, ..tests::ack(0, 1) };
            cc.on_ack(&repaired, &[]);
        }
        (cc.drain.is_none(), cc.mode, cc.window())
    };
    assert_eq!(overflow(&mut cc, 40 * MSS), (true, Mode::Startup, 40 * MSS));
    assert_eq!(overflow(&mut cc, 30 * MSS), (true, Mode::Alone, 30 * MSS));
}

/// Others that have just lost leave an empty queue to who has most of what is in flight. The window
/// beside them is kept until that is sure.
#[test]
fn others_who_were_missed_by_mistake_do_not_cost_the_window() {
    let mut link = Bottleneck::new(0);
    let round = |link: &mut Bottleneck| link.round(u64::from(link.segments() > BDP));
    let leave = |link: &mut Bottleneck| {
        link.others = 60;
        while link.cc.mode != Mode::Beside {
            round(link);
        }
        (0..100).for_each(|_| round(link));
        assert_eq!(link.cc.mode, Mode::Beside);
        link.others = 0;
        while link.cc.mode == Mode::Beside {
            round(link);
        }
        link.cc.cubic.state().cwnd / MSS
    };
    let found_again = |link: &mut Bottleneck| {
        link.others = 2 * BDP;
        while link.cc.mode != Mode::Beside {
            round(link);
        }
        link.segments()
    };
    let held = leave(&mut link);
    assert!(held > BDP / 2, "{held} segments");
    let resumed = found_again(&mut link);
    assert!(resumed >= held, "{resumed} of {held} segments at once");
    let held = leave(&mut link);
    // Much has become of the others since, and of us.
    (0..400).for_each(|_| round(&mut link));
    link.cc.cwnd = held * MSS / 2;
    let resumed = found_again(&mut link);
    assert!(resumed < held, "{resumed} of {held} segments after a while");
}

/// Four segments are left in flight at least. What they wait for each other is no queue of others.
#[test]
fn on_a_slow_link_what_a_drain_leaves_waits_for_itself() {
    let mut cc = Bottleneck::new(0).cc;
    cc.start_drain(Instant(1_000_000_000));
    let mut drain = cc.drain.expect("invariant: begun");
    (drain.delivered, drain.rate, drain.cwnd) = (2 * MSS, 25_000, LEAST * MSS);
    assert_eq!(cc.needs(&drain), Duration::from_millis(160));
    drain.cwnd = 3 * MSS;
    assert_eq!(cc.needs(&drain), Duration::from_millis(120), "half of what was in flight");
    (drain.delivered, drain.cwnd) = (9 * MSS, 10 * MSS);
    assert_eq!(cc.needs(&drain), Duration::from_millis(360), "but for one that is delayed");
}

/// The mode after 100 rounds in which acknowledgements queue for up to 30 ms.
fn mode_beside_a_reverse_queue(told: bool) -> Mode {
    let mut b = Bottleneck::new(0);
    (0..100).for_each(|_| b.round(0));
    b.told = told;
    for n in 0..100_u64 {
        b.back = Duration::from_millis(n * 7 % 60).min(Duration::from_millis(30));
        b.round(0);
    }
    b.cc.mode
}

#[test]
fn what_acknowledgements_wait_for_is_no_queue_of_the_data() {
    assert_eq!(mode_beside_a_reverse_queue(true), Mode::Alone);
    assert_eq!(mode_beside_a_reverse_queue(false), Mode::Beside, "nothing else tells them apart");
}
