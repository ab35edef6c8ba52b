//! Segment arrival in the order of RFC 9293 section 3.10.7, state by state, and what RFC 5961,
//! 2883, 7323, 8985 and 9937 say of it: where two ends of ours would never send what is asked
//! about.

use super::*;
use crate::seq::Ssn;

/// Opened passively, our SYN+ACK is out.
fn syn_received(config: TcpConfig) -> Script {
    let mut s = Script::syn_sent(config.clone());
    let mut syn = s.segment(0, 0, Flags::SYN);
    syn.options.mss = Some(1460);
    s.tcb = Tcb::accept(s.now, &config.into(), setup(0, "reno"), &syn).unwrap();
    assert_eq!(s.poll().unwrap().flags, Flags::SYN | Flags::ACK);
    s
}

fn blocks(segment: &Segment) -> Vec<(u32, u32)> {
    let at = |seq: SeqNum| seq.0.wrapping_sub(PEER_ISS);
    segment.options.sack.as_slice().iter().map(|&(a, b)| (at(a), at(b))).collect()
}

// RFC 9293 section 3.10.7.3: in SYN-SENT a segment without SYN is dropped, whatever it says; so
// is a reset that acknowledges nothing, and one with a wrong acknowledgement is not answered.
#[test]
fn rfc9293_syn_sent_drops_what_opens_nothing() {
    let mut s = Script::syn_sent(plain());
    for (ack, flags) in [
        (1, Flags::ACK),
        (1, Flags::ACK | Flags::FIN),
        (0, Flags::RST),
        (7, Flags::RST | Flags::ACK),
    ] {
        let segment = s.segment(0, ack, flags);
        assert!(s.give(segment).dropped.is_some());
        s.expect_nothing();
        assert_eq!(s.tcb.state(), State::SynSent);
    }
}

// RFC 9293 section 3.10.7.3: what a SYN+ACK brings beside the SYN is processed as in ESTABLISHED,
// from the sixth step on: data and FIN.
#[test]
fn rfc9293_data_on_a_syn_ack_is_taken() {
    for fin in [false, true] {
        let mut s = Script::syn_sent(plain());
        let end = if fin { Flags::FIN } else { Flags(0) };
        let mut syn_ack = s.segment(0, 1, Flags::SYN | Flags::ACK | end);
        syn_ack.payload = Bytes::from(vec![7; 100]);
        let accepted = s.give(syn_ack);
        assert!(accepted.established && accepted.fin == fin);
        assert_eq!(accepted.payload.map(|(at, data)| (at, data.len())), Some((Ssn(1), 100)));
        assert_eq!(s.expect_ack(), (1, if fin { 102 } else { 101 }));
        let state = if fin { State::CloseWait } else { State::Established };
        assert_eq!(s.tcb.state(), state);
        // As far as the window of our SYN goes.
        s = Script::syn_sent(plain());
        let mut syn_ack = s.segment(0, 1, Flags::SYN | Flags::ACK);
        syn_ack.payload = Bytes::from(vec![7; 70_000]);
        assert_eq!(s.give(syn_ack).payload.map(|(_, data)| data.len()), Some(65_535));
    }
}

// RFC 9293 section 3.10.7.4, fifth and seventh step: a SYN+ACK that completes a simultaneous open
// may bring data, too.
#[test]
fn rfc9293_data_on_the_syn_ack_of_a_simultaneous_open_is_taken() {
    let mut s = Script::syn_sent(plain());
    let syn = s.segment(0, 0, Flags::SYN);
    s.give(syn);
    s.poll().unwrap();
    let mut syn_ack = s.segment(0, 1, Flags::SYN | Flags::ACK);
    syn_ack.payload = Bytes::from_static(b"early");
    let accepted = s.give(syn_ack);
    assert!(accepted.established);
    assert_eq!(accepted.payload, Some((Ssn(1), Bytes::from_static(b"early"))));
}

// RFC 9293 section 3.10.7.4, first step: an unacceptable segment is answered in SYN-RECEIVED too:
// <SEQ=SND.NXT><ACK=RCV.NXT><CTL=ACK>.
#[test]
fn rfc9293_out_of_window_in_syn_received_is_acknowledged() {
    let mut s = syn_received(plain());
    let far = s.data(200_000, 100);
    assert_eq!(s.give(far).dropped, Some(DropReason::OutOfWindow));
    assert_eq!(s.expect_ack(), (1, 1));
    assert_eq!(s.tcb.state(), State::SynReceived);
    assert!(s.give(s.ack(1)).established);
}

// RFC 5961 section 3.2, in SYN-RECEIVED as in every other state: a reset in the window but not at
// its beginning is challenged, one outside says nothing, and is not answered.
#[test]
fn rfc5961_a_reset_in_syn_received() {
    for (ssn, challenged) in [(2, true), (500, true), (65_535, true), (65_536, false)] {
        let mut s = syn_received(plain());
        let reset = s.segment(ssn, 0, Flags::RST);
        assert!(s.give(reset).dropped.is_some());
        assert_eq!(s.tcb.state(), State::SynReceived, "{ssn}");
        let answer = s.poll().map(|a| (a.flags, a.seq, a.ack));
        let challenge = (Flags::ACK, SeqNum(ISS).plus(1), SeqNum(PEER_ISS).plus(1));
        assert_eq!(answer, challenged.then_some(challenge), "{ssn}");
    }
    for ssn in [0, 1_u32.wrapping_sub(100), 1 << 31] {
        let mut s = syn_received(plain());
        let reset = s.segment(ssn, 0, Flags::RST);
        assert!(s.give(reset).dropped.is_some());
        s.expect_nothing();
    }
    let mut s = syn_received(plain());
    let reset = s.segment(1, 0, Flags::RST);
    assert_eq!(s.give(reset).closed, Some(CloseReason::Refused));
}

// RFC 5961 section 3.2: what has been received is outside the window, acknowledged already or not;
// so is the first number beyond the window.
#[test]
fn rfc5961_a_reset_beside_the_window_is_dropped_silently() {
    let mut s = Script::established(plain());
    s.give(s.data(1, 100));
    // The window is 65535, rounded up to its scale.
    for ssn in [50, 100, 65_537] {
        let reset = s.segment(ssn, 1, Flags::RST);
        assert_eq!(s.give(reset).dropped, Some(DropReason::OutOfWindow), "{ssn}");
        s.expect_nothing();
    }
    let reset = s.segment(102, 1, Flags::RST);
    assert_eq!(s.give(reset).dropped, Some(DropReason::BadReset));
    assert_eq!(s.expect_ack(), (1, 101));
    let reset = s.segment(101, 1, Flags::RST);
    assert_eq!(s.give(reset).closed, Some(CloseReason::Reset(None)));
}

// RFC 9293 section 3.10.7.4, fifth step: without ACK a segment is dropped, and not answered.
#[test]
fn rfc9293_without_ack_nothing_is_taken() {
    let mut s = Script::established(plain());
    let mut data = s.data(1, 100);
    data.flags = Flags::PSH;
    let accepted = s.give(data);
    assert_eq!((accepted.dropped, accepted.payload), (Some(DropReason::BadFlags), None));
    s.expect_nothing();
}

// RFC 9293 section 3.10.7.4, seventh step: text after the peer's FIN is ignored, in every state.
// Eighth step: a FIN that comes again is acknowledged again.
#[test]
fn rfc9293_nothing_comes_after_a_fin() {
    for state in [State::CloseWait, State::LastAck, State::Closing] {
        let mut s = Script::established(plain());
        if state == State::Closing {
            s.tcb.close(s.now);
            s.poll().unwrap();
        }
        s.give(s.segment(1, 1, Flags::FIN | Flags::ACK));
        if state == State::LastAck {
            s.tcb.close(s.now);
        }
        assert_eq!(s.tcb.state(), state);
        while s.poll().is_some() {}
        let text = s.data(2, 100);
        assert_eq!(s.give(text).payload, None, "{state:?}");
        assert_eq!(s.tcb.rcv_nxt(), Ssn(2), "{state:?}");
        while s.poll().is_some() {}
        s.give(s.segment(1, 1, Flags::FIN | Flags::ACK));
        assert_eq!(s.poll().map(|a| a.ack), Some(SeqNum(PEER_ISS).plus(2)), "{state:?}");
        assert_eq!(s.tcb.state(), state);
    }
}

// RFC 5681 section 4.2: what comes out of order is acknowledged at once, a FIN without data too.
#[test]
fn rfc5681_a_fin_out_of_order_is_acknowledged_at_once() {
    let mut s = Script::established(plain());
    let fin = s.segment(101, 1, Flags::FIN | Flags::ACK);
    assert!(!s.give(fin).fin);
    assert_eq!(s.expect_ack(), (1, 1));
    assert!(s.give(s.data(1, 100)).fin);
    assert_eq!(s.expect_ack(), (1, 102));
}

// RFC 2883 section 4: the first part of a segment that had come before is reported, be it
// acknowledged or held out of order.
#[test]
fn rfc2883_overlap_with_what_is_out_of_order_is_reported() {
    let mut s = Script::established(plain());
    s.give(s.data(101, 200));
    assert_eq!(blocks(&s.poll().unwrap()), [(101, 301)]);
    s.give(s.data(201, 200));
    assert_eq!(blocks(&s.poll().unwrap()), [(201, 301), (101, 401)], "its head");
    s.give(s.data(51, 100));
    assert_eq!(blocks(&s.poll().unwrap()), [(101, 151), (51, 401)], "its tail");
    s.give(s.data(601, 100));
    assert_eq!(blocks(&s.poll().unwrap()), [(601, 701), (51, 401)]);
    s.give(s.data(351, 400));
    assert_eq!(blocks(&s.poll().unwrap()), [(351, 401), (51, 751)], "the first of two parts");
    s.give(s.data(1, 100));
    let ack = s.poll().unwrap();
    assert_eq!((blocks(&ack), ack.ack), (vec![(51, 101)], SeqNum(PEER_ISS).plus(751)));
    s.give(s.data(901, 50));
    s.poll().unwrap();
    s.give(s.data(701, 250));
    let ack = s.poll().unwrap();
    assert_eq!((blocks(&ack), ack.ack), (vec![(701, 751)], SeqNum(PEER_ISS).plus(951)));
    s.give(s.data(951, 100));
    s.wait(ms(40));
    assert_eq!(blocks(&s.poll().unwrap()), [], "what touches does not overlap");
}

// RFC 7323 section 3.2: a reset SHOULD carry timestamps once they are in use, and no others.
#[test]
fn rfc7323_resets_carry_timestamps_if_they_are_in_use() {
    for timestamps in [true, false] {
        let mut s = Script::established(TcpConfig { timestamps, ..plain() });
        s.wait(ms(5));
        s.tcb.abort();
        let reset = s.poll().unwrap();
        assert_eq!(reset.flags, Flags::RST | Flags::ACK);
        let echo = reset.options.timestamps.map(|t| t.echo);
        assert_eq!(echo, timestamps.then_some(10_000), "of the SYN+ACK");
        // In answer to an acknowledgement of what was never sent.
        let mut s = syn_received(TcpConfig { timestamps, ..plain() });
        s.give(s.ack(77));
        let reset = s.poll().unwrap();
        assert_eq!((reset.flags, reset.seq), (Flags::RST, SeqNum(ISS).plus(77)));
    }
}

// RFC 8985 section 7.2: the probe timer starts anew with each transmission of new data, but is due
// no later than the timeout would be (TLP_calc_PTO), in the place of which it comes then.
#[test]
fn rfc8985_new_data_restarts_the_probe_timer() {
    let mut s = Script::established(plain());
    assert_eq!(s.send(1).len(), 1);
    s.wait(ms(50));
    assert_eq!(s.send(1).len(), 1);
    s.wait(ms(199));
    assert!(s.sent().is_empty(), "the second has had less than two round trips");
    s.wait(ms(1));
    assert_eq!(s.sent(), [(1461, 1460)]);
    assert_eq!((s.tcb.stats().tail_loss_probes, s.tcb.stats().timeouts), (1, 0));

    let mut s = Script::established(plain());
    for _ in 0..3 {
        assert_eq!(s.send(1).len(), 1);
        s.wait(ms(95));
    }
    s.wait(ms(14));
    assert!(s.sent().is_empty());
    s.wait(ms(1));
    assert_eq!(s.sent(), [(2921, 1460)], "when the first would time out");
    assert_eq!((s.tcb.stats().tail_loss_probes, s.tcb.stats().timeouts), (1, 0));
    s.wait(ms(299));
    assert!(s.sent().is_empty(), "section 7.3: the probe restarts the retransmission timer");
    s.wait(ms(1));
    assert_eq!(s.sent(), [(1, 1460)]);
    assert_eq!(s.tcb.stats().timeouts, 1);
}

// RFC 9937 section 6: the ACK that starts recovery does not advance SND.UNA: as much leaves as it
// says was delivered, and one segment if that is nothing.
#[test]
fn rfc9937_one_segment_for_one_delivered_at_entry() {
    let mut s = Script::established(plain());
    assert_eq!(s.send(10).len(), 10);
    s.wait(ms(100));
    let at = |n: u32| 1 + n * 1460;
    for n in [7, 8] {
        s.give(s.sack(1, &[(at(7), at(n + 1))]));
        assert!(s.sent().is_empty());
    }
    s.give(s.sack(1, &[(at(7), at(10))]));
    assert_eq!(s.sent(), [(1, 1460)], "seven are lost, one is delivered");
    s.wait(ms(100));
    s.give(s.sack(at(1), &[(at(7), at(10))]));
    assert_eq!(s.sent(), [(at(1), 1460), (at(2), 1460)], "SND.UNA advances: one more");
}

// RFC 9937 section 6: what was SACKed before recovery is no part of what recovery delivers:
// RecoverFS is less by it, and the window comes down to ssthresh all the same.
#[test]
fn rfc9937_bytes_sacked_before_recovery_do_not_count() {
    let mut config = plain();
    config.initial_window = 20;
    let mut s = Script::established(config);
    assert_eq!(s.send(20).len(), 20);
    s.wait(ms(100));
    let at = |n: u32| 1 + n * 1460;
    let mut left = 0;
    for n in 1..20 {
        s.give(s.sack(1, &[(at(1), at(n + 1))]));
        if n >= 3 {
            left += s.send(5).len();
        }
    }
    // 17 of the 18 that were under way are delivered in recovery; ssthresh is 10.
    assert_eq!(left, 10, "ceil(17 * 10 / 18)");
}

// RFC 9293 section 3.10.7.4, fifth to eighth step: the ACK that ends SYN-RECEIVED may bring text
// and FIN, which count at once.
#[test]
fn rfc9293_the_third_packet_may_bring_text_and_fin() {
    let mut s = syn_received(plain());
    let mut third = s.segment(1, 1, Flags::ACK | Flags::FIN);
    third.payload = Bytes::from_static(b"all");
    let accepted = s.give(third);
    assert!(accepted.established && accepted.fin);
    assert_eq!(accepted.payload, Some((Ssn(1), Bytes::from_static(b"all"))));
    assert_eq!(s.tcb.state(), State::CloseWait);
    assert_eq!(s.expect_ack(), (1, 5));
}

// RFC 9293 section 3.10.7.4, fifth step: in SYN-RECEIVED an unacceptable ACK is answered by a reset
// with its number, and the attempt lives on.
#[test]
fn rfc9293_syn_received_resets_a_wrong_acknowledgement() {
    for ack in [0, 2, 77] {
        let mut s = syn_received(plain());
        assert_eq!(s.give(s.ack(ack)).dropped, Some(DropReason::BadAck));
        let reset = s.poll().unwrap();
        assert_eq!((reset.flags, reset.seq), (Flags::RST, SeqNum(ISS).plus(ack)));
        assert!(s.give(s.ack(1)).established, "{ack}");
    }
}

// RFC 5961 section 4.2 and RFC 9293 section 3.10.7.4, fourth step: a SYN other than the one that
// opened is challenged in SYN-RECEIVED; the same one gets the SYN+ACK again.
#[test]
fn rfc5961_a_second_syn_in_syn_received() {
    let mut s = syn_received(plain());
    let other = s.segment(300, 0, Flags::SYN);
    assert_eq!(s.give(other).dropped, Some(DropReason::BadSyn));
    assert_eq!(s.expect_ack(), (1, 1));
    let same = s.segment(0, 0, Flags::SYN);
    s.give(same);
    assert_eq!(s.poll().unwrap().flags, Flags::SYN | Flags::ACK);
    assert_eq!(s.tcb.state(), State::SynReceived);
}

// RFC 9293 section 3.10.7.4, first step: with the window closed no text is taken, but valid ACKs
// are; the segment is answered.
#[test]
fn rfc9293_a_closed_window_takes_acknowledgements_all_the_same() {
    let mut s = Script::established(plain());
    assert_eq!(s.send(1), [(1, 1460)]);
    s.window = 0;
    let all = s.data(1, 65_536);
    assert_eq!(s.give(all).payload.map(|(_, data)| data.len()), Some(65_536));
    s.wait(ms(40));
    assert_eq!(s.expect_ack(), (1461, 65_537));
    let mut more = s.data(65_537, 100);
    more.ack = SeqNum(ISS).plus(1461);
    let accepted = s.give(more);
    assert_eq!((accepted.payload, accepted.acked_to), (None, Some(Ssn(1461))));
    assert_eq!(s.expect_ack(), (1461, 65_537));
}

// RFC 9293 section 3.10.7.4, fifth and eighth step: FIN-WAIT-1 goes to TIME-WAIT with a FIN that
// acknowledges ours, and to CLOSING, and from there to TIME-WAIT, with one that does not.
#[test]
fn rfc9293_the_ways_from_fin_wait_1_to_time_wait() {
    let mut s = Script::established(plain());
    s.tcb.close(s.now);
    assert_eq!(s.poll().unwrap().flags, Flags::ACK | Flags::FIN);
    let fin = s.segment(1, 2, Flags::FIN | Flags::ACK);
    let accepted = s.give(fin);
    assert!(accepted.fin && accepted.fin_acked);
    assert_eq!(s.tcb.state(), State::TimeWait);
    assert_eq!(s.expect_ack(), (2, 2));

    let mut s = Script::established(plain());
    s.tcb.close(s.now);
    s.poll().unwrap();
    assert!(s.give(s.segment(1, 1, Flags::FIN | Flags::ACK)).fin);
    assert_eq!((s.tcb.state(), s.expect_ack()), (State::Closing, (2, 2)));
    assert!(s.give(s.segment(2, 2, Flags::ACK)).fin_acked);
    assert_eq!(s.tcb.state(), State::TimeWait);
}

// RFC 9293 section 3.10.7.4, second and fifth step: LAST-ACK ends with the acknowledgement of our
// FIN, or with a reset.
#[test]
fn rfc9293_last_ack_ends() {
    for reset in [false, true] {
        let mut s = Script::established(plain());
        s.give(s.segment(1, 1, Flags::FIN | Flags::ACK));
        s.tcb.close(s.now);
        assert_eq!(s.poll().unwrap().flags, Flags::ACK | Flags::FIN);
        assert_eq!(s.tcb.state(), State::LastAck);
        let end = if reset { s.segment(2, 2, Flags::RST) } else { s.segment(2, 2, Flags::ACK) };
        let reason = if reset { CloseReason::Reset(None) } else { CloseReason::Finished };
        assert_eq!(s.give(end).closed, Some(reason));
        s.expect_nothing();
    }
}
