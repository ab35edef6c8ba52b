//! Who watches a run for Python: Ctrl-C, and the events that become rows.

use crate::policy;
use pyo3::prelude::*;
use serde_json::{Map, Value};
use tabane_engine::record::{Record, What};
use tabane_engine::{ConnId, Instant};
use tabane_sim::observe::{FlowIdx, HostIdx, Layout, Observer, Wants};
use tabane_trace::RecordLines;

/// Breaks a run off when the user wants it, or when a policy has failed.
#[derive(Default)]
pub(crate) struct Interrupt {
    /// What the signal's handler raised.
    pub(crate) raised: Option<PyErr>,
}

impl Observer for Interrupt {
    fn progress(&mut self, now: Instant, _: Instant) {
        policy::reach(now);
        if self.raised.is_none() {
            self.raised = Python::attach(|py| py.check_signals()).err();
        }
    }

    fn stops(&self) -> bool {
        self.raised.is_some() || policy::has_failed()
    }
}

/// Breaks a run off when its thread is to stop, or when a policy or a signal's handler has failed.
pub(crate) struct Stoppable;

impl Observer for Stoppable {
    fn progress(&mut self, now: Instant, _: Instant) {
        policy::reach(now);
        policy::look_for_signals();
    }

    fn stops(&self) -> bool {
        policy::is_stopped() || policy::has_failed()
    }
}

/// Records as lines: all of them, or those that are not of every packet. At most [`Events::LINES`].
pub(crate) struct Events {
    lines: RecordLines<Vec<u8>>,
    all: bool,
    left: usize,
    /// How many did not fit.
    pub(crate) lost: u64,
}

impl Events {
    /// About 2 GB of text.
    const LINES: usize = 10_000_000;

    pub(crate) fn new(lines: RecordLines<Vec<u8>>, all: bool) -> Self {
        Self { lines, all, left: Self::LINES, lost: 0 }
    }

    /// The lines.
    pub(crate) fn finish(self) -> Vec<u8> {
        self.lines.finish().expect("invariant: a Vec takes everything")
    }

    fn takes(&mut self) -> bool {
        if self.left == 0 {
            self.lost += 1;
            return false;
        }
        self.left -= 1;
        true
    }
}

impl Observer for Events {
    fn wants(&self) -> Wants {
        self.lines.wants()
    }

    fn begin(&mut self, layout: &Layout) {
        self.lines.begin(layout);
    }

    fn opened(&mut self, now: Instant, flow: FlowIdx, host: HostIdx, conn: ConnId) {
        self.lines.opened(now, flow, host, conn);
    }

    fn record(&mut self, host: HostIdx, record: &Record) {
        let of_each_packet = matches!(
            record.what,
            What::Sent { .. }
                | What::Received { .. }
                | What::Window { .. }
                | What::Rtt { .. }
                | What::Decision { .. }
                | What::ReceiveWindow { .. }
                | What::SendWindow { .. }
                | What::GapFilled { .. }
        );
        if (self.all || !of_each_packet) && self.takes() {
            self.lines.record(host, record);
        }
    }

    fn changed(&mut self, now: Instant, change: &str) {
        if self.takes() {
            self.lines.changed(now, change);
        }
    }

    fn completed(&mut self, now: Instant, flow: FlowIdx) {
        if self.takes() {
            self.lines.completed(now, flow);
        }
    }
}

/// A line as a row: what all lines have, and the rest as text.
pub(crate) struct Row {
    pub(crate) time: f64,
    pub(crate) host: String,
    pub(crate) flow: String,
    pub(crate) conn: i64,
    pub(crate) subflow: i64,
    pub(crate) event: String,
    /// JSON; empty if there is nothing more to say.
    pub(crate) detail: String,
}

impl Row {
    /// Of a line; none if it is no object.
    pub(crate) fn parse(line: &[u8]) -> Option<Self> {
        let mut fields: Map<String, Value> = serde_json::from_slice(line).ok()?;
        let time = fields.remove("t")?.as_f64()?;
        let mut text = |key: &str| match fields.remove(key) {
            Some(Value::String(text)) => text,
            _ => String::new(),
        };
        let (host, flow, event) = (text("host"), text("flow"), text("event"));
        let mut number = |key: &str| fields.remove(key).and_then(|n| n.as_i64()).unwrap_or(-1);
        let (conn, subflow) = (number("conn"), number("subflow"));
        let detail =
            if fields.is_empty() { String::new() } else { Value::Object(fields).to_string() };
        Some(Self { time, host, flow, conn, subflow, event, detail })
    }
}
