//! Draws the screen: as many links as fit with what each does and why, then connections, then the
//! last event and the keys. From a few columns on; what does not fit is cut off.

use super::view::View;
use crate::cmd::agent::{loss, rtt};
use crate::cmd::status::title;
use crate::plural::count;
use crate::units;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;
use tabane_gateway::model::{ConnStatus, PathState, PathStatus, Status};

/// Columns from which a link has its figures on one line.
const WIDE: u16 = 76;
/// Rows below which links go before connections.
const LOW: u16 = 18;
/// Widest graph, columns.
const GRAPH_MAX: usize = 60;
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Draws all of it.
pub(super) fn draw(frame: &mut Frame, view: &View) {
    let area = frame.area();
    let Some(status) = &view.status else {
        let text = view.trouble.as_deref().unwrap_or("asking the agent ...");
        frame.render_widget(Paragraph::new(text.to_owned()), area);
        return;
    };
    let links = links(view, status, area.width);
    let head = head(view, status, area.width);
    // Connections keep a third of a screen that is not low.
    let keep = area.height >= LOW && !view.connections.is_empty();
    let least = if keep { area.height / 3 } else { 0 };
    let space = area.height.saturating_sub(head.len() as u16 + 2 + least);
    let rows = [
        Constraint::Length(head.len() as u16),
        Constraint::Length((links.len() as u16).min(space)),
        Constraint::Fill(1),
        Constraint::Length(1),
        Constraint::Length(1),
    ];
    let [top, middle, rest, event, keys] = Layout::vertical(rows).areas(area);
    frame.render_widget(Paragraph::new(head), top);
    // The chosen link stays in sight.
    let each = if area.width < WIDE { 3 } else { 2 };
    let behind = (view.chosen as u16 + 1) * each;
    let scroll = behind.saturating_sub(middle.height).min(behind - each);
    frame.render_widget(Paragraph::new(links).scroll((scroll, 0)), middle);
    connections(frame, view, rest);
    frame.render_widget(last_event(view), event);
    frame.render_widget(foot(view), keys);
}

fn head(view: &View, status: &Status, width: u16) -> Vec<Line<'static>> {
    let total = |rate: fn(&PathStatus) -> f64| status.paths.iter().map(rate).sum::<f64>();
    let (down, up) = (total(|p| p.rx_bps), total(|p| p.tx_bps));
    let name = Span::from(format!("{} {}", status.agent, status.name)).bold();
    let server = status.server.map(|address| format!("  {address}")).unwrap_or_default();
    let rates = format!("↓ {}  ↑ {}", units::rate(down), units::rate(up)).bold();
    let rest = format!(
        "{}, {}",
        count(status.connections, "connection"),
        count(status.udp_flows, "UDP flow")
    );
    let up = Span::from(format!("  up {}", units::span(status.uptime_s)));
    let mut lines = if width < WIDE {
        vec![Line::from(vec![name, up]), Line::from(rates), Line::from(rest)]
    } else {
        let first = Line::from(vec![name, Span::from(server), up]);
        vec![first, Line::from(vec![rates, Span::from(format!("   {rest}"))])]
    };
    if let Some(trouble) = &view.trouble {
        lines.push(Line::from(trouble.clone()).red().bold());
    }
    lines.push(Line::default());
    lines
}

fn links(view: &View, status: &Status, width: u16) -> Vec<Line<'static>> {
    let all = status.paths.iter().enumerate();
    all.flat_map(|(i, path)| link(view, path, i == view.chosen, width)).collect()
}

/// A link: two lines, or three on a narrow screen.
fn link(view: &View, path: &PathStatus, chosen: bool, width: u16) -> Vec<Line<'static>> {
    let (state, colour) = match path.state {
        PathState::Up => ("up", Color::Green),
        PathState::Connecting => ("connecting", Color::Yellow),
        PathState::Down => ("down", Color::Red),
        PathState::Absent => ("absent", Color::DarkGray),
    };
    let mark = Span::from(if chosen { "▶ " } else { "  " }).bold();
    let name = Span::styled(format!("{:<12}", title(path)), Style::new().bold());
    let state = Span::styled(format!(" {state:<10}"), colour);
    let role = Span::from(format!(" {:<9}", path.role));
    let figures = format!(" {:>9} {:>7}", rtt(path.rtt_ms), loss(path.loss));
    let busy = path.rx_bps + path.tx_bps >= 20e3;
    let idle = path.state == PathState::Up && !busy;
    let reason_colour = if idle { Color::Yellow } else { colour };
    let reason = Line::styled(format!("    {}", path.reason), reason_colour);
    let graph = |width| Span::styled(graph(view, path, width), Color::Cyan);
    if width < WIDE {
        let first = Line::from(vec![mark, name, state, Span::from(path.role.to_string())]);
        let rates =
            format!("    ↓{} ↑{} {} ", short(path.rx_bps), short(path.tx_bps), rtt(path.rtt_ms));
        let left = usize::from(width).saturating_sub(rates.chars().count());
        return vec![first, Line::from(vec![Span::from(rates), graph(left)]), reason];
    }
    let rates = format!("  ↓{:>7} ↑{:>7} ", short(path.rx_bps), short(path.tx_bps));
    let used = 2 + 12 + 11 + 10 + figures.chars().count() + rates.chars().count();
    let left = usize::from(width).saturating_sub(used);
    let rest = [Span::from(figures), Span::from(rates), graph(left)];
    let first = [mark, name, state, role].into_iter().chain(rest);
    vec![Line::from_iter(first), reason]
}

/// Received and sent together, at the scale of the busiest link.
fn graph(view: &View, path: &PathStatus, width: usize) -> String {
    let peak = view.peak().max(1.0);
    let (rx, tx) = (view.rates(path, 0), view.rates(path, 1));
    let width = width.min(GRAPH_MAX);
    let skipped = rx.len().saturating_sub(width);
    let bar = |(rx, tx): (&f64, &f64)| match rx.max(*tx) {
        rate if rate < 1000.0 => ' ',
        rate => BARS[((rate / peak * 8.0) as usize).min(7)],
    };
    let bars: String = rx.iter().zip(&tx).skip(skipped).map(bar).collect();
    // The newest is at the right also while there are few.
    format!("{bars:>width$}")
}

fn connections(frame: &mut Frame, view: &View, area: Rect) {
    let mut lines = vec![Line::default()];
    let title = format!("connections by {}", view.sort.name());
    lines.push(
        Line::from(format!("{title:<30} {:>10} {:>10}  carried by", "received", "sent")).bold(),
    );
    if area.width < WIDE {
        lines[1] = Line::from(title).bold();
    }
    lines.extend(view.connections.iter().map(|conn| connection(conn, area.width)));
    frame.render_widget(Paragraph::new(lines), area);
}

fn connection(conn: &ConnStatus, width: u16) -> Line<'static> {
    let bytes = |n: u64| units::bytes(n as f64);
    let paths: Vec<&str> = conn.subflows.iter().map(|subflow| subflow.path.as_str()).collect();
    if width < WIDE {
        let both = bytes(conn.rx_bytes + conn.tx_bytes);
        return Line::from(format!("{both:>10} {}", conn.target));
    }
    Line::from(format!(
        "{:<30} {:>10} {:>10}  {}",
        cut(&conn.target, 30),
        bytes(conn.rx_bytes),
        bytes(conn.tx_bytes),
        paths.join(" ")
    ))
}

fn last_event(view: &View) -> Line<'static> {
    match (&view.message, view.events.back()) {
        (Some(Ok(text)), _) => Line::from(text.clone()).green(),
        (Some(Err(text)), _) => Line::from(text.clone()).red(),
        (None, Some(event)) => {
            let time = units::utc(event.unix_ms);
            let time = time.get(11..19).unwrap_or_default();
            Line::from(format!("{time} UTC  {}", event.text)).dim()
        }
        (None, None) => Line::default(),
    }
}

fn foot(view: &View) -> Line<'static> {
    let text = match view.chosen_path().filter(|_| view.choosing) {
        Some(path) => {
            format!(" {}: 1 primary  2 secondary  3 backup  4 never  Esc leave it", path.name)
        }
        None => " q leave  ↑↓ link  p role  s sort".to_owned(),
    };
    Line::from(text).reversed()
}

/// `93.4M`: bits per second in few columns.
fn short(bps: f64) -> String {
    let units = [(1e9, "G"), (1e6, "M"), (1e3, "k")];
    match units.iter().find(|unit| bps >= unit.0) {
        Some((one, name)) if bps / one >= 100.0 => format!("{:.0}{name}", bps / one),
        Some((one, name)) => format!("{:.1}{name}", bps / one),
        None => format!("{bps:.0}"),
    }
}

fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
