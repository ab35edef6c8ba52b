//! Falling back to plain TCP (RFC 8684 section 3.7): options stripped on the way at every stage,
//! and DSS checksums that do not fit.

mod mptcp_net;

use mptcp_net::*;
use tabane_engine::event::Event;
use tabane_engine::record::FallbackReason;
use tabane_wire::{Flags, Segment};

const LEN: usize = 1_000_000;

fn strip(segment: &mut Segment) {
    segment.options.dss = None;
    segment.options.mptcp = None;
}

/// Transfers both ways through `filter`; returns the net, and what each end says of a fallback.
fn through(
    mut net: Net,
    filter: impl FnMut(&mut Crossing<'_>) -> bool + 'static,
) -> (Net, [Option<FallbackReason>; 2]) {
    net.filter = Box::new(filter);
    net.server.answer = (data(LEN / 2), true);
    net.connect(data(LEN), true);
    assert!(net.run(secs(60), |n| n.over()), "{:?} {:?}", net.client.events, net.server.events);
    assert!(net.server.app().received == data(LEN));
    assert!(net.client.app().received == data(LEN / 2));
    let reasons = [&net.client, &net.server].map(|host| {
        host.events.iter().find_map(|(_, _, e)| match e {
            Event::Fallback(reason) => Some(*reason),
            _ => None,
        })
    });
    (net, reasons)
}

#[test]
fn peer_without_mptcp() {
    let mut server = config(2, 1);
    server.mptcp.enabled = false;
    let (_, reasons) = through(Net::new(config(1, 1), server), |_| true);
    assert_eq!(reasons, [Some(FallbackReason::PeerPlain), None]);
}

#[test]
fn stripped_from_the_syn() {
    let (_, reasons) = through(Net::pair(2), |c| {
        if c.segment.flags.contains(Flags::SYN) && c.up {
            strip(c.segment);
        }
        true
    });
    assert_eq!(reasons, [Some(FallbackReason::PeerPlain), None]);
}

#[test]
fn stripped_from_the_syn_ack() {
    let (_, reasons) = through(Net::pair(2), |c| {
        if c.segment.flags.contains(Flags::SYN) && !c.up {
            strip(c.segment);
        }
        true
    });
    let stripped = Some(FallbackReason::OptionsStripped);
    assert_eq!(reasons, [Some(FallbackReason::PeerPlain), stripped]);
}

#[test]
fn stripped_after_the_syns() {
    let (_, reasons) = through(Net::pair(2), |c| {
        if !c.segment.flags.contains(Flags::SYN) {
            strip(c.segment);
        }
        true
    });
    assert!(reasons.iter().all(Option::is_some), "{reasons:?}");
}

#[test]
fn stripped_upwards_after_the_syns() {
    let (_, reasons) = through(Net::pair(2), |c| {
        if c.up && !c.segment.flags.contains(Flags::SYN) {
            strip(c.segment);
        }
        true
    });
    assert!(reasons.iter().all(Option::is_some), "{reasons:?}");
}

#[test]
fn stripped_in_the_middle_of_the_first_window() {
    let (_, reasons) = through(Net::pair(1), |c| {
        if c.index > 6 {
            strip(c.segment);
        }
        true
    });
    assert!(reasons.iter().all(Option::is_some), "{reasons:?}");
}

#[test]
fn stripped_much_later_in_one_direction() {
    for direction in [true, false] {
        let (_, reasons) = through(Net::pair(1), move |c| {
            if c.index > 100 && c.up == direction {
                strip(c.segment);
            }
            true
        });
        assert!(reasons.iter().all(Option::is_some), "{direction} {reasons:?}");
    }
}

#[test]
fn syn_without_the_option_after_some_in_vain() {
    let (net, reasons) = through(Net::pair(1), |c| {
        !(c.segment.flags.contains(Flags::SYN) && c.up && c.segment.options.has_mptcp())
    });
    assert_eq!(reasons, [Some(FallbackReason::PeerPlain), None]);
    assert!(net.now.as_secs_f64() > 4.0);
}

fn with_checksums(paths: u8) -> Net {
    let (mut client, server) = (config(1, paths), config(2, paths));
    client.mptcp.checksum = true;
    Net::new(client, server)
}

#[test]
fn checksums_that_fit() {
    let (_, reasons) = through(with_checksums(2), |c| {
        if let Some(mapping) = c.segment.options.dss.and_then(|d| d.mapping) {
            assert!(mapping.checksum.is_some(), "both ends must send them");
        }
        c.index % 97 != 96
    });
    assert_eq!(reasons, [None, None]);
}

fn damage(segment: &mut Segment) {
    let mut payload = segment.payload.to_vec();
    payload[0] ^= 0x55;
    segment.payload = payload.into();
}

#[test]
fn damage_on_the_only_subflow_falls_back() {
    let mut net = with_checksums(1);
    net.filter = Box::new(|c| {
        if c.index == 40 && c.up && !c.segment.payload.is_empty() {
            damage(c.segment);
        }
        true
    });
    net.connect(data(LEN), true);
    assert!(net.run(secs(60), |n| n.over()), "{:?} {:?}", net.client.events, net.server.events);
    let received = &net.server.app().received;
    let wrong = received.iter().zip(&data(LEN)).filter(|(a, b)| a != b).count();
    assert_eq!((received.len(), wrong), (LEN, 1), "as damaged, but all of it");
    let checksum = |e: &Event| *e == Event::Fallback(FallbackReason::Checksum);
    assert_eq!((net.client.count(checksum), net.server.count(checksum)), (1, 1));
}

#[test]
fn damage_on_one_of_two_subflows_resets_it() {
    let mut damaged = false;
    let (net, reasons) = through(with_checksums(2), move |c| {
        if !damaged && c.path.0 == 1 && c.up && !c.segment.payload.is_empty() {
            damaged = true;
            damage(c.segment);
        }
        true
    });
    assert_eq!(reasons, [None, None]);
    let closed = |e: &Event| matches!(e, Event::SubflowClosed(id, _) if id.0 == 1);
    assert!(net.client.has(closed) && net.server.has(closed));
}

#[test]
fn no_joins_after_a_fallback() {
    let (mut net, _) = through(Net::pair(2), |c| {
        if !c.segment.flags.contains(Flags::SYN) {
            strip(c.segment);
        }
        assert!(c.path.0 == 0);
        true
    });
    net.sleep(secs(1));
}
