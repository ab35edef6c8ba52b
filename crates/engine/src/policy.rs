//! What the three plug points share: names with parameters, and the table row.
//!
//! A policy is written as `name` or `name:key=value,key=value`, in scenario files, on the command
//! line and in configurations alike.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// One row of a table `ALL`: everything the CLI, the docs and the conformance tests need.
pub struct Entry<F> {
    /// The name users type.
    pub name: &'static str,
    /// Other names for it.
    pub aliases: &'static [&'static str],
    /// One line for `tabane list`.
    pub summary: &'static str,
    /// Parameters: name, default, meaning.
    pub params: &'static [(&'static str, f64, &'static str)],
    /// Makes one.
    pub build: F,
}

/// A policy by name, with parameters.
#[derive(Clone, PartialEq, Debug)]
pub struct Spec {
    /// Name or alias.
    pub name: String,
    /// Parameters given.
    pub params: Params,
}

/// Parameters that were given; what was not has the default of the table row.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Params(pub BTreeMap<String, f64>);

impl Params {
    /// The value of `name`, or `default`.
    pub fn get(&self, name: &str, default: f64) -> f64 {
        self.0.get(name).copied().unwrap_or(default)
    }

    /// The value of `name`, or `default`; refused outside `range`.
    ///
    /// # Errors
    /// [`PolicyError::OutOfRange`].
    pub fn in_range(
        &self,
        name: &'static str,
        default: f64,
        range: std::ops::RangeInclusive<f64>,
    ) -> Result<f64, PolicyError> {
        let value = self.get(name, default);
        if range.contains(&value) {
            return Ok(value);
        }
        Err(PolicyError::OutOfRange { name, value, low: *range.start(), high: *range.end() })
    }
}

/// Why a policy could not be made.
#[derive(Error, Clone, PartialEq, Debug)]
pub enum PolicyError {
    /// No such name.
    #[error("unknown {kind} '{name}'{}; known: {known}", meant(*.nearest))]
    Unknown {
        /// `scheduler`, `congestion control` or `egress`.
        kind: &'static str,
        /// What was asked for.
        name: String,
        /// The known name that it is near to, if it is near to one.
        nearest: Option<&'static str>,
        /// All names.
        known: String,
    },
    /// A parameter the policy does not have.
    #[error("'{policy}' has no parameter '{name}'; it has: {known}")]
    UnknownParam {
        /// The policy.
        policy: &'static str,
        /// What was given.
        name: String,
        /// What there is.
        known: String,
    },
    /// A value outside its range.
    #[error("parameter '{name}' is {value}, allowed is {low} to {high}")]
    OutOfRange {
        /// The parameter.
        name: &'static str,
        /// What was given.
        value: f64,
        /// Least.
        low: f64,
        /// Most.
        high: f64,
    },
    /// Not of the form `name:key=value,...`.
    #[error("'{0}' is not of the form name or name:key=value,key=value")]
    Syntax(String),
}

impl Spec {
    /// A policy without parameters.
    pub fn named(name: &str) -> Self {
        Self { name: name.to_owned(), params: Params::default() }
    }

    /// The row of `table` this names, its parameters checked against the row.
    ///
    /// # Errors
    /// [`PolicyError::Unknown`] or [`PolicyError::UnknownParam`].
    pub fn find<'t, F>(
        &self,
        kind: &'static str,
        table: &'t [Entry<F>],
    ) -> Result<&'t Entry<F>, PolicyError> {
        let entry = table
            .iter()
            .find(|e| e.name == self.name || e.aliases.contains(&self.name.as_str()))
            .ok_or_else(|| self.unknown(kind, table))?;
        let known = || entry.params.iter().map(|p| p.0).collect::<Vec<_>>().join(", ");
        for name in self.params.0.keys() {
            if !entry.params.iter().any(|p| p.0 == name) {
                let (policy, name) = (entry.name, name.clone());
                return Err(PolicyError::UnknownParam { policy, name, known: known() });
            }
        }
        Ok(entry)
    }

    fn unknown<F>(&self, kind: &'static str, table: &[Entry<F>]) -> PolicyError {
        let names = table.iter().flat_map(|e| std::iter::once(&e.name).chain(e.aliases));
        let nearest = nearest(&self.name, names.copied());
        let known = table.iter().map(|e| e.name).collect::<Vec<_>>().join(", ");
        PolicyError::Unknown { kind, name: self.name.clone(), nearest, known }
    }
}

impl FromStr for Spec {
    type Err = PolicyError;

    fn from_str(text: &str) -> Result<Self, PolicyError> {
        let syntax = || PolicyError::Syntax(text.to_owned());
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        if name.trim().is_empty() {
            return Err(syntax());
        }
        let mut params = BTreeMap::new();
        for pair in rest.split(',').filter(|p| !p.trim().is_empty()) {
            let (key, value) = pair.split_once('=').ok_or_else(syntax)?;
            let value: f64 = value.trim().parse().map_err(|_| syntax())?;
            params.insert(key.trim().to_owned(), value);
        }
        Ok(Self { name: name.trim().to_owned(), params: Params(params) })
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        for (i, (key, value)) in self.params.0.iter().enumerate() {
            write!(f, "{}{key}={value}", if i == 0 { ':' } else { ',' })?;
        }
        Ok(())
    }
}

/// What [`nearest`] found as the end of a message: `; did you mean 'x'?`, or nothing.
pub fn meant(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |name| format!("; did you mean '{name}'?"))
}

/// The name that somebody meant who wrote `name`: the nearest of `known`, if at most a third of
/// the letters differ, or the only one that begins so (three letters at least). Case does not
/// count.
pub fn nearest<'k>(name: &str, known: impl Iterator<Item = &'k str> + Clone) -> Option<&'k str> {
    let lower = name.to_ascii_lowercase();
    let measured = known.clone().map(|k| (edit_distance(&k.to_ascii_lowercase(), &lower), k));
    let (distance, found) = measured.min_by_key(|(distance, _)| *distance)?;
    // Of two letters a third is none: one too many at the end may be.
    let longer = distance == 1 && (lower.starts_with(found) || found.starts_with(&lower));
    if longer || distance <= found.chars().count().max(name.chars().count()) / 3 {
        return Some(found);
    }
    let mut begin = known.filter(|k| lower.len() >= 3 && k.starts_with(&lower));
    begin.next().filter(|_| begin.next().is_none())
}

/// How many letters are to be changed, put in, left out or swapped with their neighbour
/// (Damerau and Levenshtein), for "did you mean". Of the first 64 letters of each.
pub fn edit_distance(a: &str, b: &str) -> usize {
    let letters = |text: &str| text.chars().take(64).collect::<Vec<_>>();
    let (a, b) = (letters(a), letters(b));
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let substitute = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = substitute.min(row[j - 1] + 1).min(last[j] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(before[j - 2] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn specs_round_trip_and_refuse_nonsense() {
        let spec: Spec = "ecf:beta=0.3,w=1".parse().unwrap();
        assert_eq!(spec.params.get("beta", 0.25), 0.3);
        assert_eq!(spec.to_string().parse::<Spec>().unwrap(), spec);
        assert!("".parse::<Spec>().is_err());
        assert!("x:beta".parse::<Spec>().is_err());
        assert!("x:beta=fast".parse::<Spec>().is_err());
    }

    #[test]
    fn unknown_names_suggest_the_nearest() {
        const TABLE: &[Entry<()>] =
            &[Entry { name: "minrtt", aliases: &["default"], summary: "", params: &[], build: () }];
        let error = Spec::named("minrt").find("scheduler", TABLE).err().unwrap();
        assert!(error.to_string().contains("did you mean 'minrtt'"));
        assert!(Spec::named("default").find("scheduler", TABLE).is_ok());
        assert_eq!(edit_distance("kitten", "sitting"), 3);
        assert_eq!(edit_distance("rtae", "rate"), 1);
        let far = Spec::named("foo").find("scheduler", TABLE).err().unwrap().to_string();
        assert_eq!(far, "unknown scheduler 'foo'; known: minrtt");
    }

    #[test]
    fn only_what_is_near_is_suggested() {
        let known = ["at", "link", "flow", "congestion", "rate"];
        for (name, meant) in [
            ("lte", None),
            ("it", None),
            ("rtae", Some("rate")),
            ("Rate", Some("rate")),
            ("lnik", Some("link")),
            ("cong", Some("congestion")),
            ("flw", Some("flow")),
            ("", None),
            ("att", Some("at")),
            ("r", None),
        ] {
            assert_eq!(nearest(name, known.into_iter()), meant, "{name}");
        }
    }
}
