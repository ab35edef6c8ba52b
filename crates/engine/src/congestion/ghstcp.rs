//! `ghstcp`: gentle HighSpeed TCP (Zhang, Hasegawa, Murata; MASCOTS 2004, IEICE E89-B 2006):
//! HighSpeed growth while the network is not congested, Reno growth while round-trip times say
//! that a queue is building.
//!
//! Published are the two modes and what decides between them: in the original the trend of
//! observed RTTs (`variant=0`), in the refined version a comparison with two RTT thresholds
//! (`variant=1`). The tests, their thresholds and the windows they look at are ours, since the
//! papers' could not be had: every one is a parameter. Open is also what a loss costs in Reno mode:
//! b(w) as in HighSpeed mode (`dec=0`), or half as Reno (`dec=1`, which the wording "by the same
//! algorithm as Reno" favours).
//!
//! The mode is decided once a window of data. *Trend*: correlation r of RTT with time over this
//! window and the one before; Reno from `r_hi` on if RTTs also rose by `rise_ms` at least,
//! HighSpeed below `r_lo`, between them as before. *Thresholds*: the mean RTT of a window within
//! the range of RTTs seen since the last loss; Reno above `theta_hi` of the range, HighSpeed below
//! `theta_lo`, between them as before.

use super::classic::{Classic, Rule};
use super::highspeed::{Growth, PER_ACK, RENO, Response, Step, TABLE};
use super::window::Window;
use super::{Ack, Congestion, CongestionController, CongestionKind, Start};
use crate::policy::{Param, PolicyError, Values};
use crate::time::{Duration, Instant};
use crate::view::SubflowView;
use std::ops::RangeInclusive;

/// Parameters of the table row.
pub(super) const PARAMS: &[Param] = &[
    Param::switch(
        "variant",
        false,
        "0: trend of RTTs (the original); 1: two thresholds (the refined version)",
    ),
    Param::switch("dec", true, "decrease in Reno mode; 0: b(w), 1: half"),
    Param::new("r_hi", 0.5, SHARE, "trend: correlation from which growth is Reno's (ours)"),
    Param::new("r_lo", 0.2, SHARE, "trend: correlation below which growth is HighSpeed's (ours)"),
    Param::new("rise_ms", 0.1, MS, "trend: least rise over the two windows, ms (ours)"),
    Param::new(
        "theta_hi",
        0.5,
        SHARE,
        "thresholds: share of the RTT range above which growth is Reno's (ours)",
    ),
    Param::new(
        "theta_lo",
        0.25,
        SHARE,
        "thresholds: share below which growth is HighSpeed's (ours)",
    ),
    Param::new("range_ms", 2.0, MS, "thresholds: least RTT range that means anything, ms (ours)"),
    TABLE,
    PER_ACK,
];
const SHARE: RangeInclusive<f64> = 0.0..=1.0;
const MS: RangeInclusive<f64> = 0.0..=1000.0;

/// The rule of `ghstcp`.
pub(super) struct Gentle {
    response: Response,
    growth: Growth,
    detector: Detector,
    halves: bool,
    congested: bool,
    /// The window of data ends when this is acknowledged.
    mark: u64,
}

impl Gentle {
    pub(super) fn build(
        values: &Values<'_>,
        start: Start,
    ) -> Result<Box<dyn CongestionController>, PolicyError> {
        let halves = values.is_on("dec");
        let (response, growth) = (Response::new(values), Growth::new(values));
        let detector = Detector::new(values);
        let rule = Self { response, growth, detector, halves, congested: false, mark: 0 };
        Ok(Box::new(Classic::new(start, rule)))
    }

    fn step(&mut self, window: &Window) -> Step {
        if self.congested { RENO } else { self.response.at(window.segments()) }
    }
}

impl Rule for Gentle {
    fn observe(&mut self, ack: &Ack, _: &mut Window, _: &[SubflowView]) {
        if let Some(rtt) = ack.rtt {
            self.detector.add(ack.now, rtt);
        }
        if ack.snd_una > self.mark {
            self.mark = ack.snd_nxt;
            if let Some(congested) = self.detector.end_of_window() {
                self.congested = congested;
            }
        }
    }

    fn avoid(&mut self, window: &mut Window, _: &Ack, bytes: u64, _: &[SubflowView]) {
        let a = self.step(window).a;
        self.growth.add(window, bytes, a);
    }

    fn reduced(&mut self, window: &Window, event: &Congestion, _: &[SubflowView]) -> u64 {
        self.growth.reset();
        let high = self.response.at(window.segments());
        let b = if self.congested && self.halves { RENO.b } else { high.b };
        self.detector.after_loss(event.kind);
        self.congested = false;
        (window.cwnd as f64 * (1.0 - b)) as u64
    }

    fn reset(&mut self, _: &Window) {
        self.growth.reset();
    }
}

/// What tells a queue that builds.
enum Detector {
    Trend(Box<Trend>),
    Thresholds(Thresholds),
}

impl Detector {
    fn new(values: &Values<'_>) -> Self {
        let ms = |name| Duration::from_secs_f64(values.get(name) / 1e3);
        let trend = Trend {
            high: values.get("r_hi"),
            low: values.get("r_lo"),
            rise: ms("rise_ms"),
            this: Points::default(),
            last: Points::default(),
        };
        let thresholds = Thresholds {
            high: values.get("theta_hi"),
            low: values.get("theta_lo"),
            range: ms("range_ms"),
            min: Duration::MAX,
            max: Duration::ZERO,
            sum: 0,
            count: 0,
        };
        let second = values.is_on("variant");
        if second { Self::Thresholds(thresholds) } else { Self::Trend(Box::new(trend)) }
    }

    fn add(&mut self, now: Instant, rtt: Duration) {
        match self {
            Self::Trend(t) => t.this.add(now, rtt),
            Self::Thresholds(t) => t.add(rtt),
        }
    }

    /// Whether the network is congested; `None`: as before.
    fn end_of_window(&mut self) -> Option<bool> {
        match self {
            Self::Trend(t) => t.end_of_window(),
            Self::Thresholds(t) => t.end_of_window(),
        }
    }

    /// The queue has been drained, or the path is another.
    fn after_loss(&mut self, kind: CongestionKind) {
        match self {
            Self::Trend(t) => (t.this, t.last) = (Points::default(), Points::default()),
            Self::Thresholds(t) if kind == CongestionKind::Rto => t.max = Duration::ZERO,
            Self::Thresholds(_) => {}
        }
    }
}

struct Trend {
    high: f64,
    low: f64,
    rise: Duration,
    this: Points,
    last: Points,
}

impl Trend {
    /// Points below which a correlation says nothing.
    const LEAST: f64 = 8.0;

    fn end_of_window(&mut self) -> Option<bool> {
        let origin = if self.last.len > 0 { self.last.origin } else { self.this.origin };
        let sums = self.last.sums(origin).plus(self.this.sums(origin));
        self.last = std::mem::take(&mut self.this);
        if sums.n < Self::LEAST {
            return None;
        }
        let span = self.last.newest - self.last.origin;
        let (r, slope) = sums.line();
        let rise = slope * 2.0 * span.as_secs_f64();
        if r > self.high && rise >= self.rise.as_secs_f64() {
            return Some(true);
        }
        (r < self.low).then_some(false)
    }
}

/// Samples of a window of data, thinned evenly to 32 at most.
#[derive(Clone, Copy, Debug)]
struct Points {
    kept: [(Instant, Duration); Self::LIMIT],
    len: usize,
    /// Every so many samples are kept.
    stride: u32,
    skipped: u32,
    origin: Instant,
    newest: Instant,
}

impl Default for Points {
    fn default() -> Self {
        let kept = [(Instant::ZERO, Duration::ZERO); Self::LIMIT];
        let (origin, newest) = (Instant::ZERO, Instant::ZERO);
        Self { kept, len: 0, stride: 1, skipped: 0, origin, newest }
    }
}

impl Points {
    const LIMIT: usize = 32;

    fn add(&mut self, now: Instant, rtt: Duration) {
        if self.len == 0 {
            self.origin = now;
        }
        self.newest = now;
        self.skipped += 1;
        if self.len > 0 && self.skipped < self.stride {
            return;
        }
        self.skipped = 0;
        if self.len == Self::LIMIT {
            for i in 0..Self::LIMIT / 2 {
                self.kept[i] = self.kept[2 * i];
            }
            self.len /= 2;
            self.stride *= 2;
        }
        self.kept[self.len] = (now, rtt);
        self.len += 1;
    }

    /// Time counted from `origin`, where squares do not swallow differences.
    fn sums(&self, origin: Instant) -> Sums {
        self.kept[..self.len].iter().fold(Sums::default(), |sums, &(at, rtt)| {
            let (x, y) = ((at - origin).as_secs_f64(), rtt.as_secs_f64());
            sums.plus(Sums { n: 1.0, x, y, xx: x * x, xy: x * y, yy: y * y })
        })
    }
}

/// Sums of a linear regression.
#[derive(Clone, Copy, Default, Debug)]
struct Sums {
    n: f64,
    x: f64,
    y: f64,
    xx: f64,
    xy: f64,
    yy: f64,
}

impl Sums {
    fn plus(self, o: Self) -> Self {
        Self {
            n: self.n + o.n,
            x: self.x + o.x,
            y: self.y + o.y,
            xx: self.xx + o.xx,
            xy: self.xy + o.xy,
            yy: self.yy + o.yy,
        }
    }

    /// Pearson's correlation and the slope; zero where nothing varies.
    fn line(self) -> (f64, f64) {
        let vx = self.n * self.xx - self.x * self.x;
        let vy = self.n * self.yy - self.y * self.y;
        let cov = self.n * self.xy - self.x * self.y;
        if vx <= 0.0 || vy <= 0.0 { (0.0, 0.0) } else { (cov / (vx * vy).sqrt(), cov / vx) }
    }
}

struct Thresholds {
    high: f64,
    low: f64,
    range: Duration,
    min: Duration,
    max: Duration,
    /// Of this window of data, ns.
    sum: u64,
    count: u64,
}

impl Thresholds {
    fn add(&mut self, rtt: Duration) {
        self.min = self.min.min(rtt);
        self.max = self.max.max(rtt);
        self.sum = self.sum.saturating_add(rtt.0);
        self.count += 1;
    }

    fn end_of_window(&mut self) -> Option<bool> {
        let mean = Duration(self.sum / self.count.max(1));
        let none = self.count == 0;
        (self.sum, self.count) = (0, 0);
        let range = self.max - self.min;
        if none || range <= self.range.max(self.min / 20) {
            return (!none).then_some(false);
        }
        // The largest RTT fades, so that a range of long ago does not count for ever.
        self.max = Duration(self.max.0 - range.0 / 256);
        let queue = (mean - self.min).0 as f64 / range.0 as f64;
        if queue > self.high {
            return Some(true);
        }
        (queue < self.low).then_some(false)
    }
}

#[cfg(test)]
mod tests;
