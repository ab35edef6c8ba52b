//! Overrides from the environment: `TABANE_CLIENT_FRONT__SOCKS5=127.0.0.1:1080`.
//!
//! After `TABANE_CLIENT_` or `TABANE_SERVER_` come the keys in capitals, two underscores between
//! them; an element of a list of tables is named by its index or its name, in which what is no
//! letter or digit counts as an underscore (`TABANE_CLIENT_PATH__WLAN0__ROLE=backup`). The value is
//! TOML; what is no TOML is text, and where a list of text is expected, text with commas is one.

use super::load::Configuration;
use tabane_config::source_document::{Override, Problem, SourceDocument};
use tabane_engine::policy::nearest;
use toml::de::{DeArray, DeTable, DeValue};

/// Variables that say where things are, and are no overrides.
const PLACES: [&str; 3] = ["TABANE_CONTROL", "TABANE_RUNTIME_DIR", "TABANE_CONFIG_DIR"];

/// The overrides for `C` among the variables, in their order.
///
/// # Errors
/// [`Problem`] for a name that is close to an override's and none, or for a file that is not TOML.
pub(super) fn collect<C: Configuration>(
    document: &SourceDocument,
    vars: &[(String, String)],
    warnings: &mut Vec<Problem>,
) -> Result<Vec<Override>, Problem> {
    let root = document.root()?;
    let mut overrides = Vec::new();
    for (name, value) in vars {
        let rest = name.strip_prefix("TABANE_").unwrap_or(name);
        let (role, keys) = rest.split_once('_').unwrap_or((rest, ""));
        if role == C::ROLE.to_ascii_uppercase() && !keys.is_empty() {
            let keys = path_of(root.get_ref(), keys);
            let value = if is_list::<C>(&keys) { list(value) } else { value.clone() };
            let label = format!("{name}={value}");
            overrides.push(Override { label, keys, value });
        } else if role != "CLIENT" && role != "SERVER" && !PLACES.contains(&name.as_str()) {
            let close = nearest(role, ["CLIENT", "SERVER"].into_iter());
            let problem = Problem {
                file: document.file().to_owned(),
                position: None,
                excerpt: Some(name.clone()),
                message: "this variable is no override".into(),
                help: Some(match close {
                    Some(close) => format!("did you mean 'TABANE_{close}_{keys}'?"),
                    None => "overrides begin with TABANE_CLIENT_ or TABANE_SERVER_".into(),
                }),
            };
            match close {
                Some(_) => return Err(problem),
                None => warnings.push(problem),
            }
        }
    }
    Ok(overrides)
}

/// The keys that a name stands for; elements of lists become indices.
fn path_of(root: &DeTable<'_>, name: &str) -> Vec<String> {
    let mut keys: Vec<String> = Vec::new();
    let mut here: Option<&DeValue<'_>> = None;
    for part in name.split("__") {
        let part = part.to_ascii_lowercase();
        let (key, next) = match here {
            None if keys.is_empty() => (part.clone(), root.get(part.as_str())),
            Some(DeValue::Table(table)) => (part.clone(), table.get(part.as_str())),
            Some(DeValue::Array(items)) => {
                let index = part.parse().ok().or_else(|| position(items, &part));
                let key = index.map_or(part, |n| n.to_string());
                (key, index.and_then(|n| items.get(n)))
            }
            _ => (part, None),
        };
        keys.push(key);
        here = next.map(|value| value.get_ref());
    }
    keys
}

/// Which element has that name (or interface).
fn position(items: &DeArray<'_>, part: &str) -> Option<usize> {
    let fits = |text: &str| {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' };
        text.chars().map(plain).eq(part.chars())
    };
    let key = |item: &DeValue<'_>, key: &str| {
        item.get(key).and_then(|value| value.get_ref().as_str()).is_some_and(fits)
    };
    let by = |name: &str| items.iter().position(|item| key(item.get_ref(), name));
    by("name").or_else(|| by("interface"))
}

fn is_list<C: Configuration>(keys: &[String]) -> bool {
    C::LISTS.iter().any(|list| {
        let steps: Vec<_> = list.split('.').collect();
        let same = |(step, key): (&&str, &String)| *step == key || *step == "*";
        steps.len() == keys.len() && steps.iter().zip(keys).all(same)
    })
}

/// A TOML list of what commas separate, unless it is one already.
fn list(value: &str) -> String {
    if value.trim_start().starts_with('[') && DeValue::parse(value.trim()).is_ok() {
        return value.to_owned();
    }
    let parts = value.split(',').map(str::trim).filter(|part| !part.is_empty());
    toml::Value::Array(parts.map(|part| part.to_owned().into()).collect()).to_string()
}
