//! What both roles check alike: addresses, names, policies, rules.

use super::load::Findings;
use super::matching::{RULES_MAX, Rules};
use super::rule::{Policies, Rule};
use crate::access::{Prefix, PrefixError};
use crate::keys;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use tabane_config::source_document::Fault;

/// A key's place: keys and indices.
pub(super) type At<'a> = &'a [&'a dyn Display];

/// Names are in metrics, file names and variables of the environment.
const NAME_MAX: usize = 32;
/// IFNAMSIZ without its terminator.
const INTERFACE_MAX: usize = 15;

impl Findings {
    pub(super) fn says<E: Display>(&mut self, at: At<'_>, result: Result<(), E>) {
        if let Err(error) = result {
            self.fault(Fault::new(at, error.to_string()));
        }
    }

    /// Each element must be a `T`.
    pub(super) fn each<T: FromStr<Err: Display>>(&mut self, at: At<'_>, list: &[String]) {
        for (n, text) in list.iter().enumerate() {
            self.says(&[at, &[&n]].concat(), text.parse::<T>().map(drop));
        }
    }

    pub(super) fn name(&mut self, at: At<'_>, name: &str) {
        let fits = |c: char| c.is_ascii_alphanumeric() || "._-@:".contains(c);
        if name.is_empty() || name.len() > NAME_MAX || !name.chars().all(fits) {
            let message = format!("'{name}' is no name");
            let help = format!("1 to {NAME_MAX} letters, digits and . _ - @ :");
            self.fault(Fault::new(at, message).help(help));
        }
    }

    pub(super) fn interface(&mut self, at: At<'_>, name: &str) {
        let fits = |c: char| !c.is_whitespace() && !c.is_control() && c != '/';
        if name.is_empty() || name.len() > INTERFACE_MAX || !name.chars().all(fits) {
            let message = format!("'{name}' cannot be the name of an interface");
            self.fault(Fault::new(at, message).help("see `ip link`"));
        }
    }

    /// `host:port`.
    pub(super) fn host_port(&mut self, at: At<'_>, text: &str) {
        let (host, port) = text.rsplit_once(':').unwrap_or((text, ""));
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let host_fits = match bare {
            Some(v6) => v6.parse::<std::net::Ipv6Addr>().is_ok(),
            None => is_host(host),
        };
        if !host_fits || !port.parse::<u16>().is_ok_and(|port| port > 0) {
            let message = format!("'{text}' is not host:port");
            let help = "write vpn.example.org:51820, 192.0.2.1:51820 or [2001:db8::1]:51820";
            self.fault(Fault::new(at, message).help(help));
        }
    }

    pub(super) fn range<T: PartialOrd + Display>(&mut self, at: At<'_>, value: T, low: T, high: T) {
        if value < low || value > high {
            let key = at.last().map(ToString::to_string).unwrap_or_default();
            let message = format!("{key} is {value}, allowed is {low} to {high}");
            self.fault(Fault::new(at, message));
        }
    }

    pub(super) fn preshared(&mut self, at: At<'_>, key: Option<&str>) {
        if let Some(key) = key {
            self.says(at, key.parse::<keys::Key>().map(drop));
        }
    }

    pub(super) fn policies(&mut self, at: At<'_>, policies: &Policies) {
        for (key, policy) in policies.given() {
            if let Err(error) = policy.check() {
                self.fault(Fault::policy(&[at, &[&key]].concat(), &error));
            }
        }
    }

    /// Of what the other side sends: files that they could name are there, and its own business.
    pub(super) fn policies_of_peer(&mut self, at: At<'_>, policies: &Policies) {
        match policies.file() {
            None => self.policies(at, policies),
            Some((key, file)) => {
                let message = format!("'{file}' would be a file of the server's");
                let help = "the server's own configuration may name it, for all clients";
                self.fault(Fault::new(&[at, &[&key]].concat(), message).help(help));
            }
        }
    }

    pub(super) fn rules(&mut self, rules: &[Rule]) {
        self.range(&[&"rule"], rules.len(), 0, RULES_MAX);
        let mut all = None;
        for (n, rule) in rules.iter().enumerate() {
            let before = self.faults.len();
            self.policies(&[&"rule", &n, &"up"], &rule.up);
            self.policies_of_peer(&[&"rule", &n, &"down"], &rule.down);
            for (key, fault) in Rules::faults(rule) {
                let at: Vec<&dyn Display> =
                    [&"rule" as &dyn Display, &n].into_iter().chain(key.each()).collect();
                self.fault(Fault::new(&at, fault));
            }
            if let Some(all) = all {
                let message = format!("rule {} takes everything before this one", all + 1);
                self.warn(
                    Fault::new(&[&"rule", &n], message).help("the first that matches counts"),
                );
            } else if before == self.faults.len() && rule.is_for_all() {
                all = Some(n);
            }
        }
    }

    pub(super) fn network(&mut self, at: At<'_>, v4: Option<Ipv4Addr>, v6: Option<Ipv6Addr>) {
        let given = [(v4.map(IpAddr::from), 16, "network"), (v6.map(IpAddr::from), 64, "network6")];
        for (address, len, key) in given {
            let Some(address) = address else { continue };
            let Err(PrefixError::Bits(_, prefix)) = Prefix::new(address, len) else { continue };
            let message = format!("{address} is not the first address of a /{len}");
            let fault = Fault::new(&[at, &[&key]].concat(), message);
            self.fault(fault.help(format!("{} is", prefix.address())));
        }
    }

    /// The web page: beyond this machine it asks for its token.
    pub(super) fn page(&mut self, web: Option<SocketAddr>, token: bool) {
        if let Some(web) = web.filter(|web| !token && !web.ip().to_canonical().is_loopback()) {
            let message = format!("who reaches {web} would see the page");
            let fault = Fault::new(&[&"web"], message);
            self.fault(fault.help("give 'web_token_file', or take a loopback address"));
        }
    }

    /// What is recorded.
    pub(super) fn recording(
        &mut self,
        keep: &Option<String>,
        folder: &Option<PathBuf>,
        names: bool,
    ) {
        if let Some(text) = keep {
            self.says(&[&"record"], tabane_record::keep(text).map(drop));
            return;
        }
        let without = [("record_folder", folder.is_some()), ("record_names", names)];
        for (key, _) in without.into_iter().filter(|(_, given)| *given) {
            let fault = Fault::new(&[&key], format!("'{key}' without 'record'"));
            self.warn(fault.help("record = \"7 days\" records"));
        }
    }

    /// Addresses that somebody listens on: no two the same (port 0 is any free one).
    pub(super) fn listeners(&mut self, all: &[(Vec<String>, SocketAddr)]) {
        let mut seen: BTreeMap<SocketAddr, String> = BTreeMap::new();
        for (at, address) in all {
            let name = at.join(".");
            let before = seen.insert(*address, name).filter(|_| address.port() != 0);
            if let Some(before) = before {
                let message = format!("{address} is that of '{before}' already");
                self.fault(Fault { at: at.clone(), message, help: None });
            }
        }
    }
}

/// Whether it can be the name of a host or an IPv4 address.
fn is_host(host: &str) -> bool {
    let fits = |c: char| c.is_alphanumeric() || c == '-' || c == '_';
    let label = |label: &str| !label.is_empty() && label.len() <= 63 && label.chars().all(fits);
    let numeric = host.chars().all(|c| c.is_ascii_digit() || c == '.');
    let ip = || host.parse::<std::net::Ipv4Addr>().is_ok();
    host.len() <= 253 && host.trim_end_matches('.').split('.').all(label) && (!numeric || ip())
}
