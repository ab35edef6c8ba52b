//! Timed changes: links that fail or change, policies and subflows changed on live flows.

use super::params::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tabane_config::policy::PolicySpec;

with_link_params! {
    /// What happens at a time. One of `down`, `up`, `link`, `host` says to what.
    #[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields, default)]
    pub struct Change for change {
        /// When, from the start of the run.
        pub time: Time,
        /// Again and again with this period.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub every: Option<Time>,
        /// This link goes down: what is in it is lost, and what comes.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub down: Option<String>,
        /// With `down`: hosts at the link are not told (a black hole).
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        pub silent: bool,
        /// This link comes up again.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub up: Option<String>,

        /// This link gets other parameters.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub link: Option<String>,
        /// Only this direction of it; both if not given.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub direction: Option<LinkDirection>,
    } {
        /// Its MTU from now on.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub mtu: Option<u16>,

        /// This host's live connections change.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub host: Option<String>,
        /// With `host`: only those of this flow.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub flow: Option<String>,
        /// With `host`, if it is a proxy: only connections on this side of it.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub side: Option<ProxySide>,
        /// With `host`: another scheduler.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub scheduler: Option<PolicySpec>,
        /// With `host`: other congestion control (only on the subflows of `path`, if given).
        #[serde(skip_serializing_if = "Option::is_none")]
        pub congestion: Option<PolicySpec>,
        /// With `host`: another egress policy.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub egress: Option<PolicySpec>,
        /// With `host`: the path whose subflows change.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub path: Option<String>,
        /// With `host` and `path`: its subflows become backup, or active.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub backup: Option<bool>,
        /// With `host` and `path`: a subflow is added, closed or reset.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub subflow: Option<SubflowChange>,
        /// With `host`: connections are aborted.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        pub abort: bool,
        #[doc = "With `host`: it stands still for so long, as if suspended: its timers wait, and \
            what comes\nis lost. Longer than the run: it is gone."]
        #[serde(skip_serializing_if = "Option::is_none")]
        pub asleep: Option<Time>,
    }
}

impl Change {
    /// What it does, as people say it ("wifi down") or as the scenario writes it.
    pub fn words(&self) -> String {
        if let Some(name) = self.down.as_ref().or(self.up.as_ref()) {
            return format!("{name} {}", if self.up.is_some() { "up" } else { "down" });
        }
        let text = toml::to_string(self).unwrap_or_default();
        let lines = text.lines().filter(|line| {
            let key = line.split(' ').next().unwrap_or_default();
            !matches!(key, "time" | "every" | "link" | "host")
        });
        let name = self.link.as_ref().or(self.host.as_ref()).map_or("", String::as_str);
        format!("{name} {}", lines.collect::<Vec<_>>().join(", "))
    }

    /// Names of the keys given that say what is changed.
    pub fn targets(&self) -> Vec<&'static str> {
        let given = [
            ("down", self.down.is_some()),
            ("up", self.up.is_some()),
            ("link", self.link.is_some()),
            ("host", self.host.is_some()),
        ];
        given.iter().filter(|(_, given)| *given).map(|(name, _)| *name).collect()
    }

    /// Names of the link parameters given.
    pub fn link_keys(&self) -> Vec<&'static str> {
        let mut given = vec![("direction", self.direction.is_some())];
        given.extend(self.params_given());
        given.push(("mtu", self.mtu.is_some()));
        given.iter().filter(|(_, given)| *given).map(|(name, _)| *name).collect()
    }

    /// Names of the keys given that belong to `host`.
    pub fn host_keys(&self) -> Vec<&'static str> {
        let given = [
            ("flow", self.flow.is_some()),
            ("side", self.side.is_some()),
            ("scheduler", self.scheduler.is_some()),
            ("congestion", self.congestion.is_some()),
            ("egress", self.egress.is_some()),
            ("path", self.path.is_some()),
            ("backup", self.backup.is_some()),
            ("subflow", self.subflow.is_some()),
            ("abort", self.abort),
            ("asleep", self.asleep.is_some()),
        ];
        given.iter().filter(|(_, given)| *given).map(|(name, _)| *name).collect()
    }
}

/// Whether a flow called `name` is the one that is `meant`, or of the group of that name.
pub(crate) fn is_named(name: &str, meant: &str) -> bool {
    name.strip_prefix(meant).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// A direction of a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LinkDirection {
    /// Towards the server (or from the first of `between` to the second).
    Up,
    /// The other way.
    Down,
}

/// A side of a proxy.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ProxySide {
    /// Connections that it accepted.
    Listen,
    /// Connections that it opened.
    Connect,
}

/// What becomes of a subflow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SubflowChange {
    /// Another one is opened on the path.
    Add,
    /// Those on the path are closed.
    Remove,
    /// Those on the path are reset.
    Reset,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_meant_by_its_name_whatever_dots_that_has() {
        for (name, meant, is) in [
            ("a", "a", true),
            ("a.3", "a", true),
            ("a.b.3", "a.b", true),
            ("a.b.3", "a.b.3", true),
            ("ab", "a", false),
            ("a", "a.1", false),
        ] {
            assert_eq!(is_named(name, meant), is, "{name} {meant}");
        }
    }
}
