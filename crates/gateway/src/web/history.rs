//! The last minutes of every path, a sample a second, so that graphs are full when a page opens.

use crate::model::{PathState, Status};
use serde::Serialize;
use std::collections::VecDeque;

/// Samples of the paths of an agent. At [`SAMPLES`] the oldest goes; paths beyond [`PATHS`] have
/// no graphs.
#[derive(Default, Debug)]
pub(super) struct History {
    /// Samples ever taken.
    taken: u64,
    paths: Vec<Series>,
}

/// What is new since a sample.
#[derive(Serialize, PartialEq, Debug)]
pub(super) struct Samples {
    /// Samples ever taken: the number to ask with next.
    pub(super) taken: u64,
    pub(super) paths: Vec<SeriesSince>,
}

/// The newest samples of one path, oldest first.
#[derive(Serialize, PartialEq, Debug)]
pub(super) struct SeriesSince {
    pub(super) key: String,
    /// Bits per second.
    pub(super) rx: Vec<f32>,
    /// Bits per second.
    pub(super) tx: Vec<f32>,
    /// Milliseconds; null while it does not work.
    pub(super) rtt: Vec<Option<f32>>,
}

#[derive(Debug)]
struct Series {
    key: String,
    samples: VecDeque<Sample>,
    /// When it was seen last.
    seen: u64,
}

#[derive(Clone, Copy, Debug)]
struct Sample {
    rx: f32,
    tx: f32,
    rtt: Option<f32>,
}

/// Samples kept of a path: five minutes.
pub(super) const SAMPLES: usize = 300;
/// Paths with a history.
pub(super) const PATHS: usize = 64;

impl History {
    /// Takes a sample.
    pub(super) fn take(&mut self, status: &Status) {
        self.taken += 1;
        for path in &status.paths {
            let key = key(path.client.as_deref(), &path.name);
            let sample = Sample {
                rx: path.rx_bps as f32,
                tx: path.tx_bps as f32,
                rtt: path.rtt_ms.filter(|_| path.state == PathState::Up).map(|ms| ms as f32),
            };
            let Some(series) = self.series(key) else { continue };
            series.samples.push_back(sample);
            if series.samples.len() > SAMPLES {
                series.samples.pop_front();
            }
        }
        let taken = self.taken;
        self.paths.retain(|series| series.seen == taken);
    }

    /// The samples after number `since`; all that are kept if that is too long ago.
    pub(super) fn since(&self, since: u64) -> Samples {
        let wanted = usize::try_from(self.taken.saturating_sub(since)).unwrap_or(usize::MAX);
        let paths = self.paths.iter().map(|series| {
            let skipped = series.samples.len().saturating_sub(wanted);
            let new = || series.samples.iter().skip(skipped);
            SeriesSince {
                key: series.key.clone(),
                rx: new().map(|sample| sample.rx).collect(),
                tx: new().map(|sample| sample.tx).collect(),
                rtt: new().map(|sample| sample.rtt).collect(),
            }
        });
        Samples { taken: self.taken, paths: paths.collect() }
    }

    fn series(&mut self, key: String) -> Option<&mut Series> {
        let at = match self.paths.iter().position(|series| series.key == key) {
            Some(at) => at,
            None if self.paths.len() == PATHS => return None,
            None => {
                self.paths.push(Series { key, samples: VecDeque::new(), seen: 0 });
                self.paths.len() - 1
            }
        };
        let series = &mut self.paths[at];
        series.seen = self.taken;
        Some(series)
    }
}

/// Names a path among those of all clients, as the page does.
fn key(client: Option<&str>, name: &str) -> String {
    client.map_or_else(|| name.to_owned(), |client| format!("{client}/{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::PathStatus;

    fn status(rates: &[(&str, f64)]) -> Status {
        let path = |&(name, rx_bps): &(&str, f64)| PathStatus {
            name: name.into(),
            rx_bps,
            rtt_ms: Some(7.0),
            state: PathState::Up,
            ..PathStatus::default()
        };
        Status { paths: rates.iter().map(path).collect(), ..Status::default() }
    }

    #[test]
    fn only_what_is_new_is_given() {
        let mut history = History::default();
        history.take(&status(&[("a", 1.0), ("b", 9.0)]));
        history.take(&status(&[("a", 2.0), ("b", 9.0)]));
        let all = history.since(0);
        assert_eq!((all.taken, &all.paths[0].rx), (2, &vec![1.0, 2.0]));
        assert_eq!(history.since(1).paths[0].rx, [2.0]);
        assert_eq!(history.since(2).paths[0].rx, [0.0; 0]);
        assert_eq!(history.since(99).paths[0].rx, [0.0; 0]);
        history.take(&status(&[("a", 3.0)]));
        assert_eq!(history.since(0).paths.len(), 1, "a path that is gone is forgotten");
    }

    #[test]
    fn it_is_bounded() {
        let mut history = History::default();
        let names: Vec<String> = (0..PATHS + 3).map(|n| n.to_string()).collect();
        let rates: Vec<(&str, f64)> = names.iter().map(|name| (name.as_str(), 1.0)).collect();
        for _ in 0..SAMPLES + 5 {
            history.take(&status(&rates));
        }
        let all = history.since(0);
        assert_eq!((all.paths.len(), all.paths[0].rx.len()), (PATHS, SAMPLES));
    }
}
