//! What `--verbose` shows of a gateway while it is measured: each path's rate, the subflows of the
//! agent that sends, and at the end what both agents say has happened.

use crate::bed::{Bed, status};
use crate::say;
use tabane_engine::{Duration, Instant};
use tabane_gateway::model::SubflowStatus;
use tabane_gateway::request_channel::{Answer, Request};

/// Between looks.
const GLANCE: Duration = Duration::from_millis(250);
/// Connections whose subflows are shown.
const SHOWN: usize = 2;

/// One measurement's.
pub(super) struct Trail {
    name: &'static str,
    upload: bool,
    /// Bytes that had come by each path at the last look, and when.
    last: (Instant, Vec<u64>),
}

impl Trail {
    /// Of that scenario; whether the client is who sends.
    pub(super) fn new(name: &'static str, upload: bool) -> Self {
        Self { name, upload, last: (Instant::ZERO, Vec::new()) }
    }

    /// Waits until then, and tells.
    ///
    /// # Errors
    /// An agent does not answer.
    pub(super) fn until(&mut self, bed: &Bed, end: Instant) -> anyhow::Result<()> {
        while bed.clock.now() < end {
            self.look(bed)?;
            let left = GLANCE.min(end.saturating_since(bed.clock.now()));
            std::thread::sleep(std::time::Duration::from_nanos(left.0));
        }
        Ok(())
    }

    fn look(&mut self, bed: &Bed) -> anyhow::Result<()> {
        if !say::is_verbose() {
            return Ok(());
        }
        let (sender, now) = (if self.upload { &bed.client } else { &bed.server }, bed.clock.now());
        let status = status(&bed.client)?;
        let way = |path: &tabane_gateway::model::PathStatus| {
            if self.upload { path.tx_bytes } else { path.rx_bytes }
        };
        let bytes: Vec<u64> = status.paths.iter().map(way).collect();
        let (before, old) = std::mem::replace(&mut self.last, (now, bytes.clone()));
        let seconds = now.saturating_since(before).as_secs_f64();
        let rate = |(new, old): (&u64, &u64)| new.saturating_sub(*old) as f64 * 8e-6 / seconds;
        let rates: Vec<String> =
            bytes.iter().zip(&old).map(|pair| format!("{:.1}", rate(pair))).collect();
        let states: Vec<String> = status.paths.iter().map(|p| format!("{:?}", p.state)).collect();
        let ms = now.saturating_since(Instant::ZERO).as_millis();
        let (rates, states) = (rates.join(" + "), states.join(" "));
        say::detail(&format!("    {} at {ms} ms: {rates} Mbit/s, {states}", self.name));
        if let Answer::Connections(all) = sender.ask(Request::Connections)? {
            for subflow in all.iter().take(SHOWN).flat_map(|connection| &connection.subflows) {
                say::detail(&look(subflow));
            }
        }
        Ok(())
    }

    /// What the agents say has happened, and their counters.
    ///
    /// # Errors
    /// An agent does not answer.
    pub(super) fn events(&self, bed: &Bed) -> anyhow::Result<()> {
        if !say::is_verbose() {
            return Ok(());
        }
        let origin = bed.clock.wall_origin().duration_since(std::time::UNIX_EPOCH);
        let origin = origin.map_or(0, |time| time.as_millis() as i64);
        for (name, agent) in [("client", &bed.client), ("server", &bed.server)] {
            if let Answer::Events(all) = agent.ask(Request::Events { since: 0 })? {
                for event in all {
                    let ms = event.unix_ms as i64 - origin;
                    say::detail(&format!("    {name} at {ms} ms: {} {}", event.kind, event.text));
                }
            }
            let counters = status(agent)?.counters;
            let counters = counters.iter().filter(|(_, n)| *n > 0);
            let counters: Vec<String> = counters.map(|(what, n)| format!("{what} {n}")).collect();
            say::detail(&format!("    {name}: {}", counters.join(", ")));
        }
        Ok(())
    }
}

/// What a subflow is like at a moment.
fn look(subflow: &SubflowStatus) -> String {
    let kilo = |bytes: u64| bytes / 1000;
    format!(
        "      {}: window {} kB, in flight {} kB, round trip {:.1} ms, sent {} kB, again {} kB",
        subflow.path,
        kilo(subflow.cwnd_bytes),
        kilo(subflow.inflight_bytes),
        subflow.rtt_ms,
        kilo(subflow.tx_bytes),
        kilo(subflow.retransmitted_bytes),
    )
}
