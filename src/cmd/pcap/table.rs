//! An analysis as human-readable text.

use crate::units::{bytes, rate, time};
use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use comfy_table::{Attribute, Cell, CellAlignment, Table};
use tabane_trace::analysis::report::{Connection, Direction, Rtt, Subflow};
use tabane_trace::analysis::{Counts, Document, Label, Opened};

/// Connections shown, those that carry most; the rest is summed up.
const CONNECTIONS: usize = 20;
/// Subflows of a connection shown.
const SUBFLOWS: usize = 16;
/// Signals shown.
const EVENTS: usize = 20;

/// All of it.
pub(super) fn text(document: &Document) -> String {
    let analysis = &document.analysis;
    let mut parts = vec![head(document)];
    if analysis.connections.is_empty() {
        parts.push("no TCP in it".to_owned());
    } else {
        parts.push(connections(&analysis.connections).to_string());
        parts.extend(others(&analysis.labels));
        parts.extend(troubles(&analysis.connections));
        parts.extend(events(&analysis.connections));
        parts.extend(fairness(document));
    }
    parts.extend(skipped(document));
    parts.join("\n\n")
}

fn head(document: &Document) -> String {
    let (file, analysis) = (&document.file, &document.analysis);
    let ends = if file.whole { String::new() } else { format!("\n{}", file.end) };
    format!(
        "{}: {}, {}, {} frames, {} of them TCP, {} s{ends}",
        file.name,
        file.format,
        bytes(file.bytes as f64),
        file.frames,
        analysis.packets,
        (analysis.duration_s * 1e3).round() / 1e3
    )
}

fn connections(all: &[Connection]) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_HORIZONTAL_ONLY);
    let head = [
        "connection",
        "data",
        "goodput",
        "again",
        "RTT min/median",
        "dup ACK",
        "fast",
        "retr.",
        "spurious",
        "disorder",
    ];
    table.set_header(head.iter().map(|h| Cell::new(h).add_attribute(Attribute::Dim)));
    let mut order: Vec<usize> = (0..all.len()).collect();
    order.sort_by_key(|i| std::cmp::Reverse((all[*i].new_bytes(), all.len() - i)));
    for &i in order.iter().take(CONNECTIONS) {
        connection(&mut table, i, &all[i]);
    }
    if order.len() > CONNECTIONS {
        let rest = &order[CONNECTIONS..];
        let sum: u64 = rest.iter().map(|i| all[*i].new_bytes()).sum();
        table.add_row(vec![Cell::new(format!("{} more", rest.len())), right(bytes(sum as f64))]);
    }
    table
}

fn connection(table: &mut Table, number: usize, c: &Connection) {
    let (way, forward) = c.main();
    let alone = c.subflows.len() == 1;
    let first = &c.subflows[0];
    let mut name = format!("{number}: {} {}", c.kind, ends(&c.client, &c.server, forward));
    if alone && !matches!(first.opened, Opened::Plain | Opened::Mptcp) {
        name += &format!("\n{}", first.opened.words());
    }
    let rtt = if alone { direction(first, forward).rtt } else { None };
    let again = way.retransmitted_bytes + way.reinjected_bytes;
    let mut row = vec![
        Cell::new(name).add_attribute(Attribute::Bold),
        right(bytes(way.new_bytes as f64)),
        right(rate(way.goodput_bps)).add_attribute(Attribute::Bold),
        right(share(again, way.bytes)),
        right(rtt_words(rtt)),
    ];
    row.extend(counts(&c.labels()));
    table.add_row(row);
    if alone {
        return;
    }
    for subflow in c.subflows.iter().take(SUBFLOWS) {
        let d = direction(subflow, forward);
        let mut labels = subflow.forward.labels;
        labels.merge(&subflow.backward.labels);
        let ends = ends(&subflow.client, &subflow.server, forward);
        let mut row = vec![
            Cell::new(format!("  {ends}\n  {}", subflow.opened.words())),
            right(bytes(d.new_bytes as f64)),
            right(rate(d.goodput_bps)),
            right(share(d.bytes - d.new_bytes, d.bytes)),
            right(rtt_words(d.rtt)),
        ];
        row.extend(counts(&labels));
        table.add_row(row);
    }
    if c.subflows.len() > SUBFLOWS {
        table.add_row(vec![format!("  {} more subflows", c.subflows.len() - SUBFLOWS)]);
    }
}

fn direction(subflow: &Subflow, forward: bool) -> &Direction {
    if forward { &subflow.forward } else { &subflow.backward }
}

/// The client first; the arrow shows where most data goes.
fn ends(client: &str, server: &str, forward: bool) -> String {
    format!("{client} {} {server}", if forward { "->" } else { "<-" })
}

fn counts(labels: &Counts) -> Vec<Cell> {
    Label::ERRORS.into_iter().map(|label| right(labels.get(label).to_string())).collect()
}

/// Labels that have no column.
fn others(labels: &Counts) -> Option<String> {
    let shown = labels.iter().filter(|(label, _)| !Label::ERRORS.contains(label));
    let words: Vec<String> =
        shown.map(|(label, n)| format!("{} {n}", label.name().replace('_', " "))).collect();
    (!words.is_empty()).then(|| format!("also labelled: {}", words.join(", ")))
}

/// Joins that failed, fallbacks, what could not be told.
fn troubles(all: &[Connection]) -> Option<String> {
    let mut lines = Vec::new();
    for (i, c) in all.iter().enumerate() {
        for subflow in &c.subflows {
            let fell = matches!(subflow.opened, Opened::Fallback | Opened::FallbackUnconfirmed);
            let refused =
                c.kind == "mptcp" && matches!(subflow.opened, Opened::NoAnswer | Opened::Reset);
            if fell || refused || subflow.opened.is_failed_join() {
                let (from, to) = (&subflow.client, &subflow.server);
                lines.push(format!("{i}: {from} -> {to}: {}", subflow.opened.words()));
            }
        }
        if c.kind == "mptcp" && c.tokens == [None, None] {
            lines.push(format!(
                "{i}: keys not captured: its other subflows cannot be told, and appear as \
                 connections of their own"
            ));
        }
        let unmapped = c.forward.unmapped_bytes + c.backward.unmapped_bytes;
        if unmapped > 0 {
            lines.push(format!("{i}: {} without a mapping", bytes(unmapped as f64)));
        }
        let reinjected = c.forward.reinjected_bytes + c.backward.reinjected_bytes;
        if reinjected > 0 {
            let words = bytes(reinjected as f64);
            lines.push(format!("{i}: {words} reinjected, or sent by several subflows"));
        }
    }
    let more = lines.len().saturating_sub(EVENTS);
    lines.truncate(EVENTS);
    if more > 0 {
        lines.push(format!("{more} more (--json has all)"));
    }
    (!lines.is_empty()).then(|| lines.join("\n"))
}

fn events(all: &[Connection]) -> Option<String> {
    let mut lines = Vec::new();
    let mut more = 0;
    for (i, c) in all.iter().enumerate() {
        for event in &c.events {
            let subflow = c.subflows.iter().position(|s| s.stream == event.stream as usize);
            let who = if event.by_client { "client" } else { "server" };
            let (t, on) = (event.t, subflow.unwrap_or(0));
            let what = event.what.words();
            lines.push((t, format!("{t:.3} s  {i}: {who} on subflow {on} {what}")));
        }
        more += c.more_events as usize;
    }
    lines.sort_by(|a, b| a.0.total_cmp(&b.0));
    more += lines.len().saturating_sub(EVENTS);
    let mut lines: Vec<String> = lines.into_iter().take(EVENTS).map(|(_, line)| line).collect();
    if more > 0 {
        lines.push(format!("{more} more signals (--json has most)"));
    }
    (!lines.is_empty()).then(|| lines.join("\n"))
}

fn fairness(document: &Document) -> Option<String> {
    let fairness = document.analysis.fairness.as_ref()?;
    let shares = fairness.shares.iter().take(CONNECTIONS).map(|s| {
        let (share, ahead) = (s.share * 100.0, s.ahead * 100.0);
        format!("{} {share:.1} % (ahead {ahead:.0} % of the time)", s.connection)
    });
    let converged = match fairness.convergence_s {
        Some(s) => format!("stays at 0.9 or above after {s:.1} s"),
        None => "does not stay at 0.9 or above".to_owned(),
    };
    Some(format!(
        "Jain's index over {:.3} s, from {:.1} to {:.1} s: mean {:.3}, 5th percentile {:.3}, \
         below 0.9 for {:.1} % of the time; {converged}\nshares: {}",
        fairness.window_s,
        fairness.from_s,
        fairness.to_s,
        fairness.mean,
        fairness.p05,
        fairness.below_0_9 * 100.0,
        shares.collect::<Vec<_>>().join(", ")
    ))
}

fn skipped(document: &Document) -> Option<String> {
    let skipped = &document.file.skipped;
    let words: Vec<String> = skipped.iter().map(|(why, n)| format!("{n} {why}")).collect();
    (!words.is_empty()).then(|| format!("skipped: {}", words.join(", ")))
}

fn right(text: String) -> Cell {
    Cell::new(text).set_alignment(CellAlignment::Right)
}

fn share(part: u64, all: u64) -> String {
    if all == 0 { String::new() } else { format!("{:.2} %", part as f64 * 100.0 / all as f64) }
}

fn rtt_words(rtt: Option<Rtt>) -> String {
    rtt.map_or_else(String::new, |r| format!("{} / {}", time(r.min_s), time(r.median_s)))
}
