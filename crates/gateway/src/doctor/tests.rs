//! Drawn facts, and what is said of them.

use super::*;
use crate::doctor::host::Interface;
use crate::doctor::lan::{LanFacts, dropping_chain};
use crate::doctor::{MainRoute, Want};
use crate::model::{LanStatus, TunStatus};
use crate::tun::OnLink;
use std::collections::BTreeSet;

const SERVER: &str = "203.0.113.5:51820";

/// A link that works, and its ground.
fn good(name: &str) -> (PathStatus, LinkFacts) {
    let path = PathStatus {
        name: name.into(),
        interface: Some(name.into()),
        local: Some("192.168.1.20:4000".parse().unwrap()),
        remote: Some(SERVER.parse().unwrap()),
        seen_as: Some("198.51.100.7:4000".parse().unwrap()),
        state: PathState::Up,
        rtt_ms: Some(20.0),
        loss: Some(0.0),
        mtu: 1440,
        handshake_age_s: Some(3.0),
        ..PathStatus::default()
    };
    let interface = Interface {
        name: name.into(),
        there: true,
        enabled: true,
        carrier: true,
        mtu: Some(1500),
        addresses: vec!["192.168.1.20".parse().unwrap()],
    };
    let facts = LinkFacts {
        want: Want { name: name.into(), remote: path.remote, ..Want::default() },
        interface: Some(interface),
        source_there: None,
        route: Some(Ok("192.168.1.20".parse().unwrap())),
    };
    (path, facts)
}

/// What is found when one of two good links is changed.
fn found(change: impl Fn(&mut PathStatus, &mut LinkFacts)) -> Vec<Finding> {
    let (wan1, facts1) = good("wan1");
    let (mut wan2, mut facts2) = good("wan2");
    change(&mut wan2, &mut facts2);
    let status = Status {
        agent: "client".into(),
        paths: vec![wan1, wan2],
        clock_ahead_ms: Some(2.0),
        ..Status::default()
    };
    let host = Host {
        interfaces: ["lo", "wan1", "wan2"].map(Into::into).into(),
        links: vec![facts1, facts2],
        unix_s: 1_790_000_000,
        no_server: None,
        routes: Vec::new(),
        rules: BTreeSet::new(),
        lan: None,
        left: Vec::new(),
    };
    diagnose(Some(&status), &host)
}

/// That one thing is not good, and what is said of it.
fn only(change: impl Fn(&mut PathStatus, &mut LinkFacts), verdict: Verdict, parts: [&str; 3]) {
    let all = found(change);
    let [check, text, remedy] = parts;
    let about_it: Vec<&Finding> =
        all.iter().filter(|f| f.verdict != Good && f.about != "agent").collect();
    let [finding] = about_it[..] else { panic!("{check}: {about_it:#?}") };
    assert_eq!((finding.about.as_str(), finding.check, finding.verdict), ("wan2", check, verdict));
    assert!(finding.text.contains(text), "{}", finding.text);
    assert!(finding.remedy.as_deref().unwrap_or_default().contains(remedy), "{:?}", finding.remedy);
}

#[test]
fn good_links_are_good() {
    let all = found(|_, _| {});
    assert!(all.iter().all(|finding| finding.verdict == Good), "{all:#?}");
    let checks: Vec<&str> =
        all.iter().filter(|f| f.about == "wan2").map(|finding| finding.check).collect();
    assert_eq!(checks, ["tunnel", "mtu", "loss", "rtt", "nat"]);
}

#[test]
fn every_fault_of_the_ground_has_its_words() {
    let absent = |path: &mut PathStatus| path.state = PathState::Absent;
    only(
        |p, f| {
            absent(p);
            f.interface.as_mut().unwrap().there = false;
        },
        Bad,
        ["interface", "wan2 is not there", "there are: wan1, wan2"],
    );
    only(
        |p, f| {
            absent(p);
            f.interface.as_mut().unwrap().enabled = false;
        },
        Bad,
        ["interface", "switched off", "ip link set wan2 up"],
    );
    only(
        |p, f| {
            absent(p);
            f.interface.as_mut().unwrap().carrier = false;
        },
        Bad,
        ["interface", "no connection", "cable"],
    );
    only(
        |p, f| {
            absent(p);
            f.interface.as_mut().unwrap().addresses.clear();
        },
        Bad,
        ["address", "no address", "DHCP"],
    );
    only(
        |p, f| {
            absent(p);
            f.interface.as_mut().unwrap().addresses = vec!["2001:db8::7".parse().unwrap()];
        },
        Bad,
        ["address", "wan2 has no IPv4 address, and the server is at 203.0.113.5", "IPv6"],
    );
    only(
        |p, f| {
            absent(p);
            f.route = Some(Err("Network is unreachable".into()));
        },
        Bad,
        ["route", "no way from", "metric"],
    );
    only(
        |p, f| {
            absent(p);
            f.want.source = "192.0.2.9".parse().ok();
            f.source_there = Some(false);
        },
        Bad,
        ["address", "192.0.2.9", "interface"],
    );
}

#[test]
fn every_fault_of_a_tunnel_has_its_words() {
    let silent = |p: &mut PathStatus| {
        p.state = PathState::Connecting;
        p.handshake_age_s = None;
        p.reason = "no answer to handshakes".into();
    };
    only(
        |p, _| silent(p),
        Bad,
        ["tunnel", "203.0.113.5:51820 does not answer: no answer to handshakes", "port 51820"],
    );
    only(|p, _| p.state = PathState::Down, Bad, ["tunnel", "does not answer", "worked before"]);
    only(|p, _| p.mtu = 1200, Bad, ["mtu", "too small for IPv6", "tunnel"]);
    only(|p, _| p.mtu = 1400, Note, ["mtu", "the interface allows 1440", ""]);
    only(|p, _| p.loss = Some(0.2), Bad, ["loss", "20.0 %", "antenna"]);
    only(|p, _| p.loss = Some(0.03), Note, ["loss", "3.0 %", ""]);
    only(|p, _| p.rtt_ms = Some(600.0), Note, ["rtt", "600.0 ms", "secondary"]);
    only(|p, _| p.seen_as = None, Unknown, ["nat", "private", ""]);
    only(|p, _| p.quota_left = Some(0), Bad, ["quota", "used up", "quota"]);
    only(|p, _| p.role = Role::Never, Note, ["role", "not used", "tabane path set wan2"]);
}

/// Of a client that was removed or whose server has stopped no path works, and none says why.
#[test]
fn that_no_path_works_may_be_the_servers_doing() {
    for worked in [None, Some(300.0)] {
        let (mut path, _) = good("wan1");
        (path.state, path.handshake_age_s) = (PathState::Down, worked);
        let status = Status { agent: "client".into(), paths: vec![path], ..Status::default() };
        let all = diagnose(Some(&status), &Host::default());
        let tunnel = all.iter().find(|finding| finding.check == "tunnel").unwrap();
        let remedy = tunnel.remedy.as_deref().unwrap();
        for cause in ["server", "removed", "disabled"] {
            assert!(remedy.contains(cause), "{remedy}");
        }
    }
}

/// What is found of a host in TUN mode with these routes of its own.
fn of_tun(kill_switch: bool, state: &str, routes: &[(&str, bool)]) -> Vec<Finding> {
    of_tun_beside(kill_switch, state, routes, BTreeSet::new())
}

/// The same beside rules of others.
fn of_tun_beside(
    kill_switch: bool,
    state: &str,
    routes: &[(&str, bool)],
    rules: BTreeSet<u32>,
) -> Vec<Finding> {
    let tun = TunStatus {
        device: "tabane0".into(),
        state: state.into(),
        reason: "because".into(),
        kill_switch,
        routes: vec!["0.0.0.0/0".into()],
        local_networks: vec!["10.0.0.0/8".into()],
        ..TunStatus::default()
    };
    let (path, facts) = good("wan1");
    let status = Status {
        agent: "client".into(),
        clock_ahead_ms: Some(1.0),
        paths: vec![path],
        tun: Some(tun),
        ..Status::default()
    };
    let route = |(to, routed): &(&str, bool)| MainRoute {
        to: to.parse().unwrap(),
        via: routed.then(|| "10.7.0.1".parse().unwrap()),
        device: "wan1".into(),
    };
    let routes = routes.iter().map(route).collect();
    let links = vec![facts];
    let host = Host { unix_s: 1_790_000_000, links, routes, rules, ..Host::default() };
    let all = diagnose(Some(&status), &host);
    all.into_iter().filter(|finding| finding.about == "tun" && finding.verdict != Good).collect()
}

/// The checks of a router that fail, and what they say; `change` makes it wrong.
fn of_lan(change: impl FnOnce(&mut LanFacts, &mut LanStatus)) -> Vec<(String, Verdict, String)> {
    let link = |prefix: &str, device: &str, source: &str| OnLink {
        prefix: prefix.parse().unwrap(),
        device: device.into(),
        source: source.parse().unwrap(),
    };
    let interface = Interface {
        name: "br0".into(),
        there: true,
        enabled: true,
        addresses: vec!["10.7.0.1".parse().unwrap()],
        ..Interface::default()
    };
    let mut facts = LanFacts {
        interfaces: vec![interface],
        networks: vec![
            link("10.7.0.0/24", "br0", "10.7.0.1"),
            link("10.9.1.0/24", "wan1", "10.9.1.1"),
            link("10.81.0.16/32", "tabane0", "10.81.0.16"),
        ],
        ..LanFacts::default()
    };
    let mut lan = LanStatus { state: "carried".into(), hosts: 3, ..LanStatus::default() };
    change(&mut facts, &mut lan);
    let (mut path, link) = good("wan1");
    path.interface = Some("wan1".into());
    path.state = if facts.strict.is_empty() { PathState::Up } else { PathState::Down };
    let tun = Some(TunStatus { state: "up".into(), lan: Some(lan), ..TunStatus::default() });
    let status = Status { agent: "client".into(), paths: vec![path], tun, ..Status::default() };
    let host =
        Host { unix_s: 1_790_000_000, links: vec![link], lan: Some(facts), ..Host::default() };
    let all = diagnose(Some(&status), &host).into_iter();
    let ours = |f: &Finding| f.about == "lan" || f.check == "rp_filter";
    all.filter(ours)
        .filter(|f| f.verdict != Good)
        .map(|f| (f.check.to_owned(), f.verdict, f.text + " / " + &f.remedy.unwrap_or_default()))
        .collect()
}

#[test]
fn each_way_to_get_a_router_wrong_is_named() {
    type Change = fn(&mut LanFacts, &mut LanStatus);
    assert_eq!(of_lan(|_, _| {}), []);
    let wrong: [(&str, Verdict, &str, Change); 10] = [
        ("interface", Bad, "br0 does not exist", |f, _| f.interfaces[0].there = false),
        ("interface", Bad, "ip link set br0 up", |f, _| f.interfaces[0].enabled = false),
        ("interface", Bad, "no address", |f, _| f.interfaces[0].addresses.clear()),
        ("network", Bad, "overlaps 10.7.0.0/16 of wan1", |f, _| {
            f.networks[1].prefix = "10.7.0.0/16".parse().unwrap();
        }),
        ("network", Bad, "overlaps 10.7.0.9 of tabane0", |f, _| {
            f.networks[2].prefix = "10.7.0.9/32".parse().unwrap();
        }),
        ("filter", Note, "ip filter FORWARD", |f, _| f.filter = Some("ip filter FORWARD".into())),
        ("forwarding", Bad, "from br0", |f, _| f.not_forwarding = vec!["br0".into()]),
        ("rp_filter", Bad, "conf.wan1.rp_filter=2", |f, _| f.strict = vec!["wan1".into()]),
        ("hosts", Note, "default route", |_, l| l.hosts = 0),
        ("hosts", Bad, "no path works", |_, l| l.state = "direct".into()),
    ];
    for (check, verdict, words, change) in wrong {
        let found = of_lan(change);
        let [(found_check, found_verdict, text)] = &found[..] else { panic!("{check}: {found:?}") };
        assert_eq!((found_check.as_str(), *found_verdict), (check, verdict), "{text}");
        assert!(text.contains(words), "{text}");
    }
}

#[test]
fn a_filter_that_drops_what_is_forwarded_is_found_in_what_nft_lists() {
    let listed = "table ip filter {\n\tchain INPUT {\n\t\ttype filter hook input priority filter; \
                  policy drop;\n\t}\n\tchain FORWARD {\n\t\ttype filter hook forward priority \
                  filter; policy drop;\n\t}\n}\n";
    assert_eq!(dropping_chain(listed).as_deref(), Some("ip filter FORWARD"));
    assert_eq!(dropping_chain(&listed.replace("drop", "accept")), None);
}

/// The kill switch is made of rules, so it does not hold what earlier ones have taken.
#[test]
fn rules_of_others_that_come_first_are_named() {
    for kill_switch in [false, true] {
        let rules = [5210, 5270].into();
        let found = of_tun_beside(kill_switch, "up", &[], rules);
        let [note] = &found[..] else { panic!("one thing is worth knowing: {found:?}") };
        assert_eq!((note.check, note.verdict), ("rules", Note));
        assert!(note.text.contains("5210, 5270"), "{}", note.text);
        assert_eq!(note.text.contains("kill switch"), kill_switch);
    }
}

#[test]
fn foreign_routes_are_named() {
    let halves = [("0.0.0.0/1", true), ("128.0.0.0/1", true)];
    let [open] = &of_tun(false, "up", &halves)[..] else { panic!("one thing is wrong") };
    assert_eq!((open.check, open.verdict), ("routes", Bad));
    assert!(open.text.contains("0.0.0.0/1 via 10.7.0.1 dev wan1"), "{}", open.text);
    let [held] = &of_tun(true, "up", &halves)[..] else { panic!("one thing is to be said") };
    assert_eq!((held.check, held.verdict), ("routes", Note));
    assert!(held.text.contains("128.0.0.0/1 via"), "{}", held.text);
    // The host's own networks, and the way to the server.
    let own = [("10.7.0.0/24", false), ("203.0.113.5/32", true)];
    assert_eq!(of_tun(true, "up", &own), []);
    assert_eq!(of_tun(false, "up", &own), []);
    // By a router, a private network too may be somebody's trick.
    assert_eq!(of_tun(true, "up", &[("10.9.0.0/16", true)]).len(), 1);
    assert_eq!(of_tun(true, "up", &[("198.51.100.0/24", false)]).len(), 1, "on the link, public");
    let [lost] = &of_tun(true, "lost", &[])[..] else { panic!("the device is lost") };
    assert_eq!((lost.check, lost.verdict), ("device", Bad));
}

#[test]
fn clocks_names_and_nothing_at_all() {
    let host = Host { unix_s: 1_790_000_000, ..Host::default() };
    let status = |ahead| Status {
        agent: "client".into(),
        clock_ahead_ms: ahead,
        paths: vec![good("wan1").0],
        ..Status::default()
    };
    let clock = |ahead| {
        let all = diagnose(Some(&status(ahead)), &host);
        all.into_iter().find(|finding| finding.about == "clock").unwrap().verdict
    };
    assert_eq!([None, Some(-3.0), Some(9e4)].map(clock), [Unknown, Good, Note]);
    let early = diagnose(None, &Host::default());
    assert_eq!((early[0].about.as_str(), early[0].verdict), ("clock", Bad));
    let named = Host { no_server: Some("a.example: no address".into()), ..host.clone() };
    assert_eq!(diagnose(None, &named)[0].verdict, Bad);
    let ground = Host { links: vec![good("wan1").1], ..host };
    let alone = diagnose(None, &ground);
    assert_eq!(alone.iter().map(|f| f.check).collect::<Vec<_>>(), ["route", "tunnel"]);
    let empty = Status { agent: "client".into(), ..Status::default() };
    assert!(diagnose(Some(&empty), &ground).iter().any(|f| f.check == "links" && f.verdict == Bad));
}

#[test]
fn a_server_that_may_not_ping_says_so() {
    let of = |no_pings: Option<&str>| {
        let status = Status {
            agent: "server".into(),
            no_pings: no_pings.map(Into::into),
            ..Status::default()
        };
        let host = Host { unix_s: 1_790_000_000, ..Host::default() };
        diagnose(Some(&status), &host).into_iter().find(|f| f.check == "pings").unwrap()
    };
    assert_eq!(of(None).verdict, Good);
    let note = of(Some("group 61000"));
    assert_eq!(note.verdict, Note);
    assert!(note.text.contains("group 61000"), "{}", note.text);
    assert!(note.remedy.unwrap().contains("ping_group_range"));
}

#[test]
fn what_a_killed_client_has_left_is_wrong_whoever_runs() {
    let left = Host { left: vec!["/var/lib/tabane/home.host.json".into()], ..Host::default() };
    for status in [None, Some(Status { agent: "client".into(), ..Status::default() })] {
        let all = diagnose(status.as_ref(), &left);
        let finding = all.iter().find(|finding| finding.check == "left").unwrap();
        assert_eq!((finding.about.as_str(), finding.verdict), ("tun", Bad));
        assert!(finding.text.contains("home.host.json"), "{}", finding.text);
        assert!(finding.remedy.as_deref().unwrap().contains("client cleanup"));
    }
}
