//! Several paths: use of all, death and return of one, backup, addresses, and joins that fail.

use crate::mptcp_net::*;
use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use tabane_engine::event::Event;
use tabane_engine::mptcp::{Info, SubflowError};
use tabane_engine::policy::Spec;
use tabane_engine::record::{CloseReason, DropReason, What};
use tabane_engine::view::{PathId, SubflowId};
use tabane_engine::{Duration, Instant};
use tabane_wire::mptcp::MpJoin;
use tabane_wire::{Flags, MptcpOption};

/// Payload bytes that arrived on a path and were new.
fn delivered(info: &Info, path: u8) -> u64 {
    info.subflows.iter().filter(|s| s.path == PathId(path)).map(|s| s.delivered).sum()
}

/// What a bulk transfer carries: at two times 20 Mbit/s, 8 s of it.
const LEN: usize = 40_000_000;

/// Bytes a second of each path in bulk transfers.
const RATE: u64 = 2_500_000;

/// A bulk transfer from the client that lasts long enough for anything.
fn bulk(mut net: Net) -> Net {
    for (_, rate) in net.links.values_mut() {
        *rate = (*rate).min(RATE);
    }
    net.connect(data(LEN), true);
    assert!(
        net.run(secs(5), |n| n.client.count(|e| matches!(e, Event::SubflowEstablished(_))) == 2)
    );
    net
}

fn finish(mut net: Net) -> Net {
    assert!(net.run(secs(60), |n| n.over()), "{:?} {:?}", net.client.events, net.server.events);
    assert!(net.server.app().received == data(LEN));
    net
}

/// Makes a path swallow everything while the cell says so.
fn black_hole(net: &mut Net, path: u8) -> Rc<Cell<bool>> {
    let dead = Rc::new(Cell::new(false));
    let switch = dead.clone();
    net.filter = Box::new(move |c| !(c.path == PathId(path) && switch.get()));
    dead
}

/// Bytes received by the server's application and by path, over `time`.
fn progress(net: &mut Net, time: tabane_engine::Duration) -> (u64, [u64; 2]) {
    let before = net.server_info();
    net.sleep(time);
    let after = net.server_info();
    let by_path = [0, 1].map(|p| delivered(&after, p) - delivered(&before, p));
    (after.received - before.received, by_path)
}

#[test]
fn both_paths_carry_the_sum_of_their_rates() {
    let mut net = bulk(Net::pair(2));
    net.sleep(secs(1));
    let (bytes, by_path) = progress(&mut net, secs(1));
    assert!(bytes > 4_500_000, "of 5 MB/s: {bytes}");
    assert!(by_path.iter().all(|b| *b > 2_000_000), "{by_path:?}");
    finish(net);
}

#[test]
fn a_dead_path_is_left_within_a_second_and_used_again_within_two() {
    for path in [0, 1] {
        let mut net = bulk(Net::pair(2));
        let dead = black_hole(&mut net, path);
        net.sleep(secs(1));
        dead.set(true);
        net.sleep(secs(1));
        let (bytes, by_path) = progress(&mut net, secs(1));
        assert!(bytes > 2_000_000, "path {path} dead: {bytes}");
        assert_eq!(by_path[usize::from(path)], 0);
        net.sleep(ms(1300));
        dead.set(false);
        net.sleep(secs(2));
        // Two seconds on, it carries again.
        let (_, by_path) = progress(&mut net, ms(300));
        assert!(by_path[usize::from(path)] > 100_000, "path {path}: {by_path:?}");
        finish(net);
    }
}

#[test]
fn both_paths_dead_for_a_while() {
    let mut net = bulk(Net::pair(2));
    let dead = Rc::new(Cell::new(false));
    let switch = dead.clone();
    net.filter = Box::new(move |_| !switch.get());
    net.sleep(secs(1));
    dead.set(true);
    net.sleep(secs(5));
    dead.set(false);
    finish(net);
}

#[test]
fn loss_on_both_paths() {
    let mut net = Net::pair(2);
    net.filter = Box::new(|c| (c.index * 7919) % 101 > 1);
    net.server.answer = (data(3_000_000), true);
    net.connect(data(6_000_000), true);
    assert!(net.run(secs(120), |n| n.over()), "{:?} {:?}", net.client.events, net.server.events);
    assert!(net.server.app().received == data(6_000_000));
    assert!(net.client.app().received == data(3_000_000));
}

#[test]
fn backup_is_used_only_while_the_active_path_is_dead() {
    let mut client = config(1, 2);
    client.paths[1].backup = true;
    let mut net = bulk(Net::new(client, config(2, 2)));
    let dead = black_hole(&mut net, 0);
    net.sleep(secs(1));
    assert_eq!(delivered(&net.server_info(), 1), 0, "not a byte on the backup");
    dead.set(true);
    net.sleep(secs(1));
    let (_, by_path) = progress(&mut net, secs(1));
    assert!(by_path[1] > 1_800_000, "{by_path:?}");
    dead.set(false);
    net.sleep(secs(2));
    let (_, by_path) = progress(&mut net, ms(500));
    assert!(by_path[0] > 500_000 && by_path[1] < 100_000, "left again: {by_path:?}");
    finish(net);
}

#[test]
fn priority_changes_on_a_live_connection_from_either_side() {
    for from_client in [true, false] {
        let mut net = bulk(Net::pair(2));
        net.sleep(ms(500));
        let now = net.now;
        let host = if from_client { &mut net.client } else { &mut net.server };
        let id = host.only();
        host.conn(id).set_backup(now, SubflowId(1), true).unwrap();
        net.sleep(ms(500));
        let (_, by_path) = progress(&mut net, ms(500));
        assert_eq!(by_path[1], 0, "from client: {from_client}");
        let now = net.now;
        let host = if from_client { &mut net.client } else { &mut net.server };
        host.conn(id).set_backup(now, SubflowId(1), false).unwrap();
        net.sleep(ms(300));
        let (_, by_path) = progress(&mut net, ms(300));
        assert!(by_path[1] > 300_000, "{by_path:?}");
        finish(net);
    }
}

#[test]
fn the_driver_says_that_a_path_is_down() {
    let mut net = bulk(Net::pair(2));
    let dead = black_hole(&mut net, 1);
    net.sleep(ms(500));
    dead.set(true);
    net.client.endpoint.set_path_up(net.now, PathId(1), false);
    // What path 1 had under way takes path 0 a tenth of a second.
    net.sleep(ms(300));
    let (_, by_path) = progress(&mut net, ms(500));
    assert!(by_path[0] > 1_100_000, "no stall at all: {by_path:?}");
    dead.set(false);
    net.client.endpoint.set_path_up(net.now, PathId(1), true);
    net.sleep(secs(2));
    let (_, by_path) = progress(&mut net, ms(300));
    assert!(by_path[1] > 200_000, "{by_path:?}");
    finish(net);
}

/// What had arrived before the path died, with ACKs that had not, is answered by a DSACK on its
/// return: no proof that the rest has arrived as well.
#[test]
fn a_path_that_is_up_again_carries_its_share_at_once() {
    let mut net = bulk(Net::pair(2));
    let dead = black_hole(&mut net, 1);
    net.sleep(ms(500));
    dead.set(true);
    net.sleep(ms(900));
    net.client.endpoint.set_path_up(net.now, PathId(1), false);
    net.sleep(ms(1100));
    dead.set(false);
    net.client.endpoint.set_path_up(net.now, PathId(1), true);
    net.sleep(ms(400));
    let (_, by_path) = progress(&mut net, ms(400));
    assert!(by_path[1] > RATE * 4 / 10 * 7 / 10, "{by_path:?}");
    finish(net);
}

#[test]
fn subflows_closed_and_reset_by_hand_lose_nothing() {
    for reset in [false, true] {
        let mut net = bulk(Net::pair(2));
        net.sleep(ms(500));
        let (id, now) = (net.client.only(), net.now);
        let conn = net.client.conn(id);
        let done = if reset {
            conn.reset_subflow(now, SubflowId(0))
        } else {
            conn.close_subflow(now, SubflowId(0))
        };
        assert_eq!(done, Ok(()));
        assert_eq!(conn.reset_subflow(now, SubflowId(9)), Err(SubflowError::NoSubflow));
        net.sleep(ms(500));
        let (_, by_path) = progress(&mut net, ms(300));
        assert!(by_path[0] == 0 && by_path[1] > 500_000, "{by_path:?}");
        let local = SocketAddr::new(addr(1, 0), 0);
        let remote = SocketAddr::new(addr(2, 0), 80);
        let now = net.now;
        for nowhere in ["224.0.0.1:80", "0.0.0.0:80", "10.0.0.2:0"].map(|a| a.parse().unwrap()) {
            let refused = net.client.conn(id).add_subflow(now, local, nowhere, false);
            assert_eq!(refused, Err(SubflowError::Address), "{nowhere}");
        }
        net.client.conn(id).add_subflow(now, local, remote, false).unwrap();
        net.sleep(ms(500));
        let (_, by_path) = progress(&mut net, ms(300));
        assert!(by_path[0] > 300_000, "{by_path:?}");
        finish(net);
    }
}

#[test]
fn announced_addresses_are_joined_and_removed_ones_left() {
    let (mut client, server) = (config(1, 2), config(2, 2));
    client.mptcp.full_mesh = false;
    let mut net = Net::new(client, server);
    // The first ADD_ADDR is lost: it is repeated until echoed.
    let mut lost = 0;
    net.filter = Box::new(move |c| {
        let adds = c.segment.options.mptcp().iter().any(|o| matches!(o, MptcpOption::AddAddr(_)));
        lost += u32::from(adds && !c.up);
        !(adds && !c.up && lost == 1)
    });
    net.connect(data(LEN), true);
    net.sleep(ms(500));
    let (id, now) = (net.server.only(), net.now);
    let address = SocketAddr::new(addr(2, 1), 0);
    let address_id = net.server.conn(id).announce(now, address).unwrap();
    net.sleep(secs(1));
    assert!(net.client.has(|e| matches!(e, Event::AddressAnnounced { .. })));
    let info = net.client_info();
    let to_new = info.subflows.iter().filter(|s| s.remote.ip() == addr(2, 1)).count();
    assert_eq!(to_new, 2, "from either path");
    let now = net.now;
    net.server.conn(id).withdraw(now, &[address_id]);
    net.sleep(ms(200));
    assert!(net.client.has(|e| *e == Event::AddressRemoved { address_id }));
    let live = |i: &Info| i.subflows.iter().filter(|s| s.view.usable).count();
    assert_eq!(live(&net.client_info()), 1);
    finish(net);
}

#[test]
fn a_join_with_a_wrong_hmac_is_reset() {
    for third in [true, false] {
        let mut net = Net::pair(2);
        net.filter = Box::new(move |c| {
            if let Some(options) = &mut c.segment.options.mptcp {
                for option in options.iter_mut() {
                    match option {
                        MptcpOption::Join(MpJoin::Ack { hmac }) if third => hmac[3] ^= 1,
                        MptcpOption::Join(MpJoin::SynAck { hmac, .. }) if !third => *hmac ^= 1,
                        _ => {}
                    }
                }
            }
            true
        });
        net.server.answer = (data(100_000), true);
        net.connect(data(1_000_000), true);
        assert!(net.run(secs(60), |n| n.over()));
        assert!(net.server.app().received == data(1_000_000));
        let host = if third { &net.server } else { &net.client };
        let bad = |w: &What| *w == What::Dropped { reason: DropReason::BadHmac };
        assert!(host.records.iter().any(|r| bad(&r.what)));
        assert_eq!(net.server.count(|e| matches!(e, Event::SubflowEstablished(_))), 1);
    }
}

#[test]
fn lost_third_and_fourth_packets_of_a_join_are_repeated() {
    for fourth in [false, true] {
        let mut lost = false;
        let mut net = Net::pair(2);
        net.filter = Box::new(move |c| {
            let hit = c.path.0 == 1 && !c.segment.flags.contains(Flags::SYN) && c.up != fourth;
            if hit && !lost {
                lost = true;
                return false;
            }
            true
        });
        finish(bulk(net));
    }
}

/// When the second subflow stands at the server, and the first round trip that each side knows of
/// it, if its first SYN (or SYN+ACK) is lost; the path is this long one way.
fn joined_despite_loss(
    answer: bool,
    one_way: Duration,
    after: Duration,
) -> (Duration, Vec<Duration>) {
    let (mut client, mut server) = (config(1, 2), config(2, 2));
    (client.mptcp.join_copy_after, server.mptcp.join_copy_after) = (after, after);
    let mut net = Net::new(client, server);
    net.links.insert(PathId(1), (one_way, 1_250_000));
    let mut lost = false;
    net.filter = Box::new(move |c| {
        let syn = c.path.0 == 1 && c.segment.flags.contains(Flags::SYN);
        let hit = syn && c.up != answer && !lost;
        lost |= hit;
        !hit
    });
    let start = net.now;
    net.connect(data(1_000), false);
    net.sleep(secs(3));
    let joined = |e: &&(Instant, _, Event)| matches!(e.2, Event::SubflowEstablished(SubflowId(1)));
    let at = net.server.events.iter().find(joined).expect("it joins").0;
    let (client, server) = (net.client_info(), net.server_info());
    let rtts = [client, server].iter().map(|i| i.subflows[1].view.srtt).collect();
    (at - start, rtts)
}

// RFC 6298 section 2.1 has a second; RFC 7323 section 4 tells which of several is answered.
#[test]
fn an_mp_join_that_is_lost_leaves_again_before_its_timer() {
    for one_way in [20, 200].map(ms) {
        for answer in [false, true] {
            let (at, rtts) = joined_despite_loss(answer, one_way, ms(250));
            assert!((ms(250)..one_way * 4 + ms(300)).contains(&at), "{answer} {at:?}");
            let exact = one_way * 2..one_way * 2 + ms(3);
            assert!(rtts.iter().all(|rtt| exact.contains(rtt)), "{one_way:?} {answer} {rtts:?}");
            let (at, _) = joined_despite_loss(answer, one_way, Duration::ZERO);
            assert!(at >= secs(1), "{answer} {at:?}");
        }
    }
}

#[test]
fn redundant_copies_everything_that_it_can() {
    let (mut client, server) = (config(1, 2), config(2, 2));
    client.mptcp.scheduler = Spec::named("redundant");
    let mut net = Net::new(client, server);
    net.connect(data(3_000_000), true);
    assert!(net.run(secs(60), |n| n.over()));
    assert!(net.server.app().received == data(3_000_000));
    let copies = net.client.records.iter().filter_map(|r| match r.what {
        What::Reinjected { len, .. } => Some(u64::from(len)),
        _ => None,
    });
    let copied: u64 = copies.sum();
    assert!((1_000_000..=3_000_000).contains(&copied), "{copied}");
}

#[test]
fn roundrobin_carries_on_both() {
    let (mut client, server) = (config(1, 2), config(2, 2));
    client.mptcp.scheduler = Spec::named("roundrobin");
    let mut net = bulk(Net::new(client, server));
    net.sleep(secs(1));
    let (_, by_path) = progress(&mut net, ms(500));
    assert!(by_path.iter().all(|b| *b > 800_000), "{by_path:?}");
    finish(net);
}

#[test]
fn very_different_paths_do_not_stall_each_other() {
    let mut net = Net::pair(2);
    net.links.insert(PathId(1), (ms(150), 250_000));
    let mut net = bulk(net);
    net.sleep(secs(2));
    // A hole on the slow path holds the stream up for its round trip, now and then.
    let (bytes, by_path) = progress(&mut net, secs(4));
    assert!(bytes > 4 * 2_400_000, "{bytes} {by_path:?}");
    finish(net);
}

// Found by the swarm (seed 58): while one attempt to come back followed another, by several paths
// in turn, a connection to a host that was gone never ended.
#[test]
fn attempts_to_join_keep_no_connection_alive() {
    let (mut client, server) = (config(1, 3), config(2, 1));
    client.tcp.retries = 3;
    let mut net = Net::new(client, server);
    net.connect(data(LEN), false);
    net.sleep(ms(300));
    assert_eq!(net.client_info().subflows.len(), 3);
    net.filter = Box::new(|_| false);
    let over = |n: &mut Net| n.client.has(|e| *e == Event::Closed(CloseReason::TimedOut));
    assert!(net.run(secs(600), over), "{:?}", net.client.events);
}

// Found by the swarm (seeds 1085, 3269): the peer has started anew and resets whatever joins. Its
// resets counted as subflows established, so that a connection nobody knew joined for ever.
#[test]
fn refused_joins_keep_no_connection_alive() {
    let mut net = Net::new(config(1, 2), config(2, 1));
    net.connect(data(LEN), false);
    net.sleep(ms(300));
    net.server = Net::new(config(1, 2), config(2, 1)).server;
    let over = |n: &mut Net| n.client.has(|e| matches!(e, Event::Closed(_)));
    assert!(net.run(secs(120), over), "{:?}", net.client.events);
    let established = |e: &Event| matches!(e, Event::SubflowEstablished(_));
    let late =
        net.client.events.iter().filter(|(at, _, e)| at.as_millis() > 1400 && established(e));
    assert_eq!(late.count(), 0, "{:?}", net.client.events);
}

/// A sender that has heard nothing for long has given its subflows up. The receiver, which has
/// nothing to repeat, does not know: it asks when a path is back.
#[test]
fn a_download_goes_on_at_once_when_all_paths_are_back_after_long() {
    let mut resumed = Vec::new();
    for outage in [5, 98, 103, 150] {
        let with = |host| {
            let mut config = config(host, 2);
            config.mptcp.stale_after = 1;
            config
        };
        let mut net = Net::new(with(1), with(2));
        net.links.values_mut().for_each(|(_, rate)| *rate = (*rate).min(RATE));
        net.server.answer = (data(LEN / 2), true);
        net.connect(data(10), false);
        net.sleep(secs(1));
        let dead = Rc::new(Cell::new(true));
        let switch = dead.clone();
        net.filter = Box::new(move |_| !switch.get());
        let set = |net: &mut Net, path, up| {
            net.client.endpoint.set_path_up(net.now, PathId(path), up);
            net.server.endpoint.set_path_up(net.now, PathId(path), up);
        };
        net.sleep(secs(1));
        (0..2).for_each(|path| set(&mut net, path, false));
        net.sleep(secs(outage));
        dead.set(false);
        let (back, before) = (net.now, net.client.app().received.len());
        set(&mut net, 1, true);
        net.sleep(ms(100));
        set(&mut net, 0, true);
        let more = |net: &mut Net| net.client.app().received.len() > before + 1_000_000;
        let moves = net.run(secs(60), more);
        resumed.push((outage, moves, net.now - back));
        net.sleep(secs(1));
        let info = net.client_info();
        let both = [0, 1].iter().all(|path| delivered(&info, *path) > 0);
        assert!(both, "after {outage} s: {resumed:?}");
    }
    let soon = |(_, moves, late): &(u64, bool, _)| *moves && *late < ms(900);
    assert!(resumed.iter().all(soon), "{resumed:?}");
}
