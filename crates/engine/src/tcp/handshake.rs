//! Opening a subflow: active, passive and simultaneous (RFC 9293 section 3.5), and what the SYNs
//! negotiate (RFC 7323, 2018, 3168 section 6.1.1).

use super::receive::{AckDue, Receiver};
use super::reverse_delay::ReverseDelay;
use super::timer::{Timer, Timers};
use super::{
    Accepted, CwndLimited, Due, Peer, Recovery, ResetDue, RttEstimator, Scoreboard, Setup, Space,
    State, Stats, SynState, Tcb, probe, rate,
};
use crate::config::TcpConfig;
use crate::congestion::{self, Start};
use crate::policy::PolicyError;
use crate::record::{CloseReason, DropReason, RecordLog};
use crate::seq::Ssn;
use crate::time::{Duration, Instant};
use std::sync::Arc;
use tabane_wire::{Flags, Segment, SeqNum};

impl Tcb {
    /// Active open: in SYN-SENT; the SYN comes out of `poll_segment`.
    ///
    /// # Errors
    /// [`PolicyError`] for an unknown congestion control.
    pub(crate) fn connect(
        now: Instant,
        config: &Arc<TcpConfig>,
        setup: Setup,
    ) -> Result<Self, PolicyError> {
        Self::new(now, config, setup, State::SynSent)
    }

    /// Passive open upon `syn` (SYN without ACK, which the caller has checked): SYN-RECEIVED.
    ///
    /// # Errors
    /// [`PolicyError`] for an unknown congestion control.
    pub(crate) fn accept(
        now: Instant,
        config: &Arc<TcpConfig>,
        setup: Setup,
        syn: &Segment,
    ) -> Result<Self, PolicyError> {
        let mut tcb = Self::new(now, config, setup, State::SynReceived)?;
        tcb.take_syn(now, syn);
        Ok(tcb)
    }

    fn new(
        now: Instant,
        config: &Arc<TcpConfig>,
        setup: Setup,
        state: State,
    ) -> Result<Self, PolicyError> {
        let mss = u64::from(announced_mss(config, &setup));
        let cwnd = u64::from(config.initial_window) * mss;
        let start = Start { mss, cwnd, ssthresh: config.initial_ssthresh };
        let cc = congestion::build(&setup.congestion, start)?;
        Ok(Self {
            log: RecordLog::default(),
            iss: SeqNum(setup.iss),
            scale: window_scale(setup.window_max),
            state,
            close_reason: None,
            snd_una: 0,
            snd_nxt: 1,
            bound: 1,
            queued_to: 0,
            snd_wnd: 0,
            snd_wl1: 0,
            max_wnd: 0,
            peer: Peer { mss: default_mss(&setup), ..Peer::default() },
            option_reserve: 0,
            opening: 0,
            spans: false,
            space: Space::new(mss as u16, TcpConfig::MSS_MIN, false, 0),
            mss,
            smss: mss,
            timers: Timers::default(),
            rtt: RttEstimator::new(config),
            reverse: ReverseDelay::default(),
            ack_path: None,
            tx: Scoreboard::default(),
            rx: Receiver::new(config),
            recovery: Recovery::default(),
            probe: probe::TailProbe::default(),
            rate: rate::RateSampler::default(),
            window: cc.state(),
            cc,
            due: Due { syn: true, ..Due::default() },
            limited: CwndLimited::default(),
            last_heard: now,
            last_sent: Instant::ZERO,
            was_forgotten: false,
            pace_until: Instant::ZERO,
            syn: SynState::default(),
            keepalives: 0,
            blocked: false,
            limits_fin_wait: false,
            fin_bound: false,
            path_down: false,
            challenge: (0, 0),
            stats: Stats::default(),
            config: Arc::clone(config),
            loss_interval: super::stats::LossInterval::default(),
            reduced_at: Instant::ZERO,
            setup,
        })
    }

    /// Options and numbers of the peer's SYN.
    pub(super) fn take_syn(&mut self, now: Instant, syn: &Segment) {
        let options = &syn.options;
        self.rx.irs = syn.seq;
        self.rx.rcv_nxt = 1;
        self.rx.acked = 1;
        self.rx.edge = 1 + self.syn.window;
        let mss = options.mss.unwrap_or_else(|| default_mss(&self.setup));
        let ecn_flags = Flags::ECE | Flags::CWR;
        let asks_ecn = if syn.flags.contains(Flags::ACK) {
            syn.flags.contains(Flags::ECE) && !syn.flags.contains(Flags::CWR)
        } else {
            syn.flags.contains(ecn_flags)
        };
        self.peer = Peer {
            mss,
            // RFC 7323 section 2.3: a shift above 14 is taken as 14.
            scale: options.window_scale.unwrap_or(0).min(14),
            scales: options.window_scale.is_some(),
            sack: self.config.sack && options.sack_permitted,
            timestamps: self.config.timestamps && options.timestamps.is_some(),
            ecn: self.config.ecn && asks_ecn,
            ts_recent: options.timestamps.map_or(0, |t| t.value),
            ts_recent_at: now,
        };
        if options.window_scale.is_none() {
            self.scale = 0;
        }
        self.snd_wnd = u64::from(syn.window);
        self.max_wnd = self.snd_wnd;
        self.snd_wl1 = 0;
        self.update_mss();
        // RFC 6928: the initial window is in segments of the size found now.
        let start = Start {
            mss: self.smss,
            cwnd: u64::from(self.config.initial_window) * self.smss,
            ssthresh: self.config.initial_ssthresh,
        };
        if let Ok(cc) = self.make_controller(&self.setup.congestion, start) {
            self.cc = cc;
            self.cc.report(&mut self.window);
        }
    }

    /// RFC 9293 section 3.10.7.3.
    pub(super) fn in_syn_sent(&mut self, now: Instant, segment: &Segment, out: &mut Accepted) {
        let flags = segment.flags;
        let acks_syn = segment.ack == self.iss.plus(1);
        if flags.contains(Flags::ACK) && !acks_syn {
            out.dropped = Some(DropReason::BadAck);
            if !flags.contains(Flags::RST) {
                self.due.reset = Some(ResetDue::To(segment.ack));
            }
            return;
        }
        if flags.contains(Flags::RST) {
            if flags.contains(Flags::ACK) {
                self.finish(now, CloseReason::Refused);
                out.closed = self.close_reason;
            } else {
                out.dropped = Some(DropReason::BadReset);
            }
            return;
        }
        if !flags.contains(Flags::SYN) {
            out.dropped = Some(DropReason::BadFlags);
            return;
        }
        self.last_heard = now;
        self.take_syn(now, segment);
        if flags.contains(Flags::ACK) {
            self.complete_handshake(now, segment, out);
            out.window = Some(self.snd_wnd);
            self.snd_wl1 = 1;
            self.take_beside_syn(now, segment, out);
            self.rx.due = AckDue::Now;
        } else {
            // Simultaneous open: our SYN goes again, with ACK.
            self.state = State::SynReceived;
            self.due.syn = true;
        }
    }

    /// Our SYN is acknowledged: ESTABLISHED.
    pub(super) fn complete_handshake(
        &mut self,
        now: Instant,
        segment: &Segment,
        out: &mut Accepted,
    ) {
        self.state = State::Established;
        self.snd_una = 1;
        out.established = true;
        out.acked_to = Some(Ssn(1));
        self.due.syn = false;
        self.timers.stop(Timer::Retransmit);
        self.rtt.reset_backoff();
        self.timers.stop(Timer::Probe);
        let sure = self.syn.transmissions == 1 && self.syn.copies == 0;
        if let Some(known) = self.setup.expected.filter(|_| !sure) {
            // Which of them was answered nobody knows, but the path is no stranger.
            self.rtt.seed(known);
        } else if let Some(sample) = self.handshake_sample(now, segment) {
            self.rtt.on_sample(now, sample);
            self.rtt.on_recent(now, sample, || false);
        } else if self.syn.transmissions > 1 {
            // RFC 6298 section 5.7: the RTO is 3 s when data transmission begins.
            let cautious =
                TcpConfig { rto_initial: Duration::from_secs(3), ..TcpConfig::clone(&self.config) };
            self.rtt = RttEstimator::new(&cautious);
        }
        if self.fin_bound {
            self.state = State::FinWait1;
        }
        self.arm_keepalive(now);
    }

    /// The round trip of the SYN or SYN+ACK. Which one was answered, if it left more than once, is
    /// told by a timestamp alone (RFC 7323 section 4).
    fn handshake_sample(&self, now: Instant, segment: &Segment) -> Option<Duration> {
        let mut departures = self.syn.departures.iter().flatten().copied();
        if self.syn.transmissions + self.syn.copies == 1 {
            return departures.next_back().map(|at| now - at);
        }
        let covers = self.echo_covers(now, segment)?;
        departures.rfind(|at| *at <= covers).map(|at| now - at)
    }

    /// How long the SYN or SYN+ACK took to be answered, if it left once.
    pub(crate) fn handshake_rtt(&self) -> Option<Duration> {
        let sure = self.syn.transmissions == 1 && self.syn.copies == 0;
        sure.then(|| self.rtt.latest())
    }

    /// A SYN or SYN+ACK has left: how long its answer may take before a copy leaves.
    pub(super) fn expect_answer(&mut self, now: Instant) {
        let within = self.setup.expected.map(|known| known.answer_within()).or(self.setup.patience);
        let Some(within) = within.filter(|_| self.syn.copies < SYN_COPIES) else { return };
        let within = within * (1 << self.syn.copies);
        if self.timers.get(Timer::Retransmit).is_some_and(|due| now + within < due) {
            self.timers.set(Timer::Probe, now + within);
        }
    }

    /// A copy of the SYN or SYN+ACK that has left is wanted.
    pub(crate) fn copy_handshake(&mut self) {
        if self.syn.transmissions > 0 {
            self.due.copy = true;
            self.syn.copies += 1;
        }
    }

    /// Whether it waits for the third packet, and this is the number of the peer's SYN.
    pub(crate) fn is_syn_received(&self, seq: SeqNum) -> bool {
        self.state == State::SynReceived && seq == self.rx.irs
    }

    /// Whether our SYN or SYN+ACK has left.
    pub(crate) fn has_answered(&self) -> bool {
        self.syn.transmissions > 0
    }

    /// Whether nothing of ours but a SYN has been acknowledged.
    pub(crate) fn is_first_flight(&self) -> bool {
        self.snd_una <= 1
    }

    /// The MSS that our SYN announces.
    pub(super) fn announced_mss(&self) -> u16 {
        announced_mss(&self.config, &self.setup)
    }
}

/// Copies of a SYN or SYN+ACK that is not answered in time.
const SYN_COPIES: u32 = 2;

/// MSS of a peer that names none (RFC 9293 section 3.7.1).
fn default_mss(setup: &Setup) -> u16 {
    if setup.local.is_ipv4() { 536 } else { 1220 }
}

fn announced_mss(config: &TcpConfig, setup: &Setup) -> u16 {
    let headers = if setup.local.is_ipv4() { 40 } else { 60 };
    setup.mtu.saturating_sub(headers).min(config.mss_max).max(TcpConfig::MSS_MIN)
}

/// The smallest shift by which `window` fits the field; at most 14 (RFC 7323 section 2.3).
fn window_scale(window: u64) -> u8 {
    (0..14).find(|&shift| window >> shift <= u64::from(u16::MAX)).unwrap_or(14)
}
