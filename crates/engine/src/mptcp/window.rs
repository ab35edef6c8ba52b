//! The connection-level receive window (RFC 8684 section 3.3.5, RFC 9293 section 3.8.6): the right
//! edge never moves left, never moves a little (silly window), is announced when it opens, and
//! the buffer behind it grows with what the application reads in a round trip (as Linux does:
//! dynamic right-sizing), up to `TcpConfig::receive_buffer_max`.

use super::Connection;
use crate::record::What;
use crate::time::{Duration, Instant};
use tabane_wire::Segment;

impl Connection {
    /// Bytes that the peer may send from our acknowledgement on.
    #[inline]
    pub(super) fn advertised(&mut self) -> u64 {
        let receive = &mut self.receive;
        let next = receive.stream.next();
        let candidate = next + receive.buffer.saturating_sub(receive.stream.readable());
        if candidate > receive.edge {
            // RFC 9293 section 3.8.6.2.2: by a segment or half the buffer, or not at all.
            let step = self.subflows.first().map_or(0, |s| s.tcb.mss()).min(receive.buffer / 2);
            if candidate - receive.edge >= step {
                receive.edge = candidate;
            }
        }
        let window = receive.edge - next;
        receive.closed_window = window < SMALL.min(receive.buffer / 2);
        window
    }

    /// Called when the application has read. If that opens the window by much, the peer is sent an
    /// update; on every subflow, if the window last announced was nearly zero.
    #[inline]
    pub(super) fn offer_window(&mut self) {
        let receive = &self.receive;
        if receive.read == receive.round_read || !self.established || receive.finished {
            return;
        }
        let next = receive.stream.next();
        let now_open = receive.edge - next;
        let could = receive.buffer.saturating_sub(receive.stream.readable());
        let mss = self.subflows.first().map_or(1460, |s| s.tcb.mss());
        if could < now_open * 2 || could - now_open < mss.min(receive.buffer / 2) {
            return;
        }
        if receive.closed_window {
            self.receive.updates_left = UPDATES;
            self.repeat_window_update();
        } else if let Some(at) = self.subflows.iter().position(|s| s.receives()) {
            self.request_ack(at);
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
        let left = &mut self.receive.updates_left;
        *left = left.saturating_sub(1);
        let again = if *left > 0 { self.now + rto } else { Instant::FAR_FUTURE };
        self.receive.update_at = again;
    }

    /// Payload came: the window is known to be open, and autotuning may have a round to judge.
    #[inline]
    pub(super) fn on_data_arrival(&mut self, at: usize, segment: &Segment) {
        self.receive.updates_left = 0;
        self.receive.update_at = Instant::FAR_FUTURE;
        let max = self.config.tcp.receive_buffer_max;
        if self.receive.buffer < max {
            self.estimate_rtt(at, segment);
            if self.now - self.receive.round_start >= self.receive.rtt {
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
        self.receive.rtt = longest.unwrap_or(Duration::ZERO);
    }

    /// A round trip has passed: the buffer becomes twice what the application read in it, four
    /// times if there are several subflows.
    fn judge_round(&mut self, at: usize, max: u64) {
        let longest = self.subflows.iter().map(|s| s.tcb.srtt()).max().unwrap_or(Duration::ZERO);
        let receive = &mut self.receive;
        let rtt = receive.rtt.max(longest);
        let elapsed = self.now - receive.round_start;
        if elapsed < rtt {
            receive.rtt = rtt;
            return;
        }
        let read = receive.read - receive.round_read;
        receive.round_start = self.now;
        receive.round_read = receive.read;
        if read <= receive.round_most {
            return;
        }
        receive.round_most = read;
        // What came early by one subflow is not read until a slower one has delivered.
        let share = if self.subflows.len() > 1 { 4 } else { 2 };
        let wanted = read * share + 16 * self.subflows[at].tcb.mss();
        if wanted > receive.buffer {
            receive.buffer = wanted.min(max);
            let (window, buffer) = (receive.edge - receive.stream.next(), receive.buffer);
            self.note(None, || What::ReceiveWindow { window, buffer });
        }
    }
}

/// A window below this is as good as none.
const SMALL: u64 = 1460;

/// How often an opened window is announced while nothing comes from the peer.
const UPDATES: u8 = 4;
