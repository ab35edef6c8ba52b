//! What a paper's repetition comes to. `report.json` is this, serialised: `claims`, `cells` and
//! `beyond` have the fields that scripts rely on, others may be added.

use crate::context::Context;
use crate::figure::Figure;
use crate::inventory::Item;
use crate::stats;
use crate::{Paper, Source};
use serde::Serialize;

/// The report of one paper.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Report {
    /// Name of the paper.
    pub paper: &'static str,
    /// Its number in `docs/papers.md`, such as `s1`.
    pub alias: &'static str,
    pub title: &'static str,
    /// Where it was published; `null` where that is not known for certain.
    pub source: Option<Source>,
    /// Version of this program.
    pub version: &'static str,
    /// Fewer points and repetitions than there could be.
    pub quick: bool,
    /// Seeds of the runs.
    pub seeds: Vec<u64>,
    /// What the paper says, and what we found.
    pub claims: Vec<Claim>,
    /// Its tables and figures as numbers.
    pub cells: Vec<Cell>,
    /// What goes beyond it.
    pub beyond: Vec<Beyond>,
    /// Everything that the paper has, and where it is here.
    pub items: Vec<Item>,
    /// How many claims have which verdict; filled in by [`Report::finish`].
    pub counts: Counts,
    /// What the paper leaves open, and what we took.
    pub assumptions: Vec<Assumption>,
    /// Further tables, for people.
    pub tables: Vec<Table>,
    /// What to know beside that: findings, causes, where the paper is ambiguous.
    pub notes: Vec<String>,
    /// Errors of each table of [`Report::cells`]; filled in by [`Report::finish`].
    pub errors: Vec<TableError>,
    /// How long it took, seconds of real time; for the caller to say.
    pub run_s: Option<f64>,
    /// In JSON: their files without `.svg`, and titles.
    #[serde(serialize_with = "as_titles")]
    pub figures: Vec<Figure>,
    /// Other files for the results folder (captures as text, scenarios): name, contents.
    #[serde(skip)]
    pub files: Vec<(String, Vec<u8>)>,
}

/// Something the paper says.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Claim {
    /// One word.
    pub id: String,
    /// In a sentence.
    pub text: String,
    /// The paper's value.
    pub paper: Value,
    /// Ours.
    pub ours: Value,
    /// Unit of both; empty for words and pure numbers.
    pub unit: String,
    /// Whether it is so here too.
    #[serde(serialize_with = "as_words")]
    pub verdict: Verdict,
}

/// A number, words, or nothing (`null`).
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(untagged)]
pub enum Value {
    Number(f64),
    Text(String),
    /// The paper does not say.
    Unknown,
}

/// How many claims have which verdict.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct Counts {
    /// With nothing fitted to it.
    pub reproduced: usize,
    /// A parameter was fitted to it.
    pub fitted: usize,
    /// Altogether or in part.
    pub differs: usize,
    /// The paper leaves out what would be needed.
    pub unknown: usize,
}

/// Whether a claim holds here.
#[derive(Clone, PartialEq, Debug)]
pub enum Verdict {
    /// It does.
    Reproduced,
    /// It does, but a parameter was fitted to it: which.
    Fitted(String),
    /// Part of it does; which, and why not the rest.
    Partly(String),
    /// It does not, because.
    Not(String),
    /// Nobody can say, because.
    Unknown(String),
}

/// One cell of a table (or point of a figure) of the paper.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Cell {
    /// Which table or figure.
    pub table: String,
    pub row: String,
    pub column: String,
    /// The paper's value; `null` where it gives none.
    pub paper: Option<f64>,
    /// Ours.
    pub ours: f64,
    /// Unit.
    pub unit: &'static str,
}

/// A target that the paper does not reach.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Beyond {
    /// One word.
    pub id: String,
    /// In a sentence.
    pub text: String,
    /// What cannot be beaten, or must be reached.
    pub bound: f64,
    /// Ours.
    pub ours: f64,
    pub ratio: f64,
    /// Unit of both.
    pub unit: String,
    /// `met`, or `not met: because ...`.
    #[serde(serialize_with = "as_target")]
    pub verdict: Verdict,
}

/// A value that the paper does not state.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Assumption {
    /// Of what.
    pub what: String,
    /// What we took.
    pub value: String,
    pub why: String,
    /// Fitted to the paper's figures (at most one value a paper); the cells are named in `why`.
    pub calibrated: bool,
}

/// A table for people.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Table {
    pub title: String,
    /// Names of the columns.
    pub head: Vec<String>,
    /// Rows of as many fields.
    pub rows: Vec<Vec<String>>,
    /// What to read from it.
    pub caption: String,
}

/// How far a table of cells is from the paper's.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct TableError {
    pub table: String,
    /// Cells that the paper has too.
    pub cells: usize,
    /// Mean absolute percentage error, as a ratio.
    pub mape: Option<f64>,
    /// Spearman's rank correlation.
    pub spearman: Option<f64>,
}

/// What makes it another experiment than the published one.
fn changed(context: &Context<'_>) -> Vec<String> {
    let sets = &context.options.sets;
    let words = "This is not the published experiment: changed in every run by --set";
    if sets.is_empty() { Vec::new() } else { vec![format!("{words} {}", sets.join(", "))] }
}

impl Report {
    /// A report that says nothing yet.
    pub fn new(paper: &'static Paper, context: &Context<'_>) -> Self {
        Self {
            paper: paper.name,
            alias: paper.alias,
            title: paper.title,
            source: paper.source,
            version: env!("CARGO_PKG_VERSION"),
            quick: context.quick,
            seeds: vec![context.seed],
            claims: Vec::new(),
            cells: Vec::new(),
            beyond: Vec::new(),
            items: Vec::new(),
            counts: Counts::default(),
            assumptions: Vec::new(),
            tables: Vec::new(),
            notes: changed(context),
            errors: Vec::new(),
            run_s: None,
            figures: Vec::new(),
            files: Vec::new(),
        }
    }

    pub fn claim(
        &mut self,
        id: &str,
        text: &str,
        (paper, ours, unit): (impl Into<Value>, impl Into<Value>, &str),
        verdict: Verdict,
    ) {
        self.claims.push(Claim {
            id: id.to_owned(),
            text: text.to_owned(),
            paper: paper.into(),
            ours: ours.into(),
            unit: unit.to_owned(),
            verdict,
        });
    }

    pub fn cell(
        &mut self,
        table: &str,
        row: impl ToString,
        column: impl ToString,
        (paper, ours, unit): (Option<f64>, f64, &'static str),
    ) {
        let (row, column) = (row.to_string(), column.to_string());
        self.cells.push(Cell { table: table.to_owned(), row, column, paper, ours, unit });
    }

    pub fn target(
        &mut self,
        id: &str,
        text: &str,
        (bound, ours, unit): (f64, f64, &str),
        verdict: Verdict,
    ) {
        let ratio = if bound == 0.0 { 0.0 } else { ours / bound };
        let (id, text, unit) = (id.to_owned(), text.to_owned(), unit.to_owned());
        self.beyond.push(Beyond { id, text, bound, ours, ratio, unit, verdict });
    }

    /// Adds what the paper leaves open and we took from elsewhere.
    pub fn assume(&mut self, what: &str, value: &str, why: &str) {
        self.add_assumption(what, value, why, false);
    }

    /// Adds what was fitted to the paper's figures; `why` names the cells.
    pub fn calibrate(&mut self, what: &str, value: &str, why: &str) {
        self.add_assumption(what, value, why, true);
    }

    fn add_assumption(&mut self, what: &str, value: &str, why: &str, calibrated: bool) {
        let (what, value, why) = (what.to_owned(), value.to_owned(), why.to_owned());
        self.assumptions.push(Assumption { what, value, why, calibrated });
    }

    pub fn note(&mut self, text: impl Into<String>) {
        self.notes.push(text.into());
    }

    /// Works out the errors of the tables, and counts the verdicts.
    #[must_use]
    pub fn finish(mut self) -> Self {
        self.counts = Counts::default();
        for claim in &self.claims {
            *self.counts.of(&claim.verdict) += 1;
        }
        self.errors = self.table_names().into_iter().map(|table| self.error_of(table)).collect();
        self
    }

    /// Names of the tables of cells, in order of appearance.
    pub fn table_names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for cell in &self.cells {
            if !names.contains(&cell.table.as_str()) {
                names.push(&cell.table);
            }
        }
        names
    }

    fn error_of(&self, table: &str) -> TableError {
        let cells = self.cells.iter().filter(|cell| cell.table == table);
        let pairs: Vec<_> = cells.filter_map(|cell| Some((cell.paper?, cell.ours))).collect();
        TableError {
            table: table.to_owned(),
            cells: pairs.len(),
            mape: stats::mape(&pairs),
            spearman: stats::spearman(&pairs),
        }
    }
}

impl Counts {
    fn of(&mut self, verdict: &Verdict) -> &mut usize {
        match verdict {
            Verdict::Reproduced => &mut self.reproduced,
            Verdict::Fitted(_) => &mut self.fitted,
            Verdict::Partly(_) | Verdict::Not(_) => &mut self.differs,
            Verdict::Unknown(_) => &mut self.unknown,
        }
    }

    /// In a sentence.
    pub fn words(&self) -> String {
        let Self { reproduced, fitted, differs, unknown } = self;
        format!(
            "{reproduced} reproduced, {fitted} fitted, {differs} differ, {unknown} cannot be known"
        )
    }
}

impl Verdict {
    /// The same, of a claim that `parameter` was fitted to.
    #[must_use]
    pub fn fitted(self, parameter: &str) -> Self {
        if self.holds() { Self::Fitted(parameter.to_owned()) } else { self }
    }

    /// Reproduced if `holds`, else not, because.
    pub fn when(holds: bool, because: impl FnOnce() -> String) -> Self {
        if holds { Self::Reproduced } else { Self::Not(because()) }
    }

    /// Reproduced if `ours` is within `tolerance` of `paper`, else not, because.
    pub fn within(paper: f64, ours: f64, tolerance: f64, because: impl FnOnce() -> String) -> Self {
        Self::when((ours - paper).abs() <= tolerance, because)
    }

    /// Whether it holds altogether.
    pub fn holds(&self) -> bool {
        *self == Self::Reproduced
    }

    /// Of a claim.
    pub fn words(&self) -> String {
        match self {
            Self::Reproduced => "reproduced".to_owned(),
            Self::Fitted(parameter) => format!("fitted: by {parameter}"),
            Self::Unknown(why) => format!("cannot be known: {why}"),
            Self::Partly(which) => format!("partly reproduced: {which}"),
            Self::Not(why) => format!("not reproduced: because {why}"),
        }
    }

    /// Of a target.
    pub fn target_words(&self) -> String {
        match self {
            Self::Reproduced | Self::Fitted(_) => "met".to_owned(),
            Self::Unknown(why) => format!("not measured: {why}"),
            Self::Partly(which) => format!("partly met: {which}"),
            Self::Not(why) => format!("not met: because {why}"),
        }
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<Option<f64>> for Value {
    fn from(number: Option<f64>) -> Self {
        number.map_or(Self::Unknown, Self::Number)
    }
}

impl Value {
    /// For people, with its unit.
    pub fn words(&self, unit: &str) -> String {
        let number = match self {
            Self::Number(number) => compact(*number),
            Self::Text(text) => return text.clone(),
            Self::Unknown => return "–".to_owned(),
        };
        if unit.is_empty() { number } else { format!("{number} {unit}") }
    }
}

/// A number with as many digits as tell something: four, and no more than two after the point
/// from 10 on.
pub fn compact(number: f64) -> String {
    let digits = match number.abs() {
        size if size >= 1_000.0 => 0,
        size if size >= 100.0 => 1,
        size if size >= 10.0 => 2,
        size if size >= 0.1 || size == 0.0 => 3,
        _ => 5,
    };
    let text = format!("{number:.digits$}");
    if text.contains('.') {
        return text.trim_end_matches('0').trim_end_matches('.').to_owned();
    }
    text
}

fn as_titles<S: serde::Serializer>(figures: &[Figure], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(figures.iter().map(|figure| (&figure.id, &figure.title)))
}

fn as_words<S: serde::Serializer>(verdict: &Verdict, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&verdict.words())
}

fn as_target<S: serde::Serializer>(verdict: &Verdict, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&verdict.target_words())
}
