//! What a client asks of the server itself: the policies of what the server sends to it. Inside the
//! tunnels, as one JSON document on a TCP connection to the service address, which the client then
//! ends; the server answers by ending it too, or with a line that says what is wrong.
//!
//! The server knows no names: for a connection whose rule goes by the name that the program gave,
//! the client says the policies with the connection, in a datagram to the same address and port
//! ([`PolicyOverride`]): once before its SYN, and once more when it stands, in case the first was
//! lost.

use crate::config::{Choice, Policies, Protocol, Rule, Rules};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use tabane_engine::Instant;
use tabane_engine::mptcp::{Connection, Policy};

/// Where the server takes them, at its service address.
pub(crate) const PORT: u16 = 1;
/// Longest document, bytes; what is longer is refused.
pub(crate) const LENGTH_MAX: usize = 256 << 10;
/// Destinations and ports of its rules: each datagram and connection is compared with all of them.
const ENTRIES_MAX: usize = 1024;

/// Policies from the server to a client. What goes by a name holds for nothing there: see
/// [`PolicyOverride`].
#[derive(Clone, PartialEq, Default, Serialize, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub(crate) struct PolicyRequests {
    /// Of everything.
    pub(crate) down: Policies,
    /// Of some.
    pub(crate) rule: Vec<Rule>,
}

impl PolicyRequests {
    /// As it travels.
    #[must_use]
    pub(crate) fn emit(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("invariant: plain data")
    }

    /// What a client sent; `own` is what holds where it leaves something open.
    ///
    /// # Errors
    /// What is wrong with it, for people.
    pub(crate) fn parse(text: &[u8], own: &Policies) -> Result<Rules, String> {
        let policy_requests: Self =
            serde_json::from_slice(text).map_err(|error| error.to_string())?;
        let rules = policy_requests.rule.iter().map(|rule| &rule.down);
        rules.chain([&policy_requests.down]).try_for_each(refuse_files)?;
        let down = policy_requests.down.or(own);
        let named = |rule: &Rule| rule.names.is_empty();
        let rules: Vec<Rule> = policy_requests.rule.into_iter().filter(named).collect();
        let entries = rules.iter().map(|rule| rule.destinations.len() + rule.ports.len());
        if entries.sum::<usize>() > ENTRIES_MAX {
            return Err(format!(
                "rules of a client have at most {ENTRIES_MAX} destinations and ports"
            ));
        }
        for policies in rules.iter().map(|rule| &rule.down).chain([&down]) {
            policies.check().map_err(|error| error.to_string())?;
        }
        Rules::compile(&rules, &Policies::default(), &down).map_err(|error| error.to_string())
    }
}

/// Policies of one connection.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub(crate) struct PolicyOverride {
    /// The connection's inner address at the client.
    pub(crate) source: SocketAddr,
    /// Where it goes.
    pub(crate) target: SocketAddr,
    /// It stands already: said once more.
    pub(crate) late: bool,
    /// From the server to the client.
    pub(crate) down: Policies,
}

impl PolicyOverride {
    /// As it travels.
    #[must_use]
    pub(crate) fn emit(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("invariant: plain data")
    }

    /// What a client sent, and what comes of it; `own` is what holds where it leaves something
    /// open.
    ///
    /// # Errors
    /// What is wrong with it, for people.
    pub(crate) fn parse(text: &[u8], own: &Policies) -> Result<(Self, Choice), String> {
        let policy_override: Self =
            serde_json::from_slice(text).map_err(|error| error.to_string())?;
        refuse_files(&policy_override.down)?;
        let down = policy_override.down.or(own);
        down.check().map_err(|error| error.to_string())?;
        let rules = Rules::compile(&[], &Policies::default(), &down);
        let choice = rules.map_err(|error| error.to_string())?.rest().down.clone();
        Ok((policy_override, choice))
    }
}

/// A client does not say which of the server's files are read.
fn refuse_files(policies: &Policies) -> Result<(), String> {
    match policies.file() {
        None => Ok(()),
        Some((key, _)) => {
            Err(format!("{key}: a policy out of a file is the server's own to choose"))
        }
    }
}

/// The policies of what is sent to a client on a connection that it opened to `target`.
#[must_use]
pub(crate) fn choice(rules: &Rules, target: SocketAddr) -> &Choice {
    &rules.find(Protocol::Tcp, target, None).down
}

/// Puts policies into force on a connection; those that were built when they were read.
pub(crate) fn enforce(now: Instant, conn: &mut Connection, choice: &Choice) {
    for policy in [
        Policy::Scheduler(choice.scheduler.clone()),
        Policy::Congestion(None, choice.congestion.clone()),
        Policy::Egress(choice.egress.clone()),
    ] {
        // Compiling the rules has built each of them once.
        let _ = conn.set_policy(now, policy);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tabane_engine::policy::Spec;

    #[test]
    fn requests_arrive_as_they_were_sent() {
        let down =
            Policies { scheduler: Some(Spec::named("redundant").into()), ..Policies::default() };
        let game = Rule {
            ports: vec!["27015".into()],
            down: Policies { egress: Some(Spec::named("bicast").into()), ..Policies::default() },
            ..Rule::default()
        };
        let named = Rule { names: vec!["example.org".into()], ..game.clone() };
        let policy_requests = PolicyRequests { down, rule: vec![named, game] };
        let own = Policies { congestion: Some(Spec::named("reno").into()), ..Policies::default() };
        let rules = PolicyRequests::parse(&policy_requests.emit(), &own).unwrap();
        let at = |port| choice(&rules, ([192, 0, 2, 1], port).into());
        let text = |choice: &Choice| {
            [&choice.scheduler, &choice.congestion, &choice.egress].map(ToString::to_string)
        };
        assert_eq!(text(at(27015)), ["redundant", "reno", "bicast"]);
        assert_eq!(text(at(80))[..2], ["redundant", "reno"]);
    }

    #[test]
    fn what_is_asked_for_one_connection_arrives() {
        let policy_override = PolicyOverride {
            source: "10.81.0.16:40000".parse().unwrap(),
            target: "192.0.2.1:443".parse().unwrap(),
            late: true,
            down: Policies {
                scheduler: Some(Spec::named("redundant").into()),
                ..Policies::default()
            },
        };
        let own = Policies { congestion: Some(Spec::named("reno").into()), ..Policies::default() };
        let (again, choice) = PolicyOverride::parse(&policy_override.emit(), &own).unwrap();
        assert_eq!(again, policy_override);
        assert_eq!(choice.scheduler.to_string(), "redundant");
        assert_eq!(choice.congestion.to_string(), "reno");
        let wrong = Policies { egress: Some(Spec::named("no").into()), ..Policies::default() };
        assert!(
            PolicyOverride::parse(&PolicyOverride { down: wrong, ..policy_override }.emit(), &own)
                .is_err()
        );
        assert!(PolicyOverride::parse(b"{}", &own).is_err());
    }

    /// A client does not make the server read a file, however it asks.
    #[test]
    fn files_of_the_server_are_not_for_clients_to_name() {
        let spec: Spec = "learned:file=/etc/shadow".parse().unwrap();
        let down = Policies { scheduler: Some(spec.into()), ..Policies::default() };
        let own = Policies::default();
        let rule = Rule { ports: vec!["80".into()], down: down.clone(), ..Rule::default() };
        let of_some = PolicyRequests { down: own.clone(), rule: vec![rule] };
        let of_all = PolicyRequests { down: down.clone(), rule: Vec::new() };
        for requests in [of_all, of_some] {
            let refused = PolicyRequests::parse(&requests.emit(), &own).unwrap_err();
            assert!(refused.starts_with("scheduler: a policy out of a file"), "{refused}");
        }
        let policy_override = PolicyOverride {
            source: "10.81.0.16:40000".parse().unwrap(),
            target: "192.0.2.1:443".parse().unwrap(),
            late: false,
            down,
        };
        let refused = PolicyOverride::parse(&policy_override.emit(), &own).unwrap_err();
        assert!(refused.starts_with("scheduler: a policy out of a file"), "{refused}");
    }

    #[test]
    fn nonsense_is_refused() {
        for text in [&b"{"[..], b"{}", br#"{"down":{"scheduler":"no"},"rule":[]}"#] {
            assert!(PolicyRequests::parse(text, &Policies::default()).is_err());
        }
    }
}
