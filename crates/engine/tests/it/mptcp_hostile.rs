//! Hostile and broken input: limits hold, nothing panics, drops are recorded with their reason;
//! and random worlds with loss, copies and reordering deliver every byte.

use crate::mptcp_net::*;
use bytes::Bytes;
use proptest::prelude::*;
use std::net::SocketAddr;
use tabane_engine::config::Limits;
use tabane_engine::event::Event;
use tabane_engine::record::{DropReason, What};
use tabane_engine::view::PathId;
use tabane_engine::{Endpoint, Instant};
use tabane_wire::mptcp::{AddAddr, MpCapable, MpJoin, MpTcpRst};
use tabane_wire::{
    DataNumber, Dss, Ecn, Flags, Mapping, MptcpOption, Segment, SeqNum, TcpOptions, Timestamps,
};

fn syn(port: u16, option: Option<MptcpOption>) -> Segment {
    let mut options = TcpOptions { mss: Some(1460), ..TcpOptions::default() };
    option.into_iter().for_each(|o| options.push_mptcp(o));
    Segment {
        src: SocketAddr::new(addr(1, 0), port),
        dst: SocketAddr::new(addr(2, 0), 80),
        seq: SeqNum(1000),
        ack: SeqNum(0),
        flags: Flags::SYN,
        window: 1000,
        ecn: Ecn::NotEct,
        options,
        payload: Bytes::new(),
    }
}

fn server(limits: Limits) -> Endpoint {
    let config = config(2, 1).with(|c| c.limits = limits);
    let mut endpoint = Endpoint::new(config, [3; 32]).unwrap();
    endpoint.listen("[::]:80".parse().unwrap()).unwrap();
    endpoint
}

fn drops(endpoint: &mut Endpoint) -> Vec<DropReason> {
    std::iter::from_fn(|| endpoint.poll_record())
        .filter_map(|r| match r.what {
            What::Dropped { reason } => Some(reason),
            _ => None,
        })
        .collect()
}

fn answers(endpoint: &mut Endpoint) -> Vec<Segment> {
    std::iter::from_fn(|| endpoint.poll_segment(Instant(1))).map(|d| d.segment).collect()
}

#[test]
fn a_flood_of_syns_stops_at_the_backlog() {
    let mut endpoint = server(Limits::default().with(|c| c.syn_backlog = 100));
    for port in 1..=5000 {
        endpoint.handle_segment(Instant(1), PathId(0), &syn(port, None));
    }
    assert_eq!(endpoint.connections(), 100);
    let refused = drops(&mut endpoint);
    assert_eq!(refused, vec![DropReason::Limit("SYN backlog"); 4900]);
    // They are given up in time, and there is space again.
    let mut now = Instant(1);
    while let Some(at) = endpoint.poll_timeout() {
        now = at.max(now);
        endpoint.handle_timeout(now);
        while endpoint.poll_segment(now).is_some() {}
        while endpoint.poll_event().is_some() {}
    }
    assert_eq!(endpoint.connections(), 0);
    assert!(now.as_secs_f64() > 60.0 && now.as_secs_f64() < 200.0, "{now:?}");
}

#[test]
fn connections_are_limited() {
    let mut endpoint = server(Limits::default().with(|c| c.connections = 10));
    (1..=20).for_each(|p| endpoint.handle_segment(Instant(1), PathId(0), &syn(p, None)));
    assert_eq!(endpoint.connections(), 10);
    assert_eq!(drops(&mut endpoint), vec![DropReason::Limit("connections"); 10]);
    let (local, remote) = (SocketAddr::new(addr(2, 0), 0), SocketAddr::new(addr(1, 0), 9));
    assert!(endpoint.connect(Instant(1), local, remote).is_err());
}

/// Whoever asks a relay learns at once that there is no room, and cannot fill anything by asking.
#[test]
fn a_held_listener_refuses_what_is_beyond_its_connections() {
    let limits = Limits::default().with(|c| (c.connections, c.resets) = (2, 3));
    let config = config(2, 1).with(|c| c.limits = limits);
    let mut endpoint = Endpoint::new(config, [3; 32]).unwrap();
    endpoint.listen_held("[::]:80".parse().unwrap()).unwrap();
    (1..=9).for_each(|p| endpoint.handle_segment(Instant(1), PathId(0), &syn(p, None)));
    assert_eq!(endpoint.connections(), 2);
    assert_eq!(drops(&mut endpoint), vec![DropReason::Limit("connections"); 7]);
    let away: Vec<_> = std::iter::from_fn(|| endpoint.poll_turned_away()).collect();
    let ports: Vec<_> = away.iter().map(|syn| (syn.path, syn.remote.port())).collect();
    assert_eq!(ports, [3, 4, 5].map(|port| (PathId(0), port)));
    for (segment, port) in answers(&mut endpoint).iter().zip([3, 4, 5]) {
        assert_eq!((segment.flags, segment.dst.port()), (Flags::RST | Flags::ACK, port));
        assert_eq!(segment.ack, SeqNum(1001));
    }
    assert_eq!(endpoint.stats().resets, 3);
}

#[test]
fn strangers_are_reset_with_numbers_that_they_accept() {
    let mut endpoint = server(Limits::default().with(|c| c.resets = 3));
    let mut segment = syn(7, None);
    segment.dst.set_port(81);
    endpoint.handle_segment(Instant(1), PathId(0), &segment.clone());
    segment.flags = Flags::ACK | Flags::PSH;
    segment.ack = SeqNum(77);
    endpoint.handle_segment(Instant(1), PathId(0), &segment.clone());
    segment.flags = Flags::RST;
    endpoint.handle_segment(Instant(1), PathId(0), &segment.clone());
    let sent = answers(&mut endpoint);
    assert_eq!(sent.len(), 2, "a reset is never answered");
    assert_eq!((sent[0].seq, sent[0].ack), (SeqNum(0), SeqNum(1001)));
    assert_eq!(sent[0].flags, Flags::RST | Flags::ACK);
    assert_eq!((sent[1].seq, sent[1].flags), (SeqNum(77), Flags::RST));
    segment.flags = Flags::ACK;
    (0..10).for_each(|_| endpoint.handle_segment(Instant(1), PathId(0), &segment.clone()));
    assert_eq!(answers(&mut endpoint).len(), 3, "as many as may wait");
}

#[test]
fn a_join_with_an_unknown_token_is_reset_with_its_reason() {
    let mut endpoint = server(Limits::default());
    let join = MpJoin::Syn { backup: false, address_id: 1, token: 4711, nonce: 1 };
    endpoint.handle_segment(Instant(1), PathId(0), &syn(9, Some(MptcpOption::Join(join))));
    assert_eq!(drops(&mut endpoint), [DropReason::UnknownToken]);
    let expected = MptcpOption::TcpRst(MpTcpRst { transient: false, reason: 1 });
    assert_eq!(answers(&mut endpoint)[0].options.mptcp(), [expected]);
    assert_eq!(endpoint.connections(), 0);
}

#[test]
fn pending_joins_are_limited() {
    // Like all subflows are, or to less.
    for (pending, live, limit) in [(32, 8, "subflows"), (4, 6, "pending joins")] {
        let mut server = config(2, 2);
        server.limits.pending_joins = pending;
        let mut net = Net::new(config(1, 2), server);
        net.connect(data(1_000_000), false);
        net.sleep(secs(1));
        let token = net.server_info().token;
        for port in 1..=50 {
            let join = MpJoin::Syn { backup: false, address_id: 9, token, nonce: u32::from(port) };
            let segment = syn(port, Some(MptcpOption::Join(join)));
            net.server.endpoint.handle_segment(net.now, PathId(0), &segment);
        }
        assert_eq!(net.server_info().subflows.len(), live);
        net.sleep(ms(10));
        let limit = |w: &What| *w == What::Dropped { reason: DropReason::Limit(limit) };
        let refused = net.server.records.iter().filter(|r| limit(&r.what)).count();
        assert_eq!(refused, 52 - live);
    }
}

#[test]
fn the_wrong_version_and_flags_are_plain_tcp() {
    let good = MpCapable { version: 1, hmac_sha256: true, ..MpCapable::default() };
    let cases = [
        (good, true),
        (MpCapable { version: 0, ..good }, false),
        (MpCapable { hmac_sha256: false, ..good }, false),
        (MpCapable { extensibility: true, ..good }, false),
    ];
    for (option, mptcp) in cases {
        let mut endpoint = server(Limits::default());
        let option = MptcpOption::Capable(option);
        endpoint.handle_segment(Instant(1), PathId(0), &syn(9, Some(option.clone())));
        assert_eq!(answers(&mut endpoint)[0].options.has_mptcp(), mptcp, "{option:?}");
    }
}

#[test]
fn a_thousand_connections_at_once() {
    let mut net = Net::pair(1);
    net.server.answer = (data(1), true);
    for _ in 0..1000 {
        net.connect(data(2_000), true);
    }
    assert!(net.run(secs(60), |n| n.over()));
    assert_eq!(net.server.conns.len(), 1000);
    assert!(net.server.conns.values().all(|a| a.received == data(2_000)));
}

fn mptcp_option() -> impl Strategy<Value = MptcpOption> {
    let key = prop::option::of(any::<u64>());
    prop_oneof![
        (
            any::<bool>(),
            key.clone(),
            key,
            prop::option::of((0u16..3000, prop::option::of(any::<u16>())))
        )
            .prop_map(|(checksum_required, sender_key, receiver_key, data)| {
                MptcpOption::Capable(MpCapable {
                    version: 1,
                    checksum_required,
                    hmac_sha256: true,
                    sender_key,
                    receiver_key,
                    data,
                    ..MpCapable::default()
                })
            }),
        (any::<u8>(), any::<u64>(), any::<u32>()).prop_map(|(address_id, hmac, nonce)| {
            MptcpOption::Join(MpJoin::SynAck { backup: false, address_id, hmac, nonce })
        }),
        any::<[u8; 20]>().prop_map(|hmac| MptcpOption::Join(MpJoin::Ack { hmac })),
        (any::<u8>(), any::<[u8; 4]>(), prop::option::of(any::<u64>())).prop_map(
            |(address_id, ip, hmac)| {
                MptcpOption::AddAddr(AddAddr { address_id, address: ip.into(), port: None, hmac })
            }
        ),
        prop::collection::vec(0u8..4, 1..4).prop_map(MptcpOption::RemoveAddr),
        any::<bool>().prop_map(|backup| MptcpOption::Prio { backup }),
        any::<u64>().prop_map(MptcpOption::Fail),
        any::<u64>().prop_map(MptcpOption::FastClose),
        any::<u8>().prop_map(|reason| MptcpOption::TcpRst(MpTcpRst { transient: true, reason })),
    ]
}

/// What becomes of a segment of a live connection.
#[derive(Clone, Debug)]
enum Mutation {
    Seq(i32),
    Ack(i32),
    Flags(u8),
    Window(u16),
    Option(MptcpOption),
    Map(Option<i32>, i32, u16, bool, bool),
    DataAck(i32),
    NoTimestamps,
    OldTimestamps(u32),
    Strip,
    Payload(usize),
    Twice,
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let near = prop_oneof![-3000i32..3000, any::<i32>()];
    prop_oneof![
        near.clone().prop_map(Mutation::Seq),
        near.clone().prop_map(Mutation::Ack),
        any::<u8>().prop_map(Mutation::Flags),
        any::<u16>().prop_map(Mutation::Window),
        mptcp_option().prop_map(Mutation::Option),
        (prop::option::of(near.clone()), near.clone(), any::<u16>(), any::<bool>(), any::<bool>())
            .prop_map(|(d, s, l, f, c)| Mutation::Map(d, s, l, f, c)),
        near.prop_map(Mutation::DataAck),
        Just(Mutation::NoTimestamps),
        any::<u32>().prop_map(Mutation::OldTimestamps),
        Just(Mutation::Strip),
        (0usize..1460).prop_map(Mutation::Payload),
        Just(Mutation::Twice),
    ]
}

fn shift(number: DataNumber, by: i32) -> DataNumber {
    match number {
        DataNumber::Short(n) => DataNumber::Short(n.wrapping_add_signed(by)),
        DataNumber::Long(n) => DataNumber::Long(n.wrapping_add_signed(i64::from(by))),
    }
}

fn mutate(segment: &mut Segment, mutation: &Mutation) {
    match mutation.clone() {
        Mutation::Seq(by) => segment.seq.0 = segment.seq.0.wrapping_add_signed(by),
        Mutation::Ack(by) => segment.ack.0 = segment.ack.0.wrapping_add_signed(by),
        Mutation::Flags(bits) => segment.flags.0 ^= bits,
        Mutation::Window(window) => segment.window = window,
        Mutation::Option(option) => segment.options.push_mptcp(option),
        Mutation::Map(dsn, ssn, length, fin, checksum) => {
            let dss = segment.options.dss.get_or_insert_default();
            dss.data_fin = fin && length > 0;
            let old = dss.mapping;
            let base = old.map_or(DataNumber::Short(1), |m| m.dsn);
            dss.mapping = Some(Mapping {
                dsn: shift(base, dsn.unwrap_or(0)),
                ssn: old.map_or(1, |m| m.ssn).wrapping_add_signed(ssn),
                length,
                checksum: checksum.then_some(7),
            });
        }
        Mutation::DataAck(by) => {
            let dss = segment.options.dss.get_or_insert(Dss::default());
            dss.data_ack = Some(shift(dss.data_ack.unwrap_or(DataNumber::Short(0)), by));
        }
        Mutation::NoTimestamps => segment.options.timestamps = None,
        Mutation::OldTimestamps(value) => {
            segment.options.timestamps = Some(Timestamps { value, echo: value });
        }
        Mutation::Strip => {
            segment.options.dss = None;
            segment.options.mptcp = None;
        }
        Mutation::Payload(len) => segment.payload = data(len),
        Mutation::Twice => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// Segments of a live connection, mutated: whatever happens to it, nothing panics, queues
    /// drain, memory of the peer's data stays within the window.
    #[test]
    fn mutated_segments_break_nothing_but_the_connection(
        mutations in prop::collection::vec((0u64..400, any::<bool>(), mutation()), 1..30),
        paths in 1u8..3,
        checksum in any::<bool>(),
        segments in 1u8..9,
    ) {
        let (mut client, server) = (config(1, paths), config(2, paths));
        client.mptcp.checksum = checksum;
        client.mptcp.segments_per_mapping = segments;
        let mut net = Net::new(client, server);
        net.server.answer = (data(100_000), true);
        net.filter = Box::new(move |c| {
            for (index, up, mutation) in &mutations {
                if *index == c.index && *up == c.up {
                    mutate(c.segment, mutation);
                }
            }
            true
        });
        net.connect(data(200_000), true);
        net.sleep(secs(30));
        let held = net.server.conns.keys().copied().collect::<Vec<_>>();
        for id in held {
            if let Some(conn) = net.server.endpoint.connection(id) {
                let info = conn.info(net.now);
                prop_assert!(info.out_of_order <= info.receive_buffer + 65_536);
            }
        }
    }

    /// Loss, copies and reordering on every path: every byte arrives, once, in order.
    #[test]
    fn random_worlds_deliver(
        seed in any::<u64>(),
        paths in 1u8..4,
        loss in 0u64..80,
        late in 0u64..100,
        scheduler in 0usize..3,
        checksum in any::<bool>(),
        wire in any::<bool>(),
        segments in 1u8..9,
    ) {
        let (mut client, mut server) = (config(1, paths), config(2, paths));
        // The buffers are often full, so that mappings of several segments are made.
        for config in [&mut client, &mut server] {
            config.mptcp.segments_per_mapping = segments;
            config.tcp.send_buffer = 60_000;
        }
        let names = ["minrtt", "roundrobin", "redundant"];
        client.mptcp.scheduler = names[scheduler].parse().unwrap();
        server.mptcp.scheduler = client.mptcp.scheduler.clone();
        client.mptcp.checksum = checksum;
        // Three SYNs lost in a row would rightly end in plain TCP.
        client.mptcp.capable_syns = u32::MAX;
        let mut net = Net::new(client, server);
        net.wire = wire;
        for (path, link) in &mut net.links {
            link.0 = ms(1 + (seed >> (8 * path.0)) % 120);
            link.1 = 200_000 + (seed >> (7 * path.0)) % 5_000_000;
        }
        let mut x = seed | 1;
        let mut random = move || {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            x
        };
        net.filter = Box::new(move |_| random() % 1000 >= loss);
        net.late = Some((seed, late));
        net.server.answer = (data(150_000), true);
        net.connect(data(300_000), true);
        let over = net.run(secs(600), |n| n.over());
        prop_assert!(over, "{:?} {:?}", net.client.events, net.server.events);
        prop_assert!(net.server.app().received == data(300_000));
        prop_assert!(net.client.app().received == data(150_000));
        let fallen = |e: &Event| matches!(e, Event::Fallback(_));
        prop_assert!(!net.client.has(fallen) && !net.server.has(fallen));
    }
}
