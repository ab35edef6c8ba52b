//! The cycle of ProbeBW: DOWN, CRUISE, REFILL, UP (draft-ietf-ccwg-bbr, "ProbeBW").

use super::{Bbr, State, beta};
use crate::congestion::Ack;
use crate::time::{Duration, Instant};

/// Where the cycle stands.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Cycle {
    /// When DOWN began.
    since: Instant,
    /// Longest time until the next probe.
    wait: Duration,
    rounds_since_probe: u64,
    acks: Acks,
    /// What is acknowledged now was sent while probing, and has not been answered for yet.
    probe_sample: bool,
    up_rounds: u32,
    up_acked: u64,
    /// Bytes acknowledged for each segment that inflight_longterm grows by.
    up_acked_per_segment: u64,
}

/// What the ACKs that come in are for.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum Acks {
    #[default]
    Init,
    Refilling,
    Starting,
    Feedback,
    Stopping,
}

impl Cycle {
    pub(super) fn stop_probing(&mut self) {
        self.acks = Acks::Stopping;
    }
}

/// Rounds in which Reno would win back what a probe may cost it, at most.
const RENO_ROUNDS: u64 = 63;

/// Spreads the bits of `x` (SplitMix64).
fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

impl Bbr {
    /// Loss while probing, once a probe: inflight_longterm to what was in flight.
    pub(super) fn handle_loss(&mut self, ack: &Ack) {
        if ack.lost == 0 || !self.cycle.probe_sample || !self.model.loses_too_much() {
            return;
        }
        self.cycle.probe_sample = false;
        if ack.delivery_rate.is_none_or(|(_, app_limited)| !app_limited) {
            let flight = self.model.tx_in_flight(ack);
            self.model.inflight_long = flight.max(beta(self.target()));
        }
        if self.state == State::Up {
            if let Some(undo) = &mut self.undo {
                undo.ended = Some(State::Up);
            }
            self.start_down(ack.now, ack.in_flight);
        }
    }

    pub(super) fn step_cycle(&mut self, ack: &Ack) {
        if self.model.round_start {
            self.cycle.rounds_since_probe += 1;
        }
        if !self.full.reached {
            return;
        }
        self.adapt_long_term(ack);
        match self.state {
            State::Down if self.is_time_to_probe(ack.now) => self.start_refill(ack.in_flight),
            State::Down if self.is_time_to_cruise(ack) => self.state = State::Cruise,
            State::Cruise if self.is_time_to_probe(ack.now) => self.start_refill(ack.in_flight),
            State::Refill if self.model.round_start => self.start_up(ack),
            State::Up => self.leave_up(ack),
            _ => {}
        }
    }

    fn adapt_long_term(&mut self, ack: &Ack) {
        let cycle = &mut self.cycle;
        if cycle.acks == Acks::Starting && self.model.round_start {
            cycle.acks = Acks::Feedback;
        }
        if cycle.acks == Acks::Stopping && self.model.round_start {
            cycle.probe_sample = false;
            cycle.acks = Acks::Init;
            let app_limited = ack.delivery_rate.is_none_or(|(_, limited)| limited);
            if self.state.is_probe_bw() && !app_limited {
                self.model.advance_max_bw();
            }
        }
        if self.model.loses_too_much() || self.model.inflight_long == u64::MAX {
            return;
        }
        if self.state.is_probing() {
            let flight = self.model.tx_in_flight(ack);
            self.model.inflight_long = self.model.inflight_long.max(flight);
        }
        if self.state == State::Up {
            self.raise_long_term(ack);
        }
    }

    /// inflight_longterm grows by 1, 2, 4.. segments a round while it is what limits.
    fn raise_long_term(&mut self, ack: &Ack) {
        if !ack.cwnd_limited || self.cwnd < self.model.inflight_long {
            return;
        }
        let cycle = &mut self.cycle;
        cycle.up_acked += ack.delivered;
        let per = cycle.up_acked_per_segment.max(1);
        let segments = cycle.up_acked / per;
        cycle.up_acked -= segments * per;
        let long = &mut self.model.inflight_long;
        *long = long.saturating_add(segments * self.mss);
        if self.model.round_start {
            self.raise_slope();
        }
    }

    fn raise_slope(&mut self) {
        let growth = 1 << self.cycle.up_rounds;
        self.cycle.up_rounds = (self.cycle.up_rounds + 1).min(30);
        self.cycle.up_acked_per_segment = (self.cwnd / growth).max(self.mss);
    }

    fn is_time_to_probe(&self, now: Instant) -> bool {
        let reno = (self.target() / self.mss).min(RENO_ROUNDS);
        now > self.cycle.since + self.cycle.wait || self.cycle.rounds_since_probe >= reno
    }

    fn is_time_to_cruise(&self, ack: &Ack) -> bool {
        ack.in_flight <= self.with_headroom() && ack.in_flight <= self.quantised(self.bdp(100))
    }

    /// DOWN when the pipe is full. While inflight_longterm limits, that cannot be told.
    fn leave_up(&mut self, ack: &Ack) {
        if ack.cwnd_limited && self.cwnd >= self.model.inflight_long {
            self.reset_full_bw(ack.delivery_rate.map_or(0, |(rate, _)| rate));
        } else if self.full.now {
            self.start_down(ack.now, ack.in_flight);
        }
    }

    pub(super) fn start_down(&mut self, now: Instant, in_flight: u64) {
        self.model.reset_congestion();
        let random = mix(now.0);
        self.cycle.up_acked_per_segment = u64::MAX;
        self.cycle.rounds_since_probe = random & 1;
        self.cycle.wait = Duration::from_secs(2) + Duration((random >> 1) % 1_000_000_000);
        self.cycle.since = now;
        self.cycle.acks = Acks::Stopping;
        self.model.start_round(in_flight);
        self.state = State::Down;
    }

    pub(super) fn start_refill(&mut self, in_flight: u64) {
        self.model.reset_short();
        self.cycle.up_rounds = 0;
        self.cycle.up_acked = 0;
        self.cycle.acks = Acks::Refilling;
        self.model.start_round(in_flight);
        self.state = State::Refill;
    }

    fn start_up(&mut self, ack: &Ack) {
        self.cycle.probe_sample = true;
        self.cycle.acks = Acks::Starting;
        self.model.start_round(ack.in_flight);
        self.reset_full_bw(ack.delivery_rate.map_or(0, |(rate, _)| rate));
        self.state = State::Up;
        self.raise_slope();
    }
}
