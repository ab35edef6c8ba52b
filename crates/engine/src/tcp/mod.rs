//! One TCP subflow (RFC 9293): handshake, acknowledgements, loss recovery, timers, closing.
//!
//! A `Tcb` never calls its connection. The connection pushes `Chunk`s down and pulls
//! `Outgoing` segments out; what a segment brought comes back as an `Accepted` value. It knows
//! no data sequence numbers beyond the label on a chunk, no scheduler, no siblings, and no
//! reassembly: payload goes up as it arrives. Chunks stay here until acknowledged, so that
//! retransmission is local; a segment never spans two chunks.

mod ack;
mod ack_path;
mod api;
mod handshake;
mod input;
mod output;
mod prefetch;
mod probe;
mod ranges;
mod rate;
mod receive;
mod recovery;
mod reverse_delay;
mod rtt;
mod scoreboard;
mod setup;
mod space;
mod stats;
#[cfg(test)]
mod tests;
mod timeout;
mod timer;
mod view;

use self::ack_path::AckPathState;
pub use self::api::State;
pub(crate) use self::api::{Accepted, Chunk, Expired, Kind, Outgoing, Span};
use self::rate::RateSampler;
use self::receive::Receiver;
use self::recovery::Recovery;
use self::reverse_delay::ReverseDelay;
use self::rtt::RttEstimator;
use self::scoreboard::{Scoreboard, TxSegment};
pub(crate) use self::setup::Setup;
use self::space::Space;
pub use self::stats::Stats;
use self::timer::{Timer, Timers};
use crate::config::TcpConfig;
use crate::congestion::{CcState, CongestionController, Start};
use crate::policy::{PolicyError, Spec};
use crate::record::{CloseReason, RecordLog, What};
use crate::seq::{Dsn, Ssn};
use crate::time::{Duration, Instant};
use crate::view::RecoveryPhase;
use bytes::Bytes;
use std::sync::Arc;
use tabane_wire::{Segment, SeqNum};

/// The state of one TCP connection between two addresses (transmission control block, RFC 9293
/// section 3.3.1): what a subflow is at the level of TCP.
///
/// # Contract
///
/// Its connection calls it; it calls nobody and returns what happened as values.
///
/// - In: `arrives` (by which path), then `on_segment`, returns an [`Accepted`]; `on_timeout`, due
///   at `next_timeout`, returns an [`Expired`].
/// - Down: `push` binds a [`Chunk`] to the next positions. The caller has asked `sendable` and
///   `mss` before. `close` and `abort` end it; `request_ack` and `set_blocked` ask for an ACK or
///   for window probes.
/// - Out: `poll_segment` after each of these, until it returns `None`.
///
/// Positions count from 0, the SYN, and never wrap; the first payload byte is at 1. A chunk stays
/// here until it is acknowledged cumulatively, and a segment never spans two chunks. Once the state
/// is [`State::Closed`], `close_reason` says why, and only a reset may still be sent.
// In the order of how often fields are needed: with thousands of subflows each cache line that a
// segment touches is a miss (`prefetch.rs` asks for them by these groups).
#[repr(C)]
pub(crate) struct Tcb {
    state: State,
    /// Shift of the windows that we advertise.
    scale: u8,
    blocked: bool,
    fin_bound: bool,
    /// The peer's FIN is not waited for without end.
    limits_fin_wait: bool,
    /// The driver has taken the path away.
    path_down: bool,
    /// Number of our SYN: position 0.
    iss: SeqNum,
    /// First position not acknowledged.
    snd_una: u64,
    /// Next position to be sent for the first time.
    snd_nxt: u64,
    /// Next position to bind.
    bound: u64,
    /// What is bound up to here leaves only as the window lets it.
    queued_to: u64,
    /// Peer's window from `snd_una` on, bytes, and the position of the segment it came with.
    snd_wnd: u64,
    snd_wl1: u64,
    /// Largest window the peer ever had: bounds how old an acknowledgement may be.
    max_wnd: u64,
    mss: u64,
    /// The largest payload, which windows are counted in (SMSS, RFC 5681 section 2).
    smss: u64,
    peer: Peer,
    probe: probe::TailProbe,
    due: Due,
    keepalives: u32,
    /// Shared by all subflows of an endpoint: one copy in the caches.
    config: Arc<TcpConfig>,
    /// Made when a segment first comes by another path than the own.
    ack_path: Option<Box<AckPathState>>,
    /// Records of this subflow, drained by the connection (which fills in its id).
    pub(crate) log: RecordLog,
    /// When anything acceptable was last received.
    last_heard: Instant,
    timers: Timers,
    setup: Setup,
    stats: Stats,
    rx: Receiver,
    // From here on: not for segments that bring data to an end which has nothing to send.
    tx: Scoreboard,
    rtt: RttEstimator,
    reverse: ReverseDelay,
    recovery: Recovery,
    rate: RateSampler,
    cc: Box<dyn CongestionController>,
    /// What `cc` reports, taken whenever the controller has been told something.
    window: CcState,
    limited: CwndLimited,
    /// When data was last sent.
    last_sent: Instant,
    pace_until: Instant,
    // From here on: rarely.
    loss_interval: stats::LossInterval,
    /// When the controller last made the window smaller for congestion.
    reduced_at: Instant,
    syn: SynState,
    was_forgotten: bool,
    challenge: (u64, u32),
    /// What MPTCP adds to a data segment, and how much more to the first.
    option_reserve: u16,
    opening: u16,
    /// Mappings may cover more than a segment.
    spans: bool,
    space: Space,
    close_reason: Option<CloseReason>,
}

/// What the peer offered on its SYN.
#[derive(Clone, Copy, Default, Debug)]
struct Peer {
    mss: u16,
    scale: u8,
    /// Whether it offered window scaling at all.
    scales: bool,
    sack: bool,
    timestamps: bool,
    ecn: bool,
    ts_recent: u32,
    /// When `ts_recent` was taken (PAWS forgets it after 24 days).
    ts_recent_at: Instant,
}

/// Segments to send beside acknowledgements and data.
#[derive(Clone, Copy, Default, Debug)]
struct Due {
    syn: bool,
    /// A copy of it, for another path.
    copy: bool,
    reset: Option<ResetDue>,
    /// Probe of an old sequence number: keepalive, persist.
    probe: bool,
    cwr: bool,
}

/// A reset to be sent: what to put in its numbers.
#[derive(Clone, Copy, Debug)]
enum ResetDue {
    /// Our next number, with ACK.
    Own,
    /// In answer to an unacceptable acknowledgement.
    To(SeqNum),
}

/// Whether cwnd is what limits sending (RFC 7661, in the way of Linux): remembered for a round.
#[derive(Clone, Copy, Default, Debug)]
struct CwndLimited {
    yes: bool,
    round_end: u64,
    max_in_flight: u64,
}

/// The handshake's own bookkeeping.
#[derive(Clone, Copy, Default, Debug)]
struct SynState {
    /// When the last of them left, copies too.
    departures: [Option<Instant>; 4],
    transmissions: u32,
    /// Copies for other paths.
    copies: u32,
    /// Window of the SYN of an active open.
    window: u64,
    /// When the timer is due again after a transmission beside its own.
    resume: Option<Instant>,
}

impl SynState {
    /// It leaves, or a copy does.
    fn departs(&mut self, now: Instant) {
        self.departures.rotate_left(1);
        *self.departures.last_mut().expect("invariant: there are four") = Some(now);
    }
}

impl Tcb {
    /// Payload bytes of new data that may leave now: cwnd or PRR, pacing and the peer's subflow
    /// window. 0 unless ESTABLISHED or CLOSE-WAIT, or while retransmissions come first.
    #[inline]
    pub(crate) fn sendable(&self, now: Instant) -> u64 {
        let open = matches!(self.state, State::Established | State::CloseWait);
        if !open || self.fin_bound || self.due.reset.is_some() || self.pace_until > now {
            return 0;
        }
        let hold = self.recovery.frto_hold.is_some();
        if self.tx.has_lost() && !hold {
            return 0;
        }
        let window = (self.snd_una + self.snd_wnd).saturating_sub(self.bound);
        // RFC 5682 section 3.1 step 2b: two new segments since the timeout.
        let two = || (2 * self.mss).saturating_sub(self.bound - self.recovery.high);
        let space = if hold { two() } else { self.congestion_space() };
        window.min(space)
    }

    /// Binds a chunk to the next positions; it leaves with the next `poll_segment`s, in order.
    /// The caller has asked `sendable` (a chunk pushed without space leaves all the same).
    // Called for each segment: a call would be a per cent of what plain TCP costs.
    #[inline(always)]
    pub(crate) fn push(&mut self, now: Instant, chunk: Chunk) -> Ssn {
        self.push_part(now, chunk, Span::OWN)
    }

    /// As `push`, for a part of what one mapping covers. All of that is bound at once, and leaves
    /// as the window and the pacing let it.
    #[inline(always)]
    pub(crate) fn push_part(&mut self, now: Instant, chunk: Chunk, span: Span) -> Ssn {
        debug_assert!(!chunk.data.is_empty() && !self.fin_bound);
        self.restart_after_idle(now);
        let ssn = self.bound;
        self.bound += chunk.data.len() as u64;
        if span != Span::OWN {
            self.queued_to = self.bound;
        }
        self.tx.push(TxSegment::new(ssn, chunk, span, false));
        Ssn(ssn)
    }

    /// Bytes that may be bound at once, and leave one after the other: a quarter of the window, and
    /// nothing while losses are repaired.
    pub(crate) fn queueable(&self) -> u64 {
        let repairs = matches!(self.recovery.phase, RecoveryPhase::Recovery | RecoveryPhase::Loss);
        if repairs { 0 } else { self.window.cwnd / 4 }
    }

    /// Whether something is bound that has not left.
    #[inline]
    pub(crate) fn is_queued(&self) -> bool {
        self.tx.unsent_bytes() > 0
    }

    /// Chunks bound and not yet acknowledged cumulatively, oldest first (those SACKed included).
    pub(crate) fn unacked(&self) -> impl Iterator<Item = &Chunk> {
        self.tx.chunks()
    }

    /// No more data will be pushed: FIN after what was.
    pub(crate) fn close(&mut self, now: Instant) {
        match self.state {
            State::SynSent => self.finish(now, CloseReason::Aborted),
            State::SynReceived | State::Established | State::CloseWait => {
                if !self.fin_bound {
                    self.fin_bound = true;
                    let empty = Chunk { dsn: Dsn(0), data: Bytes::new() };
                    self.tx.push(TxSegment::new(self.bound, empty, Span::OWN, true));
                    self.bound += 1;
                    self.blocked = false;
                    self.timers.stop(Timer::Persist);
                }
                if self.state == State::Established {
                    self.state = State::FinWait1;
                } else if self.state == State::CloseWait {
                    self.state = State::LastAck;
                }
            }
            _ => {}
        }
    }

    /// Sends RST (if the state calls for it) and closes.
    pub(crate) fn abort(&mut self) {
        let no_reset = matches!(self.state, State::Closed | State::TimeWait | State::SynSent);
        if self.state != State::Closed {
            self.finish(self.last_heard, CloseReason::Aborted);
        }
        if !no_reset {
            self.due.reset = Some(ResetDue::Own);
        }
    }

    /// An ACK (perhaps on data) leaves at the next `poll_segment`: window update, DATA_ACK, or
    /// an MPTCP option to carry.
    pub(crate) fn request_ack(&mut self) {
        if self.state > State::SynReceived && self.state != State::Closed {
            self.rx.due = receive::AckDue::Now;
        }
    }

    /// Data waits for the peer's window while nothing is in flight: run the persist timer, which
    /// sends old-sequence ACK probes with backoff and never gives up while they are answered.
    pub(crate) fn set_blocked(&mut self, now: Instant, blocked: bool) {
        let open = matches!(self.state, State::Established | State::CloseWait);
        if blocked == self.blocked || (blocked && !open) {
            return;
        }
        self.blocked = blocked;
        // That of data that is repeated stays (RFC 6298 section 5.5).
        if !self.tx.outstanding() {
            self.rtt.reset_backoff();
        }
        if blocked {
            self.timers.set(Timer::Persist, now + self.rtt.rto());
        } else {
            self.timers.stop(Timer::Persist);
        }
    }

    /// Bytes of option space that MPTCP needs on data segments, without padding; lowers `mss`.
    pub(crate) fn set_option_reserve(&mut self, bytes: u16) {
        self.option_reserve = bytes;
        self.update_mss();
    }

    /// Whether mappings may cover more than a segment: those after the first have no options, and
    /// more space. What has been bound so, and leaves when they may not any more, is cut.
    pub(crate) fn set_spans(&mut self, spans: bool) {
        self.spans = spans;
        self.update_mss();
    }

    /// Bytes of option space that the first data needs beyond that (MP_CAPABLE with data).
    pub(crate) fn set_opening_reserve(&mut self, bytes: u16) {
        self.opening = bytes;
    }

    /// Room for options beside so much payload, at most 40 bytes.
    #[inline]
    pub(crate) fn option_space(&self, payload: usize) -> usize {
        self.space.options(payload)
    }

    /// New path MTU (ICMP or probing): smaller segments from now on, also for retransmissions.
    pub(crate) fn set_mtu(&mut self, mtu: u16) {
        self.setup.mtu = mtu;
        self.update_mss();
    }

    /// Another controller, starting from the present window.
    ///
    /// # Errors
    /// [`PolicyError`] for an unknown congestion control.
    pub(crate) fn set_congestion(&mut self, now: Instant, spec: &Spec) -> Result<(), PolicyError> {
        let old = self.window;
        let start = Start { mss: self.smss, cwnd: old.cwnd, ssthresh: old.ssthresh };
        self.cc = self.make_controller(spec, start)?;
        self.cc.report(&mut self.window);
        self.setup.congestion = spec.clone();
        self.record_window(now);
        Ok(())
    }

    /// Penalisation by the scheduler (`CongestionController::on_penalty`).
    pub(crate) fn penalise(&mut self, now: Instant) {
        self.cc.on_penalty();
        self.cc.report(&mut self.window);
        self.record_window(now);
    }

    /// When `on_timeout` wants to be called (RTO, TLP, reordering, delayed ACK, persist,
    /// keepalive, TIME-WAIT, pacing release).
    #[inline]
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        self.timers.next()
    }

    /// The state of RFC 9293 that it is in.
    pub(crate) fn state(&self) -> State {
        self.state
    }

    /// Why it closed; `None` unless `Closed`.
    pub(crate) fn close_reason(&self) -> Option<CloseReason> {
        self.close_reason
    }

    /// What it was made from.
    pub(crate) fn setup(&self) -> &Setup {
        &self.setup
    }

    /// First position not acknowledged.
    pub(crate) fn snd_una(&self) -> Ssn {
        Ssn(self.snd_una)
    }

    /// Next position to bind (pushed data counts).
    pub(crate) fn snd_nxt(&self) -> Ssn {
        Ssn(self.bound)
    }

    /// The first position that has not arrived (RCV.NXT).
    pub(crate) fn rcv_nxt(&self) -> Ssn {
        Ssn(self.rx.rcv_nxt)
    }

    /// Whether everything from `start` to before `end` has arrived.
    pub(crate) fn has_received(&self, start: Ssn, end: Ssn) -> bool {
        self.rx.has(start.0, end.0)
    }

    /// Whether something of the peer's is missing before what has come.
    pub(crate) fn has_gap(&self) -> bool {
        self.rx.has_gap()
    }

    /// Whether either end has acknowledged more than a SYN.
    pub(crate) fn has_exchanged(&self) -> bool {
        self.snd_una > 1 || self.rx.acked > 1
    }

    /// Position of a sequence number of the peer, nearest to `rcv_nxt`.
    pub(crate) fn position(&self, seq: SeqNum) -> Option<Ssn> {
        self.rx.position(seq).map(Ssn)
    }

    /// Whether a segment is no longer than the path carries and the peer takes.
    pub(crate) fn carries(&self, segment: &Segment) -> bool {
        self.space.holds(segment.payload.len(), segment.options.emitted_len())
    }

    /// Payload of a full segment.
    pub(crate) fn mss(&self) -> u64 {
        self.mss
    }

    /// Whether mappings may cover more than a segment.
    #[inline]
    pub(crate) fn spans(&self) -> bool {
        self.spans
    }

    /// Payload of a full segment without MPTCP's options.
    pub(crate) fn bare_mss(&self) -> u64 {
        self.space.bare()
    }

    /// Present retransmission timeout, backoff included.
    pub(crate) fn rto(&self) -> Duration {
        self.rtt.rto()
    }

    /// Retransmission timeouts in a row.
    pub(crate) fn timeouts(&self) -> u32 {
        self.rtt.backoff()
    }

    /// Smoothed RTT; zero before the first sample.
    pub(crate) fn srtt(&self) -> Duration {
        self.rtt.srtt()
    }

    /// Caps the retransmission timeout with its backoff (`None`: as configured). A subflow probed
    /// this often is given up after 100 s of silence (RFC 9293 section 3.8.3, R2), not by a count.
    pub(crate) fn limit_rto(&mut self, limit: Option<Duration>) {
        self.rtt.set_max(limit.unwrap_or(self.config.rto_max).min(self.config.rto_max));
    }

    /// The driver says whether there is a path. What is sent without one is to find out that there
    /// is again, and no more.
    pub(crate) fn set_path_down(&mut self, down: bool) {
        self.path_down = down;
    }

    #[inline]
    pub(crate) fn is_path_down(&self) -> bool {
        self.path_down
    }

    /// It was reset after a silence in which the peer may have given it up.
    pub(crate) fn was_forgotten(&self) -> bool {
        self.was_forgotten
    }

    /// When anything acceptable last came from the peer.
    pub(crate) fn last_heard(&self) -> Instant {
        self.last_heard
    }

    /// Counters since the start.
    pub(crate) fn stats(&self) -> &Stats {
        &self.stats
    }

    /// RFC 6675 pipe, less what duplicate ACKs without SACK stand for.
    #[inline]
    fn pipe(&self) -> u64 {
        self.tx.pipe().saturating_sub(self.recovery.dup_credit)
    }

    /// Bytes that congestion control lets go beyond what is in flight or bound.
    #[inline]
    fn congestion_space(&self) -> u64 {
        let queued = self.tx.unsent_bytes();
        if self.recovery.phase == RecoveryPhase::Recovery && self.window.pacing_rate.is_none() {
            let allowance = self.recovery.prr.allowance();
            // A whole segment while the allowance is not used up: see `Prr::allowance`.
            return if allowance > queued { allowance.max(self.mss) - queued } else { 0 };
        }
        self.window.cwnd.saturating_sub(self.pipe() + queued)
    }

    /// RFC 5681 section 4.1: after an idle RTO the window says nothing about the network any more.
    fn restart_after_idle(&mut self, now: Instant) {
        let idle = !self.tx.outstanding() && self.tx.unsent_bytes() == 0;
        let since = now - self.last_sent;
        if idle && self.config.idle_restart && self.snd_nxt > 1 && since > self.rtt.rto() {
            let initial = u64::from(self.config.initial_window) * self.smss;
            let cwnd = self.window.cwnd;
            self.cc.on_idle_restart(now, initial.min(cwnd));
            self.cc.report(&mut self.window);
            self.record_window(now);
        }
    }

    fn update_mss(&mut self) {
        let headers = if self.setup.local.is_ipv4() { 40 } else { 60 };
        let limit = self.setup.mtu.saturating_sub(headers).min(self.peer.mss);
        let (stamps, mptcp) = (self.peer.timestamps, self.option_reserve);
        self.space = Space::new(limit, TcpConfig::MSS_MIN, stamps, mptcp);
        self.mss = self.space.mss();
        let smss = if self.spans { self.space.bare() } else { self.mss };
        if smss != self.smss {
            self.smss = smss;
            self.cc.on_mss(smss);
            self.cc.report(&mut self.window);
        }
    }

    /// Timestamp clock: milliseconds, from an origin of this connection's own.
    #[inline]
    fn timestamp(&self, at: Instant) -> u32 {
        (at.as_millis() as u32).wrapping_add(self.setup.timestamp_offset)
    }

    /// Sequence number of one of our positions.
    #[inline]
    fn seq(&self, position: u64) -> SeqNum {
        self.iss.plus(position as u32)
    }

    /// To CLOSED; nothing is sent or timed any more.
    fn finish(&mut self, now: Instant, reason: CloseReason) {
        self.state = State::Closed;
        self.close_reason = Some(reason);
        self.timers.clear();
        self.due = Due::default();
        self.rx.due = receive::AckDue::No;
        self.was_forgotten = reason == CloseReason::Reset(None) && self.is_silent(now);
        self.last_heard = self.last_heard.max(now);
    }

    fn record_window(&mut self, now: Instant) {
        if self.log.is_on() {
            let cc = self.window;
            let (in_flight, id) = (self.pipe(), self.setup.id);
            self.log.add(now, None, Some(id), || What::Window {
                cwnd: cc.cwnd,
                ssthresh: cc.ssthresh,
                phase: cc.phase,
                in_flight,
            });
        }
    }
}
