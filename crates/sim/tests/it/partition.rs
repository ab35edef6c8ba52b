//! Networks that share nothing run one after the other where nobody watches them all: with the
//! results of a run in which they take turns.
use std::collections::BTreeSet;
use std::fmt::Write as _;
use tabane_engine::Instant;
use tabane_sim::observe::{FlowIdx, Observer, Silent};
use tabane_sim::result::RunResult;
use tabane_sim::scenario::Scenario;
use tabane_sim::{Plan, World};

/// How the networks of a scenario differ.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Kind {
    /// In size and loss, all flows end.
    Various,
    /// In nothing: what happens in one happens in all at the same moment.
    Alike,
    /// Some flows never end.
    Endless,
}

/// Forty networks: pairs of hosts with a path or two, some behind a server that they share.
fn scenario(kind: Kind) -> Plan {
    let mut text = "duration = \"4s\"\nseed = 3\n".to_owned();
    for n in 0..40 {
        let own = if kind == Kind::Alike { 0 } else { n };
        let loss = if kind == Kind::Alike { 0.0 } else { 0.01 };
        let server = if own % 5 == 4 { n - 1 } else { n };
        for path in 0..=own % 2 {
            write!(
                text,
                "[link.l{n}-{path}]\nrate = \"{}Mbps\"\ndelay = \"{}ms\"\nloss = {loss}\n\
                 [path.p{n}-{path}]\nfrom = \"c{n}\"\nto = \"s{server}\"\n\
                 links = [\"l{n}-{path}\"]\n",
                2 + own % 3,
                5 + own + 7 * path,
            )
            .unwrap();
        }
        let what = match own % 4 {
            _ if kind == Kind::Endless && own % 7 == 6 => "bulk = \"unlimited\"".to_owned(),
            3 => "request = { size = \"20KB\", count = 5 }".to_owned(),
            _ => format!("bulk = \"{}KB\"", 100 + 13 * own),
        };
        let refuse = if own == 11 { "refuse = true\n" } else { "" };
        write!(
            text,
            "[[flow]]\nfrom = \"c{n}\"\nto = \"s{server}\"\nstart = \"{}ms\"\n{what}\n{refuse}",
            own * 3,
        )
        .unwrap();
    }
    let scenario = Scenario::parse("apart.toml", &text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    scenario.compile().unwrap_or_else(|fault| panic!("{fault:?}"))
}

/// Event by event in the order of time, as somebody who moves a world by hand does it.
fn in_turns(plan: &Plan) -> RunResult {
    let mut silent = Silent;
    let mut world = World::new(plan, &mut silent).unwrap();
    world.begin();
    let end = world.end();
    while world.advance(end, u32::MAX).unwrap() {}
    world.finish()
}

#[test]
fn networks_apart_have_the_results_of_networks_in_turns() {
    for kind in [Kind::Various, Kind::Alike, Kind::Endless] {
        let plan = scenario(kind);
        let (apart, turns) = (tabane_sim::run(&plan, &mut Silent).unwrap(), in_turns(&plan));
        let done = turns.flows.iter().filter(|flow| flow.completed_s.is_some()).count();
        assert_eq!(done < 39, kind == Kind::Endless, "{kind:?}: {done} flows are done");
        for (one, other) in apart.flows.iter().zip(&turns.flows) {
            assert_eq!(one, other, "{kind:?}");
        }
        for (one, other) in apart.links.iter().zip(&turns.links) {
            assert_eq!(one, other, "{kind:?}");
        }
        assert_eq!(apart, turns, "{kind:?}");
    }
}

#[derive(Default)]
struct Seen {
    completed: BTreeSet<FlowIdx>,
    shown: Vec<Instant>,
    stops_after: Option<usize>,
}

impl Observer for Seen {
    fn completed(&mut self, _: Instant, flow: FlowIdx) {
        assert!(self.completed.insert(flow), "{flow:?} is done twice");
    }
    fn progress(&mut self, now: Instant, _: Instant) {
        self.shown.push(now);
    }
    fn stops(&self) -> bool {
        self.stops_after.is_some_and(|most| self.shown.len() > most)
    }
}

#[test]
fn observers_see_it_go_on_and_can_break_it_off() {
    let plan = scenario(Kind::Various);
    let mut seen = Seen::default();
    let result = tabane_sim::run(&plan, &mut seen).unwrap();
    let done = result.flows.iter().filter(|flow| flow.completed_s.is_some()).count();
    assert_eq!(seen.completed.len(), done);
    assert!(seen.shown.is_sorted());
    assert!((100..2000).contains(&seen.shown.len()), "shown {} times", seen.shown.len());
    let mut seen = Seen { stops_after: Some(30), ..Seen::default() };
    let stopped = tabane_sim::run(&plan, &mut seen);
    assert!(stopped.is_err_and(|error| error.to_string().starts_with("broken off at")));
    assert_eq!(seen.shown.len(), 31);
}
