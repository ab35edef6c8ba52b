//! A scripted peer (packetdrill as Rust): by RFC section; the comment names the MUST.

use super::pair::{poll, setup};
use crate::config::TcpConfig;
use crate::policy::Spec;
use crate::record::{CloseReason, DropReason};
use crate::seq::Dsn;
use crate::tcp::{Accepted, Chunk, State, Tcb};
use crate::time::{Duration, Instant};
use bytes::Bytes;
use tabane_wire::{Ecn, Flags, Segment, SeqNum, TcpOptions, Timestamps};

mod ack_path;
mod arrival;
mod recovery;
mod response;

const ISS: u32 = 0xffff_f000;
const PEER_ISS: u32 = 5000;

/// A subflow under test and the peer's hand-made segments.
struct Script {
    tcb: Tcb,
    now: Instant,
    window: u64,
    timestamps: bool,
    pushed: u64,
}

fn plain() -> TcpConfig {
    TcpConfig {
        congestion: Spec::named("reno"),
        timestamps: false,
        quick_acks: 0,
        ..TcpConfig::default()
    }
}

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

impl Script {
    /// Actively opened and established, nothing sent yet.
    fn established(config: TcpConfig) -> Self {
        let mut s = Self::syn_sent(config);
        let mut syn_ack = s.segment(0, 1, Flags::SYN | Flags::ACK);
        syn_ack.options.sack_permitted = true;
        syn_ack.options.window_scale = Some(0);
        syn_ack.options.mss = Some(1460);
        s.now += ms(100);
        assert!(s.give(syn_ack).established);
        assert_eq!(s.expect_ack(), (1, 1));
        s
    }

    fn syn_sent(config: TcpConfig) -> Self {
        let now = Instant::ZERO + Duration::from_secs(10);
        let timestamps = config.timestamps;
        let tcb =
            Tcb::connect(now, &config.clone().into(), setup(0, &config.congestion.name)).unwrap();
        let mut s = Self { tcb, now, window: 65_535, timestamps, pushed: 0 };
        let syn = s.poll().expect("a SYN");
        assert!(syn.seq == SeqNum(ISS) && syn.flags.contains(Flags::SYN));
        s
    }

    /// A segment of the peer at its position `ssn`, acknowledging our position `ack`.
    fn segment(&self, ssn: u32, ack: u32, flags: Flags) -> Segment {
        let ours = setup(0, "reno");
        let mut options = TcpOptions::default();
        if self.timestamps {
            let value = self.now.as_millis() as u32;
            options.timestamps = Some(Timestamps { value, echo: value });
        }
        Segment {
            src: ours.remote,
            dst: ours.local,
            seq: SeqNum(PEER_ISS).plus(ssn),
            ack: SeqNum(ISS).plus(ack),
            flags,
            window: 65_535,
            ecn: Ecn::NotEct,
            options,
            payload: Bytes::new(),
        }
    }

    fn ack(&self, ack: u32) -> Segment {
        self.segment(1, ack, Flags::ACK)
    }

    fn sack(&self, ack: u32, blocks: &[(u32, u32)]) -> Segment {
        let mut segment = self.ack(ack);
        for &(a, b) in blocks {
            segment.options.sack.push(SeqNum(ISS).plus(a), SeqNum(ISS).plus(b));
        }
        segment
    }

    fn data(&self, ssn: u32, len: usize) -> Segment {
        let mut segment = self.segment(ssn, 1, Flags::ACK);
        segment.payload = Bytes::from(vec![7; len]);
        segment
    }

    fn give(&mut self, segment: Segment) -> Accepted {
        self.tcb.on_segment(self.now, &segment, &[])
    }

    fn poll(&mut self) -> Option<Segment> {
        poll(&mut self.tcb, self.now, self.window)
    }

    /// Lets time pass, running timers when they are due.
    fn wait(&mut self, by: Duration) {
        let until = self.now + by;
        while let Some(at) = self.tcb.next_timeout().filter(|&at| at <= until) {
            self.now = self.now.max(at);
            self.tcb.on_timeout(self.now, &[]);
            if self.tcb.next_timeout() == Some(at) {
                break;
            }
        }
        self.now = until;
    }

    /// Pushes full segments while the subflow takes them; positions `(start, len)` of what left.
    fn send(&mut self, segments: u64) -> Vec<(u32, usize)> {
        let mss = self.tcb.mss();
        for _ in 0..segments {
            if self.tcb.sendable(self.now) < mss {
                break;
            }
            let data = Bytes::from(vec![1; mss as usize]);
            self.tcb.push(self.now, Chunk { dsn: Dsn(1 + self.pushed), data });
            self.pushed += mss;
        }
        self.sent()
    }

    /// Everything with payload that wants to leave now.
    fn sent(&mut self) -> Vec<(u32, usize)> {
        let mut out = Vec::new();
        while let Some(s) = self.poll() {
            if !s.payload.is_empty() {
                out.push((s.seq.0.wrapping_sub(ISS), s.payload.len()));
            }
        }
        out
    }

    /// The next segment is a pure ACK: its (sequence, acknowledgement) positions.
    fn expect_ack(&mut self) -> (u32, u32) {
        let s = self.poll().expect("an ACK");
        assert_eq!(s.flags, Flags::ACK);
        assert!(s.payload.is_empty());
        (s.seq.0.wrapping_sub(ISS), s.ack.0.wrapping_sub(PEER_ISS))
    }

    fn expect_nothing(&mut self) {
        assert_eq!(self.poll(), None);
    }
}

// RFC 9293 section 3.10.7.3: an unacceptable ACK in SYN-SENT MUST be answered by RST with its
// number, and the connection lives on.
#[test]
fn rfc9293_syn_sent_resets_a_wrong_acknowledgement() {
    let mut s = Script::syn_sent(plain());
    let wrong = s.segment(0, 77, Flags::SYN | Flags::ACK);
    assert_eq!(s.give(wrong).dropped, Some(DropReason::BadAck));
    let reset = s.poll().unwrap();
    assert_eq!((reset.flags, reset.seq), (Flags::RST, SeqNum(ISS).plus(77)));
    assert_eq!(s.tcb.state(), State::SynSent);
}

// RFC 9293 section 3.10.7.3: RST with an acceptable ACK closes: connection refused.
#[test]
fn rfc9293_refused() {
    let mut s = Script::syn_sent(plain());
    let reset = s.segment(0, 1, Flags::RST | Flags::ACK);
    assert_eq!(s.give(reset).closed, Some(CloseReason::Refused));
    s.expect_nothing();
}

// RFC 9293 section 3.5, figure 8 (MUST-10): simultaneous open.
#[test]
fn rfc9293_simultaneous_open() {
    let mut s = Script::syn_sent(plain());
    let syn = s.segment(0, 0, Flags::SYN);
    s.give(syn);
    assert_eq!(s.tcb.state(), State::SynReceived);
    let answer = s.poll().unwrap();
    assert_eq!(answer.flags, Flags::SYN | Flags::ACK);
    assert_eq!((answer.seq, answer.ack), (SeqNum(ISS), SeqNum(PEER_ISS).plus(1)));
    let syn_ack = s.segment(0, 1, Flags::SYN | Flags::ACK);
    assert!(s.give(syn_ack).established);
    assert_eq!(s.tcb.state(), State::Established);
}

// RFC 9293 section 3.10.7.4: out-of-window segments MUST be answered with an ACK and dropped.
#[test]
fn rfc9293_out_of_window_is_acknowledged_and_dropped() {
    let mut s = Script::established(plain());
    let far = s.data(200_000, 100);
    let accepted = s.give(far);
    assert_eq!(accepted.dropped, Some(DropReason::OutOfWindow));
    assert_eq!(accepted.payload, None);
    assert_eq!(s.expect_ack(), (1, 1));
}

// RFC 9293 section 3.8.6.1 (MUST-36): a zero window is probed for ever while the peer answers.
#[test]
fn rfc9293_zero_window_probes_back_off_and_go_on() {
    let mut s = Script::established(plain());
    s.tcb.set_blocked(s.now, true);
    let mut gaps = Vec::new();
    let mut last = s.now;
    for _ in 0..40 {
        let at = s.tcb.next_timeout().unwrap();
        s.now = at;
        s.tcb.on_timeout(at, &[]);
        let probe = s.poll().expect("a window probe");
        assert_eq!(probe.seq, SeqNum(ISS), "an old number, which must be answered");
        gaps.push((at - last).as_millis());
        last = at;
        let mut answer = s.ack(1);
        answer.window = 0;
        s.give(answer);
    }
    assert_eq!(gaps[1], 2 * gaps[0]);
    assert_eq!(gaps[39], 120_000, "capped");
    assert_eq!(s.tcb.state(), State::Established);
}

// RFC 9293 section 3.6: half-close; data still arrives in FIN-WAIT-2, then TIME-WAIT.
#[test]
fn rfc9293_half_close() {
    let mut s = Script::established(plain());
    s.tcb.close(s.now);
    let fin = s.poll().unwrap();
    assert_eq!(fin.flags, Flags::ACK | Flags::FIN);
    let ack = s.ack(2);
    assert!(s.give(ack).fin_acked);
    assert_eq!(s.tcb.state(), State::FinWait2);
    let mut data = s.data(1, 100);
    data.ack = SeqNum(ISS).plus(2);
    assert!(s.give(data).payload.is_some());
    let fin = s.segment(101, 2, Flags::FIN | Flags::ACK);
    assert!(s.give(fin).fin);
    assert_eq!(s.tcb.state(), State::TimeWait);
    assert_eq!(s.expect_ack(), (2, 102));
    // A repeated FIN is acknowledged and TIME-WAIT begins anew (section 3.10.7.4).
    s.wait(Duration::from_secs(59));
    let fin = s.segment(101, 2, Flags::FIN | Flags::ACK);
    s.give(fin);
    assert_eq!(s.expect_ack(), (2, 102));
    s.wait(Duration::from_secs(59));
    assert_eq!(s.tcb.state(), State::TimeWait);
    s.wait(Duration::from_secs(2));
    assert_eq!(s.tcb.close_reason(), Some(CloseReason::Finished));
}

// RFC 9293 section 3.10.7.4: a FIN that comes before missing data waits for it.
#[test]
fn rfc9293_early_fin_waits_for_the_gap() {
    let mut s = Script::established(plain());
    let mut late = s.data(101, 100);
    late.flags = Flags::ACK | Flags::FIN;
    assert!(!s.give(late).fin);
    assert_eq!(s.expect_ack(), (1, 1));
    let first = s.data(1, 100);
    assert!(s.give(first).fin);
    assert_eq!(s.tcb.state(), State::CloseWait);
    assert_eq!(s.expect_ack(), (1, 202));
}

// RFC 5961 section 3.2: RST resets only at exactly RCV.NXT; in the window it is challenged.
#[test]
fn rfc5961_blind_reset() {
    let mut s = Script::established(plain());
    let blind = s.segment(500, 1, Flags::RST);
    assert_eq!(s.give(blind).dropped, Some(DropReason::BadReset));
    assert_eq!(s.expect_ack(), (1, 1));
    let outside = s.segment(100_000, 1, Flags::RST);
    assert_eq!(s.give(outside).dropped, Some(DropReason::OutOfWindow));
    s.expect_nothing();
    let exact = s.segment(1, 1, Flags::RST);
    assert_eq!(s.give(exact).closed, Some(CloseReason::Reset(None)));
}

// RFC 5961 section 4.2: a SYN in a synchronised state MUST be challenged, whatever its number.
#[test]
fn rfc5961_blind_syn() {
    let mut s = Script::established(plain());
    for ssn in [1, 300, 1 << 30] {
        let syn = s.segment(ssn, 1, Flags::SYN);
        assert_eq!(s.give(syn).dropped, Some(DropReason::BadSyn));
        assert_eq!(s.expect_ack(), (1, 1));
    }
    assert_eq!(s.tcb.state(), State::Established);
}

// RFC 5961 section 5.2: an ACK beyond SND.NXT or below SND.UNA - MAX.SND.WND is challenged, and
// its data is not taken. Section 7: challenges are throttled.
#[test]
fn rfc5961_blind_data_and_throttle() {
    let mut s = Script::established(plain());
    let mut data = s.data(1, 100);
    data.ack = SeqNum(ISS).plus(5000);
    assert_eq!(s.give(data.clone()).dropped, Some(DropReason::BadAck));
    assert_eq!(s.expect_ack(), (1, 1));
    data.ack = SeqNum(ISS).plus(1_u32.wrapping_sub(70_000));
    assert_eq!(s.give(data.clone()).dropped, Some(DropReason::BadAck));
    assert_eq!(s.expect_ack(), (1, 1));
    let answers = (0..100).filter(|_| {
        s.give(data.clone());
        s.poll().is_some()
    });
    assert_eq!(answers.count(), 8, "10 a second, two of which are spent");
}

// RFC 7323 section 5.3: a segment with an old timestamp MUST be acknowledged and dropped;
// section 5.2: RSTs are exempt.
#[test]
fn rfc7323_paws() {
    let mut s = Script::established(TcpConfig { timestamps: true, ..plain() });
    // The scripted SYN+ACK had timestamps, so they are in use.
    let first = s.data(1, 100);
    s.give(first);
    let mut old = s.data(101, 100);
    old.options.timestamps.as_mut().unwrap().value -= 5;
    assert_eq!(s.give(old).dropped, Some(DropReason::Paws));
    assert_eq!(s.expect_ack(), (1, 101));
    let mut reset = s.segment(101, 1, Flags::RST);
    reset.options.timestamps.as_mut().unwrap().value -= 5;
    assert!(s.give(reset).closed.is_some());
}

// RFC 7323 section 5.5: after 24 days a timestamp may be older than the last as a number. It is
// taken, and those after it are checked against it.
#[test]
fn rfc7323_paws_goes_on_after_weeks_of_silence() {
    let mut s = Script::established(TcpConfig { timestamps: true, ..plain() });
    let first = s.data(1, 100);
    s.give(first);
    s.wait(ms(100));
    s.expect_ack();
    s.now += Duration::from_secs(25 * 24 * 3600);
    let value = s.now.as_millis() as u32;
    let next = s.data(101, 100);
    assert_eq!(s.give(next).dropped, None);
    s.wait(ms(100));
    let answer = s.poll().map(|s| s.options.timestamps.unwrap().echo);
    assert_eq!(answer, Some(value));
    let mut old = s.data(201, 100);
    old.options.timestamps.as_mut().unwrap().value = value.wrapping_sub(5);
    assert_eq!(s.give(old).dropped, Some(DropReason::Paws));
}

// RFC 7323 section 4.3: TS.Recent follows only segments that begin at or before Last.ACK.sent.
#[test]
fn rfc7323_echo_is_of_the_segment_that_advances_the_edge() {
    let mut s = Script::established(TcpConfig { timestamps: true, ..plain() });
    let t0 = s.now.as_millis() as u32;
    let first = s.data(1, 100);
    s.give(first);
    s.now += ms(7);
    let gap = s.data(201, 100);
    s.give(gap);
    let ack = s.poll().unwrap();
    assert_eq!(ack.options.timestamps.unwrap().echo, t0, "not of the out-of-order segment");
}

// RFC 7323 section 2.2: a window scale option is not sent on the SYN+ACK unless the SYN had one,
// and windows are then not scaled.
#[test]
fn rfc7323_no_scaling_unless_both_offer() {
    let now = Instant(1);
    let mut config = plain();
    config.timestamps = true;
    let donor = Script::syn_sent(plain());
    let mut syn = donor.segment(0, 0, Flags::SYN);
    syn.options.mss = Some(1000);
    let mut tcb = Tcb::accept(now, &config.clone().into(), setup(0, "reno"), &syn).unwrap();
    let syn_ack = poll(&mut tcb, now, 1 << 20).unwrap();
    assert_eq!(syn_ack.options.window_scale, None);
    assert_eq!(syn_ack.options.timestamps, None);
    assert!(!syn_ack.options.sack_permitted);
    let ack = donor.ack(1);
    assert!(tcb.on_segment(now, &ack, &[]).established);
    tcb.request_ack();
    let ack = poll(&mut tcb, now, 1 << 20).unwrap();
    assert_eq!(ack.window, 65_535);
    assert_eq!(tcb.mss(), 1000);
}

// RFC 9293 section 3.7.1 (MUST-15): without an MSS option the peer's MSS is 536.
#[test]
fn rfc9293_default_mss() {
    let mut s = Script::syn_sent(plain());
    let syn_ack = s.segment(0, 1, Flags::SYN | Flags::ACK);
    s.give(syn_ack);
    assert_eq!(s.tcb.mss(), 536);
}

// RFC 6928: the initial window is ten segments.
#[test]
fn rfc6928_initial_window() {
    let mut s = Script::established(plain());
    let sent = s.send(100);
    assert_eq!(sent.len(), 10);
    assert_eq!(sent[9], (1 + 9 * 1460, 1460));
}

// RFC 5681 section 4.2: an ACK for every second full segment, within 500 ms, and at once for
// what is out of order or fills a gap.
#[test]
fn rfc5681_delayed_acknowledgements() {
    let mut s = Script::established(plain());
    let one = s.data(1, 1460);
    s.give(one);
    s.expect_nothing();
    s.wait(ms(39));
    s.expect_nothing();
    s.wait(ms(1));
    assert_eq!(s.expect_ack(), (1, 1461));
    for ssn in [1461, 2921] {
        let data = s.data(ssn, 1460);
        s.give(data);
    }
    assert_eq!(s.expect_ack(), (1, 4381));
    let gap = s.data(5841, 1460);
    s.give(gap);
    let ack = s.poll().unwrap();
    let block = (SeqNum(PEER_ISS).plus(5841), SeqNum(PEER_ISS).plus(7301));
    assert_eq!(ack.options.sack.as_slice(), [block]);
    let fill = s.data(4381, 1460);
    s.give(fill);
    assert_eq!(s.expect_ack(), (1, 7301));
}

// RFC 2883 section 4: a duplicate is reported in the first block of the next ACK, at once.
#[test]
fn rfc2883_duplicate_is_reported() {
    let mut s = Script::established(plain());
    for _ in 0..2 {
        let data = s.data(1, 1000);
        s.give(data);
    }
    let ack = s.poll().unwrap();
    let block = (SeqNum(PEER_ISS).plus(1), SeqNum(PEER_ISS).plus(1001));
    assert_eq!(ack.options.sack.as_slice(), [block]);
}

// RFC 6298 sections 2 and 5: RTO from the first sample (RTT 100 ms: 100 + max(200, 4 * 50)),
// doubled at each expiry; only the first segment goes again.
#[test]
fn rfc6298_timeout_and_backoff() {
    let mut s = Script::established(TcpConfig { sack: false, ..plain() });
    assert_eq!(s.tcb.rto(), ms(300));
    s.send(3);
    s.wait(ms(299));
    assert!(s.sent().is_empty());
    s.wait(ms(1));
    assert_eq!(s.sent(), [(1, 1460)]);
    s.wait(ms(599));
    assert!(s.sent().is_empty());
    s.wait(ms(1));
    assert_eq!(s.sent(), [(1, 1460)]);
    assert_eq!(s.tcb.stats().timeouts, 2);
    assert_eq!(s.tcb.view(s.now).cwnd, 1460);
}

// RFC 6298 section 5.7: after a repeated SYN, the RTO is 3 s when data transmission begins.
#[test]
fn rfc6298_repeated_syn() {
    let mut s = Script::syn_sent(plain());
    s.wait(Duration::from_secs(1));
    assert_eq!(s.poll().unwrap().flags, Flags::SYN);
    let syn_ack = s.segment(0, 1, Flags::SYN | Flags::ACK);
    s.give(syn_ack);
    assert_eq!(s.tcb.rto(), Duration::from_secs(3));
}

// RFC 6298 section 3 (Karn): what is acknowledged together with a retransmission has waited for it,
// and says nothing about the round trip.
#[test]
fn rfc6298_no_sample_of_what_waited_for_a_repair() {
    let mut s = Script::syn_sent(TcpConfig { sack: false, ..plain() });
    let mut syn_ack = s.segment(0, 1, Flags::SYN | Flags::ACK);
    syn_ack.options.mss = Some(1460);
    s.now += ms(100);
    s.give(syn_ack);
    s.poll();
    s.send(3);
    s.wait(ms(900));
    assert_eq!(s.sent(), [(1, 1460)], "the timeout");
    s.now += ms(100);
    let ack = s.ack(1 + 3 * 1460);
    s.give(ack);
    assert_eq!(s.tcb.srtt(), ms(100));
}

// RFC 9293 section 3.8.3: timeouts that came one a second since they were capped are no reason to
// give up once the cap is lifted, which is when the peer has been heard again.
#[test]
fn timeouts_that_were_capped_do_not_count_as_doubled() {
    let config = plain();
    let retries = u64::from(config.retries);
    let mut s = Script::established(config);
    s.tcb.limit_rto(Some(Duration::from_secs(1)));
    s.send(1);
    s.wait(Duration::from_secs(retries + 5));
    assert!(s.tcb.stats().timeouts > retries);
    let answer = s.ack(1);
    s.give(answer);
    s.tcb.limit_rto(None);
    assert!(s.tcb.rto() >= Duration::from_secs(1), "it is not tried more often than before");
    s.wait(Duration::from_secs(30));
    assert_eq!(s.tcb.state(), State::Established);
    s.wait(Duration::from_secs(1_500));
    assert_eq!(s.tcb.close_reason(), Some(CloseReason::TimedOut));
}

// RFC 9293 section 3.8.3 (R2 for SYNs): a SYN+ACK that answers a repeated SYN is none of the
// repetitions after which we give up.
#[test]
fn answers_to_repeated_syns_do_not_count() {
    let mut s = Script::syn_sent(plain());
    let syn = s.segment(0, 0, Flags::SYN);
    let now = s.now;
    s.tcb = Tcb::accept(now, &plain().into(), setup(0, "reno"), &syn).unwrap();
    for _ in 0..20 {
        assert_eq!(s.poll().map(|s| s.flags), Some(Flags::SYN | Flags::ACK));
        s.now += ms(10);
        s.give(syn.clone());
    }
    s.wait(Duration::from_secs(100));
    assert_eq!(s.tcb.state(), State::SynReceived);
    for _ in 0..10 {
        s.poll();
        s.wait(Duration::from_secs(130));
    }
    assert_eq!(s.tcb.close_reason(), Some(CloseReason::TimedOut));
}

// RFC 8985 section 6.2: three segments SACKed above a hole: it is lost at once (no reordering
// seen); exactly the hole goes again.
#[test]
fn rfc8985_three_sacked_segments_mark_the_hole() {
    let mut s = Script::established(plain());
    s.send(10);
    s.now += ms(100);
    for end in [2, 3] {
        let sack = s.sack(1, &[(1461, 1 + end * 1460)]);
        s.give(sack);
        assert_eq!(s.tcb.stats().recoveries, 0, "limited transmit, RFC 3042");
    }
    let sack = s.sack(1, &[(1461, 1 + 4 * 1460)]);
    s.give(sack);
    assert_eq!(s.sent(), [(1, 1460)]);
    assert_eq!(s.tcb.stats().recoveries, 1);
}

// RFC 8985 section 6.2 step 5: with fewer, the reordering timer decides.
#[test]
fn rfc8985_reordering_timer() {
    let mut s = Script::established(plain());
    s.send(4);
    s.now += ms(100);
    let sack = s.sack(1, &[(1461, 2921)]);
    s.give(sack);
    assert!(s.sent().is_empty());
    s.wait(ms(24));
    assert!(s.sent().is_empty(), "a quarter of the smallest RTT");
    s.wait(ms(1));
    assert_eq!(s.sent(), [(1, 1460)]);
}

// RFC 8985 section 6.2: a lost retransmission is found by what was sent after it.
#[test]
fn rfc8985_lost_retransmission() {
    let mut s = Script::established(plain());
    s.send(10);
    s.now += ms(100);
    let sack = s.sack(1, &[(1461, 1 + 4 * 1460)]);
    s.give(sack);
    assert_eq!(s.sent(), [(1, 1460)]);
    // The rest is SACKed, new data goes out after the retransmission, and is SACKed too.
    s.now += ms(10);
    let sack = s.sack(1, &[(1461, 1 + 10 * 1460)]);
    s.give(sack);
    let new = s.send(10);
    assert!(!new.is_empty());
    s.now += ms(100);
    let sack = s.sack(1, &[(1461, new[0].0 + 1460)]);
    s.give(sack);
    assert_eq!(s.sent().first(), Some(&(1, 1460)));
    assert_eq!(s.tcb.stats().timeouts, 0);
}

// RFC 7323 section 4: the echo tells which transmission is acknowledged. On a path where even the
// first segments wait longer than the timeout nothing else ever would; nobody waits longer than the
// longest timeout.
#[test]
fn rfc7323_what_was_sent_again_has_a_round_trip_by_its_echo() {
    let srtt_after = |age: u32| {
        let mut s = Script::established(TcpConfig { timestamps: true, ..plain() });
        let before = s.segment(1, 1, Flags::ACK).options.timestamps.unwrap();
        assert_eq!(s.send(2).len(), 2);
        s.wait(ms(800));
        assert!(s.tcb.stats().timeouts > 0 && !s.sent().is_empty());
        let mut ack = s.ack(1 + 1448);
        ack.options.timestamps.as_mut().unwrap().echo = before.echo.wrapping_sub(age);
        s.give(ack);
        s.tcb.view(s.now).srtt
    };
    let (known, sample) = (ms(100), ms(800));
    let srtt = srtt_after(0);
    assert!(srtt > known && srtt.abs_diff((known * 7 + sample) / 8) <= ms(1), "{srtt:?}");
    assert_eq!(srtt_after(1_000_000_000), known);
}

// The echo has milliseconds, and a round trip may be shorter than one.
#[test]
fn rfc7323_the_echo_of_a_retransmission_is_as_old_as_the_retransmission() {
    let mut s = Script::established(TcpConfig { timestamps: true, ..plain() });
    let (known, round_trip) = (s.tcb.view(s.now).srtt, Duration::from_micros(400));
    let origin = s.now.as_millis() as u32;
    let before = s.segment(1, 1, Flags::ACK).options.timestamps.unwrap();
    assert_eq!(s.send(2).len(), 2);
    s.wait(ms(800) + Duration::from_micros(700));
    assert!(!s.sent().is_empty());
    let sent_at = s.now.as_millis() as u32;
    s.now += round_trip;
    assert_ne!(sent_at, s.now.as_millis() as u32);
    let mut ack = s.ack(1 + 1448);
    ack.options.timestamps.as_mut().unwrap().echo = before.echo.wrapping_add(sent_at - origin);
    s.give(ack);
    assert_eq!(s.tcb.view(s.now).srtt, (known * 7 + round_trip) / 8);
}

/// Six segments, the last three lost, and the tail loss probe, which leaves last: what a peer with
/// timestamps answers, whose echo is of the third (RFC 7323 section 4.3) and older than the probe.
fn probed_tail() -> (Script, Segment) {
    let mut s = Script::established(TcpConfig { timestamps: true, ..plain() });
    let echo = s.segment(1, 1, Flags::ACK).options.timestamps;
    assert_eq!(s.send(6).len(), 6);
    s.now += ms(100);
    let echoing = |mut segment: Segment, now: Instant| {
        let value = now.as_millis() as u32;
        segment.options.timestamps = echo.map(|t| Timestamps { value, ..t });
        segment
    };
    let ack = echoing(s.ack(1 + 3 * 1448), s.now);
    s.give(ack);
    s.wait(ms(200));
    assert_eq!(s.sent(), [(1 + 5 * 1448, 1448)], "the probe: two round trips later");
    s.now += ms(100);
    let sack = echoing(s.sack(1 + 3 * 1448, &[(1 + 5 * 1448, 1 + 6 * 1448)]), s.now);
    (s, sack)
}

// RFC 8985 sections 6.2 and 7.3: the SACK of a tail loss probe shows what is lost before it,
// although the probe is a retransmission and the echo older.
#[test]
fn rfc8985_a_sacked_probe_begins_recovery() {
    let (mut s, sack) = probed_tail();
    s.give(sack);
    assert_eq!(s.sent(), [(1 + 3 * 1448, 1448)], "one is delivered, one leaves (RFC 9937)");
    s.now += ms(100);
    s.give(s.ack(1 + 4 * 1448));
    assert_eq!(s.sent(), [(1 + 4 * 1448, 1448)]);
    assert_eq!((s.tcb.stats().recoveries, s.tcb.stats().timeouts), (1, 0));
}

// RFC 8985 section 6.2 step 2: sooner than the smallest round trip it is the original's.
#[test]
fn rfc8985_a_probe_sacked_too_soon_says_nothing() {
    let (mut s, sack) = probed_tail();
    s.now = Instant(s.now.0 - ms(1).0);
    s.give(sack);
    assert!(s.sent().is_empty());
    assert_eq!(s.tcb.stats().recoveries, 0);
}

// RFC 8985 section 7.1: recovery forgets the probe; one loss, one cut.
#[test]
fn rfc8985_a_probe_that_led_to_recovery_cuts_once() {
    let (mut s, sack) = probed_tail();
    s.give(sack);
    assert_eq!(s.sent().len(), 1);
    s.now += ms(100);
    let ack = s.ack(1 + 4 * 1448);
    s.give(ack);
    let (lost, new) = ((1 + 4 * 1448, 1448), (1 + 6 * 1448, 1448));
    assert_eq!([s.sent(), s.send(1)].concat(), [lost, new], "new data in recovery");
    let ack = s.ack(1 + 6 * 1448);
    s.give(ack);
    let cwnd = s.tcb.view(s.now).cwnd;
    s.now += ms(100);
    let ack = s.ack(1 + 7 * 1448);
    s.give(ack);
    assert!(s.tcb.view(s.now).cwnd >= cwnd);
}

// RFC 2018 section 8: SACKed data is kept; at a timeout with the first segment SACKed the peer
// has reneged and the marks go.
#[test]
fn rfc2018_reneging() {
    let mut s = Script::established(plain());
    s.send(4);
    s.now += ms(100);
    let sack = s.sack(1, &[(1461, 1 + 4 * 1460)]);
    s.give(sack);
    assert_eq!(s.sent(), [(1, 1460)]);
    s.now += ms(100);
    let ack = s.ack(1461);
    s.give(ack);
    // 1461.. is SACKed but the cumulative acknowledgement stays: reneged.
    s.wait(Duration::from_secs(2));
    assert!(s.sent().contains(&(1461, 1460)));
}

// RFC 5681 section 3.2 without SACK: the third duplicate ACK, and RFC 6582: partial ACKs.
#[test]
fn rfc6582_three_duplicates_then_partial_acknowledgement() {
    let mut s = Script::syn_sent(TcpConfig { sack: false, ..plain() });
    let mut syn_ack = s.segment(0, 1, Flags::SYN | Flags::ACK);
    syn_ack.options.mss = Some(1460);
    s.now += ms(100);
    s.give(syn_ack);
    s.poll();
    s.send(10);
    s.now += ms(100);
    for n in 1..=3 {
        let dup = s.ack(1);
        s.give(dup);
        let sent = s.sent();
        assert_eq!(sent, if n == 3 { vec![(1, 1460)] } else { vec![] }, "duplicate {n}");
    }
    s.now += ms(100);
    let partial = s.ack(1 + 3 * 1460);
    s.give(partial);
    assert_eq!(s.sent().first(), Some(&(1 + 3 * 1460, 1460)));
    let full = s.ack(1 + 10 * 1460);
    s.give(full);
    assert_eq!(s.tcb.stats().recoveries, 1);
    assert!(s.tcb.view(s.now).cwnd <= 6 * 1460);
}

// RFC 3168 section 6.1: ECT only on new data; one cut per window; CWR on the next new segment.
/// Every ACK comes twice (bicast), without SACK: the copy of the last good one counts as the first
/// duplicate, the first genuine duplicate and its copy as the next two.
#[test]
fn doubled_acknowledgements_without_sack_retransmit_early() {
    let mut s = Script::established(TcpConfig { sack: false, ..plain() });
    let sent = s.send(6);
    assert_eq!(sent.len(), 6);
    let twice = |s: &mut Script, ack: u32| {
        let segment = s.ack(ack);
        s.wait(ms(10));
        s.give(segment.clone());
        s.give(segment);
        s.sent()
    };
    assert_eq!(twice(&mut s, 1461), [], "a good one, twice: duplicate 1");
    assert_eq!(twice(&mut s, 1461), [(1461, 1460)], "duplicates 2 and 3");
    assert_eq!(twice(&mut s, 1461), [], "and no more");
}

/// With SACK copies change nothing: three segments must be reported beyond the hole.
#[test]
fn doubled_acknowledgements_with_sack_change_nothing() {
    let mut s = Script::established(plain());
    s.send(6);
    let twice = |s: &mut Script, ack: u32, blocks: &[(u32, u32)]| {
        let segment = s.sack(ack, blocks);
        // Within RACK's reordering window: only what is reported beyond the hole counts.
        s.wait(if blocks.is_empty() { ms(10) } else { Duration::ZERO });
        s.give(segment.clone());
        s.give(segment);
        s.sent()
    };
    assert_eq!(twice(&mut s, 1461, &[]), []);
    assert_eq!(twice(&mut s, 1461, &[(2921, 4381)]), []);
    assert_eq!(twice(&mut s, 1461, &[(2921, 5841)]), []);
    assert_eq!(twice(&mut s, 1461, &[(2921, 7301)]), [(1461, 1460)]);
}

/// RFC 3708: the network's duplicates prove nothing; nor does a DSACK that comes twice.
#[test]
fn rfc3708_no_undo_by_duplicates_of_the_network() {
    let lose_second = |s: &mut Script| {
        s.send(6);
        s.wait(ms(100));
        s.give(s.ack(1461));
        s.wait(ms(10));
        let lost = s.sack(1461, &[(2921, 7301)]);
        s.give(lost);
        assert_eq!(s.sent(), [(1461, 1460)]);
        s.wait(ms(100));
    };
    // What was never sent again is reported twice, then what was: no proof.
    let mut s = Script::established(plain());
    lose_second(&mut s);
    s.give(s.sack(8761, &[(1, 1461)]));
    s.give(s.sack(8761, &[(1461, 2921)]));
    assert_eq!(s.tcb.stats().undone, 0);
    // The report of the retransmission alone is; its copy does not make it the network's doing.
    let mut s = Script::established(plain());
    lose_second(&mut s);
    s.give(s.sack(8761, &[(1461, 2921)]));
    assert_eq!(s.tcb.stats().undone, 1);
    s.give(s.sack(8761, &[(1461, 2921)]));
    lose_again(&mut s);
    assert_eq!(s.tcb.stats().undone, 2, "evidence still counts");
}

/// As before, from position 8761 on.
fn lose_again(s: &mut Script) {
    s.send(6);
    s.wait(ms(10));
    s.give(s.sack(8761, &[(10221, 17521)]));
    s.wait(ms(100));
    s.sent();
    s.wait(ms(100));
    s.give(s.sack(17521, &[(8761, 10221)]));
}

#[test]
fn rfc3168_sender() {
    let mut s = Script::syn_sent(TcpConfig { ecn: true, ..plain() });
    let mut syn_ack = s.segment(0, 1, Flags::SYN | Flags::ACK | Flags::ECE);
    syn_ack.options.mss = Some(1460);
    s.now += ms(100);
    s.give(syn_ack);
    assert_eq!(s.poll().unwrap().ecn, Ecn::NotEct, "pure ACK");
    let data = Bytes::from(vec![1; 1460]);
    for i in 0..4 {
        s.tcb.push(s.now, Chunk { dsn: Dsn(1 + i * 1460), data: data.clone() });
    }
    while let Some(segment) = s.poll() {
        assert_eq!(segment.ecn, Ecn::Ect0);
    }
    s.now += ms(100);
    let before = s.tcb.view(s.now).cwnd;
    for ack in [1461, 2921] {
        let mut echo = s.ack(ack);
        echo.flags = Flags::ACK | Flags::ECE;
        s.give(echo);
    }
    let after = s.tcb.view(s.now).cwnd;
    assert!(after >= before / 2 && after < before, "{before} -> {after}");
    s.tcb.push(s.now, Chunk { dsn: Dsn(1 + 4 * 1460), data: data.clone() });
    assert!(s.poll().unwrap().flags.contains(Flags::CWR));
    s.tcb.push(s.now, Chunk { dsn: Dsn(1 + 5 * 1460), data });
    assert!(!s.poll().unwrap().flags.contains(Flags::CWR), "once");
}

// RFC 3168 section 6.1.3: CE is echoed on every ACK until CWR.
#[test]
fn rfc3168_receiver() {
    let mut config = plain();
    config.ecn = true;
    let now = Instant(1);
    let donor = Script::syn_sent(plain());
    let syn = donor.segment(0, 0, Flags::SYN | Flags::ECE | Flags::CWR);
    let tcb = Tcb::accept(now, &config.clone().into(), setup(0, "reno"), &syn).unwrap();
    let mut s = Script { tcb, ..donor };
    assert_eq!(s.poll().unwrap().flags, Flags::SYN | Flags::ACK | Flags::ECE);
    let ack = s.ack(1);
    s.give(ack);
    let mut marked = s.data(1, 100);
    marked.ecn = Ecn::Ce;
    s.give(marked);
    assert!(s.poll().unwrap().flags.contains(Flags::ECE));
    let plain = s.data(101, 100);
    s.give(plain);
    assert!(s.poll().unwrap().flags.contains(Flags::ECE), "latched");
    let mut reduced = s.data(201, 100);
    reduced.flags = Flags::ACK | Flags::CWR;
    s.give(reduced);
    s.tcb.request_ack();
    assert!(!s.poll().unwrap().flags.contains(Flags::ECE));
}

// RFC 1122 section 4.2.3.6: keepalives with SEG.SEQ = SND.NXT - 1, off by default, and the
// connection is given up only after several go unanswered.
#[test]
fn rfc1122_keepalive() {
    let config =
        TcpConfig { keepalive: Some(Duration::from_secs(7200)), keepalive_probes: 3, ..plain() };
    let mut s = Script::established(config);
    s.wait(Duration::from_secs(7200));
    assert_eq!(s.expect_ack(), (0, 1));
    let answer = s.ack(1);
    s.give(answer);
    s.wait(Duration::from_secs(7200));
    for _ in 0..3 {
        assert_eq!(s.expect_ack(), (0, 1));
        s.wait(Duration::from_secs(75));
    }
    assert_eq!(s.tcb.close_reason(), Some(CloseReason::TimedOut));
    assert_eq!(Script::established(plain()).tcb.next_timeout(), None);
}

// RFC 1122: the peer's keepalive (an old number, no data or one byte) MUST be answered.
#[test]
fn rfc1122_keepalive_is_answered() {
    let mut s = Script::established(plain());
    for len in [0, 1] {
        let mut probe = s.data(0, len);
        probe.seq = SeqNum(PEER_ISS);
        s.give(probe);
        assert_eq!(s.expect_ack(), (1, 1));
    }
}

// RFC 5681 section 4.1: after an idle RTO the window starts from the initial one again.
#[test]
fn rfc5681_restart_after_idle() {
    let mut s = Script::established(plain());
    for round in 0..3_u32 {
        let sent = s.send(1000);
        s.now += ms(100);
        for (start, len) in sent {
            let ack = s.ack(start + len as u32);
            s.give(ack);
        }
        assert!(s.tcb.view(s.now).cwnd >= (1460 * 10) << round.min(2));
    }
    s.now += Duration::from_secs(5);
    assert_eq!(s.send(1000).len(), 10);
}

// RFC 8684 section 3.3.6 wants windows to be larger than the subflow's own: an overtaken ACK
// (same number, smaller window) does not take the window back (RFC 9293 SND.WL1, SND.WL2).
#[test]
fn rfc9293_overtaken_acknowledgement_keeps_the_window() {
    let mut s = Script::established(plain());
    let mut small = s.ack(1);
    small.window = 1000;
    s.give(small);
    assert_eq!(s.tcb.sendable(s.now), 14_600, "cwnd; the window is still 65535");
}

// RFC 9293 section 3.8.6, MUST-34 and MAY-7: a window that shrank below what is under way. Only
// the oldest segment goes beyond it, at the pace of timeouts and acknowledgements; the rest goes
// when the window opens.
#[test]
fn rfc9293_shrunk_window_takes_the_oldest_segment_alone() {
    let mut s = Script::established(TcpConfig { sack: false, ..plain() });
    s.send(10);
    s.now += ms(100);
    let mut closed = s.ack(1461);
    closed.window = 0;
    s.give(closed.clone());
    assert!(s.sent().is_empty());
    s.wait(s.tcb.rto());
    assert_eq!(s.sent(), [(1461, 1460)]);
    closed.ack = SeqNum(ISS).plus(2921);
    s.give(closed);
    assert_eq!(s.sent(), [(2921, 1460)], "two fit in the congestion window");
    let open = s.ack(4381);
    s.give(open);
    assert_eq!(s.sent(), [(4381, 1460), (5841, 1460), (7301, 1460)]);
}

// RFC 9293 section 3.1 (MUST-1): the window is unsigned.
#[test]
fn rfc9293_windows_are_unsigned() {
    let mut s = Script::established(TcpConfig { initial_window: 100, ..plain() });
    s.window = 0xfff0;
    assert!(s.send(100).len() as u64 * s.tcb.mss() > 0x8000);
}

// RFC 9293 section 3.10.7.4 (MUST-66): resets are heard while the window is closed.
#[test]
fn rfc9293_reset_is_heard_with_a_closed_window() {
    let mut s = Script::established(plain());
    s.window = 0;
    let data = s.data(1, 1000);
    s.give(data);
    s.wait(ms(500));
    let closed = s.poll().expect("an ACK");
    assert_eq!(closed.window, 0);
    let reset = s.segment(1001, 1, Flags::RST);
    s.give(reset);
    assert_eq!(s.tcb.close_reason(), Some(CloseReason::Reset(None)));
}

// RFC 9293 section 3.8.3 (MUST-20, MUST-22, MUST-23): a SYN is given up as data is; Linux's six
// repetitions last 127 s.
#[test]
fn rfc9293_a_syn_is_given_up_after_its_repetitions() {
    let mut s = Script::syn_sent(plain());
    let begin = s.now;
    let mut syns = 1;
    while let Some(at) = s.tcb.next_timeout() {
        s.now = at;
        s.tcb.on_timeout(at, &[]);
        syns += s.poll().map_or(0, |s| u32::from(s.flags.contains(Flags::SYN)));
    }
    assert_eq!((syns, (s.now - begin).as_secs_f64().round()), (7, 127.0));
    assert_eq!(s.tcb.close_reason(), Some(CloseReason::TimedOut));
}

// RFC 9293 section 3.8.3 (MUST-23): what goes again because a path has come up is beside the
// repetitions of the SYN: it neither uses them up nor puts them off.
#[test]
fn rfc9293_a_path_that_comes_up_uses_up_no_repetition_of_a_syn() {
    let mut s = Script::syn_sent(plain());
    let begin = s.now;
    let mut seen = Vec::new();
    while let Some(at) = s.tcb.next_timeout() {
        if at > s.now + ms(1_500) {
            s.now += ms(1_400);
            s.tcb.retry(s.now);
            s.tcb.retry(s.now);
            assert_eq!(s.tcb.next_timeout(), Some(s.now), "at once");
        } else {
            s.now = at;
        }
        s.tcb.on_timeout(s.now, &[]);
        seen.extend(s.poll().map(|_| (s.now - begin).as_millis()));
        assert!(s.poll().is_none(), "one at a time");
    }
    for second in [1, 3, 7, 15, 31, 63] {
        assert!(seen.contains(&(second * 1_000)), "{second} s of {seen:?}");
    }
    assert!(seen.len() > 80, "every path that came up: {seen:?}");
    assert_eq!((s.now - begin).as_secs_f64().round(), 127.0);
    assert_eq!(s.tcb.close_reason(), Some(CloseReason::TimedOut));
}
