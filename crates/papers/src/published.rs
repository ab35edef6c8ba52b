//! Published figures: CSV files beside the scenarios, with a head line and `#` comments.

use crate::PaperError;

/// A file of published figures.
#[derive(Clone, PartialEq, Debug)]
pub struct Published {
    file: String,
    head: Vec<String>,
    rows: Vec<(usize, Vec<String>)>,
}

/// A row of it.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    of: &'a Published,
    line: usize,
    fields: &'a [String],
}

impl Published {
    /// Reads a file; `name` stands in messages. Fields hold no commas and no quotes.
    ///
    /// # Errors
    /// [`PaperError::Published`] without a head, or for a row with more or fewer fields than it.
    pub fn parse(name: &str, text: &str) -> Result<Self, PaperError> {
        let mut lines = text.lines().enumerate().filter(|(_, line)| {
            let line = line.trim();
            !line.is_empty() && !line.starts_with('#')
        });
        let split = |line: &str| line.split(',').map(|f| f.trim().to_owned()).collect::<Vec<_>>();
        let mut published = Self { file: name.to_owned(), head: Vec::new(), rows: Vec::new() };
        let head = lines.next().ok_or_else(|| published.wrong(0, "no head line".to_owned()))?;
        published.head = split(head.1);
        for (at, line) in lines {
            let fields = split(line);
            let (is, shall) = (fields.len(), published.head.len());
            if is != shall {
                return Err(published.wrong(at, format!("{is} fields, the head has {shall}")));
            }
            published.rows.push((at, fields));
        }
        Ok(published)
    }

    pub fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        self.rows.iter().map(|(line, fields)| Row { of: self, line: *line, fields })
    }

    fn wrong(&self, at: usize, message: String) -> PaperError {
        PaperError::Published { file: self.file.clone(), line: at + 1, message }
    }
}

impl<'a> Row<'a> {
    /// What stands in a column.
    ///
    /// # Errors
    /// [`PaperError::Published`] if there is no such column.
    pub fn text(&self, column: &str) -> Result<&'a str, PaperError> {
        let at = self.of.head.iter().position(|name| name == column);
        let missing = || self.of.wrong(0, format!("no column '{column}'"));
        at.map(|at| self.fields[at].as_str()).ok_or_else(missing)
    }

    /// The number that stands in a column; `None` if it is empty.
    ///
    /// # Errors
    /// [`PaperError::Published`] if there is no such column, or no number in it.
    pub fn number(&self, column: &str) -> Result<Option<f64>, PaperError> {
        let text = self.text(column)?;
        if text.is_empty() {
            return Ok(None);
        }
        let wrong = |_| self.of.wrong(self.line, format!("'{text}' is no number ({column})"));
        text.parse().map(Some).map_err(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_and_faults_named_by_line() {
        let text = "# source\nup,down,seconds\n0,1,54.7\n\n1,1,\n";
        let published = Published::parse("t.csv", text).unwrap();
        let seconds: Vec<_> = published.rows().map(|r| r.number("seconds").unwrap()).collect();
        assert_eq!(seconds, [Some(54.7), None]);
        let row = published.rows().next().unwrap();
        assert_eq!(row.text("down").unwrap(), "1");
        assert!(row.text("left").unwrap_err().to_string().contains("no column 'left'"));
        let wrong = Published::parse("t.csv", "a,b\n1\n").unwrap_err();
        assert_eq!(wrong.to_string(), "t.csv:2: 1 fields, the head has 2");
        let word = Published::parse("t.csv", "a\nfast\n").unwrap();
        let wrong = word.rows().next().unwrap().number("a").unwrap_err();
        assert_eq!(wrong.to_string(), "t.csv:2: 'fast' is no number (a)");
    }
}
