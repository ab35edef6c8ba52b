//! Measured series of others, read as conditions: CSV with columns of many names, in any order and
//! unit, and mahimahi's opportunities.

use super::series::{Column, MAX_ROWS, Series, SeriesError, lines};
use super::{Condition, RateIs, SHORTEST};
use tabane_engine::Duration;

/// How a file is read.
#[derive(Clone, PartialEq, Debug)]
pub struct Reading {
    /// Columns by other names: theirs, and one of those below.
    pub columns: Vec<(String, String)>,
    /// The last row holds for ever; else the series begins again after as long as the last row but
    /// one lasts.
    pub hold: bool,
    /// Opportunities of so much time make one row.
    pub step: Duration,
}

/// A series and what was not understood of it.
#[derive(Clone, PartialEq, Debug)]
pub struct Read {
    /// What was understood.
    pub series: Series,
    /// Columns that were left out.
    pub ignored: Vec<String>,
}

/// What a column of somebody else says.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Theirs {
    Ours(Column),
    /// Both ways: half of it is the delay one way. Nanoseconds per unit.
    Rtt(f64),
}

/// Names that are understood, without what separates words: `Throughput (Mbit/s)` is
/// `throughputmbits`.
const NAMES: &[(&str, Theirs)] = &[
    ("times", Theirs::Ours(Column::Time(1e9))),
    ("time", Theirs::Ours(Column::Time(1e9))),
    ("timestamp", Theirs::Ours(Column::Time(1e9))),
    ("seconds", Theirs::Ours(Column::Time(1e9))),
    ("timems", Theirs::Ours(Column::Time(1e6))),
    ("timestampms", Theirs::Ours(Column::Time(1e6))),
    ("mbits", Theirs::Ours(Column::Rate(1e6))),
    ("mbps", Theirs::Ours(Column::Rate(1e6))),
    ("kbits", Theirs::Ours(Column::Rate(1e3))),
    ("kbps", Theirs::Ours(Column::Rate(1e3))),
    ("bits", Theirs::Ours(Column::Rate(1.0))),
    ("bps", Theirs::Ours(Column::Rate(1.0))),
    ("bitspersecond", Theirs::Ours(Column::Rate(1.0))),
    ("rttms", Theirs::Rtt(1e6)),
    ("rtts", Theirs::Rtt(1e9)),
    ("rttus", Theirs::Rtt(1e3)),
    ("delayms", Theirs::Ours(Column::Delay(1e6))),
    ("delayus", Theirs::Ours(Column::Delay(1e3))),
    ("delays", Theirs::Ours(Column::Delay(1e9))),
    ("owdms", Theirs::Ours(Column::Delay(1e6))),
    ("latencyms", Theirs::Rtt(1e6)),
    ("pingms", Theirs::Rtt(1e6)),
    ("loss", Theirs::Ours(Column::Loss(1.0))),
    ("losspercent", Theirs::Ours(Column::Loss(0.01))),
    ("loss%", Theirs::Ours(Column::Loss(0.01))),
    ("queuepackets", Theirs::Ours(Column::QueuePackets)),
    ("queuebytes", Theirs::Ours(Column::QueueBytes(1.0))),
    ("queuekb", Theirs::Ours(Column::QueueBytes(1e3))),
];

/// What may stand before a unit of rate.
const RATES: &[&str] = &["rate", "throughput", "bandwidth", "capacity", "download", "goodput"];

fn meaning(name: &str) -> Option<Theirs> {
    let plain: String =
        name.to_lowercase().chars().filter(|c| c.is_alphanumeric() || *c == '%').collect();
    let unit = RATES.iter().find_map(|rate| plain.strip_prefix(rate)).unwrap_or(&plain);
    NAMES.iter().find(|(known, _)| *known == unit).map(|(_, theirs)| *theirs)
}

/// Reads a file: mahimahi's if its first line is a number, else CSV with a header.
///
/// # Errors
/// [`SeriesError`], with line and remedy.
pub fn read(text: &str, reading: &Reading) -> Result<Read, SeriesError> {
    let (line, head) =
        lines(text).next().ok_or_else(|| SeriesError::new(1, "the file is empty"))?;
    if head.parse::<f64>().is_ok() {
        return opportunities(text, reading);
    }
    let columns = header(line, head, &reading.columns)?;
    let ignored = head.split(',').zip(&columns).filter(|(_, column)| column.is_none());
    let ignored = ignored.map(|(name, _)| name.trim().to_owned()).collect();
    let mut rows: Vec<(f64, Condition)> = Vec::new();
    for (line, text) in lines(text).skip(1) {
        let (time, condition) = row(line, text, &columns, rows.last().map(|row| row.1))?;
        if !time.is_finite() {
            return Err(SeriesError::new(line, "its time is no number"));
        }
        if rows.last().is_some_and(|last| time < last.0 + SHORTEST.0 as f64) {
            let message = "not later than the row above by 0.1 ms; sort rows by time";
            return Err(SeriesError::new(line, message));
        }
        rows.push((time, condition));
    }
    let Some(&(first, _)) = rows.first() else {
        return Err(SeriesError::new(line, "no row below the header"));
    };
    let since = |time: f64| Duration((time - first).round() as u64);
    let rows: Vec<_> = rows.into_iter().map(|(time, what)| (since(time), what)).collect();
    let period = match rows[..] {
        [.., (before, _), (last, _)] if !reading.hold => Some(last + last.saturating_sub(before)),
        _ => None,
    };
    Ok(Read { series: Series::new(rows, period), ignored })
}

fn header(
    line: usize,
    head: &str,
    named: &[(String, String)],
) -> Result<Vec<Option<Theirs>>, SeriesError> {
    let names: Vec<&str> = head.split(',').map(str::trim).collect();
    if let Some((theirs, _)) = named.iter().find(|(theirs, _)| !names.contains(&theirs.as_str())) {
        let message = format!("no column is called '{theirs}'; there are: {}", names.join(", "));
        return Err(SeriesError::new(line, message));
    }
    let mut columns = Vec::new();
    for name in &names {
        let ours = named.iter().find(|(theirs, _)| theirs == name).map(|(_, ours)| ours);
        let column = meaning(ours.map_or(name, String::as_str));
        if let (Some(ours), None) = (ours, column) {
            let message = format!("'{ours}' is no meaning of a column; as in rate_mbps or rtt_ms");
            return Err(SeriesError::new(line, message));
        }
        columns.push(column);
    }
    let what = |column: &Theirs| match column {
        Theirs::Ours(column) => column.what(),
        Theirs::Rtt(_) => "delay",
    };
    let known: Vec<_> = columns.iter().flatten().map(what).collect();
    for (n, what) in known.iter().enumerate() {
        if known[..n].contains(what) {
            let message = format!("two columns say the {what}; take one out of the file");
            return Err(SeriesError::new(line, message));
        }
    }
    let lacks = |message: &str| {
        let names = names.join(", ");
        let help = "name it: --column 'THEIRS=time_s', =rate_mbps, =rtt_ms, =delay_ms, =loss";
        Err(SeriesError::new(line, format!("{message} among: {names}; {help}")))
    };
    match known.contains(&"time") {
        false => lacks("no column of times"),
        true if known.len() == 1 => lacks("nothing that is known but times"),
        true => Ok(columns),
    }
}

fn row(
    line: usize,
    text: &str,
    columns: &[Option<Theirs>],
    above: Option<Condition>,
) -> Result<(f64, Condition), SeriesError> {
    let (mut time, mut condition) = (None, above.unwrap_or_default());
    let mut cells = text.split(',').map(str::trim);
    for column in columns {
        let cell = cells.next().unwrap_or_default();
        let Some(column) = column else { continue };
        if cell.is_empty() {
            match above {
                Some(_) => continue,
                None => {
                    let message = "the first row has an empty cell: there is no value above it";
                    return Err(SeriesError::new(line, message));
                }
            }
        }
        let value: f64 = cell.parse().map_err(|_| {
            let shown: String = cell.chars().take(40).collect();
            let message = format!("'{shown}' is not a number; leave the cell empty if unknown");
            SeriesError::new(line, message)
        })?;
        let put = match *column {
            Theirs::Ours(Column::Time(unit)) => {
                time = Some(value * unit);
                continue;
            }
            Theirs::Ours(column) => column.put(value, &mut condition),
            Theirs::Rtt(unit) => Column::Delay(unit).put(value / 2.0, &mut condition),
        };
        put.map_err(|message| SeriesError::new(line, message))?;
    }
    let time = time.ok_or_else(|| SeriesError::new(line, "a row without a time; delete it"))?;
    Ok((time, condition))
}

/// Mahimahi's format: the mean rate of each step.
fn opportunities(text: &str, reading: &Reading) -> Result<Read, SeriesError> {
    let mut counts: Vec<u64> = Vec::new();
    let step = reading.step.0.max(1_000_000);
    let (mut last, mut end) = (0, 0);
    for (line, text) in lines(text) {
        let ms: u64 = text.parse().ok().filter(|ms| *ms < 1 << 32).ok_or_else(|| {
            let shown: String = text.chars().take(40).collect();
            SeriesError::new(line, format!("'{shown}' is not a number of milliseconds"))
        })?;
        if ms < last {
            return Err(SeriesError::new(line, "earlier than the line above; sort the file"));
        }
        (last, end) = (ms, line);
        // The last millisecond of a period is the first of the next.
        let slot = (ms.saturating_sub(1) * 1_000_000 / step) as usize;
        if slot >= MAX_ROWS {
            let message = format!("more than {MAX_ROWS} rows: use a larger --step");
            return Err(SeriesError::new(line, message));
        }
        counts.resize(counts.len().max(slot + 1), 0);
        counts[slot] += 1;
    }
    if last == 0 {
        return Err(SeriesError::new(
            end,
            "no opportunity after 0 ms: the last line is the period",
        ));
    }
    let period = Duration::from_millis(last);
    let rows = counts.iter().enumerate().map(|(slot, count)| {
        let from = Duration(slot as u64 * step);
        let lasts = Duration(step).min(period.saturating_sub(from)).as_secs_f64();
        let rate = RateIs::Bps((*count as f64 * 12_000.0 / lasts) as u64);
        (from, Condition { rate, ..Condition::default() })
    });
    let series = Series::new(rows.collect(), (!reading.hold).then_some(period));
    Ok(Read { series, ignored: Vec::new() })
}
