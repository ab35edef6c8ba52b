//! One end of the datagrams of a client: what leaves is numbered and given its paths, what comes
//! goes through the filter. Knows no sockets: who owns it says which paths there are.

use super::{Choice, Filter, FilterCounters, Sender, Tagger, Verdict};
use crate::config::UdpMode;
use crate::model::Role;
use tabane_engine::view::{PathId, PathSet};
use tabane_engine::{Duration, Instant};

#[derive(Debug)]
pub(crate) struct Dispatcher {
    sender: Sender,
    tagger: Tagger,
    filter: Filter,
    datagram_paths: Vec<DatagramPath>,
    /// The same paths as choices, with a rate each.
    choices: Vec<Choice>,
    as_of: Option<Instant>,
    /// Of the filters before this one.
    before: FilterCounters,
}

/// A path for datagrams.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct DatagramPath {
    /// As the choice sees it. A rate that is not known counts as the highest known: a path
    /// without a cap is not slower than those with one.
    pub(crate) choice: Choice,
    /// Largest inner packet.
    pub(crate) mtu: u16,
    /// The far end knows numbers. No other is sent one.
    pub(crate) numbers: bool,
}

impl Dispatcher {
    /// Both directions; `seed` as of [`Tagger::new`].
    #[must_use]
    pub(crate) fn new(seed: [u8; 32]) -> Self {
        Self {
            sender: Sender::default(),
            tagger: Tagger::new(seed),
            filter: Filter::default(),
            datagram_paths: Vec::new(),
            choices: Vec::new(),
            as_of: None,
            before: FilterCounters::default(),
        }
    }

    /// Whether the paths are to be looked at again: once for all that is sent at one time.
    #[must_use]
    pub(crate) fn is_stale(&self, now: Instant) -> bool {
        self.as_of != Some(now)
    }

    /// The paths as they are now.
    pub(crate) fn set_paths(
        &mut self,
        now: Instant,
        datagram_paths: impl Iterator<Item = DatagramPath>,
    ) {
        self.datagram_paths.clear();
        self.datagram_paths.extend(datagram_paths);
        let rate = self
            .datagram_paths
            .iter()
            .map(|datagram_path| datagram_path.choice.rate)
            .max()
            .unwrap_or(0);
        let rated = |datagram_path: &DatagramPath| match datagram_path.choice.rate {
            0 => Choice { rate, ..datagram_path.choice },
            _ => datagram_path.choice,
        };
        self.choices.clear();
        self.choices.extend(self.datagram_paths.iter().map(rated));
        self.as_of = Some(now);
    }

    /// The paths for a packet, which has its number then; none if none works. What fits no path
    /// of its mode, or cannot be numbered, goes once, by the best one.
    pub(crate) fn prepare(&mut self, now: Instant, mode: UdpMode, packet: &mut [u8]) -> PathSet {
        if mode != UdpMode::Best {
            let mut paths = self.sender.choose(now, mode, &self.choices, packet.len());
            for datagram_path in &self.datagram_paths {
                if !datagram_path.numbers || usize::from(datagram_path.mtu) < packet.len() {
                    paths.remove(datagram_path.choice.id);
                }
            }
            let ordered = mode == UdpMode::Stripe;
            if !paths.is_empty() && self.tagger.tag(now, packet, ordered) {
                return paths;
            }
        }
        Tagger::clear(packet);
        self.sender.choose(now, UdpMode::Best, &self.choices, packet.len())
    }

    /// Largest packet of a path; 0 if there is no such path.
    #[must_use]
    pub(crate) fn mtu(&self, path: PathId) -> u16 {
        self.datagram_paths
            .iter()
            .find(|datagram_path| datagram_path.choice.id == path)
            .map_or(0, |datagram_path| datagram_path.mtu)
    }

    /// Whether a packet that came by `path`, from a peer that numbers, goes on now. Then
    /// [`Dispatcher::poll_packet`].
    pub(crate) fn takes(&mut self, now: Instant, path: usize, packet: &[u8]) -> bool {
        self.filter.handle_packet(now, PathId(path as u8), packet) == Verdict::Deliver
    }

    /// The next packet that has waited enough for those before it.
    pub(crate) fn poll_packet(&mut self, now: Instant) -> Option<Vec<u8>> {
        if self.filter.poll_timeout().is_some_and(|due| due <= now) {
            self.filter.handle_timeout(now);
        }
        self.filter.poll_packet()
    }

    /// When [`Dispatcher::poll_packet`] may have another.
    #[must_use]
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.filter.poll_timeout()
    }

    /// The far end has started again, or is another: it counts anew. What waits is dropped.
    pub(crate) fn forget(&mut self) {
        self.before = self.counters();
        self.filter = Filter::default();
    }

    /// What happened to what came.
    #[must_use]
    pub(crate) fn counters(&self) -> FilterCounters {
        let (a, b) = (self.before, self.filter.counters());
        FilterCounters {
            copies: a.copies + b.copies,
            held: a.held + b.held,
            late: a.late + b.late,
            missed: a.missed + b.missed,
        }
    }
}

/// The role that counts for datagrams: a primary path that is kept back, since it harms, is as good
/// as a secondary one.
#[must_use]
pub(crate) fn role(role: Role, low: bool) -> Role {
    match role {
        Role::Primary if low => Role::Secondary,
        role => role,
    }
}

/// The round-trip time of the path that the client's datagrams come by, where nothing is measured:
/// it counts as faster than those of which nothing is known.
pub(crate) const PREFERRED: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::udp::packet::{HEADROOM, put_udp};

    fn datagram_path(id: u8, mtu: u16, rate: u64) -> DatagramPath {
        let (role, rtt) = (Role::Primary, Duration::from_millis(10));
        DatagramPath {
            choice: Choice { id: PathId(id), usable: true, role, rtt, rate },
            mtu,
            numbers: true,
        }
    }

    fn packet(len: usize) -> Vec<u8> {
        let mut buffer = vec![0; HEADROOM + len];
        let (from, to) = (([10, 0, 0, 1], 1).into(), ([10, 0, 0, 2], 2).into());
        let start = put_udp(&mut buffer, from, to).unwrap();
        buffer.split_off(start)
    }

    fn ids(set: PathSet) -> Vec<u8> {
        (0..8).filter(|id| set.contains(PathId(*id))).collect()
    }

    #[test]
    fn copies_go_where_they_fit_and_are_understood() {
        let mut dispatcher = Dispatcher::new([1; 32]);
        let now = Instant::ZERO;
        let one_way = DatagramPath { numbers: false, ..datagram_path(2, 1400, 0) };
        dispatcher.set_paths(
            now,
            [datagram_path(0, 1400, 0), datagram_path(1, 1000, 0), one_way].into_iter(),
        );
        for (len, expected) in [(100, vec![0, 1]), (1100, vec![0]), (2000, vec![0])] {
            let mut packet = packet(len);
            let paths = dispatcher.prepare(now, UdpMode::Duplicate, &mut packet);
            assert_eq!(ids(paths), expected, "{len}");
            // What is cut has no number.
            assert_eq!(packet[4..6] == [0, 0], len == 2000);
        }
        let mut packet = packet(100);
        packet[4..6].fill(7);
        assert_eq!(ids(dispatcher.prepare(now, UdpMode::Best, &mut packet)), [0]);
        assert_eq!(packet[4..6], [0, 0]);
    }

    #[test]
    fn a_path_without_a_cap_has_its_share() {
        let mut dispatcher = Dispatcher::new([1; 32]);
        let now = Instant::ZERO;
        dispatcher.set_paths(
            now,
            [datagram_path(0, 1400, 50_000_000), datagram_path(1, 1400, 0)].into_iter(),
        );
        let mut counts = [0; 2];
        for _ in 0..100 {
            let paths = dispatcher.prepare(now, UdpMode::Stripe, &mut packet(100));
            counts[usize::from(ids(paths)[0])] += 1;
        }
        assert_eq!(counts, [50, 50]);
    }

    #[test]
    fn who_starts_again_is_heard() {
        let mut dispatcher = Dispatcher::new([1; 32]);
        let now = Instant::ZERO;
        let mut sender = Dispatcher::new([2; 32]);
        sender.set_paths(now, [datagram_path(0, 1400, 0), datagram_path(1, 1400, 0)].into_iter());
        let mut packet = packet(100);
        sender.prepare(now, UdpMode::Duplicate, &mut packet);
        let came = [0, 1].map(|path| dispatcher.takes(now, path, &packet));
        assert_eq!((came, dispatcher.counters().copies), ([true, false], 1));
        dispatcher.forget();
        assert!(dispatcher.takes(now, 0, &packet));
        assert_eq!(dispatcher.counters().copies, 1);
    }
}
