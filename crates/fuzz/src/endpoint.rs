//! An endpoint against whatever a peer, a network and an application can do: operations drawn
//! from the input, on two endpoints that have a connection.
//!
//! While nothing is forged, what arrives is what was written, and once the network is whole
//! again everything arrives and both ends close. With forged segments: nothing panics, queues
//! keep to their limits, no timer spins, nothing is sent without end.

use crate::pair::{Flying, PATHS, Pair, address};
use crate::wire::with_options;
use arbitrary::{Arbitrary, Unstructured};
use bytes::Bytes;
use std::net::SocketAddr;
use tabane_engine::config::{Config, NumberSize};
use tabane_engine::policy::{Entry, Spec};
use tabane_engine::record::CloseReason;
use tabane_engine::view::PathId;
use tabane_engine::{Duration, congestion, egress, scheduler};
use tabane_wire::{DataNumber, Dss, Flags, Mapping, Segment, SeqNum, Trust};

/// Operations of one input.
const OPS_MAX: usize = 300;

/// Settings of both ends, and of each.
#[derive(Arbitrary, Debug)]
struct Setup {
    ends: [EndSetup; 2],
}

#[derive(Arbitrary, Debug)]
struct EndSetup {
    flags: u8,
    /// Its highest bit: data both ways from the beginning, and packets are lost.
    more: u8,
    scheduler: u8,
    congestion: u8,
    egress: u8,
    buffer: u16,
}

/// Something done to the two ends or to the packets between them.
#[derive(Arbitrary, Debug)]
enum Op {
    /// An end writes this much.
    Write { server: bool, bytes: u16 },
    /// It reads no more, or reads again.
    Pause { server: bool, paused: bool },
    /// It sends no more.
    Close { server: bool },
    /// It gives up.
    Abort { server: bool },
    /// The client opens a subflow on a path.
    Add { path: u8 },
    /// An end resets or closes its newest subflow.
    Remove { server: bool, reset: bool },
    /// A subflow changes its priority.
    Backup { server: bool, path: u8, backup: bool },
    /// It announces or withdraws an address.
    Address { server: bool, withdraw: bool, path: u8 },
    /// Other policies from now on.
    Policy { server: bool, which: u8, row: u8 },
    /// A path loses everything, or nothing any more; hosts are told or not.
    Cut { path: u8, cut: bool, told: bool },
    /// A path takes smaller or larger packets.
    Mtu { server: bool, path: u8, mtu: u16 },
    /// The next packets on their way are lost.
    Drop { packets: u8 },
    /// A packet changes places with a later one.
    Swap { with: u8 },
    /// The next packet comes again.
    Repeat,
    /// Time passes: milliseconds.
    Advance { ms: u8 },
    /// Much time passes: seconds.
    Sleep { seconds: u8 },
    /// A packet on its way arrives now, changed.
    Change { packet: u8, changes: Vec<Change> },
    /// Bytes arrive.
    Bytes { to_server: bool, path: u8, bytes: Vec<u8> },
}

/// What becomes of a segment.
#[derive(Arbitrary, Debug)]
enum Change {
    Seq(i16),
    FarSeq(i32),
    Ack(i16),
    FarAck(i32),
    Flags(u8),
    Window(u16),
    Port(u16),
    Options(Vec<u8>),
    DataAck(i16),
    Dsn(i16),
    Ssn(i16),
    Length(u16),
    Sum(u16),
    Fin,
    Sack(i16, i16),
    Stamp(i16, i16),
    Strip,
    Payload(u16),
    Twice,
}

/// The target.
pub(crate) fn endpoint(data: &[u8]) {
    let mut input = Unstructured::new(data);
    let Ok(setup) = Setup::arbitrary(&mut input) else { return };
    let [client, server] = &setup.ends;
    let mut pair = Pair::new(config(client), config(server));
    if setup.ends.iter().any(|end| end.more & 128 != 0) {
        both_ways(&mut pair);
    }
    for _ in 0..OPS_MAX {
        if input.is_empty() {
            break;
        }
        let Ok(op) = Op::arbitrary(&mut input) else { break };
        apply(&mut pair, &op);
        pair.settle();
    }
    finish(&mut pair);
}

/// Both ends have much to send, and a packet is lost every few milliseconds: acknowledgements ride
/// on data, whose segments the paths carry exactly.
fn both_ways(pair: &mut Pair) {
    for end in &mut pair.ends {
        end.to_write += 60_000;
    }
    pair.settle();
    for n in 0..40 {
        pair.advance(Duration::from_millis(3));
        // Too few to be counted in `lost`: nobody gives up because of them.
        pair.flying.remove(n % 25);
    }
}

fn row<F: ?Sized>(table: &[Entry<F>], row: u8) -> Spec {
    Spec::named(table[usize::from(row) % table.len()].name)
}

fn config(setup: &EndSetup) -> Config {
    let mut config = Config::default().with(|c| c.records = setup.more & 1 != 0);
    let bit = |n: u8| setup.flags >> n & 1 != 0;
    let (tcp, mptcp) = (&mut config.tcp, &mut config.mptcp);
    tcp.sack = !bit(0);
    tcp.timestamps = !bit(1);
    tcp.ecn = bit(2);
    tcp.nagle = !bit(3);
    mptcp.checksum = bit(4);
    mptcp.announce = bit(5);
    mptcp.enabled = setup.flags >> 6 != 3;
    mptcp.numbers = if bit(6) { NumberSize::Long } else { NumberSize::Auto };
    mptcp.opportunistic_retransmission = setup.more & 2 == 0;
    mptcp.tail_reinjection = setup.more & 4 == 0;
    mptcp.remove_copies = setup.more & 8 == 0;
    mptcp.subflows_per_path = 1 + (setup.more >> 4 & 1);
    tcp.keepalive = (setup.more & 32 != 0).then(|| Duration::from_secs(10));
    tcp.receive_buffer = 2_000 + u64::from(setup.buffer);
    tcp.receive_buffer_max = tcp.receive_buffer;
    tcp.send_buffer = 100_000;
    tcp.congestion = row(congestion::ALL, setup.congestion);
    mptcp.scheduler = row(scheduler::ALL, setup.scheduler);
    mptcp.egress = row(egress::ALL, setup.egress);
    config
}

fn apply(pair: &mut Pair, op: &Op) {
    match *op {
        Op::Write { server, bytes } => {
            pair.ends[usize::from(server)].to_write += u64::from(bytes);
        }
        Op::Pause { server, paused } => pair.ends[usize::from(server)].paused = paused,
        Op::Cut { path, cut, told } => {
            let path = path % PATHS;
            pair.cut[usize::from(path)] = cut;
            if told {
                for end in &mut pair.ends {
                    end.endpoint.set_path_up(pair.now, PathId(path), !cut);
                }
            }
        }
        Op::Mtu { server, path, mtu } => {
            let (mtu, path) = (mtu.clamp(600, 9_000), path % PATHS);
            pair.mtus[usize::from(server)][usize::from(path)] = mtu;
            let end = &mut pair.ends[usize::from(server)];
            end.endpoint.set_path_mtu(pair.now, PathId(path), mtu);
        }
        Op::Drop { packets } => {
            let count = usize::from(packets % 8).min(pair.flying.len());
            pair.flying.drain(..count);
            pair.lost += count;
        }
        Op::Swap { with } => {
            let last = pair.flying.len().saturating_sub(1);
            if last > 0 {
                let with = usize::from(with).min(last);
                let (a, b) = (pair.flying[0].at, pair.flying[with].at);
                (pair.flying[0].at, pair.flying[with].at) = (b, a);
            }
        }
        Op::Repeat => {
            if let Some(packet) = pair.flying.front().cloned() {
                pair.flying.push_back(Flying { at: packet.at + Duration(1), ..packet });
            }
        }
        Op::Advance { ms } => pair.advance(Duration::from_millis(ms.into())),
        Op::Sleep { seconds } => pair.advance(Duration::from_secs(seconds.into())),
        Op::Change { packet, ref changes } => forge(pair, packet, changes),
        Op::Bytes { to_server, path, ref bytes } => {
            pair.honest = false;
            pair.deliver_bytes(to_server, path % PATHS, bytes);
        }
        _ => steer(pair, op),
    }
}

/// What an application or an operator does to a connection; a refusal is an answer too.
fn steer(pair: &mut Pair, op: &Op) {
    let now = pair.now;
    let server = match *op {
        Op::Close { server }
        | Op::Abort { server }
        | Op::Remove { server, .. }
        | Op::Backup { server, .. }
        | Op::Address { server, .. }
        | Op::Policy { server, .. } => server,
        _ => false,
    };
    let Some(connection) = pair.ends[usize::from(server)].connection() else { return };
    let subflows = connection.info(now).subflows;
    match *op {
        Op::Close { .. } => {
            // What was not written yet will never be.
            pair.honest = false;
            connection.close(now);
        }
        Op::Abort { .. } => {
            pair.honest = false;
            connection.abort(now);
        }
        Op::Add { path } => {
            let local = SocketAddr::new(address(false, path % PATHS), 0);
            let remote = SocketAddr::new(address(true, 0), 80);
            let _ = connection.add_subflow(now, local, remote, path & 128 != 0);
        }
        Op::Remove { reset, .. } => {
            let live: Vec<_> = subflows.iter().filter(|s| s.view.usable).collect();
            if let [.., _, last] = live[..] {
                let id = last.view.id;
                let _ = match reset {
                    true => connection.reset_subflow(now, id),
                    false => connection.close_subflow(now, id),
                };
            }
        }
        Op::Backup { path, backup, .. } => {
            let path = path % PATHS;
            if let Some(subflow) = subflows.iter().find(|s| s.path.0 == path && s.view.usable) {
                let _ = connection.set_backup(now, subflow.view.id, backup);
            }
        }
        Op::Address { withdraw, path, .. } => {
            if withdraw {
                // Its first address among them: the peer resets what came from there.
                pair.honest = false;
                connection.withdraw(now, &[path, 0, 1]);
            } else {
                let local = SocketAddr::new(address(server, path % PATHS), 0);
                let _ = connection.announce(now, local);
            }
        }
        Op::Policy { which, row: n, .. } => {
            use tabane_engine::mptcp::Policy;
            let policy = match which % 3 {
                0 => Policy::Scheduler(row(scheduler::ALL, n)),
                1 => Policy::Congestion(None, row(congestion::ALL, n)),
                _ => Policy::Egress(row(egress::ALL, n)),
            };
            let _ = connection.set_policy(now, policy);
        }
        _ => {}
    }
}

/// A packet on its way arrives now, as somebody in between made it.
fn forge(pair: &mut Pair, packet: u8, changes: &[Change]) {
    if pair.flying.is_empty() {
        return;
    }
    let n = usize::from(packet) % pair.flying.len();
    let Some(mut packet) = pair.flying.remove(n) else { return };
    pair.honest = false;
    let mut twice = false;
    for change in changes {
        match change {
            Change::Twice => twice = true,
            Change::Options(soup) => {
                let bytes = with_options(&packet.segment, soup);
                let read = bytes.and_then(|b| Segment::parse_slice_with(&b, Trust::Intact).ok());
                if let Some(segment) = read {
                    packet.segment = segment;
                }
            }
            _ => apply_change(&mut packet.segment, change),
        }
    }
    if twice {
        pair.deliver(packet.clone());
    }
    pair.deliver(packet);
}

fn shift(number: DataNumber, by: i16) -> DataNumber {
    match number {
        DataNumber::Short(n) => DataNumber::Short(n.wrapping_add_signed(by.into())),
        DataNumber::Long(n) => DataNumber::Long(n.wrapping_add_signed(by.into())),
    }
}

fn apply_change(segment: &mut Segment, change: &Change) {
    let near = |number: SeqNum, by: i32| SeqNum(number.0.wrapping_add_signed(by));
    match *change {
        Change::Seq(by) => segment.seq = near(segment.seq, by.into()),
        Change::FarSeq(by) => segment.seq = near(segment.seq, by),
        Change::Ack(by) => segment.ack = near(segment.ack, by.into()),
        Change::FarAck(by) => segment.ack = near(segment.ack, by),
        Change::Flags(bits) => segment.flags = Flags(segment.flags.0 ^ bits),
        Change::Window(window) => segment.window = window,
        Change::Port(port) => segment.src.set_port(port),
        Change::Sack(from, to) => {
            let ack = segment.ack;
            segment.options.sack.push(near(ack, from.into()), near(ack, to.into()));
        }
        Change::Stamp(value, echo) => {
            if let Some(stamps) = &mut segment.options.timestamps {
                stamps.value = stamps.value.wrapping_add_signed(value.into());
                stamps.echo = stamps.echo.wrapping_add_signed(echo.into());
            }
        }
        Change::Strip => {
            segment.options.dss = None;
            segment.options.mptcp = None;
        }
        Change::Payload(len) => segment.payload = Bytes::from(vec![7; usize::from(len % 2_000)]),
        Change::DataAck(by) => {
            let dss = segment.options.dss.get_or_insert_default();
            dss.data_ack = Some(shift(dss.data_ack.unwrap_or(DataNumber::Short(0)), by));
        }
        _ => change_mapping(segment.options.dss.get_or_insert_default(), change),
    }
}

fn change_mapping(dss: &mut Dss, change: &Change) {
    let none = Mapping { dsn: DataNumber::Short(1), ssn: 1, length: 100, checksum: None };
    let mapping = dss.mapping.get_or_insert(none);
    match *change {
        Change::Dsn(by) => mapping.dsn = shift(mapping.dsn, by),
        Change::Ssn(by) => mapping.ssn = mapping.ssn.wrapping_add_signed(by.into()),
        Change::Length(length) => mapping.length = length,
        Change::Sum(sum) => mapping.checksum = (sum > 0).then_some(sum),
        Change::Fin => dss.data_fin = !dss.data_fin && mapping.length > 0,
        _ => {}
    }
}

/// Once nothing stands in the way any more, everything arrives and both ends close.
fn finish(pair: &mut Pair) {
    let honest = pair.honest;
    pair.heal();
    for _ in 0..400 {
        if pair.is_done() || (!honest && pair.ends.iter().any(|end| end.closed.is_some())) {
            break;
        }
        pair.advance(Duration::from_secs(1));
    }
    let honest = honest && !pair.may_give_up();
    if honest {
        let sums = pair.ends.each_ref().map(|end| (end.to_write, end.read, end.closed));
        assert!(pair.is_done(), "not everything arrived (to write, read, closed): {sums:?}");
    }
    for _ in 0..if honest { 30 } else { 4 } {
        let now = pair.now;
        for end in &mut pair.ends {
            // The server's may only be there by now.
            if let Some(connection) = end.connection() {
                connection.close(now);
            }
        }
        pair.settle();
        pair.advance(Duration::from_secs(20));
    }
    if honest {
        for end in &pair.ends {
            assert_eq!(end.closed, Some(CloseReason::Finished), "{} read", end.read);
            assert_eq!(end.endpoint.connections(), 0, "something is left");
        }
    }
}

/// A transfer both ways without any fault, and random ones.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut x = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = |len: usize| -> Vec<u8> {
        (0..len)
            .map(|_| {
                x ^= x << 13;
                x ^= x >> 7;
                x ^= x << 17;
                x as u8
            })
            .collect()
    };
    let mut seeds = vec![vec![0; 60]];
    seeds.extend([40, 100, 200, 400, 800].map(&mut random));
    seeds
}
