//! What `--try` says, and what it does to a scenario.

use tabane_config::policy::PolicySpec;
use tabane_engine::policy::Spec;
use tabane_sim::scenario::{Host, Scenario};
use tabane_sim::topology::Topology;

/// Changes that are tried together.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Change {
    /// As the user wrote it.
    pub(super) name: String,
    /// Keys of the scenario.
    pub(super) sets: Vec<String>,
    policies: Vec<(&'static str, PolicySpec)>,
    roles: Vec<(String, Role)>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Role {
    Primary,
    Backup,
    Never,
}

const POLICIES: [&str; 3] = ["scheduler", "congestion", "egress"];

/// One change for each value of each `--try`.
///
/// # Errors
/// What to write, for people.
pub(super) fn parse(tries: &[String]) -> Result<Vec<Change>, String> {
    let mut changes = Vec::new();
    for text in tries {
        let joined: Vec<&str> = text.split('+').collect();
        let [one] = joined[..] else {
            let mut change = Change { name: text.clone(), ..Change::default() };
            for part in joined {
                let (key, value) = split(part)?;
                change.add(key, value)?;
            }
            changes.push(change);
            continue;
        };
        let (key, values) = split(one)?;
        for value in self::values(values) {
            let mut change = Change { name: format!("{key}={value}"), ..Change::default() };
            change.add(key, &value)?;
            changes.push(change);
        }
    }
    Ok(changes)
}

fn split(text: &str) -> Result<(&str, &str), String> {
    let wrong = || format!("'{text}': write KEY=VALUE, as in scheduler=necf,minrtt");
    let (key, value) = text.split_once('=').ok_or_else(wrong)?;
    Ok((key.trim(), value.trim()))
}

/// The values of a list; what follows a comma and has a `=` is a parameter of the one before it
/// (`ecf:beta=0.3,x=1,minrtt`).
fn values(text: &str) -> Vec<String> {
    let mut values: Vec<String> = Vec::new();
    for part in text.split(',') {
        match values.last_mut() {
            Some(last) if part.contains('=') && last.contains(':') => {
                last.push(',');
                last.push_str(part);
            }
            _ => values.push(part.trim().to_owned()),
        }
    }
    values
}

impl Change {
    fn add(&mut self, key: &str, value: &str) -> Result<(), String> {
        if let Some(policy) = POLICIES.into_iter().find(|policy| *policy == key) {
            let spec: Result<Spec, _> = value.parse();
            let spec = spec.map_err(|error| format!("{key}={value}: {error}"))?;
            self.policies.push((policy, PolicySpec(spec)));
        } else if let Some(path) = key.strip_prefix("role.") {
            let role = match value {
                "primary" => Role::Primary,
                "backup" => Role::Backup,
                "never" => Role::Never,
                "secondary" => {
                    return Err(format!(
                        "{key}=secondary: the simulator has no such role; try backup, or never"
                    ));
                }
                _ => return Err(format!("'{value}' is no role: primary, backup or never")),
            };
            self.roles.push((path.to_owned(), role));
        } else {
            self.sets.push(format!("{key}={value}"));
        }
        Ok(())
    }

    /// Makes it.
    ///
    /// # Errors
    /// For people: there is no such path.
    pub(super) fn apply(&self, scenario: &mut Scenario) -> Result<(), String> {
        for (policy, spec) in &self.policies {
            let set = |host: &mut Host| match *policy {
                "scheduler" => host.scheduler = Some(spec.clone()),
                "congestion" => host.congestion = Some(spec.clone()),
                _ => host.egress = Some(spec.clone()),
            };
            set(&mut scenario.defaults);
            scenario.host.0.iter_mut().for_each(|(_, host)| set(host));
        }
        for (path, role) in &self.roles {
            self.set_role(scenario, path, *role)?;
        }
        Ok(())
    }

    fn set_role(&self, scenario: &mut Scenario, path: &str, role: Role) -> Result<(), String> {
        if scenario.path.is_empty() {
            scenario.path.0 = Topology::implied_paths(scenario);
        }
        if scenario.path.is_empty() {
            return Err(format!(
                "role.{path}: links here say what they are between, and no path is named; \
                 name those whose roles change under [path], as in {path} = [\"LINK\", \"LINK\"]"
            ));
        }
        let Some(at) = scenario.path.position(path) else {
            let known: Vec<&str> = scenario.path.names().collect();
            return Err(format!("there is no path '{path}'; there are: {}", known.join(", ")));
        };
        if role != Role::Never {
            scenario.path.0[at].1.0.backup = role == Role::Backup;
            return Ok(());
        }
        if scenario.path.0.len() == 1 {
            return Err(format!("role.{path}=never: it is the only path"));
        }
        let (_, gone) = scenario.path.0.remove(at);
        let used = |link: &str| {
            scenario.path.iter().any(|(_, path)| path.0.links.iter().any(|other| other == link))
        };
        let links: Vec<&String> = gone.0.links.iter().filter(|link| !used(link)).collect();
        scenario.link.0.retain(|(name, _)| !links.contains(&name));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = "[link.wifi]\nrate = \"20Mbps\"\n[link.lte]\nrate = \"10Mbps\"\n\
                       [path]\nwifi = { links = [\"wifi\"] }\nlte = { links = [\"lte\"] }\n\
                       [host.server]\ncongestion = \"cubic\"\n[[flow]]\nbulk = \"1MB\"\n";

    fn one(text: &str) -> Result<Change, String> {
        Ok(parse(&[text.to_owned()])?.remove(0))
    }

    #[test]
    fn each_value_is_a_change_and_parameters_stay_together() {
        let tries =
            ["scheduler=roundrobin:cwnd_limited=0,minrtt", "congestion=bbr+role.lte=backup"];
        let changes = parse(&tries.map(str::to_owned)).unwrap();
        let names: Vec<&str> = changes.iter().map(|change| change.name.as_str()).collect();
        let together = "congestion=bbr+role.lte=backup";
        assert_eq!(names, ["scheduler=roundrobin:cwnd_limited=0", "scheduler=minrtt", together]);
        for (wrong, word) in [
            ("minrtt", "KEY=VALUE"),
            ("role.lte=secondary", "backup"),
            ("role.lte=often", "no role"),
        ] {
            let error = one(wrong).unwrap_err();
            assert!(error.contains(word), "{error}");
        }
    }

    #[test]
    fn policies_are_those_of_all_hosts_and_roles_those_of_paths() {
        let scenario = Scenario::parse("two", TWO).unwrap();
        let mut changed = scenario.clone();
        one("congestion=bbr+role.lte=backup").unwrap().apply(&mut changed).unwrap();
        let spec = |host: &Host| host.congestion.as_ref().map(|spec| spec.0.to_string());
        assert_eq!(spec(&changed.defaults).as_deref(), Some("bbr"));
        assert_eq!(spec(changed.host.get("server").unwrap()).as_deref(), Some("bbr"));
        assert!(changed.path.get("lte").unwrap().0.backup);
        let mut changed = scenario.clone();
        one("role.lte=never").unwrap().apply(&mut changed).unwrap();
        assert_eq!(changed.link.names().collect::<Vec<_>>(), ["wifi"]);
        assert!(changed.compile().is_ok());
        assert!(one("role.wifi=never").unwrap().apply(&mut changed).is_err());
        // Without [path], every link is one.
        let links = TWO.replace("[path]\nwifi = { links = [\"wifi\"] }\n", "");
        let links = links.replace("lte = { links = [\"lte\"] }\n", "");
        let scenario = Scenario::parse("links", &links).unwrap();
        let mut changed = scenario.clone();
        one("role.lte=backup").unwrap().apply(&mut changed).unwrap();
        assert_eq!(changed.path.names().collect::<Vec<_>>(), ["wifi", "lte"]);
        assert!(changed.path.get("lte").unwrap().0.backup && changed.compile().is_ok());
        let mut changed = scenario.clone();
        one("role.wifi=never").unwrap().apply(&mut changed).unwrap();
        assert_eq!(changed.link.names().collect::<Vec<_>>(), ["lte"]);
        assert!(changed.compile().is_ok());
        let error = one("role.dsl=never").unwrap().apply(&mut scenario.clone()).unwrap_err();
        assert!(error.contains("wifi, lte"), "{error}");
    }

    #[test]
    fn roles_where_links_say_what_they_are_between_need_named_paths() {
        let text = "[link.a]\nrate = \"9Mbps\"\nbetween = [\"client\", \"server\"]\n\
                    [[flow]]\nbulk = \"1MB\"\n";
        let mut scenario = Scenario::parse("graph", text).unwrap();
        let error = one("role.a=backup").unwrap().apply(&mut scenario).unwrap_err();
        assert!(error.contains("under [path], as in a = [\"LINK\""), "{error}");
    }
}
