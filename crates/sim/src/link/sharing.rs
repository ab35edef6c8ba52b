//! A link direction whose packets leave when the medium lets them, not when its own rate says.
//!
//! The packet in service has no departure until the medium has told its outcome; the link looks at
//! each moment at which that may be. What all links do with every packet knows nothing of it:
//! packets take the way of those that are kept apart by flow, and outcomes that of conditions that
//! change.

use super::medium::{self, Station};
use super::{Backlog, Instant, Link, LinkConfig, LinkError, Packet};
use crate::seed::Seed;

impl<P: Packet> Link<P> {
    /// Both directions of a link, up first, on one medium if they have one; `names` are those of
    /// their random streams, as `link/wifi/up`.
    ///
    /// # Errors
    /// What [`LinkConfig::check`] finds; [`LinkError::Alone`] if one has a medium and the other has
    /// not.
    pub fn both(
        configs: [&LinkConfig; 2],
        seed: Seed,
        names: [&str; 2],
    ) -> Result<[Self; 2], LinkError> {
        let [up, down] = configs;
        let mut links = [Self::own(up, seed, names[0])?, Self::own(down, seed, names[1])?];
        let spec = match (&up.medium, &down.medium) {
            (None, None) => return Ok(links),
            (Some(spec), Some(other)) if spec == other => spec,
            _ => return Err(LinkError::Alone),
        };
        let bps = configs.map(|config| config.rate.mean() as u64);
        let stations = Station::both(&medium::build(spec)?, bps, seed, names[0]);
        for (link, station) in links.iter_mut().zip(stations) {
            link.waiting = Backlog::apart(link.queue.subqueues());
            link.reorders = true;
            link.aside.station = Some(station);
        }
        Ok(links)
    }

    /// Frames that the medium has sent for its packets, repeated ones each time; 0 without one.
    pub fn frames(&self) -> u64 {
        self.aside.station.as_ref().map_or(0, Station::attempts)
    }

    /// The packet in service waits for the medium, if there is one.
    pub(super) fn contend(&mut self) {
        let (Some(station), Some(service)) = (&mut self.aside.station, &mut self.service) else {
            return;
        };
        station.offer(service.began, service.packet.wire_len());
        service.departure = Instant::FAR_FUTURE;
        service.arrival = Instant::FAR_FUTURE;
        self.turn = station.outlook();
    }

    /// Looks what the medium has sent up to `now`, each time at the moment at which it has.
    pub(super) fn listen(&mut self, now: Instant) {
        while self.turn <= now {
            let at = std::mem::replace(&mut self.turn, Instant::FAR_FUTURE);
            let Some(station) = &mut self.aside.station else { return };
            if let Some(outcome) = station.outcome(at)
                && let Some(mut service) = self.service.take()
            {
                let (departure, received) = outcome.parts();
                service.departure = departure;
                service.fate.garbled |= !received;
                service.arrival = self.arrival(departure, &service.fate);
                self.service = Some(service);
            }
            self.advance(at);
            if let (Some(station), Some(service)) = (&self.aside.station, &self.service)
                && self.turn == Instant::FAR_FUTURE
                && service.departure == Instant::FAR_FUTURE
            {
                self.turn = station.outlook();
            }
        }
    }

    /// What was in service is gone.
    pub(super) fn withdraw(&mut self, now: Instant) {
        if let Some(station) = &mut self.aside.station {
            station.withdraw(now);
            self.turn = Instant::FAR_FUTURE;
        }
    }
}
