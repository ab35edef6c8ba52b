//! Measured conditions: a CSV file whose rows say what a link was like from a time on.

use super::{Condition, Conditions, DelayIs, Phase, QueueIs, RateIs, SHORTEST};
use crate::seed::Rng;
use std::fmt::Write as _;
use std::sync::Arc;
use tabane_engine::Duration;
use thiserror::Error;

/// Rows, largest supported number.
pub(super) const MAX_ROWS: usize = 10_000_000;

/// Conditions over time.
#[derive(Clone, PartialEq, Debug)]
pub struct Series {
    /// Times from the start, ascending; the first is zero.
    rows: Vec<(Duration, Condition)>,
    /// After which it begins again; `None`: the last row holds.
    period: Option<Duration>,
}

/// Why a file is no series.
#[derive(Error, Clone, PartialEq, Debug)]
#[error("line {line}: {message}")]
pub struct SeriesError {
    /// From 1.
    pub line: usize,
    /// What is wrong and what to do.
    pub message: String,
}

impl SeriesError {
    pub(super) fn new(line: usize, message: impl Into<String>) -> Self {
        Self { line, message: message.into() }
    }
}

/// What a column says, and in which unit.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Column {
    /// Nanoseconds per unit.
    Time(f64),
    /// Bits per second per unit.
    Rate(f64),
    /// Nanoseconds per unit.
    Delay(f64),
    /// Share per unit.
    Loss(f64),
    QueuePackets,
    /// Bytes per unit.
    QueueBytes(f64),
}

/// Names of columns.
pub(super) const COLUMNS: &[(&str, Column)] = &[
    ("time_s", Column::Time(1e9)),
    ("time_ms", Column::Time(1e6)),
    ("rate_mbps", Column::Rate(1e6)),
    ("rate_kbps", Column::Rate(1e3)),
    ("rate_bps", Column::Rate(1.0)),
    ("delay_ms", Column::Delay(1e6)),
    ("delay_s", Column::Delay(1e9)),
    ("delay_us", Column::Delay(1e3)),
    ("loss", Column::Loss(1.0)),
    ("loss_percent", Column::Loss(0.01)),
    ("queue_packets", Column::QueuePackets),
    ("queue_bytes", Column::QueueBytes(1.0)),
    ("queue_kb", Column::QueueBytes(1e3)),
];

impl Column {
    /// What of a link it changes: two columns must not change the same.
    pub(super) fn what(self) -> &'static str {
        match self {
            Self::Time(_) => "time",
            Self::Rate(_) => "rate",
            Self::Delay(_) => "delay",
            Self::Loss(_) => "loss",
            Self::QueuePackets | Self::QueueBytes(_) => "queue",
        }
    }

    /// Puts a number into a condition.
    ///
    /// # Errors
    /// What the number should be.
    pub(super) fn put(self, value: f64, into: &mut Condition) -> Result<(), &'static str> {
        let within = |low: f64, high: f64| (low..=high).contains(&value);
        match self {
            Self::Time(_) => {}
            Self::Rate(unit) if within(0.0, 1e12 / unit) => {
                into.rate = RateIs::Bps((value * unit) as u64);
            }
            Self::Rate(_) => return Err("a rate is from 0 to 1 Tbit/s"),
            Self::Delay(unit) if within(0.0, 3.6e12 / unit) => {
                into.delay = DelayIs::Exactly(Duration((value * unit) as u64));
            }
            Self::Delay(_) => return Err("a delay is from 0 to an hour"),
            Self::Loss(unit) if within(0.0, 1.0 / unit) => into.loss = Some(value * unit),
            Self::Loss(1.0) => return Err("a loss is a share from 0 to 1 (or use loss_percent)"),
            Self::Loss(_) => return Err("a loss is from 0 to 100 percent"),
            Self::QueuePackets if within(1.0, 1e9) => {
                into.queue = Some(QueueIs::Packets(value as u64));
            }
            Self::QueueBytes(unit) if within(1.0 / unit, 1e12 / unit) => {
                into.queue = Some(QueueIs::Bytes((value * unit) as u64));
            }
            Self::QueuePackets | Self::QueueBytes(_) => {
                return Err("a queue has room for at least one");
            }
        }
        Ok(())
    }
}

/// Lines with something in them, by number; comments begin with `#`.
pub(crate) fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let numbered = text.lines().enumerate().map(|(n, line)| (n + 1, line.trim()));
    numbered.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

impl Series {
    /// Parses the text of a file.
    ///
    /// # Errors
    /// [`SeriesError`] says in which line, and what to write.
    pub fn parse(text: &str) -> Result<Self, SeriesError> {
        let mut lines = lines(text);
        let (line, head) = lines.next().ok_or_else(|| {
            SeriesError::new(1, "no header; write time_s,rate_mbps,delay_ms or the like")
        })?;
        let columns = header(line, head)?;
        let mut rows: Vec<(Duration, Condition)> = Vec::new();
        let mut period = None;
        for (line, text) in lines {
            if period.is_some() {
                return Err(SeriesError::new(
                    line,
                    "the row above has only a time, which ends the series; give it values",
                ));
            }
            let last = rows.last().copied();
            let (time, condition, given) = row(line, text, &columns, last.map(|row| row.1))?;
            match last {
                None if !time.is_zero() => {
                    return Err(SeriesError::new(line, "the first row is at time 0"));
                }
                None if given + 1 < columns.len() => {
                    let message = "the first row has a value for every column";
                    return Err(SeriesError::new(line, message));
                }
                Some((before, _)) if time < before + SHORTEST => {
                    let message = "not later than the row above by 0.1 ms; sort rows by time";
                    return Err(SeriesError::new(line, message));
                }
                Some(_) if given == 0 => period = Some(time),
                _ => rows.push((time, condition)),
            }
            if rows.len() > MAX_ROWS {
                return Err(SeriesError::new(line, format!("more than {MAX_ROWS} rows")));
            }
        }
        match rows.is_empty() {
            true => Err(SeriesError::new(line, "no row below the header")),
            false => Ok(Self { rows, period }),
        }
    }

    /// Of rows that begin at 0 and are at least 0.1 ms apart.
    pub(crate) fn new(rows: Vec<(Duration, Condition)>, period: Option<Duration>) -> Self {
        Self { rows, period }
    }

    /// After which it begins again.
    pub fn period(&self) -> Option<Duration> {
        self.period
    }

    /// Rows: from when on, and what the link is like then.
    pub fn rows(&self) -> &[(Duration, Condition)] {
        &self.rows
    }

    /// Whether it has a column of rates.
    pub fn has_rate(&self) -> bool {
        self.rows.first().is_some_and(|(_, condition)| condition.rate != RateIs::Own)
    }

    /// As a file that [`Series::parse`] reads back to the same value, to the unit's precision.
    pub fn to_csv(&self) -> String {
        let first = self.rows.first().map(|row| row.1).unwrap_or_default();
        let queue = match first.queue {
            Some(QueueIs::Packets(_)) => "queue_packets",
            _ => "queue_bytes",
        };
        let head = [
            ("rate_mbps", first.rate != RateIs::Own),
            ("delay_ms", first.delay != DelayIs::Own),
            ("loss", first.loss.is_some()),
            (queue, first.queue.is_some()),
        ];
        let mut text = String::from("time_s");
        for (name, _) in head.iter().filter(|(_, has)| *has) {
            text = text + "," + name;
        }
        text += "\n";
        for (time, condition) in &self.rows {
            let _ = write!(text, "{}", time.as_secs_f64());
            let cells = [
                match condition.rate {
                    RateIs::Bps(bps) => Some(bps as f64 / 1e6),
                    RateIs::Own | RateIs::Times(_) => None,
                },
                match condition.delay {
                    DelayIs::Exactly(delay) => Some(delay.as_secs_f64() * 1e3),
                    DelayIs::Own | DelayIs::More(_) => None,
                },
                condition.loss,
                condition.queue.map(|queue| match queue {
                    QueueIs::Packets(n) | QueueIs::Bytes(n) => n as f64,
                    QueueIs::Time(time) => time.as_secs_f64(),
                }),
            ];
            for cell in cells.into_iter().flatten() {
                let _ = write!(text, ",{cell}");
            }
            text += "\n";
        }
        if let Some(period) = self.period {
            let commas = ",".repeat(head.iter().filter(|(_, has)| *has).count());
            let _ = writeln!(text, "{}{commas}", period.as_secs_f64());
        }
        text
    }
}

fn header(line: usize, text: &str) -> Result<Vec<Column>, SeriesError> {
    let mut columns: Vec<Column> = Vec::new();
    for name in text.split(',').map(|name| name.trim().to_lowercase()) {
        let found = COLUMNS.iter().find(|(known, _)| *known == name);
        let Some((_, column)) = found else {
            let known: Vec<_> = COLUMNS.iter().map(|(known, _)| *known).collect();
            let message = format!("no column is called '{name}'; known: {}", known.join(", "));
            let help = "`tabane sim convert` reads others";
            return Err(SeriesError::new(line, format!("{message}; {help}")));
        };
        if columns.iter().any(|other| other.what() == column.what()) {
            let message = format!("two columns say the {}; leave one out", column.what());
            return Err(SeriesError::new(line, message));
        }
        columns.push(*column);
    }
    if !columns.iter().any(|column| matches!(column, Column::Time(_))) {
        return Err(SeriesError::new(line, "no column of times; add time_s"));
    }
    if columns.len() == 1 {
        return Err(SeriesError::new(line, "nothing but times; add rate_mbps or another column"));
    }
    Ok(columns)
}

/// Time, condition (with what the row above has where cells are empty) and number of values.
fn row(
    line: usize,
    text: &str,
    columns: &[Column],
    above: Option<Condition>,
) -> Result<(Duration, Condition, usize), SeriesError> {
    let cells: Vec<&str> = text.split(',').map(str::trim).collect();
    if cells.len() > columns.len() {
        let message = format!("{} values, but the header has {}", cells.len(), columns.len());
        return Err(SeriesError::new(line, message));
    }
    let (mut time, mut condition, mut given) = (None, above.unwrap_or_default(), 0);
    for (cell, column) in cells.iter().zip(columns).filter(|(cell, _)| !cell.is_empty()) {
        let value: f64 = cell.parse().map_err(|_| {
            let shown: String = cell.chars().take(40).collect();
            let message = format!("'{shown}' is not a number; units are in the header");
            SeriesError::new(line, message)
        })?;
        if let Column::Time(unit) = column {
            if !(0.0..=1e18 / unit).contains(&value) {
                return Err(SeriesError::new(line, "times begin at 0"));
            }
            time = Some(Duration((value * unit).round() as u64));
            continue;
        }
        column.put(value, &mut condition).map_err(|message| SeriesError::new(line, message))?;
        given += 1;
    }
    let time = time.ok_or_else(|| SeriesError::new(line, "a row without a time"))?;
    Ok((time, condition, given))
}

/// A series being played.
pub(super) struct Played {
    series: Arc<Series>,
    next: usize,
}

impl Played {
    pub(super) fn new(series: Arc<Series>) -> Self {
        Self { series, next: 0 }
    }
}

impl Conditions for Played {
    fn next(&mut self, _rng: &mut Rng) -> Option<Phase> {
        let rows = &self.series.rows;
        let (from, condition) = *rows.get(self.next)?;
        self.next += 1;
        let after = rows.get(self.next).map(|row| row.0);
        if after.is_none() && self.series.period.is_some() {
            self.next = 0;
        }
        let until = after.or(self.series.period);
        let lasts = until.map_or(Duration(u64::MAX), |until| until.saturating_sub(from));
        Some(Phase { condition, lasts })
    }
}
