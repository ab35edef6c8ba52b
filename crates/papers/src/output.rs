//! What a report leaves behind: a page, `report.json`, tidy CSV, and each figure as SVG.

use crate::figure::Panel;
use crate::html;
use crate::report::Report;
use crate::svg;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use tabane_trace::csv::quoted;
use thiserror::Error;

/// Why a report could not be written.
#[derive(Error, Debug)]
#[error("{path} cannot be written: {error}", path = path.display())]
pub struct WriteError {
    /// What was being written.
    pub path: PathBuf,
    pub error: std::io::Error,
}

/// Writes everything about a report into `folder`, which is made; names of the files, in order.
/// Files with the same names are replaced, others left alone.
///
/// # Errors
/// [`WriteError`].
pub fn write(folder: &Path, report: &Report) -> Result<Vec<String>, WriteError> {
    let files = files(report);
    make(folder)?;
    for (name, bytes) in &files {
        save(&folder.join(name), bytes)?;
    }
    Ok(files.into_iter().map(|(name, _)| name).collect())
}

/// Writes a page into `folder` that leads to those of `reports`, each in the folder of its name.
///
/// # Errors
/// [`WriteError`].
pub fn write_index(folder: &Path, reports: &[&Report]) -> Result<(), WriteError> {
    make(folder)?;
    save(&folder.join("index.html"), html::index(reports).as_bytes())
}

/// The files of a report: name and contents.
pub fn files(report: &Report) -> Vec<(String, Vec<u8>)> {
    let mut files = vec![
        ("report.html".to_owned(), html::page(report).into_bytes()),
        ("report.json".to_owned(), json(report).into_bytes()),
        ("cells.csv".to_owned(), cells(report).into_bytes()),
    ];
    if !report.figures.is_empty() {
        files.push(("series.csv".to_owned(), series(report).into_bytes()));
    }
    for figure in &report.figures {
        let svg = svg::render(figure, &html::caption(report), true);
        files.push((format!("{}.svg", figure.id), svg.into_bytes()));
    }
    files.extend(report.files.iter().cloned());
    files
}

fn make(folder: &Path) -> Result<(), WriteError> {
    std::fs::create_dir_all(folder).map_err(|error| WriteError { path: folder.to_owned(), error })
}

fn save(path: &Path, bytes: &[u8]) -> Result<(), WriteError> {
    std::fs::write(path, bytes).map_err(|error| WriteError { path: path.to_owned(), error })
}

fn json(report: &Report) -> String {
    let text = serde_json::to_string_pretty(report);
    text.expect("invariant: every field of a report has a JSON form") + "\n"
}

/// One row a cell.
fn cells(report: &Report) -> String {
    let mut out = String::from("paper,table,row,column,published,ours,unit\n");
    for cell in &report.cells {
        let published = cell.paper.map_or_else(String::new, |value| value.to_string());
        let _ = writeln!(
            out,
            "{},{},{},{},{published},{},{}",
            report.paper,
            quoted(&cell.table),
            quoted(&cell.row),
            quoted(&cell.column),
            cell.ours,
            quoted(cell.unit)
        );
    }
    out
}

/// One row a point of a figure; `x` of a heat map is its column, `series` its row.
fn series(report: &Report) -> String {
    let mut out = String::from("paper,figure,panel,series,source,x,y\n");
    for figure in &report.figures {
        for panel in &figure.panels {
            let (title, rows) = match panel {
                Panel::Plot(plot) => (&plot.title, plot_rows(plot)),
                Panel::Heat(heat) => (&heat.title, heat_rows(heat)),
            };
            for row in rows {
                let (id, title) = (quoted(&figure.id), quoted(title));
                let _ = writeln!(out, "{},{id},{title},{row}", report.paper);
            }
        }
    }
    out
}

fn plot_rows(plot: &crate::figure::Plot) -> Vec<String> {
    let name = |x: f64| match plot.x.names.get(x as usize) {
        Some(name) if x >= 0.0 => quoted(name),
        _ => x.to_string(),
    };
    let rows = plot.series.iter().flat_map(|series| {
        let head = format!("{},{}", quoted(&series.label), series.source.name());
        let name = &name;
        series.points.iter().map(move |(x, y)| format!("{head},{},{y}", name(*x)))
    });
    rows.collect()
}

fn heat_rows(heat: &crate::figure::Heat) -> Vec<String> {
    let mut rows = Vec::new();
    for (row, values) in heat.rows.1.iter().zip(&heat.values) {
        for (column, value) in heat.columns.1.iter().zip(values) {
            if let Some(value) = value {
                rows.push(format!("{},,{},{value}", quoted(row), quoted(column)));
            }
        }
    }
    rows
}
