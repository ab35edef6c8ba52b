//! What a capture shows of the multipath flow's first subflow: error packets as Wireshark names
//! them, the receive window and the bytes out, as its graph "Window Scaling" has them.
//!
//! The paper captures on Link1. HayACK's ACKs are not there, and whoever captures there cannot
//! know what has been acknowledged.

use super::watch::STEP;
use tabane_engine::Instant;
use tabane_trace::analysis::{Analyzer, Label, Settings};
use tabane_wire::pcapng::BASE_TIME;
use tabane_wire::{Flags, Headers, Segment};

/// The classes that the paper plots; out-of-order, which it does not, is the last of
/// [`Label::ERRORS`].
const PLOTTED: usize = 4;

/// Packets of one connection, as captured at one place.
pub(super) struct Capture {
    headers: Headers,
    analyzer: Analyzer,
    pub(super) counts: [u64; 5],
    /// So far, every second from 0 on.
    pub(super) over_time: Vec<[u64; 5]>,
}

/// What the receiver announces and the sender has out, as far as a capture shows it.
#[derive(Default)]
pub(super) struct Windows {
    next: Option<u32>,
    acked: u32,
    /// Of the receiver.
    scale: u8,
    announced: u64,
    /// Bytes, by sample.
    pub(super) receive: Vec<f64>,
    pub(super) out: Vec<f64>,
}

impl Capture {
    pub(super) fn new() -> Self {
        let settings = Settings { streams: 64, tracked: 1, ..Settings::default() };
        let analyzer = Analyzer::new(settings);
        Self { headers: Headers::default(), analyzer, counts: [0; 5], over_time: Vec::new() }
    }

    pub(super) fn packet(&mut self, now: Instant, segment: &Segment) {
        let second = now.as_secs_f64() as usize;
        self.over_time.resize(second.max(self.over_time.len()), self.counts);
        self.headers.set(segment);
        let outcome = self.analyzer.packet(BASE_TIME.saturating_add(now.0), &self.headers);
        // The first stream is the first subflow.
        if let Some(outcome) = outcome.filter(|outcome| outcome.stream == 0) {
            for (count, label) in self.counts.iter_mut().zip(Label::ERRORS) {
                *count += u64::from(outcome.verdict.labels.contains(label));
            }
        }
    }

    /// Of the classes that the paper plots.
    pub(super) fn errors(&self) -> u64 {
        self.counts[..PLOTTED].iter().sum()
    }

    /// Of one class of [`Label::ERRORS`].
    pub(super) fn of(&self, label: Label) -> u64 {
        let all = Label::ERRORS.iter().zip(&self.counts);
        all.filter(|(one, _)| **one == label).map(|(_, count)| count).sum()
    }
}

impl Windows {
    /// A packet towards the receiver, or from it.
    pub(super) fn packet(&mut self, now: Instant, to_receiver: bool, segment: &Segment) {
        let at = (now.0 / (STEP * 1e9) as u64) as usize;
        let (announced, out) = (self.announced as f64, self.bytes_out() as f64);
        self.receive.resize(at.max(self.receive.len()), announced);
        self.out.resize(at.max(self.out.len()), out);
        if to_receiver {
            let syn = u32::from(segment.flags.contains(Flags::SYN));
            let end = segment.seq.0.wrapping_add(segment.payload.len() as u32 + syn);
            match &mut self.next {
                Some(next) if (end.wrapping_sub(*next) as i32) <= 0 => {}
                Some(next) => *next = end,
                None => (self.next, self.acked) = (Some(end), segment.seq.0),
            }
        } else if segment.flags.contains(Flags::SYN) {
            self.scale = segment.options.window_scale.unwrap_or(0);
            (self.announced, self.acked) = (u64::from(segment.window), segment.ack.0);
        } else {
            self.announced = u64::from(segment.window) << self.scale;
            self.acked = segment.ack.0;
        }
    }

    fn bytes_out(&self) -> u32 {
        self.next.map_or(0, |next| next.wrapping_sub(self.acked))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tabane_wire::SeqNum;

    fn at(ms: u64) -> Instant {
        Instant(ms * 1_000_000)
    }

    /// What is not acknowledged in the capture is out for ever.
    #[test]
    fn without_acks_bytes_out_only_rise() {
        for acks in [true, false] {
            let mut windows = Windows::default();
            for n in 0..10_u32 {
                let mut data = Segment::blank();
                data.seq = SeqNum((u32::MAX - 3000).wrapping_add(n * 1000));
                data.payload = vec![0; 1000].into();
                windows.packet(at(u64::from(n) * 200), true, &data);
                let mut ack = Segment::blank();
                (ack.flags, ack.window) = (Flags::ACK, 500);
                ack.ack = SeqNum(data.seq.0.wrapping_add(1000));
                if acks {
                    windows.packet(at(u64::from(n) * 200 + 50), false, &ack);
                }
            }
            let rising: Vec<f64> = (0..9).map(|n| f64::from(n) * 1000.0 + 1000.0).collect();
            let seen: Vec<f64> = windows.out.iter().skip(1).step_by(2).copied().collect();
            assert_eq!(seen, if acks { vec![0.0; 9] } else { rising });
            assert_eq!(windows.receive.last(), Some(if acks { &500.0 } else { &0.0 }));
        }
    }
}
