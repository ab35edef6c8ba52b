//! Figures of a report: panels with axes, the paper's series and ours on the same ones.

/// A figure: panels in a grid.
#[derive(Clone, PartialEq, Debug)]
pub struct Figure {
    /// Name of its file.
    pub id: String,
    pub title: String,
    /// What to see in it, where it comes from.
    pub caption: String,
    /// Panels beside each other (1 to 4).
    pub columns: usize,
    /// Row by row.
    pub panels: Vec<Panel>,
}

#[derive(Clone, PartialEq, Debug)]
pub enum Panel {
    /// Lines or bars.
    Plot(Plot),
    /// A table whose cells are coloured by value.
    Heat(Heat),
}

/// Lines or bars over one x axis.
#[derive(Clone, PartialEq, Debug)]
pub struct Plot {
    /// Stands above it.
    pub title: String,
    pub x: Axis,
    pub y: Axis,
    /// Lines, or bars beside each other.
    pub kind: Kind,
    /// Series; those with the same label share a legend entry, those with the same hue a colour.
    pub series: Vec<Series>,
}

/// How series are drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Lines without points.
    Lines,
    /// Lines with a mark at each point.
    Points,
    /// Bars in groups, one group an x value.
    Bars,
}

#[derive(Clone, PartialEq, Default, Debug)]
pub struct Axis {
    /// What it shows, with its unit.
    pub label: String,
    /// Where it begins; by default at zero or below the least value.
    pub low: Option<f64>,
    /// Where it ends; by default above the greatest value.
    pub high: Option<f64>,
    pub log: bool,
    /// Names of the values 0, 1, 2, ...; a numeric axis without.
    pub names: Vec<String>,
}

#[derive(Clone, PartialEq, Debug)]
pub struct Series {
    pub label: String,
    /// Number of its colour.
    pub hue: usize,
    /// Whose it is: this decides how it is drawn.
    pub source: Source,
    pub points: Vec<(f64, f64)>,
}

/// Whose a series is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// The paper's: dashed, hollow.
    Paper,
    /// Ours: solid.
    Ours,
    /// A physical bound: dotted, grey.
    Bound,
}

/// A table whose cells are coloured by value.
#[derive(Clone, PartialEq, Debug)]
pub struct Heat {
    /// Stands above it.
    pub title: String,
    /// What its rows are, and their names.
    pub rows: (String, Vec<String>),
    /// What its columns are, and their names.
    pub columns: (String, Vec<String>),
    /// Row by row; `None` is an empty cell.
    pub values: Vec<Vec<Option<f64>>>,
    /// Values of the palest and the darkest colour; panels to be compared have the same.
    pub scale: (f64, f64),
}

impl Axis {
    /// A numeric axis.
    pub fn new(label: &str) -> Self {
        Self { label: label.to_owned(), ..Self::default() }
    }

    /// An axis of names.
    pub fn named(label: &str, names: impl IntoIterator<Item = impl ToString>) -> Self {
        let names = names.into_iter().map(|name| name.to_string()).collect();
        Self { label: label.to_owned(), names, ..Self::default() }
    }
}

impl Source {
    /// One word, for files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Paper => "paper",
            Self::Ours => "ours",
            Self::Bound => "bound",
        }
    }
}
