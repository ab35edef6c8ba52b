//! What RFC 8684 says an endpoint MUST do with options that are wrong, where no other test shows
//! it. Each test names the section.

use crate::mptcp_net::*;
use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use tabane_engine::Instant;
use tabane_engine::config::NumberSize;
use tabane_engine::event::Event;
use tabane_engine::record::{CloseReason, DropReason, FallbackReason, What};
use tabane_engine::view::SubflowId;
use tabane_wire::mptcp::{AddAddr, MpTcpRst};
use tabane_wire::{DataNumber, Flags, MptcpOption};

fn live(net: &mut Net) -> usize {
    net.client_info().subflows.iter().filter(|s| s.view.usable).count()
}

fn dropped(host: &Host, reason: DropReason) -> bool {
    host.records.iter().any(|r| r.what == What::Dropped { reason })
}

/// Puts an option on one segment of the client, the 40th; a running transfer is what it meets.
fn with_option(option: MptcpOption) -> Net {
    let mut net = Net::pair(2);
    net.filter = Box::new(move |c| {
        if c.up && c.index == 40 {
            c.segment.options.sack.truncate(0);
            c.segment.options.push_mptcp(option.clone());
        }
        true
    });
    net.connect(data(2_000_000), true);
    net.server.answer = (data(1_000), true);
    net
}

// RFC 8684 section 3.5: a fast close whose key is not ours is ignored.
#[test]
fn rfc8684_a_fast_close_needs_the_key() {
    let mut net = with_option(MptcpOption::FastClose(4711));
    assert!(net.run(secs(60), Net::over));
    assert!(net.server.app().received == data(2_000_000));
}

// RFC 8684 section 3.5: on an ACK or on a reset, a fast close ends the connection with our key, and
// not with another: then the reset closes its subflow, as any does.
#[test]
fn rfc8684_a_fast_close_on_either_segment_needs_the_key() {
    for (right, reset) in [(false, true), (true, true), (false, false), (true, false)] {
        let mut net = Net::pair(2);
        let (key, done) = (Cell::new(0), Cell::new(false));
        net.filter = Box::new(move |c| {
            for option in c.segment.options.mptcp() {
                // The server's key, on its SYN+ACK.
                if let (false, MptcpOption::Capable(capable)) = (c.up, option) {
                    key.set(capable.sender_key.unwrap());
                }
            }
            if c.up && c.path.0 == 1 && c.now > Instant(1_200_000_000) && !done.replace(true) {
                if reset {
                    c.segment.flags = Flags::RST | Flags::ACK;
                }
                (c.segment.payload, c.segment.options) = Default::default();
                let close = if right { key.get() } else { key.get() ^ 1 };
                c.segment.options.push_mptcp(MptcpOption::FastClose(close));
            }
            true
        });
        net.connect(data(10_000_000), false);
        net.sleep(ms(400));
        let closed = |e: &Event| matches!(e, Event::SubflowClosed(_, CloseReason::Reset(None)));
        let over = |e: &Event| *e == Event::Closed(CloseReason::FastClose);
        let seen = (net.server.has(closed), net.server.has(over));
        assert_eq!(seen, (!right && reset, right), "{right} {reset}");
    }
}

// RFC 8684 section 3.4.1: an address whose HMAC is wrong is silently ignored, without an echo.
#[test]
fn rfc8684_an_announcement_needs_its_hmac() {
    let address = "10.9.9.9".parse().unwrap();
    let add = AddAddr { address_id: 9, address, port: None, hmac: Some(4711) };
    let mut net = with_option(MptcpOption::AddAddr(add));
    assert!(net.run(secs(60), Net::over));
    assert!(dropped(&net.server, DropReason::BadHmac));
    assert!(!net.server.has(|e| matches!(e, Event::AddressAnnounced { .. })));
    assert!(net.server.app().received == data(2_000_000));
}

// RFC 8684 section 3.4.2: unknown address ids are silently ignored.
#[test]
fn rfc8684_removing_what_is_unknown_changes_nothing() {
    let mut net = with_option(MptcpOption::RemoveAddr(vec![77, 78]));
    assert!(net.run(secs(60), Net::over));
    assert!(!net.server.has(|e| matches!(e, Event::AddressRemoved { .. })));
    assert!(net.server.app().received == data(2_000_000));
}

// RFC 8684 section 3.1: who says with flag C that its first address takes no joins gets none.
#[test]
fn rfc8684_flag_c_forbids_joins_to_the_first_address() {
    for deny in [false, true] {
        let (client, mut server) = (config(1, 2), config(2, 1));
        server.mptcp.deny_join_initial = deny;
        let mut net = Net::new(client, server);
        net.connect(data(500_000), false);
        net.sleep(secs(2));
        assert_eq!(live(&mut net), if deny { 1 } else { 2 });
    }
}

// RFC 8684 section 3.3.1: without the checksum that was agreed on, a mapping breaks its subflow.
#[test]
fn rfc8684_a_missing_checksum_resets_the_subflow() {
    let (mut client, server) = (config(1, 2), config(2, 2));
    client.mptcp.checksum = true;
    let mut net = Net::new(client, server);
    net.filter = Box::new(|c| {
        let mapping = c.segment.options.dss.as_mut().and_then(|dss| dss.mapping.as_mut());
        if let (true, 60, Some(mapping)) = (c.up, c.index, mapping) {
            mapping.checksum = None;
        }
        true
    });
    net.connect(data(2_000_000), true);
    assert!(net.run(secs(60), Net::over));
    let reset = |e: &Event| matches!(e, Event::SubflowClosed(..));
    assert!(net.server.has(reset));
    assert!(net.server.app().received == data(2_000_000));
}

// RFC 8684 section 3.2: no data on a joined subflow before the fourth packet.
#[test]
fn rfc8684_no_data_on_a_join_before_its_fourth_packet() {
    let mut net = Net::pair(2);
    let (attempts, early) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    let seen = (Rc::clone(&attempts), Rc::clone(&early));
    net.filter = Box::new(move |c| {
        if c.up && c.path.0 == 1 {
            seen.0.set(seen.0.get() + u32::from(c.segment.flags.contains(Flags::SYN)));
            seen.1.set(seen.1.get() + c.segment.payload.len());
        }
        // The server's answers on the second path, but its SYN+ACKs, are lost.
        c.up || c.path.0 == 0 || c.segment.flags.contains(Flags::SYN)
    });
    net.connect(data(3_000_000), false);
    net.sleep(secs(3));
    assert_eq!((attempts.get() > 0, early.get()), (true, 0));
    assert!(net.server.app().received == data(3_000_000));
}

// RFC 8684 section 3.6: a reset, whatever its reason, closes its subflow and no other.
#[test]
fn rfc8684_a_reset_closes_one_subflow() {
    let mut net = Net::pair(2);
    net.server.answer = (data(1_000), false);
    net.connect(data(5_000_000), false);
    net.sleep(ms(200));
    assert_eq!(live(&mut net), 2);
    let second = net.client_info().subflows[1].clone();
    let (src, dst): (SocketAddr, SocketAddr) = (second.remote, second.local);
    let now = net.now;
    // The server resets it, saying that it lacks resources.
    let id = net.server.only();
    let theirs = net.server_info().subflows.iter().find(|s| s.remote == dst).unwrap().view.id;
    net.server.conn(id).reset_subflow(now, theirs).unwrap();
    let mut seen = Vec::new();
    while let Some(departure) = net.server.endpoint.poll_segment(now) {
        seen.push(departure.segment);
    }
    let reset = seen.iter_mut().find(|s| s.flags.contains(Flags::RST) && s.src == src).unwrap();
    reset.options.mptcp = None;
    reset.options.push_mptcp(MptcpOption::TcpRst(MpTcpRst { transient: true, reason: 2 }));
    let reset = reset.clone();
    net.client.endpoint.handle_segment(now, second.path, &reset);
    net.sleep(ms(20));
    assert_eq!(net.client_info().subflows.iter().filter(|s| s.view.usable).count(), 1);
    assert!(!net.client.has(|e| matches!(e, Event::Closed(_))));
    let reason = CloseReason::Reset(Some(2));
    assert!(net.client.has(|e| matches!(e, Event::SubflowClosed(_, why) if *why == reason)));
}

// RFC 8684 section 3.1: checksums MUST be used if either host asks for them.
#[test]
fn rfc8684_checksums_if_either_side_asks() {
    for (ours, theirs) in [(false, false), (true, false), (false, true), (true, true)] {
        let (mut client, mut server) = (config(1, 1), config(2, 1));
        (client.mptcp.checksum, server.mptcp.checksum) = (ours, theirs);
        let mut net = Net::new(client, server);
        net.server.answer = (data(100_000), true);
        net.filter = Box::new(move |c| {
            if let Some(mapping) = c.segment.options.dss.and_then(|dss| dss.mapping) {
                assert_eq!(mapping.checksum.is_some(), ours || theirs);
            }
            true
        });
        net.connect(data(100_000), true);
        assert!(net.run(secs(20), Net::over));
        assert!(!net.client.has(|e| matches!(e, Event::Fallback(_))), "{ours} {theirs}");
        assert!(net.server.app().received == data(100_000));
        assert!(net.client.app().received == data(100_000));
    }
}

// RFC 8684 section 3.1: keys that are not the ones exchanged: no MPTCP.
#[test]
fn rfc8684_keys_that_do_not_come_back_are_plain_tcp() {
    let mut net = Net::pair(1);
    net.server.answer = (data(50_000), true);
    net.filter = Box::new(|c| {
        for option in c.segment.options.mptcp.iter_mut().flat_map(|options| options.iter_mut()) {
            if let MptcpOption::Capable(capable) = option
                && let Some(key) = &mut capable.receiver_key
            {
                *key ^= 1;
            }
        }
        true
    });
    net.connect(data(50_000), true);
    assert!(net.run(secs(20), Net::over));
    assert!(net.server.has(|e| *e == Event::Fallback(FallbackReason::Mismatch)));
    assert!(net.client.has(|e| matches!(e, Event::Fallback(_))));
    assert!(net.server.app().received == data(50_000));
    assert!(net.client.app().received == data(50_000));
}

// RFC 8684 section 3.2: a host may refuse a subflow, by a reset with its reason.
#[test]
fn rfc8684_subflows_beyond_the_limit_are_refused() {
    let (client, mut server) = (config(1, 4), config(2, 1));
    server.mptcp.max_subflows = 2;
    let mut net = Net::new(client, server);
    let reasons = Rc::new(RefCell::new(Vec::new()));
    let seen = Rc::clone(&reasons);
    net.filter = Box::new(move |c| {
        for option in c.segment.options.mptcp() {
            if let (false, MptcpOption::TcpRst(reset)) = (c.up, option) {
                seen.borrow_mut().push(reset.reason);
            }
        }
        true
    });
    net.connect(data(500_000), false);
    net.sleep(ms(500));
    assert_eq!(live(&mut net), 2);
    assert!(dropped(&net.server, DropReason::Limit("subflows")));
    assert!(!reasons.borrow().is_empty() && reasons.borrow().iter().all(|reason| *reason == 2));
    assert!(net.server.app().received == data(500_000));
}

// RFC 8684 section 3.3.3: once both have finished, subflows whose FINs never arrive are reset after
// 100 s: the connection is over all the same.
#[test]
fn rfc8684_subflows_that_do_not_close_hold_nothing_up() {
    let mut net = Net::pair(2);
    net.server.answer = (data(10_000), true);
    net.filter = Box::new(|c| !c.segment.flags.contains(Flags::FIN));
    net.connect(data(10_000), true);
    assert!(net.run(secs(110), Net::over), "{:?} {:?}", net.client.events, net.server.events);
    for host in [&net.client, &net.server] {
        assert!(host.has(|e| *e == Event::Closed(CloseReason::Finished)), "{:?}", host.events);
    }
}

// RFC 8684 section 3.1: every MP_CAPABLE says the version, the algorithm, and the checksums that
// were agreed on; flag C of a client is on its SYN.
#[test]
fn rfc8684_what_mp_capable_says() {
    for (checksum, deny) in [(false, true), (true, false)] {
        let (mut client, server) = (config(1, 1), config(2, 1));
        (client.mptcp.checksum, client.mptcp.deny_join_initial) = (checksum, deny);
        let mut net = Net::new(client, server);
        let kinds = Rc::new(RefCell::new([0; 4]));
        let seen = Rc::clone(&kinds);
        net.filter = Box::new(move |c| {
            for option in c.segment.options.mptcp() {
                let MptcpOption::Capable(o) = option else { continue };
                let syn = c.segment.flags.contains(Flags::SYN);
                assert!(o.version == 1 && o.hmac_sha256 && o.checksum_required == checksum);
                assert_eq!(o.deny_join_initial, deny && syn && c.up);
                let kind = if syn { usize::from(!c.up) } else { 2 + usize::from(o.data.is_some()) };
                seen.borrow_mut()[kind] += 1;
            }
            true
        });
        net.connect(data(10), true);
        assert!(net.run(secs(20), Net::over));
        assert!(kinds.borrow().iter().all(|n| *n > 0), "{kinds:?}");
    }
}

// RFC 8684 section 3.3.1: 8-byte numbers from who wants them, and 4-byte ones else.
#[test]
fn rfc8684_the_size_of_numbers_is_the_senders() {
    for numbers in [NumberSize::Auto, NumberSize::Long] {
        let (mut client, server) = (config(1, 1), config(2, 1));
        client.mptcp.numbers = numbers;
        client.mptcp.segments_per_mapping = 1;
        let mut net = Net::new(client, server);
        net.server.answer = (data(100_000), true);
        let long = Rc::new(Cell::new([0, 0]));
        let seen = Rc::clone(&long);
        net.filter = Box::new(move |c| {
            if let (true, Some(dss)) = (c.up, c.segment.options.dss) {
                let [mut short, mut long] = seen.get();
                for number in dss.data_ack.into_iter().chain(dss.mapping.map(|m| m.dsn)) {
                    match number {
                        DataNumber::Short(_) => short += 1,
                        DataNumber::Long(_) => long += 1,
                    }
                }
                seen.set([short, long]);
            }
            true
        });
        net.connect(data(100_000), true);
        assert!(net.run(secs(20), Net::over));
        let [short, long] = long.get();
        assert_eq!(
            (short > 100, long > 100),
            if numbers == NumberSize::Long { (false, true) } else { (true, false) }
        );
        assert!(net.server.app().received == data(100_000));
    }
}

// RFC 8684 section 3.1: before the peer has shown that it has our key there is one subflow, and
// nothing to wait for without it.
#[test]
fn rfc8684_no_other_subflow_before_the_handshake_is_complete() {
    let mut net = Net::pair(2);
    net.filter = Box::new(|c| c.up || c.segment.flags.contains(Flags::SYN));
    let id = net.connect(data(10_000), false);
    net.sleep(ms(100));
    assert_eq!(net.client_info().subflows.len(), 1);
    let now = net.now;
    net.client.conn(id).reset_subflow(now, SubflowId(0)).unwrap();
    net.sleep(ms(100));
    assert!(net.client.has(|e| matches!(e, Event::Closed(_))), "{:?}", net.client.events);
}
