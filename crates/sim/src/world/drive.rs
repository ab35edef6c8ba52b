//! A world moved by hand: to a time, with changes from outside, and looked at where it stands.
//!
//! What is done by hand is what a scenario can say: a change takes a moment of its own, so that
//! the same change under `[[at]]` at that time gives the same run, byte for byte.

use super::{RunError, World};
use crate::link::Place;
use crate::observe::LinkIdx;
use crate::result::RunResult;
use crate::scenario::{Change, LinkParams};
use tabane_engine::{Duration, Instant};
use tabane_wire::Segment;

impl World<'_> {
    /// Tells the observer the names, and lets the hosts begin. Once, before anything else.
    pub fn begin(&mut self) {
        let layout = self.layout();
        self.observer.begin(&layout);
        self.open_tunnels();
        for host in 0..self.hosts.len() {
            self.flush(host);
        }
    }

    /// Lets happen what happens up to `until`, that moment included, or `most` events, whichever
    /// is less. Whether there is more to come up to `until`: call it again.
    ///
    /// # Errors
    /// [`RunError::Livelock`], [`RunError::Stopped`].
    pub fn advance(&mut self, until: Instant, most: u32) -> Result<bool, RunError> {
        let until = until.min(self.end);
        for _ in 0..most {
            let (time, source) = self.schedule.first();
            if self.is_over() {
                return Ok(false);
            }
            if time > until {
                if until > self.now {
                    self.now = until;
                }
                return Ok(false);
            }
            self.step(time, source)?;
            if self.stopped {
                return Err(RunError::Stopped(self.now.as_secs_f64()));
            }
        }
        Ok(true)
    }

    /// Whether the run has ended: every flow has, or the time is up.
    pub fn is_over(&self) -> bool {
        let (next, _) = self.schedule.first();
        let idle = self.remaining == 0 && !(self.scenario.closing && self.is_open());
        idle || (self.now >= self.end && next > self.end)
    }

    /// Does a change now, as the scenario would at the time that this returns: a moment at which
    /// nothing else happens, just after the present. `None` if the run is over before there is
    /// one. The change must be sound, which [`crate::scenario::Scenario::compile`] finds out.
    ///
    /// # Errors
    /// As [`World::advance`].
    pub fn change_now(&mut self, change: &Change) -> Result<Option<Instant>, RunError> {
        loop {
            let at = self.now + Duration(1);
            let (next, source) = self.schedule.first();
            if self.is_over() || at > self.end {
                return Ok(None);
            }
            if next > at {
                self.now = at;
                self.idle_events = 0;
                self.perform(change);
                return Ok(Some(at));
            }
            self.step(next, source)?;
        }
    }

    /// How far it has come.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// When it ends at the latest.
    pub fn end(&self) -> Instant {
        self.end
    }

    /// Packets times link directions crossed, so far.
    pub fn packet_hops(&self) -> u64 {
        self.hops
    }

    /// Shows the observer connections and links as they are now.
    pub fn show(&mut self) {
        self.sample();
    }

    /// The parameters of a link direction, with the changes so far.
    ///
    /// # Panics
    /// If there is no such link.
    pub fn link_params(&self, link: LinkIdx) -> &LinkParams {
        &self.links[link.0 as usize].params
    }

    /// Whether a link direction is up.
    ///
    /// # Panics
    /// If there is no such link.
    pub fn is_link_up(&self, link: LinkIdx) -> bool {
        self.links[link.0 as usize].link.is_up()
    }

    /// Looks at each packet in a link direction, from the far end on, without disturbing any.
    ///
    /// # Panics
    /// If there is no such link.
    pub fn packets(&self, link: LinkIdx, mut look: impl FnMut(Place, &Segment)) {
        let link = &self.links[link.0 as usize].link;
        link.packets(self.now, |place, packet| look(place, packet.segment()));
    }

    /// Ends the run here: what came of it so far, or all of it if it is over.
    pub fn finish(mut self) -> RunResult {
        self.observer.progress(self.progress.show(self.now, self.end), self.end);
        if self.wants.sample.is_some() {
            self.sample();
        }
        self.observer.end(self.now);
        self.into_result()
    }
}
