//! A made-up download over two paths, sampled and recorded, and what the report says of it.

use super::*;
use crate::observe::{FlowLayout, HostLayout, LinkLayout, PathLayout};
use crate::report::{Metric, Report};
use tabane_engine::record::SubflowChange;
use tabane_engine::scheduler::Reason;
use tabane_engine::seq::Dsn;
use tabane_engine::view::PathId;
use tabane_engine::view::{RecoveryPhase, SubflowSet, SubflowView};

const CLIENT: HostIdx = HostIdx(0);
const SERVER: HostIdx = HostIdx(1);

fn layout(flows: u32) -> Layout {
    let path = |id, name: &str| {
        let addresses = vec![[10, 0, 0, id + 1].into(), [10, 0, 1, 1].into()];
        PathLayout { id: PathId(id), name: name.into(), addresses }
    };
    let server = PathLayout { addresses: vec![[10, 9, 0, 1].into()], ..path(0, "rack") };
    let client = vec![path(0, "wifi"), path(1, "lte")];
    let host = |name: &str, paths| HostLayout { name: name.into(), paths };
    let flow =
        |i| FlowLayout { name: format!("flow{i}"), client: CLIENT, server: SERVER, download: true };
    let link = LinkLayout { name: "wifi".into(), from: "server".into(), to: "client".into() };
    Layout {
        hosts: vec![host("client", client), host("server", vec![server])],
        flows: (0..flows).map(flow).collect(),
        links: vec![link],
        ..Layout::default()
    }
}

fn subflow(slot: u8, sent: u64, delivered: u64) -> SubflowInfo {
    let ms = Duration::from_millis;
    let view = SubflowView::default().with(|v| {
        v.id = SubflowId(slot);
        v.path = PathId(slot);
        v.usable = true;
        v.backup = false;
        v.potentially_failed = false;
        v.phase = RecoveryPhase::Open;
        v.sendable = 0;
        v.cwnd = 20_000;
        v.ssthresh = u64::MAX;
        v.in_flight = 10_000;
        v.unacked = 10_000;
        v.oldest_sent = tabane_engine::Instant::FAR_FUTURE;
        v.mss = 1_000;
        v.srtt = ms(20);
        v.rttvar = ms(1);
        v.latest_rtt = ms(21);
        v.min_rtt = ms(19);
        v.max_rtt = ms(30);
        v.pacing_rate = 0;
        v.delivery_rate = 0;
        v.loss_interval = 0;
    });
    let bytes_retransmitted = sent / 10;
    let stats = tcp::Stats::default().with(|v| {
        v.bytes_sent = sent;
        v.bytes_retransmitted = bytes_retransmitted;
    });
    let ends = ["10.9.0.1:80".parse().unwrap(), ([10, 0, 0, slot + 1], 1_000).into()];
    SubflowInfo::new(view, ends).with(|v| {
        v.number = slot.into();
        v.path = PathId(0);
        v.rto = ms(200);
        v.stats = stats;
        v.delivered = delivered;
    })
}

fn server_info(bytes: u64) -> Info {
    let subflows = vec![subflow(0, bytes * 3 / 4, 0), subflow(1, bytes / 4, 0)];
    Info::default().with(|v| {
        v.written = bytes;
        v.subflows = subflows;
    })
}

fn client_info(bytes: u64) -> Info {
    let subflows = vec![subflow(0, 0, bytes * 3 / 4), subflow(1, 0, bytes / 4)];
    Info::default().with(|v| {
        v.received = bytes;
        v.subflows = subflows;
    })
}

fn ms(ms: u64) -> Instant {
    Instant(ms * 1_000_000)
}

/// `seconds` of one megabyte a second, sampled every 100 ms.
fn download(settings: Settings, flows: u32, seconds: u64) -> Collector {
    let mut collector = Collector::new(settings);
    collector.begin(&layout(flows));
    for flow in (0..flows).map(FlowIdx) {
        collector.opened(Instant::ZERO, flow, CLIENT, ConnId(u64::from(flow.0)));
        collector.opened(Instant::ZERO, flow, SERVER, ConnId(u64::from(flow.0)));
    }
    for tick in 1..=seconds * 10 {
        for flow in (0..flows).map(FlowIdx) {
            collector.sample(ms(tick * 100), flow, CLIENT, &client_info(tick * 100_000));
            collector.sample(ms(tick * 100), flow, SERVER, &server_info(tick * 100_000));
        }
        let delivered_bytes = tick * 75_000;
        let sample = LinkSample { queued_bytes: 500, delivered_bytes, lost: 2, ..<_>::default() };
        collector.link_sample(ms(tick * 100), LinkIdx(0), &sample);
    }
    for flow in (0..flows).map(FlowIdx) {
        collector.completed(ms(seconds * 1_000), flow);
    }
    collector.end(ms(seconds * 1_000));
    collector
}

fn points(report: &Report, metric: Metric, whole: bool) -> Vec<Vec<(f64, f64)>> {
    report.of(metric, whole).map(|s| s.points.clone()).collect()
}

#[test]
fn rates_shares_and_links_are_those_of_the_samples() {
    let report = download(Settings::default(), 1, 5).report();
    let whole = &points(&report, Metric::Goodput, true)[0];
    assert_eq!(whole.len(), 50);
    assert!(whole.iter().all(|p| (p.1 - 8e6).abs() < 1.0), "{whole:?}");
    let by_path = points(&report, Metric::Goodput, false);
    assert!((by_path[0][7].1 - 6e6).abs() < 1.0 && (by_path[1][7].1 - 2e6).abs() < 1.0);
    assert_eq!(report.figure("flow0", Some(0), "delivered_share"), Some(0.75));
    assert_eq!(report.figure("flow0", None, "mean_goodput_bps"), Some(8e6));
    assert_eq!(report.figure("flow0", Some(1), "retransmitted_ratio"), Some(0.1));
    assert_eq!(report.figure("", None, "link_lost_packets"), Some(2.0));
    let link = &points(&report, Metric::LinkRate, false)[0];
    assert!((link[3].1 - 6e6).abs() < 1.0);
    // No threshold yet: no series of it.
    assert!(points(&report, Metric::Ssthresh, false).is_empty());
    assert_eq!(points(&report, Metric::InFlight, true)[0][0].1, 20_000.0);
}

#[test]
fn a_long_run_keeps_its_bytes_in_bounded_rows() {
    let settings = Settings { bins: 64, ..Settings::default() };
    let report = download(settings, 1, 100).report();
    let whole = &points(&report, Metric::Goodput, true)[0];
    assert!((32..64).contains(&whole.len()), "{} rows", whole.len());
    let mut bytes = 0.0;
    let mut before = 0.0;
    for &(t, rate) in whole {
        bytes += rate * (t - before) / 8.0;
        before = t;
    }
    assert!((bytes - 100e6).abs() < 1.0, "{bytes}");
    assert_eq!(report.interval, 1.6);
}

#[test]
fn beyond_the_limit_connections_have_figures_but_no_series() {
    let settings = Settings { tracked: 4, ..Settings::default() };
    let report = download(settings, 5, 2).report();
    assert_eq!(points(&report, Metric::Goodput, true).len(), 2);
    assert_eq!(report.figure("flow4", None, "received_bytes"), Some(2e6));
    assert_eq!(report.figure("", None, "jain"), Some(1.0));
}

#[test]
fn a_second_connection_of_a_flow_goes_on_counting() {
    let mut collector = download(Settings::default(), 1, 1);
    collector.opened(ms(1_000), FlowIdx(0), CLIENT, ConnId(77));
    collector.sample(ms(1_100), FlowIdx(0), CLIENT, &client_info(500));
    let report = collector.report();
    assert_eq!(report.figure("flow0", None, "received_bytes"), Some(1_000_500.0));
    let last = *points(&report, Metric::Goodput, true)[0].last().unwrap();
    assert!((last.1 - 500.0 * 80.0).abs() < 1.0, "{last:?}");
}

#[test]
fn subflows_are_told_apart_by_number_whatever_their_order() {
    let mut collector = download(Settings::default(), 1, 1);
    let mut info = client_info(2_000_000);
    info.subflows.reverse();
    collector.sample(ms(1_100), FlowIdx(0), CLIENT, &info);
    let report = collector.report();
    assert_eq!(report.figure("flow0", Some(0), "delivered_bytes"), Some(1_500_000.0));
    assert_eq!(report.figure("flow0", Some(1), "delivered_bytes"), Some(500_000.0));
}

#[test]
fn records_give_rtt_quantiles_reasons_and_drops() {
    let mut collector = download(Settings::default(), 1, 1);
    let mut record = |subflow, what| {
        let (at, conn) = (ms(1_000), Some(ConnId(0)));
        collector.record(SERVER, &Record::new(at, conn, subflow, what));
    };
    for i in 1..=100 {
        let sample = Duration::from_millis(i);
        record(Some(SubflowId(0)), What::Rtt { sample, srtt: sample, rto: sample });
    }
    for id in [SubflowId(0), SubflowId(1)] {
        record(Some(id), What::Subflow(SubflowChange::Established));
    }
    let eligible = [SubflowId(0), SubflowId(1)].into_iter().collect();
    let chosen = SubflowSet::only(SubflowId(0));
    record(None, What::Decision { dsn: Dsn(1), eligible, chosen, reason: Reason::LowestRtt });
    record(None, What::Dropped { reason: tabane_engine::record::DropReason::Paws });
    let report = collector.report();
    let p50 = report.figure("flow0", Some(0), "rtt_p50_s").unwrap();
    assert!((p50 - 0.05).abs() < 0.001, "{p50}");
    assert_eq!(report.figure("flow0", Some(0), "rtt_max_s"), Some(0.1));
    assert_eq!(report.figure("flow0", Some(1), "idle_slower_decisions"), Some(1.0));
    assert_eq!(report.figure("", None, "dropped_paws_segments"), Some(1.0));
    assert_eq!(
        report.reasons,
        [
            "flow0: wifi: carried 1 of 1 pieces (100.0 %)",
            "flow0: lte: carried 0 of 1 pieces (0.0 %); not, as another had the smaller RTT (once)"
        ]
    );
}
