//! From values to places: where an axis begins and ends, and its ticks.

use crate::figure::Axis;

/// A linear or logarithmic scale onto `from..to` of the page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    pub(super) low: f64,
    pub(super) high: f64,
    log: bool,
    from: f64,
    to: f64,
}

impl Scale {
    /// Fits `values` into the page's `from..to`. Bars and rates begin at zero: an axis that says
    /// nothing does too, unless all values are far above it.
    pub(super) fn fit(
        axis: &Axis,
        values: impl Iterator<Item = f64>,
        (from, to): (f64, f64),
        from_zero: bool,
    ) -> Self {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.filter(|v| v.is_finite() && (!axis.log || *v > 0.0)) {
            (low, high) = (low.min(value), high.max(value));
        }
        if low > high {
            (low, high) = (0.0, 1.0);
        }
        let (low, high) = match (axis.log, from_zero) {
            (true, _) => (low / 1.15, high * 1.15),
            (false, true) => (low.min(0.0), nice(high.max(0.0))),
            (false, false) => (low, high),
        };
        let (low, high) = (axis.low.unwrap_or(low), axis.high.unwrap_or(high));
        let high = if high > low { high } else { low + 1.0 };
        let log = axis.log && low > 0.0;
        Self { low, high, log, from, to }
    }

    pub(super) fn place(&self, value: f64) -> f64 {
        let share = if self.log {
            let value = value.max(self.low * 1e-3);
            (value / self.low).log10() / (self.high / self.low).log10()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        self.from + share.clamp(-0.02, 1.02) * (self.to - self.from)
    }

    /// Values worth a line, with their words; about `most` of them.
    pub(super) fn ticks(&self, most: usize) -> Vec<(f64, String)> {
        if self.log {
            return self.log_ticks();
        }
        let step = nice((self.high - self.low) / most.max(1) as f64);
        let first = (self.low / step - 1e-9).ceil() as i64;
        let last = (self.high / step + 1e-9).floor() as i64;
        let digits = if step >= 1.0 { 0 } else { (-step.log10() - 1e-9).ceil().max(0.0) as usize };
        (first..=last)
            .take(50)
            .map(|n| n as f64 * step)
            .map(|value| (value, trimmed(&format!("{value:.*}", digits + 1))))
            .collect()
    }

    fn log_ticks(&self) -> Vec<(f64, String)> {
        let decades = (self.high / self.low).log10();
        let digits: &[f64] = if decades <= 2.0 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let mut ticks = Vec::new();
        let mut power = 10f64.powi(self.low.log10().floor() as i32);
        while power <= self.high && ticks.len() < 50 {
            for digit in digits {
                let value = digit * power;
                if (self.low..=self.high).contains(&value) {
                    ticks.push((value, trimmed(&format!("{value:.6}"))));
                }
            }
            power *= 10.0;
        }
        ticks
    }
}

/// 1, 2, 2.5 or 5 times a power of ten, at least `value`.
fn nice(value: f64) -> f64 {
    if value <= 0.0 || !value.is_finite() {
        return 1.0;
    }
    let power = 10f64.powf(value.log10().floor());
    let steps = [1.0, 2.0, 2.5, 5.0, 10.0];
    steps.iter().map(|s| s * power).find(|s| *s >= value * 0.999_999).unwrap_or(10.0 * power)
}

fn trimmed(text: &str) -> String {
    if text.contains('.') {
        let text = text.trim_end_matches('0').trim_end_matches('.');
        return if text == "-0" { "0".to_owned() } else { text.to_owned() };
    }
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticks(axis: &Axis, values: &[f64], most: usize) -> Vec<String> {
        let scale = Scale::fit(axis, values.iter().copied(), (0.0, 100.0), true);
        scale.ticks(most).into_iter().map(|t| t.1).collect()
    }

    #[test]
    fn axes_end_on_round_numbers() {
        assert_eq!(ticks(&Axis::new(""), &[3.0, 47.0], 5), ["0", "10", "20", "30", "40", "50"]);
        assert_eq!(ticks(&Axis::new(""), &[0.9], 5), ["0", "0.2", "0.4", "0.6", "0.8", "1"]);
        assert_eq!(ticks(&Axis::new(""), &[], 2), ["0", "0.5", "1"]);
    }

    #[test]
    fn logarithmic_axes_have_decades() {
        let axis = Axis { log: true, ..Axis::new("") };
        assert_eq!(ticks(&axis, &[1.0, 9_000.0, 0.0], 5), ["1", "10", "100", "1000", "10000"]);
        let scale = Scale::fit(&axis, [1.0, 100.0].into_iter(), (0.0, 100.0), true);
        assert!((scale.place(10.0) - 50.0).abs() < 1e-9);
    }
}
