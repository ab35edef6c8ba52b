//! A scripted MPTCP peer, by section of RFC 8684: what the RFC asks for where another stack does
//! otherwise than ours would, so that two of ours would never show it.

mod middlebox;
mod peer;

use bytes::Bytes;
use peer::*;
use tabane_engine::event::Event;
use tabane_engine::record::{CloseReason, FallbackReason};
use tabane_engine::view::SubflowId;
use tabane_wire::mptcp::{MpCapable, MpTcpRst};
use tabane_wire::{DataNumber, Flags, MptcpOption, Segment};

const FIN: Flags = Flags(Flags::FIN.0 | Flags::ACK.0);

fn is_data_fin(s: &Said) -> bool {
    s.data_fin && s.len == 0
}

/// The peer's DATA_FIN without data, at data position `at`.
fn data_fin(s: &Script, seq: u32, ack: u32, data_ack: u32, at: u32) -> Segment {
    s.dss(s.segment(seq, ack, Flags::ACK), data_ack, Some((at, 0, 1)))
}

/// The peer has said that it sends no more, at data level and on its only subflow.
fn half_closed() -> Script {
    let mut s = Script::server();
    s.give(data_fin(&s, 1, 1, 1, 1));
    assert_eq!(s.only().data_ack, Some(2));
    s.give(s.dss(s.segment(1, 1, FIN), 1, None));
    let answer = s.only();
    assert_eq!((answer.flags, answer.ack), (Flags::ACK, 2), "no end of ours: {answer:?}");
    assert!(s.has(&Event::PeerFinished));
    s
}

// RFC 8684 section 3.3.3: DATA_FIN closes one direction of the connection, a FIN one of a subflow:
// the other direction goes on, on the same subflow, until our DATA_FIN is acknowledged.
#[test]
fn rfc8684_what_is_written_after_the_peers_end_is_sent() {
    let mut s = half_closed();
    assert!(s.wait(secs(20)).is_empty());
    s.write(3000);
    let sent = s.heard();
    assert_eq!(sent.iter().map(|d| d.len).sum::<usize>(), 3000);
    assert!(sent.iter().all(|d| !d.flags.contains(Flags::FIN)), "{sent:?}");
    s.now += ms(100);
    s.give(s.dss(s.segment(2, 3001, Flags::ACK), 3001, None));
    assert!(s.has(&Event::PeerFinished) && s.heard().is_empty());
    s.close();
    let end = s.only();
    assert_eq!((end.mapping, end.data_fin, end.len), (Some((3001, 0, 1)), true, 0));
    assert_eq!(end.flags, Flags::ACK, "no FIN before the DATA_FIN is acknowledged");
    s.give(s.dss(s.segment(2, 3001, Flags::ACK), 3002, None));
    let fin = s.only();
    assert_eq!((fin.flags, fin.seq), (FIN, 3001));
    s.give(s.dss(s.segment(2, 3002, Flags::ACK), 3002, None));
    assert!(s.heard().is_empty());
    assert!(s.has(&Event::Closed(CloseReason::Finished)), "{:?}", s.events);
}

// RFC 8684 section 3.3.3: the DATA_FIN is repeated until it is acknowledged, from CLOSE-WAIT too.
#[test]
fn rfc8684_a_data_fin_is_repeated_on_a_subflow_that_the_peer_has_closed() {
    let mut s = half_closed();
    s.close();
    assert!(s.only().data_fin);
    let again = s.wait(secs(10));
    assert!(again.iter().filter(|d| is_data_fin(d)).count() >= 3, "{again:?}");
    assert!(again.iter().all(|d| !d.flags.contains(Flags::FIN)), "{again:?}");
    s.give(s.dss(s.segment(2, 1, Flags::ACK), 2, None));
    assert_eq!(s.only().flags, FIN);
}

// RFC 8684 section 3.3.3: FIN and DATA_FIN may come on one segment.
#[test]
fn rfc8684_data_fin_and_fin_on_one_segment_leave_our_direction_open() {
    let mut s = Script::server();
    s.give(s.dss(s.segment(1, 1, FIN), 1, Some((1, 0, 1))));
    let answer = s.only();
    assert_eq!((answer.flags, answer.ack, answer.data_ack), (Flags::ACK, 2, Some(2)));
    s.write(10);
    assert_eq!(s.only().len, 10);
}

// RFC 8684 section 3.3.3: without DATA_FIN a FIN says only that its subflow is at its end: it is
// answered by ours, and the connection waits for another subflow.
#[test]
fn rfc8684_a_fin_without_data_fin_is_answered_by_ours() {
    let mut s = Script::server();
    s.give(s.dss(s.segment(1, 1, FIN), 1, None));
    let said = s.heard();
    assert!(said.iter().any(|d| d.flags == FIN), "{said:?}");
    s.give(s.dss(s.segment(2, 2, Flags::ACK), 1, None));
    assert!(s.has(&Event::SubflowClosed(SubflowId(0), CloseReason::Finished)), "{:?}", s.events);
    assert!(!s.events.iter().any(|e| matches!(e, Event::Closed(_) | Event::PeerFinished)));
    s.write(10);
    assert!(s.wait(secs(1)).is_empty());
    s.joined(1);
    let sent = s.wait(secs(2));
    assert!(sent.iter().any(|d| d.len == 10), "by the subflow that came: {sent:?}");
}

// RFC 8684 section 3.3.3: after its DATA_FIN the peer closes its subflows one by one: the last one
// stays for what we have to say.
#[test]
fn rfc8684_the_last_subflow_stays_open_for_our_direction() {
    let mut s = Script::server();
    let second = s.joined(1);
    s.give(data_fin(&s, 1, 1, 1, 1));
    s.heard();
    s.give(s.dss(s.segment(1, 1, FIN), 1, None));
    let said = s.heard();
    assert!(said.iter().any(|d| d.flags == FIN), "its data can go by the other: {said:?}");
    s.give(s.dss(s.segment(2, 2, Flags::ACK), 1, None));
    s.give(s.dss(s.on(second, 1, 1, FIN), 1, None));
    let said = s.heard();
    assert!(said.iter().all(|d| d.flags == Flags::ACK), "{said:?}");
    s.write(100);
    assert_eq!(s.only().len, 100);
}

// RFC 8684 sections 3.1 and 3.3.3: who closes before the peer has sent a DSS sends its DATA_FIN all
// the same; the keys on the third packet are what makes it understood.
#[test]
fn rfc8684_a_data_fin_leaves_before_the_peers_first_dss() {
    let mut s = Script::client();
    s.close();
    let end = s.only();
    assert_eq!((end.mapping, end.data_fin, end.data_ack), (Some((1, 0, 1)), true, Some(1)));
    s.now += ms(100);
    s.give(s.dss(s.segment(1, 1, Flags::ACK), 2, None));
    assert!(s.has(&Event::Flushed));
    assert!(s.heard().is_empty(), "and nothing more until the peer has closed, too");
    s.give(data_fin(&s, 1, 1, 2, 1));
    let said = s.heard();
    assert_eq!(said[0].data_ack, Some(2));
    assert_eq!(said.last().unwrap().flags, FIN, "{said:?}");
}

// RFC 8684 section 3.1: the keys are repeated until the peer has shown that it has them. A DATA_FIN
// in vain may mean that they are lost: they go again before it does.
#[test]
fn rfc8684_keys_are_repeated_with_a_data_fin_until_they_are_known() {
    let mut s = Script::client();
    s.close();
    s.heard();
    let again = s.wait(secs(3));
    let keys = |d: &Said| matches!(d.options[..], [MptcpOption::Capable(_)]);
    let order: Vec<_> = again.iter().map(|d| (keys(d), is_data_fin(d))).collect();
    assert!(order.len() >= 4 && order.len() % 2 == 0, "{again:?}");
    assert!(order.chunks(2).all(|two| two == [(true, false), (false, true)]), "{again:?}");
    s.give(s.dss(s.segment(1, 1, Flags::ACK), 1, None));
    let again = s.wait(secs(4));
    assert!(!again.is_empty() && again.iter().all(is_data_fin), "it has them: {again:?}");
}

// RFC 8684 section 3.1: a SYN+ACK that comes again shows that the third packet is lost.
#[test]
fn rfc8684_a_repeated_syn_ack_gets_the_keys_again() {
    let mut s = Script::client();
    s.close();
    s.heard();
    let key = MpCapable { sender_key: Some(THEIR_KEY.0), ..capable() };
    let again = s.opening(s.first, Flags::SYN | Flags::ACK, MptcpOption::Capable(key));
    s.give(again);
    assert!(matches!(s.only().options[..], [MptcpOption::Capable(_)]));
}

// RFC 8684 section 3.3.2: what was never sent cannot be acknowledged, neither data nor a DATA_FIN.
#[test]
fn rfc8684_a_data_ack_of_what_was_never_sent_is_not_believed() {
    let mut s = Script::server();
    s.give(s.dss(s.segment(1, 1, Flags::ACK), 2, None));
    s.heard();
    s.close();
    assert!(s.only().data_fin);
    assert!(!s.has(&Event::Flushed));
    s.give(s.dss(s.segment(1, 1, Flags::ACK), 3, None));
    assert!(!s.has(&Event::Flushed), "one more than there is");
    s.give(s.dss(s.segment(1, 1, Flags::ACK), 2, None));
    assert!(s.has(&Event::Flushed));

    // It is due, but has not left.
    let mut s = Script::server();
    s.write(20_000);
    s.close();
    let sent: usize = s.heard().iter().map(|d| d.len).sum();
    assert!(sent < 20_000, "the window holds the rest back");
    s.now += ms(100);
    s.give(s.dss(s.segment(1, 1 + sent as u32, Flags::ACK), 20_002, None));
    assert!(!s.has(&Event::Flushed));
}

// RFC 8684 section 3.1: version, flag B and flag H count on the third packet as on the SYN: an
// option that cannot be understood is none, and the connection is plain TCP.
#[test]
fn rfc8684_version_and_flags_of_the_third_packet() {
    let wrong = [
        MpCapable { version: 0, ..capable() },
        MpCapable { version: 2, ..capable() },
        MpCapable { extensibility: true, ..capable() },
        MpCapable { hmac_sha256: false, ..capable() },
    ];
    for third in wrong {
        let mut s = Script::accepted(third);
        let plain = |e: &Event| matches!(e, Event::Fallback(FallbackReason::Mismatch));
        assert!(s.events.iter().any(plain), "{third:?} {:?}", s.events);
        s.heard();
        s.write(10);
        let data = s.only();
        assert!(data.len == 10 && data.mapping.is_none() && data.options.is_empty());
    }
    let s = Script::accepted(capable());
    assert!(!s.events.iter().any(|e| matches!(e, Event::Fallback(_))));
}

// RFC 8684 section 3.1: and on the MP_CAPABLE that maps the first data.
#[test]
fn rfc8684_version_and_flags_of_the_first_data() {
    for wrong in [true, false] {
        let mut s = Script::server();
        let keys = (Some(THEIR_KEY.0), Some(s.key.0));
        let option = MpCapable { sender_key: keys.0, receiver_key: keys.1, ..capable() };
        let option = MpCapable { extensibility: wrong, data: Some((5, None)), ..option };
        let mut first = s.segment(1, 1, Flags::ACK | Flags::PSH);
        first.payload = Bytes::from_static(b"first");
        first.options.push_mptcp(MptcpOption::Capable(option));
        s.give(first);
        assert_eq!(s.has(&Event::Fallback(FallbackReason::OptionsStripped)), wrong);
        assert_eq!(s.conn().read(9).unwrap(), "first");
    }
}

// RFC 8684 section 3.2: a peer with eight addresses joins with seven of them at once. Refused, it
// may not try again.
#[test]
fn rfc8684_seven_joins_at_once() {
    let mut s = Script::server();
    let answers: Vec<_> = (1..=7).map(|n| (n, s.join_syn(n))).collect();
    for (n, (leg, answer)) in answers {
        assert_eq!(answer.flags, Flags::SYN | Flags::ACK, "join {n}");
        let ack = s.join_ack(n, leg, &answer);
        s.give(ack);
        s.heard();
    }
    let now = s.now;
    let live = s.conn().info(now).subflows.iter().filter(|f| f.view.usable).count();
    assert_eq!(live, 8);
    let (_, refused) = s.join_syn(8);
    let reason = MptcpOption::TcpRst(MpTcpRst { transient: false, reason: 2 });
    assert_eq!(refused.options.mptcp(), [reason], "the limit of subflows");
}

// RFC 8684 sections 3.5 and 3.6: a fast close on an ACK is answered by a reset on every subflow,
// with MP_TCPRST; one on a reset needs no answer on its own subflow.
#[test]
fn rfc8684_the_answer_to_a_fast_close_says_why() {
    for reset in [false, true] {
        let mut s = Script::server();
        s.joined(1);
        let flags = if reset { Flags::RST | Flags::ACK } else { Flags::ACK };
        let mut close = s.segment(1, 1, flags);
        close.options.push_mptcp(MptcpOption::FastClose(s.key.0));
        s.give(close);
        let said = s.heard();
        assert_eq!(said.len(), if reset { 1 } else { 2 }, "{said:?}");
        let why = MptcpOption::TcpRst(MpTcpRst { transient: false, reason: 0 });
        for answer in &said {
            assert!(answer.flags.contains(Flags::RST));
            assert_eq!(answer.options, std::slice::from_ref(&why));
        }
        assert!(s.has(&Event::Closed(CloseReason::FastClose)));
    }
}

// RFC 7323 section 3.2: a reset carries timestamps once they are in use.
#[test]
fn rfc7323_resets_have_timestamps() {
    let mut s = Script::server();
    let now = s.now;
    s.conn().abort(now);
    let reset = s.only();
    assert!(reset.flags.contains(Flags::RST) && reset.timestamps, "{reset:?}");
    assert!(matches!(reset.options[..], [MptcpOption::FastClose(_)]));
}

// RFC 9293 section 3.9.1.2 (MUST-61): the last of what was written is pushed, and (as Linux does)
// not each: a receiver passes up a batch at every push.
#[test]
fn rfc9293_what_is_not_the_last_is_not_pushed() {
    let mut s = Script::server();
    s.write(5000);
    let sent = s.heard();
    let pushed: Vec<_> = sent.iter().map(|d| d.flags.contains(Flags::PSH)).collect();
    assert_eq!(pushed, [false, false, false, true], "{sent:?}");
    s.now += ms(100);
    s.give(s.dss(s.segment(1, 5001, Flags::ACK), 5001, None));
    s.write(3000);
    s.close();
    let sent = s.heard();
    let last = sent.iter().rfind(|d| d.len > 0).unwrap();
    assert!(last.flags.contains(Flags::PSH) && last.data_fin);
}

// RFC 8684 section 3.3.3: data and its end on one segment: the length counts the DATA_FIN, which
// takes a data position and none of the subflow.
#[test]
fn rfc8684_data_with_data_fin() {
    let mut s = Script::server();
    let mut last = s.segment(1, 1, Flags::ACK);
    last.payload = Bytes::from_static(b"the end");
    s.give(s.dss(last, 1, Some((1, 1, 8))));
    let answer = s.only();
    assert_eq!((answer.ack, answer.data_ack), (8, Some(9)));
    assert_eq!(s.conn().read(99).unwrap(), "the end");
    assert!(s.has(&Event::PeerFinished) && s.conn().is_finished());
    s.close();
    let end = s.only();
    assert_eq!((end.mapping, end.data_fin), (Some((1, 0, 1)), true));
}

// RFC 8684 section 3.3.3: a DATA_FIN that comes again is acknowledged again, in 8 bytes if it has
// 8, and closes nothing twice.
#[test]
fn rfc8684_a_repeated_data_fin_is_acknowledged_again() {
    let mut s = Script::server();
    for _ in 0..3 {
        s.give(data_fin(&s, 1, 1, 1, 1));
        assert_eq!(s.only().data_ack, Some(2));
    }
    let mut long = data_fin(&s, 1, 1, 1, 1);
    let number = THEIR_KEY.token_and_idsn().1.wrapping_add(1);
    let mapping = long.options.dss.as_mut().and_then(|d| d.mapping.as_mut()).unwrap();
    mapping.dsn = DataNumber::Long(number);
    s.give(long);
    let answer = s.raw().unwrap().options.dss.unwrap();
    assert_eq!(answer.data_ack, Some(DataNumber::Long(number.wrapping_add(1))));
    assert_eq!(s.events.iter().filter(|e| **e == Event::PeerFinished).count(), 1);
}

// RFC 8684 section 3.3.3: what lies beyond the DATA_FIN is none of the stream's.
#[test]
fn rfc8684_data_beyond_the_data_fin_is_dropped() {
    let mut s = Script::server();
    s.give(data_fin(&s, 1, 1, 1, 1));
    s.heard();
    let mut more = s.segment(1, 1, Flags::ACK);
    more.payload = Bytes::from_static(b"more");
    s.give(s.dss(more, 1, Some((2, 1, 4))));
    s.wait(secs(1));
    assert_eq!(s.conn().readable(), 0);
}

// RFC 8684 section 3.3.3: both at once: each acknowledges the other's, then the subflow closes.
#[test]
fn rfc8684_data_fins_that_cross() {
    let mut s = Script::server();
    s.close();
    assert!(s.only().data_fin);
    s.give(data_fin(&s, 1, 1, 1, 1));
    let answer = s.heard();
    assert!(answer.iter().all(|d| d.data_ack == Some(2) && !d.flags.contains(Flags::FIN)));
    s.give(s.dss(s.segment(1, 1, Flags::ACK), 2, None));
    assert_eq!(s.only().flags, FIN);
    s.give(s.dss(s.segment(1, 2, FIN), 2, None));
    let last = s.only();
    assert_eq!((last.flags, last.seq, last.ack), (Flags::ACK, 2, 2));
    assert!(s.has(&Event::Closed(CloseReason::Finished)), "{:?}", s.events);
}

// RFC 8684 section 3.3.3: after our DATA_FIN the peer's direction goes on, its subflows with it.
#[test]
fn rfc8684_data_after_our_data_fin_is_taken() {
    let mut s = Script::client();
    s.close();
    assert!(s.only().data_fin);
    s.give(s.dss(s.segment(1, 1, Flags::ACK), 2, None));
    assert!(s.has(&Event::Flushed));
    assert!(s.wait(secs(20)).is_empty());
    let mut data = s.segment(1, 1, Flags::ACK);
    data.payload = Bytes::from_static(b"late");
    s.give(s.dss(data, 2, Some((1, 1, 4))));
    let said = s.wait(ms(100));
    assert_eq!(said.last().map(|d| (d.ack, d.data_ack)), Some((5, Some(5))), "{said:?}");
    assert_eq!(s.conn().read(9).unwrap(), "late");
    s.give(data_fin(&s, 5, 1, 2, 5));
    let said = s.heard();
    assert_eq!(said.last().map(|d| (d.flags, d.data_ack)), Some((FIN, Some(6))), "{said:?}");
}

// RFC 8684 section 3.3.2: the DATA_ACK counts on any acceptable segment, in order or not.
#[test]
fn rfc8684_a_data_ack_out_of_order_counts() {
    let mut s = Script::client();
    s.close();
    assert!(s.only().data_fin);
    s.give(s.dss(s.segment(2, 1, Flags::ACK), 2, None));
    assert!(s.has(&Event::Flushed));
}

// RFC 8684 section 3.5: a fast close counts on an acceptable segment alone (RFC 9293 section
// 3.10.7.4, first step): an old one is answered, and changes nothing.
#[test]
fn rfc8684_a_fast_close_on_an_old_segment_changes_nothing() {
    let mut s = Script::server();
    let mut data = s.segment(1, 1, Flags::ACK);
    data.payload = Bytes::from(vec![7; 1000]);
    s.give(s.dss(data, 1, Some((1, 1, 1000))));
    s.wait(ms(100));
    for (seq, over) in [(1, false), (2_000_000, false), (1001, true)] {
        let mut close = s.segment(seq, 1, Flags::ACK);
        close.options.push_mptcp(MptcpOption::FastClose(s.key.0));
        s.give(close);
        let said = s.heard();
        assert_eq!(s.has(&Event::Closed(CloseReason::FastClose)), over, "{seq}");
        let reset = said.iter().any(|d| d.flags.contains(Flags::RST));
        assert!(reset == over && !said.is_empty(), "{seq} {said:?}");
    }
}

// RFC 8684 section 3.3.3: a reset ends a subflow, never a direction: what was written goes by the
// subflow that comes, the end too, although the peer had finished.
#[test]
fn rfc8684_a_reset_after_the_peers_end_is_no_end_of_ours() {
    let mut s = Script::server();
    s.give(data_fin(&s, 1, 1, 1, 1));
    s.heard();
    s.give(s.segment(1, 1, Flags::RST));
    assert!(s.heard().is_empty());
    assert!(!s.events.iter().any(|e| matches!(e, Event::Closed(_))), "{:?}", s.events);
    s.write(100);
    s.close();
    assert!(s.wait(secs(1)).is_empty());
    s.joined(1);
    let said = s.wait(secs(2));
    let data = said.iter().find(|d| d.len == 100).expect("the data");
    assert!(data.data_fin && data.mapping.is_some_and(|m| (m.0, m.2) == (1, 101)), "{said:?}");
}

// RFC 8684 section 3.3.3: data and FIN on one segment, with a mapping and without DATA_FIN: the
// data counts, the connection goes on.
#[test]
fn rfc8684_data_on_a_fin_without_data_fin_counts() {
    let mut s = Script::server();
    let mut last = s.segment(1, 1, FIN);
    last.payload = Bytes::from_static(b"more");
    s.give(s.dss(last, 1, Some((1, 1, 4))));
    let said = s.heard();
    assert_eq!(said.last().map(|d| (d.ack, d.data_ack)), Some((6, Some(5))), "{said:?}");
    assert_eq!(s.conn().read(9).unwrap(), "more");
    assert!(!s.has(&Event::PeerFinished));
}

// RFC 8684 section 3.3.3: the end of a subflow after both DATA_FINs: its FIN is repeated, and the
// peer's acknowledged; nobody waits for more.
#[test]
fn rfc8684_fins_after_both_data_fins() {
    let mut s = Script::server();
    s.give(data_fin(&s, 1, 1, 1, 1));
    s.heard();
    s.close();
    assert!(s.only().data_fin);
    s.give(s.dss(s.segment(1, 1, Flags::ACK), 2, None));
    assert_eq!(s.only().flags, FIN);
    let again = s.wait(secs(2));
    assert!(!again.is_empty() && again.iter().all(|d| d.flags == FIN), "{again:?}");
    s.give(s.dss(s.segment(1, 2, Flags::ACK), 2, None));
    assert!(s.heard().is_empty());
    for _ in 0..2 {
        s.give(s.dss(s.segment(1, 2, FIN), 2, None));
        assert_eq!(s.only().ack, 2);
        s.now += secs(1);
    }
    assert!(s.has(&Event::Closed(CloseReason::Finished)), "{:?}", s.events);
}

/// The peer's MP_FAIL: nothing has been acknowledged, and it has sent nothing else.
fn mp_fail(s: &Script) -> Segment {
    let mut fail = s.segment(1, 1, Flags::ACK);
    fail.options.push_mptcp(MptcpOption::Fail(1));
    fail
}

// RFC 8684 section 3.7: no subflow is added after a fallback. One that was asked for just before
// would have no MP_JOIN to say whose it is, and open a TCP connection that nobody knows.
#[test]
fn rfc8684_a_subflow_asked_for_before_a_fallback_is_not_opened() {
    for notified in [true, false] {
        let mut s = Script::server();
        let (now, local, remote) = (s.now, s.first.ours.ip(), "10.9.0.20:5000".parse().unwrap());
        let id = s.conn().add_subflow(now, (local, 0).into(), remote, false).unwrap();
        let infinite = s.dss(s.segment(1, 1, Flags::ACK), 1, Some((1, 1, 0)));
        s.give(if notified { mp_fail(&s) } else { infinite });
        assert!(s.events.iter().any(|e| matches!(e, Event::Fallback(_))), "{:?}", s.events);
        let said = s.wait(secs(60));
        assert!(said.iter().all(|d| !d.flags.contains(Flags::SYN)), "{notified} {said:?}");
        assert!(s.has(&Event::SubflowClosed(id, CloseReason::Aborted)), "{:?}", s.events);
        assert_eq!(s.events.iter().filter(|e| matches!(e, Event::SubflowClosed(..))).count(), 1);
    }
}

// RFC 8684 section 3.7: after a fallback there are no addresses to withdraw, and the connection
// stays, also if it is from one that was to be withdrawn.
#[test]
fn rfc8684_nothing_is_withdrawn_after_a_fallback() {
    let mut s = Script::server();
    s.give(mp_fail(&s));
    let fail = s.only();
    assert!(matches!(fail.options[..], [MptcpOption::Fail(_)]), "{fail:?}");
    let now = s.now;
    s.conn().withdraw(now, &[0]);
    let said = s.wait(secs(1));
    assert!(said.is_empty(), "{said:?}");
    s.write(1000);
    assert_eq!(s.only().mapping, Some((1, 1, 0)), "the infinite mapping");
}

// RFC 8684 section 3.4.2: REMOVE_ADDR closes the subflows of an address, and nothing else that
// comes with it is lost, though the subflow that brings it moves up in our list.
#[test]
fn rfc8684_data_beside_a_remove_addr_of_another_subflow_counts() {
    let mut s = Script::server();
    s.joined(1);
    let other = s.joined(2);
    let mut data = s.on(other, 1, 1, Flags::ACK);
    data.payload = Bytes::from_static(b"more");
    data.options.push_mptcp(MptcpOption::RemoveAddr(vec![2]));
    s.give(s.dss(data, 1, Some((1, 1, 4))));
    let said = s.wait(ms(100));
    assert_eq!(said.last().map(|d| d.data_ack), Some(Some(5)), "{said:?}");
    assert_eq!(s.conn().read(9).unwrap(), "more");
    let closed = Event::SubflowClosed(SubflowId(1), CloseReason::Aborted);
    assert!(s.has(&closed), "{:?}", s.events);
}

/// Data is to be sent again now, and has not been polled yet.
fn about_to_repeat() -> Script {
    let mut s = Script::server();
    s.write(1000);
    assert_eq!(s.only().len, 1000);
    s.now = s.endpoint.poll_timeout().expect("a retransmission");
    s.endpoint.handle_timeout(s.now);
    s
}

// RFC 8684 sections 3.3.8 and 3.7: MP_PRIO and MP_FAIL go on acknowledgements, also where data that
// leaves at that moment acknowledges everything.
#[test]
fn rfc8684_signals_follow_data_that_acknowledges_too() {
    let mut s = about_to_repeat();
    let now = s.now;
    s.conn().set_backup(now, SubflowId(0), true).unwrap();
    let said = s.heard();
    let tells = |d: &Said| d.options == [MptcpOption::Prio { backup: true }];
    assert_eq!((said[0].len, said.iter().filter(|d| tells(d)).count()), (1000, 1), "{said:?}");
    let mut s = about_to_repeat();
    s.give(mp_fail(&s));
    let said = s.heard();
    let tells = |d: &Said| matches!(d.options[..], [MptcpOption::Fail(_)]);
    assert_eq!((said[0].len, said.iter().filter(|d| tells(d)).count()), (1000, 1), "{said:?}");
}
