//! What a loss, an echo or a timeout does to windows, timers and samples, against the scripted
//! peer: where numbers, not the order of segments, tell one behaviour from another.

use super::recovery::{responded, time_out};
use super::*;
use crate::view::RecoveryPhase;

const MSS: u32 = 1460;

/// Position of the n-th segment from the beginning.
fn at(n: u32) -> u32 {
    1 + n * MSS
}

fn positions(sent: &[(u32, usize)]) -> Vec<u32> {
    sent.iter().map(|s| s.0).collect()
}

/// So many segments under way at once, the first of them the n-th of the stream.
fn under_way(segments: u32, first: u32) -> Script {
    let initial_window = if first > 0 { first } else { segments };
    let mut s = Script::established(TcpConfig { initial_window, ..plain() });
    if first > 0 {
        assert_eq!(s.send(first.into()).len(), first as usize);
        s.now += ms(100);
        s.give(s.ack(at(first)));
    }
    assert_eq!(s.send(segments.into()).len(), segments as usize);
    s
}

// RFC 3168 section 6.1: an echo is believed if both have agreed on ECN, and only an echo cuts.
#[test]
fn rfc3168_only_an_echo_that_was_negotiated_is_a_sign_of_congestion() {
    for (ecn, echoes) in [(false, true), (true, false), (true, true)] {
        for idle in [false, true] {
            let mut s = Script::syn_sent(TcpConfig { ecn, ..plain() });
            let mut syn_ack = s.segment(0, 1, Flags::SYN | Flags::ACK | Flags::ECE);
            syn_ack.options.mss = Some(1460);
            s.now += ms(100);
            s.give(syn_ack);
            s.poll();
            s.send(4);
            s.now += ms(100);
            if idle {
                s.give(s.ack(at(4)));
            }
            let mut ack = s.ack(if idle { at(4) } else { at(1) });
            if echoes {
                ack.flags = Flags::ACK | Flags::ECE;
            }
            s.give(ack);
            assert_eq!(responded(&s), ecn && echoes, "{ecn} {echoes} {idle}");
        }
    }
}

// RFC 8985 section 6.2 step 2: the echo tells which transmission is answered, sooner than any round
// trip yet or not. What was sent before the one that arrived, and has had its time, is lost.
#[test]
fn rfc8985_the_echo_tells_that_the_retransmission_arrived() {
    for round_trip in [50, 150] {
        let mut s = Script::established(TcpConfig { timestamps: true, ..plain() });
        let mss = 1448;
        assert_eq!(s.send(10).len(), 10);
        s.now += ms(100);
        s.give(s.sack(1, &[(1 + mss, 1 + 4 * mss)]));
        assert_eq!(s.sent(), [(1, 1448)]);
        let again = s.now.as_millis() as u32;
        s.now += ms(round_trip);
        let mut ack = s.ack(1 + 4 * mss);
        ack.options.timestamps.as_mut().unwrap().echo = again;
        s.give(ack);
        assert_eq!(s.sent().first(), Some(&(1 + 4 * mss, 1448)), "after {round_trip} ms");
        assert_eq!(s.tcb.stats().undone, 0);
    }
}

// RFC 2018 section 2: who has not offered SACK is not believed either. Section 3: the first block
// is as good as the others.
#[test]
fn rfc2018_blocks_count_if_they_were_agreed_on() {
    for (sack, left) in [(false, 4), (true, 3)] {
        let mut s = Script::established(TcpConfig { sack, ..plain() });
        s.send(5);
        s.now += ms(100);
        s.give(s.sack(1, &[(at(3), at(4)), (at(1), at(2))]));
        let in_flight = s.tcb.view(s.now).in_flight;
        assert_eq!(in_flight, left * u64::from(MSS), "without, it is a duplicate and no more");
    }
}

// RFC 2883 section 4.2: a first block inside the second is of a duplicate, too.
#[test]
fn rfc2883_a_block_inside_the_second_reports_a_duplicate() {
    let mut s = under_way(8, 0);
    s.now += ms(100);
    s.give(s.sack(1, &[(at(3), at(8)), (at(1), at(2))]));
    assert_eq!(positions(&s.sent()), [1, at(2)]);
    s.now += ms(50);
    s.give(s.sack(1, &[(at(1), at(8))]));
    s.now += ms(50);
    s.give(s.sack(1, &[(at(2), at(3)), (at(1), at(8))]));
    s.give(s.ack(at(8)));
    assert_eq!(s.tcb.stats().undone, 0, "not yet all");
    s.give(s.sack(at(8), &[(1, at(1))]));
    assert_eq!(s.tcb.stats().undone, 1);
}

// RFC 8985 section 6.2 step 3: reordering is what is reported after what lies beyond it. Two blocks
// in one report, the newer first (RFC 2018 section 4), are none: no time is given for it.
#[test]
fn rfc8985_two_gaps_in_one_report_are_no_reordering() {
    let mut s = under_way(10, 0);
    s.now += ms(100);
    s.give(s.sack(1, &[(at(3), at(6)), (at(1), at(2))]));
    assert_eq!(positions(&s.sent()), [1]);
    let mut s = under_way(10, 0);
    s.now += ms(100);
    s.give(s.sack(1, &[(at(4), at(5))]));
    s.give(s.sack(1, &[(at(1), at(3)), (at(4), at(5))]));
    assert!(s.sent().is_empty(), "reordering was seen");
    s.wait(ms(25));
    assert_eq!(positions(&s.sent()), [1]);
}

// RFC 6298 section 2: every acknowledgement of what was sent once is a sample: 7/8 of 100 ms and
// 1/8 of 180 ms; of several segments, the oldest.
#[test]
fn rfc6298_acknowledgements_are_samples() {
    let mut s = Script::established(plain());
    s.send(1);
    s.now += ms(80);
    s.send(1);
    s.now += ms(100);
    s.give(s.ack(at(2)));
    assert_eq!(s.tcb.srtt(), ms(110));
    assert_eq!(s.tcb.stats().bytes_acked, 2 * u64::from(MSS));
}

// RFC 6582 section 3.2 step 3: the acknowledgement of all that was under way ends recovery; what
// was sent in it is not lost. Step 1: and the next three duplicates are of a new loss.
#[test]
fn rfc6582_a_full_acknowledgement_ends_recovery() {
    let mut s = Script::established(TcpConfig { sack: false, ..plain() });
    s.send(10);
    s.now += ms(100);
    for _ in 0..9 {
        s.give(s.ack(1));
    }
    assert_eq!(s.sent(), [(1, 1460)]);
    assert!(s.send(10).len() > 2, "new data by duplicates");
    s.now += ms(100);
    s.give(s.ack(at(10)));
    assert_eq!(s.tcb.view(s.now).phase, RecoveryPhase::Open);
    assert_eq!(s.sent(), [], "nothing shows that this is lost");
    for _ in 0..3 {
        s.give(s.ack(at(10)));
    }
    assert_eq!(s.sent().first(), Some(&(at(10), 1460)));
    assert_eq!(s.tcb.stats().recoveries, 2);
}

// RFC 6675 section 4, without SACK: what duplicates stood for is not delivered a second time by the
// acknowledgement that follows.
#[test]
fn rfc6937_a_partial_acknowledgement_delivers_what_duplicates_did_not() {
    let mut s = Script::established(TcpConfig { sack: false, ..plain() });
    s.send(10);
    s.now += ms(100);
    let mut out = 0;
    for _ in 0..8 {
        s.give(s.ack(1));
        out += s.send(10).len();
    }
    assert_eq!(out, 5, "one, and half of what is delivered");
    s.now += ms(100);
    s.give(s.ack(at(5)));
    assert_eq!(positions(&s.send(10)), [at(5)], "no more than the hole");
}

// RFC 9937 section 6: below ssthresh, as much as is delivered, and a segment more if SND.UNA
// advances and nothing else is found lost: not with the SACK that begins recovery.
#[test]
fn rfc9937_one_segment_more_if_it_is_safe() {
    let mut s = under_way(20, 0);
    s.now += ms(100);
    s.give(s.sack(1, &[(at(15), at(19))]));
    let first = [at(0), at(1), at(2), at(3)];
    assert_eq!(positions(&s.sent()), first, "four are delivered");
    s.now += ms(1);
    s.give(s.sack(1, &[(at(15), at(20))]));
    assert_eq!(positions(&s.sent()), [at(4)]);
    s.now += ms(99);
    s.give(s.sack(at(1), &[(at(15), at(20))]));
    assert_eq!(positions(&s.sent()), [at(5), at(6)]);
}

// RFC 6937 section 3: half the window remains, and half of what is delivered leaves on the way
// there, wherever in the stream.
#[test]
fn rfc6937_half_of_what_is_delivered_leaves() {
    let mut s = under_way(20, 10);
    s.now += ms(100);
    let mut out = 0;
    for n in 2..=20 {
        s.give(s.sack(at(10), &[(at(11), at(10 + n))]));
        out += s.sent().len() + s.send(1).len();
        assert!(n < 4 || out.abs_diff(n as usize / 2) <= 1, "{out} of {n}");
    }
    assert_eq!(s.tcb.view(s.now).ssthresh, 10 * u64::from(MSS));
}

// RFC 6298 section 5.3: the timer starts anew when SND.UNA advances, not by SACK.
#[test]
fn rfc6298_sack_does_not_put_the_timeout_off() {
    let mut s = under_way(10, 0);
    s.now += ms(100);
    s.give(s.sack(1, &[(at(1), at(4))]));
    assert_eq!(positions(&s.sent()), [1]);
    for n in 5..=10 {
        s.wait(ms(49));
        s.give(s.sack(1, &[(at(1), at(n))]));
        assert!(s.sent().is_empty());
    }
    assert_eq!(s.tcb.stats().timeouts, 0);
    s.wait(ms(6));
    assert_eq!((s.tcb.stats().timeouts, positions(&s.sent())), (1, vec![1]), "300 ms");
}

// RFC 5682 section 3: while an earlier timeout is being repaired there is no F-RTO.
#[test]
fn rfc5682_not_after_a_second_timeout() {
    let mut s = Script::established(plain());
    time_out(&mut s, 4);
    s.wait(s.tcb.rto());
    assert_eq!((s.tcb.stats().timeouts, positions(&s.sent())), (2, vec![1]));
    s.wait(ms(10));
    s.give(s.ack(at(1)));
    assert_eq!(positions(&s.sent()).first(), Some(&at(1)), "no waiting for new data");
    s.give(s.ack(at(3)));
    assert_eq!(s.tcb.stats().undone, 0);
}

// RFC 5682 section 3: in fast recovery, too, a timeout may prove spurious.
#[test]
fn rfc5682_a_timeout_in_fast_recovery_may_be_spurious() {
    let mut s = under_way(10, 0);
    s.now += ms(100);
    s.give(s.sack(1, &[(at(1), at(4))]));
    assert_eq!(positions(&s.sent()), [1]);
    s.wait(ms(300));
    assert_eq!((s.tcb.stats().timeouts, positions(&s.sent())), (1, vec![1]));
    s.wait(ms(10));
    s.give(s.ack(at(4)));
    s.give(s.ack(at(5)));
    assert_eq!(s.tcb.stats().undone, 1);
}

// RFC 5681 section 3.1: another timeout after progress halves again.
#[test]
fn rfc5681_a_timeout_after_progress_is_another_loss() {
    let mut s = Script::established(TcpConfig { sack: false, ..plain() });
    s.send(10);
    s.wait(ms(300));
    assert_eq!((s.tcb.stats().timeouts, positions(&s.sent())), (1, vec![1]));
    let ssthresh = |s: &Script| s.tcb.view(s.now).ssthresh / u64::from(MSS);
    assert_eq!(ssthresh(&s), 5);
    s.wait(ms(100));
    s.give(s.ack(at(6)));
    s.sent();
    s.wait(s.tcb.rto());
    assert_eq!((s.tcb.stats().timeouts, ssthresh(&s)), (2, 2));
}

// RFC 3522 section 3.2: after two timeouts it is the first retransmission that may be answered.
#[test]
fn rfc3522_the_first_retransmission_counts_after_two_timeouts() {
    for (echoed, undone) in [(0, 1), (1, 0), (2, 0)] {
        let mut s = Script::established(TcpConfig { timestamps: true, ..plain() });
        s.send(2);
        let mut sent_at = vec![s.now.as_millis() as u32];
        s.wait(ms(240));
        s.sent();
        for _ in 0..2 {
            s.wait(s.tcb.rto());
            assert_eq!(s.sent().first(), Some(&(1, 1448)));
            sent_at.push(s.now.as_millis() as u32);
        }
        assert_eq!(s.tcb.stats().timeouts, 2);
        s.wait(ms(10));
        let mut ack = s.ack(1449);
        ack.options.timestamps.as_mut().unwrap().echo = sent_at[echoed];
        s.give(ack);
        assert_eq!(s.tcb.stats().undone, undone, "{echoed}");
    }
}

// RFC 8985 section 7.4.2, without DSACK: a duplicate that comes when new data is under way.
#[test]
fn rfc8985_a_late_duplicate_answers_the_probe() {
    for (repeated, told) in [(true, false), (false, true)] {
        let mut s = under_way(2, 0);
        s.wait(ms(240));
        assert_eq!(positions(&s.sent()), [at(1)]);
        s.wait(ms(50));
        s.give(s.ack(at(2)));
        assert_eq!(s.send(1).len(), 1);
        s.wait(ms(10));
        if repeated {
            s.give(s.ack(at(2)));
        }
        s.wait(ms(90));
        s.give(s.ack(at(3)));
        assert_eq!(responded(&s), told);
    }
}

// RFC 8985 section 7.3: the probe is the last segment sent, whatever is bound and waits.
#[test]
fn rfc8985_the_probe_is_not_what_waits() {
    let mut s = Script::established(plain());
    s.send(1);
    s.now += ms(100);
    let mut small = s.data(1, 1);
    (small.ack, small.window) = (SeqNum(ISS).plus(at(1)), 3000);
    s.give(small);
    assert_eq!(s.send(2).len(), 2);
    let data = Bytes::from(vec![1; 1460]);
    s.tcb.push(s.now, Chunk { dsn: Dsn(1 + s.pushed), data });
    s.wait(ms(200));
    let sent = positions(&s.sent());
    assert!(sent.contains(&at(2)) || sent == [at(3)], "{sent:?}");
}

/// Of a window that is not used it grows to twice of what is.
#[test]
fn a_window_grows_to_twice_what_is_used() {
    for (used, end) in [(4, 10), (6, 12)] {
        let mut s = Script::established(plain());
        for _ in 0..10 {
            let sent = s.send(used);
            s.now += ms(100);
            for (start, len) in sent {
                s.give(s.ack(start + len as u32));
            }
        }
        assert_eq!(s.tcb.view(s.now).cwnd / u64::from(MSS), end, "{used}");
    }
}

/// Of a connection with ECN; so many segments are under way.
fn with_ecn(segments: u64) -> Script {
    let config = TcpConfig { ecn: true, initial_window: 10, ..plain() };
    let mut s = Script::syn_sent(config);
    let mut syn_ack = s.segment(0, 1, Flags::SYN | Flags::ACK | Flags::ECE);
    syn_ack.options.mss = Some(1460);
    syn_ack.options.sack_permitted = true;
    s.now += ms(100);
    s.give(syn_ack);
    s.poll();
    assert_eq!(s.send(segments).len(), segments as usize);
    s.now += ms(100);
    s
}

fn echo(mut ack: Segment) -> Segment {
    ack.flags = Flags::ACK | Flags::ECE;
    ack
}

// RFC 3168 section 6.1.2: one reduction in a window of data, whether marks or losses come first;
// and CWR says that there was one, for whatever reason.
#[test]
fn rfc3168_marks_and_losses_of_one_window_have_one_answer() {
    let mut s = with_ecn(10);
    let before = s.tcb.view(s.now).cwnd;
    s.give(echo(s.ack(at(1))));
    let once = s.tcb.view(s.now).ssthresh;
    assert!(once >= before / 2 && once < before, "{before} -> {once}");
    for n in 3..7 {
        s.now += ms(1);
        s.give(s.sack(at(1), &[(at(2), at(n))]));
    }
    assert_eq!(s.tcb.view(s.now).phase, RecoveryPhase::Recovery);
    assert_eq!(s.tcb.view(s.now).ssthresh, once);

    let mut s = with_ecn(10);
    for n in 2..6 {
        s.now += ms(1);
        s.give(s.sack(at(0), &[(at(1), at(n))]));
    }
    assert_eq!(s.tcb.view(s.now).phase, RecoveryPhase::Recovery);
    let once = s.tcb.view(s.now).ssthresh;
    assert!(once < before);
    while s.poll().is_some() {}
    s.now += ms(100);
    s.give(echo(s.ack(at(10))));
    assert_eq!(s.tcb.view(s.now).phase, RecoveryPhase::Open);
    assert_eq!(s.tcb.view(s.now).ssthresh, once);
    s.tcb.push(s.now, Chunk { dsn: Dsn(1 + 10 * 1460), data: Bytes::from(vec![1; 1460]) });
    assert!(s.poll().unwrap().flags.contains(Flags::CWR));
}

// RFC 9293 section 3.8.6.1: whoever waits for a window goes on asking, also if the timer fired
// while something was being repeated.
#[test]
fn rfc9293_a_window_is_asked_for_again_when_what_was_under_way_has_arrived() {
    let mut s = Script::established(plain());
    s.send(1);
    s.tcb.set_blocked(s.now, true);
    let until = s.now + Duration::from_secs(4);
    while let Some(next) = s.tcb.next_timeout().filter(|next| *next < until) {
        s.now = next;
        s.tcb.on_timeout(next, &[]);
        while s.poll().is_some() {}
    }
    s.give(s.ack(at(1)));
    let next = s.tcb.next_timeout().expect("the persist timer");
    s.now = next;
    s.tcb.on_timeout(next, &[]);
    assert_eq!(s.poll().expect("a probe").seq, SeqNum(ISS).plus(1460));
}
