//! Records as JSON Lines: one flat object a line, as `pandas.read_json(path, lines=True)` takes
//! it.
//!
//! Every line has `t` (seconds), `host`, `flow`, `conn`, `subflow` (each null where it does not
//! apply) and `event`; then, by event (units: bytes unless the name ends in `_s`, seconds):
//!
//! | event | fields |
//! |---|---|
//! | `run` (the first line) | `scenario`, `seed`, `version` |
//! | `sent` | `via` (paths joined by `+`), `ssn`, `len`, `dsn`, `retransmission` |
//! | `received` | `via`, `ssn`, `len`, `duplicate` |
//! | `dropped` | `reason`, `limit` |
//! | `window` | `cwnd`, `ssthresh` (null: none), `phase`, `in_flight` |
//! | `rtt` | `sample_s`, `srtt_s`, `rto_s` |
//! | `congestion` | `kind` |
//! | `recovery` | `phase` |
//! | `undone`, `tail_loss_probe` | |
//! | `timeout` | `backoff` |
//! | `receive_window` | `window`, `buffer` |
//! | `send_window` | `window`, `outstanding` |
//! | `decision` | `dsn`, `eligible`, `chosen` (subflows joined by `+`), `reason` |
//! | `decision` that waits | the same and `waits_for`, `gain_s` |
//! | `policy_refused` | `policy` |
//! | `reinjected` | `dsn`, `len`, `reason` |
//! | `subflow` | `change`, `value` (of `backup` and `stale`), `reason`, `code` |
//! | `fallback` | `reason` |
//! | `connection` | `change`, `mptcp`, `reason`, `code` |
//! | `changed` | `what`: the world was changed |
//! | `completed` | the flow has delivered everything |

use crate::observe::{FlowIdx, HostIdx, Layout, Observer, Wants};
use crate::run::RunInfo;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Write};
use tabane_engine::record::{CloseReason, ConnectionChange, DropReason, Record};
use tabane_engine::record::{SubflowChange, What};
use tabane_engine::scheduler::Reason;
use tabane_engine::view::{Id, Set};
use tabane_engine::{ConnId, Duration, Instant};

/// Writes every record as it happens. Keeps one line and the names of open connections.
#[derive(Debug)]
pub struct RecordLines<W> {
    out: W,
    info: RunInfo,
    layout: Layout,
    flows: BTreeMap<(HostIdx, ConnId), FlowIdx>,
    line: String,
    error: Option<io::Error>,
}

impl<W: Write> RecordLines<W> {
    /// Writes to `out`, which should be buffered.
    pub fn new(out: W, info: RunInfo) -> Self {
        Self {
            out,
            info,
            layout: Layout::default(),
            flows: BTreeMap::new(),
            line: String::with_capacity(512),
            error: None,
        }
    }

    /// Flushes and gives the writer back.
    ///
    /// # Errors
    /// The first error of writing; nothing is written after it.
    pub fn finish(mut self) -> io::Result<W> {
        if let Some(error) = self.error {
            return Err(error);
        }
        self.out.flush()?;
        Ok(self.out)
    }

    /// Starts a line; the names and the event go first.
    fn start(&mut self, t: Instant, host: Option<HostIdx>, flow: Option<FlowIdx>) -> Fields<'_> {
        self.line.clear();
        let mut fields = Fields { line: &mut self.line };
        fields.line.push('{');
        fields.time("t", t.0);
        let named = host.and_then(|h| self.layout.hosts.get(h.0 as usize));
        fields.text_or_null("host", named.map(|h| h.name.as_str()));
        let named = flow.and_then(|f| self.layout.flows.get(f.0 as usize));
        fields.text_or_null("flow", named.map(|f| f.name.as_str()));
        fields
    }

    fn write(&mut self) {
        if self.error.is_some() {
            return;
        }
        self.line.push_str("}\n");
        if let Err(error) = self.out.write_all(self.line.as_bytes()) {
            self.error = Some(error);
        }
    }
}

impl<W: Write> Observer for RecordLines<W> {
    fn wants(&self) -> Wants {
        Wants { records: true, ..Wants::default() }
    }

    fn begin(&mut self, layout: &Layout) {
        self.layout = layout.clone();
        let info = self.info.clone();
        let mut line = self.start(Instant::ZERO, None, None);
        line.nobody("run");
        line.text("scenario", &info.scenario);
        line.number("seed", info.seed);
        line.text("version", &info.version);
        self.write();
    }

    fn opened(&mut self, _now: Instant, flow: FlowIdx, host: HostIdx, conn: ConnId) {
        self.flows.insert((host, conn), flow);
    }

    fn record(&mut self, host: HostIdx, record: &Record) {
        let flow = record.conn.and_then(|conn| self.flows.get(&(host, conn)).copied());
        let via = via(&self.layout, host, &record.what);
        let mut line = self.start(record.at, Some(host), flow);
        line.number_or_null("conn", record.conn.map(|c| c.0));
        line.number_or_null("subflow", record.subflow.map(|s| u64::from(s.0)));
        line.what(&record.what, &via);
        self.write();
        if let (What::Connection(ConnectionChange::Closed(_)), Some(conn)) =
            (&record.what, record.conn)
        {
            self.flows.remove(&(host, conn));
        }
    }

    fn changed(&mut self, now: Instant, change: &str) {
        let mut line = self.start(now, None, None);
        line.nobody("changed");
        line.text("what", change);
        self.write();
    }

    fn completed(&mut self, now: Instant, flow: FlowIdx) {
        self.start(now, None, Some(flow)).nobody("completed");
        self.write();
    }
}

/// The paths of a segment, in words; empty for other records.
fn via(layout: &Layout, host: HostIdx, what: &What) -> String {
    match what {
        What::Sent { paths, .. } => {
            let names: Vec<String> = paths.iter().map(|p| layout.path_name(host, p)).collect();
            names.join("+")
        }
        What::Received { path, .. } => layout.path_name(host, *path),
        _ => String::new(),
    }
}

/// Appends fields to a line.
struct Fields<'a> {
    line: &'a mut String,
}

impl Fields<'_> {
    fn key(&mut self, key: &str) {
        if !self.line.ends_with('{') {
            self.line.push(',');
        }
        self.line.push('"');
        self.line.push_str(key);
        self.line.push_str("\":");
    }

    fn put(&mut self, key: &str, value: std::fmt::Arguments<'_>) {
        self.key(key);
        self.line.write_fmt(value).expect("invariant: a String takes everything");
    }

    /// Nanoseconds as seconds, exactly.
    fn time(&mut self, key: &str, nanos: u64) {
        self.put(key, format_args!("{}.{:09}", nanos / 1_000_000_000, nanos % 1_000_000_000));
    }

    fn span(&mut self, key: &str, span: Duration) {
        self.time(key, span.0);
    }

    fn number(&mut self, key: &str, value: u64) {
        self.put(key, format_args!("{value}"));
    }

    fn number_or_null(&mut self, key: &str, value: Option<u64>) {
        match value {
            Some(value) => self.number(key, value),
            None => self.put(key, format_args!("null")),
        }
    }

    fn flag(&mut self, key: &str, value: bool) {
        self.put(key, format_args!("{value}"));
    }

    fn text(&mut self, key: &str, value: &str) {
        let json = serde_json::to_string(value).expect("invariant: a str is valid JSON");
        self.put(key, format_args!("{json}"));
    }

    fn text_or_null(&mut self, key: &str, value: Option<&str>) {
        match value {
            Some(value) => self.text(key, value),
            None => self.put(key, format_args!("null")),
        }
    }

    fn event(&mut self, name: &str) {
        self.text("event", name);
    }

    fn text_after_event(&mut self, event: &str, key: &str, value: &str) {
        self.event(event);
        self.text(key, value);
    }

    /// An event of no connection.
    fn nobody(&mut self, event: &str) {
        self.number_or_null("conn", None);
        self.number_or_null("subflow", None);
        self.event(event);
    }

    fn set<T: Id>(&mut self, key: &str, set: Set<T>) {
        let ids: Vec<String> = set.iter().map(|id| id.index().to_string()).collect();
        self.text(key, &ids.join("+"));
    }

    /// The event and its fields; `via` is for segments.
    fn what(&mut self, what: &What, via: &str) {
        match *what {
            What::Sent { ssn, len, dsn, retransmission, .. } => {
                self.text_after_event("sent", "via", via);
                self.number("ssn", ssn.0);
                self.number("len", len.into());
                self.number_or_null("dsn", dsn.map(|d| d.0));
                self.flag("retransmission", retransmission);
            }
            What::Received { ssn, len, duplicate, .. } => {
                self.text_after_event("received", "via", via);
                self.number("ssn", ssn.0);
                self.number("len", len.into());
                self.flag("duplicate", duplicate);
            }
            What::Dropped { reason } => {
                self.event("dropped");
                self.text("reason", reason.name());
                if let DropReason::Limit(limit) = reason {
                    self.text("limit", limit);
                }
            }
            What::Decision { dsn, eligible, chosen, reason } => {
                self.event("decision");
                self.number("dsn", dsn.0);
                self.set("eligible", eligible);
                self.set("chosen", chosen);
                self.text("reason", reason.name());
                if let Reason::WaitingIsFaster { for_subflow, gain } = reason {
                    self.number("waits_for", for_subflow.0.into());
                    self.span("gain_s", gain);
                }
                if let Reason::WouldBlock { for_subflow } = reason {
                    self.number("waits_for", for_subflow.0.into());
                }
            }
            What::PolicyRefused { policy } => {
                self.event("policy_refused");
                self.text("policy", policy);
            }
            What::Reinjected { dsn, len, why } => {
                self.event("reinjected");
                self.number("dsn", dsn.0);
                self.number("len", len.into());
                self.text("reason", why.name());
            }
            What::GapFilled { delay } => {
                self.event("gap_filled");
                self.span("delay_s", delay);
            }
            What::Subflow(change) => self.subflow(change),
            What::Fallback(reason) => {
                self.event("fallback");
                self.text("reason", reason.name());
            }
            What::Connection(change) => self.connection(change),
            _ => self.transport(what),
        }
    }

    /// What concerns one subflow's transport.
    fn transport(&mut self, what: &What) {
        match *what {
            What::Window { cwnd, ssthresh, phase, in_flight } => {
                self.event("window");
                self.number("cwnd", cwnd);
                self.number_or_null("ssthresh", (ssthresh != u64::MAX).then_some(ssthresh));
                self.text("phase", &phase.name());
                self.number("in_flight", in_flight);
            }
            What::Rtt { sample, srtt, rto } => {
                self.event("rtt");
                self.span("sample_s", sample);
                self.span("srtt_s", srtt);
                self.span("rto_s", rto);
            }
            What::Congestion(kind) => {
                self.text_after_event("congestion", "kind", kind.name());
            }
            What::Recovery(phase) => {
                self.text_after_event("recovery", "phase", phase.name());
            }
            What::Undone => self.event("undone"),
            What::TailLossProbe => self.event("tail_loss_probe"),
            What::Timeout { backoff } => {
                self.event("timeout");
                self.number("backoff", backoff.into());
            }
            What::ReceiveWindow { window, buffer } => {
                self.event("receive_window");
                self.number("window", window);
                self.number("buffer", buffer);
            }
            What::SendWindow { window, outstanding } => {
                self.event("send_window");
                self.number("window", window);
                self.number("outstanding", outstanding);
            }
            _ => {}
        }
    }

    fn subflow(&mut self, change: SubflowChange) {
        self.event("subflow");
        match change {
            SubflowChange::Opening => self.text("change", "opening"),
            SubflowChange::Established => self.text("change", "established"),
            SubflowChange::Backup(value) => {
                self.text("change", "backup");
                self.flag("value", value);
            }
            SubflowChange::Stale(value) => {
                self.text("change", "stale");
                self.flag("value", value);
            }
            SubflowChange::Closed(reason) => self.closed(reason),
            _ => self.text("change", "other"),
        }
    }

    fn connection(&mut self, change: ConnectionChange) {
        self.event("connection");
        match change {
            ConnectionChange::Opening => self.text("change", "opening"),
            ConnectionChange::Established(mptcp) => {
                self.text("change", "established");
                self.flag("mptcp", mptcp);
            }
            ConnectionChange::PeerFinished => self.text("change", "peer_finished"),
            ConnectionChange::Closed(reason) => self.closed(reason),
            _ => self.text("change", "other"),
        }
    }

    fn closed(&mut self, reason: CloseReason) {
        self.text("change", "closed");
        self.text("reason", reason.name());
        if let CloseReason::Reset(Some(code)) | CloseReason::Mptcp(code) = reason {
            self.number("code", code.into());
        }
    }
}

#[cfg(test)]
mod tests;
