//! What is said about MPTCP connections: how subflows were opened or not, which belong together,
//! data level, signals. Packets written by hand, after RFC 8684.
#![allow(clippy::unwrap_used)]

use std::net::SocketAddr;
use tabane_engine::mptcp::crypto::{Key, Keys};
use tabane_trace::analysis::report::Connection;
use tabane_trace::analysis::{Analysis, Analyzer, Opened, Settings, What};
use tabane_wire::mptcp::{AddAddr, MpCapable, MpJoin, MpTcpRst, MptcpOption};
use tabane_wire::{DataNumber, Dss, Flags, Headers, Mapping, SeqNum};

const CLIENT: Key = Key(0x0123_4567_89ab_cdef);
const SERVER: Key = Key(0xfedc_ba98_7654_3210);
const NONCES: [u32; 2] = [0x1122_3344, 0xaabb_ccdd];

/// Packets between a client with several addresses and a server, a millisecond apart.
struct Talk {
    analyzer: Analyzer,
    packets: u64,
}

/// One packet to be: subflow (by the client's address), from the client or not.
#[derive(Clone, Default)]
struct Say {
    subflow: u8,
    back: bool,
    flags: Flags,
    seq: u32,
    ack: u32,
    len: u32,
    options: Vec<MptcpOption>,
    dss: Option<Dss>,
}

const SYN: Flags = Flags::SYN;
const SYN_ACK: Flags = Flags(Flags::SYN.0 | Flags::ACK.0);
const ACK: Flags = Flags::ACK;

impl Talk {
    fn new() -> Self {
        Self { analyzer: Analyzer::new(Settings::default()), packets: 0 }
    }

    fn say(&mut self, say: Say) -> &mut Self {
        let client = SocketAddr::from(([10, 0, say.subflow, 1], 40_000));
        let server = SocketAddr::from(([10, 9, 9, 9], 443));
        let mut headers = Headers {
            src: if say.back { server } else { client },
            dst: if say.back { client } else { server },
            seq: SeqNum(say.seq),
            ack: SeqNum(say.ack),
            flags: say.flags,
            window: 1_000,
            payload_len: say.len,
            ..Headers::default()
        };
        headers.options.dss = say.dss;
        say.options.into_iter().for_each(|option| headers.options.push_mptcp(option));
        self.packets += 1;
        let time = 1_700_000_000_000_000_000 + self.packets * 1_000_000;
        self.analyzer.packet(time, &headers).unwrap();
        self
    }

    /// Three packets; `options` for each of them.
    fn shake(&mut self, subflow: u8, options: [Option<MptcpOption>; 3]) -> &mut Self {
        let [a, b, c] = options.map(|option| option.into_iter().collect());
        let all = [
            Say { subflow, flags: SYN, seq: 99, options: a, ..Say::default() },
            Say {
                subflow,
                back: true,
                flags: SYN_ACK,
                seq: 499,
                ack: 100,
                options: b,
                ..Say::default()
            },
            Say { subflow, flags: ACK, seq: 100, ack: 500, options: c, ..Say::default() },
        ];
        for say in all {
            self.say(say);
        }
        self
    }

    /// The first handshake, as it should be.
    fn open(&mut self) -> &mut Self {
        self.shake(
            0,
            [
                Some(capable(None, None)),
                Some(capable(Some(SERVER), None)),
                Some(capable(Some(CLIENT), Some(SERVER))),
            ],
        )
    }

    fn join(&mut self, subflow: u8, options: [Option<MptcpOption>; 3]) -> &mut Self {
        self.shake(subflow, options)
    }

    fn analysis(&mut self) -> Analysis {
        self.analyzer.analysis()
    }

    /// How the second subflow of the only connection was opened.
    fn second(&mut self) -> Opened {
        let analysis = self.analysis();
        assert_eq!(analysis.connections.len(), 1, "one connection");
        analysis.connections[0].subflows[1].opened
    }
}

fn capable(sender: Option<Key>, receiver: Option<Key>) -> MptcpOption {
    MptcpOption::Capable(MpCapable {
        version: 1,
        hmac_sha256: true,
        sender_key: sender.map(|key| key.0),
        receiver_key: receiver.map(|key| key.0),
        ..MpCapable::default()
    })
}

fn join_options() -> [MptcpOption; 3] {
    let keys = Keys { local: CLIENT, remote: SERVER };
    let [a, b] = NONCES;
    let token = SERVER.token_and_idsn().0;
    [
        MptcpOption::Join(MpJoin::Syn { backup: true, address_id: 1, token, nonce: a }),
        MptcpOption::Join(MpJoin::SynAck {
            backup: false,
            address_id: 0,
            hmac: keys.swapped().join_syn_ack(b, a),
            nonce: b,
        }),
        MptcpOption::Join(MpJoin::Ack { hmac: keys.join_ack(a, b) }),
    ]
}

fn mapped(dsn: u64, ssn: u32, length: u16) -> Option<Dss> {
    let mapping = Mapping { dsn: DataNumber::Long(dsn), ssn, length, checksum: None };
    Some(Dss { data_ack: None, mapping: Some(mapping), data_fin: false })
}

/// Server to client, 100 bytes, `n`th on its subflow and at data level.
fn data(subflow: u8, n: u32, dsn: u32) -> Say {
    let first = SERVER.token_and_idsn().1.wrapping_add(1);
    Say {
        subflow,
        back: true,
        flags: ACK,
        seq: 500 + n * 100,
        ack: 100,
        len: 100,
        dss: mapped(first.wrapping_add(u64::from(dsn) * 100), 1 + n * 100, 100),
        ..Say::default()
    }
}

#[test]
fn a_join_is_a_subflow_of_its_connection() {
    let mut talk = Talk::new();
    talk.open().join(1, join_options().map(Some));
    assert_eq!(talk.second(), Opened::Joined);
    let connection = talk.analysis().connections.remove(0);
    let tokens = [CLIENT, SERVER].map(|key| Some(key.token_and_idsn().0));
    assert_eq!((connection.kind, connection.tokens), ("mptcp", tokens));
    assert_eq!(connection.subflows[0].opened, Opened::Mptcp);
    assert_eq!(connection.subflows[1].backup, [true, false]);
    let rtt = connection.subflows[1].handshake_rtt_s.unwrap();
    assert!((rtt - 0.002).abs() < 1e-12, "{rtt}");
}

#[test]
fn joins_fail_in_their_ways() {
    let [syn, syn_ack, ack] = join_options();
    let cases = [
        (vec![Some(syn.clone()), None, None], Opened::JoinOptionMissing),
        (vec![Some(syn.clone()), Some(syn_ack.clone()), None], Opened::JoinUnconfirmed),
        (
            vec![
                Some(syn.clone()),
                Some(MptcpOption::Join(MpJoin::SynAck {
                    backup: false,
                    address_id: 0,
                    hmac: 7,
                    nonce: NONCES[1],
                })),
                Some(ack.clone()),
            ],
            Opened::JoinBadHmac,
        ),
        (
            vec![
                Some(syn.clone()),
                Some(syn_ack),
                Some(MptcpOption::Join(MpJoin::Ack { hmac: [7; 20] })),
            ],
            Opened::JoinBadHmac,
        ),
    ];
    for (options, expected) in cases {
        let mut talk = Talk::new();
        talk.open().join(1, options.try_into().unwrap());
        // The client goes on without a word of MPTCP.
        talk.say(Say { subflow: 1, flags: ACK, seq: 100, ack: 500, len: 5, ..Say::default() });
        assert_eq!(talk.second(), expected);
        assert!(expected.is_failed_join());
    }
    let ask = Say { subflow: 1, flags: SYN, seq: 99, options: vec![syn], ..Say::default() };
    let mut talk = Talk::new();
    talk.open().say(ask.clone()).say(ask.clone());
    assert_eq!(talk.second(), Opened::NoAnswer);
    assert_eq!(talk.analysis().connections[0].subflows[1].syns, 2);
    let reset = Say {
        subflow: 1,
        back: true,
        flags: Flags::RST | ACK,
        ack: 100,
        options: vec![MptcpOption::TcpRst(MpTcpRst { transient: true, reason: 3 })],
        ..Say::default()
    };
    talk.say(reset);
    assert_eq!(talk.second(), Opened::Reset);
    let events = talk.analysis().connections.remove(0).events;
    assert_eq!(events[0].what, What::Reset { reason: 3, transient: true });
}

#[test]
fn fallbacks_are_told_apart() {
    let only = |talk: &mut Talk| talk.analysis().connections.remove(0).subflows[0].opened;
    let mut plain = Talk::new();
    plain.shake(0, [None, None, None]);
    assert_eq!(only(&mut plain), Opened::Plain);
    let mut unanswered = Talk::new();
    unanswered.shake(0, [Some(capable(None, None)), None, None]);
    assert_eq!(only(&mut unanswered), Opened::Fallback);
    let mut unconfirmed = Talk::new();
    unconfirmed.shake(0, [Some(capable(None, None)), Some(capable(Some(SERVER), None)), None]);
    unconfirmed.say(Say { flags: ACK, seq: 100, ack: 500, len: 9, ..Say::default() });
    assert_eq!(only(&mut unconfirmed), Opened::FallbackUnconfirmed);
    let mut later = Talk::new();
    later.open().say(data(0, 0, 0)).say(Say { dss: mapped(5, 101, 0), ..data(0, 1, 1) });
    let connection = later.analysis().connections.remove(0);
    assert_eq!(connection.subflows[0].opened, Opened::Mptcp);
    assert_eq!(connection.events[0].what, What::InfiniteMapping);
    assert_eq!((connection.backward.new_bytes, connection.backward.unmapped_bytes), (200, 100));
}

#[test]
fn what_comes_twice_is_reinjected_or_retransmitted() {
    let mut talk = Talk::new();
    talk.open().join(1, join_options().map(Some));
    talk.say(data(0, 0, 0)).say(data(0, 1, 1)).say(data(1, 0, 2));
    // Again on the same subflow; then on the other one; then new.
    talk.say(data(0, 1, 1)).say(data(1, 1, 1)).say(data(1, 2, 3));
    let way = talk.analysis().connections[0].backward;
    assert_eq!((way.bytes, way.new_bytes), (600, 400));
    assert_eq!((way.retransmitted_bytes, way.reinjected_bytes, way.unmapped_bytes), (100, 100, 0));
}

#[test]
fn the_first_data_may_be_mapped_by_mp_capable() {
    let mut talk = Talk::new();
    talk.open();
    let option = MptcpOption::Capable(MpCapable {
        version: 1,
        sender_key: Some(CLIENT.0),
        receiver_key: Some(SERVER.0),
        data: Some((100, None)),
        ..MpCapable::default()
    });
    let first = Say { flags: ACK, seq: 100, ack: 500, len: 100, ..Say::default() };
    talk.say(Say { options: vec![option], ..first.clone() });
    // The same data by DSS, on the other subflow: known.
    talk.join(1, join_options().map(Some));
    let dsn = CLIENT.token_and_idsn().1.wrapping_add(1);
    talk.say(Say { subflow: 1, dss: mapped(dsn, 1, 100), ..first });
    let way = talk.analysis().connections[0].forward;
    assert_eq!((way.new_bytes, way.reinjected_bytes, way.unmapped_bytes), (100, 100, 0));
}

#[test]
fn signals_are_events() {
    let mut talk = Talk::new();
    talk.open();
    let add =
        AddAddr { address_id: 2, address: [10, 0, 9, 9].into(), port: Some(8080), hmac: Some(1) };
    let say =
        |options| Say { back: true, flags: ACK, seq: 500, ack: 100, options, ..Say::default() };
    talk.say(say(vec![MptcpOption::AddAddr(add)]));
    // A repeat is no event of its own.
    talk.say(say(vec![MptcpOption::AddAddr(add)]));
    let echo = vec![MptcpOption::AddAddr(AddAddr { hmac: None, ..add })];
    talk.say(Say { flags: ACK, seq: 100, ack: 500, options: echo, ..Say::default() });
    talk.say(say(vec![MptcpOption::Prio { backup: true }, MptcpOption::RemoveAddr(vec![2])]));
    talk.say(say(vec![MptcpOption::Fail(9)])).say(say(vec![MptcpOption::FastClose(CLIENT.0)]));
    let events = talk.analysis().connections.remove(0).events;
    let (id, address, port) = (2, [10, 0, 9, 9].into(), Some(8080));
    let expected = [
        (false, What::AddAddr { id, address, port, echo: false }),
        (true, What::AddAddr { id, address, port, echo: true }),
        (false, What::Prio { backup: true }),
        (false, What::RemoveAddr { ids: vec![2] }),
        (false, What::Fail { dsn: 9 }),
        (false, What::FastClose),
    ];
    let said: Vec<_> = events.iter().map(|e| (e.by_client, e.what.clone())).collect();
    assert_eq!(said, expected);
}

#[test]
fn without_handshakes_nothing_is_grouped() {
    let mut talk = Talk::new();
    talk.say(data(0, 0, 0)).say(data(1, 0, 1)).say(data(0, 1, 2));
    let connections = talk.analysis().connections;
    let seen = |c: &Connection| (c.kind, c.tokens, c.subflows[0].opened, c.backward.new_bytes);
    let expected = ("mptcp", [None, None], Opened::NotCaptured);
    let found: Vec<_> = connections.iter().map(seen).collect();
    let with = |bytes| (expected.0, expected.1, expected.2, bytes);
    assert_eq!(found, [with(200), with(100)]);
}

#[test]
fn a_join_whose_connection_began_before_the_capture_finds_its_siblings() {
    let mut talk = Talk::new();
    talk.join(1, join_options().map(Some)).join(2, join_options().map(Some));
    let connections = talk.analysis().connections;
    assert_eq!(connections.len(), 1);
    let opened: Vec<_> = connections[0].subflows.iter().map(|s| s.opened).collect();
    assert_eq!(opened, [Opened::Joined, Opened::Joined]);
}
