//! The receiving side of the stream: data in order, where it ends, and the connection-level receive
//! window (RFC 8684 section 3.3.5, RFC 9293 section 3.8.6). The window's right edge never moves
//! left, never moves a little (silly window), and the buffer behind it grows with what the
//! application reads in a round trip (dynamic right-sizing, as Linux has it). By default
//! ([`Autotuning::Early`]) what is out of order counts, too, and a round that uses up the window is
//! judged before it is over: a slow subflow's round trips are long, and the fast ones would wait
//! for each of them.

use super::mapping::Delivery;
use super::reassembly::Reassembler;
use crate::config::Autotuning;
use crate::seq::Dsn;
use crate::time::{Duration, Instant};
use bytes::Bytes;

/// What the peer sends, as one stream. It knows no subflows: who calls it says what they have.
#[repr(C)]
pub(super) struct Receiver {
    /// Bytes the application has read.
    read: u64,
    /// Autotuning: start of this round, bytes read then, those and out of order; the most that
    /// came in one round.
    round_read: u64,
    round_arrived: u64,
    round_start: Instant,
    round_most: u64,
    /// The round is judged at once when so much has been read or lies out of order.
    judge_from: u64,
    /// Round trip as a receiver sees it; zero when unknown.
    rtt: Duration,
    /// Buffer size now, bytes.
    buffer: u64,
    /// Right edge advertised: never moves left.
    edge: Dsn,
    /// When window updates are repeated.
    update_at: Instant,
    /// Window updates still to be repeated until the peer sends.
    updates_left: u8,
    /// Everything up to the peer's end has arrived.
    finished: bool,
    /// `Event::Readable` is out and `read` has not returned `None` since.
    readable_reported: bool,
    /// The window was advertised as (near) zero.
    closed_window: bool,
    /// Position of the peer's DATA_FIN.
    fin: Option<Dsn>,
    /// Bytes received in order.
    received: u64,
    stream: Reassembler,
    /// Since when the first gap holds up data; kept for records only.
    gap_since: Option<Instant>,
    /// Bytes received more than once.
    duplicate: u64,
    /// What an inbox has just let through: empty between segments, kept for its memory.
    passed: Vec<Delivery>,
}

/// What came of data that arrived.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Taken {
    /// Bytes that were new.
    pub(super) new: u64,
    /// How long the first gap had held up data, if this has filled it; for records only.
    pub(super) filled_gap: Option<Duration>,
    /// There was no space for another range out of order.
    pub(super) refused: bool,
    /// There is something to read, and the application has not been told yet.
    pub(super) readable: bool,
    /// The stream has come to its end.
    pub(super) finished: bool,
}

/// What the buffer becomes: so many times what came in a round, and so much more.
#[derive(Clone, Copy, Debug)]
pub(super) struct Growth {
    pub(super) share: u64,
    pub(super) more: u64,
    pub(super) autotuning: Autotuning,
}

impl Growth {
    fn of(self, came: u64) -> u64 {
        came * self.share + self.more
    }

    /// The least that asks for more than `buffer`.
    fn exceeds(self, buffer: u64) -> u64 {
        buffer.saturating_sub(self.more) / self.share + 1
    }
}

/// How much the window has opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Opened {
    /// Too little to say.
    Little,
    /// Enough for an update.
    Enough,
    /// From nearly zero: the peer may be waiting for it.
    FromZero,
}

/// Counters, as `Info` reports them.
pub(super) struct Received {
    pub(super) received: u64,
    pub(super) read: u64,
    pub(super) out_of_order: u64,
    pub(super) duplicate: u64,
    pub(super) buffer: u64,
    pub(super) window: u64,
}

impl Receiver {
    pub(super) fn new(now: Instant, buffer: u64) -> Self {
        Self {
            stream: Reassembler::new(Dsn(1)),
            gap_since: None,
            passed: Vec::new(),
            buffer,
            edge: Dsn(1) + buffer,
            fin: None,
            finished: false,
            readable_reported: false,
            read: 0,
            received: 0,
            duplicate: 0,
            closed_window: false,
            updates_left: 0,
            update_at: Instant::FAR_FUTURE,
            round_start: now,
            round_read: 0,
            round_arrived: 0,
            round_most: 0,
            judge_from: 0,
            rtt: Duration::ZERO,
        }
    }

    /// The next bytes in order, at most `max`.
    #[inline]
    pub(super) fn read(&mut self, max: usize) -> Option<Bytes> {
        let data = self.stream.read(max);
        match &data {
            Some(data) => self.read += data.len() as u64,
            None => self.readable_reported = false,
        }
        data
    }

    /// Bytes that `read` would return.
    #[inline]
    pub(super) fn readable(&self) -> u64 {
        self.stream.readable()
    }

    /// The first position that has not arrived.
    #[inline]
    pub(super) fn next(&self) -> Dsn {
        self.stream.next()
    }

    /// Whether everything up to the peer's end has arrived.
    #[inline]
    pub(super) fn is_finished(&self) -> bool {
        self.finished
    }

    /// Buffer size now, bytes.
    #[inline]
    pub(super) fn buffer(&self) -> u64 {
        self.buffer
    }

    /// Counters and window.
    pub(super) fn counters(&self) -> Received {
        Received {
            received: self.received,
            read: self.read,
            out_of_order: self.stream.held(),
            duplicate: self.duplicate,
            buffer: self.buffer,
            window: self.edge - self.stream.next(),
        }
    }

    /// Whether the `len` bytes from `dsn` on are beyond the window, or beyond the peer's end.
    #[inline]
    pub(super) fn is_beyond(&self, dsn: Dsn, len: u64) -> bool {
        let end = dsn + len;
        // The advertised window is rounded up to its scale, at most 2^14.
        end > self.edge + (1 << 14)
            || self.fin.is_some_and(|fin| end > fin && dsn >= self.stream.next())
    }

    /// Takes data at its position; `limit` bounds the number of ranges out of order. `recording`:
    /// the time, if records are on.
    #[inline]
    pub(super) fn take(
        &mut self,
        dsn: Dsn,
        data: Bytes,
        limit: usize,
        recording: Option<Instant>,
    ) -> Taken {
        if self.finished {
            self.duplicate += data.len() as u64;
            return Taken::default();
        }
        let held = self.stream.held();
        let inserted = self.stream.insert(dsn, data, limit);
        self.duplicate += inserted.duplicate;
        let mut taken =
            Taken { new: inserted.new, refused: inserted.refused > 0, ..Taken::default() };
        taken.filled_gap = recording.and_then(|now| self.filled_gap(now, held));
        if inserted.in_order > 0 {
            self.received += inserted.in_order;
            taken.readable = !std::mem::replace(&mut self.readable_reported, true);
            taken.finished = self.fin.is_some() && self.reach_end();
        }
        taken
    }

    /// How long the first gap has held up data, if it has just been filled; `held` were out of
    /// order before.
    fn filled_gap(&mut self, now: Instant, held: u64) -> Option<Duration> {
        let now_held = self.stream.held();
        let since = if now_held < held { self.gap_since.take() } else { None };
        if now_held > 0 {
            self.gap_since.get_or_insert(now);
        }
        since.map(|since| now.saturating_since(since))
    }

    /// The peer's stream ends at `fin` (DATA_FIN); a contradiction or a repeat changes nothing.
    /// Whether everything has arrived with this.
    pub(super) fn end_at(&mut self, fin: Dsn) -> bool {
        if self.finished || fin < self.stream.next() || self.fin.is_some_and(|f| f != fin) {
            return false;
        }
        self.fin = Some(fin);
        self.reach_end()
    }

    /// The peer's stream ends here (FIN of plain TCP). Whether that is new.
    pub(super) fn end_here(&mut self) -> bool {
        self.fin = Some(self.stream.next());
        self.reach_end()
    }

    fn reach_end(&mut self) -> bool {
        let next = self.stream.next();
        if self.finished || self.fin != Some(next) {
            return false;
        }
        self.finished = true;
        self.stream.advance_over_fin();
        self.edge = self.edge.max(self.stream.next());
        self.stream.drop_held();
        true
    }

    /// An empty list for what an inbox lets through; to be given back.
    #[inline]
    pub(super) fn lend_passed(&mut self) -> Vec<Delivery> {
        std::mem::take(&mut self.passed)
    }

    #[inline]
    pub(super) fn return_passed(&mut self, emptied: Vec<Delivery>) {
        self.passed = emptied;
    }

    /// Bytes that the peer may send from our acknowledgement on. `mss`: of the first subflow.
    #[inline]
    pub(super) fn advertise(&mut self, mss: impl FnOnce() -> u64) -> u64 {
        let next = self.stream.next();
        let candidate = next + self.buffer.saturating_sub(self.stream.readable());
        if candidate > self.edge {
            // RFC 9293 section 3.8.6.2.2: by a segment or half the buffer, or not at all.
            let step = mss().min(self.buffer / 2);
            if candidate - self.edge >= step {
                self.edge = candidate;
            }
        }
        let window = self.edge - next;
        self.closed_window = window < SMALL.min(self.buffer / 2);
        window
    }

    /// Whether the application has read since this round of autotuning began, and may read more.
    #[inline]
    pub(super) fn has_read(&self) -> bool {
        self.read != self.round_read && !self.finished
    }

    /// How much the window would open if it were announced now.
    pub(super) fn opened(&self, mss: u64) -> Opened {
        let open = self.edge - self.stream.next();
        let could = self.buffer.saturating_sub(self.stream.readable());
        if could < open * 2 || could - open < mss.min(self.buffer / 2) {
            Opened::Little
        } else if self.closed_window {
            Opened::FromZero
        } else {
            Opened::Enough
        }
    }

    /// Window updates are to be repeated until the peer sends.
    pub(super) fn begin_updates(&mut self) {
        self.updates_left = UPDATES;
    }

    /// An update has been sent on every subflow; the next, if any is left, follows after `rto`.
    pub(super) fn on_update(&mut self, now: Instant, rto: Duration) {
        self.updates_left = self.updates_left.saturating_sub(1);
        self.update_at = if self.updates_left > 0 { now + rto } else { Instant::FAR_FUTURE };
    }

    /// When window updates are repeated; `FAR_FUTURE` for never.
    #[inline]
    pub(super) fn update_at(&self) -> Instant {
        self.update_at
    }

    /// The connection is over: nothing is repeated any more.
    pub(super) fn stop_updates(&mut self) {
        self.update_at = Instant::FAR_FUTURE;
    }

    /// Whether the peer must learn of the window: it was closed, or has just opened.
    pub(super) fn announces_window(&self) -> bool {
        self.closed_window || self.updates_left > 0
    }

    /// Payload came: the window is known to be open. Whether the buffer may grow, up to `max`.
    #[inline]
    pub(super) fn on_arrival(&mut self, max: u64) -> bool {
        self.updates_left = 0;
        self.update_at = Instant::FAR_FUTURE;
        self.buffer < max
    }

    /// The round trip that the buffer has to cover, as a receiver sees it.
    pub(super) fn set_rtt(&mut self, rtt: Duration) {
        self.rtt = rtt;
    }

    /// Whether the buffer may have to grow: a round trip has passed since this round of autotuning
    /// began, or what has come since then, with what is out of order, asks for half as much again.
    #[inline]
    pub(super) fn is_judged(&self, now: Instant) -> bool {
        now - self.round_start >= self.rtt || self.arrived() >= self.judge_from
    }

    /// The next arrival is judged: what the buffer becomes depends on the number of subflows.
    pub(super) fn judge_next(&mut self) {
        self.judge_from = 0;
    }

    /// What the application has read or cannot read yet.
    #[inline]
    fn arrived(&self) -> u64 {
        self.read + self.stream.held()
    }

    /// The buffer grows to what this round asks for; the round is over if a round trip has passed.
    /// Window and buffer if that has grown. `longest`: the longest round trip as senders see it.
    pub(super) fn judge_round(
        &mut self,
        now: Instant,
        longest: Duration,
        grow: Growth,
        max: u64,
    ) -> Option<(u64, u64)> {
        self.rtt = self.rtt.max(longest);
        let over = now - self.round_start >= self.rtt;
        let came = match grow.autotuning {
            Autotuning::Early => self.arrived().saturating_sub(self.round_arrived),
            Autotuning::Linux if over => self.read - self.round_read,
            Autotuning::Linux => 0,
        };
        if over {
            self.round_start = now;
            self.round_read = self.read;
            self.round_arrived = self.arrived();
        }
        let wanted = grow.of(came);
        let grows = came > self.round_most && wanted > self.buffer;
        self.round_most = self.round_most.max(came);
        if grows {
            self.buffer = wanted.min(max);
        }
        self.judge_from = match grow.autotuning {
            Autotuning::Early => self.round_arrived + grow.exceeds(self.buffer + self.buffer / 2),
            Autotuning::Linux => u64::MAX,
        };
        grows.then(|| (self.edge - self.stream.next(), self.buffer))
    }

    /// Asks for what data will need: see `cache.rs`.
    #[inline]
    pub(super) fn prefetch(&self) {
        self.stream.prefetch();
    }

    /// The first field that segments seldom need: what is before it is prefetched.
    #[inline]
    pub(super) fn seldom(&self) -> &impl Sized {
        &self.gap_since
    }
}

/// A window below this is as good as none.
const SMALL: u64 = 1460;

/// How often an opened window is announced while nothing comes from the peer.
const UPDATES: u8 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    fn receiver() -> Receiver {
        Receiver::new(Instant::ZERO, 10_000)
    }

    fn bytes(len: usize) -> Bytes {
        vec![7; len].into()
    }

    fn take(r: &mut Receiver, dsn: Dsn, data: Bytes) -> Taken {
        r.take(dsn, data, 8, None)
    }

    /// RFC 8684 section 3.3.3: the end counts once everything before it is there, and only once.
    #[test]
    fn the_end_waits_for_what_is_missing_and_does_not_move() {
        let mut r = receiver();
        assert!(!r.end_at(Dsn(1001)) && !r.is_finished());
        assert!(!r.end_at(Dsn(501)), "it was elsewhere");
        assert!(r.is_beyond(Dsn(1), 1001) && !r.is_beyond(Dsn(1), 1000));
        assert!(!take(&mut r, Dsn(501), bytes(500)).finished);
        let taken = take(&mut r, Dsn(1), bytes(500));
        assert!(taken.finished && taken.readable && r.is_finished());
        assert_eq!((r.next(), r.readable()), (Dsn(1002), 1000));
        assert!(!r.end_at(Dsn(1001)), "a repeat");
        assert_eq!((take(&mut r, Dsn(1), bytes(9)).new, r.counters().duplicate), (0, 9));
    }

    /// RFC 9293 section 3.8.6.2.2: the right edge moves by a segment or not at all, never left.
    #[test]
    fn the_window_opens_by_whole_segments() {
        let mut r = receiver();
        take(&mut r, Dsn(1), bytes(10_000));
        assert_eq!((r.advertise(|| 1460), r.announces_window()), (0, true));
        r.read(1000);
        assert_eq!((r.advertise(|| 1460), r.opened(1460)), (0, Opened::Little));
        r.read(1000);
        assert_eq!(r.opened(1460), Opened::FromZero);
        assert_eq!(r.advertise(|| 1460), 2000);
        r.begin_updates();
        for left in [true, true, true, false] {
            r.on_update(Instant::ZERO, Duration::from_secs(1));
            assert_eq!(r.update_at() != Instant::FAR_FUTURE, left);
        }
    }

    /// The application is told once, until it has found nothing to read.
    #[test]
    fn readable_is_said_once() {
        let mut r = receiver();
        assert!(take(&mut r, Dsn(1), bytes(10)).readable);
        assert!(!take(&mut r, Dsn(11), bytes(10)).readable);
        while r.read(100).is_some() {}
        assert!(take(&mut r, Dsn(21), bytes(10)).readable);
    }
}
