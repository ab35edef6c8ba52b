//! Wireshark's classification of the packets of one TCP stream, label for label and number for
//! number as tshark 4.0 gives them with its default preferences; the module below has what newer
//! ones do otherwise.
//!
//! Each direction (`f` is that of the packet, `r` the other) remembers `next_seq`, the highest
//! sequence number after a segment; `last_ack` and `window` of its latest packet, data or not;
//! `max_acked`, up to where its peer may acknowledge without having seen what the capture has
//! not; and how many duplicate ACKs there were. All comparisons are modulo 2^32, all numbers
//! those of the header (window unscaled), and 0 stands for "not known", as in Wireshark. Every
//! label is decided with the state before the packet. In this order:
//!
//! - *zero window probe*: one byte at `f.next_seq` while `r.window` is 0. No other label until
//!   "ACKed unseen segment".
//! - *zero window*: window 0; no SYN, FIN, RST.
//! - *previous segment not captured*: beyond `f.next_seq`; no RST.
//! - *keep-alive*: at most one byte, at `f.next_seq - 1`; no SYN, FIN, RST.
//! - *window update*: repeats sequence and ACK number, but not the window.
//! - *window full*: data that ends at `r.last_ack` + scaled `r.window`.
//! - *keep-alive ACK, zero window probe ACK*: repeats all three right after one.
//! - *duplicate ACK*: repeats all three, no data; for MPTCP see below.
//! - *ACKed unseen segment*: acknowledges beyond `r.max_acked`.
//! - *spurious retransmission*: data that ends at or before `r.last_ack`.
//! - *fast retransmission*: repeats, starts at `r.last_ack`, at least two duplicate ACKs, less
//!   than 20 ms after the last of them.
//! - *out of order*: repeats, within the initial RTT (3 ms if unknown) of `f.next_seq`'s time,
//!   and does not end there.
//! - *retransmission*: repeats, otherwise.
//!
//! MPTCP: a would-be duplicate ACK is let pass if its connection has, since this direction's
//! packet before it, used an option subtype for the first time. Initial RTT: from the latest SYN
//! to the first ACK without SYN.

mod recent;

use super::labels::{Label, Labels};
use recent::Extra;
use tabane_wire::{Flags, Headers};

/// State of one stream.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Classifier {
    ends: [End; 2],
    /// What only the newer rules look at.
    extras: Option<Box<[Extra; 2]>>,
    /// Time of the latest SYN without ACK, 0 if none was seen.
    syn: u64,
    /// Initial RTT, 0 if unknown; wraps below zero where time runs backwards.
    initial_rtt: u64,
}

/// Whose labels are given.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Rules {
    /// Those of tshark 4.0 (Debian 12), compared with it label by label.
    #[default]
    Tshark40,
    /// Those of Wireshark since 4.2, after its source; not compared with one.
    Recent,
}

impl Rules {
    /// Name in files and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tshark40 => "4.0",
            Self::Recent => "4.2",
        }
    }
}

/// What a packet was labelled.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Verdict {
    pub labels: Labels,
    /// Of a duplicate ACK, its number (`tcp.analysis.duplicate_ack_num`).
    pub duplicate_ack: u32,
}

/// Which end sent a packet: 0 or 1.
pub type Side = usize;

/// State of one direction.
#[derive(Clone, PartialEq, Eq, Debug)]
struct End {
    next_seq: u32,
    /// When `next_seq` last moved.
    next_seq_at: u64,
    last_ack: u32,
    last_ack_at: u64,
    /// Of its latest packet, unscaled; more than 16 bits before there was one.
    window: u32,
    /// Wireshark counts unsigned and down to "-1", which then is more than two.
    duplicates: u32,
    max_acked: u32,
    /// Labels of its latest packet.
    last: Labels,
    scale: Scale,
    /// It has sent a SYN and no ACK without SYN since: its window is not scaled yet.
    opening: bool,
    base: Option<u32>,
    /// Option subtypes that its connection had used when it last sent.
    operations: u16,
}

/// Window scaling of one direction.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum Scale {
    /// The handshake was not seen.
    #[default]
    Unknown,
    None,
    /// Left shift.
    By(u8),
}

impl Default for End {
    fn default() -> Self {
        Self {
            next_seq: 0,
            next_seq_at: 0,
            last_ack: 0,
            last_ack_at: 0,
            window: u32::MAX,
            duplicates: 0,
            max_acked: 0,
            last: Labels::NONE,
            scale: Scale::Unknown,
            opening: false,
            base: None,
            operations: 0,
        }
    }
}

/// What is looked at of a packet, in Wireshark's terms.
#[derive(Clone, Copy)]
struct Packet {
    time: u64,
    seq: u32,
    ack: u32,
    len: u32,
    window: u32,
    flags: Flags,
    /// SYN, FIN or RST.
    control: bool,
    /// 1 for SYN or FIN.
    one: u32,
}

const NEVER_SCALED: u8 = 0;
const FAST: u64 = 20_000_000;
const REORDERED: u64 = 3_000_000;

impl Classifier {
    /// Knows nothing of its stream yet.
    pub fn new(rules: Rules) -> Self {
        let extras = (rules == Rules::Recent).then(Box::default);
        Self { extras, ..Self::default() }
    }

    /// Whether this packet opens another stream between the same two ends: a SYN with another
    /// sequence number than the stream has.
    #[inline]
    pub fn is_new_stream(&self, side: Side, headers: &Headers) -> bool {
        is_syn(headers.flags) && self.ends[side].base.is_some_and(|base| base != headers.seq.0)
    }

    /// Labels a packet of `side` that passed at `time`, in nanoseconds since the Unix epoch (0
    /// counts as unknown). `operations`: the option subtypes, as bits, that its MPTCP connection
    /// has used before this packet; `None` if it is not known to be of one.
    #[inline]
    pub fn packet(
        &mut self,
        side: Side,
        time: u64,
        headers: &Headers,
        operations: Option<u16>,
    ) -> Verdict {
        let p = Packet::new(time, headers);
        self.note_bases(side, &p);
        let verdict = match self.extras.take() {
            None => self.label(side, &p, operations),
            Some(mut extras) => {
                let verdict = self.label_recently(&mut extras, side, &p, headers, operations);
                self.extras = Some(extras);
                verdict
            }
        };
        self.handshake(side, &p, headers);
        verdict
    }

    #[inline]
    fn label(&mut self, side: Side, p: &Packet, operations: Option<u16>) -> Verdict {
        let (f, r) = pair(&mut self.ends, side);
        let mut verdict = Verdict::default();
        if p.len == 1 && p.seq == f.next_seq && r.window == 0 {
            verdict.labels |= Label::ZeroWindowProbe;
        } else {
            verdict.labels = f.window_labels(r, p);
            f.repeats(r, p, operations, &mut verdict);
        }
        if p.ack != f.last_ack {
            f.duplicates = 0;
        }
        if r.is_acked_unseen(p) {
            verdict.labels |= Label::AckLostSegment;
        }
        let repeats = f.next_seq != 0 && before(p.seq, f.next_seq);
        if (p.len > 0 || p.one == 1) && !verdict.labels.contains(Label::KeepAlive) {
            let threshold = if self.initial_rtt == 0 { REORDERED } else { self.initial_rtt };
            // One byte before `next_seq` may have been a zero window probe.
            let repeats = repeats && !(p.len > 1 && p.seq == f.next_seq.wrapping_sub(1));
            if let Some(label) = f.sent_again(r, p, repeats, threshold) {
                verdict.labels |= label;
            }
        }
        f.remember(p, verdict.labels, operations);
        verdict
    }

    /// Initial RTT in nanoseconds, from SYN to the ACK that ends the handshake, if both were seen.
    pub fn initial_rtt(&self) -> Option<u64> {
        (self.initial_rtt != 0 && self.initial_rtt as i64 > 0).then_some(self.initial_rtt)
    }

    /// What the window field of `side` must be shifted by.
    pub fn shift(&self, side: Side) -> u8 {
        let end = &self.ends[side];
        if end.opening { NEVER_SCALED } else { end.scale.shift() }
    }

    /// Whether the handshake told how windows of `side` are scaled.
    pub fn knows_scale(&self, side: Side) -> bool {
        self.ends[side].scale != Scale::Unknown
    }

    #[inline]
    fn note_bases(&mut self, side: Side, p: &Packet) {
        let (f, r) = pair(&mut self.ends, side);
        if let Some(base) = f.base {
            if is_syn(p.flags) && base == p.seq {
                f.next_seq = f.max_acked;
            }
        } else {
            let syn = p.flags.contains(Flags::SYN);
            f.base = Some(p.seq.wrapping_sub(u32::from(!syn)));
        }
        if r.base.is_none() && p.flags.contains(Flags::ACK) {
            r.base = Some(p.ack.wrapping_sub(1));
        }
    }

    /// What the handshake tells, which counts from the next packet on.
    #[inline]
    fn handshake(&mut self, side: Side, p: &Packet, headers: &Headers) {
        let (syn, ack) = (p.flags.contains(Flags::SYN), p.flags.contains(Flags::ACK));
        if !syn {
            if ack {
                self.ends[side].opening = false;
                if self.initial_rtt == 0 && self.syn != 0 {
                    self.initial_rtt = p.time.wrapping_sub(self.syn);
                }
            }
            return;
        }
        if !ack {
            self.syn = p.time;
        }
        let (f, r) = pair(&mut self.ends, side);
        f.opening = true;
        if let Some(shift) = headers.options.window_scale {
            f.scale = Scale::By(shift);
        }
        if f.scale == Scale::Unknown {
            (f.scale, r.scale) = (Scale::None, Scale::None);
        } else if ack && r.scale == Scale::None {
            f.scale = Scale::None;
        }
    }
}

impl End {
    /// Labels that are about windows, holes and keep-alives.
    #[inline]
    fn window_labels(&self, r: &Self, p: &Packet) -> Labels {
        let mut labels = Labels::NONE;
        if p.window == 0 && !p.control {
            labels |= Label::ZeroWindow;
        }
        if self.next_seq != 0 && before(self.next_seq, p.seq) && !p.flags.contains(Flags::RST) {
            labels |= Label::LostSegment;
        }
        if p.len <= 1 && p.seq == self.next_seq.wrapping_sub(1) && !p.control {
            labels |= Label::KeepAlive;
        }
        if self.is_same(p) && p.window != 0 && p.window != self.window {
            labels |= Label::WindowUpdate;
        }
        if p.len > 0 && r.scale != Scale::Unknown && !p.control {
            let shift = if r.opening { NEVER_SCALED } else { r.scale.shift() };
            let edge = r.last_ack.wrapping_add(r.window.wrapping_shl(shift.into()));
            if p.end() == edge {
                labels |= Label::WindowFull;
            }
        }
        labels
    }

    /// Whether the packet repeats sequence and ACK number, without data.
    #[inline]
    fn is_same(&self, p: &Packet) -> bool {
        p.len == 0 && p.seq == self.next_seq && p.ack == self.last_ack && !p.control
    }

    /// Answers to probes, and duplicate ACKs.
    #[inline]
    fn repeats(&mut self, r: &Self, p: &Packet, operations: Option<u16>, verdict: &mut Verdict) {
        if !self.is_same(p) || p.window != self.window {
            return;
        }
        if p.window != 0 && r.last.contains(Label::KeepAlive) {
            verdict.labels |= Label::KeepAliveAck;
        } else if p.window == 0 {
            if r.last.contains(Label::ZeroWindowProbe) {
                verdict.labels |= Label::ZeroWindowProbeAck;
            }
        } else if operations.is_none_or(|known| known == self.operations) {
            self.duplicates = if self.duplicates == u32::MAX { 1 } else { self.duplicates + 1 };
            verdict.duplicate_ack = self.duplicates;
            verdict.labels |= Label::DuplicateAck;
        }
    }

    /// Whether a packet of the peer acknowledges what this end was not seen to send.
    #[inline]
    fn is_acked_unseen(&mut self, p: &Packet) -> bool {
        if self.max_acked == 0 || !before(self.max_acked, p.ack) || !p.flags.contains(Flags::ACK) {
            return false;
        }
        if before(self.max_acked, self.next_seq) {
            self.max_acked = self.next_seq;
            return true;
        }
        let first = self.duplicates == 0;
        self.duplicates = u32::MAX;
        first
    }

    #[inline]
    fn sent_again(&self, r: &Self, p: &Packet, repeats: bool, threshold: u64) -> Option<Label> {
        if p.len > 0 && r.last_ack != 0 && p.end().wrapping_sub(r.last_ack) as i32 <= 0 {
            return Some(Label::SpuriousRetransmission);
        }
        if !repeats {
            return None;
        }
        // Times that run backwards give huge differences, in Wireshark too.
        let since_ack = p.time.wrapping_sub(r.last_ack_at);
        if r.duplicates >= 2 && p.seq == r.last_ack && since_ack < FAST {
            return Some(Label::FastRetransmission);
        }
        let since_next = p.time.wrapping_sub(self.next_seq_at);
        if since_next < threshold && self.next_seq != p.end().wrapping_add(p.one) {
            return Some(Label::OutOfOrder);
        }
        Some(Label::Retransmission)
    }

    #[inline]
    fn remember(&mut self, p: &Packet, labels: Labels, operations: Option<u16>) {
        let next = p.end().wrapping_add(p.one);
        if !labels.contains(Label::ZeroWindowProbe) {
            if self.next_seq == 0 || before(self.next_seq, next) {
                self.next_seq = next;
                self.next_seq_at = p.time;
            }
            if self.max_acked == 0 || p.seq == self.max_acked {
                self.max_acked = self.next_seq;
            }
        }
        if let Some(operations) = operations {
            self.operations = operations;
        }
        self.window = p.window;
        self.last_ack = p.ack;
        self.last_ack_at = p.time;
        self.last = labels;
    }
}

impl Scale {
    fn shift(self) -> u8 {
        match self {
            Self::By(shift) => shift,
            Self::Unknown | Self::None => NEVER_SCALED,
        }
    }
}

impl Packet {
    #[inline]
    fn new(time: u64, headers: &Headers) -> Self {
        let flags = headers.flags;
        Self {
            time,
            seq: headers.seq.0,
            ack: headers.ack.0,
            len: headers.payload_len,
            window: headers.window.into(),
            flags,
            control: flags.intersects(Flags::SYN | Flags::FIN | Flags::RST),
            one: flags.intersects(Flags::SYN | Flags::FIN).into(),
        }
    }

    /// After its last byte, SYN and FIN not counted.
    #[inline]
    fn end(&self) -> u32 {
        self.seq.wrapping_add(self.len)
    }
}

fn is_syn(flags: Flags) -> bool {
    flags.contains(Flags::SYN) && !flags.contains(Flags::ACK)
}

/// Whether `a` comes before `b`.
#[inline]
fn before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

#[inline]
fn pair(ends: &mut [End; 2], side: Side) -> (&mut End, &mut End) {
    let [a, b] = ends;
    if side == 0 { (a, b) } else { (b, a) }
}
