//! `cellular`: a link over a mobile network.
//!
//! What is known, and what the defaults follow:
//! - The rate changes by multiples within a second and follows no trend (Winstein, Sivaraman and
//!   Balakrishnan, "Stochastic Forecasts Achieve High Throughput and Low Delay over Cellular
//!   Networks", NSDI 2013, who model it as a Poisson process whose rate wanders): here a chain of
//!   nine states, evenly spaced in `1 - spread ..= 1 + spread` times the link's own rate, left for
//!   a neighbour after `dwell_ms` on average, one time in ten for any other. All are equally
//!   likely, so that the link's own rate is the mean.
//! - A base station serves a user in bursts: every `interval_ms` for a share `duty` of the time, at
//!   a rate that is higher by as much.
//! - Queues hold seconds (Jiang et al., "Tackling Bufferbloat in 3G/4G Networks", IMC 2012):
//!   `queue_s`, at the link's own rate, drop-tail.
//! - Handovers interrupt for some 30 ms in 4G and 110 ms in 5G beside 4G (Xu et al., "Understanding
//!   Operational 5G", SIGCOMM 2020), and lose little, since base stations forward: `handover_s` on
//!   average apart, `interruption_ms`, then any state and another delay, up to `step_ms` more one
//!   way.

use super::{Condition, Conditions, DelayIs, Phase, QueueIs, RateIs};
use crate::seed::Rng;
use tabane_engine::Duration;
use tabane_engine::policy::{Param, PolicyError, Values};

/// Parameters of the table row.
pub(super) const PARAMS: &[Param] = &[
    Param::new("spread", 0.8, 0.0..=1.0, "how far the rate strays from the link's own, as a share"),
    Param::new("dwell_ms", 250.0, 1.0..=1e6, "mean time between changes of the rate, ms"),
    Param::new("interval_ms", 8.0, 0.5..=1000.0, "time between bursts, ms"),
    Param::new("duty", 0.5, 0.01..=1.0, "share of that time in which packets are sent"),
    Param::new("queue_s", 2.0, 0.0..=60.0, "queue, s at the link's own rate; 0: the link's own"),
    Param::new("handover_s", 30.0, 0.1..=1e9, "mean time between handovers, s"),
    Param::new("interruption_ms", 50.0, 0.1..=60_000.0, "for how long they interrupt, ms"),
    Param::new("step_ms", 10.0, 0.0..=1000.0, "delay of a cell above the link's own, at most, ms"),
];

/// States of the rate.
const STATES: u64 = 9;
/// Changes that lead to any state.
const JUMPS: f64 = 0.1;

/// The model `cellular`.
pub(super) struct Cellular {
    spread: f64,
    dwell: Duration,
    interval: Duration,
    duty: f64,
    queue: Option<QueueIs>,
    between: Duration,
    interruption: Duration,
    step: f64,
    state: u64,
    more: Duration,
    /// Time left in the state, and until the next handover.
    state_left: Duration,
    handover_left: Duration,
    /// Pause that ends the present interval.
    pause: Duration,
    begun: bool,
}

impl Cellular {
    pub(super) fn build(values: &Values<'_>) -> Result<Box<dyn Conditions>, PolicyError> {
        let time = |s: f64| Duration::from_secs_f64(s);
        let queue = time(values.get("queue_s"));
        Ok(Box::new(Self {
            spread: values.get("spread"),
            dwell: time(values.get("dwell_ms") / 1e3),
            interval: time(values.get("interval_ms") / 1e3),
            duty: values.get("duty"),
            queue: (!queue.is_zero()).then_some(QueueIs::Time(queue)),
            between: time(values.get("handover_s")),
            interruption: time(values.get("interruption_ms") / 1e3),
            step: values.get("step_ms") / 1e3,
            state: 0,
            more: Duration::ZERO,
            state_left: Duration::ZERO,
            handover_left: Duration::ZERO,
            pause: Duration::ZERO,
            begun: false,
        }))
    }

    /// Another cell: any state, another delay.
    fn attach(&mut self, rng: &mut Rng) {
        self.state = rng.between(0, STATES - 1);
        self.more = Duration::from_secs_f64(rng.uniform() * self.step);
        self.state_left = rng.exponential_span(self.dwell);
        self.handover_left = rng.exponential_span(self.between);
    }

    fn move_on(&mut self, rng: &mut Rng) {
        let (any, jumps, up) = (rng.between(0, STATES - 1), rng.chance(JUMPS), rng.chance(0.5));
        // Staying at a border keeps all states equally likely.
        self.state = match (jumps, up) {
            (true, _) => any,
            (false, true) => (self.state + 1).min(STATES - 1),
            (false, false) => self.state.saturating_sub(1),
        };
        self.state_left = rng.exponential_span(self.dwell);
    }

    fn phase(&self, times: f64, lasts: Duration) -> Phase {
        let rate = RateIs::Times(times);
        let delay = DelayIs::More(self.more);
        Phase { condition: Condition { rate, delay, loss: None, queue: self.queue }, lasts }
    }
}

impl Conditions for Cellular {
    fn next(&mut self, rng: &mut Rng) -> Option<Phase> {
        if !self.begun {
            self.begun = true;
            self.attach(rng);
        }
        if !self.pause.is_zero() {
            let pause = std::mem::take(&mut self.pause);
            return Some(self.phase(0.0, pause));
        }
        if self.handover_left.is_zero() {
            self.attach(rng);
            return Some(self.phase(0.0, self.interruption));
        }
        if self.state_left.is_zero() {
            self.move_on(rng);
        }
        self.state_left = self.state_left.saturating_sub(self.interval);
        self.handover_left = self.handover_left.saturating_sub(self.interval);
        let place = self.state as f64 / (STATES - 1) as f64 * 2.0 - 1.0;
        let busy = Duration::from_secs_f64(self.interval.as_secs_f64() * self.duty);
        self.pause = self.interval.saturating_sub(busy);
        Some(self.phase((1.0 + self.spread * place) / self.duty, busy))
    }
}
