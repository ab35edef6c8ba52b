//! What RFC 9293 says an endpoint MUST, where no other test shows it: addresses, listeners,
//! initial sequence numbers, options, pushing. Each test names its requirement.

#![allow(clippy::unwrap_used)]

#[path = "it/mptcp_net/mod.rs"]
mod mptcp_net;

use bytes::Bytes;
use mptcp_net::*;
use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use tabane_engine::config::NumberSize;
use tabane_engine::record::{CloseReason, DropReason, What};
use tabane_engine::view::PathId;
use tabane_engine::{Endpoint, Event, Instant};
use tabane_wire::{Ecn, Flags, Segment, SeqNum, TcpOptions};

fn plain(host: u8) -> tabane_engine::Config {
    let mut config = config(host, 1);
    config.mptcp.enabled = false;
    config
}

fn server() -> Endpoint {
    let mut endpoint = Endpoint::new(plain(2), [3; 32]).unwrap();
    endpoint.listen("0.0.0.0:80".parse().unwrap()).unwrap();
    endpoint
}

fn syn(src: &str, dst: &str) -> Segment {
    Segment {
        src: src.parse().unwrap(),
        dst: dst.parse().unwrap(),
        seq: SeqNum(1000),
        ack: SeqNum(0),
        flags: Flags::SYN,
        window: 1000,
        ecn: Ecn::NotEct,
        options: TcpOptions { mss: Some(1460), ..TcpOptions::default() },
        payload: Bytes::new(),
    }
}

fn answers(endpoint: &mut Endpoint, now: Instant) -> Vec<Segment> {
    std::iter::from_fn(|| endpoint.poll_segment(now)).map(|d| d.segment).collect()
}

fn drops(endpoint: &mut Endpoint) -> Vec<DropReason> {
    let records = std::iter::from_fn(|| endpoint.poll_record());
    let reason = |what| match what {
        What::Dropped { reason } => Some(reason),
        _ => None,
    };
    records.filter_map(|record| reason(record.what)).collect()
}

// RFC 9293 section 3.9.2.3 (MUST-57, MUST-63): silently discarded, whoever listens.
#[test]
fn rfc9293_groups_and_everybody_are_no_ends_of_connections() {
    let us = "10.0.0.2:80";
    let wrong = [
        ("224.0.0.1:5", us),
        ("255.255.255.255:5", us),
        ("0.0.0.0:5", us),
        ("10.0.0.1:5", "239.1.2.3:80"),
        ("10.0.0.1:5", "255.255.255.255:80"),
        ("[ff02::1]:5", "[fd00::1]:80"),
    ];
    let mut endpoint = server();
    for (src, dst) in wrong {
        endpoint.handle_segment(Instant(1), PathId(0), &syn(src, dst));
        assert_eq!(answers(&mut endpoint, Instant(1)), [], "{src} > {dst}");
        assert_eq!(drops(&mut endpoint), [DropReason::BadAddress]);
    }
    assert_eq!(endpoint.connections(), 0);
    endpoint.handle_segment(Instant(1), PathId(0), &syn("10.0.0.1:5", us));
    assert_eq!(answers(&mut endpoint, Instant(1)).len(), 1);
    // MUST-46: nor does a call connect there.
    let local = SocketAddr::new(addr(2, 0), 0);
    for remote in ["224.0.0.1:80", "255.255.255.255:80", "0.0.0.0:80"] {
        assert!(endpoint.connect(Instant(1), local, remote.parse().unwrap()).is_err(), "{remote}");
    }
}

// RFC 9293 section 3.9.1.1 (MUST-41, MUST-42): listening disturbs no connection, and several
// connections may come to one port.
#[test]
fn rfc9293_listeners_disturb_nobody() {
    let mut net = Net::new(plain(1), plain(2));
    net.connect(data(50_000), false);
    net.sleep(ms(30));
    net.server.endpoint.listen("10.0.0.2:80".parse().unwrap()).unwrap();
    net.server.endpoint.listen("0.0.0.0:81".parse().unwrap()).unwrap();
    net.server.endpoint.listen("0.0.0.0:80".parse().unwrap()).unwrap_err();
    net.connect(data(50_000), false);
    net.sleep(secs(5));
    let arrived = net.server.conns.values().filter(|app| app.received == data(50_000)).count();
    assert_eq!((net.server.conns.len(), arrived), (2, 2));
    net.server.endpoint.unlisten("0.0.0.0:80".parse().unwrap());
    assert!(!net.server.has(|e| matches!(e, Event::Closed(_))));
}

// RFC 9293 section 3.5 (MUST-11): who came from LISTEN goes back there when reset, and nobody is
// told; who connected is refused.
#[test]
fn rfc9293_a_reset_in_syn_received_goes_back_to_where_it_came_from() {
    let mut endpoint = server();
    let first = syn("10.0.0.1:5", "10.0.0.2:80");
    endpoint.handle_segment(Instant(1), PathId(0), &first.clone());
    assert_eq!(answers(&mut endpoint, Instant(1)).len(), 1);
    let mut reset = first.clone();
    (reset.flags, reset.seq) = (Flags::RST, SeqNum(1001));
    endpoint.handle_segment(Instant(2), PathId(0), &reset);
    assert_eq!(answers(&mut endpoint, Instant(2)), []);
    let told: Vec<_> = std::iter::from_fn(|| endpoint.poll_event()).collect();
    assert!(!told.iter().any(|(_, e)| matches!(e, Event::Accepted { .. })), "{told:?}");
    assert_eq!(endpoint.connections(), 0);
    endpoint.handle_segment(Instant(3), PathId(0), &first);
    assert_eq!(answers(&mut endpoint, Instant(3)).len(), 1, "it still listens");

    let mut net = Net::new(plain(1), plain(2));
    net.server.endpoint.unlisten("0.0.0.0:80".parse().unwrap());
    net.connect(data(1), false);
    net.sleep(secs(1));
    assert!(net.client.has(|e| *e == Event::Closed(CloseReason::Refused)), "MUST-12");
}

// RFC 9293 section 3.4.1 (MUST-8, MUST-9): the initial sequence number moves with a clock of 4 us
// for one pair of ends, and depends on a secret.
#[test]
fn rfc6528_numbers_follow_the_clock_and_a_secret() {
    let number = |seed: u8, micros: u64| {
        let mut endpoint = Endpoint::new(plain(1), [seed; 32]).unwrap();
        let now = Instant(micros * 1_000);
        let (local, remote) = (SocketAddr::new(addr(1, 0), 5000), "10.0.0.2:80".parse().unwrap());
        endpoint.connect(now, local, remote).unwrap();
        answers(&mut endpoint, now)[0].seq.0
    };
    let at_first = number(1, 1_000_000);
    assert_eq!(number(1, 1_000_000), at_first);
    assert_eq!(number(1, 1_004_000).wrapping_sub(at_first), 1_000);
    let others: Vec<u32> = (2..10).map(|seed| number(seed, 1_000_000)).collect();
    let far = |other: &u32| other.wrapping_sub(at_first).min(at_first.wrapping_sub(*other));
    assert!(others.iter().filter(|other| far(other) > 1 << 20).count() >= 7, "{others:?}");
}

/// Every segment of a transfer both ways.
fn transfer() -> Vec<Segment> {
    let mut net = Net::new(plain(1), plain(2));
    let seen = Rc::new(RefCell::new(Vec::new()));
    let all = Rc::clone(&seen);
    net.filter = Box::new(move |crossing| {
        all.borrow_mut().push(crossing.segment.clone());
        true
    });
    net.server.answer = (data(30_000), true);
    net.connect(data(30_000), true);
    assert!(net.run(secs(200), Net::over));
    seen.take()
}

// RFC 9293 section 3.7.1 (MUST-14, MUST-65): MSS on every SYN and on nothing else.
#[test]
fn rfc9293_mss_on_syns_alone() {
    for segment in transfer() {
        let syn = segment.flags.contains(Flags::SYN);
        assert_eq!(segment.options.mss.is_some(), syn, "{segment}");
    }
}

// RFC 9293 section 3.9.1.2 (MUST-60, MUST-61): nothing waits for more to be written, and the last
// segment of what was written is pushed.
#[test]
fn rfc9293_the_last_segment_is_pushed() {
    let segments = transfer();
    let from = |port: u16| segments.iter().filter(move |s| s.src.port() == port);
    let ends = segments.iter().map(|s| s.src.port());
    let client = ends.clone().find(|port| *port != 80).unwrap();
    for port in [80, client] {
        let data: Vec<_> = from(port).filter(|s| !s.payload.is_empty()).collect();
        let sent: usize = data.iter().map(|s| s.payload.len()).sum();
        assert_eq!(sent, 30_000, "nothing was lost, so nothing went twice");
        assert!(data.last().unwrap().flags.contains(Flags::PSH));
    }
}

// RFC 9293 section 3.8.6.2.2 (MUST-39): the right edge moves by a segment or half the buffer, and
// never back (SHLD-14); section 3.8.6: when it moves by much, the sender is told.
#[test]
fn rfc9293_the_window_opens_by_whole_segments() {
    let mut server = plain(2);
    (server.tcp.receive_buffer, server.tcp.receive_buffer_max) = (20_000, 20_000);
    let mut net = Net::new(plain(1), server);
    let edges = Rc::new(RefCell::new(Vec::new()));
    let seen = Rc::clone(&edges);
    net.filter = Box::new(move |c| {
        if !c.up && !c.segment.flags.contains(Flags::SYN) {
            seen.borrow_mut().push(c.segment.ack.plus(u32::from(c.segment.window)).0);
        }
        true
    });
    net.connect(data(150_000), false);
    assert!(net.run(secs(1), |n| !n.server.conns.is_empty()));
    net.server.app().paused = true;
    let id = net.server.only();
    let mut read = 0;
    for _ in 0..1_600 {
        net.sleep(ms(1));
        read += net.server.conn(id).read(100).map_or(0, |part| part.len());
    }
    assert!(read > 140_000, "{read}: as fast as it is read");
    let steps: Vec<u32> = edges.borrow().windows(2).map(|e| e[1].wrapping_sub(e[0])).collect();
    let moves = steps.iter().filter(|step| **step > 0).count();
    assert!(steps.iter().all(|step| *step == 0 || (1_448..=20_000).contains(step)), "{steps:?}");
    assert!((50..100).contains(&moves), "{moves} moves");
}

// RFC 9293 section 3.7.1 (MUST-16): options are counted, so that a full segment fills the path's
// packets, whatever they are, and none is larger.
#[test]
fn rfc9293_full_segments_fill_the_path() {
    for n in 0..16 {
        let bit = |b: u32| n >> b & 1 == 1;
        let (mut client, server) = (config(1, 1), config(2, 1));
        client.mptcp.enabled = bit(0);
        client.mptcp.checksum = bit(1);
        client.mptcp.numbers = if bit(2) { NumberSize::Long } else { NumberSize::Auto };
        client.tcp.timestamps = bit(3);
        let mut net = Net::new(client, server);
        let largest = Rc::new(Cell::new(0));
        let seen = Rc::clone(&largest);
        net.filter = Box::new(move |c| {
            seen.set(seen.get().max(c.segment.wire_len()));
            true
        });
        net.connect(data(200_000), true);
        assert!(net.run(secs(20), Net::over));
        assert_eq!(largest.get(), 1500, "{n:04b}");
    }
}

// RFC 9293 section 3.10.7.2: at a listener a segment without ACK that opens nothing is dropped, and
// not answered; only an ACK is answered by a reset.
#[test]
fn rfc9293_a_listener_drops_what_acknowledges_and_opens_nothing() {
    let quiet =
        [Flags(0), Flags::FIN, Flags::PSH, Flags::FIN | Flags::PSH, Flags::SYN | Flags::FIN];
    let mut endpoint = server();
    for flags in quiet {
        let segment = Segment { flags, ..syn("10.0.0.1:5", "10.0.0.2:80") };
        endpoint.handle_segment(Instant(1), PathId(0), &segment);
        assert_eq!(answers(&mut endpoint, Instant(1)), [], "{flags:?}");
        assert_eq!(drops(&mut endpoint), [DropReason::BadFlags]);
    }
    for flags in [Flags::ACK, Flags::ACK | Flags::FIN, Flags::SYN | Flags::ACK] {
        let segment = Segment { flags, ack: SeqNum(77), ..syn("10.0.0.1:5", "10.0.0.2:80") };
        endpoint.handle_segment(Instant(1), PathId(0), &segment);
        let reset = &answers(&mut endpoint, Instant(1))[0];
        assert_eq!((reset.flags, reset.seq), (Flags::RST, SeqNum(77)), "{flags:?}");
    }
    assert_eq!(endpoint.connections(), 0);
}

// RFC 9293 section 3.10.7.1: where nobody listens everything but a reset is answered by one, which
// acknowledges SYN and FIN.
#[test]
fn rfc9293_a_closed_port_resets_whatever_comes() {
    let mut endpoint = server();
    for (flags, len) in [
        (Flags(0), 0),
        (Flags::FIN, 1),
        (Flags::SYN, 1),
        (Flags::SYN | Flags::FIN, 2),
        (Flags::SYN | Flags::FIN | Flags::PSH, 2),
    ] {
        let segment = Segment { flags, ..syn("10.0.0.1:5", "10.0.0.2:81") };
        endpoint.handle_segment(Instant(1), PathId(0), &segment);
        let reset = &answers(&mut endpoint, Instant(1))[0];
        assert_eq!(reset.flags, Flags::RST | Flags::ACK, "{flags:?}");
        assert_eq!((reset.seq, reset.ack), (SeqNum(0), SeqNum(1000 + len)), "{flags:?}");
    }
}

/// The server, which has space for one connection, has closed first and is in TIME-WAIT; the last
/// segment of the client.
fn in_time_wait() -> (Net, Segment) {
    let mut server = plain(2);
    server.limits.connections = 1;
    let mut net = Net::new(plain(1), server);
    let last = Rc::new(RefCell::new(None));
    let seen = Rc::clone(&last);
    net.filter = Box::new(move |c| {
        if c.up && c.segment.flags.contains(Flags::FIN) {
            seen.replace(Some(c.segment.clone()));
        }
        true
    });
    net.server.answer = (data(10), true);
    net.connect(data(10), false);
    assert!(net.run(secs(1), |n| n.client.app().finished));
    net.client.app().close_after = true;
    assert!(net.run(secs(1), Net::over));
    let fin = last.borrow_mut().take().unwrap();
    (net, fin)
}

/// A SYN that cannot be an old duplicate (RFC 6191).
fn newer(fin: &Segment) -> Segment {
    let mut syn = fin.clone();
    (syn.flags, syn.seq) = (Flags::SYN, fin.seq.plus(100_000));
    if let Some(timestamps) = &mut syn.options.timestamps {
        timestamps.value += 1_000;
    }
    syn
}

// RFC 6191: a SYN for which there is no space does not end TIME-WAIT either.
#[test]
fn rfc6191_a_syn_without_space_leaves_time_wait_alone() {
    let (mut net, fin) = in_time_wait();
    let (now, path, server) = (net.now, PathId(0), &mut net.server.endpoint);
    server.handle_segment(now, path, &syn("10.0.0.9:5", "10.0.0.2:80"));
    assert_eq!(answers(server, now).len(), 1, "that was the room");
    server.handle_segment(now, path, &newer(&fin));
    assert_eq!(answers(server, now), []);
    server.handle_segment(now, path, &fin);
    let answer = answers(server, now).remove(0);
    assert_eq!((answer.flags, answer.ack), (Flags::ACK, fin.seq.plus(1)));
}

// RFC 9293 section 3.10.7.4 and RFC 6191: a SYN ends TIME-WAIT only if it opens something. Where
// nobody listens the old connection stays as it is.
#[test]
fn rfc6191_a_syn_that_opens_nothing_leaves_time_wait_alone() {
    for listens in [false, true] {
        let (mut net, fin) = in_time_wait();
        let (now, path) = (net.now, PathId(0));
        let syn = newer(&fin);
        let server = &mut net.server.endpoint;
        if !listens {
            server.unlisten("0.0.0.0:80".parse().unwrap());
        }
        server.handle_segment(now, path, &syn);
        let answer = answers(server, now).remove(0);
        if listens {
            assert_eq!(answer.flags, Flags::SYN | Flags::ACK);
            continue;
        }
        let expected = (Flags::ACK, fin.seq.plus(1));
        assert_eq!((answer.flags, answer.ack), expected, "a challenge");
        server.handle_segment(now, path, &fin);
        let answer = answers(server, now).remove(0);
        assert_eq!((answer.flags, answer.ack), expected, "its FIN is known");
        assert_eq!(server.connections(), 0);
        server.listen("0.0.0.0:80".parse().unwrap()).unwrap();
        server.handle_segment(now, path, &syn);
        assert_eq!(answers(server, now).remove(0).flags, Flags::SYN | Flags::ACK);
    }
}
