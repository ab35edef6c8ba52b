//! Parts of a network that share neither a host nor a link: they run one after the other.
//!
//! Where a thousand pairs of hosts take turns, event by event, each finds its packets, connections
//! and links out of the caches. Where few take turns, they are there. What a part does depends
//! on nothing that another does (random streams have names of their own), so that the result is
//! the same to the byte. Only the end is common: it is when the last flow of all is done.
//!
//! Parts are not told apart where somebody watches more than the flows' beginnings and ends, which
//! wants the order of time, nor where changes or tunnels concern what is not known beforehand.

use super::{AGENDA, Action, Agenda, RunError, World};
use crate::topology::Hop;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use tabane_engine::{Duration, Instant};

/// How many separate networks make a part: so few are in the caches, and what they do does not
/// wait for one another's last result, as it does in one alone.
const TOGETHER: usize = 16;

/// A part, while another one runs.
#[derive(Default)]
struct Part {
    /// Its sources in the schedule, with their times.
    sources: Vec<(usize, Instant)>,
    agenda: Agenda,
    /// How far it has come.
    now: Instant,
    /// Flows that have still something to do.
    unfinished: usize,
}

/// How much of all parts is done, as if time went on evenly.
#[derive(Clone, Copy)]
pub(super) struct Progress {
    parts: u64,
    /// The number of the part that runs, or of the last.
    part: u64,
    shown: Instant,
}

impl Progress {
    /// Everything is one part.
    pub(super) const WHOLE: Self = Self { parts: 1, part: 0, shown: Instant::ZERO };

    /// What is shown when the part that runs has come to `now`. It never goes back: when the last
    /// flow is done, the other parts follow.
    pub(super) fn show(&mut self, now: Instant, end: Instant) -> Instant {
        // Each divided for itself: the product may be beyond 2^64.
        let at = Instant(end.0 / self.parts * self.part + now.0 / self.parts);
        self.shown = self.shown.max(at);
        self.shown
    }

    /// From one time that is shown to the next: about a thousand of all parts together.
    pub(super) fn step(self, end: Instant) -> Duration {
        Duration((end.0 / 1000).max(1).saturating_mul(self.parts))
    }
}

impl World<'_> {
    /// Runs to the end, part by part, if there are several and nobody minds. Whether it has.
    pub(super) fn run_apart(&mut self) -> Result<bool, RunError> {
        if !self.may_part() {
            return Ok(false);
        }
        let Some(mut parts) = self.take_apart() else { return Ok(false) };
        self.progress.parts = parts.len() as u64;
        let mut last = (Instant::ZERO, AGENDA);
        for (n, part) in parts.iter_mut().enumerate() {
            self.progress.part = n as u64;
            let others = self.remaining - part.unfinished;
            last = last.max(self.run_part(part, |world| world.run_flows(others))?);
        }
        // What the others do meanwhile, of which flows know nothing any more.
        let end = if self.remaining == 0 { last } else { (self.end, usize::MAX) };
        for part in &mut parts {
            self.run_part(part, |world| world.run_before(end))?;
        }
        self.now = end.0;
        Ok(true)
    }

    /// Runs up to an event, at that time of that source, which is another part's.
    #[cold]
    fn run_before(&mut self, event: (Instant, usize)) -> Result<(), RunError> {
        loop {
            let next = self.schedule.first();
            if next >= event {
                return Ok(());
            }
            self.step(next.0, next.1)?;
        }
    }

    fn may_part(&self) -> bool {
        let wants = self.wants.records || self.wants.packets || self.wants.sample.is_some();
        let changes = !self.scenario.at.is_empty() || !self.tunnels.is_empty();
        self.flows.len() > 1 && !(wants || changes || self.scenario.closing)
    }

    /// Runs a part.
    fn run_part<T>(
        &mut self,
        part: &mut Part,
        run: impl FnOnce(&mut Self) -> Result<T, RunError>,
    ) -> Result<T, RunError> {
        let others = self.remaining - part.unfinished;
        self.now = part.now;
        self.idle_events = 0;
        mem::swap(&mut self.agenda, &mut part.agenda);
        for (source, time) in &part.sources {
            self.schedule.set(*source, *time);
        }
        let done = run(self)?;
        for (source, time) in &mut part.sources {
            *time = self.schedule.time(*source);
            self.schedule.set(*source, Instant::FAR_FUTURE);
        }
        mem::swap(&mut self.agenda, &mut part.agenda);
        (part.now, part.unfinished) = (self.now, self.remaining - others);
        Ok(done)
    }

    /// The parts, with what is on the schedule and on the agenda. None if there is but one.
    fn take_apart(&mut self) -> Option<Vec<Part>> {
        let mut groups = self.groups();
        let mut numbers = BTreeMap::new();
        let mut parts: Vec<Part> = Vec::new();
        let mut number = |node: usize, groups: &mut Groups| {
            let next = numbers.len();
            *numbers.entry(groups.of(node)).or_insert(next) / TOGETHER
        };
        for node in 0..self.links.len() / 2 + self.hosts.len() {
            let part = number(node, &mut groups);
            if part == parts.len() {
                parts.push(Part { sources: vec![(AGENDA, Instant::ZERO)], ..Part::default() });
            }
            let sources = &mut parts[part].sources;
            match node.checked_sub(self.hosts.len()) {
                Some(link) => sources.extend([1, 2].map(|way| (2 * link + way, Instant::ZERO))),
                None => sources.push((1 + self.links.len() + node, Instant::ZERO)),
            }
        }
        for flow in &self.flows {
            parts[number(flow.client, &mut groups)].unfinished += 1;
        }
        if parts.iter().filter(|part| part.unfinished > 0).count() < 2 {
            return None;
        }
        for Reverse(entry) in mem::take(&mut self.agenda) {
            match entry.action {
                Action::Start(flow) | Action::Stop(flow) | Action::Tick(flow) => {
                    let client = self.flows[flow as usize].client;
                    parts[number(client, &mut groups)].agenda.push(Reverse(entry));
                }
                _ => parts.iter_mut().for_each(|part| part.agenda.push(Reverse(entry))),
            }
        }
        for part in &mut parts {
            for (source, time) in &mut part.sources {
                *time = match *source {
                    AGENDA => part.agenda.peek().map_or(Instant::FAR_FUTURE, |first| first.0.at),
                    source => self.schedule.time(source),
                };
                self.schedule.set(*source, Instant::FAR_FUTURE);
            }
        }
        Some(parts)
    }

    /// Hosts, and links after them, in groups that flows join.
    fn groups(&self) -> Groups {
        let mut groups = Groups::new(self.hosts.len() + self.links.len() / 2);
        let mut pairs = BTreeSet::new();
        for flow in &self.flows {
            for k in 0..=flow.relays.len() {
                let leg = flow.leg(k);
                pairs.insert((leg.client.0, leg.server.0));
                pairs.insert((leg.server.0, leg.client.0));
            }
        }
        for (from, to) in pairs {
            groups.join(from, to);
            for path in 0..self.topology.hosts[from].paths.len() {
                let others = 0..self.topology.hosts[to].paths.len();
                let addresses = others.map(|path| self.topology.address(to, path));
                for address in addresses.chain([self.topology.shared_address(to)]) {
                    for hop in self.topology.hops(self.topology.route(from, path, address)) {
                        if let Hop::Link(link) = hop {
                            groups.join(from, self.hosts.len() + link as usize / 2);
                        }
                    }
                }
            }
        }
        groups
    }
}

/// Which of so many things belong together.
struct Groups(Vec<usize>);

impl Groups {
    fn new(count: usize) -> Self {
        Self((0..count).collect())
    }

    /// The one that stands for all of its group.
    fn of(&mut self, mut thing: usize) -> usize {
        while self.0[thing] != thing {
            self.0[thing] = self.0[self.0[thing]];
            thing = self.0[thing];
        }
        thing
    }

    fn join(&mut self, one: usize, other: usize) {
        let (one, other) = (self.of(one), self.of(other));
        // The lower number stands for both, so that numbering does not depend on the order.
        self.0[one.max(other)] = one.min(other);
    }
}
