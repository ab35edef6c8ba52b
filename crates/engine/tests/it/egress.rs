//! Egress policies on whole connections: byte-exact under loss whatever the far end makes of
//! copies, and what a capture would show.
use crate::mptcp_net::*;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use tabane_engine::config::Config;
use tabane_engine::egress;
use tabane_engine::policy::Spec;
use tabane_engine::record::{DropReason, What};
use tabane_engine::view::{PathId, SubflowView};
use tabane_wire::Segment;

const LEN: usize = 1_500_000;

/// What differs between the worlds in which every policy must do.
#[derive(Clone, Copy, Debug)]
struct Variant {
    remove_copies: bool,
    sack: bool,
    timestamps: bool,
    lossy: bool,
}

fn variants() -> impl Iterator<Item = Variant> {
    (0..16).map(|n| Variant {
        remove_copies: n & 1 == 0,
        sack: n & 2 == 0,
        timestamps: n & 4 == 0,
        lossy: n & 8 == 0,
    })
}

fn set(config: &mut Config, egress: &str, variant: Variant) {
    config.mptcp.egress = egress.parse().unwrap();
    config.mptcp.remove_copies = variant.remove_copies;
    config.tcp.sack = variant.sack;
    config.tcp.timestamps = variant.timestamps;
}

/// Two paths of 10 and 60 ms each way, the second slower.
fn net(client: Config, server: Config) -> Net {
    let mut net = Net::new(client, server);
    net.links.insert(PathId(0), (ms(10), 4_000_000));
    net.links.insert(PathId(1), (ms(60), 2_000_000));
    net
}

/// Both directions at once. Whether everything arrived.
fn transfer(mut net: Net) -> Net {
    net.server.answer = (data(LEN), true);
    net.connect(data(LEN / 3), true);
    assert!(net.run(secs(120), |n| n.over()), "{:?} {:?}", net.client.events, net.server.events);
    assert!(net.server.app().received == data(LEN / 3));
    assert!(net.client.app().received == data(LEN));
    net
}

#[test]
fn every_policy_delivers_every_byte() {
    for row in egress::ALL {
        for variant in variants() {
            let (mut client, mut server) = (config(1, 2), config(2, 2));
            set(&mut client, row.name, variant);
            set(&mut server, row.name, variant);
            let mut net = net(client, server);
            if variant.lossy {
                net.filter = Box::new(|c| c.index % 43 != 42 || c.index < 10);
            }
            eprintln!("{} {variant:?}", row.name);
            let net = transfer(net);
            let refused = |what: &What| matches!(what, What::PolicyRefused { .. });
            let both = [&net.client, &net.server];
            assert!(!both.iter().any(|h| h.records.iter().any(|r| refused(&r.what))));
        }
    }
}

/// What crossed a link from the client: segments by path.
type Capture = Rc<RefCell<BTreeMap<PathId, Vec<Segment>>>>;

fn capture(net: &mut Net) -> Capture {
    let seen = Capture::default();
    let log = seen.clone();
    net.filter = Box::new(move |c| {
        if c.up {
            log.borrow_mut().entry(c.path).or_default().push(c.segment.clone());
        }
        true
    });
    seen
}

fn upload_and_download(egress: &str, remove_copies: bool) -> (Net, Capture) {
    let (mut client, mut server) = (config(1, 2), config(2, 2));
    client.mptcp.egress = Spec::named(egress);
    server.mptcp.remove_copies = remove_copies;
    let mut net = net(client, server);
    let seen = capture(&mut net);
    (transfer(net), seen)
}

fn copies_of(net: &mut Net) -> u64 {
    net.server.endpoint.stats().copies
}

/// S1's check: each client packet is seen twice, with the same header, ACKs and data alike.
#[test]
fn bicast_sends_every_packet_by_both_paths_unchanged() {
    let (mut net, seen) = upload_and_download("bicast", true);
    let seen = seen.borrow();
    let sorted = |path| {
        let handshake = |s: &&Segment| !s.flags.contains(tabane_wire::Flags::SYN);
        let all = seen[&PathId(path)].iter().filter(handshake);
        let mut lines: Vec<String> = all.map(|s| format!("{s:?}")).collect();
        lines.sort_unstable();
        lines
    };
    // What left before path 1 had a subflow has left by both, too.
    assert_eq!(sorted(0), sorted(1));
    let removed = copies_of(&mut net);
    let total = sorted(0).len() as u64;
    // The first copy shows that there are any; by then the faster path has brought more, whose
    // copies pass. MPTCP signals are not looked at.
    assert!(removed * 4 > total * 3 && removed <= total, "{removed} of {total} removed");
    let info = net
        .server
        .records
        .iter()
        .filter(|r| matches!(r.what, What::Dropped { reason: DropReason::Copy }));
    assert_eq!(info.count() as u64, removed);
}

#[test]
fn bicast_ack_copies_acknowledgements_only() {
    let (_, seen) = upload_and_download("bicast-ack", true);
    let seen = seen.borrow();
    let count = |path, data: bool| {
        let acks = |s: &&Segment| !s.flags.contains(tabane_wire::Flags::SYN);
        let all = seen[&PathId(path)].iter().filter(acks);
        all.filter(|s| s.payload.is_empty() != data).map(|s| s.payload.len()).sum::<usize>()
    };
    let sent = count(0, true) + count(1, true);
    assert!((LEN / 3..LEN / 3 + LEN / 20).contains(&sent), "{sent} bytes of data");
    let pure = |path| {
        let plain = tabane_wire::Flags::ACK;
        seen[&PathId(path)].iter().filter(|s| s.payload.is_empty() && s.flags == plain).count()
    };
    assert_eq!(pure(0), pure(1));
}

/// The server uploads over path 0 (100 ms there and back), and ACKs may return by path 1 (4 ms).
/// The last view of the server's first subflow after `time`.
fn long_and_short(egress: &str, time: u64) -> (SubflowView, u64, Net) {
    let (mut client, mut server) = (config(1, 2), config(2, 2));
    for config in [&mut client, &mut server] {
        config.mptcp.egress = egress.parse().unwrap();
        config.mptcp.scheduler = Spec::named("minrtt");
        config.mptcp.tail_reinjection = false;
        config.tcp.congestion = Spec::named("reno");
    }
    let mut net = Net::new(client, server);
    net.links.insert(PathId(0), (ms(50), 125_000_000));
    net.links.insert(PathId(1), (ms(2), 1_250_000));
    net.server.answer = (data(100_000_000), true);
    net.connect(data(10), true);
    net.run(ms(time), |_| false);
    let info = net.server_info();
    let first = info.subflows.iter().find(|s| s.path == PathId(0)).unwrap();
    (first.view, first.rto.as_millis(), net)
}

#[test]
fn hayack_shortens_the_loop_and_the_timeout_still_waits_for_the_own_path() {
    let (own, _, _) = long_and_short("own", 500);
    assert!(own.srtt >= ms(100), "{:?}", own.srtt);
    let (view, rto, net) = long_and_short("hayack", 500);
    let forward = own.srtt - ms(100);
    assert!(view.srtt < ms(60) + forward, "{:?}", view.srtt);
    assert!(rto >= 290, "RTO {rto} ms: an ACK by the own path takes 100 ms and its variance 200");
    let timeouts: u64 = {
        let mut net = net;
        net.server_info().subflows.iter().map(|s| s.stats.timeouts).sum()
    };
    assert_eq!(timeouts, 0);
}

/// Slow start by the faster path doubles twice as often; compensated, as often as without.
#[test]
fn compensation_grows_as_by_the_own_path() {
    let rate = |egress, ms| {
        let (view, _, _) = long_and_short(egress, ms);
        view.cwnd as f64 / view.srtt.as_secs_f64()
    };
    // Five round trips after the start: later the peer's window limits the faster loop.
    // Compensated acknowledgements still come half a round trip earlier, and TCP doubles by
    // steps: at most one step, and its RTT is that of the faster loop's queue.
    let (own, raw, fair) = (rate("own", 500), rate("hayack", 500), rate("hayack-fair", 500));
    assert!(raw > 4.0 * own, "own {own}, raw {raw}");
    assert!((0.9..2.2).contains(&(fair / own)), "own {own}, fair {fair}");
}

/// A stack that lets copies in answers each: S1's "server answered each copy".
#[test]
fn copies_that_are_let_in_are_answered_by_dsack() {
    let dsacks = |remove_copies| {
        let (mut client, mut server) = (config(1, 2), config(2, 2));
        client.mptcp.egress = Spec::named("bicast");
        server.mptcp.remove_copies = remove_copies;
        server.mptcp.egress = Spec::named("own");
        let mut net = net(client, server);
        let count = Rc::new(RefCell::new(0));
        let seen = count.clone();
        net.filter = Box::new(move |c| {
            let sack = c.segment.options.sack.as_slice();
            let dsack = sack.first().is_some_and(|b| b.0.before(c.segment.ack));
            *seen.borrow_mut() += u32::from(!c.up && dsack);
            true
        });
        net.connect(data(600_000), true);
        assert!(net.run(secs(60), |n| n.server.conns.values().any(|a| a.finished)));
        let info = net.server_info();
        let dropped: u64 = info.subflows.iter().map(|s| s.stats.dropped).sum();
        (*count.borrow(), dropped)
    };
    let ((removed, few), (let_in, many)) = (dsacks(true), dsacks(false));
    assert!(let_in > 100 && let_in > 2 * removed, "{removed} DSACKs, {let_in} without removal");
    // Copies by the slower path, when newer segments have come by the faster, fail PAWS.
    assert!(many > 100 && many > 2 * few, "{few} dropped, {many} without removal");
}
