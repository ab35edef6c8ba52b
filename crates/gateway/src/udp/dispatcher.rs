//! One end of the datagrams of a client: what leaves is numbered and given its paths, what comes
//! goes through the filter. Knows no sockets: who owns it says which paths there are.

use super::bond::{Bound, Counters as BondCounters, Spreader, one_way};
use super::call;
use super::generations::{back, key};
use super::kept::Kept;
use super::order::{HOLD, HOLD_MAX};
use super::protect::Proved;
use super::request::Request;
use super::sender::{Choice, Sender, tier};
use super::sent::is_quic;
use super::tag::Kind;
use super::{Filter, FilterCounters, Tagger, Verdict};
use crate::address::PATHS_MAX;
use crate::config::{Protect, UdpMode};
use crate::model::Role;
use crate::path::{Estimate, News, Reading, Reports};
use tabane_engine::view::{PathId, PathSet};
use tabane_engine::{Duration, Instant};

#[derive(Debug)]
pub(crate) struct Dispatcher {
    sender: Sender,
    spreader: Spreader,
    tagger: Tagger,
    filter: Filter,
    datagram_paths: Vec<DatagramPath>,
    /// The same paths as choices.
    choices: Vec<Choice>,
    as_of: Option<Instant>,
    /// When something was spread last.
    spread: Option<Instant>,
    /// Of the filters before this one.
    before: FilterCounters,
    /// The difference of the clocks on each path to here, nanoseconds, and when that was.
    delays: [Option<(i64, Instant)>; PATHS_MAX],
    /// When packets of each path were asked for last.
    failed: [Option<Instant>; PATHS_MAX],
    /// What is sent again when it is asked for.
    kept: Kept,
    protection: ProtectionCounters,
    too_long: u64,
}

/// Counters of an end, or of several.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct DatagramCounters {
    filter: FilterCounters,
    bond: BondCounters,
    pub(crate) protection: ProtectionCounters,
    too_long: u64,
}

impl DatagramCounters {
    /// Adds those of an end.
    pub(crate) fn add(&mut self, of: &Dispatcher) {
        self.filter = self.filter + of.counters();
        let (bond, protection) = (of.spreader.counters(), of.protection);
        self.bond.queued += bond.queued;
        self.bond.dropped += bond.dropped;
        self.bond.moved += bond.moved;
        self.protection.packets += protection.packets;
        self.protection.asked += protection.asked;
        self.protection.doubled += protection.doubled;
        self.too_long += of.too_long;
    }

    /// By the names that status and metrics have for them.
    pub(crate) fn named(&self) -> [(String, u64); 11] {
        let Self { filter, bond, protection, too_long } = self;
        [
            ("datagram_copies_removed", filter.copies),
            ("datagrams_held", filter.held),
            ("datagrams_late", filter.late),
            ("datagrams_missed", filter.missed),
            ("datagrams_queued", bond.queued),
            ("datagrams_dropped", bond.dropped),
            ("datagrams_moved", bond.moved),
            ("datagrams_too_long", *too_long),
            ("datagrams_protected", protection.packets),
            ("datagram_copies_sent", protection.asked + protection.doubled),
            ("datagram_requests", filter.requests),
        ]
        .map(|(name, count)| (name.to_owned(), count))
    }
}

/// What was done for protected flows, since the start.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct ProtectionCounters {
    /// Packets of protected flows.
    pub(crate) packets: u64,
    /// Copies that were asked for.
    pub(crate) asked: u64,
    /// Copies that were sent without being asked for.
    pub(crate) doubled: u64,
}

/// A path for datagrams.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct DatagramPath {
    /// As the choice sees it.
    pub(crate) choice: Choice,
    /// Largest inner packet.
    pub(crate) mtu: u16,
    /// The far end knows numbers. No other is sent one.
    pub(crate) numbers: bool,
    /// Everything that was sent by it.
    pub(crate) sent: Reading,
}

/// What becomes of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    /// It is to leave now, by these paths; none if none works.
    Leaves(PathSet),
    /// A copy of it waits: [`Dispatcher::poll_transmit`].
    Waits,
    /// All paths have had too much for too long.
    Dropped,
}

/// How far beyond the difference of the paths' delays a packet may come: what the sender lets
/// stand in a path's queue, which may have grown since the last marker.
const MARGIN: Duration = Duration::from_millis(10);
/// A request is repeated so long after its answer could have come, and not sooner than this.
const ANSWER_MARGIN: Duration = Duration::from_millis(4);
const ANSWER_MIN: Duration = Duration::from_millis(20);
/// A path that has said nothing for so long has no part in that.
const HEARD: Duration = Duration::from_secs(1);
/// An estimate that is surer than not.
const TRUSTED: f64 = 0.5;
/// A path that may be wanted is asked how long it is as often.
const ASKED: Duration = Duration::from_secs(1);

impl Dispatcher {
    /// Both directions; `seed` as of [`Tagger::new`].
    #[must_use]
    pub(crate) fn new(seed: [u8; 32]) -> Self {
        Self {
            sender: Sender::default(),
            spreader: Spreader::default(),
            tagger: Tagger::new(seed),
            filter: Filter::default(),
            datagram_paths: Vec::new(),
            choices: Vec::new(),
            as_of: None,
            spread: None,
            before: FilterCounters::default(),
            delays: [None; PATHS_MAX],
            failed: [None; PATHS_MAX],
            kept: Kept::default(),
            protection: ProtectionCounters::default(),
            too_long: 0,
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
        self.choices.clear();
        self.choices.extend(self.datagram_paths.iter().map(|path| path.choice));
        let tier = tier(&self.choices);
        let path_queue = |path: &DatagramPath| {
            let takes_part = path.choice.usable && path.numbers && tier.contains(&path.choice.role);
            (path.choice.id, takes_part, path.sent)
        };
        self.spreader.set_paths(now, self.datagram_paths.iter().map(path_queue));
        self.as_of = Some(now);
    }

    /// What becomes of a packet, which has its number then. What fits no path of its mode, or
    /// cannot be numbered, goes once, by the best one.
    pub(crate) fn send(&mut self, now: Instant, mode: UdpMode, packet: &mut [u8]) -> Outcome {
        // Whatever its mode is now: that may change, and only its beginning shows what a flow is.
        if is_quic(packet)
            && let Some(flow) = self.tagger.flow(now, packet)
        {
            flow.quic = true;
        }
        let outcome = match mode {
            UdpMode::Best => None,
            UdpMode::Duplicate => self.send_copies(now, packet),
            UdpMode::Protect(protect) => self.protect(now, &protect, packet),
            UdpMode::Bond => self.spread(now, packet),
        };
        outcome.unwrap_or_else(|| {
            Tagger::clear(packet);
            let best = self.sender.best(now, &self.choices);
            Outcome::Leaves(best.map_or(PathSet::NONE, PathSet::only))
        })
    }

    fn send_copies(&mut self, now: Instant, packet: &mut [u8]) -> Option<Outcome> {
        let mut paths = Sender::all(&self.choices);
        unfit(&self.datagram_paths, packet.len()).iter().for_each(|path| paths.remove(path));
        let copied = !paths.is_empty() && self.tagger.tag(now, packet, Kind::Copies);
        copied.then_some(Outcome::Leaves(paths))
    }

    fn spread(&mut self, now: Instant, packet: &mut [u8]) -> Option<Outcome> {
        let len = packet.len();
        // What fits no path crosses one in fragments, without a number.
        let in_fragments = is_too_long(&self.datagram_paths, len);
        let not = if in_fragments { PathSet::NONE } else { unfit(&self.datagram_paths, len) };
        let flow = self.tagger.flow(now, packet)?;
        if flow.call.sent(now, len) {
            return self.protect(now, &Protect::default(), packet);
        }
        // QUIC must not be fragmented (RFC 9000 section 14), and finds the size of its packets by
        // those that do not arrive.
        if flow.quic && in_fragments {
            self.too_long += 1;
            return Some(Outcome::Dropped);
        }
        self.spread = Some(now);
        let express = flow.is_sparse(now, len);
        let chosen = self.spreader.choose(now, (flow.path(), not), len, express);
        let path = match chosen {
            Some(path) => path,
            None => self.sender.best(now, &self.choices).filter(|path| !not.contains(*path))?,
        };
        if !express && !self.spreader.admit(now, len) {
            return Some(Outcome::Dropped);
        }
        if in_fragments {
            Tagger::clear(packet);
        } else {
            flow.number(packet, Kind::Ordered, Some(path));
        }
        Some(match self.spreader.bind(now, path, express, packet) {
            Bound::Now => Outcome::Leaves(PathSet::only(path)),
            Bound::Queued => Outcome::Waits,
        })
    }

    /// By the best path that has not just lost something; again by another if asking would be too
    /// late.
    fn protect(&mut self, now: Instant, protect: &Protect, packet: &mut [u8]) -> Option<Outcome> {
        let (len, unfit) = (packet.len(), unfit(&self.datagram_paths, packet.len()));
        let proved: Proved = std::array::from_fn(|at| self.proved(now, PathId(at as u8)));
        let flow = self.tagger.flow(now, packet)?;
        self.spread = Some(now);
        let mut not = flow.protection().shunned(now, &proved);
        unfit.iter().for_each(|path| not.insert(path));
        let last = flow.path();
        let path = self
            .spreader
            .choose(now, (last, not), len, true)
            .or_else(|| other(&self.choices, not))
            .or_else(|| {
                let paths = candidates(&self.choices, unfit);
                flow.protection().last_proved(paths, &proved)
            })
            .or_else(|| self.spreader.choose(now, (last, unfit), len, true))
            .or_else(|| other(&self.choices, unfit))?;
        let mut paths = PathSet::only(path);
        let number = flow.number(packet, Kind::Protected, Some(path));
        flow.protection().sent(now, number, path, self.kept.push(now, packet));
        self.protection.packets += 1;
        if flow.protection().doubles(protect) {
            unfit.iter().for_each(|path| not.insert(path));
            not.insert(path);
            if let Some(second) = self.spreader.choose(now, (None, not), len, true) {
                paths.insert(second);
                self.protection.doubled += 1;
            }
        }
        for path in paths.iter() {
            self.spreader.bind(now, path, true, packet);
        }
        Some(Outcome::Leaves(paths))
    }

    /// Takes what the far end asks for; the copies that leave now, and their paths.
    pub(crate) fn handle_request(&mut self, now: Instant, text: &[u8]) -> Vec<(PathId, Vec<u8>)> {
        let Some(Request { flow, number, newest, silent, wanted }) = Request::parse(text) else {
            return Vec::new();
        };
        let known = self.tagger.known(&flow).and_then(|flow| flow.protection.as_deref_mut());
        let Some(protection) = known else { return Vec::new() };
        if !protection.is_new(now, number) {
            return Vec::new();
        }
        let quickest = to_here(&self.delays, now).min();
        let round_trip_of =
            |path: PathId| Some(round_trip(from_here(&self.spreader, path, now)?, quickest?));
        let asked = (newest, silent);
        let mut copies = Vec::new();
        for (number, last, again, packet) in
            protection.handle_request(now, asked, &wanted, &self.kept, round_trip_of)
        {
            let len = packet.len();
            let mut not = unfit(&self.datagram_paths, len);
            last.into_iter().for_each(|last| not.insert(last));
            if let Some(failed) = last.and_then(|last| self.failed.get_mut(usize::from(last.0))) {
                *failed = Some(now);
            }
            let path = self.spreader.choose(now, (None, not), len, true);
            let Some(path) = path.or_else(|| other(&self.choices, not)).or(last) else { continue };
            protection.again(number, path);
            // Where one copy was lost, too, both paths may be in a burst.
            let second = last.filter(|last| again && *last != path);
            for path in [Some(path), second].into_iter().flatten() {
                self.spreader.bind(now, path, true, &packet);
                self.protection.asked += 1;
                copies.push((path, packet.clone()));
            }
        }
        copies
    }

    /// A request for what has not come of a protected flow, and the paths that it is sent by: two,
    /// since the path that is silent may be so in both directions.
    pub(crate) fn poll_request(&mut self, now: Instant) -> Option<(PathSet, Vec<u8>)> {
        self.kept.expire(now);
        if self.filter.request_timeout().is_none_or(|due| due > now) {
            return None;
        }
        let request = self.filter.poll_request(now)?;
        let mut paths = PathSet::NONE;
        if let Some(best) = self.sender.best(now, &self.choices) {
            paths.insert(best);
            other(&self.choices, paths).into_iter().for_each(|path| paths.insert(path));
        }
        Some((paths, request.emit()))
    }

    /// The next packet that is to leave now, and by which path. The paths are as
    /// [`Dispatcher::set_paths`] was told last.
    pub(crate) fn poll_transmit(&mut self, now: Instant) -> Option<(PathId, Vec<u8>)> {
        self.spreader.poll_transmit(now)
    }

    /// What the reports of a path have brought since the last time; they are told which markers are
    /// wanted. To be called now and then, and before packets are sent.
    pub(crate) fn handle_reports(&mut self, now: Instant, path: PathId, reports: &mut Reports) {
        let news = reports.take_news();
        if news != News::default() {
            self.handle_news(now, path, (news, || reports.sending(now)));
        }
        if self.asks_marker(now, path) {
            reports.ask();
        }
        reports.set_hurried(self.is_unsure(now, path));
    }

    /// What markers of either direction of a path have shown, and what is estimated of the one from
    /// here. How far the paths to here lie apart bounds how long packets wait for those before
    /// them.
    fn handle_news(
        &mut self,
        now: Instant,
        path: PathId,
        (news, sending): (News, impl Fn() -> Estimate),
    ) {
        if let Some(sample) = news.sent {
            let Estimate { capacity, confidence, .. } = sending();
            let trusted = capacity.filter(|_| confidence >= TRUSTED);
            self.spreader.handle_sample(now, path, sample, trusted);
        }
        let (Some(sample), Some(delay)) = (news.heard, self.delays.get_mut(usize::from(path.0)))
        else {
            return;
        };
        *delay = Some((one_way(&sample), now));
        let recent = to_here(&self.delays, now);
        let (least, most) = (recent.clone().min(), recent.clone().max());
        let hold = match (least, most) {
            (Some(least), Some(most)) if recent.count() > 1 => {
                Duration((most - least).unsigned_abs()) + MARGIN
            }
            _ => HOLD,
        };
        self.filter.set_hold(hold.min(HOLD_MAX));
        // There and back by any: the clocks' difference is in both.
        let there = paths().filter_map(|path| from_here(&self.spreader, path, now)).max();
        if let (Some(there), Some(most)) = (there, most) {
            let answer = round_trip(there, most) + ANSWER_MARGIN;
            self.filter.set_answer(answer.max(ANSWER_MIN));
        }
    }

    /// Whether a path that may be wanted has not said for long how long it is, or has lost
    /// something and nothing since is known to have come: a marker is to be sent.
    fn asks_marker(&self, now: Instant, path: PathId) -> bool {
        let failed = *self.failed.get(usize::from(path.0)).unwrap_or(&None);
        let failed = failed.is_some() && failed > self.proved(now, path);
        self.is_busy(now) && (self.spreader.is_unheard(now, path, ASKED) || failed)
    }

    /// Whether markers of a path should be frequent while much is sent by it: a sender that doubles
    /// in a round trip fills a queue before the second of the usual ones is back.
    fn is_unsure(&self, now: Instant, path: PathId) -> bool {
        self.is_busy(now) && self.spreader.is_unsure(path)
    }

    /// Whether something was spread not long ago.
    fn is_busy(&self, now: Instant) -> bool {
        self.spread.is_some_and(|at| now.saturating_since(at) < ASKED)
    }

    /// When the newest marker left that is known to have come by a path. What the far end says must
    /// not be later than now.
    fn proved(&self, now: Instant, path: PathId) -> Option<Instant> {
        let (sample, _) = self.spreader.newest(path)?;
        Some(Instant(sample.sent.at_us * 1000).min(now))
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
        let verdict = self.filter.handle_packet(now, PathId(path as u8), packet);
        if verdict != Verdict::Copy
            && packet.len() <= call::SMALL
            && let Some(flow) = key(packet).and_then(|key| self.tagger.known(&back(&key)))
        {
            flow.call.came();
        }
        verdict == Verdict::Deliver
    }

    /// The next packet that has waited enough for those before it.
    pub(crate) fn poll_packet(&mut self, now: Instant) -> Option<Vec<u8>> {
        if self.filter.poll_timeout().is_some_and(|due| due <= now) {
            self.filter.handle_timeout(now);
        }
        self.filter.poll_packet()
    }

    /// When [`Dispatcher::poll_packet`], [`Dispatcher::poll_transmit`] or
    /// [`Dispatcher::poll_request`] may have another.
    #[must_use]
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let Self { filter, spreader, kept, .. } = self;
        let requests = [filter.request_timeout(), kept.timeout()];
        [filter.poll_timeout(), spreader.poll_timeout()].into_iter().chain(requests).flatten().min()
    }

    /// The far end has started again, or is another: it counts anew. What waits is dropped.
    pub(crate) fn forget(&mut self) {
        self.before = self.counters();
        self.filter = Filter::default();
        self.spreader.restart();
        self.delays = [None; PATHS_MAX];
    }

    /// What happened to what came.
    #[must_use]
    pub(crate) fn counters(&self) -> FilterCounters {
        self.before + self.filter.counters()
    }
}

/// Whether a packet of that length fits no path that works.
fn is_too_long(paths: &[DatagramPath], len: usize) -> bool {
    let mut works = paths.iter().filter(|path| path.choice.usable && path.numbers).peekable();
    works.peek().is_some() && works.all(|path| usize::from(path.mtu) < len)
}

/// Every path that there may be.
fn paths() -> impl Iterator<Item = PathId> {
    (0..PATHS_MAX as u8).map(PathId)
}

/// Paths that take no numbered packet of that length.
fn unfit(paths: &[DatagramPath], len: usize) -> PathSet {
    let mut unfit = PathSet::NONE;
    let unfits = |path: &&DatagramPath| !path.numbers || usize::from(path.mtu) < len;
    paths.iter().filter(unfits).for_each(|path| unfit.insert(path.choice.id));
    unfit
}

/// The differences of the clocks on the paths to here that were heard not long ago.
fn to_here(delays: &[Option<(i64, Instant)>], now: Instant) -> impl Iterator<Item = i64> + Clone {
    let recent = move |(_, at): &&(i64, Instant)| now.saturating_since(*at) < HEARD;
    delays.iter().flatten().filter(recent).map(|(delay, _)| *delay)
}

/// The same of a path from here.
fn from_here(spreader: &Spreader, path: PathId, now: Instant) -> Option<i64> {
    let (sample, at) = spreader.newest(path)?;
    (now.saturating_since(at) < HEARD).then(|| one_way(&sample))
}

/// Of the differences of the clocks there and back.
fn round_trip(there: i64, back: i64) -> Duration {
    Duration((there + back).max(0) as u64).min(HOLD_MAX)
}

/// The quickest path, as far as that is known, that works, is of the roles that count, and is none
/// of `not`.
fn other(choices: &[Choice], not: PathSet) -> Option<PathId> {
    let usable = candidates(choices, not);
    usable.min_by_key(|path| (path.rtt.0.wrapping_sub(1), path.id)).map(|path| path.id)
}

/// Paths that work, are of the roles that count, and are none of `not`.
fn candidates(choices: &[Choice], not: PathSet) -> impl Iterator<Item = &Choice> {
    let tier = tier(choices);
    choices.iter().filter(move |path| path.takes_part(tier) && !not.contains(path.id))
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

    fn datagram_path(id: u8, mtu: u16) -> DatagramPath {
        let (role, rtt) = (Role::Primary, Duration::from_millis(10));
        let choice = Choice { id: PathId(id), usable: true, role, rtt };
        DatagramPath { choice, mtu, numbers: true, sent: Reading::default() }
    }

    fn packet(len: usize) -> Vec<u8> {
        let mut buffer = vec![0; HEADROOM + len];
        let (from, to) = (([10, 0, 0, 1], 1).into(), ([10, 0, 0, 2], 2).into());
        let start = put_udp(&mut buffer, from, to).unwrap();
        buffer.split_off(start)
    }

    /// By the first path.
    fn left() -> Outcome {
        Outcome::Leaves(PathSet::only(PathId(0)))
    }

    fn ids(outcome: Outcome) -> Vec<u8> {
        let Outcome::Leaves(set) = outcome else { panic!("{outcome:?}") };
        (0..8).filter(|id| set.contains(PathId(*id))).collect()
    }

    #[test]
    fn copies_go_where_they_fit_and_are_understood() {
        let mut dispatcher = Dispatcher::new([1; 32]);
        let now = Instant::ZERO;
        let one_way = DatagramPath { numbers: false, ..datagram_path(2, 1400) };
        dispatcher
            .set_paths(now, [datagram_path(0, 1400), datagram_path(1, 1000), one_way].into_iter());
        for (len, expected) in [(100, vec![0, 1]), (1100, vec![0]), (2000, vec![0])] {
            let mut packet = packet(len);
            let paths = dispatcher.send(now, UdpMode::Duplicate, &mut packet);
            assert_eq!(ids(paths), expected, "{len}");
            // What is cut has no number.
            assert_eq!(packet[4..6] == [0, 0], len == 2000);
        }
        for mode in [UdpMode::Best, UdpMode::Bond] {
            let mut packet = packet(100);
            packet[4..6].fill(7);
            assert_eq!(ids(dispatcher.send(now, mode, &mut packet)), [0]);
            assert_eq!(packet[4..6] == [0, 0], mode == UdpMode::Best);
        }
    }

    #[test]
    fn quic_is_known_by_its_beginning_in_whatever_mode_that_was() {
        let now = Instant::ZERO;
        let (quic, greased) = ([0xc0, 0, 0, 0, 1], [0x80, 0, 0, 0, 1]);
        for (begins, becomes) in
            [(quic, Outcome::Dropped), (greased, Outcome::Dropped), ([0x40; 5], left())]
        {
            let mut dispatcher = Dispatcher::new([1; 32]);
            dispatcher.set_paths(now, [datagram_path(0, 1400), datagram_path(1, 1400)].into_iter());
            let mut hello = packet(1200);
            hello[28..33].copy_from_slice(&begins);
            assert_eq!(dispatcher.send(now, UdpMode::Best, &mut hello), left());
            // What is cut is sent by one path; QUIC must not be cut.
            assert_eq!(dispatcher.send(now, UdpMode::Bond, &mut packet(1400)), becomes);
        }
    }

    #[test]
    fn who_starts_again_is_heard() {
        let mut dispatcher = Dispatcher::new([1; 32]);
        let now = Instant::ZERO;
        let mut sender = Dispatcher::new([2; 32]);
        sender.set_paths(now, [datagram_path(0, 1400), datagram_path(1, 1400)].into_iter());
        let mut packet = packet(100);
        sender.send(now, UdpMode::Duplicate, &mut packet);
        let came = [0, 1].map(|path| dispatcher.takes(now, path, &packet));
        assert_eq!((came, dispatcher.counters().copies), ([true, false], 1));
        dispatcher.forget();
        assert!(dispatcher.takes(now, 0, &packet));
        assert_eq!(dispatcher.counters().copies, 1);
    }
}
