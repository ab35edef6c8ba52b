//! From a part of a recording to a scenario of the simulator: links with traces, the connections
//! as flows, the policies as they were, and beside it what was measured.
//!
//! A connection becomes the flow that it looked like: as much data, or requests of the same size
//! and pauses, or a steady rate. Of one that was there before the window, what it carried within
//! counts.

use super::connections::EVERY;
use super::trace::Trace;
use super::{ConnectionRow, DOWN, Kind, PathRow, Row, UP, Using, policies_of};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use thiserror::Error;

/// What is exported.
#[derive(Clone, PartialEq, Debug)]
pub struct Window {
    /// Milliseconds since 1970.
    pub from_ms: u64,
    /// And its end.
    pub to_ms: u64,
    /// Of a server's recording, whose paths: what stands before the slash of their names.
    pub client: Option<String>,
}

/// A scenario and its files.
#[derive(Clone, PartialEq, Debug)]
pub struct Export {
    /// The scenario.
    pub scenario: String,
    /// Files beside it that it names, and their text.
    pub files: Vec<(String, String)>,
    /// What was measured.
    pub measured: Measured,
}

/// What was measured in the window.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Measured {
    /// Milliseconds since 1970.
    pub from_ms: u64,
    /// And its end.
    pub to_ms: u64,
    /// Those with traffic.
    pub paths: Vec<MeasuredPath>,
    /// Flows, as the scenario names them.
    pub flows: Vec<MeasuredFlow>,
    /// Connections that are no flow of the scenario, since there were too many.
    pub left_out: u64,
    /// Rows that the agent had no room for.
    pub skipped: u64,
    /// Round-trip times of busy paths, all together: half and 95 % were at most that long.
    pub rtt_p50_s: Option<f64>,
    /// See `rtt_p50_s`.
    pub rtt_p95_s: Option<f64>,
}

/// A path in the window.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct MeasuredPath {
    /// As the scenario has it, without the client.
    pub name: String,
    /// Bytes of inner packets, up and down.
    pub bytes: [u64; 2],
    /// Share of the window in which its rate was seen, up and down; the rest is interpolated.
    pub seen: [f64; 2],
    /// Whether its queue was seen to be full, up and down.
    pub queue_seen: [bool; 2],
}

/// A connection in the window.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct MeasuredFlow {
    /// As in the scenario.
    pub name: String,
    /// `bulk`, `paced` or `requests`.
    pub kind: String,
    /// Payload bytes within the window, up and down.
    pub bytes: [u64; 2],
    /// Of the direction with more of them, bits per second.
    pub goodput_bps: f64,
    /// The longest time without a byte while some waited.
    pub stall_s: f64,
    /// Round-trip times of its paths while it used them: half and 95 % were at most that long.
    pub rtt_p50_s: Option<f64>,
    /// See `rtt_p50_s`.
    pub rtt_p95_s: Option<f64>,
    /// Where it went, if it was recorded.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub target: String,
}

/// Why there is nothing to export.
#[derive(Error, Clone, PartialEq, Eq, Debug)]
pub enum ExportError {
    /// No rows of paths.
    #[error("no path was busy between these times; `tabane record list` says when some were")]
    Nothing,
    /// A server's recording has the paths of several clients.
    #[error("there are the paths of several clients: --client {}", .0.join(", --client "))]
    Clients(Vec<String>),
    /// Nothing went by any path.
    #[error("no connection moved bytes between these times")]
    NoConnection,
}

/// Flows of a scenario; the largest connections are taken.
const FLOWS_MAX: usize = 1000;
/// A path whose traffic is less than this is left out, bytes.
const LEAST: u64 = 10_000;
/// Of a connection, this share of its bytes the other way makes it one of both directions.
const BOTH: f64 = 0.25;
/// Messages of a steady rate: as many as ten a second and no longer than a packet.
const MESSAGE_MAX: f64 = 1200.0;
/// Buffers of agents' connections (`crate::engine_config`).
const SETTINGS: &str = "tcp = { receive_buffer = \"256KiB\", receive_buffer_max = \"16MiB\", \
                        send_buffer = \"8MiB\", nagle = false }";

/// Packets of agents' connections, bytes.
const MTU: u16 = 1280;

struct Connection<'a> {
    last: &'a ConnectionRow,
    /// Since the window began, milliseconds.
    start_ms: u64,
    end_ms: u64,
    bytes: [u64; 2],
    /// Its longest pause that came within the window, milliseconds.
    stall_ms: u64,
    /// By itself, within the window.
    ended: bool,
}

impl Export {
    /// Makes it; `name` is that of the scenario's file, without its ending.
    ///
    /// # Errors
    /// [`ExportError`].
    pub fn make(rows: &[Row], window: &Window, name: &str) -> Result<Self, ExportError> {
        let span = (window.from_ms, window.to_ms);
        let paths = paths(rows, window)?;
        let mut measured =
            Measured { from_ms: window.from_ms, to_ms: window.to_ms, ..Measured::default() };
        measured.skipped = skipped(rows, window);
        let (mut links, mut files) = (String::new(), Vec::<(String, String)>::new());
        for (path, rows) in &paths {
            let Some([up, down]) = &Trace::both(rows, span) else { continue };
            let label = path.rsplit_once('/').map_or(&**path, |(_, label)| label);
            let mut safe: String =
                label.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
            // "lte-1" and "lte 1" are two links.
            while files.iter().any(|(file, _)| *file == format!("{name}-{safe}-up.csv")) {
                safe.push('_');
            }
            let _ = writeln!(links, "\n[link.{}]\nmtu = {MTU}", quoted(label));
            for (way, trace) in [("up", up), ("down", down)] {
                let file = format!("{name}-{safe}-{way}.csv");
                let seen = if trace.queue_seen { "" } else { "  # its queue was never seen full" };
                let queue = trace.queue;
                let _ = writeln!(
                    links,
                    "{way} = {{ conditions = {}, queue = \"{queue}B\" }}{seen}",
                    quoted(&file)
                );
                files.push((file, trace.to_csv()));
            }
            let total = |way: usize| rows.iter().map(|row| row.directions[way].bytes).sum();
            measured.paths.push(MeasuredPath {
                name: label.to_owned(),
                bytes: [total(UP), total(DOWN)],
                seen: [up.seen, down.seen],
                queue_seen: [up.queue_seen, down.queue_seen],
            });
        }
        (measured.rtt_p50_s, measured.rtt_p95_s) = round_trips(&paths);
        let owner = paths.keys().find_map(|path| Some(path.rsplit_once('/')?.0));
        let connections = connections(rows, window, owner);
        let flows = flows(&connections, &mut measured)?;
        let scenario = format!(
            "{}{}{links}\n[path]\n{}{flows}",
            head(&measured),
            hosts(&connections),
            path_table(&paths)
        );
        Ok(Self { scenario, files, measured })
    }
}

fn head(measured: &Measured) -> String {
    let seconds = (measured.to_ms - measured.from_ms) as f64 / 1e3;
    let mut text = format!(
        "# Made by `tabane record export` of {} to {} (ms since 1970). Times in which a rate was\n\
         # not seen stand at the head of each trace.\n",
        measured.from_ms, measured.to_ms
    );
    for path in &measured.paths {
        let [up, down] = path.seen.map(|share| share * 100.0);
        let _ =
            writeln!(text, "# {}: rate seen {up:.0} % of the time up, {down:.0} % down", path.name);
    }
    text + &format!("about = \"A recording\"\nduration = \"{seconds}s\"\n")
}

/// A name as TOML has it anywhere.
fn quoted(text: &str) -> String {
    let escape = |c: char| match c {
        '"' | '\\' => format!("\\{c}"),
        c if c.is_control() => "_".to_owned(),
        c => c.to_string(),
    };
    format!("\"{}\"", text.chars().map(escape).collect::<String>())
}

/// Rows that were not kept within the window. What says so is as old as the row before it.
fn skipped(rows: &[Row], window: &Window) -> u64 {
    let mut at = rows.iter().find_map(Row::unix_ms).unwrap_or(window.from_ms);
    let mut skipped = 0;
    for row in rows {
        at = row.unix_ms().unwrap_or(at);
        if let Row::Skipped(rows) = row
            && (window.from_ms..=window.to_ms).contains(&at)
        {
            skipped += rows;
        }
    }
    skipped
}

type Paths<'a> = BTreeMap<Arc<str>, Vec<&'a PathRow>>;

/// The rows of each path with traffic.
fn paths<'a>(rows: &'a [Row], window: &Window) -> Result<Paths<'a>, ExportError> {
    let mut paths = Paths::new();
    for row in rows {
        let Row::Path(row) = row else { continue };
        let within = (window.from_ms..=window.to_ms).contains(&row.unix_ms);
        let owner = row.path.rsplit_once('/').map(|(client, _)| client);
        let meant = window.client.as_deref().is_none_or(|client| owner == Some(client));
        if within && meant {
            paths.entry(row.path.clone()).or_default().push(row);
        }
    }
    let carried = |row: &&PathRow| row.directions[UP].bytes + row.directions[DOWN].bytes;
    paths.retain(|_, rows| {
        let used = rows.iter().any(|row| row.using != Using::Unused);
        used && rows.iter().map(carried).sum::<u64>() >= LEAST
    });
    let mut clients: Vec<String> = paths
        .keys()
        .filter_map(|path| path.rsplit_once('/').map(|(client, _)| client.to_owned()))
        .collect();
    clients.dedup();
    match (paths.is_empty(), clients.len()) {
        (true, _) => Err(ExportError::Nothing),
        (_, 0 | 1) => Ok(paths),
        _ => Err(ExportError::Clients(clients)),
    }
}

fn path_table(paths: &Paths<'_>) -> String {
    let mut text = String::new();
    for (path, rows) in paths {
        let label = quoted(path.rsplit_once('/').map_or(&**path, |(_, label)| label));
        let backup = rows.iter().filter(|row| row.using == Using::Backup).count() * 2 > rows.len();
        let backup = if backup { ", backup = true" } else { "" };
        let _ = writeln!(text, "{label} = {{ links = [{label}]{backup} }}");
    }
    text
}

/// Quantiles of the round-trip times of paths while they carried something.
fn round_trips(paths: &Paths<'_>) -> (Option<f64>, Option<f64>) {
    let busy = paths.values().flatten().filter(|row| {
        let seconds = f64::from(row.lasts_ms.max(1)) / 1e3;
        row.directions.iter().any(|way| way.bytes as f64 * 8.0 / seconds > 100_000.0)
    });
    let mut all: Vec<u32> = busy.filter_map(|row| row.rtt_us).collect();
    all.sort_unstable();
    let quantile = |share: f64| {
        let rank = (share * all.len() as f64).ceil().max(1.0) as usize;
        all.get(rank - 1).map(|us| f64::from(*us) / 1e6)
    };
    (quantile(0.5), quantile(0.95))
}

/// What each connection did within the window. Its bytes at the window's ends are interpolated
/// between its rows, of which the next ones outside may be given, too. At a server, those of
/// `owner`, and those of which it is not known whose they were.
fn connections<'a>(rows: &'a [Row], window: &Window, owner: Option<&str>) -> Vec<Connection<'a>> {
    // Ids count from the agent's start, so a later run has others of the same number.
    let mut all: BTreeMap<(u64, u64), Vec<&ConnectionRow>> = BTreeMap::new();
    let mut runs: BTreeMap<u64, (u64, &ConnectionRow)> = BTreeMap::new();
    for row in rows {
        let Row::Connection(row) = row else { continue };
        if !row.owner.is_empty() && owner.is_some_and(|owner| *row.owner != *owner) {
            continue;
        }
        let began = row.unix_ms.saturating_sub(row.age_ms);
        let known = runs
            .get(&row.id)
            .filter(|(run, last)| run.abs_diff(began) < 5_000 || goes_on(last, row));
        let run = known.map_or(began, |(run, _)| *run);
        runs.insert(row.id, (run, row));
        all.entry((row.id, run)).or_default().push(row);
    }
    let mut all: Vec<_> = all
        .into_iter()
        .filter_map(|((_, began), rows)| Connection::within(began, &rows, window))
        .collect();
    all.sort_by_key(|connection| std::cmp::Reverse(connection.bytes[UP] + connection.bytes[DOWN]));
    all
}

/// Whether a row is the next one of a connection although its beginning seems to be another: the
/// machine was suspended between the two, or its clock was set.
fn goes_on(last: &ConnectionRow, next: &ConnectionRow) -> bool {
    let more = [UP, DOWN].iter().all(|way| next.bytes[*way] >= last.bytes[*way]);
    let every = EVERY.0 / 1_000_000 * 4 / 5;
    !last.ended && more && last.age_ms >= every && next.age_ms >= last.age_ms + every
}

impl<'a> Connection<'a> {
    /// `None` if it was not there, or moved nothing.
    fn within(began: u64, rows: &[&'a ConnectionRow], window: &Window) -> Option<Self> {
        let last = rows.last()?;
        let (from, to) = (window.from_ms.max(began), window.to_ms.min(last.unix_ms));
        if from >= to {
            return None;
        }
        let bytes_at = |at: u64| {
            let (mut before, mut bytes) = (began, [0, 0]);
            for row in rows {
                if row.unix_ms >= at {
                    let share = (at - before) as f64 / (row.unix_ms - before).max(1) as f64;
                    let part = |way: usize| {
                        (row.bytes[way].saturating_sub(bytes[way]) as f64 * share) as u64
                    };
                    return [UP, DOWN].map(|way| bytes[way] + part(way));
                }
                (before, bytes) = (row.unix_ms, row.bytes);
            }
            bytes
        };
        let (first, end) = (bytes_at(from), bytes_at(to));
        let bytes = [UP, DOWN].map(|way| end[way].saturating_sub(first[way]));
        let ended = last.ended && last.unix_ms <= window.to_ms;
        let stall_ms = stall(rows, (from, to));
        let [start_ms, end_ms] = [from, to].map(|at| at - window.from_ms);
        (bytes != [0, 0]).then_some(Self { last, start_ms, end_ms, bytes, stall_ms, ended })
    }
}

/// The longest pause between two times, milliseconds. Rows have the longest one so far: what has
/// not grown since the row before was before.
fn stall(rows: &[&ConnectionRow], (from, to): (u64, u64)) -> u64 {
    let before = rows.iter().take_while(|row| row.unix_ms <= from).last();
    let until = rows.iter().find(|row| row.unix_ms >= to).or(rows.last());
    let [before, until] = [before, until].map(|row| row.map_or(0, |row| row.stall_ms));
    if until > before { u64::from(until).min(to - from) } else { 0 }
}

/// The policies that most bytes had.
fn hosts(connections: &[Connection<'_>]) -> String {
    let mut bytes: BTreeMap<&str, u64> = BTreeMap::new();
    for connection in connections {
        let sum = connection.bytes[UP] + connection.bytes[DOWN];
        *bytes.entry(&connection.last.policies).or_default() += sum;
    }
    let most = bytes.into_iter().max_by_key(|(_, bytes)| *bytes).map_or("", |(most, _)| most);
    let mut text = format!("\n[defaults]\n{SETTINGS}\n");
    let Some([up, down]) = policies_of(most) else { return text };
    let table = |text: &mut String, policies: [&str; 3]| {
        for (key, value) in ["scheduler", "congestion", "egress"].iter().zip(policies) {
            let _ = writeln!(text, "{key} = {}", quoted(value));
        }
    };
    if up == down {
        table(&mut text, up);
        return text;
    }
    for (host, policies) in [("client", up), ("server", down)] {
        let _ = writeln!(text, "\n[host.{host}]\n{SETTINGS}");
        table(&mut text, policies);
    }
    text
}

fn flows(connections: &[Connection<'_>], measured: &mut Measured) -> Result<String, ExportError> {
    if connections.is_empty() {
        return Err(ExportError::NoConnection);
    }
    measured.left_out = connections.len().saturating_sub(FLOWS_MAX) as u64;
    let mut text = String::new();
    for (n, connection) in connections.iter().take(FLOWS_MAX).enumerate() {
        let Connection { last, start_ms, end_ms, bytes, stall_ms, ended } = connection;
        let name = format!("{}{}", last.kind.name(), n + 1);
        let _ = writeln!(text, "\n[[flow]]\nname = \"{name}\"\nstart = \"{start_ms}ms\"");
        let seconds = (end_ms - start_ms) as f64 / 1e3;
        let most = bytes[UP].max(bytes[DOWN]);
        let up = bytes[UP] > bytes[DOWN];
        let both = bytes[UP].min(bytes[DOWN]) as f64 > BOTH * most as f64;
        let direction = if up { "upload" } else { "download" };
        text += &match last.kind {
            Kind::Bulk => {
                let direction = if both { "both" } else { direction };
                let size = if *ended { format!("{most}B") } else { "unlimited".to_owned() };
                let stop = stop(connection);
                format!("direction = \"{direction}\"\nbulk = \"{size}\"\n{stop}")
            }
            Kind::Paced => {
                let rate = most as f64 * 8.0 / seconds;
                let message = (rate / 80.0).clamp(1.0, MESSAGE_MAX) as u64;
                let rate = (rate as u64).max(1);
                let stop = format!("stop = \"{end_ms}ms\"");
                format!(
                    "direction = \"{direction}\"\n{stop}\n\
                     paced = {{ rate = \"{rate}bps\", message = \"{message}B\" }}\n"
                )
            }
            Kind::Requests => requests(connection),
        };
        let seconds_of = |us: u32| f64::from(us) / 1e6;
        measured.flows.push(MeasuredFlow {
            name,
            kind: last.kind.name().to_owned(),
            bytes: *bytes,
            goodput_bps: most as f64 * 8.0 / seconds,
            stall_s: *stall_ms as f64 / 1e3,
            rtt_p50_s: last.rtt_us.map(|[p50, _]| seconds_of(p50)),
            rtt_p95_s: last.rtt_us.map(|[_, p95]| seconds_of(p95)),
            target: last.target.to_string(),
        });
    }
    Ok(text)
}

/// When a bulk connection was there last that did not end by itself within the window.
fn stop(Connection { ended, end_ms, .. }: &Connection<'_>) -> String {
    if *ended { String::new() } else { format!("stop = \"{end_ms}ms\"\n") }
}

fn requests(connection: &Connection<'_>) -> String {
    let Connection { last, start_ms, end_ms, bytes, .. } = connection;
    // Exchanges are those of all its life, bytes those of the window.
    let share = (bytes[UP] + bytes[DOWN]) as f64 / (last.bytes[0] + last.bytes[1]).max(1) as f64;
    let count = ((f64::from(last.exchanges) * share).round() as u64).max(1);
    let idle = (last.age_ms.saturating_sub(last.active_ms) as f64 * share) as u64;
    let think = if count > 1 { idle / (count - 1) } else { 0 };
    let think = think.min(end_ms - start_ms);
    let (size, request) = ((bytes[DOWN] / count).max(1), (bytes[UP] / count).max(1));
    format!(
        "request = {{ size = \"{size}B\", request = \"{request}B\", think = \"{think}ms\", \
         count = {count} }}\n"
    )
}

#[cfg(test)]
mod tests;
