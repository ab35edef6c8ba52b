//! What the paths of a bond are used for, given their roles, states and load.
//!
//! * `primary`: always.
//! * `secondary`: its subflows have low priority until the primaries have been full for
//!   [`FULL_FOR`]; it is released when they would have sufficed for [`CALM_FOR`].
//! * `backup`: low priority while any primary or secondary works; when none does, all backups are
//!   used.
//! * `never`, or a quota that is used up: no subflows.
//! * A path that harms (many losses, or some and a round trip far above the others') is demoted to
//!   low priority while another one works, watched, and taken back when it has been well for its
//!   term; the term doubles if that happens again and again, since a path may look well only
//!   because it is not used.
//!
//! A state machine without I/O; whoever carries it out sets subflows' priorities by it.

use super::monitor::Health;
use super::reason::span;
use crate::address::PATHS_MAX;
use crate::model::{PathState, Role};
use tabane_engine::{Duration, Instant};

/// The uses of a client's paths.
#[derive(Default, Debug)]
pub struct Roles {
    paths: [Memory; PATHS_MAX],
    spill: Spill,
}

/// What a path is used for now.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Use {
    /// No subflows.
    Unused,
    /// Subflows of low priority (MP_PRIO with the backup bit, RFC 8684 section 3.3.8).
    Low,
    /// As any other.
    Active,
}

/// What is known of a path.
#[derive(Clone, Copy, Debug)]
pub struct PathFacts<'a> {
    /// As configured.
    pub name: &'a str,
    /// As configured or set.
    pub role: Role,
    /// Why it may carry nothing although its role says otherwise (a quota), for people.
    pub spent: Option<&'a str>,
    /// Whether it works, and how well.
    pub health: &'a Health,
    /// Data has waited for room on it, up and down.
    pub full: [bool; 2],
    /// What it carries, up and down, bits per second.
    pub rate_bps: [u64; 2],
    /// Rate caps, up and down: a path at its cap is full.
    pub cap_bps: [Option<u64>; 2],
}

/// What to do with a path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Decision {
    /// What it is used for.
    pub using: Use,
    /// Why, for people.
    pub reason: String,
    /// It may be probed thinly ([`super::Demand`]).
    pub standby: bool,
    /// No other path works ([`super::Demand`]).
    pub alone: bool,
}

/// Primaries full for so long bring in the secondaries.
pub const FULL_FOR: Duration = Duration::from_secs(2);
/// Primaries that would have sufficed for so long release them.
pub const CALM_FOR: Duration = Duration::from_secs(15);
/// Time constant of the measure for it.
const SMOOTHED: Duration = Duration::from_secs(1);
/// They would suffice if what flows is below this share of what they carried when full.
const CALM_SHARE: (u64, u64) = (7, 10);
/// A path at this share of its cap is full.
const CAP_SHARE: (u64, u64) = (9, 10);
/// A path that loses this much harms whatever its round trip.
const LOSS_HARMS: f64 = 0.30;
/// One that loses this much harms if it is also slow: twice the best round trip and 50 ms.
const LOSS_HARMS_SLOW: f64 = 0.08;
/// Where losses have fallen to this share of what harms, a path is well.
const WELL: f64 = 0.4;
/// Harm for so long demotes.
const HARM_FOR: Duration = Duration::from_secs(3);
/// The first term of a demoted path, and the longest.
const TERM: Duration = Duration::from_secs(10);
const TERM_MAX: Duration = Duration::from_secs(320);
/// Demotions further back than this do not count.
const FORGIVEN: Duration = Duration::from_secs(900);

#[derive(Clone, Copy, Default, Debug)]
struct Memory {
    /// Since then it has done harm.
    harm_since: Option<Instant>,
    /// Low priority since then.
    demoted: Option<Instant>,
    /// Since then it has been well.
    well_since: Option<Instant>,
    /// When it was demoted last, and how long its term is.
    last: Option<(Instant, Duration)>,
}

/// Whether the secondaries help.
#[derive(Clone, Copy, Default, Debug)]
struct Spill {
    /// How full the primaries have been lately, up and down, 0 to 1: windows open and close
    /// many times a second, and a single look says little.
    level: [f64; 2],
    looked: Option<Instant>,
    full_since: Option<Instant>,
    calm_since: Option<Instant>,
    open: bool,
    /// What the primaries carried when they were full, up and down.
    capacity_bps: [Option<u64>; 2],
}

impl Roles {
    /// Decides anew; at most [`PATHS_MAX`] paths, always in the same order. To be asked when a
    /// path's state changes, and about every 200 ms.
    pub fn decide(&mut self, now: Instant, facts: &[PathFacts<'_>]) -> Vec<Decision> {
        let facts = &facts[..facts.len().min(PATHS_MAX)];
        self.judge(now, facts);
        self.spill(now, facts);
        let good = |role: Role| {
            (0..facts.len()).find(|&i| {
                facts[i].role == role && is_usable(&facts[i]) && self.paths[i].demoted.is_none()
            })
        };
        let [primary, secondary, backup] =
            [good(Role::Primary), good(Role::Secondary), good(Role::Backup)];
        let preferred = primary.or(secondary).or(backup);
        let usable = facts.iter().filter(|path| is_usable(path)).count();
        let decide = |(i, path): (usize, &PathFacts<'_>)| {
            let (using, reason) = self.one(now, i, path, facts, [primary, secondary], preferred);
            let watched = self.paths[i].demoted.is_some();
            Decision {
                using,
                reason,
                standby: using != Use::Active && !watched,
                alone: usable == 0,
            }
        };
        facts.iter().enumerate().map(decide).collect()
    }

    /// `good`: the first primary and the first secondary that work well; `preferred`: the first
    /// path of all that does.
    fn one(
        &self,
        now: Instant,
        index: usize,
        path: &PathFacts<'_>,
        facts: &[PathFacts<'_>],
        good: [Option<usize>; 2],
        preferred: Option<usize>,
    ) -> (Use, String) {
        if path.role == Role::Never {
            return (Use::Unused, "never: not to be used".into());
        }
        if let Some(why) = path.spent {
            return (Use::Unused, why.into());
        }
        if path.health.state != PathState::Up {
            return (Use::Unused, path.health.reason.clone());
        }
        let Some(preferred) = preferred else {
            return (Use::Active, "in use: no path works well".into());
        };
        if self.paths[index].demoted.is_some() {
            return (Use::Low, self.why_demoted(now, index, path, facts[preferred].name));
        }
        match (path.role, good) {
            (Role::Primary, _) => (Use::Active, "in use".into()),
            (Role::Secondary, [None, _]) => (Use::Active, "in use: no primary path works".into()),
            (Role::Secondary, [Some(primary), _]) if self.spill.open => {
                (Use::Active, format!("in use: {} alone is full", facts[primary].name))
            }
            (Role::Secondary, [Some(primary), _]) => {
                (Use::Low, format!("secondary: {} suffices", facts[primary].name))
            }
            (_, [None, None]) => (Use::Active, "in use: no path but backups works".into()),
            _ => (Use::Low, format!("backup: {} works", facts[preferred].name)),
        }
    }

    fn why_demoted(
        &self,
        now: Instant,
        index: usize,
        path: &PathFacts<'_>,
        better: &str,
    ) -> String {
        let Health { loss, rtt, .. } = path.health;
        let loss = loss.unwrap_or(0.0) * 100.0;
        let rtt = rtt.map_or(0, Duration::as_millis);
        let memory = &self.paths[index];
        let term = memory.last.map_or(TERM, |(_, term)| term);
        let left = match memory.well_since {
            Some(since) => format!("well again, in use in {}", span(term - (now - since))),
            None => "watched".into(),
        };
        format!("set back: it harms {better} (loss {loss:.0} %, {rtt} ms); {left}")
    }

    /// Demotes what harms, takes back what is well.
    fn judge(&mut self, now: Instant, facts: &[PathFacts<'_>]) {
        for (i, path) in facts.iter().enumerate() {
            if !is_usable(path) {
                // Its state says enough; what it did before is remembered in `last`.
                self.paths[i] = Memory { last: self.paths[i].last, ..Memory::default() };
                continue;
            }
            let harm = self.harm(i, facts);
            let memory = &mut self.paths[i];
            if memory.demoted.is_none() {
                memory.harm_since = (harm >= 1.0).then(|| memory.harm_since.unwrap_or(now));
            } else {
                memory.well_since = (harm <= WELL).then(|| memory.well_since.unwrap_or(now));
                let term = memory.last.map_or(TERM, |(_, term)| term);
                if memory.well_since.is_some_and(|since| now - since >= term) {
                    *memory = Memory { last: memory.last, ..Memory::default() };
                }
            }
        }
        // The worst first, and never the last one that works.
        let due = |path: &Memory| path.harm_since.is_some_and(|since| now - since >= HARM_FOR);
        let harms: Vec<f64> = (0..facts.len()).map(|i| self.harm(i, facts)).collect();
        let mut harmful: Vec<usize> = (0..facts.len()).filter(|&i| due(&self.paths[i])).collect();
        harmful.sort_by(|&a, &b| harms[b].total_cmp(&harms[a]));
        for i in harmful {
            let others = (0..facts.len()).filter(|&j| j != i && is_usable(&facts[j]));
            let (demoted, good): (Vec<_>, Vec<_>) =
                others.partition(|&j| self.paths[j].demoted.is_some());
            if good.iter().any(|&j| harms[j] < harms[i]) {
                self.paths[i].demote(now);
            } else if let Some(&j) = demoted.iter().find(|&&j| harms[j] * 2.0 < harms[i])
                && good.is_empty()
            {
                // What was set back is the lesser evil by now.
                self.paths[j] = Memory { last: self.paths[j].last, ..Memory::default() };
                self.paths[i].demote(now);
            }
        }
        if facts.iter().enumerate().all(|(i, p)| !is_usable(p) || self.paths[i].demoted.is_some()) {
            // Only what harms is left: it is all there is.
            for memory in &mut self.paths {
                memory.demoted = None;
                memory.harm_since = None;
            }
        }
    }

    /// How much a path harms; from 1 on it does.
    fn harm(&self, index: usize, facts: &[PathFacts<'_>]) -> f64 {
        let health = facts[index].health;
        let loss = health.loss.unwrap_or(0.0);
        let peers = facts.iter().enumerate().filter(|(j, other)| {
            let better_role = rank(other.role) <= rank(facts[index].role);
            *j != index && is_usable(other) && self.paths[*j].demoted.is_none() && better_role
        });
        let best = peers.filter_map(|(_, other)| other.health.rtt).min();
        let slow = match (health.rtt, best) {
            (Some(rtt), Some(best)) => rtt >= best * 2 + Duration::from_millis(50),
            _ => false,
        };
        loss / if slow { LOSS_HARMS_SLOW } else { LOSS_HARMS }
    }

    /// Decides whether the secondaries help.
    fn spill(&mut self, now: Instant, facts: &[PathFacts<'_>]) {
        let primaries: Vec<&PathFacts<'_>> = facts
            .iter()
            .enumerate()
            .filter(|(i, path)| {
                path.role == Role::Primary && is_usable(path) && self.paths[*i].demoted.is_none()
            })
            .map(|(_, path)| path)
            .collect();
        let spill = &mut self.spill;
        if primaries.is_empty() {
            *spill = Spill::default();
            return;
        }
        let looks = [0, 1].map(|way| primaries.iter().all(|path| is_full(path, way)));
        let full = spill.smooth(now, looks);
        for way in [0, 1] {
            let carried = primaries.iter().map(|path| path.rate_bps[way]).sum();
            if looks[way] && full[way] {
                let known = spill.capacity_bps[way].unwrap_or(0);
                spill.capacity_bps[way] = Some(known.max(carried));
            }
        }
        if full.contains(&true) {
            let since = *spill.full_since.get_or_insert(now);
            spill.open |= now - since >= FULL_FOR;
        } else {
            spill.full_since = None;
        }
        let enough = [0, 1].map(|way| {
            let flows: u64 = facts.iter().map(|path| path.rate_bps[way]).sum();
            let capacity = spill.capacity_bps[way];
            capacity.is_none_or(|capacity| share(capacity, CALM_SHARE) >= flows)
        });
        if !spill.open {
            // What was measured in an earlier rush need not hold in the next.
            if spill.full_since.is_none() {
                spill.capacity_bps = [None; 2];
            }
            spill.calm_since = None;
        } else if enough == [true; 2] && !full.contains(&true) {
            let since = *spill.calm_since.get_or_insert(now);
            if now - since >= CALM_FOR {
                *spill = Spill::default();
            }
        } else {
            spill.calm_since = None;
        }
    }
}

impl Spill {
    /// Whether the primaries have been full most of the last second, up and down.
    fn smooth(&mut self, now: Instant, looks: [bool; 2]) -> [bool; 2] {
        let since = now - self.looked.replace(now).unwrap_or(now);
        let weight = (since.as_secs_f64() / SMOOTHED.as_secs_f64()).min(1.0);
        // Hysteresis, so that the two seconds of `FULL_FOR` are not begun again at every dip.
        let enough = if self.full_since.is_some() { 0.4 } else { 0.6 };
        [0, 1].map(|way| {
            self.level[way] += (f64::from(u8::from(looks[way])) - self.level[way]) * weight;
            self.level[way] >= enough
        })
    }
}

impl Memory {
    fn demote(&mut self, now: Instant) {
        let term = match self.last {
            Some((at, term)) if now - at < FORGIVEN => (term * 2).min(TERM_MAX),
            _ => TERM,
        };
        *self = Self { demoted: Some(now), last: Some((now, term)), ..Self::default() };
    }
}

fn is_usable(path: &PathFacts<'_>) -> bool {
    path.role != Role::Never && path.spent.is_none() && path.health.state == PathState::Up
}

fn is_full(path: &PathFacts<'_>, way: usize) -> bool {
    let capped = path.cap_bps[way].is_some_and(|cap| path.rate_bps[way] >= share(cap, CAP_SHARE));
    path.full[way] || capped
}

fn share(of: u64, (part, whole): (u64, u64)) -> u64 {
    of / whole * part
}

fn rank(role: Role) -> usize {
    Role::ALL.iter().position(|&other| other == role).unwrap_or(0)
}

#[cfg(test)]
mod tests;
