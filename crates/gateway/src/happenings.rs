//! The last things that happened to an agent, for whoever asks.

use crate::model::Happening;
use std::collections::VecDeque;
use std::time::{SystemTime, UNIX_EPOCH};
use tabane_engine::Instant;
use tabane_net::Clock;

/// Remembers the last [`KEPT`].
#[derive(Debug)]
pub struct Happenings {
    clock: Clock,
    all: VecDeque<Happening>,
    last: u64,
}

/// The oldest goes when there are more.
pub const KEPT: usize = 4096;

impl Happenings {
    /// None yet; times are by this clock.
    #[must_use]
    pub fn new(clock: Clock) -> Self {
        Self { clock, all: VecDeque::new(), last: 0 }
    }

    /// Something happened: to a path, if one is named, of a client, if one is named.
    pub fn add(
        &mut self,
        now: Instant,
        kind: &str,
        (client, path): (Option<&str>, Option<&str>),
        text: String,
    ) {
        self.last += 1;
        if self.all.len() == KEPT {
            self.all.pop_front();
        }
        self.all.push_back(Happening {
            seq: self.last,
            unix_ms: unix_ms(self.clock.wall_origin(), now),
            kind: kind.to_owned(),
            path: path.map(str::to_owned),
            client: client.map(str::to_owned),
            text,
        });
    }

    /// The number of the last one; 0 if there was none.
    #[must_use]
    pub fn last(&self) -> u64 {
        self.last
    }

    /// Those after that number, oldest first.
    #[must_use]
    pub fn since(&self, seq: u64) -> Vec<Happening> {
        let known = self.all.iter().take_while(|h| h.seq <= seq).count();
        self.all.iter().skip(known).cloned().collect()
    }
}

fn unix_ms(origin: SystemTime, now: Instant) -> u64 {
    let origin = origin.duration_since(UNIX_EPOCH).unwrap_or_default();
    origin.as_millis() as u64 + now.0 / 1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_ones_are_remembered_in_order() {
        let mut happenings = Happenings::new(Clock::start());
        for i in 0..KEPT as u64 + 10 {
            happenings.add(Instant(i), "path-up", (None, Some("wifi")), format!("{i}"));
        }
        let all = happenings.since(0);
        assert_eq!((all.len(), all[0].seq), (KEPT, 11));
        let new = happenings.since(KEPT as u64 + 8);
        assert_eq!(new.iter().map(|h| h.seq).collect::<Vec<_>>(), [4105, 4106]);
    }
}
