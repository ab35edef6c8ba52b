//! Means, medians, and how sure a mean of few repetitions is.

pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The middle one, or the mean of the two in the middle.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    mean(sorted.get((n.max(1) - 1) / 2..n / 2 + usize::from(n > 0))?)
}

/// A mean and half the width of its 95 % confidence interval (Student's t).
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Estimate {
    pub mean: f64,
    /// Half width of the 95 % interval; zero with a single value.
    pub half_width: f64,
}

/// Mean of repetitions and how sure it is; `None` without any.
pub fn estimate(values: &[f64]) -> Option<Estimate> {
    let mean = mean(values)?;
    let n = values.len();
    if n < 2 {
        return Some(Estimate { mean, half_width: 0.0 });
    }
    let variance = values.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / (n as f64 - 1.0);
    let half_width = student_t(n - 1) * (variance / n as f64).sqrt();
    Some(Estimate { mean, half_width })
}

/// The 97.5 % quantile of Student's t.
fn student_t(degrees: usize) -> f64 {
    const TABLE: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
        2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
        2.052, 2.048, 2.045, 2.042,
    ];
    TABLE.get(degrees.saturating_sub(1)).copied().unwrap_or_else(|| beyond(degrees as f64))
}

/// The same by its series in the inverse of the degrees, around the normal quantile (Abramowitz and
/// Stegun 26.7.5): exact to six digits beyond the table.
fn beyond(degrees: f64) -> f64 {
    const X: f64 = 1.959_963_984_540_054;
    let square = X * X;
    let terms = [
        X,
        X * (square + 1.0) / 4.0,
        X * ((5.0 * square + 16.0) * square + 3.0) / 96.0,
        X * (((3.0 * square + 19.0) * square + 17.0) * square - 15.0) / 384.0,
    ];
    terms.iter().rev().fold(0.0, |sum, term| sum / degrees + term)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_say_how_sure_they_are() {
        let sure = estimate(&[4.0, 4.0, 4.0]).unwrap();
        assert_eq!((sure.mean, sure.half_width), (4.0, 0.0));
        let unsure = estimate(&[1.0, 3.0]).unwrap();
        assert!((unsure.half_width - 12.706).abs() < 1e-9);
        assert_eq!(estimate(&[]), None);
        assert_eq!((median(&[3.0, 1.0, 2.0]), median(&[1.0, 2.0])), (Some(2.0), Some(1.5)));
        assert_eq!(median(&[]), None);
    }

    /// The quantiles of tables, with four digits.
    #[test]
    fn students_t_goes_on_beyond_the_table() {
        for (degrees, t) in [
            (30, 2.0423),
            (31, 2.0395),
            (40, 2.0211),
            (60, 2.0003),
            (99, 1.9842),
            (120, 1.9799),
            (1_000, 1.9623),
            (1_000_000, 1.9600),
        ] {
            assert!((student_t(degrees) - t).abs() < 0.0005, "{degrees}: {}", student_t(degrees));
        }
        assert!((1..1_000).all(|n| student_t(n) > student_t(n + 1)));
        // Forty values that deviate by 1 around 5.
        let values: Vec<f64> = (0..40).map(|n| 5.0 + f64::from(n % 2 * 2 - 1)).collect();
        let expected = 2.0227 * (40.0 / 39.0_f64).sqrt() / 40.0_f64.sqrt();
        assert!((estimate(&values).unwrap().half_width - expected).abs() < 1e-4);
    }
}
