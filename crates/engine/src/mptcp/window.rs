//! The receive window on the way to the peer: which subflows announce it, and what they say of
//! round trips. The window itself is the receiver's (`receiver.rs`).

use super::Connection;
use super::receiver::{Growth, Opened};
use crate::record::What;
use crate::time::Duration;
use tabane_wire::Segment;

impl Connection {
    /// Bytes that the peer may send from our acknowledgement on.
    #[inline]
    pub(super) fn advertised(&mut self) -> u64 {
        self.receive.advertise(|| self.subflows.first().map_or(0, |s| s.tcb.mss()))
    }

    /// Called when the application has read. If that opens the window by much, the peer is sent an
    /// update; on every subflow, if the window last announced was nearly zero.
    #[inline]
    pub(super) fn offer_window(&mut self) {
        if !self.receive.has_read() || !self.established {
            return;
        }
        let mss = self.subflows.first().map_or(1460, |s| s.tcb.mss());
        match self.receive.opened(mss) {
            Opened::Little => {}
            Opened::Enough => {
                if let Some(at) = self.subflows.iter().position(|s| s.receives()) {
                    self.request_ack(at);
                }
            }
            Opened::FromZero => {
                self.receive.begin_updates();
                self.repeat_window_update();
            }
        }
    }

    /// Announces the window on every subflow, and repeats that until the peer sends.
    pub(super) fn repeat_window_update(&mut self) {
        let mut rto = Duration::from_millis(200);
        for at in 0..self.subflows.len() {
            if self.subflows[at].receives() {
                rto = rto.max(self.subflows[at].tcb.rto());
                self.request_ack(at);
            }
        }
        self.receive.on_update(self.now, rto);
    }

    /// Payload came: the window is known to be open, and autotuning may have a round to judge.
    #[inline]
    pub(super) fn on_data_arrival(&mut self, at: usize, segment: &Segment) {
        let max = self.config.tcp.receive_buffer_max;
        if self.receive.on_arrival(max) {
            self.estimate_rtt(at, segment);
            if self.receive.is_judged(self.now) {
                self.judge_round(at, max);
            }
        }
    }

    /// Round trip as a receiver sees it: our timestamp, echoed by data that it let go.
    fn estimate_rtt(&mut self, at: usize, segment: &Segment) {
        let Some(timestamps) = segment.options.timestamps else { return };
        let offset = self.subflows[at].tcb.setup().timestamp_offset;
        let clock = (self.now.as_millis() as u32).wrapping_add(offset);
        let sample = clock.wrapping_sub(timestamps.echo);
        if timestamps.echo == 0 || sample > 10_000 {
            return;
        }
        let sample = Duration::from_millis(u64::from(sample.max(1)));
        let rtt = &mut self.subflows[at].receive_rtt;
        // Like srtt, but quick to come down: idle times of the sender count as round trip.
        *rtt = if rtt.is_zero() || sample < *rtt {
            sample
        } else {
            Duration((rtt.0 * 7 + sample.0) / 8)
        };
        // What is in order waits for the slowest that carries data (RFC 8684 section 3.3.5 asks
        // for a buffer that covers the longest round trip at the rate of all).
        let longest = self.subflows.iter().map(|s| s.receive_rtt).max();
        self.receive.set_rtt(longest.unwrap_or(Duration::ZERO));
    }

    /// The buffer becomes twice what came in a round trip, or four times with several subflows.
    fn judge_round(&mut self, at: usize, max: u64) {
        let grow = Growth {
            // What comes early by one subflow is not read until a slower one has delivered.
            share: if self.subflows.len() > 1 { 4 } else { 2 },
            more: 16 * self.subflows[at].tcb.mss(),
            autotuning: self.config.tcp.autotuning,
        };
        let longest = self.subflows.iter().map(|s| s.tcb.srtt()).max().unwrap_or(Duration::ZERO);
        if let Some((window, buffer)) = self.receive.judge_round(self.now, longest, grow, max) {
            self.note(None, || What::ReceiveWindow { window, buffer });
        }
    }
}
