//! A scenario file as written: where everything stands in it, what `--set` changes, and which
//! lists are sweep axes.

use super::error::{Fault, ScenarioError, rephrase, suggest};
use super::{Scenario, validate};
use serde::Deserialize;
use std::borrow::Cow;
use std::ops::Range;
use std::path::{Path, PathBuf};
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

/// A file with its overrides applied, not yet checked.
#[derive(Clone, Debug)]
pub struct Document {
    file: String,
    stem: String,
    folder: PathBuf,
    text: String,
    /// `--set` arguments; the span of a value from the n-th is at `text.len() + 1 + n`.
    sets: Vec<String>,
}

/// A key whose value is a list where one value is expected.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Axis {
    /// Its dotted path, as `--set` takes it.
    pub key: String,
    /// The values, as written.
    pub values: Vec<String>,
    at: Vec<String>,
}

/// One point of a sweep.
#[derive(Clone, PartialEq, Debug)]
pub struct Variant {
    /// Value of each axis.
    pub params: Vec<(String, String)>,
    /// The scenario.
    pub scenario: Scenario,
}

impl Document {
    /// Axes are few, but their product is what runs: at most this many.
    pub const MAX_VARIANTS: usize = 1_000_000;

    /// Reads a file and lays `sets` (each `key.path=value`) over it.
    ///
    /// # Errors
    /// [`ScenarioError`] if it cannot be read, is not TOML, or a `--set` has no such form.
    pub fn read(path: &Path, sets: &[String]) -> Result<Self, ScenarioError> {
        let file = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|error| ScenarioError {
            file: file.clone(),
            position: None,
            excerpt: None,
            message: format!("cannot be read: {error}"),
            help: None,
        })?;
        let mut document = Self::parse(&file, &text, sets)?;
        document.folder = path.parent().map(Path::to_owned).unwrap_or_default();
        Ok(document)
    }

    /// As [`Document::read`], from text; `name` stands in messages.
    ///
    /// # Errors
    /// [`ScenarioError`].
    pub fn parse(name: &str, text: &str, sets: &[String]) -> Result<Self, ScenarioError> {
        let stem = Path::new(name).file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let document = Self {
            file: name.into(),
            stem,
            folder: PathBuf::new(),
            text: text.into(),
            sets: sets.to_vec(),
        };
        document.root()?;
        Ok(document)
    }

    /// The tree of the file with its overrides; it borrows the text.
    fn root(&self) -> Result<Spanned<DeTable<'_>>, ScenarioError> {
        let mut root = DeTable::parse(&self.text).map_err(|e| self.toml_error(&e))?;
        for (n, set) in self.sets.iter().enumerate() {
            self.set(root.get_mut(), n, set)?;
        }
        Ok(root)
    }

    /// Keys with lists of values, in file order.
    pub fn axes(&self) -> Vec<Axis> {
        let mut axes = Vec::new();
        if let Ok(root) = self.root() {
            find_axes(root.get_ref(), &mut Vec::new(), &mut axes);
        }
        axes
    }

    /// Every point of the sweep, checked; one if there is no axis. The last axis varies fastest.
    ///
    /// # Errors
    /// [`ScenarioError`] for the first point that is not a valid scenario.
    pub fn variants(&self) -> Result<Vec<Variant>, ScenarioError> {
        let axes = self.axes();
        let points = axes.iter().try_fold(1usize, |n, axis| n.checked_mul(axis.values.len()));
        let points = points
            .filter(|n| *n <= Self::MAX_VARIANTS)
            .ok_or_else(|| self.error_at(&[], format!("more than {} runs", Self::MAX_VARIANTS)))?;
        if let Some(axis) = axes.iter().find(|axis| axis.values.is_empty()) {
            return Err(self.error(Fault {
                message: "an empty list".into(),
                at: axis.at.clone(),
                help: None,
            }));
        }
        let root = self.root()?;
        (0..points).map(|point| self.variant(root.clone(), &axes, point)).collect()
    }

    fn variant(
        &self,
        mut root: Spanned<DeTable<'_>>,
        axes: &[Axis],
        point: usize,
    ) -> Result<Variant, ScenarioError> {
        let (mut params, mut rest) = (Vec::new(), point);
        for axis in axes.iter().rev() {
            let index = rest % axis.values.len();
            rest /= axis.values.len();
            let table = root.get_mut();
            let place = lookup_mut(table, &axis.at).expect("invariant: axes were found here");
            if let DeValue::Array(items) = place.get_ref() {
                *place = items[index].clone();
            }
            params.insert(0, (axis.key.clone(), axis.values[index].clone()));
        }
        let reader = toml::de::Deserializer::from(root);
        let mut scenario = Scenario::deserialize(reader).map_err(|e| self.toml_error(&e))?;
        if scenario.name.is_empty() {
            scenario.name = self.stem.clone();
        }
        self.resolve_files(&mut scenario);
        validate::check(&scenario).map_err(|fault| self.error(fault))?;
        Ok(Variant { params, scenario })
    }

    /// Files named in a scenario are relative to it.
    fn resolve_files(&self, scenario: &mut Scenario) {
        for (_, link) in &mut scenario.link.0 {
            let ways = [link.up.as_mut(), link.down.as_mut()];
            let own = ways.into_iter().flatten().filter_map(|way| way.trace.as_mut());
            for trace in own.chain(link.trace.as_mut()) {
                *trace = self.folder.join(&*trace).to_string_lossy().into_owned();
            }
        }
    }

    fn set<'s>(&self, root: &mut DeTable<'s>, n: usize, set: &'s str) -> Result<(), ScenarioError> {
        let place = self.text.len() + 1 + n;
        let span = place..place;
        let fail = |message: &str| {
            let mut error = self.error_at_span(Some(span.clone()), message.into());
            error.help = Some("write --set key.path=value, as in link.wifi.rate=20Mbps".into());
            error
        };
        let (key, text) = set.split_once('=').ok_or_else(|| fail("no '=' in it"))?;
        // What is not a TOML value is a string that lacks its quotes.
        let mut value = match DeValue::parse(text.trim()) {
            Ok(value) => respan(value.into_inner(), &span),
            Err(_) => Spanned::new(span.clone(), DeValue::String(text.trim().into())),
        };
        let keys: Vec<_> = key.trim().split('.').collect();
        if keys.iter().any(|k| k.is_empty()) {
            return Err(fail("an empty key"));
        }
        if let (["link", name, _, ..], Some(links)) = (&keys[..], root.get("link"))
            && let Some(links) = links.get_ref().as_table().filter(|t| !t.contains_key(*name))
        {
            let known: Vec<_> = links.keys().map(|key| key.get_ref().as_ref()).collect();
            let error = self.error_at_span(Some(span), format!("there is no link '{name}'"));
            return Err(ScenarioError { help: Some(suggest(name, &known)), ..error });
        }
        insert(root, &keys, &mut value, &span)
            .map_err(|message| self.error_at_span(Some(span), message))
    }

    /// An error about the value at `at`.
    pub(crate) fn error_at(&self, at: &[&str], message: String) -> ScenarioError {
        let at = at.iter().map(|s| (*s).to_owned()).collect();
        self.error(Fault { at, message, help: None })
    }

    pub(crate) fn error(&self, fault: Fault) -> ScenarioError {
        let span = self.root().ok().and_then(|root| locate(root.get_ref(), &fault.at));
        ScenarioError { help: fault.help, ..self.error_at_span(span, fault.message) }
    }

    fn toml_error(&self, error: &toml::de::Error) -> ScenarioError {
        let (message, help) = rephrase(error.message());
        ScenarioError { help, ..self.error_at_span(error.span(), message) }
    }

    fn error_at_span(&self, span: Option<Range<usize>>, message: String) -> ScenarioError {
        let start = span.map(|s| s.start);
        let set = start.and_then(|at| at.checked_sub(self.text.len() + 1));
        let set = set.and_then(|n| self.sets.get(n)).map(|set| format!("--set {set}"));
        let mut error = ScenarioError {
            file: self.file.clone(),
            position: None,
            excerpt: set,
            message,
            help: None,
        };
        if let (Some(at), None) = (start, &error.excerpt) {
            let at = at.min(self.text.len());
            let before = &self.text[..at];
            let line_start = before.rfind('\n').map_or(0, |n| n + 1);
            let line = before.matches('\n').count() + 1;
            let column = self.text[line_start..at].chars().count() + 1;
            error.position = Some((line, column));
            error.excerpt = self.text[line_start..].lines().next().map(str::to_owned);
        }
        error
    }
}

/// Whether a list at `at` is what the format asks for, not an axis.
fn is_list(at: &[String], items: &DeArray<'_>) -> bool {
    let keys: Vec<&str> = at.iter().map(String::as_str).collect();
    let listed = matches!(
        keys[..],
        ["path", _]
            | ["path", _, "links"]
            | ["link", _, "between"]
            | ["routers"]
            | ["output", "pcap"]
            | ["flow", _, "via"]
    );
    listed && !items.first().is_some_and(|item| item.get_ref().is_array())
}

fn find_axes(table: &DeTable<'_>, at: &mut Vec<String>, axes: &mut Vec<Axis>) {
    for (key, value) in table.iter() {
        at.push(key.get_ref().to_string());
        match value.get_ref() {
            DeValue::Table(inner) => find_axes(inner, at, axes),
            DeValue::Array(items) if matches!(&at[..], [k] if k == "flow" || k == "at") => {
                for (n, item) in items.iter().enumerate() {
                    if let DeValue::Table(inner) = item.get_ref() {
                        at.push(n.to_string());
                        find_axes(inner, at, axes);
                        at.pop();
                    }
                }
            }
            DeValue::Array(items) if !is_list(at, items) => {
                let values = items.iter().map(|item| print(item.get_ref())).collect();
                axes.push(Axis { key: at.join("."), values, at: at.clone() });
            }
            _ => {}
        }
        at.pop();
    }
}

/// A value as people would write it in a table cell.
fn print(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => text.to_string(),
        DeValue::Integer(n) => n.to_string(),
        DeValue::Float(x) => x.to_string(),
        DeValue::Boolean(b) => b.to_string(),
        DeValue::Datetime(d) => d.to_string(),
        DeValue::Array(items) => {
            let items: Vec<_> = items.iter().map(|item| print(item.get_ref())).collect();
            items.join("+")
        }
        DeValue::Table(table) => {
            let pair = |(k, v): (&Spanned<Cow<'_, str>>, &Spanned<DeValue<'_>>)| {
                format!("{}={}", k.get_ref(), print(v.get_ref()))
            };
            table.iter().map(pair).collect::<Vec<_>>().join(" ")
        }
    }
}

fn lookup_mut<'t, 's>(
    table: &'t mut DeTable<'s>,
    at: &[String],
) -> Option<&'t mut Spanned<DeValue<'s>>> {
    let mut value = table.get_mut(at.first()?.as_str())?;
    for step in &at[1..] {
        value = match value.get_mut() {
            DeValue::Table(inner) => inner.get_mut(step.as_str())?,
            DeValue::Array(items) => items.get_mut(step.parse::<usize>().ok()?)?,
            _ => return None,
        };
    }
    Some(value)
}

/// Where the deepest part of `at` that exists stands: the value, or the key of a table.
fn locate(table: &DeTable<'_>, at: &[String]) -> Option<Range<usize>> {
    let (first, rest) = at.split_first()?;
    let (key, value) = table.get_key_value(first.as_str())?;
    let mut span = if value.get_ref().is_table() { key.span() } else { value.span() };
    let mut value = value;
    for step in rest {
        let next = match value.get_ref() {
            DeValue::Table(inner) => match inner.get_key_value(step.as_str()) {
                Some((key, v)) if v.get_ref().is_table() => Some((key.span(), v)),
                Some((_, v)) => Some((v.span(), v)),
                None => None,
            },
            DeValue::Array(items) => {
                step.parse().ok().and_then(|n: usize| items.get(n)).map(|v| (v.span(), v))
            }
            _ => None,
        };
        let Some(next) = next else { break };
        (span, value) = next;
    }
    Some(span)
}

/// Puts `value` at `keys`, making tables on the way. An element of a list is named by its index
/// or its `name`; the index may be left out when there is only one.
fn insert<'s>(
    table: &mut DeTable<'s>,
    keys: &[&'s str],
    value: &mut Spanned<DeValue<'s>>,
    span: &Range<usize>,
) -> Result<(), String> {
    let (key, rest) = keys.split_first().expect("invariant: at least one key");
    if rest.is_empty() {
        let value = std::mem::replace(value, Spanned::new(0..0, DeValue::Boolean(false)));
        match table.get_mut(*key) {
            Some(place) => *place = value,
            None => {
                table.insert(Spanned::new(span.clone(), Cow::Borrowed(*key)), value);
            }
        }
        return Ok(());
    }
    if table.get(*key).is_none() {
        let empty = Spanned::new(span.clone(), DeValue::Table(DeTable::new()));
        table.insert(Spanned::new(span.clone(), Cow::Borrowed(*key)), empty);
    }
    match table.get_mut(*key).map(Spanned::get_mut) {
        Some(DeValue::Table(inner)) => insert(inner, rest, value, span),
        Some(DeValue::Array(items)) => {
            let named = |item: &Spanned<DeValue<'_>>| {
                item.get_ref().get("name").is_some_and(|n| n.get_ref().as_str() == Some(rest[0]))
            };
            let index = rest[0].parse().ok().or_else(|| items.iter().position(named));
            let (index, rest) = match index {
                Some(n) => (n, &rest[1..]),
                None if items.len() == 1 => (0, rest),
                None => return Err(format!("which '{key}'? write {key}.0 or {key}.NAME")),
            };
            let count = items.len();
            match items.get_mut(index).map(Spanned::get_mut) {
                Some(DeValue::Table(inner)) if !rest.is_empty() => insert(inner, rest, value, span),
                Some(_) => Err(format!("'{key}' has no such keys")),
                None => Err(format!("there are only {count} of '{key}'")),
            }
        }
        _ => Err(format!("'{key}' is a single value, not a table")),
    }
}

/// `value` with every span set to `span`.
fn respan<'s>(value: DeValue<'s>, span: &Range<usize>) -> Spanned<DeValue<'s>> {
    let value = match value {
        DeValue::Array(items) => {
            let mut array = DeArray::new();
            items.iter().for_each(|item| array.push(respan(item.get_ref().clone(), span)));
            DeValue::Array(array)
        }
        DeValue::Table(table) => {
            let mut copy = DeTable::new();
            for (k, v) in table.iter() {
                copy.insert(
                    Spanned::new(span.clone(), k.get_ref().clone()),
                    respan(v.get_ref().clone(), span),
                );
            }
            DeValue::Table(copy)
        }
        scalar => scalar,
    };
    Spanned::new(span.clone(), value)
}
