//! What BBR believes about the path: rounds, bandwidth, round-trip time, aggregation and loss
//! (draft-ietf-ccwg-bbr, "Updating Network Path Model Parameters").

use crate::congestion::Ack;
use crate::time::{Duration, Instant};

/// Share of a flight that may be lost in a round without being too much: a fiftieth.
const LOSS_DIVISOR: u64 = 50;

/// 0.7 of it: the least that a loss leaves of a bound.
pub(super) fn beta(bytes: u64) -> u64 {
    (u128::from(bytes) * 7 / 10) as u64
}

/// `rate` bytes/s for `time`, bytes.
pub(super) fn volume(rate: u64, time: Duration) -> u64 {
    u64::try_from(u128::from(rate) * u128::from(time.0) / 1_000_000_000).unwrap_or(u64::MAX)
}

/// The model of the path.
#[derive(Clone, Copy, Debug)]
pub(super) struct Model {
    /// Bytes delivered and bytes found lost so far.
    delivered: u64,
    lost: u64,
    round: Round,
    /// A round has ended with this ACK.
    pub(super) round_start: bool,
    pub(super) round_count: u64,
    /// Largest delivery rates of the previous and of this cycle of probing, bytes/s.
    max_bw: [u64; 2],
    /// Bounds from recent loss, `u64::MAX` if none.
    pub(super) bw_short: u64,
    pub(super) inflight_short: u64,
    /// Bound from loss while probing, `u64::MAX` if none.
    pub(super) inflight_long: u64,
    /// Smallest RTT of ten seconds; `None` before the first.
    pub(super) min_rtt: Option<Duration>,
    min_rtt_stamp: Instant,
    /// Smallest RTT since ProbeRTT was last due.
    probe_rtt_min: Duration,
    probe_rtt_stamp: Instant,
    pub(super) probe_rtt_expired: bool,
    latest: Latest,
    aggregation: Aggregation,
    /// Largest flights of the previous and of this round.
    flights: [u64; 2],
    sending: Sending,
}

/// What was in flight after so many bytes had been sent: a sample each 32nd of the flight, so that
/// two flights are remembered at least.
#[derive(Clone, Copy, Debug)]
struct Sending {
    sent: u64,
    samples: [(u64, u64); Self::LIMIT],
    next: usize,
}

impl Sending {
    const LIMIT: usize = 64;

    fn on_sent(&mut self, bytes: u64, in_flight: u64) {
        self.sent = self.sent.saturating_add(bytes);
        let newest = self.samples[(self.next + Self::LIMIT - 1) % Self::LIMIT].0;
        if self.sent - newest > in_flight / 32 {
            self.samples[self.next] = (self.sent, in_flight);
            self.next = (self.next + 1) % Self::LIMIT;
        }
    }

    /// In flight when what was sent `ago` bytes before now left.
    fn in_flight(&self, ago: u64) -> Option<u64> {
        let position = self.sent.saturating_sub(ago);
        let newest_first = (1..=Self::LIMIT).map(|n| (self.next + Self::LIMIT - n) % Self::LIMIT);
        newest_first.map(|at| self.samples[at]).find(|s| s.0 <= position && s.0 > 0).map(|s| s.1)
    }
}

/// A round ends when something that was sent after it began is delivered: everything in flight
/// at its beginning has then been delivered or lost.
#[derive(Clone, Copy, Default, Debug)]
struct Round {
    mark: u64,
    lost_before: u64,
    loss_events: u32,
}

/// The last round: what the path delivered, and whether it lost.
#[derive(Clone, Copy, Default, Debug)]
struct Latest {
    mark: u64,
    bw: u64,
    inflight: u64,
    loss: bool,
    ended: bool,
}

/// Data acknowledged beyond what the bandwidth explains, over five to ten rounds.
#[derive(Clone, Copy, Default, Debug)]
struct Aggregation {
    since: Instant,
    delivered: u64,
    extra: [u64; 2],
    bucket: u64,
}

impl Model {
    const MIN_RTT_WINDOW: Duration = Duration::from_secs(10);

    pub(super) fn new() -> Self {
        Self {
            delivered: 0,
            lost: 0,
            round: Round::default(),
            round_start: false,
            round_count: 0,
            max_bw: [0; 2],
            bw_short: u64::MAX,
            inflight_short: u64::MAX,
            inflight_long: u64::MAX,
            min_rtt: None,
            min_rtt_stamp: Instant::ZERO,
            probe_rtt_min: Duration::MAX,
            probe_rtt_stamp: Instant::ZERO,
            probe_rtt_expired: false,
            latest: Latest::default(),
            aggregation: Aggregation::default(),
            flights: [0; 2],
            sending: Sending { sent: 0, samples: [(0, 0); Sending::LIMIT], next: 0 },
        }
    }

    /// Largest delivery rate of the last two cycles (BBR.max_bw), bytes/s.
    pub(super) fn max_bw(&self) -> u64 {
        self.max_bw[0].max(self.max_bw[1])
    }

    /// The bandwidth to work with, bytes/s.
    pub(super) fn bw(&self) -> u64 {
        self.max_bw().min(self.bw_short)
    }

    /// Bandwidth times smallest RTT, bytes; `None` before the first sample.
    pub(super) fn bdp(&self) -> Option<u64> {
        self.min_rtt.map(|rtt| volume(self.bw(), rtt))
    }

    pub(super) fn delivered(&self) -> u64 {
        self.delivered
    }

    pub(super) fn extra_acked(&self) -> u64 {
        self.aggregation.extra[0].max(self.aggregation.extra[1])
    }

    /// In flight when what `ack` acknowledges or gives up was sent, bytes: it was the oldest of
    /// what was in flight before.
    pub(super) fn tx_in_flight(&self, ack: &Ack) -> u64 {
        self.sending.in_flight(ack.prior_in_flight).unwrap_or(self.flights[0])
    }

    pub(super) fn on_sent(&mut self, bytes: u64, in_flight: u64) {
        self.flights[1] = self.flights[1].max(in_flight);
        self.sending.on_sent(bytes, in_flight);
    }

    /// Counts what `ack` delivers and loses; rounds and the rates of the last one.
    pub(super) fn count(&mut self, ack: &Ack) {
        self.delivered = self.delivered.saturating_add(ack.delivered);
        if ack.lost > 0 {
            self.lost = self.lost.saturating_add(ack.lost);
            self.round.loss_events += 1;
            self.note_loss(ack.in_flight);
        }
        let progress = self.delivered.saturating_add(self.lost);
        self.round_start = progress > self.round.mark;
        if self.round_start {
            self.round_count += 1;
            self.start_round(ack.in_flight);
        }
        let rate = ack.delivery_rate.map_or(0, |(rate, _)| rate);
        self.latest.bw = self.latest.bw.max(rate);
        self.latest.inflight = self.latest.inflight.max(volume(rate, ack.rtt.unwrap_or(ack.srtt)));
        self.latest.ended = progress > self.latest.mark;
        if self.latest.ended {
            self.latest.mark = progress.saturating_add(ack.in_flight);
        }
    }

    /// A round begins now.
    pub(super) fn start_round(&mut self, in_flight: u64) {
        let mark = self.delivered.saturating_add(self.lost).saturating_add(in_flight);
        self.round = Round { mark, lost_before: self.lost, loss_events: 0 };
        self.flights = [self.flights[1].max(in_flight), in_flight];
    }

    /// The first loss of a round begins a round of its own.
    pub(super) fn note_loss(&mut self, in_flight: u64) {
        if !self.latest.loss {
            let progress = self.delivered.saturating_add(self.lost);
            self.latest.mark = progress.saturating_add(in_flight);
        }
        self.latest.loss = true;
    }

    /// Loss of this round is more than a path without congestion would have.
    pub(super) fn loses_too_much(&self) -> bool {
        self.lost - self.round.lost_before > self.flights[0] / LOSS_DIVISOR
    }

    /// Times that loss was found in this round.
    pub(super) fn loss_events(&self) -> u32 {
        self.round.loss_events
    }

    /// The largest delivery rate; rates that the application limited count only if larger.
    pub(super) fn update_max_bw(&mut self, ack: &Ack) {
        if let Some((rate, app_limited)) = ack.delivery_rate
            && (!app_limited || rate >= self.max_bw())
        {
            self.max_bw[1] = self.max_bw[1].max(rate);
        }
    }

    /// A cycle of probing is over.
    pub(super) fn advance_max_bw(&mut self) {
        if self.max_bw[1] > 0 {
            self.max_bw = [self.max_bw[1], 0];
        }
    }

    /// At the end of a round with loss, while not probing: down to what the path delivered, by
    /// three tenths at most.
    pub(super) fn adapt_lower_bounds(&mut self, probing: bool, cwnd: u64) {
        if !self.latest.ended {
            return;
        }
        if self.latest.loss && !probing {
            let bw = if self.bw_short == u64::MAX { self.max_bw() } else { self.bw_short };
            let flight = if self.inflight_short == u64::MAX { cwnd } else { self.inflight_short };
            self.bw_short = self.latest.bw.max(beta(bw));
            self.inflight_short = self.latest.inflight.max(beta(flight));
        }
        self.latest.loss = false;
    }

    /// Whether the round that loss counts by has ended with this ACK.
    pub(super) fn loss_round_ended(&self) -> bool {
        self.latest.ended
    }

    /// Most that a round delivered, bytes.
    pub(super) fn inflight_latest(&self) -> u64 {
        self.latest.inflight
    }

    /// The next round's rates begin with this ACK's.
    pub(super) fn advance_latest(&mut self, ack: &Ack) {
        if self.latest.ended {
            self.latest.bw = ack.delivery_rate.map_or(0, |(rate, _)| rate);
            self.latest.inflight = volume(self.latest.bw, ack.rtt.unwrap_or(ack.srtt));
        }
    }

    pub(super) fn reset_congestion(&mut self) {
        let mark = self.latest.mark;
        self.latest = Latest { mark, ..Latest::default() };
    }

    pub(super) fn forget_loss(&mut self) {
        self.latest.loss = false;
    }

    pub(super) fn reset_short(&mut self) {
        (self.bw_short, self.inflight_short) = (u64::MAX, u64::MAX);
    }

    pub(super) fn restart_aggregation(&mut self, now: Instant) {
        (self.aggregation.since, self.aggregation.delivered) = (now, 0);
    }

    /// Data acknowledged beyond what the bandwidth explains since an ACK was late.
    pub(super) fn update_aggregation(&mut self, ack: &Ack, cwnd: u64, startup: bool) {
        let bw = self.bw();
        let a = &mut self.aggregation;
        let mut expected = volume(bw, ack.now - a.since);
        if a.delivered <= expected {
            (a.delivered, a.since, expected) = (0, ack.now, 0);
        }
        a.delivered += ack.delivered;
        let extra = (a.delivered - expected.min(a.delivered)).min(cwnd);
        let bucket = self.round_count / if startup { 1 } else { 5 };
        if bucket != a.bucket {
            a.bucket = bucket;
            a.extra = [if startup { 0 } else { a.extra[1] }, 0];
        }
        a.extra[1] = a.extra[1].max(extra);
    }

    /// Smallest RTT, and whether ProbeRTT is due (`interval` without a smaller one).
    pub(super) fn update_min_rtt(&mut self, ack: &Ack, interval: Duration) {
        // Nothing is known yet that could be too old.
        let known = self.probe_rtt_min < Duration::MAX;
        self.probe_rtt_expired = known && ack.now > self.probe_rtt_stamp + interval;
        if let Some(rtt) = ack.rtt
            && (rtt < self.probe_rtt_min || self.probe_rtt_expired)
        {
            self.probe_rtt_min = rtt;
            self.probe_rtt_stamp = ack.now;
        }
        let old = ack.now > self.min_rtt_stamp + Self::MIN_RTT_WINDOW;
        let known = self.probe_rtt_min < Duration::MAX;
        if known && (old || self.min_rtt.is_none_or(|min| self.probe_rtt_min < min)) {
            self.min_rtt = Some(self.probe_rtt_min.max(Duration(1)));
            self.min_rtt_stamp = self.probe_rtt_stamp;
        }
    }

    /// ProbeRTT is over: the next is due an interval from `now`.
    pub(super) fn probed_rtt(&mut self, now: Instant) {
        self.probe_rtt_stamp = now;
    }
}
