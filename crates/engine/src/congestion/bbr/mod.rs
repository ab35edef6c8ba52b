//! `bbr`: BBR version 3, after draft-ietf-ccwg-bbr.
//!
//! In: Startup with both exits (plateau, loss), Drain, the four phases of ProbeBW with the
//! Reno-conscious time scale, ProbeRTT to half a BDP, the short-term bounds (bw_shortterm,
//! inflight_shortterm) and the long-term one (inflight_longterm), extra_acked, restart from idle,
//! undo, pacing.
//!
//! Not in, or different: ECN as a signal of its own (an echo counts as loss); precautionary
//! probing; send quanta beyond what the pacer's credit of a millisecond makes of them. The draft
//! keeps a record of each segment (delivered, lost, in flight when it was sent); here rounds are
//! counted by what has been delivered or lost since they began, loss is that of the round so far,
//! and the flight at sending is looked up in 64 samples of it. Without SACK loss is counted the
//! same way. What is random in the draft (time between probes) is sampled from a hash of the time,
//! so that equal inputs give equal answers. Losses that a timer finds, not an ACK, are not counted.
//!
//! The subflow leaves recovery to it: who paces is bound by cwnd then, not by PRR.

use super::{Ack, CcPhase, CcState, Congestion, CongestionController, CongestionKind, Start};
use crate::policy::{Param, PolicyError, Values};
use crate::time::{Duration, Instant};
use crate::view::{RecoveryPhase, SubflowView};
use model::{Model, beta, volume};

mod cycle;
mod model;

/// Parameters of the table row.
pub(super) const PARAMS: &[Param] =
    &[Param::new("probe_rtt", 5.0, 1.0..=1000.0, "seconds without a smaller RTT until ProbeRTT")];

/// Pacing gains in hundredths: Startup, Drain, ProbeBW_DOWN, ProbeBW_UP.
const STARTUP_GAIN: u64 = 277;
const DRAIN_GAIN: u64 = 50;
const DOWN_GAIN: u64 = 90;
const UP_GAIN: u64 = 125;
/// Pacing stays this share below the bandwidth.
const PACING_MARGIN: u64 = 99;
const PROBE_RTT_DURATION: Duration = Duration::from_millis(200);
/// Rounds without a quarter of growth that mean a full pipe.
const FULL_BW_ROUNDS: u32 = 3;
/// Times that loss must have been found in a round to end Startup.
const STARTUP_LOSSES: u32 = 6;

pub(super) struct Bbr {
    mss: u64,
    cwnd: u64,
    /// Window it began with.
    initial: u64,
    pacing_rate: Option<u64>,
    state: State,
    model: Model,
    full: FullPipe,
    cycle: cycle::Cycle,
    probe_rtt: ProbeRtt,
    probe_rtt_interval: Duration,
    /// Window before recovery or ProbeRTT.
    prior_cwnd: u64,
    recovering: bool,
    idle_restart: bool,
    /// A congestion signal has been seen.
    signalled: bool,
    undo: Option<Undo>,
    drain_round: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Startup,
    Drain,
    Down,
    Cruise,
    Refill,
    Up,
    ProbeRtt,
}

impl State {
    fn is_probe_bw(self) -> bool {
        matches!(self, Self::Down | Self::Cruise | Self::Refill | Self::Up)
    }

    /// Accelerating: loss says something about the long term.
    fn is_probing(self) -> bool {
        matches!(self, Self::Startup | Self::Refill | Self::Up)
    }
}

/// The estimator of a full pipe.
#[derive(Clone, Copy, Default, Debug)]
struct FullPipe {
    bw: u64,
    rounds: u32,
    now: bool,
    /// Once in the life of the connection.
    reached: bool,
}

#[derive(Clone, Copy, Default, Debug)]
struct ProbeRtt {
    done: Option<Instant>,
    round_done: bool,
}

/// What a spurious signal is undone to.
#[derive(Clone, Copy, Debug)]
struct Undo {
    bw_short: u64,
    inflight_short: u64,
    inflight_long: u64,
    /// The phase of probing that it ended.
    ended: Option<State>,
}

impl Bbr {
    pub(super) fn build(
        values: &Values<'_>,
        start: Start,
    ) -> Result<Box<dyn CongestionController>, PolicyError> {
        let interval = values.get("probe_rtt");
        let mss = start.mss.max(1);
        let cwnd = start.cwnd.max(mss);
        Ok(Box::new(Self {
            mss,
            cwnd,
            initial: cwnd,
            pacing_rate: None,
            state: State::Startup,
            model: Model::new(),
            full: FullPipe::default(),
            cycle: cycle::Cycle::default(),
            probe_rtt: ProbeRtt::default(),
            probe_rtt_interval: Duration::from_secs_f64(interval),
            prior_cwnd: cwnd,
            recovering: false,
            idle_restart: false,
            signalled: false,
            undo: None,
            drain_round: 0,
        }))
    }

    fn min_pipe(&self) -> u64 {
        4 * self.mss
    }

    /// BDP times `gain` hundredths, bytes.
    fn bdp(&self, gain: u64) -> u64 {
        self.model.bdp().map_or(self.initial, |bdp| bdp.saturating_mul(gain) / 100)
    }

    /// With what aggregation by senders and receivers takes.
    fn quantised(&self, inflight: u64) -> u64 {
        let quantum = self.pacing_rate.unwrap_or(0) / 1000;
        let budget = 3 * quantum.min(65_536).max(2 * self.mss);
        let up = if self.state == State::Up { 2 * self.mss } else { 0 };
        inflight.max(budget).max(self.min_pipe()) + up
    }

    /// What should be in flight: the BDP, unless congestion cut cwnd.
    fn target(&self) -> u64 {
        self.bdp(100).min(self.cwnd)
    }

    fn with_headroom(&self) -> u64 {
        let long = self.model.inflight_long;
        if long == u64::MAX {
            return u64::MAX;
        }
        let headroom = (long / 100 * 15).max(self.mss);
        long.saturating_sub(headroom).max(self.min_pipe())
    }

    fn check_full_bw(&mut self, ack: &Ack) {
        let Some((rate, app_limited)) = ack.delivery_rate else { return };
        // In ProbeRTT little is in flight, and its rates are low by intention (draft: the
        // connection is marked as limited by the application meanwhile).
        let limited = app_limited || self.state == State::ProbeRtt;
        if self.full.now || !self.model.round_start || limited {
            return;
        }
        if rate >= self.full.bw.saturating_add(self.full.bw / 4) {
            self.full = FullPipe { bw: rate, rounds: 0, now: false, reached: self.full.reached };
            return;
        }
        self.full.rounds += 1;
        self.full.now = self.full.rounds >= FULL_BW_ROUNDS;
        self.full.reached |= self.full.now;
    }

    fn reset_full_bw(&mut self, bw: u64) {
        self.full = FullPipe { bw, rounds: 0, now: false, reached: self.full.reached };
    }

    fn check_startup(&mut self, ack: &Ack, too_much: bool) {
        if self.state != State::Startup {
            return;
        }
        let losing = too_much && self.model.loss_round_ended() && self.recovering;
        if losing && !self.full.reached {
            if let Some(undo) = &mut self.undo {
                undo.ended = Some(State::Startup);
            }
            self.full.reached = true;
            self.model.inflight_long = self.bdp(100).max(self.model.inflight_latest());
        }
        if self.full.reached {
            self.state = State::Drain;
            self.drain_round = self.model.round_count;
            self.check_drain(ack);
        }
    }

    fn check_drain(&mut self, ack: &Ack) {
        let late = self.model.round_count > self.drain_round + 3;
        if self.state == State::Drain && (late || ack.in_flight <= self.quantised(self.bdp(100))) {
            self.start_down(ack.now, ack.in_flight);
        }
    }

    fn check_probe_rtt(&mut self, ack: &Ack) {
        let due = self.model.probe_rtt_expired && !self.idle_restart;
        if self.state != State::ProbeRtt && due && self.model.min_rtt.is_some() {
            self.save_cwnd();
            self.state = State::ProbeRtt;
            self.probe_rtt = ProbeRtt::default();
            self.cycle.stop_probing();
            self.model.start_round(ack.in_flight);
        }
        if self.state == State::ProbeRtt {
            match self.probe_rtt.done {
                None if ack.in_flight <= self.probe_rtt_cwnd() => {
                    self.probe_rtt.done = Some(ack.now + PROBE_RTT_DURATION);
                    self.model.start_round(ack.in_flight);
                }
                None => {}
                Some(done) => {
                    self.probe_rtt.round_done |= self.model.round_start;
                    if self.probe_rtt.round_done && ack.now > done {
                        self.leave_probe_rtt(ack);
                    }
                }
            }
        }
        self.idle_restart = false;
    }

    fn leave_probe_rtt(&mut self, ack: &Ack) {
        self.model.probed_rtt(ack.now);
        self.cwnd = self.cwnd.max(self.prior_cwnd);
        self.model.reset_short();
        if self.full.reached {
            self.start_down(ack.now, ack.in_flight);
            self.state = State::Cruise;
        } else {
            self.state = State::Startup;
        }
    }

    fn probe_rtt_cwnd(&self) -> u64 {
        self.bdp(50).max(self.min_pipe())
    }

    fn save_cwnd(&mut self) {
        let undisturbed = !self.recovering && self.state != State::ProbeRtt;
        self.prior_cwnd = if undisturbed { self.cwnd } else { self.prior_cwnd.max(self.cwnd) };
    }

    fn save_for_undo(&mut self) {
        let m = &self.model;
        self.undo = Some(Undo {
            bw_short: m.bw_short,
            inflight_short: m.inflight_short,
            inflight_long: m.inflight_long,
            ended: None,
        });
    }

    fn set_pacing(&mut self, srtt: Duration) {
        let gain = match self.state {
            State::Startup => STARTUP_GAIN,
            State::Drain => DRAIN_GAIN,
            State::Down => DOWN_GAIN,
            State::Up => UP_GAIN,
            State::Cruise | State::Refill | State::ProbeRtt => 100,
        };
        let paced = |rate: u64| (u128::from(rate) * u128::from(gain) / 100) as u64;
        let old = self.pacing_rate.unwrap_or_else(|| {
            let rtt = if srtt.is_zero() { Duration::from_millis(1) } else { srtt };
            paced((u128::from(self.initial) * 1_000_000_000 / u128::from(rtt.0)) as u64)
        });
        let rate = (u128::from(paced(self.model.bw())) * u128::from(PACING_MARGIN) / 100) as u64;
        let rate = if self.full.reached { rate } else { rate.max(old) };
        // A segment a second at least: without any estimate there must be progress.
        self.pacing_rate = Some(rate.max(self.mss));
    }

    fn set_cwnd(&mut self, delivered: u64) {
        let gain = match self.state {
            State::ProbeRtt => 50,
            State::Up => 225,
            _ => 200,
        };
        let max = self.quantised(self.bdp(gain).saturating_add(self.model.extra_acked()));
        let grown = self.cwnd.saturating_add(delivered);
        if self.full.reached {
            self.cwnd = grown.min(max);
        } else if self.cwnd < max || self.model.delivered() < self.initial {
            self.cwnd = grown;
        }
        self.cwnd = self.cwnd.max(self.min_pipe());
        if self.state == State::ProbeRtt {
            self.cwnd = self.cwnd.min(self.probe_rtt_cwnd());
        }
        let long = match self.state {
            State::Down | State::Refill | State::Up => self.model.inflight_long,
            State::Cruise | State::ProbeRtt => self.with_headroom(),
            State::Startup | State::Drain => u64::MAX,
        };
        let cap = long.min(self.model.inflight_short).max(self.min_pipe());
        self.cwnd = self.cwnd.min(cap);
    }
}

impl CongestionController for Bbr {
    fn on_ack(&mut self, ack: &Ack, _siblings: &[SubflowView]) {
        let recovering = ack.phase != RecoveryPhase::Open;
        if self.recovering && !recovering {
            self.cwnd = self.cwnd.max(self.prior_cwnd);
        }
        self.recovering = recovering;
        // Judged before a new round begins with this ACK and forgets.
        let losses = self.model.loss_events() + u32::from(ack.lost > 0);
        let too_much = losses >= STARTUP_LOSSES && self.model.loses_too_much();
        self.model.count(ack);
        self.handle_loss(ack);
        self.model.update_max_bw(ack);
        self.model.adapt_lower_bounds(self.state.is_probing(), self.cwnd);
        self.model.update_aggregation(ack, self.cwnd, !self.full.reached);
        self.check_full_bw(ack);
        self.check_startup(ack, too_much);
        self.check_drain(ack);
        self.step_cycle(ack);
        self.model.update_min_rtt(ack, self.probe_rtt_interval);
        self.check_probe_rtt(ack);
        self.model.advance_latest(ack);
        self.set_pacing(ack.srtt);
        self.set_cwnd(ack.delivered);
    }

    fn on_congestion(&mut self, event: &Congestion, _siblings: &[SubflowView]) {
        self.signalled = true;
        self.save_cwnd();
        self.save_for_undo();
        self.recovering = event.kind != CongestionKind::Ecn;
        self.model.note_loss(event.in_flight);
        if event.kind == CongestionKind::Rto {
            // Everything in flight is given up.
            self.cwnd = self.mss;
            self.model.start_round(self.mss);
        }
    }

    fn on_sent(&mut self, now: Instant, bytes: u64, in_flight: u64) {
        self.model.on_sent(bytes, in_flight);
        if in_flight <= bytes {
            self.idle_restart = true;
            self.model.restart_aggregation(now);
            if self.state.is_probe_bw() {
                let rate = volume(self.model.bw(), Duration::from_secs(1)) / 100 * PACING_MARGIN;
                self.pacing_rate = Some(rate.max(self.mss));
            }
        }
    }

    fn on_spurious(&mut self, _now: Instant) {
        self.cwnd = self.cwnd.max(self.prior_cwnd);
        self.model.forget_loss();
        self.reset_full_bw(0);
        let Some(undo) = self.undo.take() else { return };
        let m = &mut self.model;
        m.bw_short = m.bw_short.max(undo.bw_short);
        m.inflight_short = m.inflight_short.max(undo.inflight_short);
        m.inflight_long = m.inflight_long.max(undo.inflight_long);
        match undo.ended {
            Some(State::Startup) => {
                self.full.reached = false;
                if self.state != State::ProbeRtt {
                    self.state = State::Startup;
                }
            }
            Some(State::Up) if self.state.is_probe_bw() && self.state != State::Up => {
                self.start_refill(self.cwnd);
            }
            _ => {}
        }
    }

    /// The pipe is empty, but what is known of it stays: paced at its bandwidth there is no burst.
    fn on_idle_restart(&mut self, now: Instant, _restart: u64) {
        self.idle_restart = true;
        self.model.restart_aggregation(now);
    }

    fn on_penalty(&mut self) {
        self.cwnd = (self.cwnd / 2).max(self.mss);
    }

    fn on_mss(&mut self, mss: u64) {
        self.mss = mss.max(1);
        self.cwnd = self.cwnd.max(self.mss);
    }

    /// ssthresh is nothing that BBR has; from the first signal on the window stands for it.
    fn report(&self, state: &mut CcState) {
        let startup_over = self.full.reached || self.signalled;
        state.phase = match self.state {
            State::Startup => CcPhase::SlowStart,
            State::Drain => CcPhase::Other(1),
            State::Down => CcPhase::Other(2),
            State::Cruise => CcPhase::Other(3),
            State::Refill => CcPhase::Other(4),
            State::Up => CcPhase::Other(5),
            State::ProbeRtt => CcPhase::Other(6),
        };
        state.cwnd = self.cwnd;
        state.ssthresh = if startup_over { self.cwnd.max(2 * self.mss) } else { u64::MAX };
        state.pacing_rate = self.pacing_rate;
    }
}
