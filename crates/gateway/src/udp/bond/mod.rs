//! Datagrams spread over the paths of a bond by the time at which each would deliver them.
//!
//! A packet is bound to the path that would have it at the far end first: what is bound to that
//! path already and not through its bottleneck yet, divided by the capacity, and the one-way
//! delay. So a flow stays on the best path until that has a queue which is longer than the way by
//! another is; from then on both have packets arrive at about the same time, in proportion to what
//! they carry, and nearly in order. (Delay-aware spreading as in ECF, Lim et al., CoNEXT 2017, by
//! packets that cannot wait for acknowledgements.)
//!
//! What is bound waits here, not in a modem: no more leaves than what lets the bottleneck's queue
//! stand at some ten milliseconds (`path_queue`). When everything waits for too long, packets are
//! dropped before they have a number (`aqm`): to a QUIC sender the bond is one link with a short
//! queue.
//!
//! What is not known does no harm: a path whose capacity was never seen takes what comes, and its
//! measured queue counts; a path of which no marker has come back takes nothing, and while that is
//! true of all, the caller's best path is used.
//!
//! A state machine without I/O.

mod aqm;
mod gauge;
mod path_queue;

use crate::address::PATHS_MAX;
use crate::path::{Reading, Sample};
use aqm::Aqm;
use gauge::OUTER;
pub(crate) use gauge::one_way;
use path_queue::PathQueue;
use std::collections::VecDeque;
use tabane_engine::view::{PathId, PathSet};
use tabane_engine::{Duration, Instant};

/// One direction of one bond.
#[derive(Default, Debug)]
pub(crate) struct Spreader {
    path_queues: [PathQueue; PATHS_MAX],
    aqm: Aqm,
    counters: Counters,
}

/// What happened, since the start.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Counters {
    /// Packets that waited here for a path.
    pub(crate) queued: u64,
    /// Packets dropped, since all paths have had too much for too long.
    pub(crate) dropped: u64,
    /// Packets that were bound to a path which failed, and went by another.
    pub(crate) moved: u64,
}

/// What has become of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Bound {
    /// It is to leave now.
    Now,
    /// A copy of it waits: [`Spreader::poll_transmit`].
    Queued,
}

/// A path that takes so much longer than the best one takes no part: its share would cost all
/// others that delay. What interactive use bears is 150 ms one way (ITU-T G.114), of which a path
/// of a usual length leaves this.
const SKEW_MAX: i64 = 100_000_000;
/// A flow stays on its path while another would be quicker by less: order costs less then.
const STICKY: i64 = 1_000_000;
/// What waits longer is dropped whatever the AQM says. A sender that doubles in a round trip is
/// stopped by that.
const WAIT_MAX: Duration = Duration::from_millis(200);
/// Bytes that wait for all paths.
const QUEUED_MAX: usize = 16 << 20;

impl Spreader {
    /// The paths that may take part now, and what the counters of each say it has sent in all.
    pub(crate) fn set_paths(
        &mut self,
        now: Instant,
        paths: impl Iterator<Item = (PathId, bool, Reading)>,
    ) {
        let mut seen = [false; PATHS_MAX];
        for (id, usable, sent) in paths {
            let at = usize::from(id.0);
            let Some(path_queue) = self.path_queues.get_mut(at) else { continue };
            (path_queue.usable, seen[at]) = (usable, true);
            path_queue.set_counters(now, sent);
        }
        for (path_queue, seen) in self.path_queues.iter_mut().zip(seen) {
            path_queue.usable &= seen;
        }
        self.move_from_failed(now);
    }

    /// News of a marker that had left by `path`; `capacity` is what a slower and surer estimate
    /// says, bits per second of inner packets, which counts until there is one here.
    pub(crate) fn handle_sample(
        &mut self,
        now: Instant,
        path: PathId,
        sample: Sample,
        capacity: Option<u64>,
    ) {
        if let Some(path_queue) = self.path_queues.get_mut(usize::from(path.0)) {
            if let Some(bps) = capacity {
                path_queue.gauge.hint(bps as f64);
            }
            path_queue.handle_sample(now, sample);
        }
    }

    /// The path that delivers a packet of `len` first, but for `not`; `None` if none is known.
    /// `last` is the one that its flow took before; `express` if it overtakes what waits.
    pub(crate) fn choose(
        &self,
        now: Instant,
        (last, not): (Option<PathId>, PathSet),
        len: usize,
        express: bool,
    ) -> Option<PathId> {
        let bytes = len + OUTER;
        let time = |(id, path_queue): (PathId, &PathQueue)| {
            Some((path_queue.delivery(now, bytes, express)?, id)).filter(|_| !not.contains(id))
        };
        let (least, best) = self.eligible().filter_map(time).min()?;
        let stays =
            last.and_then(|last| self.eligible().filter(|(id, _)| *id == last).find_map(time));
        match stays {
            Some((time, id)) if time - least < STICKY => Some(id),
            _ => Some(best),
        }
    }

    /// Whether there is room for one packet more. Ask before it has its number.
    pub(crate) fn admit(&mut self, now: Instant, len: usize) -> bool {
        let speaks = self.eligible().filter(|(_, path_queue)| path_queue.silence(now).is_zero());
        let wait = speaks.map(|(_, path_queue)| path_queue.standing(now)).min().unwrap_or_default();
        let queued: usize = self.path_queues.iter().map(PathQueue::queued).sum();
        let feedback = self.eligible().map(|(_, path_queue)| path_queue.gauge.feedback()).max();
        let full = wait > WAIT_MAX || queued + len > QUEUED_MAX;
        let drops = full || self.aqm.drops(now, wait, feedback.unwrap_or_default());
        self.counters.dropped += u64::from(drops);
        !drops
    }

    /// Binds a packet to a path.
    pub(crate) fn bind(
        &mut self,
        now: Instant,
        path: PathId,
        express: bool,
        packet: &[u8],
    ) -> Bound {
        let Some(path_queue) = self.path_queues.get_mut(usize::from(path.0)) else {
            return Bound::Now;
        };
        if !express && path_queue.is_busy(now) {
            path_queue.push(packet.to_vec());
            self.counters.queued += 1;
            return Bound::Queued;
        }
        path_queue.pass(now, packet.len() + OUTER);
        Bound::Now
    }

    /// The next packet that is to leave now, and by which path.
    pub(crate) fn poll_transmit(&mut self, now: Instant) -> Option<(PathId, Vec<u8>)> {
        let mut path_queues = self.path_queues.iter_mut().enumerate();
        path_queues.find_map(|(at, path_queue)| Some((PathId(at as u8), path_queue.pop(now)?)))
    }

    /// When there will be one.
    #[must_use]
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.path_queues.iter().filter_map(PathQueue::next_release).min()
    }

    /// Whether a path that may take part has said nothing for so long.
    pub(crate) fn is_unheard(&self, now: Instant, path: PathId, time: Duration) -> bool {
        let path_queue =
            self.path_queues.get(usize::from(path.0)).filter(|path_queue| path_queue.usable);
        let old = |at: Option<Instant>| at.is_none_or(|at| now.saturating_since(at) >= time);
        path_queue.is_some_and(|path_queue| old(path_queue.gauge.heard))
    }

    /// The newest marker of a path that has arrived, and when that was heard of.
    pub(crate) fn newest(&self, path: PathId) -> Option<(Sample, Instant)> {
        self.path_queues.get(usize::from(path.0))?.gauge.newest()
    }

    /// Whether it is not known what a path carries that may take part.
    pub(crate) fn is_unsure(&self, path: PathId) -> bool {
        let path_queue = self.path_queues.get(usize::from(path.0));
        path_queue.is_some_and(|it| it.usable && it.gauge.capacity().is_none())
    }

    /// Nothing that was known of the paths holds any more. What waits is dropped.
    pub(crate) fn restart(&mut self) {
        *self = Self { counters: self.counters, ..Self::default() };
    }

    /// What happened.
    #[must_use]
    pub(crate) fn counters(&self) -> Counters {
        self.counters
    }

    /// Paths that may take part and are known, but for those that are far longer than others.
    fn eligible(&self) -> impl Iterator<Item = (PathId, &PathQueue)> {
        let base = |path_queue: &PathQueue| path_queue.gauge.base().filter(|_| path_queue.usable);
        let least = self.path_queues.iter().filter_map(base).min().unwrap_or(0);
        let path_queues = self.path_queues.iter().enumerate();
        path_queues
            .filter(move |(_, path_queue)| {
                base(path_queue).is_some_and(|base| base - least <= SKEW_MAX)
            })
            .map(|(at, path_queue)| (PathId(at as u8), path_queue))
    }

    /// What is bound to a path that does not work any more goes by others, as far as there are any.
    fn move_from_failed(&mut self, now: Instant) {
        for at in 0..PATHS_MAX {
            let path_queue = &mut self.path_queues[at];
            let failed = !path_queue.usable || !path_queue.silence(now).is_zero();
            if !failed || path_queue.queued() == 0 {
                continue;
            }
            let waiting: VecDeque<Vec<u8>> = path_queue.take_waiting();
            let not = PathSet::only(PathId(at as u8));
            for packet in waiting {
                match self.choose(now, (None, not), packet.len(), false) {
                    Some(other) => {
                        self.path_queues[usize::from(other.0)].push(packet);
                        self.counters.moved += 1;
                    }
                    None if self.path_queues[at].usable => self.path_queues[at].push(packet),
                    None => self.counters.dropped += 1,
                }
            }
        }
    }
}
