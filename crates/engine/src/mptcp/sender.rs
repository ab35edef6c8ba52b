//! The sending side of the stream: what the application wrote, how far it is bound to subflows and
//! acknowledged, and what may leave now. Nagle and silly-window avoidance are those of RFC 9293
//! sections 3.7.4 and 3.8.6.2.1, both at data level.

use super::buffer::SendBuffer;
use crate::seq::Dsn;
use crate::time::{Duration, Instant};
use crate::view::SubflowId;
use bytes::Bytes;
use std::collections::VecDeque;

/// What we send, as one stream. It knows no subflows: who calls it says what they have space for.
#[repr(C)]
pub(super) struct Sender {
    /// Next position to bind to a subflow (data_snd_nxt).
    nxt: Dsn,
    /// First position that the peer's connection-level window does not allow. Plain TCP's
    /// window is obeyed by the subflow.
    edge: Dsn,
    /// Bytes written and not yet bound.
    unsent: u64,
    /// Largest window seen, bytes.
    window_max: u64,
    /// When data that is short for want of window may leave all the same (RFC 9293 section
    /// 3.8.6.2.1, override timeout).
    override_at: Instant,
    override_due: bool,
    /// The application has closed.
    closed: bool,
    /// Bytes that it may hold, if less than the configuration says.
    limit: u64,
    /// The last `write` was cut short.
    short_write: bool,
    /// DATA_FIN has left, or FIN has been handed down.
    fin_sent: bool,
    /// DATA_FIN or FIN has been acknowledged.
    fin_acked: bool,
    probing: Probing,
    /// End of the last segment that was short of a full one: Nagle's algorithm waits for it.
    short: Dsn,
    /// Lone last push: subflow and length, to save asking it again.
    pushed: Option<(SubflowId, usize)>,
    buffer: SendBuffer,
    /// What is bound beyond `nxt`: disjoint ranges, first and end, in order. Only schedulers that
    /// look ahead make any.
    ahead: VecDeque<(Dsn, Dsn)>,
    /// Bytes written, acknowledged and sent again in all.
    written: u64,
    acked: u64,
    reinjected: u64,
}

/// Which subflows ask for the peer's window (RFC 9293 section 3.8.6.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Probing {
    No,
    /// Those whose own window is shut, while others carry data.
    Shut,
    /// All that are usable: no data is under way.
    All,
}

/// Whether short data waits for what is under way (RFC 9293 section 3.7.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Nagle {
    On,
    Off,
}

/// Counters, as `Info` reports them.
pub(super) struct Counters {
    pub(super) written: u64,
    pub(super) acked: u64,
    pub(super) reinjected: u64,
}

impl Sender {
    pub(super) fn new() -> Self {
        Self {
            buffer: SendBuffer::new(Dsn(1)),
            nxt: Dsn(1),
            edge: Dsn(u64::MAX),
            unsent: 0,
            ahead: VecDeque::new(),
            window_max: 0,
            closed: false,
            limit: u64::MAX,
            short_write: false,
            fin_sent: false,
            fin_acked: false,
            probing: Probing::No,
            override_at: Instant::FAR_FUTURE,
            override_due: false,
            written: 0,
            acked: 0,
            reinjected: 0,
            short: Dsn(1),
            pushed: None,
        }
    }

    // The application's side.

    /// Takes as much of the front of `data` as there is space for; how much that is.
    #[inline]
    pub(super) fn write(&mut self, data: &mut Bytes, configured: u64) -> usize {
        let take = (data.len() as u64).min(self.writable(configured)) as usize;
        self.short_write = take < data.len();
        if take > 0 {
            self.written += take as u64;
            self.unsent += take as u64;
            self.buffer.push(data.split_to(take));
        }
        take
    }

    /// Space, bytes, of a buffer that is configured to hold so many.
    #[inline]
    pub(super) fn writable(&self, configured: u64) -> u64 {
        configured.min(self.limit).saturating_sub(self.buffer.len())
    }

    /// From now on it holds no more than that, bytes.
    pub(super) fn set_limit(&mut self, bytes: u64) {
        self.limit = bytes;
    }

    /// Nothing more will be written.
    pub(super) fn close(&mut self) {
        self.closed = true;
        self.short_write = false;
    }

    #[inline]
    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Whether the last write was cut short and has not been made good for since.
    pub(super) fn was_short(&self) -> bool {
        self.short_write
    }

    // Positions.

    /// First position not acknowledged.
    #[inline]
    pub(super) fn una(&self) -> Dsn {
        self.buffer.una()
    }

    /// Next position to bind to a subflow (data_snd_nxt).
    #[inline]
    pub(super) fn nxt(&self) -> Dsn {
        self.nxt
    }

    /// Position after the last byte written: that of our DATA_FIN (or FIN).
    #[inline]
    pub(super) fn end(&self) -> Dsn {
        self.buffer.end()
    }

    /// Bytes written and not yet bound.
    #[inline]
    pub(super) fn unsent(&self) -> u64 {
        self.unsent
    }

    /// How many of `len` bytes from `dsn` on are bound: up to the first that is not.
    pub(super) fn bound(&self, dsn: Dsn, len: u64) -> u64 {
        let ahead = || self.ahead.iter().find(|(from, to)| *from <= dsn && dsn < *to);
        let end = if dsn < self.nxt { self.nxt } else { ahead().map_or(dsn, |(_, to)| *to) };
        len.min(end - dsn)
    }

    /// Whether anything beyond the next position is bound.
    #[inline]
    pub(super) fn is_bound_ahead(&self) -> bool {
        !self.ahead.is_empty()
    }

    /// What is bound and not acknowledged: ranges, first and length.
    pub(super) fn under_way(&self) -> impl Iterator<Item = (Dsn, u64)> {
        let first = (self.buffer.una(), self.nxt - self.buffer.una());
        std::iter::once(first).chain(self.ahead.iter().map(|(from, to)| (*from, *to - *from)))
    }

    /// The first of what is not bound, from `gap` bytes after the next position on: at most `len`
    /// bytes, as the peer's window allows. None where there is nothing.
    pub(super) fn beyond(&self, gap: u64, len: u64) -> Option<(Dsn, u64)> {
        let mut dsn = self.nxt + gap;
        let mut end = self.buffer.end().min(self.edge);
        for (from, to) in &self.ahead {
            if dsn < *from {
                end = end.min(*from);
                break;
            }
            dsn = dsn.max(*to);
        }
        let len = len.min(end - dsn);
        (len > 0).then_some((dsn, len))
    }

    /// Whether data is bound and not acknowledged.
    #[inline]
    pub(super) fn outstanding(&self) -> bool {
        self.buffer.una() < self.nxt
    }

    /// Bytes that the peer's window allows beyond what is bound.
    #[inline]
    pub(super) fn allowed(&self) -> u64 {
        self.edge - self.nxt
    }

    /// Bytes that the peer's window allows beyond what is acknowledged.
    #[inline]
    pub(super) fn window(&self) -> u64 {
        self.edge - self.buffer.una()
    }

    pub(super) fn counters(&self) -> Counters {
        Counters { written: self.written, acked: self.acked, reinjected: self.reinjected }
    }

    // What may leave.

    /// How many bytes of new data may leave in a segment of `mss`; `None` if Nagle's algorithm or
    /// the peer's window holds them.
    #[inline]
    pub(super) fn next_len(&self, mss: u64, nagle: Nagle) -> Option<u64> {
        let allowed = self.allowed();
        let mut len = self.unsent().min(mss);
        if let Some((from, _)) = self.ahead.front() {
            len = len.min(*from - self.nxt);
        }
        if len > allowed {
            return (allowed > 0 && self.worth_sending(allowed)).then_some(allowed);
        }
        let waits = len < mss && nagle == Nagle::On && self.short_is_out() && !self.closed;
        (!waits).then_some(len)
    }

    /// Whether the peer's window leaves less space than there is data for one segment.
    pub(super) fn is_window_full(&self, mss: u64) -> bool {
        self.allowed() < self.unsent().min(mss)
    }

    /// Whether a segment short of a full one is under way: another waits for it. Full ones are not
    /// waited for, or the end of every answer would take a round trip and a delayed ACK longer
    /// (Minshall's modification of Nagle's algorithm, RFC 9293 section 3.7.4; so does Linux).
    fn short_is_out(&self) -> bool {
        self.short > self.buffer.una()
    }

    /// Whether so short a segment is no silly window (RFC 9293 section 3.8.6.2.1).
    pub(super) fn worth_sending(&self, len: u64) -> bool {
        len * 2 >= self.window_max || self.override_due
    }

    /// `len` bytes from `dsn` on, to be bound to subflows.
    // For each segment: a call would cost what `.ci/check_instructions.py` counts.
    #[inline(always)]
    pub(super) fn slice(&mut self, dsn: Dsn, len: u64) -> Bytes {
        self.override_at = Instant::FAR_FUTURE;
        self.override_due = false;
        self.buffer.slice(dsn, len as usize)
    }

    /// `len` bytes of new data from `dsn` on are bound, as a segment that could have had `full`.
    #[inline]
    pub(super) fn on_bound(&mut self, dsn: Dsn, len: u64, full: impl FnOnce() -> u64) {
        self.unsent -= len;
        if dsn == self.nxt {
            self.nxt += len;
            self.pass_what_is_bound();
        } else {
            self.bind_ahead(dsn, dsn + len);
        }
        if self.unsent() == 0 && len < full() {
            self.short = self.nxt;
        }
    }

    #[inline]
    fn pass_what_is_bound(&mut self) {
        while let Some((from, to)) = self.ahead.front()
            && *from <= self.nxt
        {
            self.nxt = *to;
            self.ahead.pop_front();
        }
    }

    fn bind_ahead(&mut self, dsn: Dsn, end: Dsn) {
        let at = self.ahead.partition_point(|(from, _)| *from < dsn);
        match at.checked_sub(1).map(|before| &mut self.ahead[before].1) {
            Some(to) if *to == dsn => *to = end,
            _ => self.ahead.insert(at, (dsn, end)),
        }
    }

    /// `len` bytes were bound once more.
    pub(super) fn on_reinjected(&mut self, len: u64) {
        self.reinjected += len;
    }

    /// The push just made, if it was the only thing that any subflow had pending.
    #[inline]
    pub(super) fn set_pushed(&mut self, pushed: Option<(SubflowId, usize)>) {
        self.pushed = pushed;
    }

    #[inline]
    pub(super) fn take_pushed(&mut self) -> Option<(SubflowId, usize)> {
        self.pushed.take()
    }

    /// Data cannot leave. `short`: for want of window or space alone, so that it may after a while.
    pub(super) fn hold(&mut self, now: Instant, short: bool) {
        if !short {
            self.override_at = Instant::FAR_FUTURE;
        } else if self.override_at == Instant::FAR_FUTURE && !self.override_due {
            self.override_at = now + OVERRIDE;
        }
    }

    /// When `on_timeout` wants to be called.
    #[inline]
    pub(super) fn next_timeout(&self) -> Instant {
        self.override_at
    }

    /// What is short may leave, if it is time.
    pub(super) fn on_timeout(&mut self, now: Instant) {
        if self.override_at <= now {
            self.override_at = Instant::FAR_FUTURE;
            self.override_due = true;
        }
    }

    /// Which subflows probe the peer's window on our account.
    #[inline]
    pub(super) fn probing(&self) -> Probing {
        self.probing
    }

    pub(super) fn set_probing(&mut self, probing: Probing) {
        self.probing = probing;
    }

    // What the peer says.

    /// Where the peer's window ends, for the moment: nowhere in plain TCP, whose subflow obeys it.
    pub(super) fn limit_to(&mut self, edge: Dsn) {
        self.edge = edge;
    }

    /// A window, which a subflow obeys.
    #[inline]
    pub(super) fn on_window(&mut self, window: u64) {
        self.window_max = self.window_max.max(window);
    }

    /// A window that begins at `from`.
    #[inline]
    pub(super) fn on_window_from(&mut self, from: Dsn, window: u64) {
        self.on_window(window);
        self.edge = self.edge.max(from + window);
    }

    /// Whether everything before `to` has been sent, the DATA_FIN included.
    #[inline]
    pub(super) fn has_sent(&self, to: Dsn) -> bool {
        to <= self.nxt + u64::from(self.fin_sent)
    }

    /// Everything before `to` is acknowledged: how many bytes that is.
    #[inline]
    pub(super) fn acknowledge(&mut self, to: Dsn) -> u64 {
        let acked = to - self.buffer.una();
        self.acked += acked;
        self.buffer.acknowledge(to);
        acked
    }

    /// Whether there is space again after a write that was cut short: a quarter of the buffer.
    #[inline]
    pub(super) fn becomes_writable(&mut self, configured: u64) -> bool {
        let limit = configured.min(self.limit);
        let writable = self.short_write && self.buffer.len() <= limit - limit / 4;
        if writable {
            self.short_write = false;
        }
        writable
    }

    // The end.

    /// Whether the application has closed and everything has been bound, but for the end.
    #[inline]
    pub(super) fn is_end_due(&self) -> bool {
        self.closed && !self.fin_sent && self.unsent() == 0
    }

    /// The end leaves: DATA_FIN or FIN. Whether for the first time.
    pub(super) fn send_fin(&mut self) -> bool {
        !std::mem::replace(&mut self.fin_sent, true)
    }

    /// A DATA_FIN that has left means nothing: the FIN takes its place.
    pub(super) fn unsend_fin(&mut self) {
        self.fin_sent = false;
    }

    /// Whether an acknowledgement up to `to` covers our end.
    #[inline]
    pub(super) fn is_fin(&self, to: Dsn) -> bool {
        self.fin_sent && to > self.buffer.end()
    }

    /// Our end is acknowledged. Whether that is new.
    pub(super) fn on_fin_acked(&mut self) -> bool {
        !std::mem::replace(&mut self.fin_acked, true)
    }

    #[inline]
    pub(super) fn is_fin_acked(&self) -> bool {
        self.fin_acked
    }

    /// Whether everything has been acknowledged, and the end has been said.
    pub(super) fn is_through(&self) -> bool {
        self.fin_sent && self.buffer.una() == self.buffer.end()
    }

    /// The connection is over: nothing leaves any more.
    pub(super) fn clear(&mut self) {
        self.buffer.clear();
        self.nxt = self.buffer.end();
        self.unsent = 0;
        self.ahead.clear();
        self.override_at = Instant::FAR_FUTURE;
    }

    /// Asks for what an acknowledgement will need: see `cache.rs`.
    #[inline]
    pub(super) fn prefetch(&self) {
        self.buffer.prefetch();
    }
}

/// Data that is short only for want of window leaves after this long (RFC 9293 asks for 0.1 to
/// 1 s).
const OVERRIDE: Duration = Duration::from_millis(200);

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIGURED: u64 = 10_000;

    fn written(len: usize) -> Sender {
        let mut s = Sender::new();
        assert_eq!(s.write(&mut vec![7; len].into(), CONFIGURED), len);
        s
    }

    fn bind(s: &mut Sender, len: u64) {
        assert_eq!(s.slice(s.nxt(), len).len() as u64, len);
        s.on_bound(s.nxt(), len, || 1000);
    }

    /// RFC 9293 section 3.7.4: one short segment at a time, unless the application has closed.
    #[test]
    fn a_short_segment_waits_for_the_one_under_way() {
        let mut s = written(100);
        assert_eq!(s.next_len(1000, Nagle::On), Some(100));
        bind(&mut s, 100);
        s.write(&mut vec![7; 50].into(), CONFIGURED);
        assert_eq!((s.next_len(1000, Nagle::On), s.next_len(1000, Nagle::Off)), (None, Some(50)));
        assert_eq!((s.acknowledge(Dsn(101)), s.next_len(1000, Nagle::On)), (100, Some(50)));
        bind(&mut s, 50);
        s.write(&mut vec![7; 9].into(), CONFIGURED);
        assert_eq!(s.next_len(1000, Nagle::On), None);
        s.close();
        assert_eq!(s.next_len(1000, Nagle::On), Some(9));
    }

    /// RFC 9293 section 3.8.6.2.1: less than half the largest window is not worth a segment, until
    /// the override timeout.
    #[test]
    fn a_silly_window_is_not_filled_before_its_time() {
        let mut s = written(5000);
        s.limit_to(Dsn(1));
        assert_eq!(s.next_len(1000, Nagle::On), None, "no window");
        s.on_window_from(Dsn(1), 1800);
        assert_eq!(s.next_len(1000, Nagle::On), Some(1000));
        bind(&mut s, 1000);
        assert!(s.is_window_full(1000));
        assert_eq!(s.next_len(1000, Nagle::On), None, "800 of 1800");
        let now = Instant::ZERO;
        s.hold(now, true);
        assert_eq!(s.next_timeout(), now + OVERRIDE);
        s.on_timeout(now + OVERRIDE);
        assert_eq!(s.next_len(1000, Nagle::On), Some(800));
        bind(&mut s, 800);
        assert_eq!((s.allowed(), s.next_timeout()), (0, Instant::FAR_FUTURE));
    }

    #[test]
    fn a_cut_write_is_made_good_for_once() {
        let mut s = written(8000);
        assert_eq!((s.write(&mut vec![7; 3000].into(), CONFIGURED), s.was_short()), (2000, true));
        bind(&mut s, 10_000);
        s.acknowledge(Dsn(1001));
        assert!(!s.becomes_writable(CONFIGURED), "less than a quarter");
        s.acknowledge(Dsn(2501));
        assert!(s.becomes_writable(CONFIGURED) && !s.becomes_writable(CONFIGURED));
        assert_eq!(s.writable(CONFIGURED), 2500);
    }

    #[test]
    fn what_is_bound_ahead_is_passed_when_it_is_reached() {
        let mut s = written(9000);
        assert_eq!(s.beyond(3000, 1000), Some((Dsn(3001), 1000)));
        s.on_bound(Dsn(3001), 1000, || 1000);
        assert_eq!(s.beyond(3000, 1000), Some((Dsn(4001), 1000)), "the next beyond it");
        s.on_bound(Dsn(4001), 1000, || 1000);
        assert_eq!(s.beyond(2500, 1000), Some((Dsn(2501), 500)), "up to what is bound");
        assert_eq!((s.beyond(8500, 1000), s.beyond(9000, 1)), (Some((Dsn(8501), 500)), None));
        assert_eq!((s.unsent(), s.nxt()), (7000, Dsn(1)));
        assert_eq!((s.bound(Dsn(3501), 9000), s.bound(Dsn(1), 9000)), (1500, 0));
        assert_eq!(s.under_way().collect::<Vec<_>>(), [(Dsn(1), 0), (Dsn(3001), 2000)]);
        bind(&mut s, 2500);
        assert_eq!(s.next_len(1000, Nagle::On), Some(500), "up to what is bound");
        bind(&mut s, 500);
        assert_eq!((s.unsent(), s.nxt()), (4000, Dsn(5001)), "passed");
        s.limit_to(Dsn(7001));
        assert_eq!(s.beyond(1500, 1000), Some((Dsn(6501), 500)), "the window's end");
    }

    #[test]
    fn the_end_is_due_after_the_last_byte() {
        let mut s = written(10);
        s.close();
        assert!(!s.is_end_due());
        bind(&mut s, 10);
        assert!(s.is_end_due() && s.send_fin() && !s.send_fin() && !s.is_end_due());
        assert!(s.has_sent(Dsn(12)) && !s.has_sent(Dsn(13)));
        assert!(s.is_fin(Dsn(12)) && !s.is_fin(Dsn(11)) && !s.is_through());
        s.acknowledge(Dsn(11));
        assert!(s.is_through() && s.on_fin_acked() && !s.on_fin_acked());
    }
}
