//! Answers over unequal paths without losses come not much later than by the best path alone:
//! points of the grid where they came by a half later.

use tabane_sim::observe::Silent;
use tabane_sim::run;
use tabane_sim::scenario::Scenario;

/// Rate in bit/s, one-way delay in microseconds and queue in bytes.
type Path = (u64, u64, u64);

/// How soon 95 % of 60 answers are there, seconds.
fn latency(paths: &[Path]) -> f64 {
    let mut text = String::from("duration = \"60s\"\ndefaults.tcp.nagle = false\n");
    for (n, (rate, delay, queue)) in paths.iter().enumerate() {
        text += &format!(
            "[link.l{n}]\nrate = \"{rate}bps\"\ndelay = \"{delay}us\"\nqueue = \"{queue}B\"\n"
        );
    }
    text += "[[flow]]\nrequest = { size = \"100kB\", think = \"100ms\", count = 60 }\n";
    let scenario = Scenario::parse("requests.toml", &text).expect("a scenario");
    let result = run(&scenario.compile().expect("a plan"), &mut Silent).expect("it runs");
    let flow = result.flows.into_iter().next().expect("a flow");
    flow.latency.expect("answers").p95_s
}

/// What a program writes at once leaves after a pause no faster than the path forwards it. (At
/// twice that rate each answer overflowed the queue, and waited for the repair: 38 and 35 ms.)
#[test]
fn answers_do_not_overflow_a_short_queue_each_time() {
    let times = [(45_000_000, 5_000, 58_000), (35_000_000, 3_000, 22_000)].map(|p| latency(&[p]));
    assert!(times[0] < 0.030 && times[1] < 0.031, "{times:?} s");
}

/// How long the best path takes for an answer is known: a farther one gets what helps, and no more.
/// (A window in a round trip promised more than the path forwards, and when that did not come true
/// the farther one was used for a second as if nothing were known: 96 ms.)
#[test]
fn a_farther_path_makes_answers_sooner() {
    let farther = [(19_350_000, 38_500, 169_000), (27_690_000, 262_000, 588_000)];
    assert_no_later(0.9, (11_460_000, 8_500, 15_800), &[], &farther);
}

/// A path that had no trains for ten seconds is no faster for that: a segment takes 20 ms longer
/// there than by the other, and one is enough to know. (What trains had told was forgotten then,
/// and whatever the path could take went there: 31.8 ms.)
#[test]
fn a_slow_path_without_load_is_not_taken_for_a_fast_one() {
    let text = "duration = \"25s\"\n\
                [link.slow]\nrate = \"0.56Mbps\"\ndelay = \"9ms\"\nqueue = \"15kB\"\n\
                [link.fast]\nrate = \"19Mbps\"\ndelay = \"18ms\"\nqueue = \"39kB\"\n\
                [[flow]]\nstop = \"20s\"\npaced = { rate = \"5Mbps\", message = \"1200B\" }\n";
    let scenario = Scenario::parse("stream.toml", text).expect("a scenario");
    let result = run(&scenario.compile().expect("a plan"), &mut Silent).expect("it runs");
    let late = result.flows[0].latency.as_ref().expect("messages").p95_s;
    assert!(late < 0.025, "{late} s");
}

/// A window that fills a slow path's queue for longer than the least round trip is remembered does
/// not take it for the path: all three carry to the end. (The second was idle for half the time,
/// and it took 3 % longer than the links need together.)
#[test]
fn a_path_whose_queue_stood_for_long_is_used_on() {
    let text = "duration = \"100s\"\ndefaults.congestion = \"cubic\"\n\
                [link.first]\nrate = \"8.6Mbps\"\ndelay = \"20ms\"\n\
                [link.second]\nrate = \"0.3Mbps\"\ndelay = \"20ms\"\n\
                [link.third]\nrate = \"0.1Mbps\"\ndelay = \"20ms\"\n\
                [[flow]]\nbulk = \"60MB\"\n";
    let scenario = Scenario::parse("slow.toml", text).expect("a scenario");
    let result = run(&scenario.compile().expect("a plan"), &mut Silent).expect("it runs");
    let seconds = result.flows[0].completed_s.expect("it ends");
    let bound = 60e6 * 8.0 / (9.0e6 * 1428.0 / 1500.0);
    assert!(seconds < 1.015 * bound, "{seconds} s of {bound}");
}

/// Together they take no longer than so many times what the best takes alone.
fn assert_no_later(most: f64, best: Path, before: &[Path], after: &[Path]) {
    let alone = latency(&[best]);
    let together = latency(&[before, &[best], after].concat());
    assert!(together <= most * alone, "{together} s, alone {alone} s");
}

/// The narrow path overflows, and all that it has is sent again on the other one, as fast as that
/// is paced. Whether a drain ends an answer, which makes it a quarter longer, is a matter of phase.
#[test]
fn what_a_narrow_path_holds_up_is_repaired_without_a_pause() {
    let narrow = (2_950_000, 36_000, 15_000);
    let ratios = (0..24).map(|step| {
        let best = (15_930_000 + step * 100_000, 6_000, 59_000);
        latency(&[best, narrow]) / latency(&[best])
    });
    let mean = ratios.sum::<f64>() / 24.0;
    assert!(mean < 1.08, "{mean}");
}

/// The last acknowledgement of an answer is delayed: the path is not slower for that.
#[test]
fn the_end_of_an_answer_does_not_make_a_path_slow() {
    let best = (46_675_737, 9_803, 59_711);
    assert_no_later(1.05, best, &[(1_555_443, 7_749, 15_000)], &[(1_896_770, 104_352, 21_277)]);
}
