//! Roles by scenario: what is used, when, and why.

use super::*;
use proptest::prelude::*;

#[derive(Clone)]
struct Path {
    name: &'static str,
    role: Role,
    health: Health,
    spent: Option<&'static str>,
    full: [bool; 2],
    rate_bps: [u64; 2],
    cap_bps: [Option<u64>; 2],
}

fn path(name: &'static str, role: Role, rtt_ms: u64) -> Path {
    let health = Health {
        state: PathState::Up,
        age: Duration::ZERO,
        reason: "works".into(),
        rtt: Some(Duration::from_millis(rtt_ms)),
        rttvar: Duration::ZERO,
        loss: Some(0.0),
        mtu: 1440,
        failures: 0,
        far_full: false,
    };
    let (full, rate_bps, cap_bps) = ([false; 2], [0; 2], [None; 2]);
    Path { name, role, health, spent: None, full, rate_bps, cap_bps }
}

struct Bond {
    roles: Roles,
    now: Instant,
    paths: Vec<Path>,
}

impl Bond {
    fn new(paths: &[Path]) -> Self {
        Self { roles: Roles::default(), now: Instant::ZERO, paths: paths.to_vec() }
    }

    fn decide(&mut self) -> Vec<Decision> {
        let facts: Vec<_> = self
            .paths
            .iter()
            .map(|path| PathFacts {
                name: path.name,
                role: path.role,
                spent: path.spent,
                health: &path.health,
                full: path.full,
                rate_bps: path.rate_bps,
                cap_bps: path.cap_bps,
            })
            .collect();
        self.roles.decide(self.now, &facts)
    }

    /// Decides every 200 ms for so many seconds; the last decisions.
    fn run(&mut self, seconds: u64) -> Vec<Decision> {
        for _ in 0..seconds * 5 {
            self.now += Duration::from_millis(200);
            self.decide();
        }
        self.decide()
    }

    fn uses(&mut self, seconds: u64) -> Vec<Use> {
        self.run(seconds).iter().map(|decision| decision.using).collect()
    }

    fn down(&mut self, path: usize, down: bool) {
        let health = &mut self.paths[path].health;
        health.state = if down { PathState::Down } else { PathState::Up };
        health.reason = if down { "no answer for 0.9 s" } else { "works" }.into();
    }
}

use Use::{Active, Low, Unused};

fn household() -> Bond {
    Bond::new(&[
        path("dsl", Role::Primary, 20),
        path("cable", Role::Secondary, 25),
        path("lte", Role::Backup, 50),
        path("guest", Role::Never, 10),
    ])
}

#[test]
fn each_role_waits_for_its_turn() {
    let mut bond = household();
    let decisions = bond.run(1);
    let uses: Vec<_> = decisions.iter().map(|decision| decision.using).collect();
    assert_eq!(uses, [Active, Low, Low, Unused]);
    let reasons: Vec<_> = decisions.iter().map(|decision| decision.reason.as_str()).collect();
    assert_eq!(
        reasons,
        ["in use", "secondary: dsl suffices", "backup: dsl works", "never: not to be used"]
    );
    assert_eq!(decisions.iter().map(|d| d.standby).collect::<Vec<_>>(), [false, true, true, true]);
    // At once, and back at once.
    bond.down(0, true);
    let decisions = bond.run(0);
    assert_eq!(decisions[0].using, Unused);
    assert_eq!(decisions[0].reason, "no answer for 0.9 s");
    assert_eq!(decisions[1].using, Active);
    assert_eq!(decisions[1].reason, "in use: no primary path works");
    assert_eq!(decisions[2].reason, "backup: cable works");
    bond.down(1, true);
    assert_eq!(bond.uses(0), [Unused, Unused, Active, Unused]);
    bond.down(2, true);
    let decisions = bond.run(0);
    assert!(decisions.iter().all(|d| d.using == Unused && d.alone));
    bond.down(0, false);
    assert_eq!(bond.uses(0), [Active, Unused, Unused, Unused]);
}

#[test]
fn secondaries_help_when_primaries_are_full_and_are_released() {
    let mut bond = household();
    bond.paths[0].rate_bps = [1_000_000, 50_000_000];
    bond.paths[0].full = [false, true];
    assert_eq!(bond.uses(1)[1], Low, "not at once");
    let decisions = bond.run(3);
    assert_eq!(decisions[1].using, Active);
    assert_eq!(decisions[1].reason, "in use: dsl alone is full");
    // The load is spread now: nothing is full, but dsl alone would be.
    bond.paths[0].full = [false; 2];
    bond.paths[0].rate_bps[1] = 30_000_000;
    bond.paths[1].rate_bps[1] = 20_000_000;
    assert_eq!(bond.uses(60)[1], Active);
    // The download ends.
    bond.paths[0].rate_bps[1] = 20_000_000;
    bond.paths[1].rate_bps[1] = 10_000_000;
    assert_eq!(bond.uses(14)[1], Active, "it may go on");
    assert_eq!(bond.uses(3)[1], Low);
    // A short rush is no reason.
    for _ in 0..20 {
        bond.paths[0].full = [true, false];
        assert_eq!(bond.uses(1)[1], Low);
        bond.paths[0].full = [false; 2];
        assert_eq!(bond.uses(1)[1], Low);
    }
}

#[test]
fn a_capped_primary_is_full_at_its_cap() {
    let mut bond = household();
    bond.paths[0].cap_bps = [Some(2_000_000), None];
    bond.paths[0].rate_bps = [1_900_000, 0];
    assert_eq!(bond.uses(4)[1], Active);
}

#[test]
fn windows_that_open_and_close_are_full_all_the_same() {
    let mut bond = household();
    for i in 0..20 {
        bond.now += Duration::from_millis(200);
        bond.paths[0].full = [i % 4 != 0, false];
        bond.decide();
    }
    assert_eq!(bond.uses(0)[1], Active, "three looks of four");
    let mut bond = household();
    for i in 0..100 {
        bond.now += Duration::from_millis(200);
        bond.paths[0].full = [i % 4 == 0, false];
        assert_eq!(bond.decide()[1].using, Low, "one look of four");
    }
}

#[test]
fn a_path_that_loses_much_is_set_back_and_taken_back() {
    let mut bond = Bond::new(&[path("wan1", Role::Primary, 20), path("wan2", Role::Primary, 30)]);
    bond.paths[1].health.loss = Some(0.4);
    assert_eq!(bond.uses(2), [Active, Active]);
    let decisions = bond.run(2);
    assert_eq!(decisions[1].using, Low);
    assert_eq!(decisions[1].reason, "set back: it harms wan1 (loss 40 %, 30 ms); watched");
    assert!(!decisions[1].standby, "watched closely");
    // Hysteresis: better is not well.
    bond.paths[1].health.loss = Some(0.2);
    assert_eq!(bond.uses(60), [Active, Low]);
    bond.paths[1].health.loss = Some(0.02);
    let decisions = bond.run(5);
    assert!(decisions[1].reason.ends_with("well again, in use in 5.2 s"), "{decisions:?}");
    assert_eq!(bond.uses(6), [Active, Active]);
}

#[test]
fn a_path_that_harms_only_when_used_is_tried_ever_less_often() {
    let mut bond = Bond::new(&[path("wan1", Role::Primary, 20), path("wan2", Role::Primary, 30)]);
    let mut used = 0;
    let mut changes = 0;
    let mut last = Active;
    for _ in 0..600 {
        let using = bond.uses(1)[1];
        changes += u32::from(using != last);
        used += u32::from(using == Active);
        last = using;
        bond.paths[1].health.loss = Some(if using == Active { 0.5 } else { 0.0 });
    }
    assert!(changes <= 12, "{changes}");
    assert!(used <= 40, "{used} of 600 s");
}

#[test]
fn loss_on_a_slow_path_harms_sooner() {
    let mut bond = Bond::new(&[path("wan1", Role::Primary, 20), path("sat", Role::Primary, 600)]);
    assert_eq!(bond.uses(60), [Active, Active], "slow is no harm by itself");
    bond.paths[1].health.loss = Some(0.1);
    assert_eq!(bond.uses(4), [Active, Low]);
    // The same loss on the fast one is none.
    let mut bond = Bond::new(&[path("wan1", Role::Primary, 20), path("sat", Role::Primary, 600)]);
    bond.paths[0].health.loss = Some(0.1);
    assert_eq!(bond.uses(60), [Active, Active]);
}

#[test]
fn what_harms_is_used_where_nothing_else_works() {
    let mut bond = household();
    bond.paths[0].health.loss = Some(0.5);
    assert_eq!(bond.uses(4), [Low, Active, Low, Unused], "cable takes over");
    bond.down(1, true);
    assert_eq!(bond.uses(0), [Low, Unused, Active, Unused]);
    bond.down(2, true);
    let decisions = bond.run(4);
    assert_eq!(decisions[0].using, Active);
    // Two that harm: one of them stays.
    bond.down(2, false);
    bond.paths[2].health.loss = Some(0.6);
    assert_eq!(bond.uses(10), [Active, Unused, Low, Unused]);
}

#[test]
fn a_spent_quota_is_as_never() {
    let mut bond = household();
    bond.paths[0].spent = Some("quota used up until 1 December");
    let decisions = bond.run(0);
    assert_eq!(decisions[0].using, Unused);
    assert_eq!(decisions[0].reason, "quota used up until 1 December");
    assert_eq!(decisions[1].using, Active);
}

proptest! {
    /// Whatever the facts: a bond with a path that may be used uses one.
    #[test]
    fn something_is_used_if_anything_can_be(
        steps in proptest::collection::vec(
            (0usize..4, 0usize..4, any::<bool>(), 0.0f64..1.0, 1u64..2_000, any::<bool>()), 1..200)
    ) {
        let mut bond = household();
        for (which, role, up, loss, rtt, full) in steps {
            bond.down(which, !up);
            let path = &mut bond.paths[which];
            path.role = Role::ALL[role];
            path.health.loss = Some(loss);
            path.health.rtt = Some(Duration::from_millis(rtt));
            path.full = [full, false];
            path.rate_bps = [rtt * 1000; 2];
            let decisions = bond.run(1);
            let mut any = false;
            for (path, decision) in bond.paths.iter().zip(&decisions) {
                let usable = path.role != Role::Never && path.health.state == PathState::Up;
                any |= usable;
                prop_assert!(usable || decision.using == Unused);
                prop_assert!(!usable || decision.using != Unused);
            }
            prop_assert_eq!(any, decisions.iter().any(|d| d.using == Active), "{:?}", decisions);
        }
    }
}
