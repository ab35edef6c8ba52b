//! CSV files that templates name: a header of column names, and a row a line. Columns come in any
//! order, lines that begin with `#` are comments, and no cell has a comma or a quote in it.

use crate::link::conditions::lines;

/// A CSV file, not yet understood.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Table {
    columns: Vec<String>,
    rows: Vec<Row>,
}

/// A line of it.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Row {
    /// From 1.
    pub(crate) line: usize,
    cells: Vec<String>,
}

/// Why it cannot be used.
#[derive(thiserror::Error, Clone, PartialEq, Debug)]
#[error("line {line}: {message}")]
pub(crate) struct TableError {
    line: usize,
    message: String,
}

/// Rows of a file.
const MAX_ROWS: usize = 1_000_000;

impl TableError {
    pub(crate) fn new(line: usize, message: impl Into<String>) -> Self {
        Self { line, message: message.into() }
    }
}

impl Table {
    /// Splits the text of a file.
    ///
    /// # Errors
    /// A row that has not as many cells as the header, no row, or too many.
    pub(crate) fn parse(text: &str) -> Result<Self, TableError> {
        let mut lines = lines(text);
        let cells = |line: &str| line.split(',').map(|cell| cell.trim().to_owned()).collect();
        let (at, head) = lines.next().ok_or_else(|| TableError::new(1, "no header"))?;
        let columns: Vec<String> = cells(head);
        if let Some(n) = (1..columns.len()).find(|n| columns[..*n].contains(&columns[*n])) {
            return Err(TableError::new(at, format!("two columns '{}'", columns[n])));
        }
        let mut rows = Vec::new();
        for (line, text) in lines {
            let row = Row { line, cells: cells(text) };
            if row.cells.len() != columns.len() {
                let (has, wants) = (row.cells.len(), columns.len());
                return Err(TableError::new(line, format!("{has} cells, the header has {wants}")));
            }
            if rows.len() >= MAX_ROWS {
                return Err(TableError::new(line, format!("more than {MAX_ROWS} rows")));
            }
            rows.push(row);
        }
        match rows.is_empty() {
            true => Err(TableError::new(at, "no row below the header")),
            false => Ok(Self { columns, rows }),
        }
    }

    pub(crate) fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// The place of a column.
    pub(crate) fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column == name)
    }

    /// Refuses columns that are not `known`.
    ///
    /// # Errors
    /// The first one, with what there could be.
    pub(crate) fn only(&self, known: &[&str]) -> Result<(), TableError> {
        match self.columns.iter().find(|column| !known.contains(&column.as_str())) {
            None => Ok(()),
            Some(column) => {
                let message = format!("unknown column '{column}'; known: {}", known.join(", "));
                Err(TableError::new(1, message))
            }
        }
    }

    /// The place of the one column of these that there is, and what its unit is.
    ///
    /// # Errors
    /// There are several of them.
    pub(crate) fn one_of(
        &self,
        units: &[(&'static str, f64)],
    ) -> Result<Option<(usize, f64)>, TableError> {
        let found = units.iter().filter_map(|(name, unit)| Some((self.column(name)?, *unit)));
        let found: Vec<(usize, f64)> = found.collect();
        match found[..] {
            [] => Ok(None),
            [one] => Ok(Some(one)),
            [(a, _), (b, _), ..] => {
                let (a, b) = (&self.columns[a], &self.columns[b]);
                Err(TableError::new(1, format!("'{a}' and '{b}' say the same; keep one")))
            }
        }
    }

    /// The number in a cell, times `unit`; `None` if the cell is empty.
    ///
    /// # Errors
    /// It is no number, negative, or beyond 9e15 units.
    pub(crate) fn number(
        &self,
        row: &Row,
        (column, unit): (usize, f64),
    ) -> Result<Option<f64>, TableError> {
        let text = &row.cells[column];
        if text.is_empty() {
            return Ok(None);
        }
        // Neither a NaN nor an infinity is in the range.
        let value = text.parse::<f64>().ok().map(|number| number * unit);
        let value = value.filter(|value| (0.0..=9e15).contains(value));
        value.map(Some).ok_or_else(|| {
            let name = &self.columns[column];
            TableError::new(row.line, format!("{name} is '{text}': a number from 0 on is wanted"))
        })
    }

    /// As [`Table::number`], where there has to be one.
    ///
    /// # Errors
    /// As there, and an empty cell.
    pub(crate) fn needed(&self, row: &Row, column: (usize, f64)) -> Result<f64, TableError> {
        let name = || format!("{} is empty", self.columns[column.0]);
        self.number(row, column)?.ok_or_else(|| TableError::new(row.line, name()))
    }

    /// The text in a cell.
    pub(crate) fn text<'t>(&self, row: &'t Row, column: usize) -> &'t str {
        &row.cells[column]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_table_is_refused_with_its_line() {
        let wrong = |text: &str| Table::parse(text).unwrap_err().to_string();
        assert_eq!(wrong(""), "line 1: no header");
        assert_eq!(wrong("# a\n\na,b\n"), "line 3: no row below the header");
        assert_eq!(wrong("a,b\n1,2,3\n"), "line 2: 3 cells, the header has 2");
        assert_eq!(wrong("a,a\n1,2\n"), "line 1: two columns 'a'");
    }

    #[test]
    fn numbers_are_finite_and_not_negative() {
        let table = Table::parse("a,b\n1.5,\nNaN,inf\n-1,x\n").unwrap();
        let cell = |row: usize, column| table.number(&table.rows()[row], (column, 2.0));
        assert_eq!(cell(0, 0), Ok(Some(3.0)));
        assert_eq!(cell(0, 1), Ok(None));
        for (row, column) in [(1, 0), (1, 1), (2, 0), (2, 1)] {
            assert!(cell(row, column).is_err(), "{row} {column}");
        }
        assert!(table.needed(&table.rows()[0], (1, 1.0)).is_err());
    }
}
