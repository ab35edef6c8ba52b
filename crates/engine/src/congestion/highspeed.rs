//! `highspeed`: HighSpeed TCP (RFC 3649). Above 38 segments the window grows by a(w) segments a
//! round and a loss costs the share b(w) of it; below, it is Reno. Slow start and timeouts are
//! Reno's; limited slow start (RFC 3742) is not in.
//!
//! Two sources of a and b: the formulas of section 5 (`table=0`; a is at least 1, where they say
//! 0.955 just above 38 segments), and Linux's table (`table=1`), which gives the a that the
//! formula reaches at the *end* of each step: 2 from 39 segments on, where the RFC's table says 1
//! up to 118. Growth counts acknowledged segments; Linux counts ACKs (`per_ack=1`), so that
//! delayed ACKs halve it, and adds one segment an ACK at most.
//!
//! Logarithm and exponential are computed here with operations that IEEE 754 defines exactly, and
//! only when the window changes: every machine gets the same windows.

use super::classic::{Classic, Rule};
use super::window::Window;
use super::{Ack, Congestion, CongestionController, Start};
use crate::policy::{Param, PolicyError, Values};
use crate::view::SubflowView;

mod table;

/// Parameters of the table row.
pub(super) const PARAMS: &[Param] = &[TABLE, PER_ACK];
/// Where a and b come from; `ghstcp` has it, too.
pub(super) const TABLE: Param = Param::switch(
    "table",
    false,
    "0: formulas of RFC 3649 section 5; 1: Linux's table, which rounds a(w) up",
);
/// What growth counts; `ghstcp` has it, too.
pub(super) const PER_ACK: Param = Param::switch(
    "per_ack",
    false,
    "1: grow by ACKs, as Linux; 0: by acknowledged segments, as the RFC",
);

/// The rule of `highspeed`.
pub(super) struct HighSpeed {
    response: Response,
    growth: Growth,
}

impl HighSpeed {
    pub(super) fn build(
        values: &Values<'_>,
        start: Start,
    ) -> Result<Box<dyn CongestionController>, PolicyError> {
        let rule = Self { response: Response::new(values), growth: Growth::new(values) };
        Ok(Box::new(Classic::new(start, rule)))
    }
}

impl Rule for HighSpeed {
    fn avoid(&mut self, window: &mut Window, _: &Ack, bytes: u64, _: &[SubflowView]) {
        let a = self.response.at(window.segments()).a;
        self.growth.add(window, bytes, a);
    }

    fn reduced(&mut self, window: &Window, _: &Congestion, _: &[SubflowView]) -> u64 {
        self.growth.reset();
        let b = self.response.at(window.segments()).b;
        (window.cwnd as f64 * (1.0 - b)) as u64
    }

    fn reset(&mut self, _: &Window) {
        self.growth.reset();
    }
}

/// a(w), segments a round, and b(w), share of the window.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Step {
    pub(super) a: f64,
    pub(super) b: f64,
}

/// Reno's.
pub(super) const RENO: Step = Step { a: 1.0, b: 0.5 };

/// The response function, with the last answer kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct Response {
    linux: bool,
    last: Option<(u64, Step)>,
}

impl Response {
    pub(super) fn new(values: &Values<'_>) -> Self {
        let linux = values.is_on("table");
        Self { linux, last: None }
    }

    /// For a window of `w` segments.
    pub(super) fn at(&mut self, w: u64) -> Step {
        if let Some((_, step)) = self.last.filter(|last| last.0 == w) {
            return step;
        }
        let step = if self.linux { table::linux(w) } else { table::formula(w) };
        self.last = Some((w, step));
        step
    }
}

/// Additive increase by more than one segment a round.
#[derive(Clone, Copy, Debug)]
pub(super) struct Growth {
    per_ack: bool,
    /// Grown and not yet added to cwnd: bytes x a, or Linux's snd_cwnd_cnt in segments.
    counted: f64,
}

impl Growth {
    pub(super) fn new(values: &Values<'_>) -> Self {
        let per_ack = values.is_on("per_ack");
        Self { per_ack, counted: 0.0 }
    }

    /// An ACK for `bytes`, at `a` segments a round.
    pub(super) fn add(&mut self, window: &mut Window, bytes: u64, a: f64) {
        let segments = window.segments() as f64;
        let acked = if self.per_ack { 1.0 } else { bytes as f64 / window.mss as f64 };
        self.counted += a * acked;
        let mut whole = (self.counted / segments) as u64;
        if self.per_ack {
            whole = whole.min(1);
        }
        self.counted -= whole as f64 * segments;
        window.cwnd = window.cwnd.saturating_add(whole * window.mss);
    }

    pub(super) fn reset(&mut self) {
        self.counted = 0.0;
    }
}
