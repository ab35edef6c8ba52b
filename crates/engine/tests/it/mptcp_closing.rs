//! Endings and standstills: half-close, simultaneous close, abort, zero windows, TIME-WAIT,
//! refusals; on plain TCP and on MPTCP alike.

use crate::mptcp_net::*;
use std::net::SocketAddr;
use tabane_engine::endpoint::ConnectError;
use tabane_engine::event::Event;
use tabane_engine::record::CloseReason;
use tabane_engine::view::{PathId, SubflowId};
use tabane_engine::{Duration, Endpoint, Instant};
use tabane_wire::Flags;

/// Plain TCP, MPTCP over one path, over two.
fn kinds() -> [Net; 3] {
    let (mut client, server) = (config(1, 1), config(2, 1));
    client.mptcp.enabled = false;
    [Net::new(client, server), Net::pair(1), Net::pair(2)]
}

#[test]
fn half_close_leaves_the_other_direction_open() {
    for mut net in kinds() {
        net.server.answer = (data(10), false);
        net.connect(data(100_000), true);
        assert!(net.run(secs(5), |n| n.server.has(|e| *e == Event::PeerFinished)));
        assert!(net.run(secs(5), |n| n.client.has(|e| *e == Event::Flushed)));
        net.sleep(secs(20));
        let app = net.server.app();
        assert!(app.finished && !app.over);
        app.to_send = data(2_000_000).slice(10..);
        app.close_after = true;
        assert!(net.run(secs(20), |n| n.over()), "{:?}", net.client.events);
        assert!(net.client.app().received == data(2_000_000));
    }
}

#[test]
fn simultaneous_close() {
    for mut net in kinds() {
        net.server.answer = (data(1), false);
        net.connect(data(1), false);
        net.sleep(secs(1));
        net.client.app().close_after = true;
        net.server.app().close_after = true;
        assert!(net.run(secs(5), |n| n.over()), "{:?} {:?}", net.client.events, net.server.events);
        for host in [&net.client, &net.server] {
            assert_eq!(host.count(|e| *e == Event::Closed(CloseReason::Finished)), 1);
        }
    }
}

#[test]
fn close_without_data() {
    for mut net in kinds() {
        net.connect(data(0), true);
        assert!(net.run(secs(5), |n| n.over()), "{:?} {:?}", net.client.events, net.server.events);
    }
}

#[test]
fn endings_survive_loss() {
    for seed in 0..40u64 {
        for mut net in kinds() {
            let mut x = seed + 1;
            net.filter = Box::new(move |_| {
                x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (x >> 33) % 100 >= 15
            });
            net.server.answer = (data(3_000), true);
            net.connect(data(20_000), true);
            let over = net.run(secs(400), |n| n.over());
            assert!(over, "seed {seed} {:?} {:?}", net.client.events, net.server.events);
            assert!(net.server.app().received == data(20_000), "seed {seed}");
            assert!(net.client.app().received == data(3_000), "seed {seed}");
        }
    }
}

/// The server closes last, and hears nothing from then on, for `silence`: neither that its end has
/// arrived, nor the last FINs of the client.
fn last_acknowledgement_lost(mut net: Net, silence: Duration) -> Net {
    net.server.answer = (data(1_000), false);
    net.connect(data(1_000), true);
    net.sleep(secs(1));
    let until = net.now + silence;
    net.filter = Box::new(move |c| !c.up || c.now > until);
    net.server.app().close_after = true;
    let finished = |n: &mut Net| n.client.has(|e| *e == Event::PeerFinished);
    assert!(net.run(secs(1), finished), "{:?}", net.client.events);
    net
}

// RFC 8684 section 3.3.3: subflows close by FINs, which are repeated: with one the peer gets the
// DATA_ACK of its DATA_FIN that it misses.
#[test]
fn the_last_data_ack_is_repeated_until_it_is_heard() {
    for paths in [1, 2] {
        let mut net = last_acknowledgement_lost(Net::pair(paths), secs(20));
        assert!(net.run(secs(60), |n| n.over()), "{:?}", net.server.events);
        for host in [&net.client, &net.server] {
            assert!(host.has(|e| *e == Event::Closed(CloseReason::Finished)), "{:?}", host.events);
        }
        assert!(!net.server.has(|e| matches!(e, Event::SubflowClosed(_, CloseReason::Reset(_)))));
    }
}

// RFC 8684 section 3.3.3: the last ACK of a subflow may be what brings the DATA_ACK of the DATA_FIN
// (here its FIN could not, as the third packet of the join went with it). The others close then.
#[test]
fn the_end_of_a_subflow_may_be_the_end_of_the_stream() {
    let mut net = Net::pair(2);
    net.server.answer = (data(1_000), false);
    // The fourth packet of the join is lost.
    let heard = |c: &Crossing<'_>| {
        c.up || c.path == PathId(0) || c.segment.flags.intersects(Flags::SYN | Flags::FIN)
    };
    net.filter = Box::new(move |c| heard(c));
    net.connect(data(1_000), true);
    net.sleep(ms(500));
    net.filter = Box::new(move |c| heard(c) && !(c.up && c.path == PathId(0)));
    net.server.app().close_after = true;
    assert!(net.run(secs(150), |n| n.over()), "{:?}", net.server.events);
    for host in [&net.client, &net.server] {
        assert!(host.has(|e| *e == Event::Closed(CloseReason::Finished)), "{:?}", host.events);
    }
}

// RFC 9293 section 3.10.7.4: in LAST-ACK a reset closes. A peer that has forgotten the connection
// has got everything, our acknowledgement included; what is lost is its answer to our end.
#[test]
fn who_is_forgotten_in_last_ack_has_finished() {
    for net in kinds() {
        let mut net = last_acknowledgement_lost(net, secs(300));
        assert!(net.run(secs(1_500), |n| n.over()), "{:?}", net.server.events);
        for host in [&net.client, &net.server] {
            assert!(host.has(|e| *e == Event::Closed(CloseReason::Finished)), "{:?}", host.events);
        }
    }
}

#[test]
fn attempts_without_an_answer_do_not_outlive_the_stream() {
    let mut net = Net::pair(2);
    net.filter = Box::new(|c| c.path == PathId(0));
    net.server.answer = (data(1_000), true);
    net.connect(data(1_000), true);
    assert!(net.run(secs(1), |n| n.over()), "{:?} {:?}", net.client.events, net.server.events);
}

// RFC 9293 section 3.10.5: ABORT discards what was received and not delivered. Over already, and
// waiting for a reader that does not come, a connection would else stay for ever.
#[test]
fn rfc9293_abort_ends_what_is_over_and_was_not_read() {
    for mut net in kinds() {
        net.server.answer = (data(3_000), true);
        let id = net.connect(data(10), true);
        net.client.app().paused = true;
        net.sleep(secs(150));
        assert!(!net.client.has(|e| matches!(e, Event::Closed(_))), "it has not been read");
        let now = net.now;
        net.client.conn(id).abort(now);
        let over = net.run(secs(1), |n| n.client.has(|e| matches!(e, Event::Closed(_))));
        assert!(over, "{:?}", net.client.events);
        assert!(net.client.endpoint.connection(id).is_none(), "it is forgotten");
    }
}

#[test]
fn abort_resets_the_peer() {
    for (i, mut net) in kinds().into_iter().enumerate() {
        net.server.answer = (data(10_000_000), false);
        let id = net.connect(data(10_000_000), false);
        net.sleep(ms(300));
        let now = net.now;
        net.client.conn(id).abort(now);
        assert!(net.run(secs(1), |n| n.over()), "{:?} {:?}", net.client.events, net.server.events);
        let expected = if i == 0 { CloseReason::Reset(None) } else { CloseReason::FastClose };
        assert!(net.client.has(|e| *e == Event::Closed(CloseReason::Aborted)));
        assert!(net.server.has(|e| *e == Event::Closed(expected)), "{:?}", net.server.events);
    }
}

// RFC 9293 section 3.7.4, in Minshall's form: a segment short of a full one does not wait for full
// ones, only for another short one.
#[test]
fn rfc9293_nagle_holds_a_short_segment_behind_a_short_one() {
    for mut net in kinds() {
        net.connect(data(1), false);
        net.sleep(secs(1));
        let arrives = |net: &mut Net, bytes: usize, within: Duration| {
            net.run(within, |n| n.server.app().received.len() == bytes)
        };
        net.client.app().to_send = data(2_000);
        assert!(arrives(&mut net, 2_001, ms(15)), "the end of an answer");
        net.sleep(secs(1));
        net.client.app().to_send = data(100);
        assert!(!arrives(&mut net, 0, ms(1)));
        net.client.app().to_send = data(100);
        assert!(arrives(&mut net, 2_101, ms(15)) && !arrives(&mut net, 2_201, ms(10)));
        assert!(arrives(&mut net, 2_201, ms(100)));
    }
}

#[test]
fn zero_window_for_ten_seconds() {
    for mut net in kinds() {
        net.connect(data(5_000_000), true);
        assert!(net.run(secs(1), |n| !n.server.conns.is_empty()));
        net.server.app().paused = true;
        net.sleep(secs(10));
        let id = net.server.only();
        let held = net.server.conn(id).readable();
        assert!((100_000..=200_000).contains(&held), "one buffer: {held}");
        let before = net.now;
        net.server.app().paused = false;
        assert!(net.run(secs(5), |n| n.over()), "{:?}", net.client.events);
        assert!((net.now - before).as_secs_f64() < 2.0);
        assert!(net.server.app().received == data(5_000_000));
    }
}

#[test]
fn a_lost_window_update_does_not_hang() {
    for mut net in kinds() {
        net.connect(data(2_000_000), true);
        assert!(net.run(secs(1), |n| !n.server.conns.is_empty()));
        net.server.app().paused = true;
        net.sleep(secs(5));
        let end = net.now + ms(40);
        net.filter = Box::new(move |c| c.now > end || c.up);
        net.server.app().paused = false;
        assert!(net.run(secs(20), |n| n.over()), "{:?}", net.client.events);
    }
}

#[test]
fn a_slow_reader_gets_everything() {
    for mut net in kinds() {
        net.connect(data(1_000_000), true);
        assert!(net.run(secs(1), |n| !n.server.conns.is_empty()));
        net.server.app().paused = true;
        let id = net.server.only();
        let mut received = Vec::new();
        for _ in 0..4000 {
            net.sleep(ms(2));
            if net.server.app().over {
                break;
            }
            if let Some(part) = net.server.conn(id).read(700) {
                received.extend_from_slice(&part);
            }
        }
        assert!(received == data(1_000_000), "{}", received.len());
    }
}

#[test]
fn nobody_listens() {
    for mut net in kinds() {
        let (local, remote) = (SocketAddr::new(addr(1, 0), 0), SocketAddr::new(addr(2, 0), 81));
        let id = net.client.endpoint.connect(net.now, local, remote).unwrap();
        net.client.conns.insert(id, App::default());
        net.sleep(secs(1));
        assert!(net.client.has(|e| *e == Event::Closed(CloseReason::Refused)));
        assert_eq!(net.client.endpoint.connections(), 0);
    }
}

#[test]
fn nobody_answers() {
    for mut net in kinds() {
        net.filter = Box::new(|_| false);
        net.connect(data(1), true);
        net.sleep(secs(400));
        let timed_out = |e: &Event| *e == Event::Closed(CloseReason::TimedOut);
        assert!(net.client.has(timed_out), "{:?}", net.client.events);
    }
}

#[test]
fn a_port_pair_in_time_wait_can_be_used_again() {
    for mut net in kinds() {
        let (local, remote) = (SocketAddr::new(addr(1, 0), 7777), SocketAddr::new(addr(2, 0), 80));
        for round in 1..=3 {
            let id = net.client.endpoint.connect(net.now, local, remote).unwrap();
            // The server closes first: TIME-WAIT is there.
            net.client.conns.insert(id, App { to_send: data(1000), ..App::default() });
            net.server.answer = (data(1000), true);
            let finished =
                net.run(secs(3), |n| n.client.conns.get(&id).is_some_and(|a| a.finished));
            assert!(finished, "round {round} {:?}", net.client.events);
            net.client.conns.get_mut(&id).unwrap().close_after = true;
            let over = net.run(secs(3), |n| n.over());
            assert!(over, "round {round} {:?} {:?}", net.client.events, net.server.events);
            net.sleep(secs(2));
        }
    }
}

/// All subflows are reset by hand at one end; the resets arrive and nothing after them, or not even
/// they.
fn subflows_reset_by_hand(mut net: Net, at_client: bool, reaches: bool) -> Net {
    net.server.answer = (data(1_000), false);
    net.connect(data(1_000), false);
    net.sleep(secs(1));
    let (now, end) = (net.now, net.now + ms(100));
    net.filter = Box::new(move |c| reaches && c.now < end);
    let host = if at_client { &mut net.client } else { &mut net.server };
    let id = host.only();
    for subflow in host.conn(id).info(now).subflows {
        assert_eq!(host.conn(id).reset_subflow(now, subflow.view.id), Ok(()));
    }
    net
}

// RFC 8684 section 3.3.3 (break before make) names no time. Linux's `net.mptcp.close_timeout` is
// 60 s, as `break_before_make` is.
#[test]
fn a_connection_without_subflows_ends_by_its_time_limit() {
    for (paths, at_client) in [(1, true), (1, false), (2, true), (2, false)] {
        let mut net = subflows_reset_by_hand(Net::pair(paths), at_client, true);
        let left = |n: &Net| [n.client.endpoint.connections(), n.server.endpoint.connections()];
        net.sleep(secs(59));
        assert_eq!(left(&net), [1, 1], "another subflow may come");
        net.sleep(secs(2));
        assert_eq!(left(&net), [0, 0], "{:?} {:?}", net.client.events, net.server.events);
        for host in [&net.client, &net.server] {
            let closed = |e: &Event| *e == Event::Closed(CloseReason::TimedOut);
            assert!(host.has(closed), "{paths} {at_client} {:?}", host.events);
        }
    }
}

// RFC 9293 section 3.5.1: an end that has nothing to send does not notice that the other one is
// gone, if the reset that says so is lost; section 3.8.4: unless it has keepalive. RFC 8684
// section 3.3.3 changes nothing about it.
#[test]
fn a_lost_reset_is_found_out_by_keepalive_alone() {
    for (keepalive, left) in [(None, 1), (Some(secs(60)), 0)] {
        for mptcp in [false, true] {
            for at_client in [false, true] {
                let (mut client, mut server) = (config(1, 1), config(2, 1));
                client.mptcp.enabled = mptcp;
                client.tcp.keepalive = keepalive;
                server.tcp.keepalive = keepalive;
                let net = Net::new(client, server);
                let mut net = subflows_reset_by_hand(net, at_client, false);
                // All probes, then what a connection without subflows is given.
                net.sleep(secs(60 + 9 * 75 + 61));
                let [by, at] = match at_client {
                    true => [&net.client, &net.server],
                    false => [&net.server, &net.client],
                };
                let ends = [by.endpoint.connections(), at.endpoint.connections()];
                assert_eq!(ends, [0, left], "{:?} {:?}", by.events, at.events);
            }
        }
    }
}

#[test]
fn nothing_is_left_in_the_end() {
    for mut net in kinds() {
        for _ in 0..20 {
            net.connect(data(5_000), true);
        }
        assert!(net.run(secs(20), |n| n.over()));
        assert_eq!(net.client.endpoint.connections() + net.server.endpoint.connections(), 0);
        net.sleep(secs(70));
        assert_eq!(net.client.endpoint.poll_timeout(), None);
        assert_eq!(net.server.endpoint.poll_timeout(), None);
    }
}

// RFC 8684 section 3.3.3: a FIN closes its subflow, and is answered by one; the connection goes on,
// with the data that the subflow had.
#[test]
fn rfc8684_a_fin_closes_its_subflow_alone() {
    let mut net = Net::pair(2);
    net.server.answer = (data(1_000), false);
    net.connect(data(3_000_000), false);
    net.sleep(ms(150));
    assert_eq!((net.client_info().subflows.len(), net.server_info().subflows.len()), (2, 2));
    let (id, now) = (net.client.only(), net.now);
    net.client.conn(id).close_subflow(now, SubflowId(1)).unwrap();
    net.sleep(ms(800));
    for host in [&net.client, &net.server] {
        let closed = Event::SubflowClosed(SubflowId(1), CloseReason::Finished);
        assert!(host.has(|e| *e == closed), "{:?}", host.events);
    }
    assert!(net.server.app().received == data(3_000_000));
    net.client.app().close_after = true;
    net.server.app().close_after = true;
    assert!(net.run(secs(2), |n| n.over()), "{:?}", net.client.events);
}

// RFC 8684 section 3.3.3: a DATA_FIN that comes before missing data waits for it, and counts as
// soon as that has come.
#[test]
fn rfc8684_a_data_fin_waits_for_the_gap() {
    let mut net = Net::pair(1);
    let mut lost = false;
    net.filter = Box::new(move |c| {
        let missing = c.up && c.segment.payload.len() > 1_000 && c.index >= 60 && !lost;
        lost |= missing;
        !missing
    });
    net.connect(data(100_000), true);
    let all = |n: &mut Net| !n.server.conns.is_empty() && n.server.app().received.len() == 100_000;
    assert!(net.run(secs(5), all));
    net.sleep(ms(1));
    assert!(net.server.app().finished, "its end was announced before");
}

// RFC 8684 section 3.3.3 and "break before make": without a subflow a connection waits for the next
// one, and not for ever.
#[test]
fn a_connection_outlives_its_only_subflow_for_a_while() {
    for restored in [true, false] {
        let mut net = Net::pair(1);
        net.server.answer = (data(1_000), true);
        net.connect(data(500_000), false);
        net.sleep(ms(300));
        let (id, now) = (net.client.only(), net.now);
        net.client.conn(id).reset_subflow(now, SubflowId(0)).unwrap();
        net.filter = Box::new(move |_| restored);
        net.sleep(secs(3));
        assert!(!net.client.has(|e| matches!(e, Event::Closed(_))), "{:?}", net.client.events);
        let (now, local) = (net.now, SocketAddr::new(addr(1, 0), 0));
        let remote = SocketAddr::new(addr(2, 0), 80);
        net.client.conn(id).add_subflow(now, local, remote, false).unwrap();
        net.client.app().to_send = data(1_000);
        net.client.app().close_after = true;
        assert!(net.run(secs(200), |n| n.client.app().over), "{restored}");
        let reason = if restored { CloseReason::Finished } else { CloseReason::TimedOut };
        assert!(net.client.has(|e| *e == Event::Closed(reason)), "{:?}", net.client.events);
        assert_eq!(net.server.app().received.len(), if restored { 501_000 } else { 500_000 });
    }
}

/// Two endpoints of one path without a delay, for connections by the ten thousands.
struct Churn {
    now: Instant,
    client: Endpoint,
    server: Endpoint,
}

/// Ephemeral ports.
const PORTS: usize = 60_999 - 32_768 + 1;

impl Churn {
    fn new() -> Self {
        let plain = |host| {
            let mut config = config(host, 1);
            (config.mptcp.enabled, config.records) = (false, false);
            Endpoint::new(config, [host; 32]).expect("a good configuration")
        };
        let mut churn = Self { now: Instant::ZERO, client: plain(1), server: plain(2) };
        churn.server.listen(churn.target()).expect("nobody listens yet");
        churn
    }

    fn target(&self) -> SocketAddr {
        (addr(2, 0), 80).into()
    }

    /// Opens a connection and closes it in order, the client first: it stays in TIME-WAIT there.
    fn open_and_close(&mut self) -> Result<(), ConnectError> {
        let id = self.client.connect(self.now, (addr(1, 0), 0).into(), self.target())?;
        self.run_until_idle();
        self.client.connection(id).expect("it is open").close(self.now);
        self.run_until_idle();
        assert!(self.client.connection(id).is_none(), "it is over");
        Ok(())
    }

    fn run_until_idle(&mut self) {
        let Self { now, client, server } = self;
        loop {
            let mut any = false;
            while let Some(departure) = client.poll_segment(*now) {
                server.handle_segment(*now, PathId(0), &departure.segment);
                any = true;
            }
            while client.poll_event().is_some() {
                any = true;
            }
            while let Some((id, event)) = server.poll_event() {
                if event == Event::PeerFinished
                    && let Some(conn) = server.connection(id)
                {
                    conn.close(*now);
                }
                any = true;
            }
            while let Some(departure) = server.poll_segment(*now) {
                client.handle_segment(*now, PathId(0), &departure.segment);
                any = true;
            }
            if !any {
                return;
            }
        }
    }

    fn sleep(&mut self, time: Duration) {
        self.now += time;
        self.client.handle_timeout(self.now);
        self.server.handle_timeout(self.now);
        self.run_until_idle();
    }
}

/// RFC 6191 from the side that opens: what is in TIME-WAIT does not use up the ports.
#[test]
fn rfc6191_ports_in_time_wait_are_used_again_after_a_second() {
    let mut churn = Churn::new();
    for n in 0..PORTS + 5000 {
        churn.open_and_close().unwrap_or_else(|why| panic!("connection {n}: {why}"));
        // 3000 a second; TIME-WAIT takes 60 s.
        churn.now += Duration::from_micros(333);
    }
}

/// No port is found, and none is looked for again at once: that would take all the time there is.
#[test]
fn a_want_of_ports_costs_little_and_ends_with_its_cause() {
    let mut churn = Churn::new();
    for _ in 0..PORTS {
        churn.open_and_close().unwrap();
    }
    for _ in 0..100_000 {
        let none = churn.open_and_close();
        assert!(matches!(none, Err(ConnectError::NoPort(_))), "{none:?}");
    }
    churn.sleep(Duration::from_millis(1100));
    churn.open_and_close().unwrap();
}
