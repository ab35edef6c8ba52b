//! Drawing from distributions: the laws by inversion or from normal numbers, with logarithm and
//! exponential of our own, so that every machine draws the same; files of values as they are.

use super::Builder;
use super::table::{Table, TableError};
use crate::scenario::{Drawable, Fault, Law, Spread, within};
use crate::seed::{Rng, exp, ln};
use std::fmt::Display;
use std::marker::PhantomData;
use std::sync::Arc;

/// A stream of values from a distribution.
pub(super) struct Draw<T> {
    law: Law,
    /// For [`Law::File`].
    values: Arc<Values>,
    rng: Rng,
    quantity: PhantomData<T>,
}

/// Measured values with their shares.
#[derive(Default)]
struct Values {
    /// Cumulative share, and value in smallest units; both ascend.
    points: Vec<(f64, f64)>,
    /// Values between two points occur too.
    is_continuous: bool,
}

impl Builder<'_> {
    /// A stream called `name` of what `spread` says; `at` is its place in the file.
    pub(super) fn draw<T: Drawable>(
        &mut self,
        at: &[&dyn Display],
        name: &str,
        spread: &Spread<T>,
    ) -> Result<Draw<T>, Fault> {
        let values = match &spread.law {
            Law::File(file) => {
                let table = self.files.table(file).map_err(|text| Fault::new(at, text))?;
                let wrong = |e: TableError| Fault::new(at, format!("'{file}': {e}"));
                Values::read::<T>(&table).map_err(wrong)?
            }
            _ => Values::default(),
        };
        let (values, rng) = (Arc::new(values), self.seed().stream(name));
        Ok(Draw { law: spread.law.clone(), values, rng, quantity: PhantomData })
    }
}

impl<T: Drawable> Draw<T> {
    /// The next value. Draws equally often whatever comes out.
    pub(super) fn next(&mut self) -> T {
        let rng = &mut self.rng;
        T::from_units(match self.law {
            Law::Fixed(value) => value,
            Law::Uniform(least, most) => least + (most - least) * rng.uniform(),
            Law::Normal(mean, deviation) => mean + deviation * rng.normal(),
            Law::LogNormal(median, factor) => median * exp(rng.normal() * ln(factor)),
            Law::Exponential(mean) => mean * rng.exponential(),
            Law::Pareto(least, shape, most) => (least * exp(rng.exponential() / shape)).min(most),
            Law::File(_) => self.values.at(rng.uniform()),
        })
    }
}

impl Values {
    /// Of a file with a column of values and one of their shares: `cumulative`, up to 1 and
    /// straight in between, or `weight`, of any sum. Without, each row is as likely.
    fn read<T: Drawable>(table: &Table) -> Result<Self, TableError> {
        let columns = T::COLUMNS;
        let names: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
        table.only(&[&names[..], &["cumulative", "weight"]].concat())?;
        let Some(value) = table.one_of(columns)? else {
            let message = format!("no column of values; write {}", names.join(" or "));
            return Err(TableError::new(1, message));
        };
        let share = table.one_of(&[("cumulative", 1.0), ("weight", 1.0)])?;
        let is_continuous = table.column("cumulative").is_some();
        let mut points: Vec<(f64, f64)> = Vec::new();
        let mut sum = 0.0;
        for row in table.rows() {
            let value = table.needed(row, value)?;
            let share = share.map(|column| table.needed(row, column)).transpose()?.unwrap_or(1.0);
            let (before, smaller) = points.last().copied().unwrap_or((0.0, 0.0));
            sum = if is_continuous { share } else { before + share };
            if is_continuous && (share < before || share > 1.0 || value < smaller) {
                let message = "values and cumulative shares ascend, and shares end at 1";
                return Err(TableError::new(row.line, message));
            }
            // What a cumulative distribution begins with may be no value itself.
            if !is_continuous || sum > 0.0 {
                let wrong = |range| TableError::new(row.line, format!("a value is {range}"));
                within::<T>(value).map_err(wrong)?;
            }
            points.push((sum, value));
        }
        let last = table.rows().last().map_or(1, |row| row.line);
        if is_continuous && sum != 1.0 {
            return Err(TableError::new(
                last,
                format!("the last cumulative share is {sum}, not 1"),
            ));
        }
        if sum <= 0.0 {
            return Err(TableError::new(last, "all weights are 0"));
        }
        Ok(Self { points, is_continuous })
    }

    /// The value that this share of all (0 up to, and without, 1) does not exceed.
    fn at(&self, share: f64) -> f64 {
        let Some(&(sum, highest)) = self.points.last() else { return 0.0 };
        let share = share * sum;
        let n = self.points.partition_point(|(upto, _)| *upto <= share);
        let Some(&(upto, value)) = self.points.get(n) else { return highest };
        match n.checked_sub(1).map(|before| self.points[before]) {
            Some((from, smaller)) if self.is_continuous => {
                smaller + (value - smaller) * (share - from) / (upto - from)
            }
            _ => value,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed::Seed;
    use tabane_config::quantity::{Size, Time};

    fn values(text: &str) -> Result<Values, String> {
        let table = Table::parse(text).map_err(|e| e.to_string())?;
        Values::read::<Size>(&table).map_err(|e| e.to_string())
    }

    #[test]
    fn cumulative_shares_are_straight_between_their_points() {
        let sizes = values("size_kb,cumulative\n1,0.5\n3,0.75\n11,1\n").unwrap();
        let at = [0.0, 0.4, 0.625, 0.875].map(|share| sizes.at(share));
        assert_eq!(at, [1e3, 1e3, 2e3, 7e3]);
    }

    #[test]
    fn weights_may_have_any_sum() {
        let sizes = values("weight,size_bytes\n3,10\n0,15\n1,20\n").unwrap();
        assert_eq!([0.0, 0.74, 0.76, 0.99].map(|s| sizes.at(s)), [10.0, 10.0, 20.0, 20.0]);
        let alike = values("size_bytes\n1\n2\n").unwrap();
        assert_eq!([0.49, 0.51].map(|s| alike.at(s)), [1.0, 2.0]);
    }

    #[test]
    fn what_is_no_distribution_is_refused_with_its_line() {
        let wrong = |text: &str| values(text).err().expect("refused");
        assert_eq!(
            wrong("size_kb,cumulative\n1,0.5\n"),
            "line 2: the last cumulative share is 0.5, not 1"
        );
        assert!(wrong("size_kb,cumulative\n1,NaN\n").contains("line 2: cumulative is 'NaN'"));
        assert!(wrong("size_kb,cumulative\n5,0.5\n4,1\n").contains("ascend"));
        assert!(wrong("size_kb,weight\n5,0\n").contains("all weights are 0"));
        assert!(wrong("size_kb,size_mb\n5,0\n").contains("say the same"));
        assert!(wrong("bytes\n5\n").contains("unknown column 'bytes'; known: size_bytes"));
        assert!(wrong("weight\n5\n").contains("no column of values"));
        assert!(wrong("size_kb\n5\n0\n").starts_with("line 3: a value is not between 1B and"));
        assert!(values("size_kb,cumulative\n0,0\n11,1\n").is_ok());
    }

    /// Published results depend on these numbers.
    #[test]
    fn draws_stay_what_they_are() {
        let draw = |text: &str| {
            let spread: Spread<Time> = text.parse().unwrap();
            let (values, rng) = (Arc::default(), Seed(1).stream("a"));
            let mut draw = Draw { law: spread.law, values, rng, quantity: PhantomData };
            let Time(time) = draw.next();
            time.0
        };
        let laws = [
            "10ms",
            "uniform 10ms 20ms",
            "exponential 10ms",
            "normal 10ms 1ms",
            "lognormal 10ms 2",
            "pareto 10ms 1.5 1s",
        ];
        let nanos = [10_000_000, 15_952_415, 9_044_647, 10_739_840, 16_699_913, 18_275_503];
        assert_eq!(laws.map(draw), nanos);
    }
}
