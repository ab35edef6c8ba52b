//! SVG plots of a run, for people who would rather look than read.
//!
//! [`run::plots`] says which plots a run gets; [`Plot`] draws panels above each other with one
//! time axis, one legend, and a vertical line for each change of the world.
//!
//! Text is left to the viewer's fonts; the same report gives the same bytes.

mod draw;
pub mod intervals;
pub mod run;
pub mod style;

pub use draw::render;

use style::{Colour, Unit};

/// A plot: panels with a common time axis.
#[derive(Clone, PartialEq, Debug)]
pub struct Plot {
    /// What is shown.
    pub title: String,
    /// What it was measured on: scenario, seed, version.
    pub caption: String,
    /// From top to bottom.
    pub panels: Vec<Panel>,
    /// Vertical lines: time in seconds, words.
    pub marks: Vec<(f64, String)>,
    /// End of the time axis, seconds.
    pub end: f64,
}

/// One set of axes.
#[derive(Clone, PartialEq, Debug)]
pub struct Panel {
    /// What the y axis shows; the unit is added.
    pub label: String,
    /// Unit of the values.
    pub unit: Unit,
    /// Later lines are drawn over earlier ones.
    pub lines: Vec<Line>,
    /// Fixed top of the y axis; `None` fits the values.
    pub top: Option<f64>,
}

/// One line. Lines of different panels with the same label share a legend entry.
#[derive(Clone, PartialEq, Debug)]
pub struct Line {
    pub label: String,
    pub colour: Colour,
    /// How it is drawn.
    pub stroke: Stroke,
    /// Time in seconds, value.
    pub points: Vec<(f64, f64)>,
}

/// How a line is drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stroke {
    /// Solid, two pixels.
    Solid,
    /// Dashed, two pixels.
    Dashed,
    /// Dotted, one and a half pixels.
    Dotted,
    /// Solid and thin over a light area: a total behind its parts.
    Filled,
}

impl Plot {
    /// Whether no panel has a line: nothing worth a file.
    pub fn is_empty(&self) -> bool {
        self.panels.iter().all(|p| p.lines.is_empty())
    }
}

#[cfg(test)]
mod tests;
