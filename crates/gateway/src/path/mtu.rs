//! The largest inner packet of a path, found by padded probes (DPLPMTUD, RFC 8899), without
//! relying on ICMP: first the most that the interface allows, since it mostly passes, then a
//! binary search over sizes that occur in practice. What is found is confirmed from time to time;
//! a size that stops passing (a black hole, section 4.3) is left at once for
//! [`BASE`], and searched for anew. The answers are as large as the probes, so that a size is
//! good in both directions.

use tabane_engine::{Duration, Instant};

/// The search on one path.
#[derive(Debug)]
pub(super) struct MtuSearch {
    /// The most that is tried.
    limit: u16,
    /// Nothing is tried.
    fixed: bool,
    /// Largest size that was answered; 0: none.
    good: u16,
    /// Smallest size that was not.
    bad: u16,
    /// No size passed at all.
    given_up: bool,
    trial: Option<Trial>,
    /// When to confirm what was found.
    confirm_at: Instant,
    /// When to look for more.
    raise_at: Instant,
}

/// A size under test.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Trial {
    size: u16,
    /// Probes of this size that were not answered.
    lost: usize,
    /// When the last one was sent.
    sent: Option<Instant>,
}

/// What every path is taken to carry (IPv6's minimum, RFC 8200 section 5).
pub(super) const BASE: u16 = 1280;
/// No path is taken to carry less.
pub(super) const LEAST: u16 = COMMON[0];
/// Inner sizes behind common links: less for PPPoE, 4in6, GTP, other tunnels; beyond Ethernet,
/// jumbo frames. Those below [`BASE`] are for links that break the rule.
const COMMON: [u16; 25] = [
    576, 800, 1000, 1200, 1280, 1300, 1320, 1332, 1340, 1352, 1360, 1372, 1380, 1392, 1400, 1408,
    1412, 1420, 1432, 1440, 2000, 4000, 6000, 7940, 8940,
];
/// RFC 8899 section 5.1.1, PMTU_RAISE_TIMER.
const RAISE: Duration = Duration::from_secs(600);
/// Confirmations while data flows: what a black hole costs at most, with the trials.
const CONFIRM: Duration = Duration::from_secs(5);
/// At least between a confirmation and one that is asked for.
const CONFIRM_AGAIN: Duration = Duration::from_secs(1);
/// After nothing at all passed.
const AGAIN: Duration = Duration::from_secs(10);
/// Answers are not longer (`tabane_net::icmp`).
pub(super) const LIMIT_MAX: u16 = 9_000;
const PATIENCE_MIN: Duration = Duration::from_millis(150);

/// Packets that were too long for their path: all are counted, one a second is told.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct TooBig {
    count: u64,
    reported_at: Option<Instant>,
    untold: Option<u16>,
}

impl TooBig {
    const PAUSE: Duration = Duration::from_secs(1);

    /// One of this length.
    pub(super) fn note(&mut self, now: Instant, len: u16) {
        self.count += 1;
        if self.reported_at.is_none_or(|told| now >= told + Self::PAUSE) {
            self.reported_at = Some(now);
            self.untold = Some(len);
        }
    }

    /// How many there were.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// The length of one that is to be told.
    pub(super) fn poll(&mut self) -> Option<u16> {
        self.untold.take()
    }
}

impl MtuSearch {
    /// Looks for at most `limit`; with `fixed` it is taken as it is.
    pub(super) fn new(now: Instant, limit: u16, fixed: bool) -> Self {
        let limit = limit.clamp(COMMON[0], LIMIT_MAX);
        Self {
            limit,
            fixed,
            good: 0,
            bad: limit + 1,
            given_up: false,
            trial: None,
            confirm_at: now,
            raise_at: now + RAISE,
        }
    }

    /// The largest packet to send now.
    pub(super) fn mtu(&self) -> u16 {
        match self.good {
            _ if self.fixed => self.limit,
            0 => BASE.min(self.bad - 1),
            good => good,
        }
    }

    /// Begins again: the path may be another one, or what is wanted of it.
    pub(super) fn restart(&mut self, now: Instant, limit: u16, fixed: bool) {
        *self = Self::new(now, limit, fixed);
    }

    /// Confirms what was found soon: large packets may be getting lost.
    pub(super) fn suspect(&mut self, now: Instant) {
        self.confirm_at = self.confirm_at.min(now + CONFIRM_AGAIN);
    }

    /// The host's own link refused a packet: nothing longer than `most` passes. So much is certain,
    /// whatever was found or configured.
    pub(super) fn too_big(&mut self, now: Instant, most: u16) {
        let most = most.max(LEAST);
        if self.fixed {
            self.limit = self.limit.min(most);
            return;
        }
        self.trial = self.trial.filter(|trial| trial.size <= most);
        if most < self.bad - 1 {
            self.refused(now, most + 1);
        }
    }

    /// The size to be sent at `now`, if any. A probe that waits for its answer longer than
    /// `patience` is lost; a size is refused after `proof` of them. `busy`: confirm too.
    pub(super) fn due(
        &mut self,
        now: Instant,
        patience: Duration,
        proof: usize,
        busy: bool,
    ) -> Option<u16> {
        if self.fixed {
            return None;
        }
        if let Some(trial) = &mut self.trial
            && let Some(sent) = trial.sent
        {
            if now < sent + patience.max(PATIENCE_MIN) {
                return None;
            }
            trial.sent = None;
            trial.lost += 1;
            if trial.lost >= proof {
                let size = trial.size;
                self.trial = None;
                self.refused(now, size);
            }
        }
        if self.trial.is_none() {
            let size = self.next_size(now, busy)?;
            self.trial = Some(Trial { size, lost: 0, sent: None });
        }
        self.trial.map(|trial| trial.size)
    }

    /// A probe of the size that was due is on its way.
    pub(super) fn sent(&mut self, now: Instant) {
        if let Some(trial) = &mut self.trial {
            trial.sent = Some(now);
        }
    }

    /// A probe of this size was answered.
    pub(super) fn answered(&mut self, now: Instant, size: u16) {
        if self.trial.is_some_and(|trial| trial.size <= size) {
            self.trial = None;
            self.confirm_at = now + CONFIRM;
        }
        if size <= self.limit && size > self.good {
            self.good = size;
            // What was refused earlier passes after all.
            self.bad = if size >= self.bad { self.limit + 1 } else { self.bad };
        }
    }

    /// When [`MtuSearch::due`] may have something, for a path that carries data if `busy`.
    pub(super) fn next(&self, patience: Duration, busy: bool) -> Instant {
        if self.fixed {
            return Instant::FAR_FUTURE;
        }
        match self.trial {
            Some(Trial { sent: Some(sent), .. }) => sent + patience.max(PATIENCE_MIN),
            Some(_) => Instant::ZERO,
            None if self.wanted().is_some() => Instant::ZERO,
            None if busy && self.good > 0 => self.confirm_at.min(self.raise_at),
            None => self.raise_at,
        }
    }

    /// Confirms what was found as soon as there is use for it: the path was away, or time jumped.
    pub(super) fn resume(&mut self, now: Instant) {
        self.trial = None;
        self.confirm_at = now;
        self.raise_at = now + RAISE;
    }

    fn refused(&mut self, now: Instant, size: u16) {
        self.confirm_at = now + CONFIRM;
        if size <= self.good {
            // A black hole: it used to pass. Everything below is open again.
            self.good = 0;
        }
        self.bad = self.bad.min(size);
        if self.bad <= COMMON[0] {
            // Nothing passes, and that is not the sizes' fault.
            self.bad = self.limit + 1;
            self.given_up = true;
            self.raise_at = now + AGAIN;
        }
    }

    fn next_size(&mut self, now: Instant, busy: bool) -> Option<u16> {
        if now >= self.raise_at {
            self.raise_at = now + RAISE;
            self.bad = self.limit + 1;
            self.given_up = false;
        }
        if let Some(size) = self.wanted() {
            return Some(size);
        }
        (busy && self.good > 0 && now >= self.confirm_at).then_some(self.good)
    }

    /// The next size of the search; `None` when it has ended.
    fn wanted(&self) -> Option<u16> {
        if self.given_up || self.good == self.limit {
            return None;
        }
        if self.bad > self.limit {
            return Some(self.limit);
        }
        if self.good == 0 {
            if self.bad > BASE {
                return Some(BASE);
            }
            return COMMON.iter().rev().copied().find(|&size| size < self.bad);
        }
        let open = |size: &&u16| **size > self.good && **size < self.bad;
        let count = COMMON.iter().filter(open).count();
        COMMON.iter().filter(open).nth(count / 2).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A path that carries `passes`; returns how many probes were sent until nothing is due.
    fn search(mtu: &mut MtuSearch, now: &mut Instant, passes: u16, busy: bool) -> usize {
        let mut probes = 0;
        let patience = Duration::from_millis(200);
        while mtu.next(patience, busy) <= *now + patience {
            if let Some(size) = mtu.due(*now, patience, 3, busy) {
                probes += 1;
                assert!(probes < 200, "it ends");
                mtu.sent(*now);
                *now += Duration::from_millis(20);
                if size <= passes {
                    mtu.answered(*now, size);
                }
            }
            *now += Duration::from_millis(60);
        }
        probes
    }

    #[test]
    fn a_whole_path_takes_one_probe() {
        let mut now = Instant::ZERO;
        let mut mtu = MtuSearch::new(now, 1440, false);
        assert_eq!(mtu.mtu(), 1280);
        assert_eq!(search(&mut mtu, &mut now, 1500, false), 1);
        assert_eq!(mtu.mtu(), 1440);
    }

    #[test]
    fn common_sizes_are_found() {
        for (limit, passes, found) in [
            (1440, 1432, 1432),
            (1420, 1415, 1412),
            (1440, 1299, 1280),
            (1440, 1100, 1000),
            (1440, 600, 576),
            (9000, 9000, 9000),
            (8940, 1440, 1440),
            (1000, 1500, 1000),
        ] {
            let mut now = Instant::ZERO;
            let mut mtu = MtuSearch::new(now, limit, false);
            let probes = search(&mut mtu, &mut now, passes, false);
            assert_eq!(mtu.mtu(), found, "{limit} {passes}");
            assert!(probes <= 26, "{limit} {passes}: {probes}");
        }
    }

    #[test]
    fn a_black_hole_is_left_and_searched() {
        let mut now = Instant::ZERO;
        let mut mtu = MtuSearch::new(now, 1440, false);
        search(&mut mtu, &mut now, 1440, true);
        // Not while idle.
        now += Duration::from_secs(60);
        assert_eq!(mtu.due(now, Duration::from_millis(200), 3, false), None);
        search(&mut mtu, &mut now, 1440, true);
        assert_eq!(mtu.mtu(), 1440, "confirmed");
        now += Duration::from_secs(6);
        search(&mut mtu, &mut now, 1400, true);
        assert_eq!(mtu.mtu(), 1400);
        // The better path is back: found by the raise timer.
        now += RAISE;
        search(&mut mtu, &mut now, 1440, false);
        assert_eq!(mtu.mtu(), 1440);
    }

    #[test]
    fn where_nothing_passes_the_base_is_kept() {
        let mut now = Instant::ZERO;
        let mut mtu = MtuSearch::new(now, 1440, false);
        search(&mut mtu, &mut now, 0, true);
        assert_eq!(mtu.mtu(), BASE);
        now += AGAIN;
        search(&mut mtu, &mut now, 1440, true);
        assert_eq!(mtu.mtu(), 1440);
    }

    #[test]
    fn what_the_hosts_own_link_refuses_is_left_at_once() {
        let mut now = Instant::ZERO;
        let mut mtu = MtuSearch::new(now, 1440, false);
        search(&mut mtu, &mut now, 1440, true);
        mtu.too_big(now, 1439);
        assert_eq!(mtu.mtu(), BASE);
        search(&mut mtu, &mut now, 1400, true);
        assert_eq!(mtu.mtu(), 1400);
        // Longer than what is known to be too long: nothing new.
        mtu.too_big(now, 1500);
        assert_eq!(mtu.mtu(), 1400);
        mtu.too_big(now, 900);
        assert_eq!(mtu.mtu(), 900);
        // Nothing passes that is so short: that is not the sizes' fault.
        mtu.too_big(now, 100);
        assert!(mtu.mtu() >= 576);
        let mut fixed = MtuSearch::new(now, 1400, true);
        fixed.too_big(now, 1380);
        assert_eq!(fixed.mtu(), 1380);
        fixed.restart(now, 1400, true);
        assert_eq!(fixed.mtu(), 1400);
    }

    #[test]
    fn packets_that_were_too_long_are_all_counted_and_one_a_second_is_told() {
        let mut log = TooBig::default();
        for ms in 0..2_500 {
            log.note(Instant(ms * 1_000_000), 1500);
            assert_eq!(log.poll().is_some(), ms % 1_000 == 0, "{ms}");
        }
        assert_eq!(log.count(), 2_500);
    }

    #[test]
    fn a_fixed_size_is_not_tried() {
        let mut mtu = MtuSearch::new(Instant::ZERO, 1400, true);
        assert_eq!(mtu.mtu(), 1400);
        assert_eq!(mtu.due(Instant(1 << 50), Duration::ZERO, 3, true), None);
        assert_eq!(mtu.next(Duration::ZERO, true), Instant::FAR_FUTURE);
    }
}
