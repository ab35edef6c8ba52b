//! The one-way delay of an empty path, by two clocks that do not agree.
//!
//! The difference of the clocks at a marker is the delay plus an unknown constant. The least of the
//! last [`WINDOW_US`] is the base. If one clock runs faster, the least differences
//! of the parts of that time lie on a slope: that of the edge of their lower convex hull below the
//! middle is taken (Moon, Skelly and Towsley, "Estimation and Removal of Clock Skew from Network
//! Delay Measurements", INFOCOM 1999), unless it is steeper than any clock: then it is a queue.

use super::Sample;
use std::collections::VecDeque;

/// Least differences of the clocks.
#[derive(Default, Debug)]
pub(super) struct Base {
    /// The first difference, from which the others are counted.
    origin: Option<(u64, i64)>,
    /// The least of each part of the window, at the time when it was found.
    least: VecDeque<(f64, f64)>,
    /// When the newest part began, microseconds.
    began: f64,
    /// How fast the difference grows by itself; `None` while nothing says it.
    skew: Option<f64>,
}

/// The window, and a part of it.
const WINDOW_US: f64 = 30e6;
const BUCKET_US: f64 = 5e6;
/// Parts that say something about a slope.
const SLOPE_BUCKETS: usize = 3;
/// Clocks differ by less: crystals by tens of parts in a million, and daemons that set clocks slew
/// them by up to 500 (ntpd), which is seldom.
const SKEW_MAX: f64 = 200e-6;

impl Base {
    /// The difference of the clocks at a marker, counted from the first, microseconds.
    pub(super) fn offset(&self, sample: &Sample) -> f64 {
        let (_, origin) = self.origin.unwrap_or((0, difference(sample)));
        (difference(sample) - origin) as f64
    }

    /// Takes a marker; how far its delay is above the base, microseconds.
    pub(super) fn above(&mut self, sample: &Sample) -> f64 {
        let (start, _) = *self.origin.get_or_insert((sample.received.at_us, difference(sample)));
        let at = sample.received.at_us.saturating_sub(start) as f64;
        let offset = self.offset(sample);
        if self.least.is_empty() || at - self.began >= BUCKET_US {
            self.began = at;
            self.least.push_back((at, offset));
            self.least.retain(|(then, _)| at - then < WINDOW_US);
            self.find_skew();
        }
        let skew = self.skew.unwrap_or(0.0);
        if let Some(least) = self.least.back_mut()
            && offset - skew * at <= least.1 - skew * least.0
        {
            *least = (at, offset);
        }
        let base = self.least.iter().map(|(t, d)| d - skew * t).fold(f64::INFINITY, f64::min);
        (offset - skew * at - base).max(0.0)
    }

    /// The base has been so many microseconds higher for a while.
    pub(super) fn raise(&mut self, by_us: f64) {
        if by_us > 0.0
            && let Some(&(at, _)) = self.least.back()
        {
            let skew = self.skew.unwrap_or(0.0);
            let lowest = self.least.iter().map(|(t, d)| d - skew * t);
            let base = lowest.fold(f64::INFINITY, f64::min) + by_us;
            self.least.clear();
            self.least.push_back((at, base + skew * at));
        }
    }

    fn find_skew(&mut self) {
        // The newest part has only begun.
        let points: Vec<_> = self.least.iter().take(self.least.len() - 1).copied().collect();
        if points.len() < SLOPE_BUCKETS {
            return;
        }
        let middle = points.iter().map(|(t, _)| t).sum::<f64>() / points.len() as f64;
        let mut hull: Vec<(f64, f64)> = Vec::with_capacity(points.len());
        for point in points {
            while let [.., a, b] = hull[..]
                && (b.0 - a.0) * (point.1 - a.1) <= (point.0 - a.0) * (b.1 - a.1)
            {
                hull.pop();
            }
            hull.push(point);
        }
        let edge = hull.windows(2).find(|edge| edge[1].0 >= middle);
        let Some([a, b]) = edge else { return };
        let slope = (b.1 - a.1) / (b.0 - a.0).max(1.0);
        if slope.abs() <= SKEW_MAX {
            let known = self.skew.unwrap_or(slope);
            self.skew = Some(known + (slope - known) / 2.0);
        }
    }
}

/// Receiver's clock minus sender's.
fn difference(sample: &Sample) -> i64 {
    sample.received.at_us.wrapping_sub(sample.sent.at_us) as i64
}
