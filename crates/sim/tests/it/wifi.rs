//! Links over a shared medium, in a world: timing, sharing, and that nobody notices who looks.
use std::path::Path;
use tabane_engine::{Duration, Instant};
use tabane_sim::check::Check;
use tabane_sim::observe::{LinkIdx, LinkSample, Observer, Observers, Silent, Wants};
use tabane_sim::result::RunResult;
use tabane_sim::scenario::{Document, LinkParams, Scenario, Variant};
use tabane_sim::swarm::generate;
use tabane_sim::{Plan, run};

fn plan(text: &str) -> Plan {
    Scenario::parse("wifi.toml", text).unwrap_or_else(|e| panic!("{e}")).compile().unwrap()
}

fn result(text: &str) -> RunResult {
    run(&plan(text), &mut Silent).unwrap()
}

/// A flow over a link with a medium.
fn world(medium: &str, flow: &str) -> String {
    format!(
        "duration = \"20s\"\nverify = true\n[link.a]\nrate = \"54Mbps\"\ndelay = \"2ms\"\n\
         medium = \"{medium}\"\n[[flow]]\n{flow}\n"
    )
}

/// A message of 160 bytes, with 52 of TCP/IP and 36 more of a frame, is 10 symbols of 4 us at 54
/// Mbit/s after 20 us of preamble. On an idle medium it waits for the next slot at most.
#[test]
fn a_packet_on_an_idle_medium_takes_its_time_on_the_air() {
    let flow = "paced = { rate = \"12800bps\", message = \"160B\" }\nstop = \"19s\"\n\
                [defaults]\nmptcp = false";
    let latency = result(&world("wifi", flow)).flows[0].latency.clone().unwrap();
    let least = 0.002 + 20e-6 + 4e-6 * f64::from((22_u32 + 8 * (160 + 52 + 36)).div_ceil(216));
    assert!(latency.count > 180, "{latency:?}");
    for is in [latency.p50_s, latency.p95_s] {
        assert!((least..least + 9e-6).contains(&is), "{is} is not a slot after {least} at most");
    }
}

/// Data and its acknowledgements are on the same air: with all overhead no more fits into the time,
/// and not much less is there.
#[test]
fn both_directions_share_the_air() {
    for flow in ["bulk = \"unlimited\"", "bulk = \"unlimited\"\ndirection = \"both\""] {
        let result = result(&world("wifi", flow));
        // DIFS, preamble, SIFS and ACK of each frame; 3.5 slots at least where two contend.
        let overhead = 34e-6 + 20e-6 + 16e-6 + 28e-6;
        let air = |link: &tabane_sim::result::LinkResult| {
            let payload = (link.bytes + 36 * link.packets) as f64 * 8.0 / 54e6;
            (payload, link.frames as f64 * overhead)
        };
        let used: f64 = result.links.iter().map(air).map(|(payload, own)| payload + own).sum();
        println!("{flow}: {} bit/s, {used} s of 20", result.flows[0].goodput_bps);
        assert!((14.0..20.0).contains(&used), "{flow}: {used}");
        assert!(result.links.iter().all(|link| link.frames >= link.packets));
    }
}

/// Looks at the links all the time.
struct Looks(u64);

impl Observer for Looks {
    fn wants(&self) -> Wants {
        Wants { sample: Some(Duration::from_micros(333)), ..Wants::default() }
    }
    fn link_sample(&mut self, _now: Instant, _link: LinkIdx, _sample: &LinkSample) {
        self.0 += 1;
    }
}

#[test]
fn looking_changes_nothing() {
    let medium = "wifi:stations=5,hidden=2,interference=0.05";
    for flow in ["bulk = \"20MB\"", "bulk = \"20MB\"\ndirection = \"both\""] {
        let plan = plan(&world(medium, flow));
        let mut looks = Looks(0);
        let seen = run(&plan, &mut looks).unwrap();
        assert!(looks.0 > 100_000, "{}", looks.0);
        assert_eq!(seen, run(&plan, &mut Silent).unwrap());
        assert!(seen.links.iter().all(|link| link.frames > link.packets), "{:?}", seen.links);
    }
}

#[test]
fn a_link_may_go_and_come_and_change_its_rate() {
    let at = "[[at]]\ntime = \"1s\"\ndown = \"a\"\nsilent = true\n\
              [[at]]\ntime = \"2s\"\nup = \"a\"\n\
              [[at]]\ntime = \"3s\"\nlink = \"a\"\nrate = \"6Mbps\"\nqueue = \"fq_codel\"\n\
              [[at]]\ntime = \"5s\"\nlink = \"a\"\nrate = \"54Mbps\"\nqueue = \"50 packets\"\n";
    let text = world("wifi:stations=2", "bulk = \"8MB\"") + at;
    let flow = result(&text).flows[0].clone();
    assert_eq!((flow.bytes, flow.corrupt_at), (8_000_000, None));
    let steady = result(&world("wifi:stations=2", "bulk = \"8MB\"")).flows[0].completed_s.unwrap();
    // A second away, and two at a ninth of the rate.
    assert!(flow.completed_s.unwrap() > steady + 1.5, "{:?}, {steady}", flow.completed_s);
}

/// The worlds of the swarm, on media: nothing that must never happen does.
#[test]
fn generated_worlds_stay_sound_on_media() {
    let media = ["wifi", "wifi:stations=6,hidden=3", "wifi:interference=0.3,stations=1"];
    let plain = |params: &LinkParams| {
        let fast = params.rate.is_none_or(|rate| rate.0 >= 1_000_000);
        fast && params.trace.is_none() && params.conditions.is_none()
    };
    let mut shared = 0;
    for seed in 0..40 {
        let mut scenario = generate(seed);
        for (n, (_, link)) in scenario.link.0.iter_mut().enumerate() {
            if [true, false].iter().all(|up| plain(&link.direction(*up))) {
                let spec: tabane_engine::policy::Spec = media[n % media.len()].parse().unwrap();
                link.medium = Some(spec.into());
                shared += 1;
            }
        }
        // Changes of rate below what a medium sends at are none that a user may write.
        let Ok(plan) = scenario.compile() else { continue };
        let mut check = Check::new(&scenario);
        let result = run(&plan, &mut Observers(vec![&mut check])).unwrap();
        let violations = check.violations(&scenario, &result);
        assert!(violations.is_empty(), "seed {seed}: {violations:?}");
    }
    assert!(shared > 40, "{shared} links on media");
}

/// Acknowledgements that wait for a medium where hidden stations send arrive by the other path.
#[test]
fn bicast_saves_time_where_stations_are_hidden() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../papers/bicast/wifi.toml");
    let seconds = |egress: &str| {
        let sets = ["flow.file.bulk=4MB", "seed=[1,2,3,4,5]", egress];
        let three = "link.wifi.medium=\"wifi:stations=4,hidden=3,interference=0.02\"";
        let sets: Vec<String> = sets.iter().chain([&three]).map(|s| (*s).to_owned()).collect();
        let document = Document::read(&file, &sets).unwrap_or_else(|e| panic!("{e}"));
        let variants = document.variants().unwrap_or_else(|e| panic!("{e}"));
        let run = |v: &Variant| run(&v.plan, &mut Silent).unwrap().flows[0].completed_s.unwrap();
        variants.iter().map(run).sum::<f64>()
    };
    let (own, bicast) =
        (seconds("host.client.egress=\"own\""), seconds("host.client.egress=\"bicast\""));
    println!("{own} s, with copies {bicast} s");
    assert!(bicast < 0.9 * own, "{own} s, with copies {bicast} s");
}
