//! What would have happened, for people.

use super::{Interval, Report};
use crate::cmd::agent::{right, table as empty};
use crate::units::{rate, time};
use comfy_table::Cell;

/// The table, and how far it can be trusted.
pub(super) fn of(report: &Report) -> String {
    let mut table = empty(&[
        "what",
        "goodput",
        "change",
        "stall",
        "latency p50",
        "p95",
        "RTT p50",
        "p95",
        "change",
    ]);
    if let Some(measured) = &report.measured {
        let plain = |value: Option<f64>, show: fn(f64) -> String| {
            right(value.map_or_else(String::new, show))
        };
        table.add_row(vec![
            Cell::new("measured"),
            plain(measured.goodput_bps, rate),
            right(""),
            plain(measured.stall_s, time),
            right(""),
            right(""),
            plain(measured.rtt_p50_s, time),
            plain(measured.rtt_p95_s, time),
            right(""),
        ]);
    }
    for (n, row) in report.rows.iter().enumerate() {
        let change = |interval: Option<Interval>| {
            right(interval.filter(|_| n > 0).map_or_else(String::new, percent))
        };
        table.add_row(vec![
            Cell::new(&row.what),
            with(row.goodput_bps, rate),
            change(row.goodput_change),
            with(row.stall_s, time),
            with(row.latency_p50_s, time),
            with(row.latency_p95_s, time),
            with(row.rtt_p50_s, time),
            with(row.rtt_p95_s, time),
            change(row.rtt_p95_change),
        ]);
    }
    let mut text = table.to_string();
    text += &format!(
        "\nmean and 95 % interval of {} seeds; changes are to the replay of what was\n",
        report.seeds
    );
    for (link, [up, down]) in &report.interpolated {
        text += &format!(
            "{link}: rate interpolated {:.0} % of the time down, {:.0} % up\n",
            down * 100.0,
            up * 100.0
        );
    }
    text + &format!(
        "{:.0} % of what the links carried was at rates that rest on interpolation",
        report.rests_on_interpolation * 100.0
    )
}

fn with(interval: Option<Interval>, show: fn(f64) -> String) -> Cell {
    right(interval.map_or_else(String::new, |interval| {
        let half = (interval.high - interval.low) / 2.0;
        format!("{} ± {}", show(interval.mean), show(half))
    }))
}

fn percent(interval: Interval) -> String {
    let half = (interval.high - interval.low) / 2.0;
    format!("{:+.1} % ± {:.1}", interval.mean * 100.0, half * 100.0)
}
