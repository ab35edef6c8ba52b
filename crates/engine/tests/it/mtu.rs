//! No segment is longer than its path carries, whatever options it has (RFC 9293 section 3.7.1,
//! MUST-16; RFC 6691), and both directions at once go on over paths of exact MTU.

use crate::mptcp_net::*;
use proptest::prelude::*;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use tabane_engine::Duration;
use tabane_engine::config::{Config, NumberSize};
use tabane_engine::policy::Spec;
use tabane_engine::view::PathId;
use tabane_wire::Segment;

/// Both hosts, their paths, and what is done to them.
#[derive(Clone, Debug)]
struct World {
    v6: bool,
    mptcp: bool,
    timestamps: [bool; 2],
    sack: [bool; 2],
    checksum: bool,
    long: bool,
    announce: bool,
    egress: &'static str,
    mtu: [u16; 2],
    /// Path, time in milliseconds, MTU from then on.
    changes: Vec<(u8, u64, u16)>,
    /// Time in milliseconds, what is signalled.
    signals: Vec<(u64, u8)>,
    /// One segment in so many is lost.
    loss: u64,
    seed: u64,
    bytes: usize,
}

impl World {
    fn plain() -> Self {
        Self {
            v6: false,
            mptcp: true,
            timestamps: [true; 2],
            sack: [true; 2],
            checksum: false,
            long: false,
            announce: false,
            egress: "own",
            mtu: [1440, 1440],
            changes: Vec::new(),
            signals: Vec::new(),
            loss: 100,
            seed: 1,
            bytes: 2_000_000,
        }
    }

    fn address(&self, host: u8, path: u8) -> IpAddr {
        match self.v6 {
            false => addr(host, path),
            true => IpAddr::from([0xfd00, 0, 0, path.into(), 0, 0, 0, host.into()]),
        }
    }

    fn config(&self, host: u8) -> Config {
        let mut config = config(host, 2);
        for path in &mut config.paths {
            path.addresses = vec![self.address(host, path.id.0)];
            path.mtu = self.mtu[usize::from(path.id.0)];
        }
        let at = usize::from(host - 1);
        config.tcp.timestamps = self.timestamps[at];
        config.tcp.sack = self.sack[at];
        config.mptcp.enabled = self.mptcp;
        config.mptcp.checksum = self.checksum;
        config.mptcp.announce = self.announce;
        config.mptcp.numbers = if self.long { NumberSize::Long } else { NumberSize::Auto };
        config.mptcp.egress = Spec::named(self.egress);
        config
    }

    /// Runs it: everything arrives in time, and nothing that left was too long for its path.
    fn run(&self) -> Duration {
        let mut net = Net::new(self.config(1), self.config(2));
        let mtus = Rc::new(RefCell::new(BTreeMap::from([
            (PathId(0), usize::from(self.mtu[0])),
            (PathId(1), usize::from(self.mtu[1])),
        ])));
        let too_long = Rc::new(RefCell::new(Vec::new()));
        net.server.endpoint.listen("[::]:80".parse().unwrap()).unwrap();
        net.server.answer = (data(self.bytes), true);
        let (known, found) = (Rc::clone(&mtus), Rc::clone(&too_long));
        let (loss, mut draw) = (self.loss, self.seed);
        net.filter = Box::new(move |c| {
            // A path of exact MTU: what is longer does not go in.
            if c.segment.wire_len() > known.borrow()[&c.path] {
                found.borrow_mut().push(format!("{:?} {} {}", c.now, c.path.0, c.segment));
                return false;
            }
            draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99);
            (draw >> 33) % loss != 0 || c.index < 6
        });
        let ends = (self.address(1, 0), self.address(2, 0));
        let (local, remote) = (SocketAddr::new(ends.0, 0), SocketAddr::new(ends.1, 80));
        let id = net.client.endpoint.connect(net.now, local, remote).unwrap();
        let app = App { to_send: data(self.bytes), close_after: true, ..App::default() };
        net.client.conns.insert(id, app);
        self.disturb(&mut net, &mtus);
        let over = net.run(secs(600), Net::over);
        let found = too_long.borrow();
        assert!(found.is_empty(), "{} too long, first: {}\n{self:?}", found.len(), found[0]);
        let got = [net.server.app().received.len(), net.client.app().received.len()];
        assert!(over, "hangs: {got:?} of {}\n{self:?}", self.bytes);
        assert_eq!(got, [self.bytes; 2], "{self:?}");
        Duration(net.now.0 - 1_000_000_000)
    }

    /// MTUs change, and both ends have something to signal.
    fn disturb(&self, net: &mut Net, mtus: &RefCell<BTreeMap<PathId, usize>>) {
        let mut steps: Vec<(u64, Step)> = Vec::new();
        steps.extend(self.changes.iter().map(|&(path, at, mtu)| (at, Step::Mtu(path, mtu))));
        steps.extend(self.signals.iter().map(|&(at, what)| (at, Step::Signal(what))));
        steps.sort_by_key(|(at, _)| *at);
        let start = net.now;
        for (at, step) in steps {
            let until = start + ms(at);
            let wait = Duration(until.0.saturating_sub(net.now.0));
            net.sleep(wait);
            match step {
                Step::Mtu(path, mtu) => {
                    mtus.borrow_mut().insert(PathId(path), mtu.into());
                    for host in [&mut net.client, &mut net.server] {
                        host.endpoint.set_path_mtu(net.now, PathId(path), mtu);
                    }
                }
                Step::Signal(what) => self.signal(net, what),
            }
        }
    }

    fn signal(&self, net: &mut Net, what: u8) {
        let now = net.now;
        let client = what & 1 == 0;
        let own = self.address(if client { 1 } else { 2 }, 1);
        let host = if client { &mut net.client } else { &mut net.server };
        let Some(id) = host.conns.keys().next().copied() else { return };
        let Some(connection) = host.endpoint.connection(id) else { return };
        // Refusals (closed, plain TCP, no such subflow) are answers too.
        let last = connection.info(now).subflows.last().map(|s| s.view.id);
        match (what >> 1) % 4 {
            0 => drop(connection.announce(now, SocketAddr::new(own, 4_000))),
            1 => drop(last.map(|id| connection.set_backup(now, id, what & 64 != 0))),
            2 => connection.withdraw(now, &[77, 78, 79]),
            _ => drop(connection.announce(now, SocketAddr::new(own, 0))),
        }
    }
}

enum Step {
    Mtu(u8, u16),
    Signal(u8),
}

#[test]
fn both_directions_at_once_with_loss_over_exact_paths() {
    for (mptcp, v6) in [(true, false), (true, true), (false, false), (false, true)] {
        let took = World { mptcp, v6, ..World::plain() }.run();
        assert!(took < secs(20), "{took:?}, mptcp {mptcp}, IPv6 {v6}");
    }
}

#[test]
fn what_is_queued_and_under_way_is_cut_again_when_the_mtu_shrinks() {
    for (timestamps, checksum, long) in
        [(true, false, false), (true, true, true), (false, true, false), (false, false, true)]
    {
        let changes = vec![(0, 0, 1280), (1, 150, 1000), (0, 200, 600), (0, 400, 1500)];
        let timestamps = [timestamps; 2];
        let world = World::plain();
        World { timestamps, checksum, long, changes, loss: 30, ..world }.run();
    }
}

// The first data carries MP_CAPABLE, which is longer than a DSS: also when it is repeated.
#[test]
fn the_first_data_is_cut_again_too() {
    for checksum in [false, true] {
        let changes = vec![(0, 25, 1300), (0, 120, 900), (0, 260, 700)];
        let mut lost = World { changes, checksum, ..World::plain() };
        lost.loss = 2;
        lost.bytes = 60_000;
        for seed in 1..20 {
            World { seed, ..lost.clone() }.run();
        }
    }
}

// RFC 8985 section 7.3 repeats the last segment: what is left of it behind the first part may still
// be too long where the MTU has shrunk to less than half.
#[test]
fn rfc8985_a_loss_probe_is_cut_as_often_as_it_takes() {
    let changes = vec![(0, 70, 500), (1, 70, 500)];
    let world = World { changes, loss: 3, bytes: 20_000, ..World::plain() };
    for seed in 1..40 {
        World { seed, ..world.clone() }.run();
    }
}

// A copy by another path is one that this path carries.
#[test]
fn copies_go_only_by_paths_that_carry_them() {
    for egress in ["bicast", "hayack"] {
        World { egress, mtu: [1500, 1300], bytes: 500_000, ..World::plain() }.run();
        let changes = vec![(1, 100, 1100)];
        World { egress, changes, bytes: 500_000, ..World::plain() }.run();
    }
}

// RFC 2018 section 4, RFC 5681 section 4.2: what data has no space for goes by an ACK of its own.
#[test]
fn rfc2018_blocks_that_data_has_no_space_for_are_sent_all_the_same() {
    let mut net = Net::pair(1);
    let log = Rc::new(RefCell::new([0_u64; 3]));
    let seen = Rc::clone(&log);
    net.filter = Box::new(move |c: &mut Crossing<'_>| {
        let Segment { payload, options, .. } = &*c.segment;
        let last = options.dss.is_some_and(|dss| dss.data_fin);
        let n = match (payload.is_empty(), options.sack.is_empty()) {
            (true, false) => 0,
            // The last one is not full.
            (false, false) if payload.len() > 1_300 && !last => 1,
            _ => 2,
        };
        seen.borrow_mut()[n] += 1;
        c.index % 60 != 59
    });
    net.server.answer = (data(1_000_000), true);
    net.connect(data(1_000_000), true);
    assert!(net.run(secs(30), Net::over));
    let [alone, beside, _] = *log.borrow();
    assert_eq!(beside, 0, "blocks beside a full segment's data");
    assert!(alone > 300, "{alone} acknowledgements with blocks");
}

fn worlds() -> impl Strategy<Value = World> {
    let flags = (any::<[bool; 2]>(), any::<[bool; 2]>(), any::<[bool; 5]>());
    let mtu = || prop_oneof![Just(1440_u16), 300..1600_u16];
    let changes = proptest::collection::vec((0..2_u8, 0..1_000_u64, 300..1600_u16), 0..4);
    let signals = proptest::collection::vec((0..1_000_u64, any::<u8>()), 0..12);
    let egress = prop_oneof![Just("own"), Just("bicast"), Just("hayack")];
    let rest = (changes, signals, 10..200_u64, any::<u64>(), egress);
    (flags, [mtu(), mtu()], rest).prop_map(|((timestamps, sack, more), mtu, rest)| {
        let [v6, plain, checksum, long, announce] = more;
        let (changes, signals, loss, seed, egress) = rest;
        World {
            v6,
            mptcp: !(plain && checksum),
            timestamps,
            sack,
            checksum,
            long,
            announce,
            egress,
            mtu,
            changes,
            signals,
            loss,
            seed,
            bytes: 150_000,
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]
    #[test]
    fn rfc6691_no_segment_is_longer_than_its_path_carries(world in worlds()) {
        world.run();
    }
}
