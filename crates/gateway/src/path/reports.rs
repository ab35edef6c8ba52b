//! Reports: what both ends of a path tell each other of its packets, so that each has an
//! [`Estimate`] of both directions.
//!
//! A report is an ICMP echo reply (RFC 792, RFC 4443 section 4.2) that nobody asked for, inside the
//! tunnel, between the path's inner address and the server's service address: whoever does not know
//! it drops it. It is a *marker* of the direction that it travels, with its sender's clock and
//! counts, and *reports* the last marker of the other direction, as the sender reports and receiver
//! reports of RTCP (RFC 3550 section 6.4):
//!
//! ```text
//!  0        6     7   8       12       30      34             52          70
//!  | tabrep | ver | f | epoch | marker | epoch | marker heard | counts at it |
//! ```
//! A marker and counts are a time in microseconds, packets and bytes, 6 bytes each. Bit 0 of `f`:
//! the far end is asked for a report; bit 1: a marker was heard; bit 2: the report is wanted at
//! once. An *epoch* names one run of an end's counters.
//!
//! A marker is sent when [`INTERVAL`] has passed and [`WORTH`] bytes have been sent since the last,
//! so that it and its answer are at most 5 % of what they report (RFC 3550 section 6.2); not on the
//! heels of a packet, but at a time drawn before, so that they keep no step with what the tunnel
//! carries. [`TAIL`] follow when nothing has been sent for a while: what was lost last is counted,
//! and the path is seen empty. A report that is asked for goes with the next marker, or instead of
//! it. Where it is not known yet what a path carries, each [`HURRY_BYTES`] are worth a marker: a
//! sender that doubles in a round trip would fill a queue before the second of the usual markers is
//! back. An idle path sends none. Reports are sent only to an end that has said in a probe that it
//! knows them (`probe`), so that earlier versions never see one.
//!
//! The counts are those of the tunnel's session, of everything inside: WireGuard's own counter
//! would say the same of what was sent, but begins anew with each key. A state machine without I/O.

use super::estimate::{Estimate, Estimator, Reading, Sample};
use super::probe::Ends;
use std::net::IpAddr;
use tabane_engine::{Duration, Instant};
use tabane_wire::icmp::checksum;
use tabane_wire::ip::{IpHeader, protocol};

/// What a path's ends report to each other, and what follows from it.
#[derive(Debug)]
pub(crate) struct Reports {
    /// From here to there.
    from: IpAddr,
    to: IpAddr,
    /// The far end knows reports.
    known: bool,
    epoch: u32,
    far_epoch: Option<u32>,
    /// Made when there is something to put in.
    sending: Option<Box<Estimator>>,
    receiving: Option<Box<Estimator>>,
    /// The newest marker of the far end, and what had come before it.
    heard: Option<Sample>,
    /// When a report came of a marker of ours, and how long both were on the way.
    round_trip: Option<(Instant, Duration)>,
    /// The far end has asked for a report, and that soon.
    asked: bool,
    urged: bool,
    /// When the last report was sent, and how much had been sent then.
    sent_at: Option<Instant>,
    sent_bytes: u64,
    /// Not before then the next one.
    not_before: Instant,
    /// When the next marker is due, once enough has been sent.
    marker_at: Option<Instant>,
    /// Markers that still follow the load, what had been sent when it was looked at last, and
    /// since when that has been all.
    tail: u32,
    seen_bytes: u64,
    quiet_since: Instant,
    /// A marker is wanted of the path, busy or not.
    wanted: bool,
    /// Markers are frequent while much is sent.
    hurried: bool,
    /// Varies the intervals.
    dither: u32,
    news: News,
}

/// What the last reports have brought, for whoever else follows a path.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct News {
    /// A marker of ours, as the far end found it.
    pub(crate) sent: Option<Sample>,
    /// A marker of the far end.
    pub(crate) heard: Option<Sample>,
}

/// What a tunnel's session has counted.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Count {
    /// Inner packets.
    pub(crate) packets: u64,
    /// Their bytes.
    pub(crate) bytes: u64,
}

/// Between reports of a busy path, about.
pub(crate) const INTERVAL: Duration = Duration::from_millis(50);
/// Bytes that are worth a marker: it and its answer are at most a twentieth of them, RTCP's share
/// of a session.
const WORTH: u64 = 20 * 2 * LONGEST as u64;
/// In a hurry a report may follow the last one so soon, and a marker so many bytes: that adds 0.6 %
/// to them at most.
const HURRY: Duration = Duration::from_millis(5);
const HURRY_BYTES: u64 = 24_000;
/// A round trip that is longer ago says nothing about now.
const ROUND_TRIP_KEPT: Duration = Duration::from_secs(1);
/// Markers after a load, and the time between them; one after what was less, a call for instance.
const TAIL: u32 = 3;
const LOAD: u64 = 12_000;
const TAIL_INTERVAL: Duration = Duration::from_millis(100);

const MAGIC: &[u8; 6] = b"tabrep";
const VERSION: u8 = 1;
const ASKS: u8 = 1;
const HEARD: u8 = 2;
const URGES: u8 = 4;
/// Type, code, checksum, identifier, sequence number.
const ICMP: usize = 8;
const PAYLOAD: usize = 70;
/// Length of a report over IPv6, bytes.
const LONGEST: usize = 40 + ICMP + PAYLOAD;

impl Reports {
    /// Of a path that nothing is known of: at the client, or at the server if `serves`. `epoch`
    /// differs from that of every run of counters before.
    #[must_use]
    pub(crate) fn new(ends: Ends, serves: bool, epoch: u32) -> Self {
        let (from, to) = if serves { (ends.service, ends.path) } else { (ends.path, ends.service) };
        Self {
            from,
            to,
            known: false,
            epoch,
            far_epoch: None,
            sending: None,
            receiving: None,
            heard: None,
            round_trip: None,
            asked: false,
            urged: false,
            sent_at: None,
            sent_bytes: 0,
            not_before: Instant::ZERO,
            marker_at: None,
            tail: 0,
            seen_bytes: 0,
            quiet_since: Instant::ZERO,
            wanted: false,
            hurried: false,
            dither: epoch,
            news: News::default(),
        }
    }

    /// What is new since it was asked for last.
    pub(crate) fn take_news(&mut self) -> News {
        std::mem::take(&mut self.news)
    }

    /// A marker is sent soon, and a report asked for, although the path is idle: somebody has to
    /// know how long it is.
    pub(crate) fn ask(&mut self) {
        self.wanted = true;
    }

    /// While much is sent, markers are frequent from now on, or not any more.
    pub(crate) fn set_hurried(&mut self, hurried: bool) {
        self.hurried = hurried;
    }

    /// What is known of the direction from here.
    #[must_use]
    pub(crate) fn sending(&self, now: Instant) -> Estimate {
        self.sending.as_ref().map_or_else(Estimate::default, |sending| sending.estimate(now))
    }

    /// What is known of the direction to here.
    #[must_use]
    pub(crate) fn receiving(&self, now: Instant) -> Estimate {
        self.receiving.as_ref().map_or_else(Estimate::default, |known| known.estimate(now))
    }

    /// How long a marker of ours and its report were on the way lately.
    #[must_use]
    pub(crate) fn round_trip(&self, now: Instant) -> Option<Duration> {
        let lately = |(at, _): &(Instant, Duration)| now.saturating_since(*at) < ROUND_TRIP_KEPT;
        self.round_trip.filter(lately).map(|(_, took)| took)
    }

    /// Whether the far end knows reports, as its probes or answers say.
    pub(crate) fn set_known(&mut self, known: bool) {
        self.known = known;
    }

    /// Our counters begin anew.
    pub(crate) fn restart(&mut self) {
        self.epoch = self.epoch.wrapping_add(1);
        self.forget();
        (self.sent_bytes, self.seen_bytes) = (0, 0);
    }

    fn forget(&mut self) {
        for estimator in [&mut self.sending, &mut self.receiving].into_iter().flatten() {
            estimator.restart();
        }
        (self.heard, self.asked, self.urged, self.marker_at) = (None, false, false, None);
    }

    /// When the next report may be due, if nothing is sent until then; `None` for never.
    #[must_use]
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let answer = self.asked.then(|| self.answer_at());
        let due = [answer, self.marker_at, self.wanted_at(), self.tail_at()];
        due.into_iter().flatten().min().filter(|_| self.known)
    }

    /// When the next of the markers is due that follow a load.
    fn tail_at(&self) -> Option<Instant> {
        let last = self.sent_at.map_or(self.quiet_since, |at| at.max(self.quiet_since));
        (self.tail > 0).then_some(last + TAIL_INTERVAL)
    }

    /// When a marker is due that is wanted of the path: the first one at once.
    fn wanted_at(&self) -> Option<Instant> {
        let due = self.sent_at.map_or(self.not_before, |at| at + TAIL_INTERVAL);
        self.wanted.then_some(due)
    }

    /// When a report is due that was asked for.
    fn answer_at(&self) -> Instant {
        if self.urged { self.hurry_at() } else { self.not_before }
    }

    /// When a report may follow the last one in a hurry.
    fn hurry_at(&self) -> Instant {
        self.sent_at.map_or(Instant::ZERO, |at| at + HURRY)
    }

    /// A number from 0 to `below`.
    fn draw(&mut self, below: Duration) -> Duration {
        // Numerical Recipes' linear congruential generator: it need not be good.
        self.dither = self.dither.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        Duration((below.0 * u64::from(self.dither >> 16)) >> 16)
    }

    /// Writes the report that is due, if one is, and returns its length; `sent`: everything so far.
    /// To be asked whenever something was sent, and at [`Reports::poll_timeout`].
    pub(crate) fn poll(&mut self, now: Instant, sent: Count, buffer: &mut [u8]) -> Option<usize> {
        if !self.known {
            return None;
        }
        if sent.bytes != self.seen_bytes {
            (self.seen_bytes, self.quiet_since) = (sent.bytes, now);
        }
        let bytes = sent.bytes.saturating_sub(self.sent_bytes);
        let busy = bytes >= WORTH;
        let hurries = self.hurried && bytes >= HURRY_BYTES && self.hurry_at() <= now;
        if busy && self.marker_at.is_none() {
            let later = now + self.draw(INTERVAL / 2);
            self.marker_at = Some(later.max(self.not_before));
        }
        let is_due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        let trails = is_due(self.tail_at());
        let wanted = is_due(self.wanted_at());
        let answers = self.asked && self.answer_at() <= now;
        if !is_due(self.marker_at) && !trails && !wanted && !answers && !hurries {
            return None;
        }
        let asks = if busy || trails || wanted { ASKS } else { 0 };
        let urges = if hurries { URGES } else { 0 };
        let len = self.emit(now, sent, asks | urges, buffer)?;
        self.tail = match bytes {
            _ if !busy => self.tail - u32::from(trails),
            LOAD.. => TAIL,
            _ => 1,
        };
        (self.asked, self.urged, self.wanted, self.marker_at) = (false, false, false, None);
        self.sent_at = Some(now);
        // What the report itself adds is no load.
        self.sent_bytes = sent.bytes + len as u64;
        self.seen_bytes = self.sent_bytes;
        self.not_before = now + INTERVAL * 3 / 4 + self.draw(INTERVAL / 2);
        Some(len)
    }

    /// Takes a packet that came by the path, if it is a report; `received`: everything so far,
    /// this packet included.
    pub(crate) fn handle_packet(&mut self, now: Instant, packet: &[u8], received: Count) -> bool {
        let Some(report) = self.parse(packet) else { return false };
        if self.far_epoch.replace(report.epoch) != Some(report.epoch) {
            self.forget();
        }
        let received = Reading {
            at_us: now.0 / 1_000,
            packets: received.packets.saturating_sub(1),
            bytes: received.bytes.saturating_sub(packet.len() as u64),
        };
        let newer = self.heard.is_none_or(|heard| report.marker.at_us > heard.sent.at_us);
        if newer {
            let sample = Sample { sent: report.marker, received };
            self.heard = Some(sample);
            self.asked |= report.asks;
            self.urged |= report.urges;
            self.receiving.get_or_insert_default().handle_sample(now, sample);
            self.news.heard = Some(sample);
        }
        if let Some((epoch, sample)) = report.heard
            && epoch == self.epoch
        {
            self.sending.get_or_insert_default().handle_sample(now, sample);
            self.news.sent = Some(sample);
            // The far end has had it for a while (RFC 3550 section 6.4.1, DLSR).
            let kept = report.marker.at_us.checked_sub(sample.received.at_us);
            let took = kept.and_then(|us| (now.0 / 1_000).checked_sub(sample.sent.at_us + us));
            self.round_trip = took.map(|us| (now, Duration::from_micros(us)));
        }
        true
    }

    fn emit(&self, now: Instant, sent: Count, flags: u8, buffer: &mut [u8]) -> Option<usize> {
        let number = if self.to.is_ipv4() { protocol::ICMP } else { protocol::ICMPV6 };
        let header = IpHeader::new(self.from, self.to, number);
        let start = header.emit(buffer, ICMP + PAYLOAD).ok()?;
        let echo = buffer.get_mut(start..start + ICMP + PAYLOAD)?;
        echo.fill(0);
        echo[0] = if self.to.is_ipv4() { 0 } else { 129 };
        let payload = &mut echo[ICMP..];
        payload[..6].copy_from_slice(MAGIC);
        payload[6] = VERSION;
        payload[7] = flags;
        payload[8..12].copy_from_slice(&self.epoch.to_be_bytes());
        let marker = Reading { at_us: now.0 / 1_000, packets: sent.packets, bytes: sent.bytes };
        put(&mut payload[12..30], marker);
        if let (Some(sample), Some(epoch)) = (self.heard, self.far_epoch) {
            payload[7] |= HEARD;
            payload[30..34].copy_from_slice(&epoch.to_be_bytes());
            put(&mut payload[34..52], sample.sent);
            put(&mut payload[52..70], sample.received);
        }
        let sum = checksum(&header, echo);
        echo[2..4].copy_from_slice(&sum.to_be_bytes());
        Some(start + ICMP + PAYLOAD)
    }

    fn parse(&self, packet: &[u8]) -> Option<Report> {
        // This is asked of every packet, and nearly none is a report.
        let is_icmp = match packet.first().map(|byte| byte >> 4) {
            Some(4) => packet.get(9) == Some(&protocol::ICMP),
            Some(6) => packet.get(6) == Some(&protocol::ICMPV6),
            _ => false,
        };
        if !is_icmp || packet.len() > LONGEST {
            return None;
        }
        let (header, range) = IpHeader::parse(packet).ok()?;
        let echo = packet.get(range)?;
        let kind = if self.to.is_ipv4() { 0 } else { 129 };
        let fits = (header.src, header.dst) == (self.to, self.from)
            && echo.len() >= ICMP + PAYLOAD
            && echo[..2] == [kind, 0]
            && checksum(&header, echo) == 0;
        let payload = echo.get(ICMP..).filter(|_| fits)?;
        if payload[..6] != MAGIC[..] || payload[6] != VERSION {
            return None;
        }
        let epoch = |at: usize| {
            u32::from_be_bytes([payload[at], payload[at + 1], payload[at + 2], payload[at + 3]])
        };
        let sample = Sample { sent: take(&payload[34..52]), received: take(&payload[52..70]) };
        Some(Report {
            epoch: epoch(8),
            asks: payload[7] & ASKS != 0,
            urges: payload[7] & URGES != 0,
            marker: take(&payload[12..30]),
            heard: (payload[7] & HEARD != 0).then(|| (epoch(30), sample)),
        })
    }
}

/// What a report says.
struct Report {
    epoch: u32,
    asks: bool,
    urges: bool,
    marker: Reading,
    heard: Option<(u32, Sample)>,
}

/// Bytes of a number: enough for centuries of bytes and years of microseconds.
const NUMBER: usize = 6;

fn put(space: &mut [u8], reading: Reading) {
    let numbers = [reading.at_us, reading.packets, reading.bytes];
    for (space, number) in space.chunks_exact_mut(NUMBER).zip(numbers) {
        space.copy_from_slice(&number.to_be_bytes()[8 - NUMBER..]);
    }
}

fn take(space: &[u8]) -> Reading {
    let number = |at: usize| {
        let bytes = space.iter().skip(at * NUMBER).take(NUMBER);
        bytes.fold(0, |sum, byte| sum << 8 | u64::from(*byte))
    };
    Reading { at_us: number(0), packets: number(1), bytes: number(2) }
}

#[cfg(test)]
mod tests;
