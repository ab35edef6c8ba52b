//! Quantiles of many samples in little memory: a histogram whose buckets are 1/128 of their
//! value wide, so that a quantile is right within 0.8 % (exact below 256 units).

use std::collections::BTreeMap;

/// Counts of samples by size. At most 7,500 buckets, in practice some dozens.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Histogram {
    buckets: BTreeMap<u16, u64>,
    count: u64,
    sum: u128,
    min: u64,
    max: u64,
}

/// Bits of a value that its bucket keeps beside its magnitude.
const KEPT_BITS: u32 = 7;

impl Histogram {
    pub fn add(&mut self, value: u64) {
        *self.buckets.entry(bucket(value)).or_default() += 1;
        self.min = if self.count == 0 { value } else { self.min.min(value) };
        self.max = self.max.max(value);
        self.count += 1;
        self.sum += u128::from(value);
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    /// Arithmetic mean, exact.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }

    /// The smallest value that at least `q` (0 to 1) of the samples do not exceed: middle of its
    /// bucket. The extremes are exact.
    pub fn quantile(&self, q: f64) -> Option<u64> {
        if self.count == 0 {
            return None;
        }
        let rank = ((q * self.count as f64).ceil() as u64).clamp(1, self.count);
        if rank == 1 {
            return Some(self.min);
        }
        if rank == self.count {
            return Some(self.max);
        }
        let mut seen = 0;
        for (&index, &n) in &self.buckets {
            seen += n;
            if seen >= rank {
                return Some(middle(index).clamp(self.min, self.max));
            }
        }
        Some(self.max)
    }
}

fn bucket(value: u64) -> u16 {
    let shift = (64 - value.leading_zeros()).saturating_sub(KEPT_BITS + 1);
    (shift << (KEPT_BITS + 1)) as u16 + (value >> shift) as u16
}

fn middle(index: u16) -> u64 {
    let shift = u32::from(index) >> (KEPT_BITS + 1);
    let low = (u64::from(index) & ((1 << (KEPT_BITS + 1)) - 1)) << shift;
    low + ((1 << shift) - 1) / 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nothing_has_no_quantile() {
        assert_eq!(Histogram::default().quantile(0.5), None);
        assert_eq!(Histogram::default().mean(), None);
    }

    proptest! {
        #[test]
        fn quantiles_are_within_one_percent(
            mut values in proptest::collection::vec(0_u64..u64::MAX, 1..200),
            q in 0.0_f64..=1.0,
        ) {
            let mut histogram = Histogram::default();
            values.iter().for_each(|&v| histogram.add(v));
            values.sort_unstable();
            let rank = ((q * values.len() as f64).ceil() as usize).clamp(1, values.len());
            let exact = values[rank - 1] as f64;
            let got = histogram.quantile(q).unwrap() as f64;
            prop_assert!((got - exact).abs() <= exact * 0.01, "{got} for {exact}");
        }
    }
}
