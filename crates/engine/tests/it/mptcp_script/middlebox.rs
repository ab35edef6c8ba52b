//! What a middlebox, an outage or a hostile peer makes of a connection: fallback where it is
//! possible, a reset where it is not, and no wait without end.

use super::*;

fn fallback(s: &Script) -> Option<FallbackReason> {
    s.events.iter().find_map(|e| match e {
        Event::Fallback(reason) => Some(*reason),
        _ => None,
    })
}

fn resets(said: &[Said]) -> usize {
    said.iter().filter(|s| s.flags.contains(Flags::RST)).count()
}

/// All that has been received, in order.
fn received(s: &mut Script) -> Vec<u8> {
    let mut all = Vec::new();
    while let Some(data) = s.conn().read(usize::MAX) {
        all.extend(data);
    }
    all
}

fn payload(mut segment: Segment, len: usize) -> Segment {
    segment.payload = Bytes::from(vec![9; len]);
    segment
}

/// A DSS whose mapping is infinite, from data position `dsn` at subflow position `ssn` on.
fn infinite(s: &Script, dsn: u32, ssn: u32) -> Segment {
    let mut segment = s.dss(payload(s.segment(ssn, 1, Flags::ACK), 100), 1, Some((dsn, ssn, 0)));
    if let Some(dss) = &mut segment.options.dss {
        dss.data_fin = false;
    }
    segment
}

// RFC 8684 section 3.7: what follows an infinite mapping fills no gap before it. With one the
// stream would never go on, and nothing would limit what is kept behind the gap.
#[test]
fn rfc8684_an_infinite_mapping_behind_a_gap_is_refused() {
    for (dsn, falls) in [(1, true), (2, false), (1_000_000, false)] {
        let mut s = Script::server();
        s.give(infinite(&s, dsn, 1));
        assert_eq!(fallback(&s).is_some(), falls, "{dsn}");
        assert_eq!(resets(&s.heard()), usize::from(!falls), "{dsn}");
        assert_eq!(received(&mut s).len(), if falls { 100 } else { 0 }, "{dsn}");
    }
    // What was sent before it, and has been lost, may come again.
    let mut s = Script::server();
    s.give(infinite(&s, 101, 101));
    assert_eq!(fallback(&s), Some(FallbackReason::InfiniteMapping));
    s.give(payload(s.segment(1, 1, Flags::ACK), 100));
    assert_eq!(received(&mut s).len(), 200);
}

/// Three acknowledgements of what has been sent, without any option. What is said to that.
fn bare_acknowledgements(s: &mut Script) -> Vec<Said> {
    s.write(3000);
    let mut sent = s.heard();
    s.now += ms(10);
    s.give(s.dss(s.segment(1, 1001, Flags::ACK), 1001, None));
    sent.extend(s.heard());
    for ack in [1401, 1801, 2201] {
        s.now += ms(10);
        s.give(s.segment(1, ack, Flags::ACK));
        sent.extend(s.heard());
    }
    sent
}

// RFC 8684 section 3.7: where one subflow has carried everything, options that are taken away make
// the rest plain, though another was tried. Where another has been, the subflow is reset.
#[test]
fn rfc8684_options_that_vanish_late_end_in_plain_tcp_or_a_reset() {
    for (tried, established) in [(false, false), (true, false), (true, true)] {
        let mut s = Script::server();
        if tried {
            let (leg, answer) = s.join_syn(1);
            if established {
                let ack = s.join_ack(1, leg, &answer);
                s.give(ack);
            }
            s.heard();
            s.give(s.on(leg, 1, 1, Flags::RST));
            s.heard();
        }
        let sent = bare_acknowledgements(&mut s);
        let falls = !established;
        let reason = falls.then_some(FallbackReason::NoDataAck);
        assert_eq!((fallback(&s), resets(&sent)), (reason, usize::from(!falls)), "{tried}");
    }
}

// RFC 8684 section 3.7: the peer has fallen back, and said so with one acknowledgement alone. What
// it has got must not come again: it would read it twice.
#[test]
fn rfc8684_one_bare_acknowledgement_and_silence_make_the_rest_plain() {
    let mut s = Script::server();
    s.write(100);
    assert_eq!(s.only().len, 100);
    s.now += ms(10);
    s.give(s.dss(s.segment(1, 101, Flags::ACK), 101, None));
    s.write(100);
    assert_eq!(s.only().len, 100);
    s.now += ms(10);
    s.give(s.segment(1, 201, Flags::ACK));
    let said = s.wait(secs(10));
    assert!(said.iter().all(|d| d.len == 0), "{said:?}");
    assert_eq!(fallback(&s), Some(FallbackReason::NoDataAck));
    s.write(10);
    assert_eq!(s.only().len, 10);
}

// RFC 8684 section 3.7: the end that comes with the first plain segment is the end of the stream.
#[test]
fn rfc8684_a_fin_that_comes_with_the_fallback_counts() {
    for len in [0, 100] {
        let mut s = Script::server();
        s.give(payload(s.segment(1, 1, FIN), len));
        assert_eq!(fallback(&s), Some(FallbackReason::OptionsStripped), "{len}");
        assert_eq!(received(&mut s).len(), len);
        assert!(s.has(&Event::PeerFinished), "{len}: {:?}", s.events);
        s.close();
        assert!(s.heard().iter().any(|d| d.flags == FIN), "{len}");
        s.give(s.segment(2 + len as u32, 2, Flags::ACK));
        s.heard();
        assert!(s.has(&Event::Closed(CloseReason::Finished)), "{len}: {:?}", s.events);
    }
}

// RFC 8684 section 3.5: MP_FASTCLOSE on a reset ends the connection whatever was lost before it:
// the key is proof enough. Without it such a reset is but challenged (RFC 5961 section 3.2).
#[test]
fn rfc8684_a_fast_close_after_losses_ends_the_connection() {
    for (seq, key, ends) in [(5000, 0, true), (200_000, 0, true), (5000, 1, false)] {
        let mut s = Script::server();
        let mut reset = s.segment(seq, 1, Flags::RST);
        reset.options.push_mptcp(MptcpOption::FastClose(s.key.0 ^ key));
        s.give(reset);
        s.heard();
        assert_eq!(s.has(&Event::Closed(CloseReason::FastClose)), ends, "{seq} {key}");
    }
}

// RFC 8684 section 3.3.3: the DATA_FIN is repeated with backoff into an outage. Once the peer is
// heard again it does not wait out the rest.
#[test]
fn a_data_fin_goes_again_when_the_peer_is_heard_after_an_outage() {
    let mut s = Script::server();
    s.close();
    assert!(is_data_fin(&s.only()));
    let in_vain = s.wait(secs(40)).iter().filter(|d| is_data_fin(d)).count();
    assert!((3..8).contains(&in_vain), "{in_vain}");
    s.give(s.dss(payload(s.segment(1, 1, Flags::ACK), 10), 1, Some((1, 1, 10))));
    let said = s.wait(secs(1));
    assert_eq!(said.iter().filter(|d| is_data_fin(d)).count(), 1, "{said:?}");
    // Who goes on talking is not given up, and is told no more often than at first.
    let mut told = 0;
    for n in 1..=100 {
        let at = 1 + 10 * n;
        s.give(s.dss(payload(s.segment(at, 1, Flags::ACK), 10), 1, Some((at, at, 10))));
        told += s.wait(secs(1)).iter().filter(|d| is_data_fin(d)).count();
    }
    assert!(!s.events.iter().any(|e| matches!(e, Event::Closed(_))), "{:?}", s.events);
    assert!((20..=100).contains(&told), "{told}");
}

// RFC 9293 section 3.10.4: a subflow that is closed alone is not waited for without end.
#[test]
fn a_closed_subflow_goes_when_the_peer_is_silent_for_a_minute() {
    let mut s = Script::server();
    let second = s.joined(1);
    let now = s.now;
    s.conn().close_subflow(now, SubflowId(1)).unwrap();
    assert!(s.heard().iter().any(|d| d.flags == FIN));
    s.give(s.dss(s.on(second, 1, 2, Flags::ACK), 1, None));
    let closed = |s: &Script| s.events.iter().any(|e| matches!(e, Event::SubflowClosed(..)));
    s.wait(secs(50));
    s.give(s.dss(payload(s.on(second, 1, 2, Flags::ACK), 10), 1, Some((1, 1, 10))));
    s.wait(secs(50));
    assert!(!closed(&s), "it was heard meanwhile: {:?}", s.events);
    let said = s.wait(secs(11));
    assert!(closed(&s) && resets(&said) == 1, "{:?} {said:?}", s.events);
}

// RFC 9293 section 3.8.6.1, for each subflow: the peer's window was shut when something last came
// on it. It is asked again though another subflow carries everything, and more so once that is
// gone.
#[test]
fn a_subflow_whose_window_is_shut_is_probed() {
    let mut s = Script::server();
    let second = s.joined(1);
    for (at, window) in [(1, 65_535), (11, 0)] {
        let data = payload(s.on(second, at, 1, Flags::ACK), 10);
        s.give(Segment { window, ..s.dss(data, 1, Some((at, at, 10))) });
    }
    s.heard();
    s.now += ms(10);
    s.write(500_000);
    let mut acked = 1;
    let mut probes = Vec::new();
    for _ in 0..30 {
        let said = s.wait(ms(100));
        let sent = said.iter().filter(|d| d.len > 0 && d.seq < 1 << 20);
        acked = sent.map(|d| d.seq + d.len as u32).max().unwrap_or(acked);
        probes.extend(said.into_iter().filter(|d| d.len == 0));
        s.give(s.dss(s.segment(1, acked, Flags::ACK), acked, None));
    }
    assert!(!probes.is_empty(), "while another subflow carries data");
    s.give(s.segment(1, acked, Flags::RST));
    let said = s.wait(secs(200));
    assert!(said.iter().all(|d| d.len == 0), "its window is shut");
    assert!(said.iter().any(|d| d.flags == Flags::ACK), "nobody asks");
    s.give(s.dss(s.on(second, 21, 1, Flags::ACK), acked, None));
    let sent = s.heard();
    assert!(sent.iter().any(|d| d.len > 0), "{:?}", s.events);
}
