//! Acknowledgements by another path than the subflow's own, against the scripted peer: what their
//! times, and those of their copies, say of the two ACK paths.

use super::*;

/// An acknowledgement of all that is under way comes by another path after `there`, and its copy by
/// the own path so much `later`.
fn round(s: &mut Script, there: Duration, later: Duration) {
    let (start, len) = *s.send(1).last().expect("a segment");
    let all = s.ack(start + len as u32);
    s.now += there;
    s.tcb.arrives(false, false);
    s.give(all.clone());
    s.now += later;
    s.tcb.arrives(true, false);
    s.give(all);
}

// What the other ACK path saves is smoothed as an RTT is (RFC 6298 section 2: seven eighths), and
// added to the round trip that acknowledgements have.
#[test]
fn a_copy_that_is_late_tells_the_round_trip_of_the_own_path() {
    let mut s = Script::established(plain());
    assert_eq!(s.tcb.own_rtt(), ms(100), "of the handshake");
    round(&mut s, ms(60), ms(60));
    assert_eq!((s.tcb.srtt(), s.tcb.own_rtt()), (ms(60), ms(120)));
    round(&mut s, ms(60), ms(68));
    assert_eq!((s.tcb.srtt(), s.tcb.own_rtt()), (ms(60), ms(121)));
    assert!(s.tcb.rto() >= ms(300), "by the own path, too, an answer may come");
}

// The copy may be known as such by where it arrives: only its time is taken.
#[test]
fn a_copy_that_is_handed_over_says_the_same() {
    let mut s = Script::established(plain());
    s.send(1);
    let all = s.ack(1461);
    s.now += ms(60);
    s.tcb.arrives(false, false);
    s.give(all.clone());
    s.now += ms(60);
    s.tcb.on_copy(s.now, &all);
    assert_eq!(s.tcb.own_rtt(), ms(120));
}

// A repeated acknowledgement that says more than its copy would is none.
#[test]
fn what_carries_more_than_an_acknowledgement_is_no_copy() {
    for kind in 0..3 {
        let mut s = Script::established(plain());
        s.send(1);
        let mut all = s.ack(1461);
        s.now += ms(60);
        s.tcb.arrives(false, false);
        s.give(all.clone());
        s.now += ms(60);
        match kind {
            0 => all.payload = Bytes::from_static(b"x"),
            1 => assert!(all.options.sack.push(SeqNum(ISS).plus(1), SeqNum(ISS).plus(1461))),
            _ => {}
        }
        s.tcb.on_copy(s.now, &all);
        assert_eq!(s.tcb.own_rtt(), if kind == 2 { ms(120) } else { ms(100) }, "{kind}");
    }
}
