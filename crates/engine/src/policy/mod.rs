//! What the plug points share: names with parameters, and the registry that knows them.
//!
//! A policy is written as `name` or `name:key=value,key=value`, in scenario files, on the command
//! line and in configurations alike. Values are numbers; that of `file`, which comes last, is the
//! name of a file, and may have commas in it. Each kind of policy has a [`Registry`]: the policies
//! of this crate, and those that a program that embeds it has registered.

mod nearest;
mod registry;

pub use nearest::{meant, nearest};
use registry::FILE;
pub use registry::{Entry, Param, RegisterError, Registry, Values};

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// A policy by name, with parameters.
#[derive(Clone, PartialEq, Debug)]
pub struct Spec {
    /// The name or an alias of the policy.
    pub name: String,
    /// Its parameters, as far as they are given.
    pub params: Params,
}

/// Parameters as they were given; [`Values`] has the defaults of the others.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Params {
    /// By name.
    pub numbers: BTreeMap<String, f64>,
    /// The file that the policy is to read, as the user wrote it. Who knows what it is relative to
    /// makes a path of it before the policy is built.
    pub file: Option<String>,
}

impl From<BTreeMap<String, f64>> for Params {
    fn from(numbers: BTreeMap<String, f64>) -> Self {
        Self { numbers, file: None }
    }
}

/// Why a policy could not be made.
#[derive(Error, Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum PolicyError {
    /// No policy has that name or alias.
    #[error("unknown {kind} '{name}'{}; known: {known}", meant(*.nearest))]
    Unknown {
        /// `scheduler`, `congestion control` or `egress`.
        kind: &'static str,
        /// What was asked for.
        name: String,
        /// The known name that it is near to, if it is near to one.
        nearest: Option<&'static str>,
        /// The names that exist, joined by commas.
        known: String,
    },
    /// A parameter the policy does not have.
    #[error("'{policy}' has no parameter '{name}'; it has: {known}")]
    UnknownParam {
        /// The name of the policy.
        policy: &'static str,
        /// The name given, which no parameter has.
        name: String,
        /// The parameters that exist, joined by commas.
        known: String,
    },
    /// A value outside its range.
    #[error("parameter '{name}' is {value}, allowed is {low} to {high}")]
    OutOfRange {
        /// The name of the parameter.
        name: &'static str,
        /// The value given.
        value: f64,
        /// The smallest value allowed.
        low: f64,
        /// The largest value allowed.
        high: f64,
    },
    /// A fraction where things are counted, or for a switch.
    #[error("parameter '{name}' is {value}, allowed are whole numbers from {low} to {high}")]
    Fraction {
        /// The name of the parameter.
        name: &'static str,
        /// The value given.
        value: f64,
        /// The smallest value allowed.
        low: f64,
        /// The largest value allowed.
        high: f64,
    },
    /// A parameter that is given more than once.
    #[error("parameter '{0}' is given twice: write it once")]
    Repeated(String),
    /// A policy that is made from a file could not be made from that one.
    #[error("{policy}: {message}")]
    File {
        /// The name of the policy.
        policy: &'static str,
        /// What is wrong, and with which file; for people.
        message: String,
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
}

impl FromStr for Spec {
    type Err = PolicyError;

    fn from_str(text: &str) -> Result<Self, PolicyError> {
        let syntax = || PolicyError::Syntax(text.to_owned());
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        if name.trim().is_empty() {
            return Err(syntax());
        }
        let (mut params, mut rest) = (Params::default(), rest);
        while !rest.trim().is_empty() {
            let (pair, after) = rest.split_once(',').unwrap_or((rest, ""));
            if pair.trim().is_empty() {
                rest = after;
                continue;
            }
            let (key, value) = pair.split_once('=').ok_or_else(syntax)?;
            if key.trim() == FILE {
                let (_, file) = rest.split_once('=').ok_or_else(syntax)?;
                let file = Some(file.trim()).filter(|file| !file.is_empty());
                params.file = Some(file.ok_or_else(syntax)?.to_owned());
                break;
            }
            let number = value.trim().parse().map_err(|_| syntax())?;
            if params.numbers.insert(key.trim().to_owned(), number).is_some() {
                return Err(PolicyError::Repeated(key.trim().to_owned()));
            }
            rest = after;
        }
        Ok(Self { name: name.trim().to_owned(), params })
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Params { numbers, file } = &self.params;
        f.write_str(&self.name)?;
        let mut sign = ':';
        for (key, value) in numbers {
            write!(f, "{sign}{key}={value}")?;
            sign = ',';
        }
        file.as_ref().map_or(Ok(()), |file| write!(f, "{sign}{FILE}={file}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn specs_round_trip_and_refuse_nonsense() {
        let spec: Spec = "ecf:beta=0.3,w=1".parse().unwrap();
        assert_eq!(spec.params.numbers["beta"], 0.3);
        assert_eq!(spec.to_string().parse::<Spec>().unwrap(), spec);
        let spec: Spec = "learned:w=1,file=a b,c=d.onnx".parse().unwrap();
        assert_eq!(spec.params.file.as_deref(), Some("a b,c=d.onnx"));
        assert_eq!(spec.params.numbers["w"], 1.0);
        assert_eq!(spec.to_string().parse::<Spec>().unwrap(), spec);
        assert!("learned:file=".parse::<Spec>().is_err());
        assert!("".parse::<Spec>().is_err());
        assert!("x:beta".parse::<Spec>().is_err());
        assert!("x:beta=fast".parse::<Spec>().is_err());
        let twice = "x:beta=1, w=2, beta =1".parse::<Spec>();
        assert_eq!(twice, Err(PolicyError::Repeated("beta".into())));
    }
}
