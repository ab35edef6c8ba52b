//! Falling back to plain TCP (RFC 8684 section 3.7): options stripped on the way at every stage,
//! and DSS checksums that do not fit.

use crate::mptcp_net::*;
use tabane_engine::Instant;
use tabane_engine::event::Event;
use tabane_engine::record::{CloseReason, FallbackReason};
use tabane_engine::view::{PathId, SubflowId};
use tabane_wire::{Flags, MptcpOption, Segment};

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

/// The acknowledgements of the first data are lost for a while. Meanwhile the server has fallen
/// back: what would be mapped twice it would read twice.
#[test]
fn stripped_after_the_syns_while_acknowledgements_are_lost() {
    for (lost_for, len) in [(500, 300), (900, 3_000), (2_500, 300), (900, 30_000)] {
        let mut net = Net::pair(1);
        let until = net.now + ms(lost_for);
        net.filter = Box::new(move |c| {
            let syn = c.segment.flags.contains(Flags::SYN);
            if !syn {
                strip(c.segment);
            }
            syn || c.up || c.now > until
        });
        net.server.answer = (data(LEN / 2), true);
        net.connect(data(len), true);
        assert!(net.run(secs(60), |n| n.over()), "{:?} {:?}", net.client.events, net.server.events);
        let (at_server, at_client) = (&net.server.app().received, &net.client.app().received);
        assert!(*at_server == data(len), "{lost_for} {len}: {}", at_server.len());
        assert!(*at_client == data(LEN / 2), "{lost_for} {len}: {}", at_client.len());
        for host in [&net.client, &net.server] {
            assert!(host.has(|e| matches!(e, Event::Fallback(_))), "{lost_for} {len}");
        }
    }
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

/// Copies of the SYN that leave because a path came up are not among those whose silence tells that
/// the option may be in the way.
#[test]
fn a_path_that_flaps_during_the_handshake_costs_no_mptcp() {
    let mut net = Net::pair(1);
    let begin = net.now;
    net.filter = Box::new(move |c| c.now > begin + secs(5));
    net.connect(data(1_000), true);
    net.sleep(ms(3_200));
    for _ in 0..6 {
        net.client.endpoint.set_path_up(net.now, PathId(0), false);
        net.sleep(ms(100));
        net.client.endpoint.set_path_up(net.now, PathId(0), true);
        net.sleep(ms(300));
    }
    assert!(net.run(ms(500), |n| n.client.has(|e| *e == Event::Flushed)));
    assert!(!net.client.has(|e| matches!(e, Event::Fallback(_))), "{:?}", net.client.events);
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

/// The end of the damaged mapping comes with that of the next, which is in order: both are read.
#[test]
fn damage_that_comes_to_light_together_with_sound_data_loses_nothing() {
    let mut net = with_checksums(1);
    let mut parts: Vec<(u32, bytes::Bytes)> = Vec::new();
    let mut done = false;
    net.filter = Box::new(move |c| {
        if !c.up || c.segment.payload.is_empty() || done || c.index < 40 {
            return true;
        }
        if parts.len() < 2 {
            if parts.is_empty() {
                damage(c.segment);
            }
            parts.push((c.segment.seq.0, c.segment.payload.clone()));
            c.segment.payload.truncate(700);
        } else if c.segment.seq.0 == parts[0].0 + 700 || c.segment.seq.0 == parts[0].0 {
            let from = (c.segment.seq.0 - parts[0].0) as usize;
            c.segment.payload = [&parts[0].1[from..], &parts[1].1[..]].concat().into();
            done = true;
        }
        true
    });
    net.connect(data(LEN), true);
    let over = net.run(secs(60), |n| n.over());
    let received = &net.server.app().received;
    let wrong = received.iter().zip(&data(LEN)).filter(|(a, b)| a != b).count();
    assert_eq!((received.len(), wrong, over), (LEN, 1, true), "as damaged, but all of it");
    assert!(net.server.has(|e| *e == Event::Fallback(FallbackReason::Checksum)));
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

/// The mapping of the first data segment of the client from `index` on says that it is infinite.
fn infinite_from(index: u64) -> impl FnMut(&mut Crossing<'_>) -> bool {
    let mut done = false;
    move |c| {
        let mapping = c.segment.options.dss.as_mut().and_then(|dss| dss.mapping.as_mut());
        if let (true, false, Some(mapping)) = (c.up && c.index >= index, done, mapping) {
            (mapping.length, done) = (0, true);
        }
        true
    }
}

// RFC 8684 section 3.7: from an infinite mapping on the stream is that of the subflow. It is no
// mapping where there are two.
#[test]
fn rfc8684_an_infinite_mapping_makes_the_rest_plain() {
    let (_, reasons) = through(Net::pair(1), infinite_from(40));
    assert_eq!(reasons[1], Some(FallbackReason::InfiniteMapping));
    let (net, reasons) = through(Net::pair(2), infinite_from(200));
    assert_eq!(reasons, [None, None]);
    assert!(net.server.has(|e| matches!(e, Event::SubflowClosed(..))));
}

// RFC 8684 section 3.7: MP_FAIL falls back where one subflow has carried everything, and not where
// another has taken part, though it be gone.
#[test]
fn rfc8684_mp_fail_falls_back_on_a_single_subflow_alone() {
    for (paths, close, falls) in [(1, false, true), (2, false, false), (2, true, false)] {
        let mut net = Net::pair(paths);
        let mut done = false;
        net.filter = Box::new(move |c| {
            let late = c.now > Instant(1_600_000_000) && c.path.0 == 0;
            if c.up && late && !c.segment.payload.is_empty() && !done {
                done = true;
                c.segment.options.sack.truncate(0);
                c.segment.options.push_mptcp(MptcpOption::Fail(1));
            }
            true
        });
        for (_, rate) in net.links.values_mut() {
            *rate = 1_000_000;
        }
        net.connect(data(2 * LEN), true);
        net.sleep(ms(400));
        if close {
            let (id, now) = (net.client.only(), net.now);
            net.client.conn(id).close_subflow(now, SubflowId(1)).unwrap();
        }
        net.sleep(ms(400));
        let fell = |e: &Event| matches!(e, Event::Fallback(_));
        assert_eq!(net.server.has(fell), falls, "{paths} {close}");
        assert!(net.run(secs(60), |n| n.over()), "{:?} {:?}", net.client.events, net.server.events);
        let (got, all) = (&net.server.app().received, data(2 * LEN));
        let wrong = got.iter().zip(&all).position(|(a, b)| a != b);
        assert_eq!((got.len(), wrong), (all.len(), None), "{paths} {close}");
    }
}

// RFC 8684 section 3.7: a damaged mapping that does not follow what has arrived cannot be taken as
// it is: its subflow is reset with MP_FAIL, and nothing wrong is read.
#[test]
fn rfc8684_damage_behind_a_gap_is_not_read() {
    let mut net = with_checksums(1);
    let mut failed = false;
    net.filter = Box::new(move |c| {
        if c.up && c.index == 41 {
            damage(c.segment);
        }
        failed |= c.segment.options.mptcp().iter().any(|o| matches!(o, MptcpOption::Fail(_)));
        assert!(c.up || !c.segment.flags.contains(Flags::RST) || failed, "without a word");
        !(c.up && c.index == 40)
    });
    net.connect(data(LEN), true);
    net.run(secs(60), |n| n.over());
    let fell = |e: &Event| matches!(e, Event::Fallback(_));
    assert!(!net.server.has(fell), "{:?}", net.server.events);
    assert!(net.server.has(|e| *e == Event::SubflowClosed(SubflowId(0), CloseReason::Mptcp(1))));
    let received = &net.server.app().received;
    assert!(received[..] == data(LEN)[..received.len()]);
}
