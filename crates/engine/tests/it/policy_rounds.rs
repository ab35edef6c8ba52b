//! Controllers in canonical situations: cwnd in segments after each round.
//!
//! A round sends a window and gets an ACK for each segment, evenly over 100 ms. The numbers were
//! checked against the formulas (RFC 5681; RFC 9438 figures 1 to 4; RFC 9406 section 4.2), see
//! the comment at each.

use tabane_engine::congestion::{self, Ack, CcPhase, Congestion, CongestionController};
use tabane_engine::congestion::{CongestionKind, Start};
use tabane_engine::time::{Duration, Instant};
use tabane_engine::view::{RecoveryPhase, SubflowId};

const MSS: u64 = 1000;
const RTT: Duration = Duration::from_millis(100);

/// Controllers that answer a loss by a smaller window, and only by that.
const LOSS_BASED: [&str; 8] =
    ["reno", "cubic", "highspeed", "ghstcp", "lia", "olia", "balia", "wvegas"];

struct Sender {
    controller: Box<dyn CongestionController>,
    now: Instant,
    una: u64,
    nxt: u64,
    rtt: Duration,
    /// By how much RTTs rise within a round.
    rise: Duration,
    /// Delivery rate of the round, bytes/s, and what is in flight in it: for BBR.
    rate: Option<(u64, u64)>,
    limited: bool,
    phase: RecoveryPhase,
    rounds: Vec<String>,
}

impl Sender {
    fn new(spec: &str, cwnd: u64) -> Self {
        let start = Start::new(MSS, cwnd * MSS, u64::MAX);
        let controller = congestion::build(&spec.parse().expect("a spec"), start).expect("a row");
        let phase = RecoveryPhase::Open;
        let (now, rounds) = (Instant::ZERO, Vec::new());
        let (rtt, rise, rate) = (RTT, Duration::ZERO, None);
        Self { controller, now, una: 1, nxt: 1, rtt, rise, rate, limited: true, phase, rounds }
    }

    fn cwnd(&self) -> u64 {
        self.controller.state().cwnd / MSS
    }

    /// An ACK for `acked` segments, `delivered` of them newly.
    fn ack(&mut self, acked: u64, delivered: u64) {
        let prior_in_flight = self.nxt - self.una;
        self.una += acked * MSS;
        let ack = Ack::default().with(|v| {
            v.now = self.now;
            v.subflow = SubflowId(0);
            v.acked = acked * MSS;
            v.delivered = delivered * MSS;
            v.rtt = Some(self.rtt);
            v.srtt = self.rtt;
            v.min_rtt = RTT;
            v.prior_in_flight = prior_in_flight;
            v.in_flight = self.nxt - self.una;
            v.mss = MSS;
            v.cwnd_limited = self.limited;
            v.phase = self.phase;
            v.snd_una = self.una;
            v.snd_nxt = self.nxt;
            v.delivery_rate = self.rate.map(|(rate, _)| (rate, !self.limited));
            v.lost = 0;
        });
        self.controller.on_ack(&ack, &[]);
    }

    /// `segments` are in flight; an ACK for each, evenly spread over a round.
    fn send(&mut self, segments: u64) {
        self.nxt += segments * MSS;
        self.controller.on_sent(self.now, segments * MSS, self.nxt - self.una);
        let end = self.nxt;
        let (begin, rtt) = (self.now, self.rtt);
        for n in 1..=segments {
            self.now = begin + Duration(rtt.0 * n / segments);
            self.rtt = rtt + Duration(self.rise.0 * n / segments);
            // Meanwhile the window has been kept full, as long as there is something to send.
            let window = self.controller.state().cwnd;
            let flight = self.rate.map_or(window, |(_, flight)| flight.min(window));
            let full = if self.limited { self.una + flight } else { end };
            self.nxt = full.max(end);
            self.ack(1, 1);
        }
        self.nxt = end;
    }

    fn note(&mut self) {
        let c = match self.controller.state().phase {
            CcPhase::ConservativeSlowStart => "c",
            _ => "",
        };
        let mark = match self.phase {
            RecoveryPhase::Open => "",
            RecoveryPhase::Recovery => "r",
            RecoveryPhase::Loss => "l",
        };
        self.rounds.push(format!("{}{c}{mark}", self.cwnd()));
    }

    /// So many rounds of full windows, each noted.
    fn rounds(&mut self, n: u32) {
        for _ in 0..n {
            self.send(self.cwnd());
            self.note();
        }
    }

    /// A signal with a full window in flight, noted; then the round that repairs it.
    fn signal(&mut self, kind: CongestionKind) {
        let in_flight = self.cwnd() * MSS;
        let snd_nxt = self.una + in_flight;
        let (now, subflow) = (self.now, SubflowId(0));
        let event = Congestion::new(now, kind, MSS).with(|c| {
            (c.subflow, c.in_flight, c.snd_nxt) = (subflow, in_flight, snd_nxt);
        });
        self.controller.on_congestion(&event, &[]);
        self.phase = match kind {
            CongestionKind::Loss => RecoveryPhase::Recovery,
            CongestionKind::Rto => RecoveryPhase::Loss,
            CongestionKind::Ecn => RecoveryPhase::Open,
        };
        self.note();
    }

    fn repaired(&mut self) {
        self.phase = RecoveryPhase::Open;
    }

    fn finish(self) -> String {
        let lines: Vec<String> = self.rounds.chunks(20).map(|line| line.join(" ")).collect();
        lines.join("\n")
    }
}

/// Doubles each round; the loss at 160 costs half, or three tenths (112). The recovery round
/// adds nothing.
fn first_loss(spec: &str) -> String {
    let mut s = Sender::new(spec, 10);
    s.note();
    s.rounds(4);
    s.signal(CongestionKind::Loss);
    s.rounds(1);
    s.finish()
}

#[test]
fn slow_start_to_the_first_loss() {
    insta::assert_snapshot!(first_loss("reno"), @"
    10 20 40 80 160 80r 80r
    ");
    insta::assert_snapshot!(first_loss("cubic"), @"
    10 20 40 80 160 112r 112r
    ");
}

/// Reno adds one a round. CUBIC from 70 to 100: K = cbrt(30 / 0.4) = 4.2 s, so it is flat around
/// round 42 and convex after it. From 7 to 10 the Reno-friendly estimate leads: 0.53 a round up
/// to 10, one a round above.
fn growth_after_loss(spec: &str, cwnd: u64, rounds: u32) -> String {
    let mut s = Sender::new(spec, cwnd);
    s.signal(CongestionKind::Loss);
    s.send(s.cwnd());
    s.repaired();
    s.rounds(rounds);
    s.finish()
}

#[test]
fn growth_after_a_loss() {
    insta::assert_snapshot!(growth_after_loss("reno", 100, 12), @"
    50r 51 52 53 54 55 56 57 58 59 60 61 62
    ");
    insta::assert_snapshot!(growth_after_loss("cubic", 100, 60), @"
    70r 72 74 76 78 79 81 83 84 85 87 88 89 90 91 92 93 94 94 95
    96 96 97 97 98 98 98 99 99 99 99 100 100 100 100 100 100 100 100 100
    100 100 100 100 100 100 100 100 100 100 100 100 101 101 101 101 101 101 102 102
    103
    ");
    insta::assert_snapshot!(growth_after_loss("cubic", 10, 30), @"
    7r 7 8 8 9 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23
    24 25 26 27 28 29 30 31 32 33 34
    ");
}

/// Fast convergence: the second loss comes at 78, below the first's 100, so the curve returns to
/// 78 x 0.85 = 66 only, from 54: K = 3.1 s instead of 3.9 s for a plateau at 78. From there on the
/// Reno-friendly estimate leads: 0.53 a round.
#[test]
fn a_loss_below_the_last_maximum_gives_way() {
    let mut s = Sender::new("cubic", 100);
    s.signal(CongestionKind::Loss);
    s.send(s.cwnd());
    s.repaired();
    s.rounds(4);
    s.signal(CongestionKind::Loss);
    s.send(s.cwnd());
    s.repaired();
    s.rounds(40);
    insta::assert_snapshot!(s.finish(), @"
    70r 72 74 76 78 54r 55 56 57 58 59 60 61 61 62 62 63 63 64 64
    65 65 65 65 66 66 66 66 66 66 67 67 68 68 69 69 70 70 71 71
    72 72 73 74 74 75
    ");
}

/// From one segment by slow start to ssthresh (40, or 0.7 x 80 = 56), then growth; CUBIC with its
/// plateau there, so that the Reno-friendly estimate leads: 0.53 a round.
fn timeout(spec: &str) -> String {
    let mut s = Sender::new(spec, 80);
    s.signal(CongestionKind::Rto);
    s.rounds(3);
    s.repaired();
    s.rounds(8);
    s.finish()
}

#[test]
fn a_timeout_and_recovery() {
    insta::assert_snapshot!(timeout("reno"), @"
    1l 2l 4l 8l 16 32 40 41 42 43 44 45
    ");
    insta::assert_snapshot!(timeout("cubic"), @"
    1l 2l 4l 8l 16 32 56 56 57 57 58 58
    ");
}

fn repeated_timeout(spec: &str) -> String {
    let mut s = Sender::new(spec, 80);
    s.signal(CongestionKind::Rto);
    s.signal(CongestionKind::Rto);
    s.rounds(7);
    s.finish()
}

#[test]
fn a_timeout_that_repeats_keeps_ssthresh() {
    insta::assert_snapshot!(repeated_timeout("reno"), @"
    1l 1l 2l 4l 8l 16l 32l 40l 41l
    ");
    insta::assert_snapshot!(repeated_timeout("cubic"), @"
    1l 1l 2l 4l 8l 16l 32l 56l 56l
    ");
}

/// Three rounds of two segments while slow start has ten; a loss; 30 rounds of two segments in
/// congestion avoidance, then full windows again: growth goes on where it stood.
fn application_limited(spec: &str) -> String {
    let mut s = Sender::new(spec, 10);
    let few = |s: &mut Sender, rounds| {
        s.limited = false;
        for _ in 0..rounds {
            s.send(2);
        }
        s.note();
        s.limited = true;
    };
    few(&mut s, 3);
    s.rounds(3);
    s.signal(CongestionKind::Loss);
    s.send(s.cwnd());
    s.repaired();
    s.rounds(3);
    few(&mut s, 30);
    s.rounds(5);
    // Idle for five seconds.
    s.now += Duration::from_secs(5);
    s.rounds(3);
    s.finish()
}

#[test]
fn limited_by_the_application() {
    insta::assert_snapshot!(application_limited("reno"), @"
    10 20 40 80 40r 41 42 43 43 44 45 46 47 48 49 50 51
    ");
    insta::assert_snapshot!(application_limited("cubic"), @"
    10 20 40 80 56r 58 59 61 61 63 64 65 67 68 69 70 71
    ");
}

/// Four rounds after a loss a second signal comes and proves spurious after a round: back to the
/// window and the curve before it.
fn undo(spec: &str, kind: CongestionKind) -> String {
    let mut s = Sender::new(spec, 40);
    s.signal(CongestionKind::Loss);
    s.send(s.cwnd());
    s.repaired();
    s.rounds(4);
    s.signal(kind);
    s.rounds(1);
    s.repaired();
    s.controller.on_spurious(s.now);
    s.note();
    s.rounds(4);
    s.finish()
}

#[test]
fn a_spurious_signal_is_undone() {
    insta::assert_snapshot!(undo("reno", CongestionKind::Loss), @"
    20r 21 22 23 24 12r 12r 24 25 26 27 28
    ");
    insta::assert_snapshot!(undo("reno", CongestionKind::Rto), @"
    20r 21 22 23 24 1l 2l 24 25 26 27 28
    ");
    insta::assert_snapshot!(undo("cubic", CongestionKind::Loss), @"
    28r 29 30 31 32 22r 22r 32 33 34 35 36
    ");
    insta::assert_snapshot!(undo("cubic", CongestionKind::Rto), @"
    28r 29 30 31 32 1l 2l 32 33 34 35 36
    ");
}

/// The RTT rises by `step_ms` from the third round on, and falls back `back_after` rounds later.
/// SND.NXT at the end of a round is two segments short of the next window, so HyStart++'s rounds
/// run a little ahead of these, and the first raised one still contains samples of 100 ms: its
/// minimum shows the rise a round later. The threshold is 100 / 8 = 12.5 ms. In conservative slow
/// start a round adds a quarter, and five of them end it.
fn rising(spec: &str, step_ms: u64, back_after: u32) -> String {
    let mut s = Sender::new(spec, 10);
    s.rounds(2);
    for round in 0..9 {
        s.rtt = if round < back_after { RTT + Duration::from_millis(step_ms) } else { RTT };
        s.rounds(1);
    }
    s.finish()
}

#[test]
fn hystart_leaves_slow_start_when_rtts_rise() {
    insta::assert_snapshot!(rising("cubic", 13, 9), @"
    20 40 80 101c 126c 158c 197c 238 239 240 241
    ");
    insta::assert_snapshot!(rising("cubic", 12, 9), @"
    20 40 80 160 320 640 1280 2560 5120 10240 20480
    ");
    insta::assert_snapshot!(rising("cubic", 13, 2), @"
    20 40 80 101c 201 402 804 1608 3216 6432 12864
    ");
    insta::assert_snapshot!(rising("cubic:hystart=0", 13, 9), @"
    20 40 80 160 320 640 1280 2560 5120 10240 20480
    ");
}

/// A window of 20 with its first segment lost: the ACK that ends the recovery acknowledges 20,
/// 19 of which SACK had reported. It counts for one window (of 10), not for two.
#[test]
fn the_ack_that_ends_a_recovery_counts_for_its_round() {
    let mut s = Sender::new("reno", 20);
    s.nxt += 20 * MSS;
    s.signal(CongestionKind::Loss);
    assert_eq!(s.cwnd(), 10);
    s.repaired();
    s.ack(20, 1);
    assert_eq!(s.cwnd(), 11);
    s.nxt += 11 * MSS;
    s.ack(10, 10);
    assert_eq!(s.cwnd(), 11);
    s.ack(1, 1);
    assert_eq!(s.cwnd(), 12);
}

/// After a timeout the same jump, in slow start, brings no burst.
#[test]
fn a_jump_over_what_was_sacked_is_no_burst() {
    for spec in LOSS_BASED {
        let mut s = Sender::new(spec, 20);
        s.nxt += 20 * MSS;
        s.signal(CongestionKind::Rto);
        s.ack(20, 1);
        assert_eq!(s.cwnd(), 2, "{spec}");
    }
}

#[test]
fn ecn_costs_what_a_loss_costs() {
    let after = |spec: &str| {
        let mut s = Sender::new(spec, 100);
        s.signal(CongestionKind::Ecn);
        (s.cwnd(), s.controller.state().ssthresh / MSS)
    };
    assert_eq!(after("reno"), (50, 50));
    assert_eq!(after("cubic"), (70, 70));
}

#[test]
fn a_penalty_halves_without_being_a_loss() {
    for spec in LOSS_BASED {
        let mut s = Sender::new(spec, 40);
        s.controller.on_penalty();
        let state = s.controller.state();
        assert_eq!((state.cwnd, state.ssthresh), (20 * MSS, u64::MAX), "{spec}: in slow start");
        s.signal(CongestionKind::Loss);
        let before = s.controller.state().ssthresh;
        s.controller.on_penalty();
        let state = s.controller.state();
        assert_eq!((state.cwnd, state.ssthresh), (before / 2, before / 2), "{spec}");
        (0..9).for_each(|_| s.controller.on_penalty());
        let state = s.controller.state();
        assert_eq!((state.cwnd, state.ssthresh), (MSS, 2 * MSS), "{spec}");
    }
}

#[test]
fn idleness_restarts_and_remembers_three_quarters() {
    for spec in LOSS_BASED {
        let mut s = Sender::new(spec, 40);
        s.signal(CongestionKind::Loss);
        let reached = s.controller.state().cwnd;
        s.controller.on_idle_restart(s.now, 10 * MSS);
        let state = s.controller.state();
        assert_eq!((state.cwnd, state.ssthresh), (10 * MSS, reached), "{spec}");
        s.controller.on_mss(1400);
        assert_eq!(s.controller.state().cwnd, 10 * MSS, "{spec}: windows are bytes");
    }
}

/// The controllers that have come after Reno and CUBIC, each in all situations: see the snapshot.
/// What to expect: highspeed at 100 segments adds a = 1.8 (formula) or 2 (Linux's table) a round
/// and loses 45 or 44 %; at 1000 segments 8.0 and 33 %. ghstcp does the same while RTTs do not
/// rise, and adds one a round when they do. Alone, lia, olia and balia are Reno. wvegas grows by
/// one a round while its backlog is below two segments, and gives one up above.
#[test]
fn later_controllers_in_canonical_situations() {
    let mut text = String::new();
    for spec in [
        "highspeed",
        "highspeed:table=1",
        "highspeed:table=1,per_ack=1",
        "ghstcp",
        "ghstcp:variant=1,dec=0",
        "lia",
        "olia",
        "balia",
        "wvegas",
    ] {
        text += &format!("{spec}\n");
        for (name, rounds) in [
            ("slow start, first loss", first_loss(spec)),
            ("growth after a loss at 10", growth_after_loss(spec, 10, 12)),
            ("growth after a loss at 180", growth_after_loss(spec, 180, 12)),
            ("growth after a loss at 1500", growth_after_loss(spec, 1500, 12)),
            ("timeout", timeout(spec)),
            ("timeout again", repeated_timeout(spec)),
            ("application-limited", application_limited(spec)),
            ("idle", idle(spec)),
            ("undone loss", undo(spec, CongestionKind::Loss)),
            ("undone timeout", undo(spec, CongestionKind::Rto)),
            ("RTTs rise and fall", queueing(spec)),
        ] {
            text += &format!("  {name}: {}\n", rounds.replace('\n', " "));
        }
    }
    insta::assert_snapshot!(text);
}

/// Restart after idleness in congestion avoidance.
fn idle(spec: &str) -> String {
    let mut s = Sender::new(spec, 80);
    s.signal(CongestionKind::Loss);
    s.send(s.cwnd());
    s.repaired();
    s.rounds(2);
    s.now += Duration::from_secs(5);
    s.controller.on_idle_restart(s.now, 10 * MSS);
    s.note();
    s.rounds(6);
    s.finish()
}

/// From 100 segments after a loss at 180 or so: six rounds of rising RTTs (by 3 ms within each),
/// six at what they have become, six at 100 ms again.
fn queueing(spec: &str) -> String {
    let mut s = Sender::new(spec, 180);
    s.signal(CongestionKind::Loss);
    s.send(s.cwnd());
    s.repaired();
    s.rounds(2);
    for _ in 0..6 {
        s.rise = Duration::from_millis(3);
        s.rounds(1);
    }
    s.rise = Duration::ZERO;
    s.rounds(6);
    s.rtt = RTT;
    s.rounds(6);
    s.finish()
}

/// BBR on a link that carries 100 segments in 100 ms: window / pacing in percent of the link,
/// then the phase (s Startup, 1 Drain, 2 DOWN, 3 CRUISE, 4 REFILL, 5 UP, 6 ProbeRTT). A round has
/// what window and pacing allow in flight, and takes longer if that is more than the link holds.
#[test]
fn bbr_on_a_link_of_a_hundred_segments() {
    const CAPACITY: u64 = 100;
    let round = |s: &mut Sender| {
        let state = s.controller.state();
        let paced = state.pacing_rate.map_or(u64::MAX, |rate| rate / (10 * MSS));
        let segments = s.cwnd().min(paced).max(1);
        s.rtt = Duration(RTT.0 * segments.max(CAPACITY) / CAPACITY);
        s.rate = Some((segments * MSS * 1_000_000_000 / s.rtt.0, segments * MSS));
        s.send(segments);
        let state = s.controller.state();
        let phase = match state.phase {
            CcPhase::SlowStart => "s".to_owned(),
            CcPhase::Other(n) => n.to_string(),
            other => format!("{other:?}"),
        };
        let percent = state.pacing_rate.unwrap_or(0) / (10 * MSS);
        s.rounds.push(format!("{}/{percent}{phase}", s.cwnd()));
    };
    let mut s = Sender::new("bbr", 10);
    (0..80).for_each(|_| round(&mut s));
    let steady = std::mem::take(&mut s.rounds);
    // A loss found by an ACK, in CRUISE; then a timeout.
    s.signal(CongestionKind::Loss);
    (0..3).for_each(|_| round(&mut s));
    s.repaired();
    (0..5).for_each(|_| round(&mut s));
    s.signal(CongestionKind::Rto);
    (0..3).for_each(|_| round(&mut s));
    s.repaired();
    (0..10).for_each(|_| round(&mut s));
    let losses = std::mem::take(&mut s.rounds);
    let lines = |rounds: &[String]| {
        rounds.chunks(16).map(|line| line.join(" ")).collect::<Vec<_>>().join("\n")
    };
    insta::assert_snapshot!(format!("{}\n\n{}", lines(&steady), lines(&losses)));
}

/// Delayed acknowledgements give a window of four segments two RTT samples a round, too few for
/// wvegas to judge: it grows as Reno does, instead of never.
#[test]
fn wvegas_grows_where_rounds_have_few_samples() {
    let mut s = Sender::new("wvegas", 8);
    s.signal(CongestionKind::Loss);
    s.send(s.cwnd());
    s.repaired();
    assert_eq!(s.cwnd(), 4);
    for _ in 0..12 {
        let window = s.cwnd();
        s.nxt = s.una + window * MSS;
        s.now += RTT;
        s.ack(window / 2, window / 2);
        s.nxt += window * MSS / 2;
        s.ack(window - window / 2, window - window / 2);
    }
    assert!(s.cwnd() >= 6, "{} segments after 12 rounds", s.cwnd());
}
