//! A scenario file as a source document: where each value stands in it, what `--set` overrides,
//! and which lists are sweep axes.

use super::{Fault, Scenario, ScenarioError};
use crate::plan::{Plan, Traces};
use serde::Deserialize;
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use tabane_config::source_document::{Objection, Override, SourceDocument, lookup_mut, suggest};
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

/// A scenario file with its overrides applied, not yet checked: it may hold several scenarios (a
/// sweep). [`Document::variants`] gives each of them, checked; errors name file, line and column.
#[derive(Clone, Debug)]
pub struct Document {
    /// With the `--set` arguments as overrides.
    source: SourceDocument,
    stem: String,
    folder: PathBuf,
    /// Texts of files that it may name, by that name: they are not read from the disk.
    files: Vec<(String, String)>,
}

/// A key whose value is a list where one value is expected.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Axis {
    /// Its dotted path, as `--set` takes it.
    pub key: String,
    /// The values, as the file has them.
    pub values: Vec<String>,
    at: Vec<String>,
}

impl Axis {
    /// What is wrong with its values. The same run again would pass for another one.
    fn fault(&self) -> Option<Fault> {
        let fault = |message: String, help: Option<String>| {
            let at = self.at.clone();
            Some(Fault { at, message, help })
        };
        if self.values.is_empty() {
            return fault("an empty list".into(), None);
        }
        let mut seen = BTreeSet::new();
        let again = self.values.iter().find(|value| !seen.insert(value.as_str()))?;
        let count = self.values.iter().filter(|value| *value == again).count();
        let message = format!("'{}' has the value {again} {count} times", self.key);
        fault(message, Some("give each value once".into()))
    }
}

/// One point of a sweep.
#[derive(Clone, Debug)]
pub struct Variant {
    /// Value of each axis.
    pub params: Vec<(String, String)>,
    /// The scenario, ready to run.
    pub plan: Plan,
}

impl Document {
    /// Axes are few, but their product is what runs: at most this many.
    pub const MAX_VARIANTS: usize = 1_000_000;

    /// Reads a file and applies `sets` (each `key.path=value`) to it.
    ///
    /// # Errors
    /// [`ScenarioError`] if it cannot be read, is not TOML, or a `--set` has no such form.
    pub fn read(path: &Path, sets: &[String]) -> Result<Self, ScenarioError> {
        let mut document = Self::with_sets(SourceDocument::read(path)?, sets)?;
        document.folder = path.parent().map(Path::to_owned).unwrap_or_default();
        Ok(document)
    }

    /// As [`Document::read`], from text; `name` stands in messages.
    ///
    /// # Errors
    /// [`ScenarioError`].
    pub fn parse(name: &str, text: &str, sets: &[String]) -> Result<Self, ScenarioError> {
        Self::with_sets(SourceDocument::new(name, text), sets)
    }

    /// The same with the texts of files that it names, so that they need not be there.
    #[must_use]
    pub fn with_files(mut self, files: &[(&str, &str)]) -> Self {
        let owned = |(name, text): &(&str, &str)| ((*name).to_owned(), (*text).to_owned());
        self.files.extend(files.iter().map(owned));
        self
    }

    /// The same with files that it names looked for in `folder`; [`Document::read`] knows its own.
    #[must_use]
    pub fn in_folder(self, folder: &Path) -> Self {
        Self { folder: folder.to_owned(), ..self }
    }

    fn with_sets(source: SourceDocument, sets: &[String]) -> Result<Self, ScenarioError> {
        let file = source.file().to_owned();
        let stem = Path::new(&file).file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let sets = sets.iter().map(|set| parse_set(&file, set)).collect::<Result<_, _>>()?;
        let document =
            Self { source: source.with(sets), stem, folder: PathBuf::new(), files: Vec::new() };
        document.root()?;
        Ok(document)
    }

    /// The tree of the file with its overrides; it borrows the text.
    fn root(&self) -> Result<Spanned<DeTable<'_>>, ScenarioError> {
        self.source.root_if(known_link)
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
        if let Some(fault) = axes.iter().find_map(Axis::fault) {
            return Err(self.error(fault));
        }
        let root = self.root()?;
        let mut traces = Traces::given(&self.files);
        let mut variants: Vec<Variant> = Vec::with_capacity(points);
        for point in 0..points {
            let (params, scenario) = self.scenario(root.clone(), &axes, point)?;
            let same = |plan: &&Plan| {
                Scenario { seed: scenario.seed, ..Scenario::clone(&plan.source) } == scenario
            };
            let plan = match variants.last().map(|variant| &variant.plan).filter(same) {
                Some(plan) => plan.with_seed(scenario.seed),
                None => scenario.compile_with(&mut traces),
            };
            let plan = plan.map_err(|fault| self.error(fault))?;
            variants.push(Variant { params, plan });
        }
        Ok(variants)
    }

    fn scenario(
        &self,
        mut root: Spanned<DeTable<'_>>,
        axes: &[Axis],
        point: usize,
    ) -> Result<(Vec<(String, String)>, Scenario), ScenarioError> {
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
        let mut scenario = Scenario::deserialize(reader)
            .map_err(|e| self.misplaced(self.source.toml_problem(&e)))?;
        if scenario.name.is_empty() {
            scenario.name = self.stem.clone();
        }
        self.resolve_files(&mut scenario);
        Ok((params, scenario))
    }

    /// A link, host, proxy or flow at the top of the file, where its kind is expected: says so.
    /// What is near to its name there is not what was meant.
    fn misplaced(&self, problem: ScenarioError) -> ScenarioError {
        let kind = problem.message.strip_prefix("unknown key '").and_then(|rest| {
            let name = rest.strip_suffix('\'')?;
            let root = self.root().ok()?;
            let table = root.get_ref().get(name)?.get_ref().as_table()?;
            let has = |keys: &[&str]| keys.iter().any(|key| table.contains_key(*key));
            let kind = KINDS.iter().find(|(_, keys)| has(keys))?.0;
            Some(format!("a {kind} has its name below '{kind}': write [{kind}.{name}]"))
        });
        let help = kind.or(problem.help);
        ScenarioError { help, ..problem }
    }

    /// Files named in a scenario are relative to it.
    fn resolve_files(&self, scenario: &mut Scenario) {
        for file in scenario.files_mut() {
            *file = self.folder.join(&*file).to_string_lossy().into_owned();
        }
        scenario.resolve_policy_files(&self.folder);
    }

    /// An error about the value at `at`.
    pub(crate) fn error_at(&self, at: &[&str], message: String) -> ScenarioError {
        let at = at.iter().map(|s| (*s).to_owned()).collect();
        self.error(Fault { at, message, help: None })
    }

    /// Says where in the file `fault` is.
    pub fn error(&self, fault: Fault) -> ScenarioError {
        self.source.problem(fault)
    }
}

/// Tables of named things, and keys by which one of them is known.
const KINDS: &[(&str, &[&str])] = &[
    (
        "link",
        &["rate", "delay", "loss", "queue", "jitter", "trace", "conditions", "medium", "between"],
    ),
    ("proxy", &["listen", "connect"]),
    ("host", &["scheduler", "congestion", "egress", "tcp", "mptcp"]),
    ("path", &["links", "backup"]),
];

/// `key.path=value`.
fn parse_set(file: &str, set: &str) -> Result<Override, ScenarioError> {
    let label = format!("--set {set}");
    let fail = |message: &str| ScenarioError {
        file: file.to_owned(),
        position: None,
        excerpt: Some(label.clone()),
        message: message.into(),
        help: Some("write --set key.path=value, as in link.wifi.rate=20Mbps".into()),
    };
    let (keys, value) = split_set(set).map_err(fail)?;
    Ok(Override { label: label.clone(), keys, value: value.to_owned() })
}

/// The keys before the first `=`, and what is after it. Names with a dot have quotes, as in TOML.
fn split_set(set: &str) -> Result<(Vec<String>, &str), &'static str> {
    let (mut keys, mut rest) = (Vec::new(), set);
    loop {
        let (key, after) = split_key(rest.trim_start())?;
        if key.is_empty() {
            return Err("an empty key");
        }
        keys.push(key);
        rest = match after.strip_prefix('=') {
            Some(value) => return Ok((keys, value)),
            None if after.is_empty() => return Err("no '=' in it"),
            None => after.strip_prefix('.').ok_or("after a name in quotes comes '.' or '='")?,
        };
    }
}

/// The first key, and what is after it.
fn split_key(text: &str) -> Result<(String, &str), &'static str> {
    let Some(quote) = text.chars().next().filter(|first| matches!(first, '"' | '\'')) else {
        let end = text.find(['.', '=']).ok_or("no '=' in it")?;
        return Ok((text[..end].trim_end().to_owned(), &text[end..]));
    };
    let mut escaped = false;
    let is_end = |c: char| {
        let end = c == quote && !escaped;
        escaped = c == '\\' && quote == '"' && !escaped;
        end
    };
    let length = text[1..].find(is_end).ok_or("a quote that does not end")?;
    let (quoted, after) = text.split_at(length + 2);
    let value = DeValue::parse(quoted).ok();
    let key = value.as_ref().and_then(|value| value.get_ref().as_str());
    Ok((key.ok_or("no name in these quotes")?.to_owned(), after.trim_start()))
}

/// A name as a part of a dotted key.
fn quoted(name: &str) -> Cow<'_, str> {
    if name.contains(['.', '=', '"', '\'']) {
        let name = name.replace('\\', "\\\\").replace('"', "\\\"");
        return format!("\"{name}\"").into();
    }
    name.into()
}

/// A `--set` does not make links: who misspells one would get a second.
fn known_link(root: &DeTable<'_>, keys: &[String]) -> Result<(), Objection> {
    if let [first, name, _, ..] = keys
        && first == "link"
        && let Some(links) = root.get("link").and_then(|links| links.get_ref().as_table())
        && !links.contains_key(name.as_str())
    {
        let known: Vec<_> = links.keys().map(|key| quoted(key.get_ref())).collect();
        let known: Vec<_> = known.iter().map(Cow::as_ref).collect();
        // A name with a dot that has no quotes is several keys.
        let rest = keys[1..].join(".");
        let mut names = links.keys().map(|key| key.get_ref().as_ref());
        let help = match names.find(|link| rest.starts_with(&format!("{link}."))) {
            Some(link) => format!("a name with a dot has quotes: link.{}", quoted(link)),
            None => suggest(name, &known),
        };
        return Err((format!("there is no link '{name}'"), Some(help)));
    }
    Ok(())
}

/// Whether a list at `at` is what the format asks for, not an axis.
fn is_list(at: &[String], items: &DeArray<'_>) -> bool {
    let keys: Vec<&str> = at.iter().map(String::as_str).collect();
    let listed = matches!(
        keys[..],
        ["path", _]
            | ["path", _, "links" | "back"]
            | ["tunnel", _, "links"]
            | ["tunnel", _, "paths", _]
            | ["tunnel", _, "paths", _, "links" | "back"]
            | ["link", _, "between"]
            | ["group", _, "access", _, "link", "between"]
            | ["routers"]
            | ["output", "pcap"]
            | ["flow", _, "via"]
    );
    listed && !items.first().is_some_and(|item| item.get_ref().is_array())
}

/// Whether what is at `at` is written as `[[..]]`.
fn is_list_of_tables(at: &[String]) -> bool {
    let keys: Vec<&str> = at.iter().map(String::as_str).collect();
    matches!(keys[..], ["flow" | "at" | "group" | "arrivals"] | ["group", _, "access"])
}

fn find_axes(table: &DeTable<'_>, at: &mut Vec<String>, axes: &mut Vec<Axis>) {
    for (key, value) in table.iter() {
        at.push(key.get_ref().to_string());
        match value.get_ref() {
            DeValue::Table(inner) => find_axes(inner, at, axes),
            DeValue::Array(items) if is_list_of_tables(at) => {
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
                let names: Vec<_> = at.iter().map(|name| quoted(name)).collect();
                axes.push(Axis { key: names.join("."), values, at: at.clone() });
            }
            _ => {}
        }
        at.pop();
    }
}

/// A value as it is shown in a table cell.
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
