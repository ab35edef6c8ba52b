//! The rules of each scheduler, case by case.

use tabane_engine::scheduler::{self, Blocked, Reason, Scheduler, Work};
use tabane_engine::seq::Dsn;
use tabane_engine::time::{Duration, Instant};
use tabane_engine::view::{PathId, RecoveryPhase, SubflowId, SubflowSet, SubflowView};

fn view(id: u8, srtt_ms: u64) -> SubflowView {
    SubflowView::default().with(|v| {
        v.id = SubflowId(id);
        v.path = PathId(id);
        v.usable = true;
        v.backup = false;
        v.potentially_failed = false;
        v.phase = RecoveryPhase::Open;
        v.sendable = 1448;
        v.cwnd = 14480;
        v.ssthresh = u64::MAX;
        v.in_flight = 13032;
        v.unacked = 13032;
        v.oldest_sent = Instant::FAR_FUTURE;
        v.mss = 1448;
        v.srtt = Duration::from_millis(srtt_ms);
        v.rttvar = Duration::from_millis(1);
        v.latest_rtt = Duration::from_millis(srtt_ms);
        v.min_rtt = Duration::from_millis(srtt_ms);
        v.max_rtt = Duration::from_millis(srtt_ms);
        v.pacing_rate = 1_000_000;
        v.delivery_rate = 0;
        v.loss_interval = 0;
    })
}

fn work() -> Work {
    Work::default().with(|v| {
        v.now = Instant::ZERO;
        v.dsn = Dsn(1);
        v.len = 1448;
        v.unsent = 100_000;
        v.carried = SubflowSet::NONE;
        v.reinjection = false;
        v.window_space = 100_000;
        v.window = 200_000;
    })
}

fn make(spec: &str) -> Box<dyn Scheduler> {
    scheduler::build(&spec.parse().expect("a spec")).expect("a row")
}

fn set(ids: &[u8]) -> SubflowSet {
    ids.iter().map(|&id| SubflowId(id)).collect()
}

fn select(views: &[SubflowView], carried: &[u8]) -> (SubflowSet, Reason) {
    let mut scheduler = make("minrtt");
    let chosen = scheduler.select(&work().with(|v| v.carried = set(carried)), views);
    (chosen, scheduler.reason())
}

#[test]
fn lowest_rtt_wins_and_ties_go_to_the_first() {
    let views = [view(3, 20), view(1, 10), view(2, 10)];
    assert_eq!(select(&views, &[]), (set(&[1]), Reason::LowestRtt));
    assert_eq!(select(&[view(5, 7)], &[]), (set(&[5]), Reason::OnlyChoice));
}

#[test]
fn a_full_active_subflow_still_keeps_backups_out() {
    let mut views = [view(0, 10), view(1, 5)];
    views[0].sendable = 0;
    views[1].backup = true;
    assert_eq!(select(&views, &[]), (set(&[]), Reason::BackupHeld));
    views[0].usable = false;
    assert_eq!(select(&views, &[]), (set(&[1]), Reason::OnlyChoice));
}

#[test]
fn a_backup_carries_what_every_active_has_carried() {
    let mut views = [view(0, 10), view(1, 50)];
    views[1].backup = true;
    assert_eq!(select(&views, &[0]).0, set(&[1]));
    views[1].sendable = 0;
    assert_eq!(select(&views, &[0]).0, set(&[]), "the unused backup will carry it");
}

#[test]
fn what_all_have_carried_may_go_again() {
    let views = [view(0, 10), view(1, 5)];
    assert_eq!(select(&views, &[0, 1]).0, set(&[1]));
    assert_eq!(select(&views, &[1]).0, set(&[0]), "unused before lower RTT");
}

#[test]
fn potentially_failed_subflows_are_used_only_when_nothing_is_sound() {
    let mut views = [view(0, 10), view(1, 50)];
    views[0].potentially_failed = true;
    assert_eq!(select(&views, &[]).0, set(&[1]));
    views[1].sendable = 0;
    assert_eq!(select(&views, &[]), (set(&[]), Reason::PotentiallyFailedHeld));
    views[1].potentially_failed = true;
    assert_eq!(select(&views, &[]).0, set(&[0]));
    views[0].sendable = 0;
    assert_eq!(select(&views, &[]), (set(&[]), Reason::NoSpace));
}

#[test]
fn a_sound_backup_is_preferred_to_a_potentially_failed_active() {
    let mut views = [view(0, 10), view(1, 50)];
    views[0].potentially_failed = true;
    views[1].backup = true;
    assert_eq!(select(&views, &[]).0, set(&[1]));
}

fn blocked(at_ms: u64, carried: &[u8], window_full: bool) -> Blocked {
    let now = Instant(at_ms * 1_000_000);
    Blocked::default().with(|v| {
        v.now = now;
        v.dsn = Dsn(1);
        v.carried = set(carried);
        v.fast = SubflowId(0);
        v.window_full = window_full;
    })
}

#[test]
fn the_first_carrier_is_penalised_once_per_round_trip_of_the_fast_one() {
    let mut s = make("minrtt");
    let views = [view(0, 10), view(1, 30), view(2, 60)];
    assert_eq!(
        s.opportunistic_retransmission(&blocked(0, &[1, 2], true), &views).penalise,
        set(&[1])
    );
    assert_eq!(
        s.opportunistic_retransmission(&blocked(9, &[1, 2], true), &views).penalise,
        set(&[])
    );
    assert_eq!(
        s.opportunistic_retransmission(&blocked(10, &[1, 2], true), &views).penalise,
        set(&[1])
    );
    assert_eq!(
        s.opportunistic_retransmission(&blocked(30, &[1, 2], false), &views).penalise,
        set(&[])
    );
}

#[test]
fn a_carrier_that_is_faster_or_repairing_is_not_penalised() {
    let mut s = make("minrtt");
    let mut views = [view(0, 10), view(1, 5), view(2, 60)];
    assert_eq!(
        s.opportunistic_retransmission(&blocked(0, &[1, 2], true), &views).penalise,
        set(&[])
    );
    views[1] = view(1, 30).with(|v| v.phase = RecoveryPhase::Recovery);
    assert_eq!(
        s.opportunistic_retransmission(&blocked(0, &[1, 2], true), &views).penalise,
        set(&[])
    );
    views[1].phase = RecoveryPhase::Open;
    let found = s.opportunistic_retransmission(&blocked(0, &[1, 2], true), &views).penalise;
    assert_eq!(found, set(&[1]), "a refusal does not start the gate");
}

#[test]
fn resent_when_carriers_are_four_times_slower_or_nearly_stopped() {
    let mut s = make("minrtt");
    let mut resend = |views: &[SubflowView], carried: &[u8]| {
        s.opportunistic_retransmission(&blocked(0, carried, true), views).resend == set(&[0])
    };
    let mut views = [view(0, 10), view(1, 41), view(2, 41)];
    assert!(resend(&views, &[1, 2]));
    views[2].srtt = Duration::from_millis(40);
    assert!(!resend(&views, &[1, 2]), "4 x 10 is not less than 40");
    views[2].cwnd = 4 * 1448;
    assert!(resend(&views, &[1, 2]));
    assert!(!resend(&views, &[0, 1]), "the fast one has carried it");
    views[0].sendable = 0;
    assert!(!resend(&views, &[1, 2]));
    assert!(!resend(&[view(0, 10)], &[]), "one subflow only");
}

#[test]
fn every_active_subflow_replicates_even_without_space() {
    let mut s = make("redundant");
    let mut views = [view(0, 10), view(1, 20), view(2, 5)];
    views[1].sendable = 0;
    views[2].backup = true;
    let replicas = s.replicas(&views);
    assert_eq!(replicas, [SubflowId(0), SubflowId(1)].into_iter().collect());
    assert_eq!(s.reason(), Reason::Replicated);
}

#[test]
fn backups_alone_share_by_rtt_without_copies() {
    let mut s = make("redundant");
    let mut views = [view(0, 10), view(1, 20), view(2, 5)];
    views[0].usable = false;
    views[1].backup = true;
    views[2].backup = true;
    assert!(s.replicas(&views).is_empty());
    assert_eq!(s.select(&work(), &views), SubflowSet::only(SubflowId(2)));
    assert_eq!(s.reason(), Reason::LowestRtt);
}

#[test]
fn a_potentially_failed_subflow_gets_no_copies_while_another_is_sound() {
    let mut s = make("redundant");
    let mut views = [view(0, 10), view(1, 20)];
    views[0].potentially_failed = true;
    assert_eq!(s.replicas(&views), SubflowSet::only(SubflowId(1)));
    views[1].potentially_failed = true;
    assert_eq!(s.replicas(&views).len(), 2);
}

fn turns(s: &mut dyn Scheduler, views: &[SubflowView], n: usize) -> Vec<i32> {
    let pick = |_| s.select(&work(), views).first().map_or(-1, |id| i32::from(id.0));
    (0..n).map(pick).collect()
}

#[test]
fn each_in_turn_the_last_first() {
    let views = [view(0, 10), view(1, 20), view(2, 30)];
    assert_eq!(turns(&mut *make("roundrobin"), &views, 7), [2, 1, 0, 2, 1, 0, 2]);
    let mut two = make("roundrobin:num_segments=2");
    assert_eq!(turns(&mut *two, &views, 7), [2, 2, 1, 1, 0, 0, 2]);
    assert_eq!(two.reason(), Reason::Turn);
}

#[test]
fn full_ones_are_passed_over_unless_strict() {
    let mut views = [view(0, 10), view(1, 20)];
    views[1].sendable = 0;
    assert_eq!(turns(&mut *make("roundrobin"), &views, 3), [0, 0, 0]);
    let mut strict = make("roundrobin:cwnd_limited=0");
    assert_eq!(turns(&mut *strict, &views, 2), [-1, -1]);
    assert_eq!(strict.reason(), Reason::AwaitsTurn(SubflowId(1)));
    views[1].sendable = 1448;
    assert_eq!(turns(&mut *strict, &views, 3), [1, 0, 1]);
    views[0].sendable = 0;
    views[0].in_flight = 0;
    assert_eq!(turns(&mut *strict, &views, 2), [1, 1], "nothing would ever free it");
}

#[test]
fn backups_wait_and_reinjections_avoid_carriers() {
    let mut s = make("roundrobin");
    let mut views = [view(0, 10), view(1, 20), view(2, 30)];
    views[2].backup = true;
    assert_eq!(turns(&mut *s, &views, 2), [1, 0]);
    let again = work().with(|v| {
        v.reinjection = true;
        v.carried = SubflowSet::only(SubflowId(1));
    });
    assert_eq!(s.select(&again, &views), SubflowSet::only(SubflowId(0)));
    views[0].sendable = 0;
    assert_eq!(s.select(&again, &views), SubflowSet::only(SubflowId(1)));
    views[1].sendable = 0;
    assert_eq!(s.select(&again, &views), SubflowSet::NONE);
    assert_eq!(s.reason(), Reason::BackupHeld);
    views[0].usable = false;
    views[1].usable = false;
    assert_eq!(turns(&mut *s, &views, 2), [2, 2]);
}

#[test]
fn parameters_out_of_range_are_refused() {
    for spec in [
        "roundrobin:num_segments=0",
        "roundrobin:num_segments=256",
        "rr:beta=1",
        "blest:lambda=1.4",
        "ecf:beta=-1",
        "necf:beta=2",
        "burst:burst=0",
        "daps:smooth=2",
        "ecf3:beta=0.25",
    ] {
        assert!(scheduler::build(&spec.parse().unwrap()).is_err(), "{spec}");
    }
}
