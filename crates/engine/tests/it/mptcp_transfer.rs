//! Whole transfers between two endpoints: plain TCP and MPTCP, typed and by bytes.

use crate::mptcp_net::*;
use std::net::SocketAddr;
use tabane_engine::Instant;
use tabane_engine::event::Event;
use tabane_engine::policy::{Entry, Spec};
use tabane_engine::record::CloseReason;
use tabane_engine::scheduler::{Build, REGISTRY, Scheduler, Work};
use tabane_engine::view::{SubflowId, SubflowSet, SubflowView};
use tabane_wire::Flags;

const LEN: usize = 3_000_000;

/// Both directions at once, closed by both: everything arrives, each event comes once.
fn both_directions(mut net: Net) -> Net {
    net.server.answer = (data(LEN / 2), true);
    net.connect(data(LEN), true);
    assert!(net.run(secs(60), |n| n.over()), "{:?} {:?}", net.client.events, net.server.events);
    assert!(net.server.app().received == data(LEN));
    assert!(net.client.app().received == data(LEN / 2));
    for host in [&net.client, &net.server] {
        assert_eq!(host.count(|e| *e == Event::Closed(CloseReason::Finished)), 1);
        assert_eq!(host.count(|e| *e == Event::PeerFinished), 1);
        assert_eq!(host.count(|e| *e == Event::Flushed), 1);
    }
    assert_eq!(net.client.count(|e| *e == Event::Connected), 1);
    assert_eq!(net.server.count(|e| matches!(e, Event::Accepted { .. })), 1);
    net
}

fn plain() -> Net {
    let (mut client, server) = (config(1, 1), config(2, 1));
    client.mptcp.enabled = false;
    Net::new(client, server)
}

#[test]
fn plain_tcp() {
    let net = both_directions(plain());
    assert!(net.now.as_secs_f64() < 3.0, "{:?}", net.now);
}

#[test]
fn plain_tcp_by_bytes() {
    let mut net = plain();
    net.wire = true;
    both_directions(net);
}

#[test]
fn plain_tcp_with_loss() {
    let mut net = plain();
    net.filter = Box::new(|c| c.index % 71 != 70);
    both_directions(net);
}

#[test]
fn mptcp_one_path() {
    let net = both_directions(Net::pair(1));
    assert_eq!(net.client.count(|e| matches!(e, Event::SubflowEstablished(_))), 1);
}

#[test]
fn mptcp_two_paths() {
    let net = both_directions(Net::pair(2));
    assert_eq!(net.client.count(|e| matches!(e, Event::SubflowEstablished(_))), 2);
}

#[test]
fn mptcp_two_paths_by_bytes() {
    let mut net = Net::pair(2);
    net.wire = true;
    both_directions(net);
}

/// Twice what the application reads in a round trip, four times with several subflows; nothing
/// for an application that does not read.
#[test]
fn the_receive_buffer_grows_with_what_is_read() {
    let grown = |paths: u8, max: u64, paused: bool| {
        let mut server = config(2, paths);
        server.tcp.receive_buffer_max = max;
        let mut net = Net::new(config(1, paths), server);
        net.links.values_mut().for_each(|link| *link = (ms(40), 2_500_000));
        net.connect(data(20_000_000), false);
        assert!(net.run(secs(1), |n| !n.server.conns.is_empty()));
        net.server.app().paused = paused;
        net.sleep(secs(3));
        net.server_info().receive_buffer
    };
    // 2.5 MB/s for 80 ms there and back, at most 100 ms in the queue and 40 ms until an ACK: 200
    // to 550 kB are read in a round trip.
    let one = grown(1, 16 << 20, false);
    assert!((400_000..1_130_000).contains(&one), "{one}");
    let two = grown(2, 16 << 20, false);
    assert!(two >= 1_600_000, "{two}, and more as what came early is read in lumps");
    assert_eq!(grown(1, 300_000, false), 300_000);
    assert_eq!(grown(1, 16 << 20, true), 128 << 10);
}

// RFC 8684 section 3.1: the third packet may be lost; the first data carries the same keys, and its
// window counts as well. What answers it leaves at once.
#[test]
fn the_first_data_stands_for_a_lost_third_packet() {
    let mut net = Net::pair(1);
    net.server.answer = (data(20_000), false);
    net.filter = Box::new(|c| {
        let syn = c.segment.flags.contains(Flags::SYN);
        !c.up || syn || !c.segment.payload.is_empty() || c.now > Instant(1_045_000_000)
    });
    net.connect(data(300), false);
    assert!(net.run(ms(45), |n| n.client.app().received.len() > 1_000), "{:?}", net.client.events);
}

// RFC 9293 section 3.8.6.1: a closed window is probed for as long as data waits. The subflow that
// was there when it closed may go, and one that joined later is as good.
#[test]
fn a_subflow_that_joins_at_a_closed_window_probes_it() {
    let (mut client, mut server) = (config(1, 2), config(2, 2));
    client.mptcp.full_mesh = false;
    (server.tcp.receive_buffer, server.tcp.receive_buffer_max) = (50_000, 50_000);
    let mut net = Net::new(client, server);
    let id = net.connect(data(200_000), true);
    net.sleep(ms(35));
    net.server.app().paused = true;
    net.sleep(secs(3));
    let info = net.client_info();
    assert!(info.subflows.len() == 1 && info.written > info.acked, "{info:?}");
    let now = net.now;
    let remote = SocketAddr::new(addr(2, 0), 80);
    net.client.conn(id).add_subflow(now, SocketAddr::new(addr(1, 1), 0), remote, false).unwrap();
    net.sleep(secs(1));
    let now = net.now;
    net.client.conn(id).reset_subflow(now, SubflowId(0)).unwrap();
    // The reader goes on, and what tells so is lost until it is no more repeated.
    let from = net.now;
    net.filter = Box::new(move |c| c.up || c.now > from + secs(20));
    net.server.app().paused = false;
    assert!(net.run(secs(120), |n| n.over()), "{:?}", net.client_info());
    assert!(net.server.app().received == data(200_000));
}

/// The first subflow with space, with data that lies beyond anything that will be written.
#[derive(Default)]
struct TooFar;

impl Scheduler for TooFar {
    fn select(&mut self, _: &Work, subflows: &[SubflowView]) -> SubflowSet {
        let free = subflows.iter().find(|v| v.usable && v.sendable > 0);
        free.map_or(SubflowSet::NONE, |v| SubflowSet::only(v.id))
    }

    fn looks_ahead(&self) -> bool {
        true
    }

    fn gap(&self) -> u64 {
        u64::MAX / 2
    }
}

const TOO_FAR: Entry<Build> = Entry {
    name: "toofar",
    aliases: &[],
    summary: "looks ahead beyond the end",
    params: &[],
    build: &|_| Ok(Box::new(TooFar)),
};

/// A policy may be slow or odd, but never stops a connection.
#[test]
fn a_scheduler_that_looks_too_far_ahead_stops_nothing() {
    REGISTRY.register(TOO_FAR).expect("a name that nobody has");
    let [client, server] = [1, 2].map(|host| {
        let mut config = config(host, 2);
        config.mptcp.scheduler = Spec::named("toofar");
        config
    });
    let mut net = Net::new(client, server);
    let len = 30_000;
    net.server.answer = (data(len), true);
    net.connect(data(len), true);
    assert!(net.run(secs(60), |n| n.over()), "{:?} {:?}", net.client.events, net.server.events);
    assert!(net.server.app().received == data(len) && net.client.app().received == data(len));
}
