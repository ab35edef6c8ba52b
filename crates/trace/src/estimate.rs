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
    TABLE.get(degrees.saturating_sub(1)).copied().unwrap_or(1.96)
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
}
