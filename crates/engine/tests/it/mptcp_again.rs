//! Data that goes again on another subflow (RFC 8684 section 3.3.6), and why: what blocks the
//! window, what an unresponsive subflow has in flight, what a closed one had. By records.

use crate::mptcp_net::*;
use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use tabane_engine::Instant;
use tabane_engine::policy::Spec;
use tabane_engine::record::{ReinjectReason, What};
use tabane_engine::view::{PathId, SubflowId};

/// When the client has sent something again for this reason, by which subflow, and how much.
fn again(host: &Host, why: ReinjectReason) -> Vec<(Instant, Option<SubflowId>, u32)> {
    let records = host.records.iter().filter_map(|r| match r.what {
        What::Reinjected { len, why: reason, .. } if reason == why => Some((r.at, r.subflow, len)),
        _ => None,
    });
    records.collect()
}

/// A fast path and one that is far slower in both, to a reader with so much
/// memory. The client writes all that it has.
fn uneven(opportunistic: bool, buffer: u64) -> Net {
    let (mut client, mut server) = (config(1, 2), config(2, 1));
    (client.mptcp.opportunistic_retransmission, client.mptcp.tail_reinjection) =
        (opportunistic, false);
    client.mptcp.scheduler = Spec::named("minrtt");
    (server.tcp.receive_buffer, server.tcp.receive_buffer_max) = (buffer, buffer);
    let mut net = Net::new(client, server);
    net.links.insert(PathId(1), (ms(300), 500_000));
    net.links.insert(PathId(0), (ms(10), 2_500_000));
    net.connect(data(8_000_000), true);
    assert!(net.run(secs(60), |n| n.over()), "{:?}", net.client.events);
    assert!(net.server.app().received == data(8_000_000));
    net
}

// Raiciu et al., NSDI 2012, section 4.2: the head goes again on a subflow with space when the
// peer's window is full, at most once a round trip of that subflow, and not otherwise.
#[test]
fn what_blocks_the_window_goes_again_by_the_faster_subflow() {
    let net = uneven(true, 300_000);
    let sent = again(&net.client, ReinjectReason::Opportunistic);
    assert!(sent.len() > 3, "{sent:?}");
    assert!(sent.iter().all(|(_, by, _)| *by == Some(SubflowId(0))), "{sent:?}");
    assert!(sent.windows(2).all(|w| w[1].0 - w[0].0 >= ms(20)), "{sent:?}");
    for (opportunistic, buffer) in [(false, 300_000), (true, 16_000_000)] {
        let net = uneven(opportunistic, buffer);
        assert_eq!(
            again(&net.client, ReinjectReason::Opportunistic),
            [],
            "{opportunistic} {buffer}"
        );
    }
}

// What left while there was no choice waits in the first path's queue for seconds; a path that
// joins takes it over, once, and what is written later does not wait for it.
#[test]
fn a_subflow_that_joins_takes_over_what_waits() {
    let arrived = |tail_reinjection: bool| {
        let mut client = config(1, 2);
        client.mptcp.tail_reinjection = tail_reinjection;
        let mut net = Net::new(client, config(2, 2));
        net.links.insert(PathId(0), (ms(5), 20_000));
        net.links.insert(PathId(1), (ms(50), 2_500_000));
        let start = net.now;
        net.connect(data(60_000), false);
        let all = |n: &mut Net| n.server.conns.values().any(|app| app.received.len() == 60_000);
        assert!(net.run(secs(60), all));
        assert!(net.server.app().received == data(60_000));
        (net.now - start, again(&net.client, ReinjectReason::Opportunistic))
    };
    let (soon, copies) = arrived(true);
    let at_once = copies.iter().filter(|(at, by, _)| (*at, *by) == (copies[0].0, copies[0].1));
    assert!(at_once.count() >= 3 && copies[0].1 == Some(SubflowId(1)), "{copies:?}");
    let (late, copies) = arrived(false);
    assert!(late > soon + ms(80) && copies.is_empty(), "{late:?} {copies:?}");
}

/// Two paths, of which the second swallows everything from 500 ms on.
fn one_stops_answering(tail_reinjection: bool, backup: Option<u8>, both: bool) -> Net {
    let mut client = config(1, 2);
    client.mptcp.tail_reinjection = tail_reinjection;
    if let Some(path) = backup {
        client.paths[usize::from(path)].backup = true;
    }
    let mut net = Net::new(client, config(2, 2));
    for (_, rate) in net.links.values_mut() {
        *rate = 1_000_000;
    }
    let dead = Rc::new(Cell::new(false));
    let switch = dead.clone();
    net.filter = Box::new(move |c| !switch.get() || (c.path == PathId(0) && !both));
    net.connect(data(20_000_000), false);
    net.sleep(ms(1_600));
    dead.set(true);
    net.sleep(ms(1_500));
    net
}

// At its tail loss probe what an unresponsive subflow has in flight is offered to a sibling that is
// heard, before its timeout.
#[test]
fn data_of_an_unresponsive_subflow_is_reinjected_on_one_that_answers() {
    let net = one_stops_answering(true, None, false);
    let silence = again(&net.client, ReinjectReason::Unresponsive);
    assert!(silence.iter().all(|(_, by, _)| *by == Some(SubflowId(0))), "{silence:?}");
    let first = silence.first().expect("it goes again").0;
    let timeouts = again(&net.client, ReinjectReason::Timeout);
    assert!(timeouts.iter().all(|t| t.0 >= first), "{timeouts:?}");
    let off = one_stops_answering(false, None, false);
    assert_eq!(again(&off.client, ReinjectReason::Unresponsive), []);
    assert!(!again(&off.client, ReinjectReason::Timeout).is_empty());
    let none = one_stops_answering(true, None, true);
    assert_eq!(again(&none.client, ReinjectReason::Unresponsive), [], "nobody is heard");
}

// RFC 8684 section 3.3.1: the sender keeps data until its DATA_ACK, and a subflow's own
// acknowledgment does not stand for it. So what has none when the last subflow goes is sent again
// by the next one, even if that subflow had acknowledged all of it.
#[test]
fn what_has_no_data_ack_when_the_last_subflow_goes_is_sent_by_the_next_one() {
    for paths in [1, 2] {
        let mut net = Net::pair(paths);
        net.connect(data(1_000), false);
        net.sleep(secs(1));
        let mute = Rc::new(Cell::new(true));
        let switch = mute.clone();
        net.filter = Box::new(move |c| {
            if let Some(dss) = c.segment.options.dss.as_mut().filter(|_| !c.up && switch.get()) {
                dss.data_ack = None;
            }
            true
        });
        let id = net.client.only();
        net.client.app().to_send = data(30_000);
        net.sleep(ms(120));
        let info = net.client_info();
        assert!(info.written - info.acked == 30_000, "{info:?}");
        assert!(info.subflows.iter().all(|s| s.view.in_flight == 0), "{info:?}");
        for subflow in info.subflows {
            let at = net.now;
            assert_eq!(net.client.conn(id).reset_subflow(at, subflow.view.id), Ok(()));
        }
        net.sleep(secs(1));
        let (local, remote) = (SocketAddr::new(addr(1, 0), 0), SocketAddr::new(addr(2, 0), 80));
        let at = net.now;
        net.client.conn(id).add_subflow(at, local, remote, false).unwrap();
        net.sleep(secs(1));
        let closed = again(&net.client, ReinjectReason::SubflowClosed);
        let sent: u32 = closed.iter().map(|(_, _, len)| *len).sum();
        assert_eq!(sent, 30_000, "{paths} {closed:?}");
        mute.set(false);
        net.sleep(secs(5));
        assert_eq!(net.client_info().acked, 31_000, "{paths} {:?}", net.client_info());
    }
}
