//! `tabane kernel bicast` and `hayack`: packets by other interfaces.

use super::failed;
use crate::cmd::agent;
use crate::exit::Failure;
use crate::say;
use comfy_table::{Cell, Table};
use serde_json::json;
use std::net::IpAddr;
use tabane_kernel::steer::{self, Attached, Policy, Prefix, Request};

/// What both take.
#[derive(clap::Args, Debug)]
struct Common {
    /// Interfaces: two to eight, Ethernet or Wi-Fi.
    #[arg(required = true, num_args = 2..=8, value_name = "IFACE")]
    interfaces: Vec<String>,
    /// Only packets to these addresses, as in 192.0.2.0/24; may be given several times.
    #[arg(long, value_name = "PREFIX")]
    to: Vec<Prefix>,
    /// The next hop behind an interface [default: the gateway of its routes].
    #[arg(long, value_name = "IFACE=ADDRESS", value_parser = via)]
    via: Vec<(String, IpAddr)>,
}

#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  tabane kernel bicast attach wlan0 wwan0                      all of it, both ways
  tabane kernel bicast attach wlan0 wwan0 --acks --mptcp       what gives downloads most of the gain
  tabane kernel bicast attach wlan0 wwan0 --to 192.0.2.7 --via wwan0=10.64.0.1")]
pub(super) struct BicastArgs {
    #[command(flatten)]
    common: Common,
    /// Only pure ACKs of TCP.
    #[arg(long)]
    acks: bool,
    /// Only segments with an MPTCP option.
    #[arg(long)]
    mptcp: bool,
}

#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  tabane kernel hayack attach wlan0 wwan0
  tabane kernel hayack attach wlan0 wwan0 --target wlan0       not the fastest: that one, always
  tabane kernel hayack attach wlan0 wwan0 --pure               as published")]
pub(super) struct HayackArgs {
    #[command(flatten)]
    common: Common,
    /// The interface by which ACKs leave [default: the one with the smallest round-trip time].
    #[arg(long, value_name = "IFACE")]
    target: Option<String>,
    /// One ACK in this many also leaves by its own interface.
    #[arg(long, value_name = "N", default_value_t = 8,
        value_parser = clap::value_parser!(u32).range(1..=1000))]
    every: u32,
    /// As published: each ACK by the interface with the smallest round-trip time just then, and by
    /// no other.
    #[arg(long, conflicts_with_all = ["every", "target"])]
    pure: bool,
    /// Include ACKs of plain TCP.
    #[arg(long)]
    any_tcp: bool,
}

#[derive(clap::Args, Debug)]
pub(super) struct DetachArgs {
    /// The set that contains one of these interfaces [default: every set].
    #[arg(value_name = "IFACE")]
    interfaces: Vec<String>,
}

#[derive(clap::Args, Debug)]
pub(super) struct StatusArgs {
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

fn via(text: &str) -> Result<(String, IpAddr), String> {
    let wrong = || "write IFACE=ADDRESS, as in wwan0=10.64.0.1".to_owned();
    let (name, address) = text.split_once('=').ok_or_else(wrong)?;
    Ok((name.to_owned(), address.parse().map_err(|_| wrong())?))
}

impl BicastArgs {
    pub(super) fn attach(&self) -> Result<(), Failure> {
        attach(&Request {
            only_acks: self.acks,
            only_mptcp: self.mptcp,
            ..self.common.request(Policy::Bicast)
        })
    }
}

impl HayackArgs {
    pub(super) fn attach(&self) -> Result<(), Failure> {
        attach(&Request {
            only_acks: true,
            only_mptcp: !self.any_tcp,
            every: self.every,
            pure: self.pure,
            target: self.target.clone(),
            ..self.common.request(Policy::Hayack)
        })
    }
}

impl Common {
    fn request(&self, policy: Policy) -> Request {
        Request {
            policy,
            interfaces: self.interfaces.clone(),
            only_acks: false,
            only_mptcp: false,
            to: self.to.clone(),
            via: self.via.clone(),
            every: 1,
            pure: false,
            target: None,
        }
    }
}

fn attach(request: &Request) -> Result<(), Failure> {
    let set = steer::attach(request).map_err(failed)?;
    for member in &set.interfaces {
        let hops: Vec<String> = [
            member.gateway4.map(|gateway| gateway.to_string()),
            member.gateway6.map(|gateway| gateway.to_string()),
        ]
        .into_iter()
        .flatten()
        .collect();
        let name = &member.interface;
        say::note(&match hops.is_empty() {
            true => format!(
                "{name}: no gateway in the routes, so destinations must be its neighbours; \
                 else --via {name}=ADDRESS"
            ),
            false => format!("{name}: by {}", hops.join(" and ")),
        });
    }
    let verb = request.policy.verb();
    say::note(&format!("{verb} is attached; `tabane kernel {verb} detach` ends it"));
    Ok(())
}

impl DetachArgs {
    pub(super) fn detach(&self, policy: Policy) -> Result<(), Failure> {
        for set in steer::detach(policy, &self.interfaces).map_err(failed)? {
            let names: Vec<&str> = set.interfaces.iter().map(|m| m.interface.as_str()).collect();
            let sent: u64 = set.interfaces.iter().map(|member| member.sent).sum();
            let names = names.join(", ");
            say::note(&format!("detached from {names}; {sent} packets left by another interface"));
        }
        Ok(())
    }
}

impl StatusArgs {
    pub(super) fn show(&self, policy: Policy) -> Result<(), Failure> {
        let sets = steer::status(policy).map_err(failed)?;
        if self.json {
            return agent::print_json(&json!({ "attached": sets }));
        }
        if sets.is_empty() {
            say::note(&format!("{} is not attached", policy.verb()));
            return Ok(());
        }
        let parts: Vec<String> =
            sets.iter().map(|set| format!("{}\n{}", title(set), table(set))).collect();
        say::print(&parts.join("\n\n"))
    }
}

/// Which packets are meant.
fn title(set: &Attached) -> String {
    let mut text = match (set.only_acks, set.only_mptcp) {
        (false, false) => "every packet".to_owned(),
        (false, true) => "segments of MPTCP".to_owned(),
        (true, false) => "pure ACKs".to_owned(),
        (true, true) => "pure ACKs of MPTCP".to_owned(),
    };
    if !set.to.is_empty() {
        text += &format!(" to {}", set.to.join(", "));
    }
    match (set.policy, &set.target) {
        (Policy::Bicast, _) => text + ", by every interface",
        (Policy::Hayack, Some(target)) => {
            format!("{text}, by {target}; one of {} by its own too", set.every)
        }
        (Policy::Hayack, None) if set.pure => text + ", by the fastest interface alone",
        (Policy::Hayack, None) => {
            format!("{text}, by the fastest interface; one of {} by its own too", set.every)
        }
    }
}

fn table(set: &Attached) -> Table {
    let hayack = set.policy == Policy::Hayack;
    let mut heads = vec!["interface", "next hop", "meant", "sent for others", "failed"];
    if hayack {
        heads.extend(["by its own", "RTT", "ACKs leave by"]);
    }
    let mut table = agent::table(&heads);
    for member in &set.interfaces {
        let hop = |gateway: Option<String>| gateway.unwrap_or_else(|| "neighbours".into());
        let hops = match (member.gateway4, member.gateway6) {
            (Some(v4), Some(v6)) => format!("{v4}, {v6}"),
            (v4, v6) => hop(v4.map(|g| g.to_string()).or(v6.map(|g| g.to_string()))),
        };
        let mut row = vec![
            Cell::new(&member.interface),
            Cell::new(hops),
            agent::right(member.meant),
            agent::right(member.sent),
            agent::right(member.failed),
        ];
        if hayack {
            row.extend([
                agent::right(member.own),
                agent::right(member.rtt_ms.map_or("-".into(), |ms| format!("{ms:.1} ms"))),
                Cell::new(member.way.as_deref().unwrap_or("-")),
            ]);
        }
        table.add_row(row);
    }
    table
}
