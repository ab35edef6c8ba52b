//! `tabane kernel cc`: congestion controls for the kernel's connections.

use super::failed;
use crate::cmd::agent;
use crate::exit::Failure;
use crate::say;
use clap::Subcommand;
use comfy_table::Cell;
use serde_json::json;
use tabane_kernel::cc::{self, Control, Loaded};

#[derive(Subcommand, Debug)]
pub(super) enum Verb {
    /// Load one or several; they apply to the whole host, and stay until it restarts.
    #[command(after_help = "Examples:
  tabane kernel cc load highspeed
  tabane kernel cc load highspeed --as tabane_hs     where the kernel has one of that name
  iperf3 -c HOST -C highspeed                        a program that asks for it
  ip route change default via GW congctl highspeed   for every connection of a route
  sysctl -w net.ipv4.tcp_congestion_control=highspeed    for every new connection
Ordinary users may ask for it once it is in net.ipv4.tcp_allowed_congestion_control.")]
    Load {
        /// Which: highspeed (RFC 3649), ghstcp (gentle: Reno's growth while round-trip times rise).
        #[arg(required = true, value_name = "NAME", value_parser = control)]
        names: Vec<Control>,
        /// Name to load it under, at most 15 letters.
        #[arg(long = "as", value_name = "NAME")]
        alias: Option<String>,
    },
    /// Unload one; refused while connections use it.
    Unload {
        /// Its name, or that under which it was loaded.
        name: String,
        /// Unload it even while connections use it: they keep it until they end.
        #[arg(long)]
        force: bool,
    },
    /// Show what can be loaded, and what is loaded.
    List {
        /// Print one JSON document.
        #[arg(long)]
        json: bool,
    },
}

fn control(name: &str) -> Result<Control, String> {
    let names = || cc::ALL.iter().map(|control| control.name).collect::<Vec<_>>().join(", ");
    cc::find(name).copied().ok_or_else(|| format!("not one of {}", names()))
}

pub(super) fn run(verb: &Verb) -> Result<(), Failure> {
    match verb {
        Verb::Load { names, alias } => load(names, alias.as_deref()),
        Verb::Unload { name, force } => unload(name, *force),
        Verb::List { json } => list(*json),
    }
}

fn load(controls: &[Control], alias: Option<&str>) -> Result<(), Failure> {
    if controls.len() > 1 && alias.is_some() {
        return Err(Failure::usage("--as NAME is for one control, not for several"));
    }
    for control in controls {
        let loaded = cc::load(control, alias.unwrap_or(control.name)).map_err(failed)?;
        say::note(&format!("{} is loaded; sockets ask for {}", control.summary, loaded.name));
    }
    Ok(())
}

fn unload(name: &str, force: bool) -> Result<(), Failure> {
    for Loaded { name, connections, .. } in cc::unload(name, force).map_err(failed)? {
        let rest = match connections {
            0 => String::new(),
            n => format!("; connections that keep it until they end: {n}"),
        };
        say::note(&format!("{name} is unloaded{rest}"));
    }
    Ok(())
}

fn list(as_json: bool) -> Result<(), Failure> {
    let loaded = cc::list().map_err(failed)?;
    if as_json {
        return agent::print_json(&json!({ "loaded": loaded, "available": cc::available() }));
    }
    let mut table = agent::table(&["control", "name", "state", "connections", "what it is"]);
    for control in cc::ALL {
        let of_it: Vec<_> = loaded.iter().filter(|l| l.control == control.name).collect();
        if of_it.is_empty() {
            table.add_row([control.name, "-", "not loaded", "", control.summary]);
        }
        for one in of_it {
            table.add_row([
                Cell::new(control.name),
                Cell::new(&one.name),
                Cell::new(if one.available { "loaded" } else { "unloaded, still used" }),
                agent::right(one.connections),
                Cell::new(control.summary),
            ]);
        }
    }
    let available = cc::available().join(" ");
    say::print(&format!("{table}\n\nthis kernel offers: {available}"))
}
