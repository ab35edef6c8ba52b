//! What round trips that jitter tell of others.
//!
//! How long a flow waits for itself is a straight line of what it has in flight. What differs from
//! that line is jitter, which is independent from one moment to the next, or what others have in
//! the queue, which a moment later is about as much. Where residuals are independent, the squares
//! of steps from one to the next are twice the squares of the residuals (von Neumann's ratio, 1941;
//! Durbin and Watson, 1950); where each is like the one before, they are less. A link whose own
//! rate varies looks as if it had others.

/// Parts of round trips, each with what was in flight when it was sent, and their sums. Older ones
/// count less and less.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Others {
    parts: u32,
    /// The first part, which all are told from: in flight, bytes, and mean round trip, s.
    first: [f64; 2],
    latest: [f64; 2],
    weight: f64,
    sums: [f64; 2],
    /// Of the squares of the one, of both multiplied, and of the squares of the other.
    products: [f64; 3],
    /// The same of the steps from one part to the next.
    steps: [f64; 3],
}

impl Others {
    /// Parts that tell.
    const ENOUGH: u32 = 48;
    const KEEP: f64 = 47.0 / 48.0;
    /// Below `SEEN` others are there, above `MISSING` they are not. In simulations the ratio had
    /// a median of 0.5 to 1.0 beside five flows of Reno, and of 1.4 to 1.9 alone.
    const SEEN: f64 = 1.0;
    const MISSING: f64 = 1.4;

    /// A part has ended, of that mean round trip, s, and so many bytes in flight when it was sent.
    pub(super) fn on_part(&mut self, in_flight: f64, rtt: f64) {
        if self.parts == 0 {
            (self.first, self.latest) = ([in_flight, rtt], [0.0, 0.0]);
        }
        self.parts = self.parts.saturating_add(1);
        let now = [in_flight - self.first[0], rtt - self.first[1]];
        let step = [now[0] - self.latest[0], now[1] - self.latest[1]];
        self.latest = now;
        let keep = |of: &mut f64, more: f64| *of = *of * Self::KEEP + more;
        let products = |[x, y]: [f64; 2]| [x * x, x * y, y * y];
        keep(&mut self.weight, 1.0);
        self.sums.iter_mut().zip(now).for_each(|(of, more)| keep(of, more));
        self.products.iter_mut().zip(products(now)).for_each(|(of, more)| keep(of, more));
        self.steps.iter_mut().zip(products(step)).for_each(|(of, more)| keep(of, more));
    }

    /// What was told so far does not count.
    pub(super) fn begin(&mut self) {
        *self = Self::default();
    }

    /// Whether they are there.
    pub(super) fn are_seen(&self) -> bool {
        self.ratio().is_some_and(|ratio| ratio < Self::SEEN)
    }

    /// Whether they are not.
    pub(super) fn are_missing(&self) -> bool {
        self.ratio().is_some_and(|ratio| ratio > Self::MISSING)
    }

    /// Squares of steps of residuals over squares of residuals, once enough is known.
    fn ratio(&self) -> Option<f64> {
        if self.parts < Self::ENOUGH {
            return None;
        }
        let [x, y] = self.sums;
        let [xx, xy, yy] = self.products;
        let centred = |product: f64, one: f64, other: f64| product - one * other / self.weight;
        let (xx, xy, yy) = (centred(xx, x, x), centred(xy, x, y), centred(yy, y, y));
        let slope = if xx > 0.0 { xy / xx } else { 0.0 };
        let [step_xx, step_xy, step_yy] = self.steps;
        let residuals = yy - slope * xy;
        (residuals > 0.0).then(|| (step_yy - slope * (2.0 * step_xy - slope * step_xx)) / residuals)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After so many parts with jitter and a queue of others that is `kept` of what it was a part
    /// before, while as much is in flight as `in_flight` says of the part, which waits in a queue
    /// for as long as it takes at 1 MB/s.
    fn after(parts: u32, kept: f64, in_flight: impl Fn(u32) -> f64) -> Others {
        let mut state = 1_u64;
        let mut noise = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as f64 / f64::from(1_u32 << 31) - 0.5
        };
        let (mut others, mut queue) = (Others::default(), 0.0);
        for part in 0..parts {
            queue = queue * kept + if kept > 0.0 { noise() * 0.004 } else { 0.0 };
            let flight = in_flight(part);
            others.on_part(flight, 0.03 + flight / 1e6 + queue + noise() * 0.003);
        }
        others
    }

    #[test]
    fn a_queue_of_others_is_like_the_one_before_and_jitter_is_not() {
        assert!(after(100, 0.9, |_| 1e4).are_seen());
        let jitter = after(100, 0.0, |_| 1e4);
        assert!(jitter.are_missing() && !jitter.are_seen());
    }

    #[test]
    fn what_waits_for_oneself_is_no_other() {
        let sawtooth = |part: u32| 2e4 + f64::from(part % 24) * 1e3;
        assert!(after(100, 0.0, sawtooth).are_missing());
        assert!(after(100, 0.9, sawtooth).are_seen());
    }

    #[test]
    fn few_parts_tell_nothing_and_old_ones_are_forgotten() {
        let few = after(Others::ENOUGH - 1, 0.9, |_| 1e4);
        assert!(!few.are_seen() && !few.are_missing());
        let mut others = after(100, 0.9, |_| 1e4);
        others.begin();
        assert!(!others.are_seen() && !others.are_missing());
        // They leave, and only some jitter is left.
        let mut quiet = after(100, 0.9, |_| 1e4);
        for part in 0..400 {
            quiet.on_part(1e4, if part % 2 == 0 { 0.031 } else { 0.030 });
        }
        assert!(quiet.are_missing());
    }
}
