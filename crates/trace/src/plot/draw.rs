//! From a [`Plot`] to SVG text, by crate plotters.

use super::style::{self, Colour, GRID, INK, MARK, MUTED};
use super::{Line, Panel, Plot, Stroke};
use plotters::coord::Shift;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use thiserror::Error;

/// Why a plot could not be drawn.
#[derive(Error, Debug)]
#[error("drawing failed: {0}")]
pub struct DrawError(pub(super) String);

pub(super) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

const WIDTH: u32 = 960;
const PANEL_HEIGHT: u32 = 220;
const SINGLE_HEIGHT: u32 = 380;
const TITLE_HEIGHT: u32 = 58;
const LEGEND_ROW: u32 = 22;
const AXIS_HEIGHT: u32 = 46;
const MARGIN_LEFT: i32 = 76;
/// Where the middle of an upright label stands.
const LABEL_X: i32 = 14;
const MARGIN_RIGHT: i32 = 24;
const MARK_ROW: i32 = 15;
const MARK_ROWS: usize = 3;
/// Marks that get words; all get a line.
const MARK_LABELS: usize = 24;
/// Width of an average letter, in font sizes.
const LETTER: f64 = 0.56;

/// Draws a plot.
///
/// # Errors
/// [`DrawError`], which drawing to memory should not give.
pub fn render(plot: &Plot) -> Result<String, DrawError> {
    let legend = legend(plot);
    let rows = legend.last().map_or(0, |e| e.row + 1);
    let marks = place_marks(plot);
    let mark_rows = marks.iter().map(|m| m.row + 1).max().unwrap_or(0);
    let panel = if plot.panels.len() == 1 { SINGLE_HEIGHT } else { PANEL_HEIGHT };
    let head = TITLE_HEIGHT + LEGEND_ROW * rows + MARK_ROW as u32 * mark_rows as u32;
    let height = head + panel * plot.panels.len() as u32 + AXIS_HEIGHT;
    let mut text = String::new();
    {
        let root = SVGBackend::with_string(&mut text, (WIDTH, height)).into_drawing_area();
        draw(plot, &root, &legend, &marks, head, panel).map_err(DrawError)?;
        root.present().map_err(|e| DrawError(e.to_string()))?;
    }
    Ok(with_description(&text, &plot.title, &plot.caption))
}

pub(super) type DrawResult = Result<(), String>;

fn draw(
    plot: &Plot,
    root: &Area<'_>,
    legend: &[Entry],
    marks: &[Placed<'_>],
    head: u32,
    panel: u32,
) -> DrawResult {
    root.fill(&WHITE).map_err(|e| e.to_string())?;
    let title = lettering(("sans-serif", 24, FontStyle::Bold), INK);
    let caption = lettering(("sans-serif", 16), MUTED);
    root.draw(&Text::new(plot.title.clone(), (MARGIN_LEFT, 12), title)).map_err(said)?;
    root.draw(&Text::new(plot.caption.clone(), (MARGIN_LEFT, 36), caption)).map_err(said)?;
    draw_legend(root, legend)?;
    let bottom = root.dim_in_pixel().1 as i32;
    for (i, shown) in plot.panels.iter().enumerate() {
        let last = i + 1 == plot.panels.len();
        let top = (head + panel * i as u32) as i32;
        let end = if last { bottom } else { top + panel as i32 };
        let area = root.clone().shrink((0, top), (WIDTH, (end - top) as u32));
        draw_panel(plot, shown, &area, last)?;
    }
    draw_marks(plot, root, marks, head, panel * plot.panels.len() as u32)
}

pub(super) fn said<E: std::fmt::Display>(error: E) -> String {
    error.to_string()
}

fn draw_panel(plot: &Plot, panel: &Panel, area: &Area<'_>, last: bool) -> DrawResult {
    let values = panel.lines.iter().flat_map(|l| &l.points).map(|p| p.1);
    let highest = panel.top.unwrap_or_else(|| values.fold(0.0, f64::max));
    let (divisor, unit) = panel.unit.scale(highest);
    let top = panel.top.map_or_else(|| style::round_up(highest / divisor * 1.02), |t| t / divisor);
    let mut chart = ChartBuilder::on(area)
        .margin_top(8)
        .margin_bottom(if last { 2 } else { 6 })
        .margin_right(MARGIN_RIGHT)
        .set_label_area_size(LabelAreaPosition::Left, MARGIN_LEFT)
        .set_label_area_size(LabelAreaPosition::Bottom, if last { AXIS_HEIGHT as i32 } else { 0 })
        .build_cartesian_2d(0.0..plot.end, 0.0..top)
        .map_err(said)?;
    let label = match unit {
        "" => panel.label.clone(),
        unit => format!("{} ({unit})", panel.label),
    };
    let small = lettering(("sans-serif", 15), MUTED);
    chart
        .configure_mesh()
        .x_labels(11)
        .y_labels(6)
        .light_line_style(TRANSPARENT)
        .bold_line_style(rgb(GRID))
        .axis_style(rgb(MUTED))
        .x_desc(if last { "time (s)" } else { "" })
        .axis_desc_style(lettering(("sans-serif", 16), INK))
        .x_label_formatter(&number)
        .y_label_formatter(&number)
        .label_style(small)
        .draw()
        .map_err(said)?;
    let pixels = chart.plotting_area().get_pixel_range().1;
    let middle = i32::midpoint(pixels.start, pixels.end) - area.get_base_pixel().1;
    let upright = ("sans-serif", 16).into_font().transform(FontTransform::Rotate270);
    let font = lettering(upright, INK).pos(Pos::new(HPos::Center, VPos::Center));
    area.draw(&Text::new(label, (LABEL_X, middle), font)).map_err(said)?;
    for line in &panel.lines {
        draw_line(&mut chart, line, divisor)?;
    }
    Ok(())
}

pub(super) type Chart<'a, 'b> =
    ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

fn draw_line(chart: &mut Chart<'_, '_>, line: &Line, divisor: f64) -> DrawResult {
    let points = line.points.iter().map(|&(t, v)| (t, v / divisor));
    let colour = rgb(line.colour);
    match line.stroke {
        Stroke::Filled => {
            let area = AreaSeries::new(points, 0.0, colour.mix(0.10));
            chart.draw_series(area.border_style(colour.stroke_width(1))).map_err(said)?;
        }
        Stroke::Solid => {
            let series = LineSeries::new(points, colour.stroke_width(2));
            chart.draw_series(series).map_err(said)?;
        }
        Stroke::Dashed => {
            let series = DashedLineSeries::new(points, 7, 4, colour.stroke_width(2));
            chart.draw_series(series).map_err(said)?;
        }
        Stroke::Dotted => {
            let series = DashedLineSeries::new(points, 2, 3, colour.stroke_width(1));
            chart.draw_series(series).map_err(said)?;
        }
    }
    Ok(())
}

/// A legend entry and where it stands.
struct Entry {
    label: String,
    colour: Colour,
    stroke: Stroke,
    x: i32,
    row: u32,
}

/// One entry a label, left to right, wrapped.
fn legend(plot: &Plot) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    let (mut x, mut row) = (MARGIN_LEFT, 0);
    for Line { label, colour, stroke, .. } in plot.panels.iter().flat_map(|p| &p.lines) {
        if entries.iter().any(|e| e.label == *label) {
            continue;
        }
        let width = 34 + 24 + (label.chars().count() as f64 * 13.0 * LETTER) as i32;
        if x + width > WIDTH as i32 - MARGIN_RIGHT && x > MARGIN_LEFT {
            (x, row) = (MARGIN_LEFT, row + 1);
        }
        entries.push(Entry { label: label.clone(), colour: *colour, stroke: *stroke, x, row });
        x += width;
    }
    entries
}

fn draw_legend(root: &Area<'_>, legend: &[Entry]) -> DrawResult {
    let font = lettering(("sans-serif", 16), INK);
    let font = font.pos(Pos::new(HPos::Left, VPos::Center));
    for entry in legend {
        let y = (TITLE_HEIGHT + LEGEND_ROW * entry.row + LEGEND_ROW / 2) as i32;
        let dashes: &[(i32, i32)] = match entry.stroke {
            Stroke::Solid | Stroke::Filled => &[(0, 26)],
            Stroke::Dashed => &[(0, 7), (11, 18), (22, 26)],
            Stroke::Dotted => &[(0, 2), (5, 7), (10, 12), (15, 17), (20, 22)],
        };
        let width = if entry.stroke == Stroke::Dotted { 2 } else { 3 };
        for (from, to) in dashes {
            let ends = vec![(entry.x + from, y), (entry.x + to, y)];
            let style = rgb(entry.colour).stroke_width(width);
            root.draw(&PathElement::new(ends, style)).map_err(said)?;
        }
        let text = Text::new(entry.label.clone(), (entry.x + 34, y), font.clone());
        root.draw(&text).map_err(said)?;
    }
    Ok(())
}

/// A change and where its words stand.
struct Placed<'a> {
    x: i32,
    words: Option<&'a str>,
    left_of_line: bool,
    row: usize,
}

/// Words go in the first row where they do not run into others; in none if all are full.
fn place_marks(plot: &Plot) -> Vec<Placed<'_>> {
    let mut free = [i32::MIN; MARK_ROWS];
    let right = WIDTH as i32 - MARGIN_RIGHT;
    let mut placed = Vec::new();
    for (i, (t, words)) in plot.marks.iter().enumerate() {
        let share = (t / plot.end).clamp(0.0, 1.0);
        let x = MARGIN_LEFT + (share * f64::from(right - MARGIN_LEFT)) as i32;
        let width = (words.chars().count() as f64 * 12.0 * LETTER) as i32 + 12;
        let left_of_line = x + width > right;
        let from = if left_of_line { x - width } else { x };
        let row = (0..MARK_ROWS).find(|&r| free[r] <= from).filter(|_| i < MARK_LABELS);
        if let Some(row) = row {
            free[row] = from + width;
        }
        let words = row.map(|_| words.as_str());
        placed.push(Placed { x, words, left_of_line, row: row.unwrap_or(0) });
    }
    placed
}

fn draw_marks(
    plot: &Plot,
    root: &Area<'_>,
    marks: &[Placed<'_>],
    head: u32,
    height: u32,
) -> DrawResult {
    if plot.panels.is_empty() {
        return Ok(());
    }
    let colour = rgb(MARK);
    let bottom = (head + height) as i32;
    for mark in marks {
        let y = head as i32 - MARK_ROW * (mark.row as i32) - 4;
        let top = if mark.words.is_some() { y - 4 } else { head as i32 };
        for from in (top..bottom).step_by(7) {
            let ends = vec![(mark.x, from), (mark.x, (from + 4).min(bottom))];
            let style = colour.mix(0.7).stroke_width(1);
            root.draw(&PathElement::new(ends, style)).map_err(said)?;
        }
        let Some(words) = mark.words else { continue };
        let (x, side) =
            if mark.left_of_line { (mark.x - 4, HPos::Right) } else { (mark.x + 4, HPos::Left) };
        let font = lettering(("sans-serif", 15), MARK);
        let font = font.pos(Pos::new(side, VPos::Center));
        root.draw(&Text::new(words.to_owned(), (x, y), font)).map_err(said)?;
    }
    Ok(())
}

/// Scenario, seed and version are in the file even where the picture is cropped.
pub(super) fn with_description(svg: &str, title: &str, caption: &str) -> String {
    let escape = |s: &str| s.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let Some(open) = svg.find("<svg").and_then(|at| svg[at..].find('>').map(|n| at + n + 1)) else {
        return svg.to_owned();
    };
    let (title, caption) = (escape(title), escape(caption));
    format!("{}\n<title>{title}</title>\n<desc>{caption}</desc>{}", &svg[..open], &svg[open..])
}

pub(super) fn lettering<'a>(font: impl Into<TextStyle<'a>>, colour: Colour) -> TextStyle<'a> {
    TextStyle { color: rgb(colour).to_backend_color(), ..font.into() }
}

pub(super) fn rgb(colour: Colour) -> RGBColor {
    RGBColor(colour.0, colour.1, colour.2)
}

/// A number without needless digits.
#[allow(clippy::trivially_copy_pass_by_ref)] // plotters asks for a reference
pub(super) fn number(value: &f64) -> String {
    let text = format!("{value:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
