//! Who gets how much: Jain's index (Jain, Chiu, Hawe 1984), whole and over time.

use std::collections::VecDeque;

/// Jain's index of shares: 1 when all are equal, 1/n when one has everything. Nobody having
/// anything counts as fair.
pub fn jain(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|x| x * x).sum();
    if squares == 0.0 {
        return 1.0;
    }
    sum * sum / (shares.len() as f64 * squares)
}

/// Jain's index over sliding windows of `width` bins: one value per bin from the first full
/// window on, dated at the window's last bin. Series may differ in length (the rest is zero).
pub fn jain_over_time(series: &[Vec<f64>], width: usize) -> Vec<(usize, f64)> {
    let width = width.max(1);
    let bins = series.iter().map(Vec::len).max().unwrap_or(0);
    let mut sums = vec![0.0; series.len()];
    let mut window: VecDeque<Vec<f64>> = VecDeque::new();
    let mut out = Vec::new();
    for bin in 0..bins {
        let now: Vec<f64> = series.iter().map(|s| s.get(bin).copied().unwrap_or(0.0)).collect();
        sums.iter_mut().zip(&now).for_each(|(sum, x)| *sum += x);
        window.push_back(now);
        if window.len() > width {
            let gone = window.pop_front().expect("invariant: longer than width >= 1");
            sums.iter_mut().zip(gone).for_each(|(sum, x)| *sum -= x);
        }
        if window.len() == width {
            // Subtracting may leave a rounding error below zero.
            let shares: Vec<f64> = sums.iter().map(|x| x.max(0.0)).collect();
            out.push((bin, jain(&shares)));
        }
    }
    out
}

/// Figures of a run of Jain's index: mean, the value that 5 % lie below, time share below 0.9.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct JainSummary {
    pub mean: f64,
    pub p05: f64,
    /// Fraction of windows below 0.9.
    pub unfair: f64,
}

/// Summarises windows; `None` without any.
pub fn summarise(windows: &[(usize, f64)]) -> Option<JainSummary> {
    let mut values: Vec<f64> = windows.iter().map(|w| w.1).collect();
    if values.is_empty() {
        return None;
    }
    values.sort_unstable_by(f64::total_cmp);
    let n = values.len();
    let below = values.iter().filter(|&&v| v < 0.9).count();
    Some(JainSummary {
        mean: values.iter().sum::<f64>() / n as f64,
        p05: values[(n - 1) * 5 / 100],
        unfair: below as f64 / n as f64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jain_knows_its_extremes() {
        assert_eq!(jain(&[5.0, 5.0, 5.0]), 1.0);
        assert_eq!(jain(&[9.0, 0.0, 0.0]), 1.0 / 3.0);
        assert_eq!(jain(&[0.0, 0.0]), 1.0);
        assert!((jain(&[1.0, 2.0]) - 0.9).abs() < 1e-12);
    }

    #[test]
    fn windows_slide() {
        let series = [vec![1.0, 1.0, 1.0, 1.0], vec![1.0, 0.0, 0.0, 2.0]];
        let windows = jain_over_time(&series, 2);
        assert_eq!(windows.iter().map(|w| w.0).collect::<Vec<_>>(), [1, 2, 3]);
        assert!((windows[0].1 - 0.9).abs() < 1e-12);
        assert!((windows[1].1 - 0.5).abs() < 1e-12);
        assert!((windows[2].1 - 1.0).abs() < 1e-12);
        let summary = summarise(&windows).unwrap();
        assert!((summary.mean - 0.8).abs() < 1e-12);
        assert!((summary.unfair - 1.0 / 3.0).abs() < 1e-12);
        assert_eq!(summary.p05, windows[1].1);
    }
}
