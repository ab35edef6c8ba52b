//! `[lan]` of a client: hosts behind it, whose packets go through the bond.

use super::check::At;
use super::client::ClientConfig;
use super::load::Findings;
use serde::{Deserialize, Serialize};
use tabane_config::source_document::Fault;

/// The client is the router of these hosts. It has a TUN device then, with or without `[tun]`.
#[derive(Clone, PartialEq, Default, Serialize, Deserialize, Debug)]
#[serde(default, deny_unknown_fields)]
pub struct LanConfig {
    /// Interfaces of this machine that the hosts are behind.
    pub interfaces: Vec<String>,
    /// What becomes of their packets while the bond cannot carry them.
    pub when_down: WhenDown,
}

/// What becomes of the packets of hosts behind the client while no path works, or after a crash.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, Debug)]
#[serde(rename_all = "lowercase")]
pub enum WhenDown {
    /// They do not leave; their senders are told so.
    #[default]
    Block,
    /// They leave by the routes of this machine, as if there were no client.
    Direct,
}

impl LanConfig {
    pub(super) fn check(&self, client: &ClientConfig, found: &mut Findings) {
        let list: At<'_> = &[&"lan", &"interfaces"];
        if self.interfaces.is_empty() {
            let fault = Fault::new(&[&"lan"], "no interfaces: there are no hosts to carry for");
            found.fault(fault.help("add interfaces = [\"br0\"], or leave [lan] out"));
        }
        let device = client.device().and_then(|tun| tun.name.as_deref()).unwrap_or("tabane0");
        for (n, name) in self.interfaces.iter().enumerate() {
            let at = [list, &[&n]].concat();
            found.interface(&at, name);
            if self.interfaces[..n].contains(name) {
                found.fault(Fault::new(&at, format!("{name} is named twice")));
            }
            if client.path.iter().any(|path| path.interface.as_ref() == Some(name)) {
                let message = format!("{name} is the link of a path");
                let help = "name the interface that the hosts are behind, not one to the Internet";
                found.fault(Fault::new(&at, message).help(help));
            }
            if name == device {
                found.fault(Fault::new(&at, format!("{name} is the TUN device of this client")));
            }
        }
    }
}
