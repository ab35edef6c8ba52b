//! Series and models by themselves, and what they do to a link.

use super::*;
use crate::link::{DelayConfig, Link, LinkConfig};
use crate::seed::Seed;
use measured::Reading;
use tabane_engine::Instant;

const MS: u64 = 1_000_000;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn series(text: &str) -> Result<Series, String> {
    Series::parse(text).map_err(|e| e.to_string())
}

#[test]
fn a_series_says_rate_delay_loss_and_queue_together() {
    let text = "# a handover\ndelay_ms, time_s, rate_mbps, loss_percent, queue_kb\n\
        20, 0, 40, 0, 100\n\n80, 1.5, 5, 2, \n,1.6,0\n,4\n";
    let series = series(text).unwrap();
    let at = |n: usize| series.rows()[n];
    let first = Condition {
        rate: RateIs::Bps(40_000_000),
        delay: DelayIs::Exactly(ms(20)),
        loss: Some(0.0),
        queue: Some(QueueIs::Bytes(100_000)),
    };
    let second = Condition {
        rate: RateIs::Bps(5_000_000),
        delay: DelayIs::Exactly(ms(80)),
        loss: Some(0.02),
        ..first
    };
    assert_eq!((at(0), at(1)), ((ms(0), first), (ms(1500), second)));
    assert_eq!(at(2), (ms(1600), Condition { rate: RateIs::Bps(0), ..second }), "as above");
    assert_eq!((series.rows().len(), series.period()), (3, Some(ms(4000))));
    assert!(series.has_rate());
    assert_eq!(Series::parse(&series.to_csv()), Ok(series));
    assert!(!Series::parse("time_ms,delay_ms\n0,5\n").unwrap().has_rate());
}

#[test]
fn what_is_wrong_with_a_series_is_said_with_line_and_remedy() {
    let wrong = |text: &str| series(text).unwrap_err();
    assert!(wrong("").starts_with("line 1: no header; write time_s"));
    assert!(wrong("time_s,speed\n").starts_with("line 1: no column is called 'speed'; known: "));
    assert!(wrong("rate_mbps\n").ends_with("add time_s"));
    assert!(wrong("time_s\n0\n").contains("nothing but times"));
    assert!(wrong("time_s,loss,loss_percent\n").contains("two columns say the loss"));
    assert_eq!(wrong("time_s,loss\n"), "line 1: no row below the header");
    assert_eq!(wrong("time_s,loss\n1,0\n"), "line 2: the first row is at time 0");
    assert!(wrong("time_s,loss,delay_ms\n0,,5\n").contains("a value for every column"));
    assert!(wrong("time_s,loss\n0,0\n\n2,0\n1,0\n").starts_with("line 5: not later than"));
    assert!(wrong("time_s,loss\n0,1.5\n").contains("a share from 0 to 1"));
    assert!(wrong("time_s,rate_mbps\n0,fast\n").starts_with("line 2: 'fast' is not a number"));
    assert!(wrong("time_s,rate_mbps\n0,-1\n").contains("a rate is from 0"));
    assert!(wrong("time_s,loss\n0,0\n1,\n2,0\n").starts_with("line 4: the row above has only"));
    assert!(wrong("time_s,loss\n0,0,1\n").contains("3 values, but the header has 2"));
}

fn config(mbps: u64, delay_ms: u64, conditions: &str) -> LinkConfig {
    LinkConfig {
        rate: RateConfig::Constant(mbps * 1_000_000),
        delay: DelayConfig::Constant(ms(delay_ms)),
        queue: "droptail:packets=1000".parse().expect("a spec"),
        conditions: Some(match conditions.contains('\n') {
            true => ConditionsConfig::Series(Arc::new(series(conditions).expect("a series"))),
            false => ConditionsConfig::Model(conditions.parse().expect("a spec")),
        }),
        ..LinkConfig::default()
    }
}

/// Packets of 1500 bytes that begin with their number.
fn numbered(n: u32) -> Vec<u8> {
    let mut packet = n.to_be_bytes().to_vec();
    packet.resize(1500, 0);
    packet
}

fn link(config: &LinkConfig) -> Link<Vec<u8>> {
    Link::new(config, Seed(1), "link/test/down").expect("a sound configuration")
}

/// Runs until `until`: arrivals as (microsecond, number).
fn run(link: &mut Link<Vec<u8>>, until: u64) -> Vec<(u64, u32)> {
    let mut arrivals = Vec::new();
    while let Some(at) = link.next_event().filter(|at| at.0 <= until) {
        while let Some(packet) = link.pop(at) {
            let number = u32::from_be_bytes(packet[..4].try_into().expect("four bytes"));
            arrivals.push((at.0 / 1000, number));
        }
    }
    arrivals
}

/// 12 Mb/s, 1 ms a packet. From 2.5 ms on nothing is sent, from 10 ms on twice as fast, and 45 ms
/// nearer: the third packet has half of itself to send then, and arrives no sooner than the second.
#[test]
fn a_stop_keeps_what_waits_and_a_shorter_way_overtakes_nothing() {
    let text = "time_ms,rate_mbps,delay_ms\n0,12,50\n2.5,0,50\n10,24,5\n1000,\n";
    let mut link = link(&LinkConfig { rate: RateConfig::Unlimited, ..config(1, 0, text) });
    (0..5).for_each(|n| link.push(Instant(0), numbered(n)));
    let expected = [(51_000, 0), (52_000, 1), (52_000, 2), (52_000, 3), (52_000, 4)];
    assert_eq!(run(&mut link, 900 * MS), expected);
    link.push(Instant(500 * MS), numbered(5));
    assert_eq!(run(&mut link, 900 * MS), [(505_500, 5)]);
    // The period has begun again: 12 Mb/s and 50 ms.
    link.push(Instant(1001 * MS), numbered(6));
    assert_eq!(run(&mut link, 1900 * MS), [(1_052_000, 6)]);
}

#[test]
fn what_a_series_does_not_say_stays_the_links_own_and_the_last_row_holds() {
    let mut link = link(&config(12, 10, "time_s,loss\n0,0\n1,1\n2,0\n"));
    for n in 0..40 {
        link.push(Instant(u64::from(n) * 100 * MS), numbered(n));
    }
    let arrived: Vec<u32> = run(&mut link, 9_000 * MS).iter().map(|a| a.1).collect();
    assert_eq!(arrived, (0..10).chain(20..40).collect::<Vec<_>>(), "all of the second second");
    assert_eq!(link.stats(Instant(9_000 * MS)).lost.packets, 10);
}

/// Sends `n` packets that follow each other at 1 ms each, and gives the numbers of those lost.
fn lost_of(link: &mut Link<Vec<u8>>, n: u32) -> Vec<u32> {
    let mut arrived = std::collections::BTreeSet::new();
    for k in 0..n {
        let at = u64::from(k) * MS;
        arrived.extend(run(link, at).iter().map(|a| a.1));
        link.push(Instant(at), numbered(k));
    }
    arrived.extend(run(link, u64::from(n) * MS + 1_000 * MS).iter().map(|a| a.1));
    (0..n).filter(|k| !arrived.contains(k)).collect()
}

#[test]
fn a_delay_that_changes_asks_no_loss_model_twice() {
    let text = "time_ms,delay_ms\n0,10\n0.5,11\n1,\n";
    let config = LinkConfig { loss: "periodic:n=100".parse().unwrap(), ..config(12, 10, text) };
    let expected: Vec<u32> = (1..=20).map(|k| k * 100 - 1).collect();
    assert_eq!(lost_of(&mut link(&config), 2_000), expected);
}

/// Half of the packets meet the link's own model, which goes on to count where it was.
#[test]
fn the_own_loss_goes_on_where_it_was_when_conditions_no_longer_say_one() {
    let conditions = "bursts:share=0.5,burst_ms=5,loss=0";
    let loss = "periodic:n=100".parse().unwrap();
    let config = LinkConfig { loss, ..config(12, 10, conditions) };
    let lost = lost_of(&mut link(&config), 20_000).len();
    assert!((80..=120).contains(&lost), "{lost}");
}

#[test]
fn an_own_loss_that_is_changed_meanwhile_holds_when_conditions_no_longer_say_one() {
    let config = config(12, 10, "bursts:share=0.5,burst_ms=5,loss=0");
    let mut link = link(&config);
    let change = |loss: &str| crate::link::LinkChange {
        loss: Some(loss.parse().expect("a spec")),
        ..Default::default()
    };
    // Half of the time it is under conditions, and is changed there as well as outside.
    link.change(Instant(0), &change("bernoulli:p=1")).unwrap();
    let lost = lost_of(&mut link, 10_000).len();
    assert!((4_000..6_000).contains(&lost), "{lost}");
    for n in 0..1_000 {
        link.change(Instant((11_000 + n) * MS), &change("none")).unwrap();
    }
    link.report_losses(true);
    for n in 0..1_000 {
        link.push(Instant((12_000 + n) * MS), numbered(0));
    }
    run(&mut link, 20_000 * MS);
    assert!(link.poll_loss().is_none());
}

/// A minute of a terabit a second is more than queues may have: the link has the largest.
#[test]
fn a_queue_that_is_given_as_time_is_no_larger_than_queues_may_be() {
    let config = LinkConfig {
        rate: RateConfig::Constant(1_000_000_000_000),
        ..config(1, 1, "cellular:queue_s=60")
    };
    link(&config).push(Instant(0), numbered(0));
}

/// A tenth of a second is ten times as much at ten times the rate.
#[test]
fn a_queue_that_is_given_as_time_follows_the_rate() {
    for (rate, held) in [(None, 90..110), (Some(RateConfig::Constant(120_000_000)), 390..401)] {
        let mut link = link(&config(12, 1, "cellular:queue_s=0.1"));
        let change = crate::link::LinkChange { rate, ..Default::default() };
        link.change(Instant(0), &change).unwrap();
        (0..400).for_each(|n| link.push(Instant(0), numbered(n)));
        let packets = link.backlog(Instant(0)).packets;
        assert!(held.contains(&packets), "{packets}");
    }
}

#[test]
fn a_queue_column_replaces_the_queue_and_a_timed_change_stays_below_it() {
    let mut link = link(&config(12, 0, "time_ms,queue_packets\n0,50\n10,5\n"));
    (0..31).for_each(|n| link.push(Instant(0), numbered(n)));
    assert_eq!(link.backlog(Instant(9 * MS)).packets, 21);
    assert_eq!(link.backlog(Instant(10 * MS)).packets, 5);
    // Another queue of the link's own changes nothing while the series says another.
    let queue = Some("droptail:packets=3".parse().expect("a spec"));
    let change = crate::link::LinkChange { queue, ..Default::default() };
    link.change(Instant(10 * MS), &change).unwrap();
    assert_eq!(link.backlog(Instant(10 * MS)).packets, 5);
    // A rate does: the series does not say one.
    let rate = Some(RateConfig::Constant(120_000_000));
    let change = crate::link::LinkChange { rate, ..Default::default() };
    link.change(Instant(10 * MS), &change).unwrap();
    assert_eq!(link.backlog(Instant(11 * MS)).packets, 0);
}

fn phases(spec: &str, stream: &str, seconds: u64) -> Vec<Phase> {
    let mut model = build(&spec.parse().expect("a spec")).expect("a model");
    let mut rng = Seed(5).stream(stream);
    let (mut phases, mut at) = (Vec::new(), Duration::ZERO);
    while at < Duration::from_secs(seconds) {
        let phase = model.next(&mut rng).expect("a phase");
        assert!(!phase.lasts.is_zero());
        at = at + phase.lasts;
        phases.push(phase);
    }
    phases
}

fn times(phase: &Phase) -> f64 {
    match phase.condition.rate {
        RateIs::Times(times) => times,
        other => panic!("{other:?}"),
    }
}

/// Seconds of the phases of which `which` holds.
fn seconds(phases: &[Phase], which: impl Fn(&Phase) -> bool) -> f64 {
    phases.iter().filter(|phase| which(phase)).map(|phase| phase.lasts.as_secs_f64()).sum()
}

#[test]
fn leo_has_its_slots_outages_bursts_and_steps() {
    let phases = phases("leo", "leo", 15_000);
    let all = seconds(&phases, |_| true);
    let outages = seconds(&phases, |phase| times(phase) == 0.0);
    assert!((outages / all - 0.01).abs() < 0.0002, "0.15 of 15 s: {outages} of {all}");
    let bursts = seconds(&phases, |phase| phase.condition.loss == Some(0.2));
    assert!((bursts / all - 0.8 / 15.0).abs() < 0.001, "0.8 of 15 s: {bursts} of {all}");
    let mut delays: Vec<DelayIs> = phases.iter().map(|phase| phase.condition.delay).collect();
    delays.dedup();
    assert!((995..=1_001).contains(&delays.len()), "one a slot: {}", delays.len());
    let sent: f64 = phases.iter().map(|p| times(p) * p.lasts.as_secs_f64()).sum();
    assert!((sent / all / 0.99 - 1.0).abs() < 0.03, "the link's own but for outages: {sent} {all}");
}

#[test]
fn bursts_have_their_share_and_length() {
    let phases = phases("bursts:share=0.01,burst_ms=20,loss=0.5", "bursts", 20_000);
    let all = seconds(&phases, |_| true);
    let lossy = |phase: &&Phase| phase.condition.loss == Some(0.5);
    let share = seconds(&phases, |phase| lossy(&phase)) / all;
    assert!((share - 0.01).abs() < 0.0005, "{share}");
    let mean = share * all / phases.iter().filter(lossy).count() as f64;
    assert!((mean - 0.02).abs() < 0.001, "{mean}");
    assert!(phases.iter().all(|phase| phase.condition.rate == RateIs::Own));
}

#[test]
fn cellular_has_its_mean_spread_bursts_and_handovers() {
    let phases = phases("cellular", "cellular", 20_000);
    let all = seconds(&phases, |_| true);
    let sent: f64 = phases.iter().map(|p| times(p) * p.lasts.as_secs_f64()).sum();
    assert!((sent / all - 1.0).abs() < 0.03, "{sent} {all}");
    let pauses = seconds(&phases, |phase| times(phase) == 0.0);
    assert!((pauses / all - 0.5).abs() < 0.01, "half of each interval: {pauses} {all}");
    let long = phases.iter().filter(|p| times(p) == 0.0 && p.lasts == ms(50)).count();
    assert!((550..750).contains(&long), "every 30 s: {long} of 20 000 s");
    // Nine states evenly between 0.2 and 1.8 deviate by 0.8 x sqrt(5 / 12) = 0.516.
    let busy: Vec<f64> = phases.iter().map(times).filter(|t| *t > 0.0).map(|t| t / 2.0).collect();
    let deviation =
        (busy.iter().map(|t| (t - 1.0).powi(2)).sum::<f64>() / busy.len() as f64).sqrt();
    assert!((deviation - 0.516).abs() < 0.03, "{deviation}");
    let queue = Some(QueueIs::Time(Duration::from_secs(2)));
    assert!(phases.iter().all(|phase| phase.condition.queue == queue));
}

#[test]
fn directions_share_their_conditions_and_links_do_not() {
    for model in ["leo", "cellular"] {
        let mean = |name: &str| {
            config(100, 20, model).mean_rate(Seed(3), name, Duration::from_secs(60)).unwrap()
        };
        assert_eq!(mean("link/a/up"), mean("link/a/down"));
        assert_ne!(mean("link/a/up"), mean("link/b/up"));
    }
    let held = config(100, 20, "time_s,rate_mbps\n0,10\n30,40\n");
    let mean = held.mean_rate(Seed(1), "link/a/up", Duration::from_secs(60)).unwrap();
    assert!((mean - 25e6).abs() < 1.0, "{mean}");
}

/// What a busy link carries is what its conditions say.
#[test]
fn a_busy_link_sends_the_mean_rate() {
    for model in ["leo:burst_loss=0", "cellular", "time_s,rate_mbps\n0,30\n0.7,0\n1.9,\n"] {
        let mut config = config(30, 10, model);
        if model.contains('\n') {
            config.rate = RateConfig::Unlimited;
        }
        let mut link = link(&config);
        let end = 60_000 * MS;
        for n in 0..300_000_u32 {
            let at = u64::from(n) * end / 300_000;
            run(&mut link, at);
            link.push(Instant(at), numbered(n));
        }
        let bytes = link.stats(Instant(end)).delivered.bytes;
        let time = Duration(end);
        let mean = config.mean_rate(Seed(1), "link/test/down", time).unwrap();
        let sent = bytes as f64 * 8.0 / time.as_secs_f64();
        assert!((sent / mean - 1.0).abs() < 0.005, "{model}: {sent} of {mean}");
    }
}

#[test]
fn models_need_a_rate_of_which_to_give_multiples() {
    let config = LinkConfig { rate: RateConfig::Unlimited, ..config(1, 1, "leo") };
    assert_eq!(config.check(), Err(LinkError::NoOwnRate));
    let config = LinkConfig {
        conditions: Some(ConditionsConfig::Model("leo:slot=1".parse().unwrap())),
        ..LinkConfig::default()
    };
    assert!(matches!(config.check(), Err(LinkError::Model(_))));
}

fn reading() -> Reading {
    Reading { columns: Vec::new(), hold: false, step: ms(100) }
}

#[test]
fn measured_series_are_read_whatever_their_columns_are_called() {
    let text = "RTT (ms),Throughput [Mbit/s],cell,Timestamp\n60,20.5,7,1700000000\n\
        80,,7,1700000001\n,3,8,1700000002\n";
    let read = measured::read(text, &reading()).unwrap();
    assert_eq!(read.ignored, ["cell"]);
    let csv = "time_s,rate_mbps,delay_ms\n0,20.5,30\n1,20.5,40\n2,3,40\n3,,\n";
    assert_eq!(read.series.to_csv(), csv);
    let hold = Reading { hold: true, ..reading() };
    assert_eq!(measured::read(text, &hold).unwrap().series.period(), None);

    let columns = vec![("t".into(), "time_ms".into()), ("x".into(), "rate_kbps".into())];
    let named = Reading { columns, ..reading() };
    let read = measured::read("x,t\n500,0\n250,10\n", &named).unwrap();
    assert_eq!(read.series.to_csv(), "time_s,rate_mbps\n0,0.5\n0.01,0.25\n0.02,\n");
}

#[test]
fn mahimahi_becomes_a_rate_a_step() {
    // 10 opportunities in the first 100 ms, 5 in the second, 1 in the last 50.
    let mut text: String = (1..=10).map(|n| format!("{}\n", n * 10)).collect();
    text += &(1..=5).map(|n| format!("{}\n", 100 + n * 20)).collect::<String>();
    text += "250\n";
    let read = measured::read(&text, &reading()).unwrap();
    let csv = "time_s,rate_mbps\n0,1.2\n0.1,0.6\n0.2,0.24\n0.25,\n";
    assert_eq!(read.series.to_csv(), csv);
}

#[test]
fn what_cannot_be_converted_is_said_with_line_and_remedy() {
    let wrong = |text: &str| measured::read(text, &reading()).unwrap_err().to_string();
    assert_eq!(wrong(""), "line 1: the file is empty");
    assert!(
        wrong("time_s,rate_mbps\n0,\n1,5\n").contains("line 2: the first row has an empty cell")
    );
    assert!(wrong("a,mbps\n").contains("no column of times among: a, mbps; name it: --column"));
    assert!(wrong("time,cell\n").contains("nothing that is known but times"));
    assert!(wrong("time,mbps,kbps\n").contains("two columns say the rate"));
    assert!(wrong("time,mbps\n0,x\n").starts_with("line 2: 'x' is not a number"));
    assert!(wrong("time,mbps\n1,5\n0,5\n").starts_with("line 3: not later than"));
    assert!(wrong("time,mbps\n0,5\nnan,7\n1,9\n").starts_with("line 3: its time is no number"));
    assert!(
        wrong("1\n4294967295\n").contains("line 2: more than 10000000 rows: use a larger --step")
    );
    assert!(wrong("3\n2\n").starts_with("line 2: earlier than the line above"));
    let columns = vec![("t".into(), "time_s".into())];
    let named = Reading { columns, ..reading() };
    let error = measured::read("a,b\n", &named).unwrap_err().to_string();
    assert_eq!(error, "line 1: no column is called 't'; there are: a, b");
}
