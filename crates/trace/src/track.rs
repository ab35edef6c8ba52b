//! Series of bounded length: what was sampled, one row a bin, bins doubled when a run outgrows
//! them.
//!
//! Counters are stored as they stand, not as differences, so that a rate between two rows stays
//! exact when the rows between them are dropped.

use tabane_engine::{Duration, Instant};

/// Length of the bins of all tracks of a run. At `limit` bins two neighbours become one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Clock {
    interval: Duration,
    limit: usize,
}

impl Clock {
    /// Bins of `interval` (at least 1 µs), at most `limit` of them (at least 2).
    pub fn new(interval: Duration, limit: usize) -> Self {
        Self { interval: interval.max(Duration::from_micros(1)), limit: limit.max(2) }
    }

    /// The interval now.
    pub fn interval(&self) -> Duration {
        self.interval
    }

    /// The bin that `at` falls into: bin `n` holds the times in `((n-1) i, n i]`, so that a
    /// sample taken exactly at a bin's end belongs to it.
    pub fn bin(&self, at: Instant) -> u64 {
        at.0.div_ceil(self.interval.0)
    }

    /// Whether `at` lies beyond the last bin, so that the interval must double first.
    pub fn is_beyond(&self, at: Instant) -> bool {
        self.bin(at) >= self.limit as u64
    }

    /// Doubles the interval; every track must [`Track::coarsen`] with it.
    pub fn double(&mut self) {
        self.interval = self.interval * 2;
    }
}

/// Rows of `N` values, at most one a bin: the latest in it.
#[derive(Clone, PartialEq, Debug)]
pub struct Track<const N: usize> {
    at: Vec<Instant>,
    rows: Vec<[f64; N]>,
}

impl<const N: usize> Default for Track<N> {
    fn default() -> Self {
        Self { at: Vec::new(), rows: Vec::new() }
    }
}

impl<const N: usize> Track<N> {
    /// Adds a row, or replaces the one of the same bin. Times must not go back.
    pub fn push(&mut self, clock: &Clock, at: Instant, row: [f64; N]) {
        if let (Some(last), Some(last_row)) = (self.at.last_mut(), self.rows.last_mut())
            && clock.bin(*last) >= clock.bin(at)
        {
            *last = at.max(*last);
            *last_row = row;
            return;
        }
        self.at.push(at);
        self.rows.push(row);
    }

    /// Keeps the latest row of each bin of the clock, which has been doubled.
    pub fn coarsen(&mut self, clock: &Clock) {
        let (at, rows) = (std::mem::take(&mut self.at), std::mem::take(&mut self.rows));
        at.into_iter().zip(rows).for_each(|(at, row)| self.push(clock, at, row));
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub fn last(&self) -> Option<&[f64; N]> {
        self.rows.last()
    }

    /// Values of a column with their times in seconds.
    pub fn values(&self, column: usize) -> Vec<(f64, f64)> {
        self.at.iter().zip(&self.rows).map(|(at, row)| (at.as_secs_f64(), row[column])).collect()
    }

    /// Growth of a counter column per second, times `scale`, between each row and the one before
    /// (dated at the later). The first row counts from zero at `from`.
    pub fn rates(&self, column: usize, scale: f64, from: Instant) -> Vec<(f64, f64)> {
        let mut before = (from, 0.0);
        let mut out = Vec::with_capacity(self.rows.len());
        for (&at, row) in self.at.iter().zip(&self.rows) {
            let seconds = at.saturating_since(before.0).as_secs_f64();
            if seconds > 0.0 {
                out.push((at.as_secs_f64(), (row[column] - before.1).max(0.0) * scale / seconds));
            }
            before = (at, row[column]);
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Instant {
        Instant(ms * 1_000_000)
    }

    fn filled(clock: &Clock) -> Track<2> {
        let mut track = Track::default();
        for (at, counter) in [(100, 10.0), (200, 30.0), (300, 30.0), (400, 60.0)] {
            track.push(clock, ms(at), [counter, 1.0]);
        }
        track
    }

    #[test]
    fn rates_are_growth_per_second() {
        let clock = Clock::new(Duration::from_millis(100), 8);
        let rates = filled(&clock).rates(0, 8.0, Instant::ZERO);
        let values: Vec<f64> = rates.iter().map(|r| r.1.round()).collect();
        assert_eq!(values, [800.0, 1600.0, 0.0, 2400.0]);
        assert_eq!(rates[3].0, 0.4);
    }

    #[test]
    fn coarser_rows_keep_the_total() {
        let mut clock = Clock::new(Duration::from_millis(100), 8);
        let mut track = filled(&clock);
        clock.double();
        track.coarsen(&clock);
        assert_eq!(track.values(0), [(0.2, 30.0), (0.4, 60.0)]);
        let bytes: f64 = track.rates(0, 1.0, Instant::ZERO).iter().map(|r| r.1 * 0.2).sum();
        assert!((bytes - 60.0).abs() < 1e-9);
    }

    #[test]
    fn a_bin_holds_its_latest_row() {
        let clock = Clock::new(Duration::from_millis(100), 8);
        let mut track: Track<1> = Track::default();
        track.push(&clock, ms(110), [1.0]);
        track.push(&clock, ms(190), [2.0]);
        track.push(&clock, ms(200), [3.0]);
        track.push(&clock, ms(201), [4.0]);
        assert_eq!(track.values(0), [(0.2, 3.0), (0.201, 4.0)]);
        assert!(clock.is_beyond(ms(701)) && !clock.is_beyond(ms(700)));
    }
}
