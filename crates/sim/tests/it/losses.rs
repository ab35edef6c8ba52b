//! Losses at random, and links that go: what the default policies make of them.
use tabane_engine::record::{Record, ReinjectReason, What};
use tabane_engine::{Duration, Instant};
use tabane_sim::observe::{HostIdx, LinkIdx, Observer, Silent, Wants};
use tabane_sim::scenario::Scenario;
use tabane_sim::{Plan, run};
use tabane_wire::Segment;

/// A download over links of that rate and round trip, with a queue of 50 ms and 1 % of loss.
fn lossy(mbit: u64, rtt_ms: u64, seed: u64, changes: &str) -> Plan {
    losing("1%", mbit, rtt_ms, seed, changes)
}

/// The same with other losses.
fn losing(loss: &str, mbit: u64, rtt_ms: u64, seed: u64, changes: &str) -> Plan {
    noisy(&format!("loss = \"{loss}\""), mbit, rtt_ms, seed, changes)
}

/// The same with what else the link does.
fn noisy(link: &str, mbit: u64, rtt_ms: u64, seed: u64, changes: &str) -> Plan {
    let text = format!(
        "seed = {seed}
         duration = \"8s\"
         [link.l]
         rate = \"{mbit}Mbps\"
         delay = \"{}us\"
         queue = \"{}B\"
         {link}
         [[flow]]
         bulk = \"unlimited\"
         {changes}",
        rtt_ms * 500,
        mbit * 6250,
    );
    Scenario::parse("lossy.toml", &text).unwrap().compile().unwrap()
}

/// Both directions stand still for so long once a period, in ms, as if who forwards had to wait for
/// a processor: what comes meanwhile leaves at once afterwards.
fn standing_still(rtt_ms: u64, stops: &[(u64, u64)]) -> String {
    let change = |period: u64, at: u64, delay_us: u64| {
        format!(
            "[[at]]
             time = \"{at}ms\"
             every = \"{period}ms\"
             link = \"l\"
             delay = \"{delay_us}us\"\n"
        )
    };
    let usual = rtt_ms * 500;
    let stops = stops.iter().map(|&(period, length)| {
        let late = change(period, period, usual + length * 1000);
        late + &change(period, period + 1, usual)
    });
    stops.collect()
}

/// Round trips that vary by themselves are no queue. (They were one when it was by the latest two
/// alone: at 230 Mbit/s and 20 ms two of four seeds came to 9 % of the rate, and single links of
/// `tabane bench gateway bond` with them.)
#[test]
fn losses_at_random_on_a_link_that_is_late_now_and_then_do_not_count() {
    for (mbit, rtt_ms) in [(230, 20), (50, 40), (100, 10), (100, 60)] {
        for stops in [&[(17, 5)][..], &[(17, 5), (29, 7)]] {
            let jitter = standing_still(rtt_ms, stops);
            for seed in 1..=3 {
                let result = run(&lossy(mbit, rtt_ms, seed, &jitter), &mut Silent).unwrap();
                let share = result.flows[0].goodput_bps / (mbit as f64 * 1e6);
                println!("{mbit}@{rtt_ms}, {stops:?}, seed {seed}: {share:.3} of the rate");
                assert!(share > 0.7, "{mbit}@{rtt_ms}, {stops:?}, seed {seed}: {share:.3}");
            }
        }
    }
}

/// Each packet is late by some milliseconds or not at all, as over Wi-Fi, and one in a hundred is
/// lost. A drain finds the least round trip short by luck. (It was taken for a queue of one's own
/// that had gone, so that less was sent after each drain, down to four segments: 0.41, 0.55 and
/// 0.31 of the rate.)
#[test]
fn round_trips_that_vary_by_themselves_are_no_queue() {
    for (mbit, jitter, least) in [(230, "3ms", 0.6), (100, "3ms", 0.7), (100, "5ms", 0.5)] {
        let link = format!("loss = \"1%\"\njitter = \"{jitter}\"");
        let shares = (1..=6).map(|seed| {
            let result = run(&noisy(&link, mbit, 20, seed, ""), &mut Silent).unwrap();
            result.flows[0].goodput_bps / (mbit as f64 * 1e6)
        });
        let share = shares.sum::<f64>() / 6.0;
        println!("{mbit} Mbit/s, jitter {jitter}: {share:.3} of the rate");
        assert!(share > least, "{mbit} Mbit/s, jitter {jitter}: {share:.3}");
    }
}

/// Of losses by chance on a path that jitters some come with long round trips: those of a short
/// queue that overflows. (They were taken for those of a managed queue with others in it, for 12 s:
/// 68 % of the rate in the first two cases; 64 % in the third where the jitter of acknowledgements
/// counted as well.)
#[test]
fn an_overflow_among_losses_by_chance_is_no_sign_of_others_for_long() {
    for (loss, jitter, least) in [("1%", "2ms", 0.8), ("0.2%", "2ms", 0.73), ("1%", "4ms", 0.67)] {
        let share = |seed: u64| {
            let text = format!(
                "seed = {seed}
                 duration = \"20s\"
                 [defaults]
                 mptcp = false
                 [link.l]
                 rate = \"100Mbps\"
                 delay = \"5ms\"
                 queue = \"125kB\"
                 loss = \"{loss}\"
                 jitter = \"{jitter}\"
                 [[flow]]
                 bulk = \"unlimited\"
                 direction = \"upload\""
            );
            let plan = Scenario::parse("jitter.toml", &text).unwrap().compile().unwrap();
            run(&plan, &mut Silent).unwrap().flows[0].goodput_bps / 100e6
        };
        let mean = (1..=8).map(share).sum::<f64>() / 8.0;
        println!("{loss} lost, jitter of {jitter}: {mean:.3} of the rate");
        assert!(mean > least, "{loss} lost, jitter of {jitter}: {mean:.3}");
    }
}

/// A burst that is lost now and then, as by a host that was late, while the receiver's window keeps
/// the link from having a queue: the window is reduced, and returns in some round trips. (By the
/// curve of CUBIC alone 0.81 are left; 0.89 with the segment at the entry of recovery that RFC 9937
/// does not allow.)
#[test]
fn a_window_that_no_queue_reduced_returns() {
    let change = |at: &str, loss: &str| {
        format!("[[at]]\ntime = \"{at}\"\nevery = \"1s\"\nlink = \"l\"\nloss = \"{loss}\"\n")
    };
    let bursts = change("1500ms", "100%") + &change("1506ms", "1%");
    let window = "[defaults.tcp]\nreceive_buffer_max = \"450kB\"\n";
    let mut sums = [0.0; 2];
    for seed in 1..=8 {
        for (sum, changes) in sums.iter_mut().zip([window.to_owned(), bursts.clone() + window]) {
            *sum += run(&lossy(230, 20, seed, &changes), &mut Silent).unwrap().flows[0].goodput_bps;
        }
    }
    let share = sums[1] / sums[0];
    println!("{share:.3} of what it is without bursts");
    assert!(share > 0.86, "{share:.3}");
}

/// A lossy link before a queue of 2 to 5 ms, which is too short to ask for a drain: what overflows
/// there is one's own doing, and what is lost by chance no drop. (Both were taken for RED's, and 65
/// to 90 % of the rate were used.) Of the mean of three runs: in one of forty overshooting is taken
/// for others once.
#[test]
fn a_short_queue_of_ones_own_behind_a_lossy_link_is_filled() {
    for queue in [9_000, 17_000, 22_000] {
        for loss in ["0.05%", "0.3%", "1%"] {
            let share = |seed| {
                let text = format!(
                    "seed = {seed}
                     duration = \"15s\"
                     [link.far]
                     rate = \"36Mbps\"
                     delay = \"4ms\"
                     loss = \"{loss}\"
                     [link.near]
                     rate = \"34Mbps\"
                     delay = \"1ms\"
                     queue = \"{queue}B\"
                     [path]
                     only = [\"far\", \"near\"]
                     [[flow]]
                     direction = \"download\"
                     bulk = \"unlimited\""
                );
                let plan = Scenario::parse("short.toml", &text).unwrap().compile().unwrap();
                let result = run(&plan, &mut Silent).unwrap();
                result.flows[0].goodput_bps / 34e6
            };
            let shares = [1, 2, 3].map(share);
            let mean = shares.iter().sum::<f64>() / 3.0;
            println!("{queue} bytes, {loss} lost: {mean:.3} of the rate, {shares:.3?}");
            assert!(mean > 0.89, "{queue} bytes, {loss} lost: {shares:.3?}");
        }
    }
}

/// Three paths through one bottleneck, and losses by chance: that the second's come with a queue is
/// true for a while, and believed for good it would be left at a tenth of what it carries. (32
/// Mbit/s of 54, for 35 s.)
#[test]
fn what_is_taken_for_early_drops_is_tried_again_when_no_queue_is_seen() {
    let text = |seed: u64| {
        format!(
            "seed = {seed}
             duration = \"3min\"
             [link.a]
             rate = \"4059219bps\"
             delay = \"8411us\"
             queue = \"15kB\"
             loss = \"0.0983%\"
             [link.b]
             rate = \"46981412bps\"
             delay = \"27874us\"
             queue = \"115240B\"
             loss = \"0.4941%\"
             [link.c]
             rate = \"21001972bps\"
             delay = \"284687us\"
             queue = \"544088B\"
             loss = \"0.14%\"
             [link.core]
             rate = \"61164169bps\"
             delay = \"1ms\"
             queue = \"65188B\"
             [path]
             a = [\"a\", \"core\"]
             b = [\"b\", \"core\"]
             c = [\"c\", \"core\"]
             [[flow]]
             direction = \"download\"
             bulk = \"187MB\""
        )
    };
    let mut least = f64::INFINITY;
    for seed in 1..=6 {
        let plan = Scenario::parse("grid.toml", &text(seed)).unwrap().compile().unwrap();
        let result = run(&plan, &mut Silent).unwrap();
        println!("seed {seed}: {:.1} Mbit/s", result.flows[0].goodput_bps / 1e6);
        least = least.min(result.flows[0].goodput_bps);
    }
    assert!(least > 45e6, "{:.1} Mbit/s", least / 1e6);
}

/// What records say of losses, of data that goes again, and of gaps.
#[derive(Default)]
struct Seen {
    congestion: u32,
    undone: u32,
    silence: Vec<Instant>,
    /// When gaps were filled that had lasted for how long.
    gaps: Vec<(Instant, Duration)>,
}

impl Observer for Seen {
    fn wants(&self) -> Wants {
        Wants { records: true, ..Wants::default() }
    }

    fn record(&mut self, _host: HostIdx, record: &Record) {
        match record.what {
            What::Congestion(_) => self.congestion += 1,
            What::Undone => self.undone += 1,
            What::Reinjected { why: ReinjectReason::Unresponsive, .. } => {
                self.silence.push(record.at)
            }
            What::GapFilled { delay } => self.gaps.push((record.at, delay)),
            _ => {}
        }
    }
}

/// Nothing is overtaken here and every loss is one, so that nothing may be undone. (An
/// acknowledgement of what the recovery before had sent again was taken for one of this recovery,
/// with an echo too old: nine of ten responses were undone.)
#[test]
fn what_was_lost_is_not_taken_for_late() {
    for (mbit, rtt_ms) in [(230, 20), (50, 40)] {
        let mut seen = Seen::default();
        run(&lossy(mbit, rtt_ms, 3, ""), &mut seen).unwrap();
        assert!(seen.congestion > 30, "{}", seen.congestion);
        assert_eq!(seen.undone, 0, "of {}", seen.congestion);
    }
}

/// Two full links, one of which becomes a black hole: what it carried goes by the other one after
/// two of its round trips, and not when its timer has expired.
#[test]
fn the_stream_goes_on_soon_after_a_link_has_died() {
    for (dead, alive) in [("a", "b"), ("b", "a")] {
        let text = format!(
            "duration = \"5s\"
             [link.a]
             rate = \"100Mbps\"
             delay = \"10ms\"
             queue = \"625000B\"
             [link.b]
             rate = \"50Mbps\"
             delay = \"20ms\"
             queue = \"312500B\"
             [[flow]]
             bulk = \"unlimited\"
             [[at]]
             time = \"3s\"
             down = \"{dead}\"
             silent = true"
        );
        let mut seen = Seen::default();
        run(&Scenario::parse("dies.toml", &text).unwrap().compile().unwrap(), &mut seen).unwrap();
        let cut = Instant(3_000_000_000);
        let gap = seen.gaps.iter().filter(|(at, _)| *at > cut).map(|(_, gap)| *gap).max().unwrap();
        assert!(gap < Duration::from_millis(280), "{dead} dies: {} ms by {alive}", gap.as_millis());
        assert!(seen.silence.iter().all(|at| *at > cut), "only when a link is silent");
        assert!(!seen.silence.is_empty());
    }
}

/// Losses by link direction, queue and chance apart.
#[derive(Default)]
struct Lost {
    queue: [u64; 2],
    loss: [u64; 2],
}

impl Observer for Lost {
    fn wants(&self) -> Wants {
        Wants { packets: true, ..Wants::default() }
    }

    fn lost(&mut self, link: LinkIdx, _now: Instant, cause: &'static str, _segment: &Segment) {
        match cause {
            "queue" => self.queue[link.0 as usize] += 1,
            "loss" => self.loss[link.0 as usize] += 1,
            other => panic!("{other}"),
        }
    }
}

#[test]
fn observers_are_told_of_every_loss() {
    let mut lost = Lost::default();
    let result = run(&lossy(50, 40, 1, "count = 8"), &mut lost).unwrap();
    assert!(lost.queue.iter().sum::<u64>() > 0 && lost.loss.iter().all(|n| *n > 0));
    let told: Vec<u64> = (0..2).map(|n| lost.queue[n] + lost.loss[n]).collect();
    let counted: Vec<u64> = result.links.iter().map(|link| link.lost).collect();
    assert_eq!(told, counted);
}

/// Bursts of twenty packets, two of a hundred, with 83 of them in flight: now and then all of them
/// are lost, or all of their acknowledgements, and the chain of the model moves by what is sent.
/// (With one segment at each timeout, and timeouts that double: 1 to 18 Mbit/s.)
#[test]
fn bursts_that_take_all_that_is_in_flight_cost_round_trips_and_not_seconds() {
    for seed in 1..=4 {
        let plan = losing("gilbert:p=0.00102,r=0.05", 100, 10, seed, "");
        let result = run(&plan, &mut Silent).unwrap();
        let mbit = result.flows[0].goodput_bps / 1e6;
        println!("seed {seed}: {mbit:.1} Mbit/s");
        assert!(mbit > 65.0, "seed {seed}: {mbit:.1} Mbit/s");
    }
}
