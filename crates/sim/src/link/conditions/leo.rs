//! `leo`: a link over satellites in low orbit, as Starlink has it.
//!
//! What is known, and what the defaults follow:
//! - A global scheduler assigns terminals to satellites every 15 s, everywhere at the same moments
//!   (Tanveer et al., "Making Sense of Constellations", CoNEXT 2023; Mohan et al., "A Multifaceted
//!   Look at Starlink Performance", WWW 2024): `slot_s`.
//! - At these moments the least RTT steps by up to some 20 ms, and stays within a slot (Huston, "A
//!   Transport Protocol's View of Starlink", 2024): `step_ms`, half of it each way.
//! - Packets are lost around them, 1 to 2 % of all packets on average (Huston 2024; Michel et al.,
//!   "A First Look at Starlink Performance", IMC 2022): 20 % during 0.8 s of 15 are 1.1 %
//!   (`burst_ms`, `burst_loss`). A quarter of the burst comes before the moment.
//! - For a moment nothing is sent: `outage_ms`.
//! - The rate differs from slot to slot and wanders within one (Garcia et al., "Multi-Timescale
//!   Evaluation of Starlink Throughput", LEO-NET 2023): `spread` is its deviation over its mean.
//!
//! The shape within these figures is ours: the rate is the link's own times a normal process in
//! steps of a second, correlated by 0.95 within a slot and by 0.5 across slots.

use super::{Condition, Conditions, DelayIs, Phase, RateIs};
use crate::seed::Rng;
use std::collections::VecDeque;
use tabane_engine::Duration;
use tabane_engine::policy::{Param, PolicyError, Values};

/// Parameters of the table row.
pub(super) const PARAMS: &[Param] = &[
    Param::new("slot_s", 15.0, 2.0..=3600.0, "time between reconfigurations, s"),
    Param::new("outage_ms", 150.0, 0.0..=1000.0, "for how long nothing is sent then, ms"),
    Param::new("burst_ms", 800.0, 0.0..=1900.0, "for how long packets are lost around it, ms"),
    Param::new("burst_loss", 0.2, 0.0..=1.0, "share of packets lost then"),
    Param::new("step_ms", 20.0, 0.0..=1000.0, "RTT above the link's own, at most, ms"),
    Param::new("spread", 0.2, 0.0..=1.0, "deviation of the rate from the link's own"),
];

/// Steps of the rate.
const STEP: Duration = Duration::from_secs(1);
/// Correlation of the rate from step to step, and from slot to slot.
const WITHIN: f64 = 0.95;
const ACROSS: f64 = 0.5;
/// Of the burst before the reconfiguration.
const BEFORE: f64 = 0.25;
/// The rate stays within these multiples of the link's own.
const RATES: (f64, f64) = (0.1, 1.9);

/// The model `leo`.
pub(super) struct Leo {
    slot: Duration,
    outage: Duration,
    before: Duration,
    after: Duration,
    loss: f64,
    step: f64,
    spread: f64,
    /// Normal with deviation 1.
    level: f64,
    /// Phases of the present slot that are to come.
    phases: VecDeque<Phase>,
    begun: bool,
}

impl Leo {
    pub(super) fn build(values: &Values<'_>) -> Result<Box<dyn Conditions>, PolicyError> {
        let ms = |ms: f64| Duration::from_secs_f64(ms / 1e3);
        let burst = values.get("burst_ms");
        Ok(Box::new(Self {
            slot: Duration::from_secs_f64(values.get("slot_s")),
            outage: ms(values.get("outage_ms")),
            before: ms(burst * BEFORE),
            after: ms(burst * (1.0 - BEFORE)),
            loss: values.get("burst_loss"),
            step: values.get("step_ms") / 1e3,
            spread: values.get("spread"),
            level: 0.0,
            phases: VecDeque::new(),
            begun: false,
        }))
    }

    fn wander(&mut self, correlation: f64, rng: &mut Rng) {
        let fresh = (1.0 - correlation * correlation).sqrt();
        self.level = correlation * self.level + fresh * rng.normal();
    }

    fn push(&mut self, condition: Condition, lasts: Duration) {
        if !lasts.is_zero() {
            self.phases.push_back(Phase { condition, lasts });
        }
    }

    /// The phases of a slot from `skip` on: outage, the rest of the burst, calm steps, and the
    /// beginning of the next burst.
    fn slot(&mut self, skip: Duration, rng: &mut Rng) {
        self.wander(ACROSS, rng);
        // One way, as both directions have it.
        let more = Duration::from_secs_f64(rng.uniform() * self.step / 2.0);
        let calm = |level: f64, spread: f64| Condition {
            rate: RateIs::Times((1.0 + spread * level).clamp(RATES.0, RATES.1)),
            delay: DelayIs::More(more),
            ..Condition::default()
        };
        let lossy = |condition: Condition, loss| Condition { loss: Some(loss), ..condition };
        let mut left = self.slot.saturating_sub(self.before + skip);
        if skip.is_zero() {
            let now = lossy(calm(self.level, self.spread), self.loss);
            self.push(Condition { rate: RateIs::Times(0.0), ..now }, self.outage);
            self.push(now, self.after.saturating_sub(self.outage));
            left = left.saturating_sub(self.after.max(self.outage));
        }
        while !left.is_zero() {
            self.push(calm(self.level, self.spread), left.min(STEP));
            left = left.saturating_sub(STEP);
            self.wander(WITHIN, rng);
        }
        self.push(lossy(calm(self.level, self.spread), self.loss), self.before);
    }
}

impl Conditions for Leo {
    fn next(&mut self, rng: &mut Rng) -> Option<Phase> {
        while self.phases.is_empty() {
            // A run begins anywhere in a slot but in its first second.
            let first =
                Duration::from_secs_f64(1.0 + rng.uniform() * (self.slot.as_secs_f64() - 1.2));
            let skip = if self.begun { Duration::ZERO } else { first };
            self.begun = true;
            self.slot(skip, rng);
        }
        self.phases.pop_front()
    }
}
