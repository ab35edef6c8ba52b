//! Counters that come from the engine's records, for metrics: what schedulers decide, what is sent
//! again and comes twice, how long gaps hold up data, and why connections go on without MPTCP.
//!
//! Records are kept only where somebody asks for metrics: they cost a little for every segment.

use crate::address::PATHS_MAX;
use crate::index::PathIndex;
use crate::model::{Histogram, PathRecordTotals, RecordTotals};
use std::collections::BTreeMap;
use tabane_engine::record::{ConnectionChange, Record, SubflowChange, What};
use tabane_engine::view::SubflowId;
use tabane_engine::{ConnId, Endpoint};

/// Of one endpoint.
#[derive(Default, Debug)]
pub(crate) struct RecordCounters {
    paths: [Counted; PATHS_MAX],
    /// Decisions to send nothing now, by reason.
    held: BTreeMap<&'static str, u64>,
    fallbacks: BTreeMap<&'static str, u64>,
    gaps: Histogram,
    /// Path of each subflow, as of its first data.
    subflow_paths: BTreeMap<(ConnId, SubflowId), usize>,
}

#[derive(Default, Debug)]
struct Counted {
    /// Decisions for it, by reason.
    chosen: BTreeMap<&'static str, u64>,
    retransmitted: u64,
    reinjected: u64,
    duplicate: u64,
}

/// Subflows whose path is known at a time; beyond it what new ones decide is not counted.
const SUBFLOWS_MAX: usize = 1 << 17;

impl RecordCounters {
    /// Takes what an endpoint has recorded since the last time.
    pub(crate) fn drain(&mut self, endpoint: &mut Endpoint) {
        while let Some(record) = endpoint.poll_record() {
            self.take(&record);
        }
    }

    fn take(&mut self, record: &Record) {
        let Some(conn) = record.conn else { return };
        match &record.what {
            What::Sent { paths, len, retransmission, .. } if *len > 0 => {
                let Some(path) = paths.iter().next().map(|path| usize::from(path.0)) else {
                    return;
                };
                if let Some(subflow) = record.subflow
                    && self.subflow_paths.len() < SUBFLOWS_MAX
                {
                    self.subflow_paths.entry((conn, subflow)).or_insert(path);
                }
                if *retransmission && let Some(counted) = self.paths.get_mut(path) {
                    counted.retransmitted += u64::from(*len);
                }
            }
            What::Received { path, len, duplicate: true, .. } => {
                if let Some(counted) = self.paths.get_mut(usize::from(path.0)) {
                    counted.duplicate += u64::from(*len);
                }
            }
            What::Decision { chosen, reason, .. } => {
                let reason = reason.name();
                if chosen.is_empty() {
                    *self.held.entry(reason).or_default() += 1;
                }
                for subflow in chosen.iter() {
                    if let Some(counted) = self.of(conn, subflow) {
                        *counted.chosen.entry(reason).or_default() += 1;
                    }
                }
            }
            What::Reinjected { len, .. } => {
                if let Some(counted) = record.subflow.and_then(|subflow| self.of(conn, subflow)) {
                    counted.reinjected += u64::from(*len);
                }
            }
            What::GapFilled { delay } => self.gaps.add(delay.as_secs_f64()),
            What::Fallback(reason) => {
                *self.fallbacks.entry(reason.name()).or_default() += 1;
            }
            What::Subflow(SubflowChange::Closed(_)) => {
                if let Some(subflow) = record.subflow {
                    self.subflow_paths.remove(&(conn, subflow));
                }
            }
            What::Connection(ConnectionChange::Closed(_)) => {
                let next = ConnId(conn.0 + 1);
                let own = |id| (id, SubflowId(0));
                let gone: Vec<_> =
                    self.subflow_paths.range(own(conn)..own(next)).map(|(key, _)| *key).collect();
                gone.iter().for_each(|key| {
                    self.subflow_paths.remove(key);
                });
            }
            _ => {}
        }
    }

    fn of(&mut self, conn: ConnId, subflow: SubflowId) -> Option<&mut Counted> {
        let path = *self.subflow_paths.get(&(conn, subflow))?;
        self.paths.get_mut(path)
    }

    /// Of a path.
    #[must_use]
    pub(crate) fn path(&self, path: PathIndex) -> Option<PathRecordTotals> {
        let counted = self.paths.get(path.get())?;
        Some(PathRecordTotals {
            decisions: list(&counted.chosen),
            retransmitted_bytes: counted.retransmitted,
            reinjected_bytes: counted.reinjected,
            duplicate_bytes: counted.duplicate,
        })
    }

    /// Adds what belongs to no path to `all`.
    pub(crate) fn add_to(&self, all: &mut RecordTotals) {
        add(&mut all.held, &self.held);
        add(&mut all.fallbacks, &self.fallbacks);
        all.gaps.merge(&self.gaps);
    }
}

fn list(counts: &BTreeMap<&'static str, u64>) -> Vec<(String, u64)> {
    counts.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
}

fn add(all: &mut Vec<(String, u64)>, counts: &BTreeMap<&'static str, u64>) {
    for (name, count) in counts {
        match all.iter_mut().find(|(known, _)| known == name) {
            Some((_, sum)) => *sum += count,
            None => all.push(((*name).to_owned(), *count)),
        }
    }
}

impl Histogram {
    /// Upper bounds of the buckets, seconds; beyond the last one is a bucket without a bound.
    pub(crate) const BOUNDS: [f64; 9] = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0];

    /// One more.
    pub(crate) fn add(&mut self, seconds: f64) {
        self.counts.resize(Self::BOUNDS.len() + 1, 0);
        let bucket = Self::BOUNDS.iter().position(|bound| seconds <= *bound);
        self.counts[bucket.unwrap_or(Self::BOUNDS.len())] += 1;
        self.sum += seconds;
    }

    /// All of another one.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.counts.resize(Self::BOUNDS.len() + 1, 0);
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.sum += other.sum;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tabane_engine::record::{CloseReason, FallbackReason, ReinjectReason};
    use tabane_engine::scheduler::Reason;
    use tabane_engine::seq::{Dsn, Ssn};
    use tabane_engine::view::{PathId, PathSet, SubflowSet};
    use tabane_engine::{Duration, Instant};

    fn record(conn: u64, subflow: Option<u8>, what: What) -> Record {
        let subflow = subflow.map(SubflowId);
        Record::new(Instant::ZERO, Some(ConnId(conn)), subflow, what)
    }

    fn sent(path: u8, retransmission: bool) -> What {
        let paths = PathSet::only(PathId(path));
        What::Sent { paths, ssn: Ssn(0), len: 100, dsn: None, retransmission }
    }

    fn decision(chosen: SubflowSet, reason: Reason) -> What {
        What::Decision { dsn: Dsn(1), eligible: chosen, chosen, reason }
    }

    #[test]
    fn records_are_counted_by_path() {
        let mut record_counters = RecordCounters::default();
        let first = SubflowSet::only(SubflowId(0));
        for record in [
            record(1, Some(0), sent(2, false)),
            record(1, Some(0), sent(2, true)),
            record(1, None, decision(first, Reason::LowestRtt)),
            record(1, None, decision(first, Reason::LowestRtt)),
            record(1, None, decision(SubflowSet::NONE, Reason::NoSpace)),
            // Of a subflow that nothing has been sent on.
            record(9, None, decision(first, Reason::Turn)),
            record(
                1,
                Some(0),
                What::Reinjected { dsn: Dsn(1), len: 70, why: ReinjectReason::Timeout },
            ),
            record(
                1,
                Some(0),
                What::Received { path: PathId(1), ssn: Ssn(0), len: 30, duplicate: true },
            ),
            record(1, None, What::GapFilled { delay: Duration::from_millis(20) }),
            record(1, None, What::Fallback(FallbackReason::Checksum)),
        ] {
            record_counters.take(&record);
        }
        let path = record_counters.path(PathIndex::new(2)).unwrap();
        assert_eq!(path.decisions, [("lowest_rtt".to_owned(), 2)]);
        assert_eq!((path.retransmitted_bytes, path.reinjected_bytes), (100, 70));
        assert_eq!(record_counters.path(PathIndex::new(1)).unwrap().duplicate_bytes, 30);
        let mut all = RecordTotals::default();
        record_counters.add_to(&mut all);
        record_counters.add_to(&mut all);
        assert_eq!(all.held, [("no_room".to_owned(), 2)]);
        assert_eq!(all.fallbacks, [("checksum".to_owned(), 2)]);
        assert_eq!((all.gaps.counts[3], all.gaps.counts.iter().sum::<u64>()), (2, 2));
        assert!((all.gaps.sum - 0.04).abs() < 1e-9);
    }

    #[test]
    fn what_is_over_is_forgotten() {
        let mut record_counters = RecordCounters::default();
        for (conn, subflow) in [(1, 0), (1, 1), (2, 0), (2, 1)] {
            record_counters.take(&record(conn, Some(subflow), sent(0, false)));
        }
        let why = CloseReason::Finished;
        record_counters.take(&record(1, None, What::Connection(ConnectionChange::Closed(why))));
        record_counters.take(&record(2, Some(1), What::Subflow(SubflowChange::Closed(why))));
        assert_eq!(
            record_counters.subflow_paths.keys().collect::<Vec<_>>(),
            [&(ConnId(2), SubflowId(0))]
        );
    }
}
