//! Who gets how much while several flows want it: Jain's index over sliding windows, in which
//! only those count that have begun and not ended.

use crate::fairness::{jain, summarise};
use serde::Serialize;

/// Payload of one flow over time.
#[derive(Clone, PartialEq, Debug)]
pub struct Supply {
    /// Index of its connection in the analysis.
    pub connection: usize,
    /// New payload in each bin, in bytes.
    pub bytes: Vec<f64>,
    /// Bins of its first and last payload.
    pub alive: (usize, usize),
}

/// Fairness among the flows of a capture.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Fairness {
    /// Length of the sliding window, seconds.
    pub window_s: f64,
    /// Where the windows that count begin, seconds since the first packet.
    pub from_s: f64,
    /// Where they end.
    pub to_s: f64,
    /// Mean of Jain's index.
    pub mean: f64,
    pub p05: f64,
    /// Share of time in which it is below 0.9.
    pub below_0_9: f64,
    /// Seconds from `from_s` until it stays at 0.9 or above for ten windows (or to the end).
    pub convergence_s: Option<f64>,
    /// What each flow got in that time.
    pub shares: Vec<Share>,
    /// Connection with the largest share.
    pub winner: usize,
    /// Time and index.
    #[serde(skip)]
    pub points: Vec<(f64, f64)>,
}

/// What one flow got.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Share {
    /// Index of its connection.
    pub connection: usize,
    /// Part of all payload.
    pub share: f64,
    /// Part of the windows in which it got the most.
    pub ahead: f64,
}

/// Windows of this many bins over what flows carry in bins of `interval` seconds, from the one on
/// that begins `skip` bins after the second flow has; `None` if no two flows meet.
pub fn fairness(flows: &[Supply], interval: f64, width: usize, skip: usize) -> Option<Fairness> {
    let width = width.max(1);
    let mut begins: Vec<usize> = flows.iter().map(|f| f.alive.0).collect();
    begins.sort_unstable();
    let first = begins.get(1)? + skip;
    let last = flows.iter().map(|f| f.alive.1).max()?;
    // Bytes are whole numbers far below 2^53: differences of their sums are exact.
    let sums_to: Vec<Vec<f64>> = flows.iter().map(|f| running(&f.bytes)).collect();
    let mut points = Vec::new();
    let mut sums = vec![0.0; flows.len()];
    let mut ahead = vec![0usize; flows.len()];
    for end in (first + width - 1)..=last {
        let start = end + 1 - width;
        let alive = |f: &Supply| f.alive.0 <= start && end <= f.alive.1;
        let members: Vec<usize> = (0..flows.len()).filter(|&i| alive(&flows[i])).collect();
        if members.len() < 2 {
            continue;
        }
        let got = |i: &usize| sums_to[*i][end + 1] - sums_to[*i][start];
        let shares: Vec<f64> = members.iter().map(got).collect();
        let top = (0..members.len()).max_by(|a, b| shares[*a].total_cmp(&shares[*b]));
        if let Some(top) = top {
            ahead[members[top]] += 1;
        }
        for &i in &members {
            sums[i] += flows[i].bytes[end];
        }
        points.push((end, jain(&shares)));
    }
    let summary = summarise(&points)?;
    let all: f64 = sums.iter().sum();
    let share = |i: usize| Share {
        connection: flows[i].connection,
        share: if all > 0.0 { sums[i] / all } else { 0.0 },
        ahead: ahead[i] as f64 / points.len() as f64,
    };
    let shares: Vec<Share> = (0..flows.len()).map(share).collect();
    let winner = shares.iter().max_by(|a, b| a.share.total_cmp(&b.share))?.connection;
    let from_s = first as f64 * interval;
    Some(Fairness {
        window_s: width as f64 * interval,
        from_s,
        to_s: points.last()?.0 as f64 * interval,
        mean: summary.mean,
        p05: summary.p05,
        below_0_9: summary.unfair,
        convergence_s: converged(&points, width).map(|bin| bin as f64 * interval - from_s),
        shares,
        winner,
        points: points.iter().map(|&(bin, j)| (bin as f64 * interval, j)).collect(),
    })
}

/// The sum of all before each position, and of all.
fn running(values: &[f64]) -> Vec<f64> {
    let mut sum = 0.0;
    let sums = values.iter().map(|value| {
        sum += value;
        sum
    });
    std::iter::once(0.0).chain(sums).collect()
}

/// The bin from which on the index stays high for ten windows, or to the end.
fn converged(points: &[(usize, f64)], width: usize) -> Option<usize> {
    let mut since = None;
    for &(bin, j) in points {
        match since {
            _ if j < 0.9 => since = None,
            None => since = Some(bin),
            Some(start) if bin - start >= 10 * width => return Some(start),
            Some(_) => {}
        }
    }
    since
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_flows_that_are_there_count() {
        let flow =
            |connection, bytes: &[f64], alive| Supply { connection, bytes: bytes.to_vec(), alive };
        let one = flow(4, &[9.0, 9.0, 3.0, 3.0, 2.0, 2.0, 2.0, 2.0], (0, 7));
        let two = flow(7, &[0.0, 0.0, 1.0, 1.0, 2.0, 2.0, 2.0, 0.0], (2, 6));
        let both = fairness(&[one.clone(), two.clone()], 0.5, 2, 0).unwrap();
        let expected = [(1.5, 0.8), (2.0, 0.941_176_470_588_235_3), (2.5, 1.0), (3.0, 1.0)];
        assert_eq!(both.points.len(), expected.len());
        for (point, expected) in both.points.iter().zip(expected) {
            assert_eq!(point.0, expected.0);
            assert!((point.1 - expected.1).abs() < 1e-12, "{point:?}");
        }
        assert_eq!((both.winner, both.from_s, both.convergence_s), (4, 1.0, Some(1.0)));
        assert_eq!(both.below_0_9, 0.25);
        // 3, 2, 2, 2 against 1, 2, 2, 2: what the first windows shared with no one is not counted.
        assert!((both.shares[0].share - 9.0 / 16.0).abs() < 1e-12);
        assert_eq!(fairness(&[one], 0.5, 2, 0), None);
        assert_eq!(fairness(&[two.clone(), flow(1, &[1.0; 9], (7, 8))], 0.5, 1, 0), None);
    }
}
