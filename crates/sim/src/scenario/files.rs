//! Files that the policies of a scenario are made from.

use super::{Host, Scenario};
use std::path::Path;
use tabane_config::policy::PolicySpec;

impl Scenario {
    /// Files that policies are made from, as they are named.
    pub fn policy_files(&self) -> impl Iterator<Item = &str> {
        let sides = self.proxy.0.iter().flat_map(|(_, proxy)| [&proxy.listen, &proxy.connect]);
        let named = self.host.0.iter().map(|(_, host)| host).chain(sides);
        let groups = self.group.iter().map(|group| &group.host);
        let hosts = [&self.defaults]
            .into_iter()
            .chain(named)
            .chain(groups)
            .flat_map(|host| [&host.scheduler, &host.congestion, &host.egress].map(file));
        let tunnels = self.tunnel.0.iter();
        let tunnels = tunnels.flat_map(|(_, t)| [&t.scheduler, &t.congestion].map(file));
        let hosts = hosts.chain(tunnels);
        let of_change = self
            .at
            .iter()
            .flat_map(|change| [&change.scheduler, &change.congestion, &change.egress].map(file));
        hosts.chain(of_change).flatten()
    }

    /// Makes them relative to `folder`.
    pub(super) fn resolve_policy_files(&mut self, folder: &Path) {
        let sides = self.proxy.0.iter_mut().flat_map(|(_, proxy)| {
            let super::Proxy { listen, connect } = proxy;
            [listen, connect]
        });
        let named = self.host.0.iter_mut().map(|(_, host)| host).chain(sides);
        let groups = self.group.iter_mut().map(|group| &mut group.host);
        let hosts = [&mut self.defaults].into_iter().chain(named).chain(groups).flat_map(|host| {
            let Host { scheduler, congestion, egress, .. } = host;
            [scheduler, congestion, egress]
        });
        let changes = self
            .at
            .iter_mut()
            .flat_map(|change| [&mut change.scheduler, &mut change.congestion, &mut change.egress]);
        let tunnels = self.tunnel.0.iter_mut();
        let tunnels = tunnels.flat_map(|(_, t)| [&mut t.scheduler, &mut t.congestion]);
        for policy in hosts.chain(tunnels).chain(changes).flatten() {
            policy.resolve_file(folder);
        }
    }
}

fn file(policy: &Option<PolicySpec>) -> Option<&str> {
    policy.as_ref()?.0.params.file.as_deref()
}
