//! A figure of a sweep: means over repetitions with their 95 % intervals, over the values of an
//! axis. The values stand beside each other at equal distances, as names: they may be words.

use super::draw::{self, DrawError, lettering, number, rgb, said};
use super::style::{self, GRID, INK, MUTED, Unit, colour};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// What is drawn.
#[derive(Clone, PartialEq, Debug)]
pub struct Intervals {
    /// What is shown.
    pub title: String,
    /// What it was measured on: scenario, repetitions, version.
    pub caption: String,
    /// What the y axis shows; the unit is added.
    pub label: String,
    /// Unit of the values.
    pub unit: Unit,
    /// What the x axis shows.
    pub axis: String,
    /// Values of the x axis, at most [`Intervals::NAMES`].
    pub names: Vec<String>,
    /// Legend entry; mean and half width at each name, where there is one. At most
    /// [`Intervals::LINES`].
    pub lines: Vec<(String, Estimates)>,
}

/// Mean and half width of the interval at each name, where there is one.
pub type Estimates = Vec<Option<(f64, f64)>>;

impl Intervals {
    /// Names drawn; further ones would run into each other.
    pub const NAMES: usize = 40;
    /// Lines drawn: twice the palette.
    pub const LINES: usize = 14;
}

const WIDTH: u32 = 960;
const HEIGHT: u32 = 400;
const HEAD: u32 = 58;
const LEGEND_ROW: u32 = 22;
const LEFT: i32 = 76;
const FOOT: i32 = 52;
/// Width of an average letter, pixels.
const LETTER: usize = 8;

/// Draws it.
///
/// # Errors
/// [`DrawError`], which drawing to memory should not give.
pub fn render(plot: &Intervals) -> Result<String, DrawError> {
    let lines = &plot.lines[..plot.lines.len().min(Intervals::LINES)];
    let head = HEAD + LEGEND_ROW * lines.len().div_ceil(2) as u32;
    let mut text = String::new();
    {
        let size = (WIDTH, head + HEIGHT);
        let root = SVGBackend::with_string(&mut text, size).into_drawing_area();
        draw(plot, lines, head, &root).map_err(DrawError)?;
        root.present().map_err(|e| DrawError(e.to_string()))?;
    }
    Ok(draw::with_description(&text, &plot.title, &plot.caption))
}

type Line = (String, Vec<Option<(f64, f64)>>);

fn draw(plot: &Intervals, lines: &[Line], head: u32, root: &draw::Area<'_>) -> draw::DrawResult {
    root.fill(&WHITE).map_err(said)?;
    let title = lettering(("sans-serif", 24, FontStyle::Bold), INK);
    root.draw(&Text::new(plot.title.clone(), (LEFT, 12), title)).map_err(said)?;
    let caption = lettering(("sans-serif", 16), MUTED);
    root.draw(&Text::new(plot.caption.clone(), (LEFT, 36), caption)).map_err(said)?;
    legend(lines, root)?;
    let names = plot.names.len().clamp(1, Intervals::NAMES);
    let ends = lines.iter().flat_map(|(_, points)| points.iter().flatten()).map(|(m, h)| m + h);
    let highest = ends.fold(0.0, f64::max);
    let (divisor, unit) = plot.unit.scale(highest);
    let top = style::round_up(highest / divisor * 1.02);
    let area = root.clone().shrink((0, head as i32), (WIDTH, HEIGHT));
    let mut chart = ChartBuilder::on(&area)
        .margin_top(8)
        .margin_right(24)
        .set_label_area_size(LabelAreaPosition::Left, LEFT)
        .set_label_area_size(LabelAreaPosition::Bottom, FOOT)
        .build_cartesian_2d(-0.5..names as f64 - 0.5, 0.0..top)
        .map_err(said)?;
    let label = match unit {
        "" => plot.label.clone(),
        unit => format!("{} ({unit})", plot.label),
    };
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_labels(0)
        .y_labels(6)
        .light_line_style(TRANSPARENT)
        .bold_line_style(rgb(GRID))
        .axis_style(rgb(MUTED))
        .y_desc(label)
        .axis_desc_style(lettering(("sans-serif", 16), INK))
        .y_label_formatter(&number)
        .label_style(lettering(("sans-serif", 15), MUTED))
        .draw()
        .map_err(said)?;
    let words = Pos::new(HPos::Center, VPos::Top);
    let font = lettering(("sans-serif", 15), MUTED).pos(words);
    for (n, name) in plot.names.iter().take(names).enumerate() {
        let (x, y) = chart.backend_coord(&(n as f64, 0.0));
        let room = (WIDTH as usize / names / LETTER).max(3);
        let name: String = name.chars().take(room).collect();
        root.draw(&Text::new(name, (x, y + 8), font.clone())).map_err(said)?;
    }
    let (x, y) = chart.backend_coord(&((names as f64 - 1.0) / 2.0, 0.0));
    let font = lettering(("sans-serif", 16), INK).pos(words);
    root.draw(&Text::new(plot.axis.clone(), (x, y + 30), font)).map_err(said)?;
    for (i, (_, points)) in lines.iter().enumerate() {
        // Beside each other, so that intervals do not hide one another.
        let aside = ((i as f64 + 0.5) / lines.len() as f64 - 0.5) * 0.3;
        let known = points.iter().take(names).enumerate();
        let known = known.filter_map(|(n, p)| p.map(|(m, h)| (n as f64 + aside, m, h)));
        let known: Vec<_> = known.map(|(x, m, h)| (x, m / divisor, h / divisor)).collect();
        series(&mut chart, i, &known)?;
    }
    Ok(())
}

/// A line with its points: place, mean, half width.
fn series(
    chart: &mut draw::Chart<'_, '_>,
    i: usize,
    known: &[(f64, f64, f64)],
) -> draw::DrawResult {
    let style = rgb(colour(i)).stroke_width(2);
    let line = LineSeries::new(known.iter().map(|(x, m, _)| (*x, *m)), style);
    chart.draw_series(line).map_err(said)?;
    let marks = known.iter().map(|&(x, mean, _)| Circle::new((x, mean), 4, style.filled()));
    chart.draw_series(marks).map_err(said)?;
    let cap = 0.04;
    let bars = known.iter().filter(|(_, _, half)| *half > 0.0).flat_map(|&(x, mean, half)| {
        let (low, high) = ((mean - half).max(0.0), mean + half);
        let across = |y| PathElement::new(vec![(x - cap, y), (x + cap, y)], style);
        [PathElement::new(vec![(x, low), (x, high)], style), across(low), across(high)]
    });
    chart.draw_series(bars).map_err(said)?;
    Ok(())
}

/// Two entries a row.
fn legend(lines: &[Line], root: &draw::Area<'_>) -> draw::DrawResult {
    let font = lettering(("sans-serif", 15), INK).pos(Pos::new(HPos::Left, VPos::Center));
    let half = (WIDTH as i32 - LEFT) / 2;
    for (i, (label, _)) in lines.iter().enumerate() {
        let x = LEFT + half * (i % 2) as i32;
        let y = (HEAD + LEGEND_ROW * (i / 2) as u32 + LEGEND_ROW / 2) as i32;
        let style = rgb(colour(i)).stroke_width(3);
        root.draw(&PathElement::new(vec![(x, y), (x + 26, y)], style)).map_err(said)?;
        let room = (half as usize - 40) / LETTER;
        let label: String = label.chars().take(room).collect();
        root.draw(&Text::new(label, (x + 34, y), font.clone())).map_err(said)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_stand_over_their_names_with_their_intervals() {
        let plot = Intervals {
            title: "goodput".into(),
            caption: "s · 3 seeds".into(),
            label: "goodput".into(),
            unit: Unit::BitRate,
            axis: "link.lte.rate".into(),
            names: vec!["5Mbps".into(), "<fast>".into()],
            lines: vec![
                ("ecf".into(), vec![Some((4e6, 1e6)), Some((8e6, 0.0))]),
                ("minrtt".into(), vec![None, Some((7e6, 2e6))]),
            ],
        };
        let svg = render(&plot).unwrap();
        for words in ["link.lte.rate", "5Mbps", "&lt;fast&gt;", "Mbit/s", "minrtt", "3 seeds"] {
            assert!(svg.contains(words), "{words} in {svg}");
        }
        assert_eq!(svg, render(&plot).unwrap());
        // What is too much is left out, not drawn over each other.
        let lines = vec![plot.lines[0].clone(); 30];
        let names = vec!["n".to_owned(); 90];
        render(&Intervals { lines, names, ..plot }).unwrap();
    }
}
