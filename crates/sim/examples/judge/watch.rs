//! What a case measures: bytes that each flow has received, and the queue of the bottleneck.

use std::collections::BTreeMap;
use tabane_engine::mptcp::Info;
use tabane_engine::{Duration, Instant};
use tabane_sim::observe::{FlowIdx, HostIdx, Layout, LinkIdx, LinkSample, Observer, Wants};

/// Time between samples.
pub(crate) const SAMPLE: f64 = 0.02;

/// Samples of a run, by time.
#[derive(Default)]
pub(crate) struct Watch {
    layout: Layout,
    /// Bytes received of each flow, at (s).
    received: BTreeMap<u32, Vec<(f64, f64)>>,
    /// Bytes that wait for the bottleneck, and bytes that it has delivered, at (s).
    queue: Vec<(f64, f64)>,
    delivered: Vec<(f64, f64)>,
}

impl Observer for Watch {
    fn wants(&self) -> Wants {
        Wants { sample: Some(Duration::from_secs_f64(SAMPLE)), ..Wants::default() }
    }

    fn begin(&mut self, layout: &Layout) {
        self.layout = layout.clone();
    }

    fn sample(&mut self, now: Instant, flow: FlowIdx, host: HostIdx, info: &Info) {
        let server = self.layout.flows[flow.0 as usize].server;
        if host == server {
            let at = (now - Instant::ZERO).as_secs_f64();
            self.received.entry(flow.0).or_default().push((at, info.received as f64));
        }
    }

    fn link_sample(&mut self, now: Instant, link: LinkIdx, sample: &LinkSample) {
        let layout = &self.layout.links[link.0 as usize];
        if layout.name == "bottleneck" && layout.to == "server" {
            let at = (now - Instant::ZERO).as_secs_f64();
            self.queue.push((at, sample.queued_bytes as f64));
            self.delivered.push((at, sample.delivered_bytes as f64));
        }
    }
}

impl Watch {
    /// Payload of `flow` between two times, bit/s.
    pub(crate) fn rate(&self, flow: u32, from: f64, to: f64) -> f64 {
        self.received.get(&flow).map_or(0.0, |samples| slope(samples, from, to))
    }

    /// The least that waited in each `period` from `from` on: the median of these, bytes.
    pub(crate) fn standing_queue(&self, from: f64, period: f64) -> f64 {
        let mut least: BTreeMap<u64, f64> = BTreeMap::new();
        for &(at, bytes) in self.queue.iter().filter(|(at, _)| *at >= from) {
            let slot = least.entry((at / period) as u64).or_insert(f64::MAX);
            *slot = slot.min(bytes);
        }
        let mut least: Vec<f64> = least.into_values().collect();
        least.sort_by(f64::total_cmp);
        least.get(least.len() / 2).copied().unwrap_or(0.0)
    }

    /// When the bottleneck first carries `rate` (bit/s) for half a second, counted from `from`;
    /// at most until `end`.
    pub(crate) fn recovered(&self, rate: f64, from: f64, end: f64) -> f64 {
        let mut at = from;
        while at + 0.5 < end {
            if slope(&self.delivered, at, at + 0.5) >= rate {
                return at - from;
            }
            at += SAMPLE;
        }
        end - from
    }
}

/// Bits per second between two times, of samples of bytes.
fn slope(samples: &[(f64, f64)], from: f64, to: f64) -> f64 {
    let at = |time: f64| {
        let after = samples.partition_point(|(t, _)| *t <= time + SAMPLE / 2.0);
        after.checked_sub(1).map_or(0.0, |index| samples[index].1)
    };
    (at(to) - at(from)) * 8.0 / (to - from)
}
