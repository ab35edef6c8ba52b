//! Results as human-readable tables.

use crate::units::{bytes, rate};
use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use comfy_table::{Attribute, Cell, CellAlignment, Table};
use tabane_sim::result::{FlowResult, RunResult};
use tabane_trace::Report;

/// Flows shown before the rest is summed up.
const FLOWS: usize = 24;

/// Flows with their subflows.
pub(in crate::cmd) fn flows(result: &RunResult, report: &Report) -> Table {
    let mut table =
        empty(&["flow", "path", "bytes", "completed", "goodput", "share", "sent again"]);
    for flow in result.flows.iter().take(FLOWS) {
        let several = flow.subflows.len() > 1;
        let path = match flow.subflows.as_slice() {
            [only] => only.path.as_str(),
            _ => "",
        };
        table.add_row(vec![
            Cell::new(&flow.name).add_attribute(Attribute::Bold),
            Cell::new(path),
            right(bytes(flow.bytes as f64)),
            right(completion(flow)),
            right(rate(flow.goodput_bps)).add_attribute(Attribute::Bold),
            Cell::new(""),
            right(if several { String::new() } else { repeats(report, flow, 0) }),
        ]);
        let subflows = flow.subflows.iter().zip(flow.shares()).enumerate();
        for (i, (subflow, share)) in subflows.filter(|_| several) {
            table.add_row(vec![
                Cell::new(""),
                Cell::new(&subflow.path),
                right(bytes(subflow.bytes as f64)),
                Cell::new(""),
                right(rate(subflow.goodput_bps)),
                right(format!("{:.1} %", share * 100.0)),
                right(repeats(report, flow, i)),
            ]);
        }
    }
    if result.flows.len() > FLOWS {
        let rest = &result.flows[FLOWS..];
        table.add_row(vec![
            Cell::new(format!("{} more", rest.len())),
            Cell::new(""),
            right(bytes(rest.iter().map(|f| f.bytes as f64).sum())),
            right(format!("{} of them", rest.iter().filter(|f| f.completed_s.is_some()).count())),
            right(rate(FlowResult::goodput_together(rest, result.ended_s))),
        ]);
    }
    table
}

/// One row a point of a sweep.
pub(in crate::cmd) fn points<'a>(
    axes: &[String],
    runs: impl Iterator<Item = (&'a [(String, String)], &'a RunResult)>,
) -> Table {
    let mut head: Vec<&str> = axes.iter().map(String::as_str).collect();
    head.extend(["bytes", "completed", "goodput", "shares"]);
    let mut table = empty(&head);
    for (params, result) in runs {
        let mut row: Vec<Cell> = params.iter().map(|(_, value)| right(value.clone())).collect();
        let sum: f64 = result.flows.iter().map(|f| f.bytes as f64).sum();
        let last = result
            .flows
            .iter()
            .map(|f| f.completed_s)
            .try_fold(0.0, |max: f64, at| at.map(|at| max.max(at)));
        row.push(right(bytes(sum)));
        row.push(right(last.map_or_else(|| "not".to_owned(), seconds)));
        row.push(right(rate(FlowResult::goodput_together(&result.flows, result.ended_s))));
        row.push(Cell::new(shares(result)));
        table.add_row(row);
    }
    table
}

/// `wifi 71 %, lte 29 %`, over all flows.
fn shares(result: &RunResult) -> String {
    let mut paths: Vec<(&str, u64)> = Vec::new();
    for subflow in result.flows.iter().flat_map(|f| &f.subflows) {
        match paths.iter_mut().find(|(name, _)| *name == subflow.path) {
            Some((_, sum)) => *sum += subflow.bytes,
            None => paths.push((&subflow.path, subflow.bytes)),
        }
    }
    let all: u64 = paths.iter().map(|p| p.1).sum();
    let share = |bytes: u64| bytes as f64 * 100.0 / all.max(1) as f64;
    let words = paths.iter().map(|(name, bytes)| format!("{name} {:.0} %", share(*bytes)));
    words.collect::<Vec<_>>().join(", ")
}

pub(super) fn empty(head: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_HORIZONTAL_ONLY);
    table.set_header(head.iter().map(|h| Cell::new(h).add_attribute(Attribute::Dim)));
    table
}

pub(super) fn right(text: String) -> Cell {
    Cell::new(text).set_alignment(CellAlignment::Right)
}

/// Bytes that the sender sent again on the `n`th subflow, and their share.
fn repeats(report: &Report, flow: &FlowResult, n: usize) -> String {
    let figure = |metric| report.figure(&flow.name, Some(n), metric);
    match (figure("retransmitted_bytes"), figure("retransmitted_ratio")) {
        (Some(again), Some(ratio)) if again > 0.0 => {
            format!("{} ({:.2} %)", bytes(again), ratio * 100.0)
        }
        (Some(_), _) => "0".to_owned(),
        _ => String::new(),
    }
}

fn completion(flow: &FlowResult) -> String {
    match (flow.completed_s, &flow.failed) {
        (Some(at), _) => seconds(at),
        (None, Some(why)) => format!("failed: {why}"),
        (None, None) => "not".to_owned(),
    }
}

/// `12.3 s`.
pub(in crate::cmd) fn seconds(s: f64) -> String {
    format!("{s:.3} s")
}
