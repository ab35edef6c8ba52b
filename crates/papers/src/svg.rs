//! Figures as SVG text. Colours stand in attributes, so that a file is right by itself, and in
//! classes, so that a page can change them for dark screens. The same figure gives the same bytes.

mod heat;
mod plot;
mod scale;

use crate::figure::{Figure, Kind, Panel, Source};
use std::fmt::Write as _;
use tabane_trace::plot::style::{Colour, GRID, INK, MUTED, colour};

/// Width of a figure, units.
const WIDTH: f64 = 900.0;
/// Height of a panel of lines or bars.
const PLOT_HEIGHT: f64 = 260.0;
/// Height of a row of a heat map.
const HEAT_ROW: f64 = 24.0;
/// Around a panel.
const GAP: f64 = 14.0;
/// Height of the title.
const TITLE: f64 = 30.0;
/// Height of a row of the legend.
const LEGEND_ROW: f64 = 22.0;
/// Mean width of a letter, as a share of the font's size.
const LETTER: f64 = 0.56;

/// A figure as an SVG element. `standalone` says which namespace it is in and on which ground it
/// stands, as a file needs and a page does not.
pub(crate) fn render(figure: &Figure, caption: &str, standalone: bool) -> String {
    let columns = figure.columns.clamp(1, 4);
    let width = (WIDTH - GAP * (columns as f64 - 1.0)) / columns as f64;
    let rows: Vec<&[Panel]> = figure.panels.chunks(columns).collect();
    let heights: Vec<f64> =
        rows.iter().map(|row| row.iter().map(panel_height).fold(0.0, f64::max)).collect();
    let (entries, legend_height) = legend(figure);
    let head = TITLE + legend_height;
    let height = head + heights.iter().map(|h| h + GAP).sum::<f64>();

    let mut out = Svg::default();
    let space = if standalone { " xmlns=\"http://www.w3.org/2000/svg\"" } else { "" };
    let _ = write!(
        out.text,
        "<svg{space} viewBox=\"0 0 {WIDTH:.0} {height:.0}\" role=\"img\" \
         font-family=\"system-ui, sans-serif\" font-size=\"13\">\
         <title>{}</title><desc>{}</desc>",
        escape(&figure.title),
        escape(caption)
    );
    if standalone {
        let _ = write!(out.text, "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>");
    }
    out.words(0.0, 20.0, &figure.title, Ink::Strong, Anchor::Start, 17.0);
    for entry in &entries {
        out.entry(entry);
    }
    let mut y = head;
    for (row, height) in rows.into_iter().zip(heights) {
        for (i, panel) in row.iter().enumerate() {
            let area = Area { x: i as f64 * (width + GAP), y, width, height };
            match panel {
                Panel::Plot(plot) => plot::draw(&mut out, plot, area),
                Panel::Heat(heat) => heat::draw(&mut out, heat, area),
            }
        }
        y += height + GAP;
    }
    out.text += "</svg>\n";
    out.text
}

/// Where a panel lies.
#[derive(Clone, Copy, Debug)]
struct Area {
    x: f64,
    y: f64,
    width: f64,
    height: f64,
}

fn panel_height(panel: &Panel) -> f64 {
    match panel {
        Panel::Plot(_) => PLOT_HEIGHT,
        Panel::Heat(heat) => heat::HEAD + HEAT_ROW * heat.rows.1.len() as f64 + 6.0,
    }
}

/// Text being written.
#[derive(Default)]
struct Svg {
    text: String,
}

/// Colours of words and of lines that are no data.
#[derive(Clone, Copy)]
enum Ink {
    Strong,
    Muted,
    /// On a coloured cell: dark, or light.
    On(bool),
}

#[derive(Clone, Copy)]
enum Anchor {
    Start,
    Middle,
    End,
}

impl Svg {
    fn words(&mut self, x: f64, y: f64, text: &str, ink: Ink, anchor: Anchor, size: f64) {
        self.words_turned(x, y, text, (ink, anchor, size), false);
    }

    fn words_turned(
        &mut self,
        x: f64,
        y: f64,
        text: &str,
        (ink, anchor, size): (Ink, Anchor, f64),
        turned: bool,
    ) {
        let (class, fill) = match ink {
            Ink::Strong => ("ink", hex(INK)),
            Ink::Muted => ("muted", hex(MUTED)),
            Ink::On(true) => ("on", "#ffffff".to_owned()),
            Ink::On(false) => ("on", "#222222".to_owned()),
        };
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let turn = if turned {
            format!(" transform=\"rotate(-90 {x:.1} {y:.1})\"")
        } else {
            String::new()
        };
        let _ = write!(
            self.text,
            "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" fill=\"{fill}\" \
             text-anchor=\"{anchor}\" font-size=\"{size:.0}\"{turn}>{}</text>",
            escape(text)
        );
    }

    /// A line of the axes (`strong`) or of the grid.
    fn rule(&mut self, from: (f64, f64), to: (f64, f64), strong: bool) {
        let (class, stroke) = if strong { ("axis", MUTED) } else { ("grid", GRID) };
        let _ = write!(
            self.text,
            "<line class=\"{class}\" x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" \
             stroke=\"{}\"/>",
            from.0,
            from.1,
            to.0,
            to.1,
            hex(stroke)
        );
    }

    fn curve(&mut self, points: &[(f64, f64)], stroke: Colour, source: Source) {
        if points.len() < 2 {
            return;
        }
        let path: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let (dashes, width) = match source {
            Source::Ours => ("", 1.8),
            Source::Paper => (" stroke-dasharray=\"7 4\"", 1.8),
            Source::Bound => (" stroke-dasharray=\"2 3\"", 1.4),
        };
        let _ = write!(
            self.text,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{width}\" \
             stroke-linejoin=\"round\"{dashes}/>",
            path.join(" "),
            hex(stroke)
        );
    }

    fn mark(&mut self, (x, y): (f64, f64), paint: Colour, source: Source) {
        let fill = if source == Source::Paper { "none".to_owned() } else { hex(paint) };
        let _ = write!(
            self.text,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.2\" fill=\"{fill}\" stroke=\"{}\" \
             stroke-width=\"1.4\"/>",
            hex(paint)
        );
    }

    fn bar(&mut self, area: Area, paint: Colour, source: Source) {
        let fill = match source {
            Source::Ours => format!("fill=\"{}\"", hex(paint)),
            _ => format!("fill=\"{0}\" fill-opacity=\"0.15\" stroke-dasharray=\"4 2\"", hex(paint)),
        };
        let _ = write!(
            self.text,
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" {fill} \
             stroke=\"{}\"/>",
            area.x,
            area.y,
            area.width.max(0.5),
            area.height.max(0.0),
            hex(paint)
        );
    }

    fn entry(&mut self, entry: &Entry) {
        let middle = entry.y - 4.5;
        match entry.kind {
            Kind::Bars => {
                let area = Area { x: entry.x, y: middle - 5.0, width: 20.0, height: 10.0 };
                self.bar(area, entry.colour, entry.source);
            }
            kind => {
                let ends = [(entry.x, middle), (entry.x + 22.0, middle)];
                self.curve(&ends, entry.colour, entry.source);
                if kind == Kind::Points && entry.source != Source::Bound {
                    self.mark((entry.x + 11.0, middle), entry.colour, entry.source);
                }
            }
        }
        self.words(entry.x + 28.0, entry.y, &entry.label, Ink::Strong, Anchor::Start, 13.0);
    }
}

/// A legend entry and where it stands.
struct Entry {
    label: String,
    colour: Colour,
    source: Source,
    kind: Kind,
    x: f64,
    y: f64,
}

/// One entry a label, left to right, wrapped; and the height of all.
fn legend(figure: &Figure) -> (Vec<Entry>, f64) {
    let mut entries: Vec<Entry> = Vec::new();
    let (mut x, mut y) = (0.0, TITLE + LEGEND_ROW - 6.0);
    for panel in &figure.panels {
        let Panel::Plot(plot) = panel else { continue };
        for series in &plot.series {
            if entries.iter().any(|entry| entry.label == series.label) {
                continue;
            }
            let width = 28.0 + 20.0 + letters(&series.label, 13.0);
            if x > 0.0 && x + width > WIDTH {
                (x, y) = (0.0, y + LEGEND_ROW);
            }
            entries.push(Entry {
                label: series.label.clone(),
                colour: hue(series.hue, series.source),
                source: series.source,
                kind: plot.kind,
                x,
                y,
            });
            x += width;
        }
    }
    let height = if entries.is_empty() { 6.0 } else { y - TITLE + 14.0 };
    (entries, height)
}

/// The colour of a series; bounds are grey.
fn hue(hue: usize, source: Source) -> Colour {
    if source == Source::Bound { MUTED } else { colour(hue) }
}

/// How wide a text is, about.
fn letters(text: &str, size: f64) -> f64 {
    text.chars().count() as f64 * size * LETTER
}

fn hex(colour: Colour) -> String {
    format!("#{:02x}{:02x}{:02x}", colour.0, colour.1, colour.2)
}

/// Text for XML and HTML.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            c => out.push(c),
        }
    }
    out
}
