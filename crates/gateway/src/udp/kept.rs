//! The packets of all protected flows of an end, as they left: what the far end asks for is sent
//! again from here. One store, so that its bounds hold for a client, however many flows it has.

use std::collections::VecDeque;
use tabane_engine::{Duration, Instant};

/// A packet's place in the order of sending.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct KeptId(u64);

/// The store.
#[derive(Default, Debug)]
pub(super) struct Kept {
    packets: VecDeque<(Instant, Vec<u8>)>,
    /// The place of the oldest.
    first: u64,
    bytes: usize,
}

/// What is older is of no use to a call.
pub(super) const KEPT: Duration = Duration::from_millis(400);
/// All packets of that time at 20 Mbit/s: five calls of video in high definition.
const BYTES_MAX: usize = 1 << 20;

impl Kept {
    /// Keeps a packet that leaves.
    pub(super) fn push(&mut self, now: Instant, packet: &[u8]) -> KeptId {
        self.packets.push_back((now, packet.to_vec()));
        self.bytes += packet.len();
        while self.bytes > BYTES_MAX {
            self.pop();
        }
        self.expire(now);
        KeptId(self.first + self.packets.len() as u64 - 1)
    }

    /// A packet, if it is still kept.
    pub(super) fn get(&self, id: KeptId) -> Option<&[u8]> {
        let at = id.0.checked_sub(self.first)?;
        let (_, packet) = self.packets.get(usize::try_from(at).ok()?)?;
        Some(packet)
    }

    /// Forgets what is too old.
    pub(super) fn expire(&mut self, now: Instant) {
        while self.packets.front().is_some_and(|(at, _)| now.saturating_since(*at) > KEPT) {
            self.pop();
        }
        if self.packets.is_empty() {
            self.packets.shrink_to(64);
        }
    }

    /// When all of it is too old: whoever falls silent leaves nothing behind.
    pub(super) fn timeout(&self) -> Option<Instant> {
        self.packets.back().map(|(at, _)| *at + KEPT + Duration(1))
    }

    fn pop(&mut self) {
        if let Some((_, packet)) = self.packets.pop_front() {
            self.bytes -= packet.len();
            self.first += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_bounds_hold_for_all_flows_together_and_silence_empties_it() {
        let mut kept = Kept::default();
        let packet = |n: u64| (n as u32).to_be_bytes().repeat(300);
        let mut ids = Vec::new();
        for n in 0..10_000 {
            ids.push(kept.push(Instant::ZERO, &packet(n)));
            assert!(kept.bytes <= BYTES_MAX);
        }
        let held = BYTES_MAX / 1200;
        assert_eq!(kept.packets.len(), held);
        assert_eq!(kept.get(ids[9_999]), Some(&packet(9_999)[..]));
        assert_eq!(kept.get(ids[10_000 - held]), Some(&packet(10_000 - held as u64)[..]));
        assert_eq!(kept.get(ids[10_000 - held - 1]), None);
        let later = Instant::ZERO + KEPT / 2;
        let newest = kept.push(later, &packet(1));
        let due = kept.timeout().unwrap();
        kept.expire(Instant::ZERO + KEPT + Duration(1));
        assert_eq!(kept.get(newest), Some(&packet(1)[..]));
        assert_eq!((kept.packets.len(), kept.bytes), (1, 1200));
        kept.expire(due);
        assert_eq!((kept.packets.len(), kept.bytes, kept.timeout()), (0, 0, None));
        assert_eq!(kept.get(newest), None);
    }
}
