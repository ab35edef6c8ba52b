//! The policies of one kind: those of the crate, and those that a program adds.

use super::{Params, PolicyError, Spec, nearest};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::{PoisonError, RwLock};
use thiserror::Error;

/// One policy: everything that the command line, the docs and the conformance tests need.
///
/// `F` is how its kind is built, for example [`scheduler::Build`](crate::scheduler::Build).
pub struct Entry<F: ?Sized + 'static> {
    /// The name users type.
    pub name: &'static str,
    /// Other names for it.
    pub aliases: &'static [&'static str],
    /// One line for `tabane list`.
    pub summary: &'static str,
    /// What users may set, each once.
    pub params: &'static [Param],
    /// Builds one. Called for every connection, or subflow, that uses the policy.
    pub build: &'static F,
}

/// The one parameter that is no number.
pub(super) const FILE: &str = "file";

/// A parameter of a policy. All are numbers, a switch is 0 or 1; but for [`Param::file`].
#[derive(Clone, PartialEq, Debug)]
pub struct Param {
    /// The key users type.
    pub name: &'static str,
    /// Its value unless it is given.
    pub default: f64,
    /// What may be given.
    pub range: RangeInclusive<f64>,
    /// Whether it counts something, or is a switch: fractions are refused.
    pub whole: bool,
    /// One line, with the unit.
    pub meaning: &'static str,
}

impl Param {
    /// A number within `range`.
    pub const fn new(
        name: &'static str,
        default: f64,
        range: RangeInclusive<f64>,
        meaning: &'static str,
    ) -> Self {
        Self { name, default, range, whole: false, meaning }
    }

    /// A whole number within `range`.
    pub const fn count(
        name: &'static str,
        default: f64,
        range: RangeInclusive<f64>,
        meaning: &'static str,
    ) -> Self {
        Self { name, default, range, whole: true, meaning }
    }

    /// A switch: 1 for on, 0 for off.
    pub const fn switch(name: &'static str, default: bool, meaning: &'static str) -> Self {
        Self::count(name, if default { 1.0 } else { 0.0 }, 0.0..=1.0, meaning)
    }

    /// The file that the policy is made from: `file=NAME`.
    pub const fn file(meaning: &'static str) -> Self {
        Self::new(FILE, 0.0, 0.0..=0.0, meaning)
    }

    /// Whether it is the name of a file, and default and range mean nothing.
    pub fn is_file(&self) -> bool {
        self.name == FILE
    }
}

/// What a policy is built from: a value for each of its parameters, given or by default, all of
/// them in range.
#[derive(Clone, Copy, Debug)]
pub struct Values<'s> {
    params: &'static [Param],
    given: &'s Params,
}

impl Values<'static> {
    /// The defaults of all of them.
    pub const fn defaults(params: &'static [Param]) -> Self {
        const NONE: &Params = &Params { numbers: BTreeMap::new(), file: None };
        Self { params, given: NONE }
    }
}

impl Values<'_> {
    /// The value of a parameter.
    ///
    /// # Panics
    /// If the policy's [`Entry`] does not list the parameter: a mistake in the policy.
    pub fn get(&self, name: &str) -> f64 {
        let param = self.params.iter().find(|param| param.name == name);
        let default = param.expect("invariant: a policy lists what it asks for").default;
        self.given(name).unwrap_or(default)
    }

    /// Whether a switch is on.
    ///
    /// # Panics
    /// As [`Values::get`].
    pub fn is_on(&self, name: &str) -> bool {
        self.get(name) >= 0.5
    }

    /// The value of a parameter if it was given, for defaults that depend on other parameters.
    pub fn given(&self, name: &str) -> Option<f64> {
        self.given.numbers.get(name).copied()
    }

    /// The file that was given.
    pub fn file(&self) -> Option<&str> {
        self.given.file.as_deref()
    }
}

/// Why a policy could not be registered.
#[derive(Error, Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum RegisterError {
    /// Another policy of the kind has the name, or the alias.
    #[error("there is a {kind} '{name}' already")]
    Taken {
        /// The kind of policy.
        kind: &'static str,
        /// The name or alias.
        name: &'static str,
    },
    /// A name that [`Spec`] could not hold.
    #[error("'{0}' is no name: letters, digits, '-' and '_' alone")]
    Name(&'static str),
    /// Two parameters have the same name.
    #[error("parameter '{0}' is listed twice")]
    Twice(&'static str),
    /// A default that users could not give.
    #[error("the default of parameter '{0}' is out of its range, or no whole number")]
    Default(&'static str),
}

/// The policies of one kind. Each kind has one registry in the process; what is registered there
/// can be named wherever a policy of this crate can, from then on and for good.
pub struct Registry<F: ?Sized + 'static> {
    kind: &'static str,
    built_in: &'static [Entry<F>],
    registered: RwLock<Vec<&'static Entry<F>>>,
}

impl<F: ?Sized> Registry<F> {
    /// A registry with the policies of the crate that defines the kind. `kind` is how messages
    /// call it, for example "scheduler".
    pub const fn new(kind: &'static str, built_in: &'static [Entry<F>]) -> Self {
        Self { kind, built_in, registered: RwLock::new(Vec::new()) }
    }

    /// Adds a policy.
    ///
    /// # Errors
    /// [`RegisterError`], if a name is taken or the entry contradicts itself.
    pub fn register(&self, entry: Entry<F>) -> Result<(), RegisterError> {
        check(&entry)?;
        let mut registered = self.registered.write().unwrap_or_else(PoisonError::into_inner);
        let known = || self.built_in.iter().chain(registered.iter().copied());
        for name in names(&entry) {
            if known().flat_map(names).any(|known| known == name) {
                return Err(RegisterError::Taken { kind: self.kind, name });
            }
        }
        registered.push(Box::leak(Box::new(entry)));
        Ok(())
    }

    /// All policies: those of the crate, then those that were registered, in order.
    pub fn entries(&self) -> Vec<&'static Entry<F>> {
        let registered = self.registered.read().unwrap_or_else(PoisonError::into_inner);
        self.built_in.iter().chain(registered.iter().copied()).collect()
    }

    /// The policy that `spec` names, and what to build it from.
    ///
    /// # Errors
    /// [`PolicyError`] for unknown names and parameters, and values out of range.
    pub fn find<'s>(&self, spec: &'s Spec) -> Result<(&'static Entry<F>, Values<'s>), PolicyError> {
        let named = |entry: &Entry<F>| names(entry).any(|name| name == spec.name);
        let entry = match self.built_in.iter().find(|entry| named(entry)) {
            Some(entry) => entry,
            None => {
                let mut entries = self.entries().into_iter();
                entries.find(|entry| named(entry)).ok_or_else(|| self.unknown(&spec.name))?
            }
        };
        Ok((entry, entry.values(&spec.params)?))
    }

    fn unknown(&self, name: &str) -> PolicyError {
        let entries = self.entries();
        let nearest = nearest(name, entries.iter().flat_map(|entry| names(entry)));
        let known = entries.iter().map(|entry| entry.name).collect::<Vec<_>>().join(", ");
        PolicyError::Unknown { kind: self.kind, name: name.to_owned(), nearest, known }
    }
}

impl<F: ?Sized> Entry<F> {
    /// What to build it from.
    ///
    /// # Errors
    /// [`PolicyError`] for unknown parameters and values out of range.
    pub fn values<'s>(&self, given: &'s Params) -> Result<Values<'s>, PolicyError> {
        let unknown = |name: &str| {
            let known = self.params.iter().map(|param| param.name).collect::<Vec<_>>();
            let (policy, name, known) = (self.name, name.to_owned(), known.join(", "));
            PolicyError::UnknownParam { policy, name, known }
        };
        if given.file.is_some() && !self.params.iter().any(Param::is_file) {
            return Err(unknown(FILE));
        }
        for (name, value) in &given.numbers {
            let param = self.params.iter().find(|param| param.name == name);
            let param = param.ok_or_else(|| unknown(name))?;
            let (name, value) = (param.name, *value);
            let (low, high) = (*param.range.start(), *param.range.end());
            if !param.range.contains(&value) {
                return Err(PolicyError::OutOfRange { name, value, low, high });
            }
            if param.whole && value.fract() != 0.0 {
                return Err(PolicyError::Fraction { name, value, low, high });
            }
        }
        Ok(Values { params: self.params, given })
    }
}

fn names<F: ?Sized>(entry: &Entry<F>) -> impl Iterator<Item = &'static str> + Clone + use<F> {
    std::iter::once(entry.name).chain(entry.aliases.iter().copied())
}

fn check<F: ?Sized>(entry: &Entry<F>) -> Result<(), RegisterError> {
    let is_name = |name: &str| {
        let mut letters = name.chars();
        !name.is_empty() && letters.all(|c| c.is_ascii_alphanumeric() || "-_".contains(c))
    };
    let params = entry.params.iter().map(|param| param.name);
    if let Some(name) = names(entry).chain(params).find(|name| !is_name(name)) {
        return Err(RegisterError::Name(name));
    }
    for (at, param) in entry.params.iter().enumerate() {
        if entry.params[..at].iter().any(|other| other.name == param.name) {
            return Err(RegisterError::Twice(param.name));
        }
        let fraction = param.whole && param.default.fract() != 0.0;
        if fraction || !param.range.contains(&param.default) {
            return Err(RegisterError::Default(param.name));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    type Build = dyn Fn(&Values<'_>) -> f64 + Sync;

    const PARAMS: &[Param] = &[
        Param::new("beta", 0.25, 0.0..=1.0, "share"),
        Param::switch("fast", true, "1: fast; 0: slow"),
    ];
    const BUILT_IN: &[Entry<Build>] = &[Entry {
        name: "minrtt",
        aliases: &["default"],
        summary: "",
        params: PARAMS,
        build: &|values| values.get("beta"),
    }];

    fn entry(name: &'static str, aliases: &'static [&'static str]) -> Entry<Build> {
        Entry { name, aliases, summary: "", params: PARAMS, build: &|_| 7.0 }
    }

    fn failure(registry: &Registry<Build>, spec: &str) -> String {
        registry.find(&spec.parse().unwrap()).err().unwrap().to_string()
    }

    #[test]
    fn values_are_given_or_by_default() {
        let registry = Registry::new("scheduler", BUILT_IN);
        let spec: Spec = "default:beta=0.5".parse().unwrap();
        let (entry, values) = registry.find(&spec).unwrap();
        assert_eq!(((entry.build)(&values), values.given("fast")), (0.5, None));
        assert!(values.is_on("fast"));
        let spec = Spec::named("minrtt");
        assert_eq!(registry.find(&spec).unwrap().1.get("beta"), 0.25);
    }

    #[test]
    fn what_is_wrong_is_said() {
        let registry = Registry::new("scheduler", BUILT_IN);
        let error = failure(&registry, "minrtt:gamma=1");
        assert_eq!(error, "'minrtt' has no parameter 'gamma'; it has: beta, fast");
        for value in ["1.5", "nan", "-0.1"] {
            let error = failure(&registry, &format!("minrtt:beta={value}"));
            assert!(error.ends_with("allowed is 0 to 1"), "{error}");
        }
        let error = failure(&registry, "minrtt:fast=0.5");
        assert_eq!(error, "parameter 'fast' is 0.5, allowed are whole numbers from 0 to 1");
        assert!(failure(&registry, "minrt").contains("did you mean 'minrtt'"));
        assert_eq!(failure(&registry, "foo"), "unknown scheduler 'foo'; known: minrtt");
    }

    #[test]
    fn what_is_registered_is_as_good_as_built_in() {
        let registry = Registry::new("scheduler", BUILT_IN);
        registry.register(entry("mine", &["own"])).unwrap();
        let spec: Spec = "own:beta=1".parse().unwrap();
        let (entry, values) = registry.find(&spec).unwrap();
        assert_eq!((entry.name, (entry.build)(&values)), ("mine", 7.0));
        let all: Vec<_> = registry.entries().iter().map(|entry| entry.name).collect();
        assert_eq!(all, ["minrtt", "mine"]);
        assert!(failure(&registry, "mien").contains("did you mean 'mine'"));
        assert!(failure(&registry, "mine:beta=2").contains("allowed is 0 to 1"));
    }

    #[test]
    fn contradictions_are_refused() {
        let registry = Registry::new("scheduler", BUILT_IN);
        registry.register(entry("mine", &[])).unwrap();
        let taken = |name| Err(RegisterError::Taken { kind: "scheduler", name });
        assert_eq!(registry.register(entry("minrtt", &[])), taken("minrtt"));
        assert_eq!(registry.register(entry("other", &["mine"])), taken("mine"));
        assert_eq!(registry.register(entry("default", &[])), taken("default"));
        for name in ["", "a:b", "a b", "a=b"] {
            assert_eq!(registry.register(entry(name, &[])), Err(RegisterError::Name(name)));
        }
        const TWICE: &[Param] = &[Param::switch("a", true, ""), Param::switch("a", true, "")];
        const OUT: &[Param] = &[Param::new("a", 2.0, 0.0..=1.0, "")];
        let twice = Entry { params: TWICE, ..entry("twice", &[]) };
        assert_eq!(registry.register(twice), Err(RegisterError::Twice("a")));
        const HALF: &[Param] = &[Param::count("a", 2.5, 0.0..=9.0, "")];
        let half = Entry { params: HALF, ..entry("half", &[]) };
        assert_eq!(registry.register(half), Err(RegisterError::Default("a")));
        let out = Entry { params: OUT, ..entry("out", &[]) };
        assert_eq!(registry.register(out), Err(RegisterError::Default("a")));
    }
}
