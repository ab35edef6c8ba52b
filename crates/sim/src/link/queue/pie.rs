//! PIE (RFC 8033): drops at random when packets come, with a probability that a controller moves
//! with the delay of the queue and its trend.
//!
//! The delay is that of the last packet that left, by its timestamp, and 0 once the queue is empty
//! (as Linux has it; the RFC allows that beside estimating the rate). It is never switched off
//! (section 5.3 is optional), and a delay above 250 ms adds 2 % to the probability at each update,
//! as in Linux. The timer of section 4.2 is evaluated when packets come and go: nothing that it
//! looks at changes in between.

use super::{Arrival, Head, Queue, Verdict};
use crate::seed::Rng;
use tabane_engine::policy::{Param, PolicyError, Values};
use tabane_engine::{Duration, Instant};

/// Parameters of the table row.
pub(super) const PARAMS: &[Param] = &[
    Param::new("target_ms", 15.0, 0.001..=1e6, "delay that it aims at, ms"),
    Param::new("update_ms", 15.0, 0.001..=1e6, "time between two updates of the probability, ms"),
    Param::new("burst_ms", 150.0, 0.0..=1e6, "bursts up to this long pass, ms"),
    Param::new("alpha", 0.125, 0.0..=32.0, "weight of the distance from the target, per second"),
    Param::new("beta", 1.25, 0.0..=32.0, "weight of the trend, per second"),
    Param::count("packets", 1000.0, 1.0..=1e9, "most packets that wait"),
    Param::switch(
        "ecn",
        false,
        "1: below 10 %, mark packets that allow it instead of dropping them",
    ),
];

/// Above this probability nothing is marked (section 5.1).
const MARK_BELOW: f64 = 0.1;
/// Waiting bytes up to which nothing is dropped: two packets.
const FEW_BYTES: u64 = 2 * 1500;
/// The probability grows by at most this much in an update, once it is above 10 %.
const STEP_MOST: f64 = 0.02;
/// Updates after which an idle queue has forgotten everything: 0.98^1000 is below 1e-8.
const FORGOTTEN: u64 = 1000;

/// The queue `pie`.
pub(super) struct Pie {
    target: f64,
    update: Duration,
    burst: Duration,
    alpha: f64,
    beta: f64,
    packets: usize,
    ecn: bool,
    /// Seconds.
    delay: f64,
    delay_before: f64,
    probability: f64,
    /// Sum of the probabilities since the last drop, which spaces drops out (section 5.4).
    accumulated: f64,
    allowance: Duration,
    next_update: Option<Instant>,
}

impl Pie {
    pub(super) fn build(values: &Values<'_>) -> Result<Box<dyn Queue>, PolicyError> {
        Ok(Box::new(Self::new(values)))
    }

    fn new(values: &Values<'_>) -> Self {
        let ms = |name| Duration::from_secs_f64(values.get(name) / 1e3);
        Self {
            target: values.get("target_ms") / 1e3,
            update: ms("update_ms"),
            burst: ms("burst_ms"),
            alpha: values.get("alpha"),
            beta: values.get("beta"),
            packets: values.get("packets") as usize,
            ecn: values.is_on("ecn"),
            delay: 0.0,
            delay_before: 0.0,
            probability: 0.0,
            accumulated: 0.0,
            allowance: ms("burst_ms"),
            next_update: None,
        }
    }

    /// Every update that was due by `now`.
    fn catch_up(&mut self, now: Instant) {
        let mut next = self.next_update.unwrap_or(now + self.update);
        if self.delay == 0.0 && (now - next).0 / self.update.0 > FORGOTTEN {
            (self.probability, self.delay_before) = (0.0, 0.0);
            self.allowance = self.burst;
            next = now + self.update;
        }
        while next <= now {
            self.calculate();
            next += self.update;
        }
        self.next_update = Some(next);
    }

    /// Section 4.2, and 4.4 for bursts.
    fn calculate(&mut self) {
        let (delay, before) = (self.delay, self.delay_before);
        let mut step = self.alpha * (delay - self.target) + self.beta * (delay - before);
        step /= match self.probability {
            p if p < 1e-6 => 2048.0,
            p if p < 1e-5 => 512.0,
            p if p < 1e-4 => 128.0,
            p if p < 1e-3 => 32.0,
            p if p < 1e-2 => 8.0,
            p if p < 1e-1 => 2.0,
            _ => 1.0,
        };
        if self.probability >= 0.1 {
            step = step.min(STEP_MOST);
        }
        if delay > 0.25 {
            step += 0.02;
        }
        self.probability += step;
        if delay == 0.0 && before == 0.0 {
            self.probability *= 0.98;
        }
        self.probability = self.probability.clamp(0.0, 1.0);
        self.delay_before = delay;
        self.allowance = self.allowance - self.update;
        let half = self.target / 2.0;
        if self.probability == 0.0 && delay < half && before < half {
            self.allowance = self.burst;
        }
    }

    /// Section 4.1 with the spacing of section 5.4.
    fn unlucky(&mut self, bytes: u64, rng: &mut Rng) -> bool {
        let calm = self.delay_before < self.target / 2.0 && self.probability < 0.2;
        if !self.allowance.is_zero() || calm || bytes <= FEW_BYTES {
            return false;
        }
        if self.probability == 0.0 {
            self.accumulated = 0.0;
        }
        self.accumulated += self.probability;
        if self.accumulated < 0.85 {
            return false;
        }
        let unlucky = self.accumulated >= 8.5 || rng.chance(self.probability);
        if unlucky {
            self.accumulated = 0.0;
        }
        unlucky
    }
}

impl Queue for Pie {
    fn admit(&mut self, arrival: &Arrival, rng: &mut Rng) -> Verdict {
        self.catch_up(arrival.now);
        if arrival.packets >= self.packets && !arrival.at_once {
            self.accumulated = 0.0;
            return Verdict::Drop;
        }
        if !self.unlucky(arrival.bytes, rng) {
            return Verdict::Pass;
        }
        let mark = self.ecn && arrival.ect && self.probability < MARK_BELOW;
        if mark { Verdict::Mark } else { Verdict::Drop }
    }

    fn leave(&mut self, head: &Head) -> Verdict {
        self.catch_up(head.now);
        self.delay = if head.behind == 0 { 0.0 } else { head.waited.as_secs_f64() };
        Verdict::Pass
    }

    fn on_empty(&mut self, now: Instant) {
        self.catch_up(now);
        self.delay = 0.0;
    }
}

#[cfg(test)]
mod tests;
