//! Mappings that cover several segments (RFC 8684 section 3.3.1): what is on the wire, and that
//! nothing comes of losses, of traffic both ways, or of a path that becomes narrower.

use crate::mptcp_net::*;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use tabane_engine::config::Config;
use tabane_engine::event::Event;
use tabane_engine::record::What;
use tabane_engine::view::PathId;
use tabane_wire::{DataNumber, Segment};

/// What a client has sent on its first subflow.
#[derive(Default)]
struct Seen {
    /// Mappings by where they begin there: first data number and length.
    mappings: BTreeMap<u32, (DataNumber, u16)>,
    /// Payload by where it begins: lengths, with an own mapping and without.
    own: BTreeMap<u32, usize>,
    within: BTreeMap<u32, usize>,
    initial: Option<u32>,
}

impl Seen {
    fn note(&mut self, segment: &Segment) {
        let initial = *self.initial.get_or_insert(segment.seq.0);
        let at = segment.seq.0.wrapping_sub(initial);
        let len = segment.payload.len();
        match segment.options.dss.as_ref().and_then(|dss| dss.mapping.as_ref()) {
            Some(mapping) if mapping.ssn > 0 => {
                let what = (mapping.dsn, mapping.length);
                let before = self.mappings.insert(mapping.ssn, what);
                assert!(before.is_none_or(|before| before == what), "mappings never change");
                self.own.insert(at, len);
            }
            None if len > 0 && !segment.options.has_mptcp() => {
                self.within.insert(at, len);
            }
            _ => {}
        }
    }

    /// Every byte is covered by one mapping, and how many segments have none of their own.
    fn check(&self) -> usize {
        let ends = self.mappings.iter().map(|(at, (_, len))| (*at, at + u32::from(*len)));
        let ends: Vec<(u32, u32)> = ends.collect();
        assert!(ends.windows(2).all(|pair| pair[0].1 <= pair[1].0), "mappings overlap");
        for (at, len) in &self.within {
            let covers = self.mappings.range(..=at).next_back();
            let covers = covers.is_some_and(|(from, (_, to))| {
                at + *len as u32 <= from + u32::from(*to) && from < at
            });
            assert!(covers, "no mapping covers {len} bytes at {at}");
        }
        self.within.len()
    }
}

/// Both ends put so many segments under one mapping.
fn pair(paths: u8, segments: u8) -> (Config, Config) {
    let with = |host| config(host, paths).with(|c| c.mptcp.segments_per_mapping = segments);
    (with(1), with(2))
}

/// Notes what the client sends on its first subflow, and loses one of so many of its segments.
fn watched(net: &mut Net, lost: u64) -> Rc<RefCell<Seen>> {
    let seen = Rc::new(RefCell::new(Seen::default()));
    let noted = seen.clone();
    net.filter = Box::new(move |c| {
        if c.up && c.path == PathId(0) {
            noted.borrow_mut().note(c.segment);
        }
        !c.up || lost == 0 || c.index % lost != lost / 2
    });
    seen
}

fn fell_back(net: &Net) -> bool {
    let fallen = |e: &Event| matches!(e, Event::Fallback(_));
    net.client.has(fallen) || net.server.has(fallen)
}

#[test]
fn rfc8684_one_mapping_covers_several_segments_whatever_is_lost() {
    for lost in [0, 7, 40, 61] {
        // The application always has more than fits: the end is not near.
        let (mut client, server) = pair(1, 8);
        client.tcp.send_buffer = 1_000_000;
        let mut net = Net::new(client, server);
        let seen = watched(&mut net, lost);
        net.connect(data(3_000_000), true);
        assert!(net.run(secs(120), Net::over), "one of {lost} lost");
        assert!(net.server.app().received == data(3_000_000));
        assert!(!fell_back(&net));
        let seen = seen.borrow();
        let (within, own) = (seen.check(), seen.own.len());
        if lost == 0 {
            assert!(within > own, "{within} segments without a mapping, {own} with one");
            let longest = |all: &BTreeMap<u32, usize>| all.values().max().copied();
            assert_eq!((longest(&seen.own), longest(&seen.within)), (Some(1428), Some(1448)));
        } else {
            assert!(within > 50, "{within} segments without a mapping, {own} with one");
        }
    }
}

#[test]
fn where_it_is_not_asked_for_or_checksums_are_each_segment_has_its_own() {
    for (segments, checksum) in [(1, false), (8, true)] {
        let (mut client, server) = pair(1, segments);
        client.mptcp.checksum = checksum;
        let mut net = Net::new(client, server);
        let seen = watched(&mut net, 0);
        net.connect(data(1_000_000), true);
        assert!(net.run(secs(60), Net::over));
        assert_eq!(seen.borrow().check(), 0);
    }
}

// A segment without a DSS has no DATA_ACK: what it does not acknowledge, an ACK of its own does.
#[test]
fn data_both_ways_is_acknowledged_in_time() {
    for (paths, lost) in [(1, 0), (2, 0), (1, 31)] {
        let (client, server) = pair(paths, 8);
        let mut net = Net::new(client, server);
        let seen = watched(&mut net, lost);
        net.server.answer = (data(3_000_000), true);
        net.connect(data(3_000_000), true);
        assert!(net.run(secs(60), Net::over), "{paths} paths, one of {lost} lost");
        assert!(net.server.app().received == data(3_000_000));
        assert!(net.client.app().received == data(3_000_000));
        assert!(!fell_back(&net));
        let again = |host: &Host| {
            let again = |what: &What| matches!(what, What::Reinjected { .. });
            host.records.iter().filter(|r| again(&r.what)).count()
        };
        if paths == 1 {
            assert!(seen.borrow().check() > 0);
            assert_eq!((again(&net.client), again(&net.server)), (0, 0));
        }
    }
}

#[test]
fn what_is_bound_is_cut_when_the_path_becomes_narrower() {
    for narrow in [1300, 700] {
        let (client, server) = pair(1, 8);
        let mut net = Net::new(client, server);
        let seen = watched(&mut net, 0);
        net.connect(data(3_000_000), true);
        assert!(!net.run(ms(150), Net::over));
        let before = seen.borrow().check();
        assert!(before > 0);
        let now = net.now;
        net.client.endpoint.set_path_mtu(now, PathId(0), narrow);
        assert!(net.run(secs(60), Net::over));
        assert!(net.server.app().received == data(3_000_000));
        assert!(!fell_back(&net));
        assert!(seen.borrow().check() > before);
    }
}
