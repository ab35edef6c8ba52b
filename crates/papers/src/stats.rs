//! How far ours are from theirs: errors and rank correlation. For means see
//! [`tabane_trace::estimate`], for fairness [`tabane_trace::fairness`].

pub use tabane_trace::estimate::{Estimate, estimate, mean, median};
pub use tabane_trace::fairness::{jain, jain_over_time, summarise};

/// Mean absolute percentage error of pairs (theirs, ours), as a ratio. Pairs whose first is zero
/// have no percentage and are left out; `None` without any other.
pub fn mape(pairs: &[(f64, f64)]) -> Option<f64> {
    let errors: Vec<f64> = pairs
        .iter()
        .filter(|(theirs, _)| *theirs != 0.0)
        .map(|(theirs, ours)| ((ours - theirs) / theirs).abs())
        .collect();
    mean(&errors)
}

/// Spearman's rank correlation of pairs; ties have their mean rank. `None` with fewer than two
/// pairs, or where one side is all the same.
pub fn spearman(pairs: &[(f64, f64)]) -> Option<f64> {
    let theirs = ranks(&pairs.iter().map(|p| p.0).collect::<Vec<_>>());
    let ours = ranks(&pairs.iter().map(|p| p.1).collect::<Vec<_>>());
    pearson(&theirs, &ours)
}

/// Pearson's correlation; `None` with fewer than two values, or where one side is constant.
pub fn pearson(a: &[f64], b: &[f64]) -> Option<f64> {
    let (ma, mb) = (mean(a)?, mean(b)?);
    let both: f64 = a.iter().zip(b).map(|(x, y)| (x - ma) * (y - mb)).sum();
    let square = |values: &[f64], m: f64| values.iter().map(|x| (x - m) * (x - m)).sum::<f64>();
    let scale = (square(a, ma) * square(b, mb)).sqrt();
    (a.len() > 1 && scale > 0.0).then(|| both / scale)
}

/// Ranks from 1; equal values have their mean rank.
fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    let mut ranks = vec![0.0; values.len()];
    for group in order.chunk_by(|&a, &b| values[a] == values[b]) {
        let first = order.partition_point(|&i| values[i] < values[group[0]]);
        let rank = first as f64 + (group.len() as f64 + 1.0) / 2.0;
        group.iter().for_each(|&i| ranks[i] = rank);
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(a: Option<f64>, b: f64) -> bool {
        a.is_some_and(|a| (a - b).abs() < 1e-9)
    }

    #[test]
    fn errors_are_relative_to_theirs() {
        assert!(near(mape(&[(100.0, 110.0), (50.0, 40.0), (0.0, 3.0)]), 0.15));
        assert_eq!(mape(&[(0.0, 1.0)]), None);
    }

    /// The textbook example of IQ against hours of television, and ties.
    #[test]
    fn ranks_correlate() {
        let iq = [86.0, 97.0, 99.0, 100.0, 101.0, 103.0, 106.0, 110.0, 112.0, 113.0];
        let tv = [2.0, 20.0, 28.0, 27.0, 50.0, 29.0, 7.0, 17.0, 6.0, 12.0];
        let pairs: Vec<_> = iq.into_iter().zip(tv).collect();
        assert!(near(spearman(&pairs), -29.0 / 165.0));
        assert_eq!(ranks(&[3.0, 1.0, 3.0, 2.0]), [3.5, 1.0, 3.5, 2.0]);
        assert_eq!(spearman(&[(1.0, 5.0), (2.0, 5.0)]), None);
        assert!(near(spearman(&[(1.0, 5.0), (2.0, 9.0), (9.0, 10.0)]), 1.0));
    }
}
