//! Address plans and what the kernel is told, word for word.

use super::*;
use crate::refuse;
use tabane_sim::scenario::{Document, Scenario};

const TWO_PATHS: &str = r#"
duration = "10s"
[defaults]
congestion = "reno"
scheduler = "minrtt"
[link.wifi]
rate = "20Mbps"
[link.lte]
rate = "5Mbps"
mtu = 1400
[path]
wifi = ["wifi"]
l = { links = ["lte"], backup = true }
[[flow]]
bulk = "1MB"
"#;

const ROUTER: &str = r#"
duration = "10s"
routers = ["r"]
[defaults]
mptcp = false
[link.wifi]
between = ["phone", "r"]
rate = "20Mbps"
[link.lte]
between = ["phone", "r"]
rate = "5Mbps"
[link.core]
between = ["r", "web"]
rate = "100Mbps"
[[flow]]
from = "phone"
to = "web"
bulk = "1MB"
"#;

fn scenario(text: &str) -> Scenario {
    // The order of keys is not the scenario's business.
    Scenario::parse("test", text).unwrap_or_else(|e| panic!("{e}"))
}

fn plan(text: &str, stack: Stack) -> NetworkPlan {
    NetworkPlan::new(&scenario(text).compile().unwrap(), stack, 4711)
}

fn has(host: &HostPlan, line: &str) {
    assert!(host.commands.iter().any(|c| c == line), "no '{line}' in {:#?}", host.commands);
}

#[test]
fn a_kernel_host_routes_by_source_and_the_server_answers_by_the_way_that_leads_back() {
    let text = TWO_PATHS.replace("l = {", "lte = {");
    let plan = plan(&text, Stack::Kernel);
    let [client, server] = plan.hosts.as_slice() else { panic!("{plan:?}") };
    assert_eq!((client.namespace.as_str(), client.name.as_str()), ("tbl4711-client", "client"));
    has(client, "addr add 10.0.0.1/32 dev wifi");
    has(client, "addr add 10.0.0.250/32 dev lo");
    has(client, "rule add priority 1000 from 10.0.0.2 lookup 101");
    has(client, "rule add priority 2000 to 10.0.1.250 lookup 100");
    has(client, "link set dev lte mtu 1400 txqueuelen 10000 up");
    has(client, "mptcp endpoint add 10.0.0.2 dev lte subflow backup");
    has(server, "rule add priority 2000 to 10.0.0.1 lookup 100");
    has(server, "rule add priority 2000 to 10.0.0.2 lookup 101");
    assert!(!server.commands.iter().any(|c| c.contains("endpoint")), "{:#?}", server.commands);
}

#[test]
fn the_engines_packets_are_forwarded_path_by_path() {
    let plan = plan(TWO_PATHS, Stack::Tabane);
    let client = &plan.hosts[0];
    // `ip` would take one letter for a keyword.
    assert_eq!(client.devices[1].link, "path1");
    assert_eq!(client.devices[1].engine.as_deref(), Some("eng1"));
    has(client, "rule add priority 1000 iif eng1 lookup 101");
    has(client, "rule add priority 1000 iif path1 lookup 201");
    has(client, "route add default dev eng1 table 201");
    assert!(client.sysctls.contains(&("net/ipv4/ip_forward".into(), "1".into())));
    assert!(!client.commands.iter().any(|c| c.contains("addr add")), "{:#?}", client.commands);
}

#[test]
fn routers_are_routes() {
    let plan = plan(ROUTER, Stack::Kernel);
    let names: Vec<&str> = plan.hosts.iter().map(|h| h.name.as_str()).collect();
    assert_eq!(names, ["phone", "web"]);
    let web = &plan.hosts[1];
    assert_eq!(web.devices.len(), 1);
    has(web, "rule add priority 2000 to 10.0.0.2 lookup 100");
    assert!(!web.commands.iter().any(|c| c.starts_with("mptcp")), "plain TCP");
}

#[test]
fn ipv6_has_its_own_lengths() {
    let plan = plan(&format!("ip = 6\n{TWO_PATHS}"), Stack::Kernel);
    has(&plan.hosts[0], "addr add fd00::1/128 dev wifi nodad");
    has(&plan.hosts[0], "rule add priority 1000 from fd00::2 lookup 101");
}

#[test]
fn the_kernel_is_told_what_the_engine_would_be() {
    let text = format!(
        "{TWO_PATHS}\n[host.server]\ncongestion = \"cubic\"\n\
         tcp = {{ send_buffer = \"1MB\", receive_buffer_max = \"2MB\", initial_window = 4, \
         sack = false, nagle = false }}\n"
    );
    let scenario = scenario(&text);
    let plan = scenario.compile().unwrap();
    let settings = |host| KernelSettings::of(&plan, host);
    let (client, server) = (settings(0), settings(1));
    assert_eq!((client.congestion.as_str(), server.congestion.as_str()), ("reno", "cubic"));
    assert_eq!((client.nodelay, server.nodelay), (false, true));
    assert_eq!(server.route, " initcwnd 4");
    let has = |key: &str, value: &str| {
        let pair = (key.to_owned(), value.to_owned());
        assert!(server.sysctls.contains(&pair), "no {pair:?} in {:#?}", server.sysctls);
    };
    has("net/ipv4/tcp_sack", "0");
    has("net/ipv4/tcp_wmem", "4096 16384 2000000");
    has("net/ipv4/tcp_rmem", "4096 262144 4000000");
}

/// The emulator's directions are each for themselves.
#[test]
fn a_medium_is_refused_with_its_place() {
    let text = "[link.a]\nrate = \"54Mbps\"\nmedium = \"wifi\"\n[[flow]]\nbulk = \"1MB\"\n";
    let document = Document::parse("file", text, &[]).unwrap();
    let scenario = document.variants().unwrap().remove(0).plan.scenario;
    for stack in [Stack::Kernel, Stack::Tabane] {
        let said = document.error(refuse(&scenario, stack).unwrap_err()).to_string();
        assert!(said.starts_with("file:3:10:") && said.contains("tabane sim run"), "{said}");
    }
}

#[test]
fn what_cannot_be_done_is_refused_with_its_place() {
    let cases = [
        ("[host.client]\ncongestion = \"lia\"", "lia", "reno, cubic, bbr"),
        ("[host.client]\nscheduler = \"ecf\"", "ecf", "minrtt"),
        ("[host.client]\negress = \"hayack-fair\"", "hayack-fair", "--stack tabane"),
        ("[host.server]\nmptcp = { remove_copies = true }", "copies", "--stack tabane"),
        ("[host.client]\ntcp = { ack_delay = \"1ms\" }", "ack_delay", "--stack tabane"),
        ("[host.client]\nmptcp = { race = false }", "max_subflows", "--stack tabane"),
        ("[[at]]\ntime = \"1s\"\nlink = \"lte\"\nmtu = 1000", "MTU", "link.NAME.mtu"),
        ("[[at]]\ntime = \"1s\"\nhost = \"client\"\nasleep = \"1s\"", "asleep", "sim run"),
        ("[[at]]\ntime = \"1s\"\nhost = \"client\"\nscheduler = \"ecf\"", "scheduler", "tabane"),
    ];
    for (more, names, helps) in cases {
        let document = Document::parse("file", &format!("{TWO_PATHS}\n{more}\n"), &[]).unwrap();
        let scenario = document.variants().unwrap().remove(0).plan.scenario;
        let fault = refuse(&scenario, Stack::Kernel).unwrap_err();
        let said = document.error(fault).to_string();
        let place = said.starts_with("file:") && said.contains(" | ");
        assert!(place && said.contains(names) && said.contains(helps), "{more}: {said}");
        let either = more.contains("mtu") || more.contains("asleep");
        assert_eq!(refuse(&scenario, Stack::Tabane).is_err(), either, "{more}");
    }
}

#[test]
fn what_the_switch_does_is_not_refused() {
    for egress in ["own", "bicast", "bicast:syn=1", "bicast-ack", "hayack", "hayack:every=4"] {
        let more = format!("[host.client]\negress = \"{egress}\"");
        let server = "[host.server]\nmptcp = { remove_copies = false }";
        let scenario = scenario(&format!("{TWO_PATHS}\n{more}\n{server}\n"));
        assert!(refuse(&scenario, Stack::Kernel).is_ok(), "{egress}");
    }
}

#[test]
fn no_device_checks_by_which_way_a_source_should_come() {
    let plan = plan(TWO_PATHS, Stack::Kernel);
    for device in ["all", "default", "wifi", "path1"] {
        let setting = (format!("net/ipv4/conf/{device}/rp_filter"), "0".to_owned());
        assert!(plan.hosts[0].sysctls.contains(&setting), "{device}: {:#?}", plan.hosts[0]);
    }
}
