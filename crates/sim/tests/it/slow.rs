//! A slow link beside a fast one: two generations of mobile networks, or a tariff whose volume is
//! used up. What it carries is little, and must not hold up what the fast one does.
use tabane_sim::observe::Silent;
use tabane_sim::run;
use tabane_sim::scenario::Scenario;
use tabane_sim::what_if;

/// Rate and delay of the fast link and of the slow one, and the slow one's queue.
const PAIRS: [(&str, &str, &str, &str, &str); 5] = [
    ("5Mbps", "10ms", "190kbps", "30ms", "100 packets"),
    ("20Mbps", "22ms", "38kbps", "64ms", "9kB"),
    ("20Mbps", "22ms", "64kbps", "64ms", "100kB"),
    ("1.1Mbps", "12ms", "33kbps", "12ms", "100 packets"),
    ("3Mbps", "50ms", "100kbps", "20ms", "100 packets"),
];

/// Goodput (bit/s) and the longest time without a byte (s) of an endless flow.
fn bulk(links: &str, direction: &str) -> (f64, f64) {
    let text = format!(
        "duration = \"40s\"\n{links}
         [[flow]]\nbulk = \"unlimited\"\ndirection = \"{direction}\"\n"
    );
    let scenario = Scenario::parse("slow.toml", &text).unwrap();
    let result = run(&scenario.compile().unwrap(), &mut Silent).unwrap();
    let flow = &result.flows[0];
    (flow.goodput_bps, flow.detail.stall.as_secs_f64())
}

/// What waits on the slow link is carried by the fast one when the program would notice: also what
/// has been sent there again, and what was bound for it and has not left. (Stalls of 1.1 to 12.5 s,
/// and goodput down to 0.85 of the fast link's. Four segments in flight were taken for others'
/// queue by the first pair's slow subflow, and the fourth's repeated its first window for ever, as
/// it had no round trip that was not ambiguous.)
#[test]
fn a_slow_link_does_not_hold_up_what_a_fast_one_carries() {
    for (rate, delay, slow, far, queue) in PAIRS {
        let fast = format!("[link.fast]\nrate = \"{rate}\"\ndelay = \"{delay}\"\n");
        let slow =
            format!("[link.slow]\nrate = \"{slow}\"\ndelay = \"{far}\"\nqueue = \"{queue}\"\n");
        for direction in ["download", "upload"] {
            let (alone, _) = bulk(&fast, direction);
            for links in [fast.clone() + &slow, slow.clone() + &fast] {
                let (goodput, stall) = bulk(&links, direction);
                let what = format!("{direction}: {links}");
                assert!(goodput >= 0.97 * alone, "{goodput} of {alone} bit/s, {what}");
                assert!(stall <= 0.6, "{stall} s without a byte, {what}");
            }
        }
    }
}

/// A link that dies before the first byte has stalled all the time, and not never.
#[test]
fn a_flow_that_gets_nothing_has_stalled_since_its_start() {
    let links = "[link.a]\nrate = \"20Mbps\"\ndelay = \"10ms\"\n\
                 [[at]]\ntime = \"15ms\"\ndown = \"a\"\nsilent = true\n";
    let (goodput, stall) = bulk(links, "download");
    assert_eq!((goodput, stall), (0.0, 40.0));
}

/// Those of a flow begin one after the other, and each is there from its own start.
#[test]
fn whatif_counts_the_time_that_each_connection_is_there() {
    let text = "duration = \"20s\"\n[link.a]\nrate = \"20Mbps\"\ndelay = \"10ms\"\n\
                [[flow]]\nbulk = \"unlimited\"\nstart = \"5s\"\ncount = 2\nstagger = \"10s\"\n";
    let plan = Scenario::parse("staggered.toml", text).unwrap().compile().unwrap();
    let goodput = what_if::measure(&plan).unwrap().goodput_bps.unwrap();
    // 15 s of the link in the 20 s that the two are there together.
    assert!((13e6..15e6).contains(&goodput), "{goodput}");
}
