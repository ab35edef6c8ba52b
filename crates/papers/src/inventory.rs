//! Everything that a paper has (figures, tables, claims, systems), and where a report has it:
//! `papers/NAME/inventory.csv`. A test looks each of these places up in the report that is kept
//! beside it.

use crate::published::{Published, Row};
use crate::{Paper, PaperError};
use serde::Serialize;

/// A figure, table, claim or system of a paper.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Item {
    /// As the paper calls it.
    pub item: String,
    /// `figure`, `table`, `cell`, `claim`, `check`, `system`, `algorithm` or `open question`.
    pub kind: String,
    /// What belongs to it.
    pub what: String,
    /// Where it is: `claim ID`, `target ID`, `figure ID`, `table TITLE`, `cells TABLE`, `document
    /// PATH`, or `missing WHY`.
    pub places: Vec<String>,
}

impl Item {
    fn of(row: &Row<'_>) -> Result<Self, PaperError> {
        let text = |column: &str| row.text(column).map(str::to_owned);
        let places = row.text("where")?.split(';').map(|place| place.trim().to_owned()).collect();
        Ok(Self { item: text("item")?, kind: text("kind")?, what: text("what")?, places })
    }
}

/// Those of `paper`.
///
/// # Errors
/// [`PaperError::Published`].
pub fn items(paper: &Paper) -> Result<Vec<Item>, PaperError> {
    let file = format!("papers/{}/inventory.csv", paper.name);
    Published::parse(&file, paper.inventory)?.rows().map(|row| Item::of(&row)).collect()
}
