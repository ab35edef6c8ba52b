//! An agent's status as Prometheus text (exposition format 0.0.4).
//!
//! Written by hand: the samples are a function of one snapshot, with labels that come and go, so
//! a registry that holds values between scrapes would only be a second copy of the truth.
//! One table, [`METRICS`], is all there is; base units, counters end in `_total`.

use crate::model::{DirectionStatus, Histogram, PathState, PathStatus, Status};
use std::fmt::Write;

/// A family of samples.
pub(crate) struct Metric {
    pub name: &'static str,
    /// `gauge`, `counter` or `histogram`.
    pub(crate) kind: &'static str,
    /// For people.
    pub(crate) help: &'static str,
    samples: fn(&Status, &mut Samples),
}

/// Where samples of one family are written.
struct Samples {
    name: &'static str,
    text: String,
}

/// Every family, in the order of the text.
pub(crate) const METRICS: &[Metric] = &[
    gauge(
        "tabane_build_info",
        "Version of the program, role and name of the agent; always 1.",
        |s, out| {
            let labels = [("agent", s.agent.as_str()), ("name", &s.name), ("version", &s.version)];
            out.add(&labels, 1.0);
        },
    ),
    gauge("tabane_uptime_seconds", "Since the agent started.", |s, out| out.add(&[], s.uptime_s)),
    gauge("tabane_path_up", "Whether the path carries packets.", |s, out| {
        out.paths(s, |p| Some(f64::from(p.state == PathState::Up)));
    }),
    gauge("tabane_path_info", "State, role and interface of the path; always 1.", |s, out| {
        for path in &s.paths {
            let interface = path.interface.as_deref().unwrap_or_default();
            let more = [
                ("interface", interface),
                ("role", path.role.name()),
                ("state", state(path.state)),
            ];
            out.path(path, &more, 1.0);
        }
    }),
    gauge("tabane_path_state_seconds", "Since when the path is in its state.", |s, out| {
        out.paths(s, |p| Some(p.since_s));
    }),
    gauge("tabane_path_rtt_seconds", "Smoothed round-trip time of its probes.", |s, out| {
        out.paths(s, |p| p.rtt_ms.map(|ms| ms / 1e3));
    }),
    gauge("tabane_path_loss_ratio", "Share of its last probes without an answer.", |s, out| {
        out.paths(s, |p| p.loss);
    }),
    gauge(
        "tabane_path_capacity_bits_per_second",
        "What the path has shown to carry when it was the bottleneck.",
        |s, out| out.known(s, |d| d.capacity_bps),
    ),
    gauge("tabane_path_capacity_confidence", "How much that may be trusted, 0 to 1.", |s, out| {
        out.known(s, |d| d.capacity_bps.map(|_| d.confidence));
    }),
    gauge(
        "tabane_path_delivery_bits_per_second",
        "What arrives by the path, while it is busy.",
        |s, out| out.known(s, |d| d.delivery_bps),
    ),
    gauge(
        "tabane_path_queueing_delay_seconds",
        "One-way delay above its base, while the path is busy.",
        |s, out| out.known(s, |d| d.queueing_ms.map(|ms| ms / 1e3)),
    ),
    gauge("tabane_path_jitter_seconds", "Variation of the one-way delay.", |s, out| {
        out.known(s, |d| d.jitter_ms.map(|ms| ms / 1e3));
    }),
    gauge("tabane_path_packet_loss_ratio", "Share of packets lost lately.", |s, out| {
        out.known(s, |d| d.loss);
    }),
    counter("tabane_path_bytes_total", "Inner bytes, of probes and reports too.", |s, out| {
        out.directions(s, |p| [p.rx_bytes, p.tx_bytes]);
    }),
    counter("tabane_path_packets_total", "Inner packets, of probes and reports too.", |s, out| {
        out.directions(s, |p| [p.rx_packets, p.tx_packets]);
    }),
    counter(
        "tabane_path_retransmitted_bytes_total",
        "Payload sent again on the path.",
        |s, out| {
            out.paths(s, |p| Some(p.retransmitted_bytes as f64));
        },
    ),
    counter(
        "tabane_path_reinjected_bytes_total",
        "Payload sent on the path that had been sent on another one.",
        |s, out| {
            out.paths(s, |p| {
                p.record_counters.as_ref().map(|counters| counters.reinjected_bytes as f64)
            })
        },
    ),
    counter(
        "tabane_path_duplicate_bytes_total",
        "Payload that came by the path and had come before.",
        |s, out| {
            out.paths(s, |p| {
                p.record_counters.as_ref().map(|counters| counters.duplicate_bytes as f64)
            })
        },
    ),
    gauge("tabane_path_cwnd_bytes", "Congestion windows of its subflows.", |s, out| {
        out.paths(s, |p| Some(p.cwnd_bytes as f64));
    }),
    gauge("tabane_path_inflight_bytes", "In flight on its subflows.", |s, out| {
        out.paths(s, |p| Some(p.inflight_bytes as f64));
    }),
    gauge("tabane_path_subflows", "Subflows on the path.", |s, out| {
        out.paths(s, |p| Some(f64::from(p.subflows)));
    }),
    gauge("tabane_path_mtu_bytes", "Largest inner packet.", |s, out| {
        out.paths(s, |p| (p.mtu > 0).then_some(f64::from(p.mtu)));
    }),
    counter("tabane_path_too_big_total", "Packets that were longer and did not go.", |s, out| {
        out.paths(s, |p| Some(p.too_big as f64));
    }),
    gauge("tabane_path_handshake_age_seconds", "Since the last WireGuard handshake.", |s, out| {
        out.paths(s, |p| p.handshake_age_s);
    }),
    gauge("tabane_path_quota_left_bytes", "What its quota leaves in this period.", |s, out| {
        out.paths(s, |p| p.quota_left.map(|bytes| bytes as f64));
    }),
    gauge("tabane_path_cap_bits_per_second", "Its rate cap.", |s, out| {
        out.paths(s, |p| p.cap_bps.map(|bps| bps as f64));
    }),
    counter(
        "tabane_sched_decisions_total",
        "Changes of the scheduler to a path, or to none (no label `path`), by reason.",
        |s, out| {
            for path in &s.paths {
                for (reason, count) in
                    path.record_counters.iter().flat_map(|counters| &counters.decisions)
                {
                    out.path(path, &[("reason", reason)], *count as f64);
                }
            }
            for (reason, count) in s.record_counters.iter().flat_map(|counters| &counters.held) {
                out.add(&[("reason", reason)], *count as f64);
            }
        },
    ),
    Metric {
        name: "tabane_reorder_delay_seconds",
        kind: "histogram",
        help: "How long gaps in the data held up what came behind them.",
        samples: |s, out| {
            if let Some(counters) = &s.record_counters {
                out.histogram(&counters.gaps);
            }
        },
    },
    counter("tabane_fallback_total", "Connections without MPTCP, by reason.", |s, out| {
        for (reason, count) in s.record_counters.iter().flat_map(|counters| &counters.fallbacks) {
            out.add(&[("reason", reason)], *count as f64);
        }
    }),
    gauge("tabane_conn_active", "Connections open.", |s, out| out.add(&[], s.connections as f64)),
    counter(
        "tabane_conn_opened_total",
        "Connections asked for since the start, refused ones among them.",
        |s, out| out.add(&[], s.connections_total as f64),
    ),
    counter("tabane_conn_refused_total", "Connections that could not be opened.", |s, out| {
        out.add(&[], s.refused_total as f64);
    }),
    gauge("tabane_udp_flows_active", "Flows of datagrams open.", |s, out| {
        out.add(&[], s.udp_flows as f64);
    }),
    gauge("tabane_clients_connected", "Clients with a working path.", |s, out| {
        if s.agent == "server" {
            out.add(&[], s.clients as f64);
        }
    }),
    gauge("tabane_held_bytes", "Memory that connections hold.", |s, out| {
        out.add(&[], s.held_bytes as f64);
    }),
    gauge("tabane_clock_ahead_seconds", "The far end's clock beyond ours.", |s, out| {
        if let Some(ms) = s.clock_ahead_ms {
            out.add(&[], ms / 1e3);
        }
    }),
    counter("tabane_events_total", "Counters of the agent with a name of their own.", |s, out| {
        for (event, count) in &s.counters {
            out.add(&[("event", event)], *count as f64);
        }
    }),
];

/// The text of a scrape.
#[must_use]
pub(crate) fn text(status: &Status) -> String {
    let mut text = String::new();
    for metric in METRICS {
        let mut samples = Samples { name: metric.name, text: String::new() };
        (metric.samples)(status, &mut samples);
        if !samples.text.is_empty() {
            let (name, kind) = (metric.name, metric.kind);
            let _ = writeln!(text, "# HELP {name} {}\n# TYPE {name} {kind}", metric.help);
            text += &samples.text;
        }
    }
    text
}

const fn gauge(
    name: &'static str,
    help: &'static str,
    samples: fn(&Status, &mut Samples),
) -> Metric {
    Metric { name, kind: "gauge", help, samples }
}

const fn counter(
    name: &'static str,
    help: &'static str,
    samples: fn(&Status, &mut Samples),
) -> Metric {
    Metric { name, kind: "counter", help, samples }
}

impl Samples {
    fn add(&mut self, labels: &[(&str, &str)], value: f64) {
        self.text += self.name;
        for (i, (name, value)) in labels.iter().enumerate() {
            let _ = write!(self.text, "{}{name}=\"", if i == 0 { "{" } else { "," });
            for c in value.chars() {
                match c {
                    '\\' => self.text += "\\\\",
                    '"' => self.text += "\\\"",
                    '\n' => self.text += "\\n",
                    c => self.text.push(c),
                }
            }
            self.text.push('"');
        }
        let _ = writeln!(self.text, "{} {value}", if labels.is_empty() { "" } else { "}" });
    }

    /// Cumulative buckets, sum and count.
    fn histogram(&mut self, values: &Histogram) {
        let name = self.name;
        let bounds = Histogram::BOUNDS.iter().map(ToString::to_string);
        let mut sum = 0;
        for (n, bound) in bounds.chain(["+Inf".to_owned()]).enumerate() {
            sum += values.counts.get(n).copied().unwrap_or(0);
            let _ = writeln!(self.text, "{name}_bucket{{le=\"{bound}\"}} {sum}");
        }
        let _ = writeln!(self.text, "{name}_sum {}\n{name}_count {sum}", values.sum);
    }

    fn path(&mut self, path: &PathStatus, more: &[(&str, &str)], value: f64) {
        let mut labels = Vec::with_capacity(2 + more.len());
        labels.extend(path.client.as_deref().map(|client| ("client", client)));
        labels.push(("path", &path.name));
        labels.extend_from_slice(more);
        self.add(&labels, value);
    }

    fn paths(&mut self, status: &Status, value: impl Fn(&PathStatus) -> Option<f64>) {
        for path in &status.paths {
            if let Some(value) = value(path) {
                self.path(path, &[], value);
            }
        }
    }

    /// What is known of both directions.
    fn known(&mut self, status: &Status, value: impl Fn(&DirectionStatus) -> Option<f64>) {
        for path in &status.paths {
            for (name, direction) in [("received", &path.receiving), ("sent", &path.sending)] {
                if let Some(value) = value(direction) {
                    self.path(path, &[("direction", name)], value);
                }
            }
        }
    }

    /// Received and sent.
    fn directions(&mut self, status: &Status, values: impl Fn(&PathStatus) -> [u64; 2]) {
        for path in &status.paths {
            let [received, sent] = values(path);
            self.path(path, &[("direction", "received")], received as f64);
            self.path(path, &[("direction", "sent")], sent as f64);
        }
    }
}

fn state(state: PathState) -> &'static str {
    match state {
        PathState::Absent => "absent",
        PathState::Connecting => "connecting",
        PathState::Up => "up",
        PathState::Down => "down",
    }
}
