//! What a scenario asks of a host in the kernel's terms: sysctls, socket options, attributes of
//! routes. And what a stack cannot do, said before anything is made.
//!
//! Buffers: the engine's receive buffer is window, the kernel's is memory of which about half is
//! window; the engine's send buffer is payload, the kernel counts a segment's whole memory. So the
//! largest sizes are doubled on the way, unless the scenario has them in Linux's own terms.

use crate::Stack;
use std::fmt::Display;
use tabane_engine::config::TcpConfig;
use tabane_engine::egress;
use tabane_sim::scenario::{BufferAutotuning, Change, Fault, Host, Mptcp, MptcpSettings, Scenario};
use tabane_sim::{Plan, engine_config};

/// A host's settings for the kernel.
#[derive(Clone, PartialEq, Debug)]
pub struct KernelSettings {
    /// Sockets ask for MPTCP.
    pub mptcp: bool,
    /// Subflows beyond the first.
    pub subflows: usize,
    /// `TCP_CONGESTION`; the kernel's own default is not asked for.
    pub congestion: String,
    /// `TCP_NODELAY`.
    pub nodelay: bool,
    /// `SO_RCVBUF` and `SO_SNDBUF`.
    pub buffers: [Option<usize>; 2],
    /// Attributes of routes, with a space before each.
    pub route: String,
    /// Settings below `/proc/sys/`.
    pub sysctls: Vec<(String, String)>,
}

/// What controllers of ours are called that are as the kernel's.
const AS_IN_LINUX: [&str; 1] = ["cubic:linux=1"];

/// Congestion controllers of the engine that the kernel has, under the same name.
const CONTROLLERS: [&str; 3] = ["reno", "cubic", "bbr"];
/// What the kernel gets where a scenario does not say: the engine's default is a relative of it.
const CONGESTION: &str = "cubic";
/// The kernel's only scheduler, as the engine calls it.
const SCHEDULER: &str = "minrtt";

impl KernelSettings {
    /// Those of a host that [`refuse`] has let pass.
    pub fn of(plan: &Plan, host: usize) -> Self {
        let Plan { scenario, topology, .. } = plan;
        let config = engine_config(plan, host);
        let own = scenario.host.get(&topology.hosts[host].name);
        let linux = own.and_then(|h| h.tcp.linux).or(scenario.defaults.tcp.linux);
        let linux = linux.unwrap_or_default();
        let given = own.and_then(|h| h.congestion.as_ref());
        let given = given.or(scenario.defaults.congestion.as_ref());
        let tcp = &config.tcp;
        let mut sysctls = vec![
            ("net/ipv4/tcp_no_metrics_save".to_owned(), "1".to_owned()),
            ("net/ipv4/tcp_rmem".to_owned(), triple(linux.rmem.map(|t| t.0), receive(tcp))),
            ("net/ipv4/tcp_wmem".to_owned(), triple(linux.wmem.map(|t| t.0), send(tcp))),
        ];
        let mut set = |key: &str, value: u64| sysctls.push((key.to_owned(), value.to_string()));
        set("net/ipv4/tcp_sack", tcp.sack.into());
        set("net/ipv4/tcp_timestamps", tcp.timestamps.into());
        set("net/ipv4/tcp_ecn", tcp.ecn.into());
        set("net/ipv4/tcp_syn_retries", tcp.syn_retries.into());
        set("net/ipv4/tcp_retries2", tcp.retries.into());
        set("net/ipv4/tcp_slow_start_after_idle", tcp.idle_restart.into());
        if config.mptcp.enabled {
            set("net/mptcp/checksum_enabled", config.mptcp.checksum.into());
            set("net/mptcp/stale_loss_cnt", config.mptcp.stale_after.into());
        }
        let base = TcpConfig::default();
        let mut route = String::new();
        if tcp.initial_window != base.initial_window {
            route += &format!(" initcwnd {}", tcp.initial_window);
        }
        if tcp.rto_min != base.rto_min {
            route += &format!(" rto_min {}ms", tcp.rto_min.as_micros().div_ceil(1000));
        }
        if tcp.mss_max != base.mss_max {
            route += &format!(" advmss {}", tcp.mss_max);
        }
        Self {
            mptcp: config.mptcp.enabled,
            subflows: usize::from(config.mptcp.max_subflows.max(1)) - 1,
            congestion: given.map_or(CONGESTION.to_owned(), |choice| choice.0.name.clone()),
            nodelay: !tcp.nagle,
            buffers: [linux.so_rcvbuf, linux.so_sndbuf].map(|s| s.map(|size| size.0 as usize)),
            route,
            sysctls,
        }
    }
}

fn triple(given: Option<[u64; 3]>, own: [u64; 3]) -> String {
    given.unwrap_or(own).map(|n| n.to_string()).join(" ")
}

fn receive(tcp: &TcpConfig) -> [u64; 3] {
    let limit = |n: u64| n.min(1 << 30);
    let (first, most) = (limit(2 * tcp.receive_buffer), limit(2 * tcp.receive_buffer_max));
    [first.min(4096), first.min(most), most]
}

fn send(tcp: &TcpConfig) -> [u64; 3] {
    let most = (2 * tcp.send_buffer).min(1 << 30);
    [most.min(4096), most.min(16_384), most]
}

/// What of a scenario the lab, or the stack in it, cannot do.
pub fn refuse(scenario: &Scenario, stack: Stack) -> Result<(), Fault> {
    if let Some(name) = scenario.proxy.names().next() {
        return Err(Fault::new(&[&"proxy", &name], "the lab has no proxies")
            .help("run it in simulated time: tabane sim run"));
    }
    if let Some((name, _)) = scenario.link.iter().find(|(_, link)| link.medium.is_some()) {
        let at: &[&dyn Display] = &[&"link", &name, &"medium"];
        return Err(Fault::new(at, "links of the lab share no medium")
            .help("remove it, or run it in simulated time: tabane sim run"));
    }
    if let Some(name) = scenario.tunnel.names().next() {
        return Err(Fault::new(&[&"tunnel", &name], "the lab has no tunnels of this kind")
            .help("run it in simulated time: tabane sim run"));
    }
    if let Some((name, _)) = scenario.path.iter().find(|(_, path)| !path.0.back.is_empty()) {
        let fault = Fault::new(&[&"path", &name, &"back"], "paths of the lab lead back as they go");
        return Err(fault.help("run it in simulated time: tabane sim run"));
    }
    for (n, flow) in scenario.flow.iter().enumerate() {
        if flow.refuse {
            return Err(Fault::new(&[&"flow", &n, &"refuse"], "flows of the lab are not refused")
                .help("remove it, or run it in simulated time: tabane sim run"));
        }
    }
    if scenario.offload && stack == Stack::Tabane {
        return Err(Fault::new(&[&"offload"], "the engine sends segments one by one in the lab")
            .help("remove it, or run it with --stack kernel"));
    }
    if scenario.closing {
        return Err(Fault::new(&[&"closing"], "the lab does not see how connections end")
            .help("remove it, or run it in simulated time: tabane sim run"));
    }
    for (n, change) in scenario.at.iter().enumerate() {
        let unknown = [("abort", change.abort), ("asleep", change.asleep.is_some())];
        if let Some((key, _)) = unknown.iter().find(|(_, given)| *given) {
            let message = format!("the lab knows no '{key}'");
            return Err(Fault::new(&[&"at", &n, key], message)
                .help("remove it, or run it in simulated time: tabane sim run"));
        }
        if change.mtu.is_some() {
            let fault = Fault::new(&[&"at", &n, &"mtu"], "the lab changes no MTU on the way");
            return Err(fault.help("give the link its MTU from the start: link.NAME.mtu"));
        }
        if stack == Stack::Kernel {
            refuse_change(n, change)?;
        }
    }
    if stack == Stack::Kernel {
        refuse_host(&[&"defaults"], &scenario.defaults)?;
        for (name, host) in scenario.host.iter() {
            refuse_host(&[&"host", &name], host)?;
        }
    }
    Ok(())
}

fn refuse_host(at: &[&dyn Display], host: &Host) -> Result<(), Fault> {
    let fault = |keys: &[&dyn Display], message: String| Fault::new(&[at, keys].concat(), message);
    if let Some(choice) = &host.congestion
        && !CONTROLLERS.contains(&choice.0.name.as_str())
    {
        let message = format!("the kernel has no '{}'", choice.0);
        let help = format!("it has {}", CONTROLLERS.join(", "));
        return Err(fault(&[&"congestion"], message).help(help));
    }
    if let Some(choice) = &host.congestion
        && !AS_IN_LINUX.contains(&choice.0.to_string().as_str())
        && choice.0.params != Default::default()
    {
        let message = format!("the kernel's '{}' has no parameters here", choice.0.name);
        let help = format!("leave them out (but for {})", AS_IN_LINUX.join(", "));
        return Err(fault(&[&"congestion"], message).help(help));
    }
    if let Some(choice) = &host.scheduler
        && choice.0.name != SCHEDULER
    {
        let message = format!("the kernel has no scheduler '{}'", choice.0);
        return Err(fault(&[&"scheduler"], message)
            .help(format!("its only one is '{SCHEDULER}': write that, or run --stack tabane")));
    }
    // The lab's switch has the others. This one asks something of those who get ACKs as well.
    if let Some(choice) = &host.egress
        && egress::build(&choice.0).is_ok_and(|policy| policy.compensates())
    {
        let message = format!("'{}' is for the kernel's congestion control to do", choice.0);
        return Err(fault(&[&"egress"], message).help("write \"hayack\", or run --stack tabane"));
    }
    let help = "leave it out, or run --stack tabane";
    let tcp = &host.tcp;
    let unknown = [
        ("ack_delay", tcp.ack_delay.is_some()),
        ("quick_acks", tcp.quick_acks.is_some()),
        ("rto_initial", tcp.rto_initial.is_some()),
        ("rto_max", tcp.rto_max.is_some()),
        ("keepalive", tcp.keepalive.is_some()),
        ("time_wait", tcp.time_wait.is_some()),
        ("autotuning", tcp.autotuning == Some(BufferAutotuning::Early)),
    ];
    if let Some((key, _)) = unknown.iter().find(|(_, given)| *given) {
        let message = format!("the lab cannot set '{key}' of the kernel's TCP");
        return Err(fault(&[&"tcp", key], message).help(help));
    }
    if let Some(Mptcp::Settings(settings)) = &host.mptcp {
        let known = MptcpSettings {
            checksum: settings.checksum,
            max_subflows: settings.max_subflows,
            stale_after: settings.stale_after,
            // What it does anyway.
            remove_copies: settings.remove_copies.filter(|remove| !remove),
            ..MptcpSettings::default()
        };
        if *settings != known {
            let message = "of MPTCP, the lab sets only checksum, max_subflows and stale_after of \
                           the kernel, which does not remove copies";
            return Err(fault(&[&"mptcp"], message.into()).help(help));
        }
    }
    Ok(())
}

fn refuse_change(n: usize, change: &Change) -> Result<(), Fault> {
    let unknown = [
        ("scheduler", change.scheduler.is_some()),
        ("egress", change.egress.is_some()),
        ("subflow", change.subflow.is_some()),
        ("flow", change.flow.is_some()),
    ];
    if let Some((key, _)) = unknown.iter().find(|(_, given)| *given) {
        let message = format!("the kernel cannot change '{key}' of a live connection");
        return Err(Fault::new(&[&"at", &n, key], message).help("run --stack tabane"));
    }
    if let Some(choice) = &change.congestion
        && (!CONTROLLERS.contains(&choice.0.name.as_str()) || change.path.is_some())
    {
        let message = format!("the kernel cannot change to '{}' there", choice.0);
        let help = format!("it changes whole connections, to {}", CONTROLLERS.join(", "));
        return Err(Fault::new(&[&"at", &n, &"congestion"], message).help(help));
    }
    Ok(())
}
