//! Every kind of record as a line that parses, and the exact text of some.

use super::*;
use crate::observe::{FlowLayout, HostLayout, PathLayout};
use tabane_engine::congestion::{CcPhase, CongestionKind};
use tabane_engine::record::{FallbackReason, ReinjectReason};
use tabane_engine::seq::{Dsn, Ssn};
use tabane_engine::view::{PathId, PathSet, RecoveryPhase, SubflowId, SubflowSet};

fn layout() -> Layout {
    let path = |id, name: &str| PathLayout {
        id: PathId(id),
        name: name.to_owned(),
        addresses: Vec::new(),
    };
    let host = |name: &str| HostLayout {
        name: name.to_owned(),
        paths: vec![path(0, "wifi"), path(1, "lte")],
    };
    let flow = FlowLayout {
        name: "bulk \"1\"".to_owned(),
        client: HostIdx(0),
        server: HostIdx(1),
        download: true,
    };
    Layout { hosts: vec![host("client"), host("server")], flows: vec![flow], ..Layout::default() }
}

fn lines(whats: Vec<What>) -> Vec<String> {
    let info = RunInfo { scenario: "s".into(), seed: 7, version: "0".into(), ..RunInfo::default() };
    let mut lines = RecordLines::new(Vec::new(), info);
    lines.begin(&layout());
    lines.opened(Instant(0), FlowIdx(0), HostIdx(1), ConnId(4));
    for what in whats {
        let (conn, subflow) = (Some(ConnId(4)), Some(SubflowId(1)));
        lines.record(HostIdx(1), &Record::new(Instant(1_000_000_001), conn, subflow, what));
    }
    lines.changed(Instant(2_000_000_000), "wifi down");
    lines.completed(Instant(3_000_000_000), FlowIdx(0));
    let text = String::from_utf8(lines.finish().unwrap()).unwrap();
    text.lines().map(str::to_owned).collect()
}

fn every_kind() -> Vec<What> {
    let both: SubflowSet = [SubflowId(0), SubflowId(1)].into_iter().collect();
    let paths: PathSet = [PathId(0), PathId(1)].into_iter().collect();
    let gain = Duration::from_millis(14);
    let reason = Reason::WaitingIsFaster { for_subflow: SubflowId(0), gain };
    vec![
        What::Sent { paths, ssn: Ssn(1), len: 1448, dsn: Some(Dsn(1)), retransmission: true },
        What::Received { path: PathId(1), ssn: Ssn(9), len: 0, duplicate: false },
        What::Dropped { reason: DropReason::Limit("syn_backlog") },
        What::Window { cwnd: 14480, ssthresh: u64::MAX, phase: CcPhase::Other(3), in_flight: 0 },
        What::Rtt { sample: gain, srtt: gain, rto: gain },
        What::Congestion(CongestionKind::Ecn),
        What::Recovery(RecoveryPhase::Recovery),
        What::Undone,
        What::TailLossProbe,
        What::Timeout { backoff: 2 },
        What::ReceiveWindow { window: 65536, buffer: 131072 },
        What::SendWindow { window: 65536, outstanding: 10 },
        What::Decision { dsn: Dsn(5), eligible: both, chosen: SubflowSet::NONE, reason },
        What::PolicyRefused { policy: "scheduler" },
        What::Reinjected { dsn: Dsn(5), len: 10, why: ReinjectReason::Stale },
        What::Subflow(SubflowChange::Backup(true)),
        What::Subflow(SubflowChange::Closed(CloseReason::Reset(Some(3)))),
        What::GapFilled { delay: Duration::from_millis(3) },
        What::Fallback(FallbackReason::Checksum),
        What::Connection(ConnectionChange::Established(true)),
        What::Connection(ConnectionChange::Closed(CloseReason::Finished)),
    ]
}

#[test]
fn every_line_is_one_object_with_the_common_keys() {
    let lines = lines(every_kind());
    assert_eq!(lines.len(), every_kind().len() + 3);
    for line in &lines {
        let object: serde_json::Value = serde_json::from_str(line).unwrap();
        for key in ["t", "host", "flow", "conn", "subflow", "event"] {
            assert!(object.get(key).is_some(), "{key} in {line}");
        }
        let keys = line.matches("\":").count();
        assert_eq!(object.as_object().unwrap().len(), keys, "a key twice in {line}");
    }
}

#[test]
fn events_of_different_kinds_have_different_names() {
    let mut names: Vec<String> = lines(every_kind())
        .iter()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["event"].to_string())
        .collect();
    names.dedup();
    let count = names.len();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), count);
}

#[test]
fn lines_are_spelled_like_this() {
    let lines = lines(every_kind());
    assert_eq!(
        lines[0],
        concat!(
            r#"{"t":0.000000000,"host":null,"flow":null,"conn":null,"subflow":null,"#,
            r#""event":"run","scenario":"s","seed":7,"version":"0"}"#
        )
    );
    assert_eq!(
        lines[1],
        concat!(
            r#"{"t":1.000000001,"host":"server","flow":"bulk \"1\"","conn":4,"subflow":1,"#,
            r#""event":"sent","via":"wifi+lte","ssn":1,"len":1448,"dsn":1,"retransmission":true}"#
        )
    );
    assert!(lines[4].ends_with(
        r#""event":"window","cwnd":14480,"ssthresh":null,"phase":"phase3","in_flight":0}"#
    ));
    assert!(lines[13].ends_with(concat!(
        r#""dsn":5,"eligible":"0+1","chosen":"","reason":"waiting_is_faster","#,
        r#""waits_for":0,"gain_s":0.014000000}"#
    )));
}

#[test]
fn a_full_disk_is_reported_once_at_the_end() {
    struct Full;
    impl io::Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut lines = RecordLines::new(Full, RunInfo::default());
    lines.begin(&layout());
    lines.changed(Instant(1), "x");
    assert_eq!(lines.finish().map(|_| ()).unwrap_err().kind(), io::ErrorKind::StorageFull);
}
