//! Tables whose cells are coloured by value: pale to dark, readable without colour too.

use super::{Anchor, Area, HEAT_ROW, Ink, Svg};
use crate::figure::Heat;
use crate::report::compact;
use std::fmt::Write as _;

/// Height of title and names of columns.
pub(super) const HEAD: f64 = 58.0;
const LEFT: f64 = 62.0;

pub(super) fn draw(out: &mut Svg, heat: &Heat, area: Area) {
    let (rows, columns) = (&heat.rows.1, &heat.columns.1);
    let width = (area.width - LEFT) / columns.len().max(1) as f64;
    out.words(area.x, area.y + 14.0, &heat.title, Ink::Strong, Anchor::Start, 14.0);
    let middle = area.x + LEFT + width * columns.len() as f64 / 2.0;
    out.words(middle, area.y + 33.0, &heat.columns.0, Ink::Muted, Anchor::Middle, 12.0);
    for (i, name) in columns.iter().enumerate() {
        let x = area.x + LEFT + width * (i as f64 + 0.5);
        out.words(x, area.y + HEAD - 7.0, name, Ink::Muted, Anchor::Middle, 12.0);
    }
    let height = HEAT_ROW * rows.len() as f64;
    let style = (Ink::Muted, Anchor::Middle, 12.0);
    out.words_turned(area.x + 13.0, area.y + HEAD + height / 2.0, &heat.rows.0, style, true);
    for (i, name) in rows.iter().enumerate() {
        let y = area.y + HEAD + HEAT_ROW * i as f64;
        out.words(area.x + LEFT - 6.0, y + 16.0, name, Ink::Muted, Anchor::End, 12.0);
        let values = heat.values.get(i).map_or(&[][..], Vec::as_slice);
        for (j, value) in values.iter().enumerate() {
            let Some(value) = *value else { continue };
            let x = area.x + LEFT + width * j as f64;
            let share = share(value, heat.scale);
            cell(out, (x, y), width, share);
            let text = compact(value);
            out.words(
                x + width / 2.0,
                y + 16.0,
                &text,
                Ink::On(share > 0.55),
                Anchor::Middle,
                12.0,
            );
        }
    }
}

fn share(value: f64, (low, high): (f64, f64)) -> f64 {
    if high > low { ((value - low) / (high - low)).clamp(0.0, 1.0) } else { 0.0 }
}

fn cell(out: &mut Svg, (x, y): (f64, f64), width: f64, share: f64) {
    // From a pale to a dark blue, evenly in each channel.
    let mix = |pale: f64, dark: f64| (pale + (dark - pale) * share).round() as u8;
    let (r, g, b) = (mix(235.0, 8.0), mix(243.0, 64.0), mix(250.0, 110.0));
    let _ = write!(
        out.text,
        "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" \
         fill=\"#{r:02x}{g:02x}{b:02x}\"/>",
        x + 0.5,
        y + 0.5,
        width - 1.0,
        HEAT_ROW - 1.0
    );
}
