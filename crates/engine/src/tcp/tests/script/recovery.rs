//! Loss recovery against the scripted peer, where only a scripted peer can tell one behaviour from
//! another: probes, timeouts and what shows that they were spurious, what is no duplicate.

use super::*;
use crate::view::RecoveryPhase;
use tabane_wire::MptcpOption;

/// ssthresh is infinite until there is a congestion response.
pub(super) fn responded(s: &Script) -> bool {
    s.tcb.view(s.now).ssthresh < 1 << 40
}

/// A timeout with so many segments under way: the probe, then the first segment again.
pub(super) fn time_out(s: &mut Script, segments: u64) {
    assert_eq!(s.send(segments).len() as u64, segments);
    s.wait(ms(240));
    assert_eq!(s.sent().len(), 1, "a probe");
    s.wait(ms(300));
    assert_eq!(s.sent(), [(1, 1460)]);
    assert_eq!(s.tcb.stats().timeouts, 1);
    assert_eq!(s.tcb.view(s.now).cwnd, 1460);
}

// RFC 8985 section 7.2: twice the smoothed RTT, and as long as an ACK may be delayed if a single
// segment is under way. Section 7.3: the probe restarts the retransmission timer.
#[test]
fn rfc8985_probe_timeout() {
    let mut s = Script::established(plain());
    s.send(1);
    s.wait(ms(239));
    assert!(s.sent().is_empty());
    s.wait(ms(1));
    assert_eq!(s.sent(), [(1, 1460)]);
    assert_eq!((s.tcb.stats().tail_loss_probes, s.tcb.stats().timeouts), (1, 0));
    s.wait(ms(299));
    assert!(s.sent().is_empty());
    s.wait(ms(1));
    assert_eq!(s.sent(), [(1, 1460)]);
    assert_eq!((s.tcb.stats().tail_loss_probes, s.tcb.stats().timeouts), (1, 1));

    let mut s = Script::established(plain());
    s.send(3);
    s.wait(ms(100));
    s.give(s.ack(1461));
    s.wait(ms(199));
    assert!(s.sent().is_empty());
    s.wait(ms(1));
    assert_eq!(s.sent(), [(2921, 1460)], "the last segment");
    s.wait(ms(250));
    assert!(s.sent().is_empty(), "one probe, then the timeout");
}

/// Two segments, the second of which is probed, then `answers`; then a third is acknowledged.
/// Whether congestion control was told of a loss.
fn probed(answers: &[&dyn Fn(&Script) -> Segment]) -> bool {
    let mut s = Script::established(plain());
    s.send(2);
    s.wait(ms(240));
    assert_eq!(s.sent(), [(1461, 1460)]);
    for answer in answers {
        s.wait(ms(50));
        s.give(answer(&s));
        assert!(!responded(&s), "not before something later is acknowledged");
    }
    s.wait(ms(50));
    assert_eq!(s.send(1), [(2921, 1460)]);
    s.wait(ms(100));
    s.give(s.ack(4381));
    responded(&s)
}

// RFC 8985 section 7.4.2: the answer to a probe is a duplicate (by DSACK, or without SACK by an
// ACK that repeats) if the original arrived; else the probe has repaired a loss, which congestion
// control must be told of.
#[test]
fn rfc8985_a_loss_that_a_probe_repaired_is_a_loss() {
    assert!(probed(&[&|s| s.ack(2921)]));
    assert!(!probed(&[&|s| s.sack(2921, &[(1461, 2921)])]));
    assert!(!probed(&[&|s| s.ack(2921), &|s| s.sack(2921, &[(1461, 2921)])]));
    assert!(!probed(&[&|s| s.ack(2921), &|s| s.ack(2921)]));
    // What the peer sends meanwhile (here beyond a gap) is no duplicate ACK.
    let with_data = |s: &Script| {
        let mut segment = s.segment(100, 2921, Flags::ACK);
        segment.payload = Bytes::from_static(b"x");
        segment
    };
    assert!(probed(&[&|s| s.ack(2921), &with_data]));
}

// RFC 5682 section 3.1, without timestamps: the ACK after the timeout lets two new segments go and
// no more; one for something that was sent once shows that the timeout was spurious.
#[test]
fn rfc5682_two_new_segments_then_proof() {
    let mut s = Script::established(plain());
    time_out(&mut s, 4);
    s.wait(ms(10));
    s.give(s.ack(1461));
    assert_eq!(s.send(10), [(5841, 1460), (7301, 1460)]);
    s.give(s.ack(2921));
    assert_eq!(s.tcb.stats().undone, 1);
    assert!(s.tcb.view(s.now).cwnd >= 14_600, "as before the timeout");
    assert!(s.sent().is_empty(), "what was marked lost is under way after all");
    assert_eq!(s.tcb.view(s.now).phase, RecoveryPhase::Open);
}

// RFC 5682 section 3.1 step 3a: the next ACK shows nothing of the kind: what is lost goes again.
#[test]
fn rfc5682_a_genuine_timeout_goes_on_with_the_second_acknowledgement() {
    let mut s = Script::established(plain());
    time_out(&mut s, 4);
    s.wait(ms(100));
    s.give(s.ack(1461));
    assert_eq!(s.send(10), [(5841, 1460), (7301, 1460)]);
    s.now += ms(5);
    s.give(s.sack(1461, &[(5841, 7301)]));
    assert_eq!(s.sent().first(), Some(&(1461, 1460)));
    assert_eq!(s.tcb.stats().undone, 0);
    // As if there had been nothing new to send: a moment later.
    let mut s = Script::established(plain());
    time_out(&mut s, 4);
    s.wait(ms(100));
    s.give(s.ack(1461));
    s.wait(ms(12));
    assert!(s.sent().is_empty());
    s.wait(ms(1));
    assert_eq!(s.sent(), [(1461, 1460), (2921, 1460)]);
}

// RFC 3522 section 3.2 and RFC 4015: the echo is of the original, not of the retransmission.
#[test]
fn rfc3522_the_echo_tells_which_was_answered() {
    for (late, undone) in [(true, 1), (false, 0)] {
        let mut s = Script::established(TcpConfig { timestamps: true, ..plain() });
        let mss = s.tcb.mss() as u32;
        s.send(2);
        let original = s.now.as_millis() as u32;
        // The probe, then the timeout.
        s.wait(ms(240));
        s.sent();
        s.wait(ms(300));
        assert_eq!(s.sent().first(), Some(&(1, mss as usize)));
        let again = s.now.as_millis() as u32;
        s.wait(ms(10));
        let mut ack = s.ack(1 + mss);
        ack.options.timestamps.as_mut().unwrap().echo = if late { original } else { again };
        s.give(ack);
        assert_eq!(s.tcb.stats().undone, undone);
        assert_eq!(s.tcb.view(s.now).cwnd > 2 * u64::from(mss), late);
    }
}

// RFC 8985 section 6.3: a timeout takes what has had its time for lost, and nothing younger.
#[test]
fn rfc8985_a_timeout_spares_what_was_sent_lately() {
    let mut s = Script::established(plain());
    s.send(1);
    s.wait(ms(100));
    s.give(s.ack(1461));
    assert_eq!(s.send(2), [(1461, 1460), (2921, 1460)]);
    s.wait(ms(240));
    assert_eq!(s.sent(), [(2921, 1460)], "a probe");
    s.wait(ms(250));
    assert_eq!(s.send(1), [(4381, 1460)], "50 ms before the timeout");
    s.wait(ms(50));
    assert_eq!(s.sent(), [(1461, 1460)]);
    assert_eq!(s.tcb.stats().timeouts, 1);
    // Too soon to be an answer to the retransmission: RACK learns nothing of it.
    s.wait(ms(50));
    s.give(s.ack(2921));
    s.wait(ms(20));
    assert_eq!(s.sent(), [(2921, 1460)]);
}

// RFC 5681 section 2 says what a duplicate ACK is: no data, no FIN, the same window. RFC 8684
// section 3.3.6: and no MPTCP signal.
#[test]
fn rfc5681_what_is_no_duplicate_acknowledgement() {
    let bare = |s: &Script| s.ack(1);
    let data = |s: &Script| {
        let mut segment = s.ack(1);
        segment.payload = Bytes::from_static(b"x");
        segment
    };
    let signal = |s: &Script| {
        let mut segment = s.ack(1);
        segment.options.push_mptcp(MptcpOption::Prio { backup: true });
        segment
    };
    let recoveries = |kind: &dyn Fn(&Script) -> Segment, shrinks: u16| {
        let mut s = Script::established(TcpConfig { sack: false, ..plain() });
        s.send(5);
        for n in 1..7 {
            s.wait(ms(5));
            let mut segment = kind(&s);
            segment.window -= n * shrinks;
            s.give(segment);
        }
        s.tcb.stats().recoveries
    };
    assert_eq!(recoveries(&bare, 0), 1);
    assert_eq!([recoveries(&data, 0), recoveries(&signal, 0), recoveries(&bare, 1)], [0; 3]);
}

// RFC 2018 section 3: a block for what was never sent, or the wrong way round, says nothing.
#[test]
fn rfc2018_impossible_blocks_are_not_believed() {
    let mut s = Script::established(plain());
    s.send(5);
    s.wait(ms(50));
    for blocks in [[(1461, 8761)], [(7301, 1461)], [(7301, 7301)]] {
        s.give(s.sack(1, &blocks));
    }
    s.wait(ms(50));
    assert_eq!(s.tcb.view(s.now).in_flight, 5 * 1460);
    assert!(s.sent().is_empty());
    s.give(s.sack(1, &[(1461, 7301)]));
    assert_eq!(s.sent(), [(1, 1460)]);
    assert_eq!(s.tcb.view(s.now).in_flight, 1460);
}

// RFC 9293 section 3.10.7.4: SND.WND is taken from what is new, and never from what is older than
// SND.UNA. RFC 7323 section 2.2: the window of a SYN is not scaled.
#[test]
fn rfc9293_the_send_window_follows_the_newest_acknowledgement() {
    let mut s = Script::syn_sent(plain());
    let mut syn_ack = s.segment(0, 1, Flags::SYN | Flags::ACK);
    (syn_ack.window, syn_ack.options.window_scale) = (3000, Some(2));
    syn_ack.options.mss = Some(1460);
    s.give(syn_ack);
    s.poll();
    assert_eq!(s.tcb.sendable(s.now), 3000, "unscaled");
    let with = |s: &Script, ack: u32, window: u16| {
        let mut segment = s.ack(ack);
        segment.window = window;
        segment
    };
    s.give(with(&s, 1, 1000));
    assert_eq!(s.tcb.sendable(s.now), 4000, "larger at the same number");
    assert_eq!(s.send(2).len(), 2);
    s.give(with(&s, 2921, 1000));
    assert_eq!(s.tcb.sendable(s.now), 4000);
    s.give(with(&s, 1461, 2000));
    assert_eq!(s.tcb.sendable(s.now), 4000, "overtaken, though larger");
    s.give(with(&s, 2921, 500));
    assert_eq!(s.tcb.sendable(s.now), 4000, "smaller, and nothing new");
    let mut data = s.data(1, 100);
    (data.ack, data.window) = (SeqNum(ISS).plus(2921), 500);
    s.give(data.clone());
    (data.seq, data.window) = (SeqNum(PEER_ISS).plus(101), 400);
    s.give(data);
    assert_eq!(s.tcb.sendable(s.now), 1600, "smaller, with new data");
}

// RFC 9293 section 3.8.6.1 (MUST-37): data that the peer has closed its window over is not given
// up while it answers; when it does no more, it is.
#[test]
fn rfc9293_a_closed_window_is_no_death() {
    let mut s = Script::established(TcpConfig { retries: 2, ..plain() });
    s.send(2);
    s.wait(ms(100));
    let mut closed = s.ack(1461);
    closed.window = 0;
    s.give(closed.clone());
    while s.tcb.stats().timeouts < 10 {
        s.now = s.tcb.next_timeout().expect("it goes on");
        s.tcb.on_timeout(s.now, &[]);
        s.sent();
        s.give(closed.clone());
    }
    assert_eq!(s.tcb.state(), State::Established);
    let since = s.now;
    while let Some(at) = s.tcb.next_timeout() {
        s.now = at;
        assert!(s.now - since < Duration::from_secs(600), "it is dead");
        s.tcb.on_timeout(s.now, &[]);
        s.sent();
    }
    assert_eq!(s.tcb.close_reason(), Some(CloseReason::TimedOut));
}

// RFC 9293 section 3.8.3 (R2, at least 100 s): a subflow whose timeout is capped is not given up by
// a count of retransmissions, which come often.
#[test]
fn rfc9293_a_probed_subflow_is_given_up_after_100_s_of_silence() {
    let mut s = Script::established(TcpConfig { retries: 3, ..plain() });
    s.tcb.limit_rto(Some(Duration::from_secs(1)));
    s.send(1);
    let begin = s.now;
    while let Some(at) = s.tcb.next_timeout() {
        assert!(at - s.now <= Duration::from_secs(1) && at - begin < Duration::from_secs(200));
        s.now = at;
        s.tcb.on_timeout(s.now, &[]);
        s.sent();
    }
    let silence = (s.now - begin).as_secs_f64();
    assert!((100.0..102.0).contains(&silence), "{silence}");
    assert_eq!(s.tcb.close_reason(), Some(CloseReason::TimedOut));
}

// RFC 9293 section 3.8.3 (R2, at least 100 s): paths that come up make data go again often. Not by
// that is a peer given up, and not later for it either.
#[test]
fn rfc9293_paths_that_come_up_do_not_use_up_the_repetitions_of_data() {
    let mut s = Script::established(TcpConfig { retries: 4, ..plain() });
    s.now += Duration::from_secs(300);
    s.send(1);
    let begin = s.now;
    let mut repetitions = 0;
    while let Some(at) = s.tcb.next_timeout() {
        if at > s.now + ms(900) {
            s.now += ms(900);
            s.tcb.retry(s.now);
        } else {
            s.now = at;
        }
        s.tcb.on_timeout(s.now, &[]);
        repetitions += s.sent().len();
    }
    let silence = (s.now - begin).as_secs_f64();
    assert!((100.0..103.0).contains(&silence), "{silence}");
    assert!(repetitions > 80, "every path that came up: {repetitions}");
    assert_eq!(s.tcb.close_reason(), Some(CloseReason::TimedOut));
}

// RFC 9293 section 3.8.6.1: a window probe that nobody answers is repeated so often and no more.
#[test]
fn rfc9293_unanswered_window_probes_end() {
    let mut s = Script::established(TcpConfig { retries: 4, ..plain() });
    s.tcb.set_blocked(s.now, true);
    let mut probes = 0;
    while let Some(at) = s.tcb.next_timeout() {
        s.now = at;
        s.tcb.on_timeout(s.now, &[]);
        probes += u32::from(s.poll().is_some());
        assert!(probes <= 4);
    }
    assert_eq!((probes, s.tcb.close_reason()), (4, Some(CloseReason::TimedOut)));
}
