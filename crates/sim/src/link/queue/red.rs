//! RED (Floyd and Jacobson, 1993): drops or marks at random, with a probability that grows with
//! the average queue length; gentle above the upper threshold (Floyd, 2000).
//!
//! Lengths are in packets, and a packet's size does not change its probability. Forced drops (the
//! limit, and an average beyond the last threshold) are never marks (RFC 3168 section 7).

use super::{Arrival, Queue, Verdict};
use crate::seed::Rng;
use tabane_engine::Instant;
use tabane_engine::policy::{Param, PolicyError, Values};

/// Parameters of the table row.
pub(super) const PARAMS: &[Param] = &[
    Param::new("min", 5.0, 0.0..=1e6, "average length, packets, from which it drops at random"),
    Param::new(
        "max",
        15.0,
        1e-6..=1e9,
        "average length at which the probability is max_p; not given: at least 3 times `min`",
    ),
    Param::new("max_p", 0.1, 0.0..=1.0, "probability at `max`"),
    Param::new("weight", 0.002, 1e-6..=1.0, "weight of the present length in the average"),
    Param::count("packets", 100.0, 1.0..=1e9, "most packets that wait"),
    Param::switch(
        "gentle",
        true,
        "1: from `max` to twice `max` the probability grows to 1; 0: it jumps to 1",
    ),
    Param::switch("ecn", true, "1: mark packets that allow it instead of dropping them at random"),
];

/// The queue `red`.
pub(super) struct Red {
    min: f64,
    max: f64,
    max_p: f64,
    weight: f64,
    packets: usize,
    gentle: bool,
    ecn: bool,
    average: f64,
    /// Packets since the last random drop; `None` while the average is below `min`.
    count: Option<u32>,
    /// Since when nothing waits and nothing is sent.
    idle_since: Option<Instant>,
}

/// What the average alone says.
enum Band {
    Free,
    Random(f64),
    Forced,
}

impl Red {
    pub(super) fn build(values: &Values<'_>) -> Result<Box<dyn Queue>, PolicyError> {
        let min = values.get("min");
        let max = values.given("max").unwrap_or((3.0 * min).max(values.get("max")));
        if max < min + 1e-6 {
            return Err(PolicyError::OutOfRange { name: "max", value: max, low: min, high: 1e9 });
        }
        Ok(Box::new(Self {
            min,
            max,
            max_p: values.get("max_p"),
            weight: values.get("weight"),
            packets: values.get("packets") as usize,
            gentle: values.is_on("gentle"),
            ecn: values.is_on("ecn"),
            average: 0.0,
            count: None,
            idle_since: Some(Instant::ZERO),
        }))
    }

    /// While idle, as if packets had come and gone at the usual pace, finding nothing waiting. A
    /// link may be idle and yet not ready: it waits for its turn (of a trace, of a medium).
    fn update(&mut self, arrival: &Arrival, idle_since: Option<Instant>) {
        match idle_since {
            Some(since) => {
                let gone = (arrival.now - since).0.checked_div(arrival.service.0).unwrap_or(0);
                self.average *= power(1.0 - self.weight, gone);
            }
            None => self.average += self.weight * (arrival.packets as f64 - self.average),
        }
    }

    fn band(&self) -> Band {
        let (average, max) = (self.average, self.max);
        if average < self.min {
            Band::Free
        } else if average < max {
            Band::Random(self.max_p * (average - self.min) / (max - self.min))
        } else if self.gentle && average < 2.0 * max {
            Band::Random(self.max_p + (1.0 - self.max_p) * (average - max) / max)
        } else {
            Band::Forced
        }
    }

    /// Spreads drops evenly: a probability that grows with each packet passed.
    fn unlucky(&mut self, p: f64, rng: &mut Rng) -> bool {
        let count = self.count.map_or(0, |c| c.saturating_add(1));
        let spread = 1.0 - f64::from(count) * p;
        let unlucky = spread <= 0.0 || rng.chance(p / spread);
        self.count = Some(if unlucky { 0 } else { count });
        unlucky
    }

    fn judge(&mut self, arrival: &Arrival, rng: &mut Rng) -> Verdict {
        if arrival.packets >= self.packets && !arrival.at_once {
            self.count = Some(0);
            return Verdict::Drop;
        }
        match self.band() {
            Band::Free => {
                self.count = None;
                Verdict::Pass
            }
            Band::Random(p) if self.unlucky(p, rng) => {
                if self.ecn && arrival.ect {
                    Verdict::Mark
                } else {
                    Verdict::Drop
                }
            }
            Band::Random(_) => Verdict::Pass,
            Band::Forced => {
                self.count = Some(0);
                Verdict::Drop
            }
        }
    }
}

impl Queue for Red {
    fn admit(&mut self, arrival: &Arrival, rng: &mut Rng) -> Verdict {
        let idle_since = self.idle_since.take();
        self.update(arrival, idle_since);
        let verdict = self.judge(arrival, rng);
        if verdict == Verdict::Drop && idle_since.is_some() {
            // The link remains idle.
            self.idle_since = Some(arrival.now);
        }
        verdict
    }

    fn on_empty(&mut self, now: Instant) {
        self.idle_since = Some(now);
    }
}

/// `base` to the `exponent`, by squaring: the same on every machine.
fn power(base: f64, exponent: u64) -> f64 {
    let (mut result, mut square, mut left) = (1.0, base, exponent);
    while left > 0 {
        if left & 1 == 1 {
            result *= square;
        }
        square *= square;
        left >>= 1;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::super::build;
    use super::*;
    use crate::seed::Seed;
    use tabane_engine::Duration;

    fn arrival(packets: usize, ect: bool) -> Arrival {
        let (now, service) = (Instant(1), Duration::from_millis(1));
        Arrival { now, len: 1500, ect, packets, bytes: 0, at_once: false, service, subqueue: 0 }
    }

    /// The queue after so many packets that found it of such a length.
    fn after(spec: &str, packets: u32, length: usize, ect: bool) -> (Box<dyn Queue>, Rng) {
        let mut red = build(&spec.parse().unwrap()).unwrap();
        let mut rng = Seed(1).stream("red");
        for _ in 0..packets {
            red.admit(&arrival(length, ect), &mut rng);
        }
        (red, rng)
    }

    /// Share of packets not passed at a constant length, after the average has settled.
    fn share(spec: &str, length: usize, kind: Verdict, ect: bool) -> f64 {
        let (mut red, mut rng) = after(spec, 20_000, length, ect);
        let n = 200_000;
        let hits = (0..n).filter(|_| red.admit(&arrival(length, ect), &mut rng) == kind).count();
        hits as f64 / f64::from(n)
    }

    /// With the count, gaps between drops are uniform in 1 ..= 1/p - 1 (the packet after a drop
    /// counts as the first): the mean share is 2p.
    fn spread(p: f64) -> f64 {
        2.0 * p
    }

    #[test]
    fn the_probability_follows_the_average() {
        let near = |share: f64, p: f64| assert!((share - p).abs() < 0.01 * p.max(0.1), "{share}");
        near(share("red", 4, Verdict::Drop, false), 0.0);
        near(share("red", 10, Verdict::Drop, false), spread(0.05));
        near(share("red", 31, Verdict::Drop, false), 1.0);
        near(share("red:gentle=0", 16, Verdict::Drop, false), 1.0);
        // 18 is one fifth of the way from 15 to 30: 0.1 + 0.9 / 5 = 0.28.
        // Gaps: 0.28 / 0.72 to be 1, of the rest 0.28 / 0.44 to be 2, else 3. Mean 1.833.
        let gentle = share("red", 18, Verdict::Drop, false);
        assert!((gentle - 1.0 / 1.833).abs() < 0.005, "{gentle}");
    }

    #[test]
    fn packets_that_allow_it_are_marked_instead_except_when_forced() {
        assert_eq!(share("red", 10, Verdict::Drop, true), 0.0);
        assert!((share("red", 10, Verdict::Mark, true) - spread(0.05)).abs() < 0.002);
        assert_eq!(share("red:ecn=0", 10, Verdict::Mark, true), 0.0);
        assert_eq!(share("red", 31, Verdict::Drop, true), 1.0);
        assert_eq!(share("red:packets=8", 8, Verdict::Drop, true), 1.0);
    }

    #[test]
    fn the_average_decays_while_idle() {
        let (mut red, mut rng) = after("red:weight=0.1", 200, 40, false);
        assert_eq!(red.admit(&arrival(0, false), &mut rng), Verdict::Drop, "average about 36");
        red.on_empty(Instant(0));
        let now = Instant(0) + Duration::from_millis(60);
        let late = Arrival { now, at_once: true, ..arrival(0, false) };
        // 36 x 0.9^60 = 0.065.
        assert_eq!(red.admit(&late, &mut rng), Verdict::Pass);
    }

    /// Or senders that try once a second would be refused for ever.
    #[test]
    fn the_average_decays_between_packets_that_are_dropped_from_an_idle_link() {
        let (mut red, mut rng) = after("red", 20_000, 40, false);
        red.on_empty(Instant(0));
        let at = |ms| Instant(0) + Duration::from_millis(ms);
        let lone = |ms| Arrival { now: at(ms), at_once: true, ..arrival(0, false) };
        assert_eq!(red.admit(&lone(1), &mut rng), Verdict::Drop);
        // 40 x 0.998^2000 = 0.7.
        assert_eq!(red.admit(&lone(2_000), &mut rng), Verdict::Pass);
    }

    /// Nor where a link is idle and still not ready: that of a trace, or of a medium.
    #[test]
    fn the_average_decays_while_an_idle_link_waits_for_its_turn() {
        let (mut red, mut rng) = after("red", 20_000, 40, false);
        red.on_empty(Instant(0));
        let at = |ms| Instant(0) + Duration::from_millis(ms);
        let lone = |ms| Arrival { now: at(ms), ..arrival(0, false) };
        assert_eq!(red.admit(&lone(1), &mut rng), Verdict::Drop);
        assert_eq!(red.admit(&lone(2_000), &mut rng), Verdict::Pass);
    }

    #[test]
    fn powers_by_squaring() {
        assert_eq!(power(0.5, 10), 1.0 / 1024.0);
        assert_eq!(power(0.3, 0), 1.0);
        assert!(power(0.998, u64::MAX) < 1e-100);
    }
}
