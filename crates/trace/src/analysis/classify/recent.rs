//! What Wireshark since 4.2 does otherwise than 4.0, after the source of its development branch.
//! No such tshark was at hand to compare with: what is here is as read, not as measured.
//!
//! - The time that tells fast retransmissions and disorder from others is that since the peer's
//!   last packet, and never negative.
//! - A segment that was seen and waits to be acknowledged is a retransmission, never out of order.
//!   One that closes a hole up to `next_seq` may be out of order if the packet that last moved
//!   `next_seq` carried no data.
//! - A fast retransmission is also one that starts at the peer's ACK while it has SACKed more than
//!   two segments, or one that is in none of its SACK blocks after two duplicate ACKs.
//! - A window update with SACK is a duplicate ACK, and so is an ACK without another label that
//!   brings a new SACK block (D-SACK excepted), as number 1.
//! - The byte of a zero window probe may be acknowledged.
//! - Duplicate ACKs are counted plainly, and a packet that acknowledges unseen data moves the mark
//!   past all that is contiguous there.

use super::{Classifier, End, FAST, Packet, REORDERED, Side, Verdict, before, pair};
use crate::analysis::labels::{Label, Labels};
use tabane_wire::{Flags, Headers, SackBlocks};

/// What one direction remembers beside [`End`].
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Extra {
    /// Segments not acknowledged: start and end, oldest first.
    segments: Vec<(u32, u32)>,
    /// Of its latest packet with SACK.
    sack: SackBlocks,
    mss: u32,
    /// Payload of the packet that last moved `next_seq`.
    last_len: u32,
}

/// Segments that Wireshark keeps of a direction; further ones are not remembered.
const SEGMENTS: usize = 10_000;

impl Classifier {
    /// Labels by the newer rules.
    pub(super) fn label_recently(
        &mut self,
        extras: &mut [Extra; 2],
        side: Side,
        p: &Packet,
        headers: &Headers,
        operations: Option<u16>,
    ) -> Verdict {
        let (f, r) = pair(&mut self.ends, side);
        let (own, peer) = {
            let [a, b] = extras;
            if side == 0 { (a, b) } else { (b, a) }
        };
        let mut verdict = Verdict::default();
        if p.len == 1 && p.seq == f.next_seq && r.window == 0 {
            verdict.labels |= Label::ZeroWindowProbe;
        } else {
            verdict.labels = f.window_labels(r, p);
            f.repeats_recently(r, p, operations, &mut verdict);
        }
        if p.ack != f.last_ack {
            f.duplicates = 0;
        }
        if let Some(label) = acked_unseen(f, r, peer, p) {
            verdict.labels |= label;
        }
        if (p.len > 0 || p.one == 1) && !verdict.labels.contains(Label::KeepAlive) {
            let threshold = if self.initial_rtt == 0 { REORDERED } else { self.initial_rtt };
            if let Some(label) = sent_again(f, own, r, peer, p, threshold) {
                verdict.labels |= label;
            }
        }
        own.sent(f, p);
        f.remember(p, verdict.labels, operations);
        peer.acknowledged(p.ack);
        late_duplicate(f, own, p, headers, operations, &mut verdict);
        if let Some(mss) = headers.options.mss {
            own.mss = mss.into();
        }
        verdict
    }
}

impl End {
    fn repeats_recently(
        &mut self,
        r: &mut Self,
        p: &Packet,
        operations: Option<u16>,
        verdict: &mut Verdict,
    ) {
        if p.len > 0 || p.seq != self.next_seq || p.control || p.window != self.window {
            return;
        }
        let same = p.ack == self.last_ack;
        let one_more = p.ack == self.last_ack.wrapping_add(1);
        let probed = r.last.contains(Label::ZeroWindowProbe);
        if p.window != 0 && same && r.last.contains(Label::KeepAlive) {
            verdict.labels |= Label::KeepAliveAck;
        } else if p.window == 0 && (same || one_more) && probed {
            verdict.labels |= Label::ZeroWindowProbeAck;
            if one_more {
                (r.next_seq, r.max_acked) = (p.ack, p.ack);
            }
        } else if p.window != 0 && same && operations.is_none_or(|o| o == self.operations) {
            self.duplicates = self.duplicates.wrapping_add(1);
            verdict.duplicate_ack = self.duplicates;
            verdict.labels |= Label::DuplicateAck;
        }
    }
}

impl Extra {
    fn sent(&mut self, f: &End, p: &Packet) {
        let next = p.end().wrapping_add(p.one);
        if next != p.seq && self.segments.len() < SEGMENTS {
            self.segments.push((p.seq, next));
        }
        if f.next_seq == 0 || before(f.next_seq.wrapping_add(p.one), next) {
            self.last_len = p.len;
        }
    }

    fn acknowledged(&mut self, ack: u32) {
        self.segments.retain_mut(|(start, end)| {
            if !before(ack, *end) {
                return false;
            }
            if before(*start, ack) {
                *start = ack;
            }
            true
        });
    }

    /// Whether a segment lies in one that was seen.
    fn has_seen(&self, p: &Packet) -> bool {
        self.segments.iter().any(|(start, end)| !before(p.seq, *start) && !before(*end, p.end()))
    }

    fn is_in(block: &(tabane_wire::SeqNum, tabane_wire::SeqNum), p: &Packet) -> bool {
        !before(p.seq, block.0.0) && !before(block.1.0, p.end())
    }
}

/// As in 4.0, but the ACK that follows a zero window probe is a window update, and the mark goes
/// past what is contiguous above the ACK.
fn acked_unseen(f: &End, r: &mut End, peer: &Extra, p: &Packet) -> Option<Label> {
    if r.max_acked == 0 || !before(r.max_acked, p.ack) || !p.flags.contains(Flags::ACK) {
        return None;
    }
    let probed = r.last.contains(Label::ZeroWindowProbe);
    if p.ack == f.last_ack.wrapping_add(1) && p.seq == f.next_seq && probed {
        (r.next_seq, r.max_acked) = (p.ack, p.ack);
        return Some(Label::WindowUpdate);
    }
    let mut tail = None;
    for &(start, end) in peer.segments.iter().rev() {
        let (low, high) = tail.unwrap_or((start, end));
        tail = Some(match before(start, p.ack) {
            true => (low, high),
            false if end == low => (start, high),
            false => (start, end),
        });
    }
    r.max_acked = match tail {
        Some((low, high)) if low == p.ack && before(p.ack, high) => high,
        _ => p.ack,
    };
    Some(Label::AckLostSegment)
}

fn sent_again(
    f: &End,
    own: &Extra,
    r: &End,
    peer: &Extra,
    p: &Packet,
    threshold: u64,
) -> Option<Label> {
    let known = f.next_seq != 0 && before(p.seq, f.next_seq);
    let repeats = known && !(p.len > 1 && p.seq == f.next_seq.wrapping_sub(1));
    if p.len > 0 && r.last_ack != 0 && p.end().wrapping_sub(r.last_ack) as i32 <= 0 {
        return Some(Label::SpuriousRetransmission);
    }
    if !repeats {
        return None;
    }
    let since = p.time.saturating_sub(r.last_ack_at);
    let blocks = peer.sack.as_slice();
    if since < FAST {
        let asked = r.last_ack == p.seq;
        let many = r.duplicates >= 2;
        let sacked: u64 = blocks.iter().map(|b| u64::from(b.1.0.wrapping_sub(b.0.0))).sum();
        let in_all = blocks.iter().all(|block| Extra::is_in(block, p));
        let in_any = blocks.iter().any(|block| Extra::is_in(block, p));
        let by_sack = !blocks.is_empty()
            && ((asked && !in_all && sacked > 2 * u64::from(peer.mss)) || (many && !in_any));
        if (many && asked) || by_sack {
            return Some(Label::FastRetransmission);
        }
    }
    let closes = f.next_seq == p.end().wrapping_add(p.one);
    if since < threshold && !own.has_seen(p) && (!closes || own.last_len == 0) {
        return Some(Label::OutOfOrder);
    }
    Some(Label::Retransmission)
}

/// What the SACK option, which is read after everything else, makes of an ACK.
fn late_duplicate(
    f: &mut End,
    own: &mut Extra,
    p: &Packet,
    headers: &Headers,
    operations: Option<u16>,
    verdict: &mut Verdict,
) {
    let sack = headers.options.sack;
    if sack.is_empty() {
        return;
    }
    let before_it = std::mem::replace(&mut own.sack, sack);
    if verdict.labels.contains(Label::WindowUpdate)
        && operations.is_none_or(|known| known == f.operations)
    {
        f.duplicates = f.duplicates.wrapping_add(1);
        verdict.duplicate_ack = f.duplicates;
        let kept = verdict.labels.iter().filter(|label| *label != Label::WindowUpdate);
        verdict.labels = kept.fold(Labels::NONE, |all, label| all | label) | Label::DuplicateAck;
    }
    let blocks = sack.as_slice();
    let inside_second = blocks.len() > 1
        && before(blocks[1].0.0, blocks[0].1.0)
        && !before(blocks[1].1.0, blocks[0].1.0);
    let is_doubled = !before(p.ack, blocks[0].1.0) || inside_second;
    let is_new = blocks.iter().any(|block| !before_it.as_slice().contains(block));
    if !is_doubled && is_new && verdict.labels.is_empty() && !p.control {
        f.duplicates = 1;
        verdict.duplicate_ack = 1;
        verdict.labels |= Label::DuplicateAck;
    }
}
