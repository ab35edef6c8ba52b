//! Conditions as they come: which one holds, until when, and what it changes on a link.

use super::{Condition, Conditions, ConditionsConfig, DelayIs, Phase, QueueIs, RateIs, SHORTEST};
use crate::link::queue::MOST_BYTES;
use crate::link::{DelayConfig, LinkChange, LinkConfig, RateConfig};
use crate::seed::{Rng, Seed};
use std::collections::BTreeMap;
use tabane_engine::policy::{PolicyError, Spec};
use tabane_engine::{Duration, Instant};

/// The course of a link direction's conditions.
pub(in crate::link) struct Course {
    model: Box<dyn Conditions>,
    rng: Rng,
    /// What the link is without conditions, as configured and changed since.
    own: Own,
    condition: Condition,
    /// When the next one comes.
    next: Instant,
}

struct Own {
    rate: RateConfig,
    delay: DelayConfig,
    loss: Spec,
    queue: Spec,
}

/// Bytes of a queue that is given as time, at least. At most it has what queues may have.
const LEAST_QUEUE: u64 = 3_000;

impl Course {
    /// As `config` says, for the direction called `name` (`link/wifi/up`), from time 0 on.
    pub(in crate::link) fn new(
        conditions: &ConditionsConfig,
        config: &LinkConfig,
        seed: Seed,
        name: &str,
    ) -> Result<Self, PolicyError> {
        let link = name.rsplit_once('/').map_or(name, |(link, _)| link);
        Ok(Self {
            model: conditions.build()?,
            rng: seed.stream(&format!("{link}/conditions")),
            own: Own {
                rate: config.rate.clone(),
                delay: config.delay,
                loss: config.loss.clone(),
                queue: config.queue.clone(),
            },
            condition: Condition::default(),
            next: Instant::ZERO,
        })
    }

    /// When conditions change next.
    pub(in crate::link) fn next(&self) -> Instant {
        self.next
    }

    /// Goes on to the next condition, and says what it changes.
    pub(in crate::link) fn step(&mut self) -> LinkChange {
        let before = self.condition;
        match self.model.next(&mut self.rng) {
            Some(Phase { condition, lasts }) => {
                self.condition = condition;
                self.next += lasts.max(SHORTEST);
            }
            None => self.next = Instant::FAR_FUTURE,
        }
        let now = self.condition;
        LinkChange {
            rate: (now.rate != before.rate).then(|| self.rate()),
            delay: (now.delay != before.delay).then(|| self.delay()),
            loss: (now.loss != before.loss).then(|| self.loss()),
            queue: (now.queue != before.queue).then(|| self.queue()),
            ..LinkChange::default()
        }
    }

    /// Whether they say what is lost, instead of the link's own model.
    pub(in crate::link) fn has_loss(&self) -> bool {
        self.condition.loss.is_some()
    }

    /// A change of what the link is without conditions: what it means under the present one.
    pub(in crate::link) fn adapt(&mut self, change: &LinkChange) -> LinkChange {
        let own = &mut self.own;
        own.rate =
            change.rate.clone().unwrap_or(std::mem::replace(&mut own.rate, RateConfig::Unlimited));
        own.delay = change.delay.unwrap_or(own.delay);
        if let Some(loss) = &change.loss {
            own.loss.clone_from(loss);
        }
        if let Some(queue) = &change.queue {
            own.queue.clone_from(queue);
        }
        // So much time is another size at another rate.
        let resized =
            change.rate.is_some() && matches!(self.condition.queue, Some(QueueIs::Time(_)));
        LinkChange {
            rate: change.rate.as_ref().map(|_| self.rate()),
            delay: change.delay.map(|_| self.delay()),
            loss: change.loss.as_ref().filter(|_| !self.has_loss()).map(|_| self.loss()),
            queue: (change.queue.is_some() || resized).then(|| self.queue()),
            ..change.clone()
        }
    }

    fn rate(&self) -> RateConfig {
        match (self.condition.rate, &self.own.rate) {
            (RateIs::Bps(bps), _) => RateConfig::Constant(bps),
            (RateIs::Times(times), RateConfig::Constant(bps)) => {
                RateConfig::Constant((*bps as f64 * times) as u64)
            }
            (RateIs::Own | RateIs::Times(_), own) => own.clone(),
        }
    }

    fn delay(&self) -> DelayConfig {
        match self.condition.delay {
            DelayIs::Own => self.own.delay,
            DelayIs::More(more) => self.own.delay.around(self.own.delay.mean() + more),
            DelayIs::Exactly(delay) => self.own.delay.around(delay),
        }
    }

    fn loss(&self) -> Spec {
        match self.condition.loss {
            None => self.own.loss.clone(),
            Some(p) => with("bernoulli", "p", p),
        }
    }

    fn queue(&self) -> Spec {
        let bytes = |bytes: u64| with("droptail", "bytes", bytes as f64);
        match (self.condition.queue, &self.own.rate) {
            (None, _) => self.own.queue.clone(),
            (Some(QueueIs::Packets(packets)), _) => with("droptail", "packets", packets as f64),
            (Some(QueueIs::Bytes(size)), _) => bytes(size),
            (Some(QueueIs::Time(time)), RateConfig::Constant(bps)) => {
                let size = (*bps as f64 / 8.0 * time.as_secs_f64()) as u64;
                bytes(size.clamp(LEAST_QUEUE, MOST_BYTES))
            }
            (Some(QueueIs::Time(_)), _) => self.own.queue.clone(),
        }
    }

    /// What the link sends in the first `time`, in bits per second on average.
    pub(in crate::link) fn mean_rate(mut self, time: Duration) -> f64 {
        let end = Instant::ZERO + time;
        let mut bits = 0.0;
        while self.next < end {
            let from = self.next;
            self.step();
            bits += self.rate().mean() * (self.next.min(end) - from).as_secs_f64();
        }
        bits / time.as_secs_f64()
    }
}

fn with(name: &str, key: &str, value: f64) -> Spec {
    Spec { name: name.into(), params: BTreeMap::from([(key.into(), value)]).into() }
}
