//! What every row of every policy table must keep, whatever it decides: never pick without space,
//! never starve, a window of at least one segment, the same answers to the same questions.

mod adding;

use proptest::prelude::*;
use std::collections::BTreeMap;
use tabane_engine::congestion::{self, Ack, CcState, Congestion, CongestionController};
use tabane_engine::congestion::{CongestionKind, Start};
use tabane_engine::egress::{self, Outgoing};
use tabane_engine::policy::{self, Entry, Params, Spec};
use tabane_engine::scheduler::{self, Blocked, Reason, Scheduler, Work};
use tabane_engine::seq::Dsn;
use tabane_engine::time::{self, Duration, Instant};
use tabane_engine::view::{
    self, PathId, PathView, RecoveryPhase, SubflowId, SubflowSet, SubflowView,
};

/// Every row with its defaults, given and not given, and `more`.
fn specs<F: ?Sized>(table: &[Entry<F>], more: &[&str]) -> Vec<Spec> {
    let mut specs: Vec<Spec> = more.iter().map(|s| s.parse().expect("a spec")).collect();
    for row in table {
        specs.push(Spec::named(row.name));
        let given = row.params.iter().map(|p| (p.name.to_owned(), p.default));
        let params = Params::from(given.collect::<BTreeMap<_, _>>());
        specs.push(Spec { name: row.name.to_owned(), params });
        specs.extend(row.aliases.iter().map(|alias| Spec::named(alias)));
    }
    specs
}

fn scheduler_specs() -> Vec<Spec> {
    let more = ["roundrobin:cwnd_limited=0", "roundrobin:num_segments=3"];
    let own = specs(scheduler::ALL, &more);
    own.into_iter().chain(specs(adding::scheduler::ROWS, &[])).collect()
}

/// Of the engine's table, or of the document that says how to add to it.
fn build_scheduler(spec: &Spec) -> Box<dyn Scheduler> {
    adding::register();
    scheduler::build(spec).expect("a row")
}

/// As [`build_scheduler`].
fn build_controller(spec: &Spec, start: Start) -> Box<dyn CongestionController> {
    adding::register();
    congestion::build(spec, start).expect("a row")
}

fn congestion_specs() -> Vec<Spec> {
    let more = [
        "cubic:hystart=0",
        "cubic:beta=0.5,c=4",
        "highspeed:table=1,per_ack=1",
        "ghstcp:variant=1,dec=0",
        "wvegas:drain=0,total=40",
    ];
    let own = specs(congestion::ALL, &more);
    own.into_iter().chain(specs(adding::congestion::ROWS, &["gentle:keep=0.9"])).collect()
}

fn any_phase() -> impl Strategy<Value = RecoveryPhase> {
    use RecoveryPhase::{Loss, Open, Recovery};
    prop_oneof![3 => Just(Open), 1 => Just(Recovery), 1 => Just(Loss)]
}

/// A snapshot that can exist: a usable subflow without space has something in flight.
fn any_view(id: u8) -> impl Strategy<Value = SubflowView> {
    let flags = (prop::bool::weighted(0.8), prop::bool::weighted(0.3), prop::bool::weighted(0.2));
    let sizes = (prop::sample::select(vec![0, 0, 500, 1448, 30_000_u64]), 1..60_u64, 0..60_u64);
    (flags, any_phase(), sizes, 0..5_u64).prop_map(move |(flags, phase, sizes, rtt)| {
        let (usable, backup, potentially_failed) = flags;
        let (sendable, cwnd, in_flight) = sizes;
        let sendable = if usable { sendable } else { 0 };
        let in_flight = if sendable == 0 { in_flight.max(1) } else { in_flight } * 1448;
        let srtt = Duration::from_millis(rtt * 20);
        SubflowView::default().with(|v| {
            v.id = SubflowId(id);
            v.path = PathId(id);
            v.usable = usable;
            v.backup = backup;
            v.potentially_failed = potentially_failed;
            v.phase = phase;
            v.sendable = sendable;
            v.cwnd = cwnd * 1448;
            v.ssthresh = if rtt == 2 { u64::MAX } else { 20 * 1448 };
            v.in_flight = in_flight;
            v.unacked = in_flight;
            v.oldest_sent = Instant(rtt * 10_000_000);
            v.mss = 1448;
            v.srtt = srtt;
            v.rttvar = srtt / 4;
            v.latest_rtt = srtt;
            v.min_rtt = srtt;
            v.max_rtt = srtt;
            v.pacing_rate = 1_000_000;
            v.delivery_rate = rtt * 100_000;
            v.loss_interval = sizes.1 * 10_000;
        })
    })
}

/// One to six subflows in any order of ids, at a time, with data that some have carried.
fn any_question() -> impl Strategy<Value = (Vec<SubflowView>, u64, bool, u64)> {
    let views = (1..7_usize, any::<bool>()).prop_flat_map(|(n, reversed)| {
        let ids: Vec<u8> = (0..n as u8).map(|i| if reversed { 40 - i } else { i }).collect();
        ids.into_iter().map(|id| any_view(id).boxed()).collect::<Vec<_>>()
    });
    (views, 0..400_u64, any::<bool>(), any::<u64>())
}

fn carriers(views: &[SubflowView], bits: u64) -> SubflowSet {
    views.iter().map(|v| v.id).filter(|id| bits >> id.0 & 1 == 1).collect()
}

fn could(views: &[SubflowView]) -> SubflowSet {
    views.iter().filter(|v| v.usable && v.sendable > 0).map(|v| v.id).collect()
}

fn is_hold(reason: Reason) -> bool {
    use Reason::{
        AwaitsTurn, BackupHeld, NoSpace, PotentiallyFailedHeld, WaitingIsFaster, WouldBlock,
    };
    matches!(reason, NoSpace | BackupHeld | PotentiallyFailedHeld)
        || matches!(reason, AwaitsTurn(_) | WaitingIsFaster { .. } | WouldBlock { .. })
}

/// Asks everything a connection asks. The answers in order.
fn ask(
    scheduler: &mut dyn Scheduler,
    (views, ms, flag, bits): &(Vec<SubflowView>, u64, bool, u64),
) -> Result<(SubflowSet, SubflowSet, Reason), TestCaseError> {
    let carried = if *flag { carriers(views, *bits) } else { SubflowSet::NONE };
    let work = Work::default().with(|v| {
        v.now = Instant(ms * 1_000_000);
        v.dsn = Dsn(1);
        v.len = 1448;
        v.unsent = bits % 1_000_000 + 1448;
        v.carried = carried;
        v.reinjection = *flag;
        v.window_space = bits % 300_000;
        v.window = bits % 300_000 + 50_000;
    });
    let replicas = scheduler.replicas(views);
    let usable: SubflowSet = views.iter().filter(|v| v.usable).map(|v| v.id).collect();
    prop_assert!(replicas.minus(usable).is_empty(), "replicas on {replicas:?}");
    let chosen = scheduler.select(&work, views);
    let reason = scheduler.reason();
    prop_assert!(chosen.minus(could(views)).is_empty(), "no room: {chosen:?}");
    let in_flight: u64 = views.iter().filter(|v| v.usable).map(|v| v.in_flight).sum();
    let starves = chosen.is_empty() && !could(views).is_empty() && in_flight == 0;
    prop_assert!(!starves, "holds with nothing in flight");
    prop_assert_eq!(is_hold(reason), chosen.is_empty(), "{:?}", reason);
    if chosen.is_empty() {
        prop_assert_eq!(reason == Reason::NoSpace, could(views).is_empty(), "{:?}", reason);
    }
    let fast = views[(bits % views.len() as u64) as usize].id;
    let blocked = Blocked::default().with(|v| {
        v.now = work.now;
        v.dsn = Dsn(1);
        v.carried = carried;
        v.fast = fast;
        v.window_full = bits & 64 == 0;
    });
    let answer = scheduler.opportunistic_retransmission(&blocked, views);
    prop_assert!(answer.resend.minus(could(views)).is_empty(), "{answer:?}");
    prop_assert!(answer.resend.intersection(carried).is_empty(), "{answer:?}");
    prop_assert!(answer.penalise.minus(carried).is_empty(), "{answer:?}");
    prop_assert!(!answer.penalise.contains(fast), "{answer:?}");
    Ok((replicas, chosen.union(answer.resend), reason))
}

#[derive(Clone, Debug)]
enum Event {
    Ack { segments: u64, sacked: u64, ms: u64, rtt: u64, limited: bool, phase: RecoveryPhase },
    Signal(CongestionKind),
    Sent,
    Spurious,
    Idle,
    Penalty,
    Mss(u64),
}

fn any_event() -> impl Strategy<Value = Event> {
    let ack = (0..4_u64, 0..3_u64, 0..40_u64, 0..60_u64, prop::bool::weighted(0.9), any_phase());
    let ack = ack.prop_map(|(segments, sacked, ms, rtt, limited, phase)| Event::Ack {
        segments,
        sacked,
        ms,
        rtt,
        limited,
        phase,
    });
    let signal =
        prop::sample::select(vec![CongestionKind::Loss, CongestionKind::Rto, CongestionKind::Ecn]);
    prop_oneof![
        40 => ack,
        2 => signal.prop_map(Event::Signal),
        4 => Just(Event::Sent),
        1 => Just(Event::Spurious),
        1 => Just(Event::Idle),
        1 => Just(Event::Penalty),
        1 => prop::sample::select(vec![536, 1200, 1448, 8960]).prop_map(Event::Mss),
    ]
}

/// A controller with what its subflow would know.
struct Driven {
    controller: Box<dyn CongestionController>,
    /// Losses that it takes for random change nothing.
    spares: bool,
    now: Instant,
    una: u64,
    nxt: u64,
    mss: u64,
}

impl Driven {
    fn new(spec: &Spec, start: Start) -> Self {
        let controller = build_controller(spec, start);
        let spares = ["cubicq", "cubicd"].contains(&spec.name.as_str());
        Self { controller, spares, now: Instant::ZERO, una: 1, nxt: 1, mss: start.mss }
    }

    fn ack(&mut self, event: &Event) -> Option<Ack> {
        let Event::Ack { segments, sacked, ms, rtt, limited, phase } = *event else { return None };
        self.now += Duration::from_millis(ms);
        self.nxt = self.nxt.max(self.una + self.controller.state().cwnd);
        let acked = (segments * self.mss).min(self.nxt - self.una);
        self.una += acked;
        let rtt = Duration::from_millis(20 + rtt);
        Some(Ack::default().with(|v| {
            v.now = self.now;
            v.subflow = SubflowId(0);
            v.acked = acked;
            v.delivered = acked + sacked * self.mss;
            v.rtt = (acked > 0).then_some(rtt);
            v.srtt = rtt;
            v.min_rtt = Duration::from_millis(20);
            v.prior_in_flight = self.nxt - self.una + acked;
            v.in_flight = self.nxt - self.una;
            v.mss = self.mss;
            v.cwnd_limited = limited;
            v.phase = phase;
            v.snd_una = self.una;
            v.snd_nxt = self.nxt;
            v.delivery_rate = (ms > 0).then_some((acked * 50, !limited));
            v.lost = (sacked * self.mss) / 2;
        }))
    }

    /// Tells the controller; checks what must hold.
    fn step(&mut self, event: &Event) -> Result<CcState, TestCaseError> {
        let before = self.controller.state();
        if let Some(ack) = self.ack(event) {
            self.controller.on_ack(&ack, &[]);
            let after = self.controller.state();
            // Who paces need not keep the window for what it lets go.
            let grown = after.cwnd > before.cwnd && after.pacing_rate.is_none();
            prop_assert!(!grown || ack.cwnd_limited, "grows while not limited by the window");
            prop_assert!(
                !grown || ack.phase != RecoveryPhase::Recovery || self.spares,
                "grows in recovery"
            );
        }
        match event {
            Event::Signal(kind) => self.signal(*kind)?,
            Event::Sent => {
                self.nxt += self.mss;
                self.controller.on_sent(self.now, self.mss, self.nxt - self.una);
            }
            Event::Spurious => {
                self.controller.on_spurious(self.now);
                prop_assert!(self.controller.state().cwnd >= before.cwnd, "undo lowers cwnd");
            }
            Event::Idle => self.controller.on_idle_restart(self.now, 10 * self.mss),
            Event::Penalty => {
                self.controller.on_penalty();
                prop_assert!(self.controller.state().cwnd <= before.cwnd, "penalty raises cwnd");
            }
            Event::Mss(mss) => {
                self.mss = *mss;
                self.controller.on_mss(*mss);
            }
            Event::Ack { .. } => {}
        }
        let state = self.controller.state();
        prop_assert!(state.cwnd >= self.mss, "cwnd {} below a segment after {event:?}", state.cwnd);
        prop_assert!(state.cwnd < 1 << 40, "cwnd {} after {event:?}", state.cwnd);
        prop_assert!(state.ssthresh >= 2 * 536, "ssthresh {} after {event:?}", state.ssthresh);
        Ok(state)
    }

    fn signal(&mut self, kind: CongestionKind) -> Result<(), TestCaseError> {
        let before = self.controller.state();
        let event = Congestion::new(self.now, kind, self.mss).with(|c| {
            c.in_flight = self.nxt - self.una;
            c.snd_nxt = self.nxt;
        });
        self.controller.on_congestion(&event, &[]);
        let after = self.controller.state();
        prop_assert!(after.cwnd <= before.cwnd, "{kind:?} raises cwnd");
        let spared = self.spares && kind == CongestionKind::Loss;
        prop_assert!(after.ssthresh < u64::MAX || spared, "{kind:?} leaves ssthresh unset");
        Ok(())
    }
}

proptest! {
    #[test]
    fn schedulers_pick_what_has_space_and_do_not_starve(
        questions in prop::collection::vec(any_question(), 1..30),
    ) {
        for spec in scheduler_specs() {
            let mut first = build_scheduler(&spec);
            let mut second = build_scheduler(&spec);
            for question in &questions {
                let answer = ask(&mut *first, question)?;
                let again = ask(&mut *second, question)?;
                prop_assert_eq!(answer, again, "{} is not deterministic", spec);
            }
        }
    }

    /// With nothing to forbid it: the only sound, active subflow has space and has not carried
    /// the data.
    #[test]
    fn schedulers_use_the_only_active_subflow(view in any_view(3)) {
        let view = view.with(|v| {
v.usable = true;
v.backup = false;
v.potentially_failed = false;
v.sendable = 1448;
});
        for spec in scheduler_specs() {
            let mut scheduler = build_scheduler(&spec);
            for _ in 0..5 {
                let question = (vec![view], 0, false, 0);
                let (replicas, chosen, _) = ask(&mut *scheduler, &question)?;
                prop_assert!(chosen.union(replicas).contains(SubflowId(3)), "{} holds", spec);
            }
        }
    }

    #[test]
    fn windows_stay_within_bounds(
        events in prop::collection::vec(any_event(), 1..300),
        mss in prop::sample::select(vec![536, 1448, 8960_u64]),
        ssthresh in prop::sample::select(vec![u64::MAX, 30_000]),
    ) {
        let start = Start::new(mss, 10 * mss, ssthresh);
        for spec in congestion_specs() {
            let (mut first, mut second) = (Driven::new(&spec, start), Driven::new(&spec, start));
            for event in &events {
                let state = first.step(event)?;
                prop_assert_eq!(state, second.step(event)?, "{} is not deterministic", spec);
            }
        }
    }

    #[test]
    fn egress_names_paths_that_exist(
        up in prop::collection::vec(any::<bool>(), 1..6),
        own in 0..6_u8,
        flags in any::<(bool, bool)>(),
    ) {
        let own = PathId(own % up.len() as u8);
        let view = |(i, up): (usize, &bool)| {
            let rtt = Duration::from_millis(i as u64 * 10);
            PathView::default().with(|v| {
v.id = PathId(i as u8);
v.up = *up;
v.rtt = rtt;
v.heard = Instant::ZERO;
})
        };
        let paths: Vec<PathView> = up.iter().enumerate().map(view).collect();
        let (pure_ack, own_required) = flags;
        let segment = Outgoing::default().with(|v| {
v.now = Instant::ZERO;
v.subflow = SubflowId(0);
v.own = own;
v.handshake = false;
v.pure_ack = pure_ack;
v.own_required = own_required;
v.len = 40;
});
        for spec in specs(egress::ALL, &[]) {
            let mut policy = egress::build(&spec).expect("a row");
            let chosen = policy.route(&segment, &paths);
            prop_assert!(chosen.iter().all(|p| paths.iter().any(|v| v.id == p)), "{}", spec);
            prop_assert!(!own_required || chosen.contains(own), "{} drops its own path", spec);
            prop_assert!(!chosen.is_empty(), "{} sends nowhere", spec);
        }
    }
}

#[test]
fn tables_have_no_name_twice() {
    fn names<F: ?Sized>(table: &[Entry<F>]) -> Vec<&'static str> {
        table
            .iter()
            .flat_map(|row| std::iter::once(&row.name).chain(row.aliases))
            .copied()
            .collect()
    }
    for mut names in [names(scheduler::ALL), names(congestion::ALL), names(egress::ALL)] {
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        assert!(count > 0);
    }
}
