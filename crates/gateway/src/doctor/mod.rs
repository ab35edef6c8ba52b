//! What is wrong with the links of an agent, and what to do about it.
//!
//! Facts are gathered first: the agent's status, from one that runs or from a client that is run
//! for a few seconds for it (`trial`), and what this machine says of interfaces and routes
//! (`host::Host`). `diagnose` is a function of these, so it is tested with drawn ones. It changes
//! nothing.

mod diagnose;
mod host;
mod lan;
mod routes;
mod rules;
mod trial;
mod tun;

#[cfg(test)]
pub(crate) use routes::MainRoute;

use crate::config::{ClientConfig, Loaded};
use crate::model::Status;
use diagnose::diagnose;
use host::{Host, Want};
use serde::Serialize;
use tabane_config::source_document::Problem;

/// The result of one check.
#[derive(Clone, PartialEq, Eq, Serialize, Debug)]
pub struct Finding {
    /// A path's name, or `agent`, `server`, `clock`, `tun`, `lan`.
    pub about: String,
    /// `interface`, `address`, `route`, `tunnel`, `mtu`, `nat`, `loss`, `rtt`, `role`, `quota`,
    /// `file`, `left` ...
    pub check: &'static str,
    /// How it went.
    pub verdict: Verdict,
    /// What was found; for people.
    pub text: String,
    /// What to do.
    pub remedy: Option<String>,
}

/// How a check went.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Debug)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// As it should be.
    Good,
    /// Worth knowing.
    Note,
    /// Wrong.
    Bad,
    /// It could not be checked; the text says why.
    Unknown,
}

/// Examines the links of a running agent, else those of a configuration, which is then tried for up
/// to 8 s; and why that could not be, if it could not. What is doubtful about the configuration is
/// found, too.
#[must_use]
pub fn examine(
    running: Option<&Status>,
    config: Option<&Loaded<ClientConfig>>,
) -> (Vec<Finding>, Option<String>) {
    let warnings = config.iter().flat_map(|loaded| loaded.warnings.iter().cloned());
    let mut findings: Vec<Finding> = warnings.map(Finding::of_warning).collect();
    let config = config.map(|loaded| &loaded.config);
    let (wants, no_server) = match (config, running) {
        (Some(config), _) => Want::of_config(config),
        (None, Some(status)) => (Want::of_status(status), None),
        (None, None) => (Vec::new(), None),
    };
    let tried = match (running, config) {
        (None, Some(config)) => Some(trial::trial(config)),
        _ => None,
    };
    let (tried, failed) = match tried {
        Some(Ok(status)) => (Some(status), None),
        Some(Err(error)) => (None, Some(error.to_string())),
        None => (None, None),
    };
    let mut host = Host::look(wants, no_server);
    let status_lan = running.and_then(|status| status.tun.as_ref()?.lan.as_ref());
    let lan = match (status_lan, config.and_then(|config| config.lan.as_ref())) {
        (Some(lan), _) => Some(lan.interfaces.iter().map(|one| one.name.clone()).collect()),
        (None, lan) => lan.map(|lan| lan.interfaces.clone()),
    };
    if let Some(names) = lan {
        host.look_at_lan(names);
    }
    findings.extend(diagnose(running.or(tried.as_ref()), &host));
    (findings, failed)
}

impl Finding {
    /// Of a file that can be used, but is doubtful.
    fn of_warning(problem: Problem) -> Self {
        let Problem { file, position, message, help, .. } = problem;
        let line = position.map(|(line, _)| format!(":{line}")).unwrap_or_default();
        let text = format!("{file}{line}: {message}");
        Self { remedy: help, ..Self::new("agent", "file", Verdict::Note, text) }
    }

    fn new(about: &str, check: &'static str, verdict: Verdict, text: impl Into<String>) -> Self {
        Self { about: about.into(), check, verdict, text: text.into(), remedy: None }
    }

    fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }
}
