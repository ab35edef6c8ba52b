//! The experimental design: points of the unit cube chosen by WSP (Wootton, Sergent, Phan-Tan-Luu;
//! Santiago, Claeys-Bruno, Sergent: Construction of space-filling designs using WSP algorithm for
//! high dimensional spaces. Chemometrics and Intelligent Laboratory Systems 113, 2012), and the
//! scenarios that they are. Not here: the authors' own points, which are of the same kind.

use tabane_sim::seed::Seed;

/// Of the design: it is the experiment, the same whatever the seed of the runs.
const SEED: Seed = Seed(1);

/// Random points that WSP chooses from.
const CANDIDATES: usize = 2_000;

/// Capacity, round trip, queueing delay and loss of each of two paths.
const FACTORS: usize = 8;

/// Of a scenario, each from 0 to 1.
pub(super) type Point = [f64; FACTORS];

/// One of the paper's four classes: where its factors end; all begin at zero but the capacity.
#[derive(Clone, Copy, Debug)]
pub(super) struct Class {
    pub(super) id: &'static str,
    pub(super) name: &'static str,
    /// Milliseconds.
    rtt: f64,
    /// Milliseconds.
    queueing: f64,
    /// Percent.
    loss: f64,
}

pub(super) const CLASSES: [Class; 4] = [
    Class { id: "low", name: "low BDP, no losses", rtt: 50.0, queueing: 100.0, loss: 0.0 },
    Class { id: "low-loss", name: "low BDP, losses", rtt: 50.0, queueing: 100.0, loss: 2.5 },
    Class { id: "high", name: "high BDP, no losses", rtt: 400.0, queueing: 2000.0, loss: 0.0 },
    Class { id: "high-loss", name: "high BDP, losses", rtt: 400.0, queueing: 2000.0, loss: 2.5 },
];

/// Mbit/s.
const CAPACITY: (f64, f64) = (0.1, 100.0);

/// Packets that a queue holds at least, as in the authors' scripts.
const SHORTEST: f64 = 10.0;

/// A path of a scenario.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub(super) struct Path {
    /// Mbit/s.
    pub(super) capacity: f64,
    /// Milliseconds, of propagation.
    pub(super) rtt: f64,
    /// Milliseconds, of a full queue.
    pub(super) queueing: f64,
    /// Percent, each way.
    pub(super) loss: f64,
}

impl Path {
    /// Its keys in a scenario, where it is the link `name`.
    pub(super) fn sets(&self, name: &str) -> Vec<(String, String)> {
        let queue = (self.capacity * self.queueing * 125.0).max(SHORTEST * 1500.0);
        let values = [
            ("rate", format!("{:.2}Mbps", self.capacity)),
            ("delay", format!("{:.2}ms", self.rtt / 2.0)),
            ("queue", format!("{queue:.0}B")),
            ("loss", format!("{:.2}%", self.loss)),
        ];
        values.map(|(key, value)| (format!("link.{name}.{key}"), value)).to_vec()
    }

    /// For people.
    pub(super) fn words(&self) -> String {
        let Self { capacity, rtt, queueing, loss } = self;
        format!("{capacity:.2} Mbit/s, {rtt:.0} ms, queue {queueing:.0} ms, loss {loss:.2} %")
    }
}

impl Class {
    /// The two paths of a point.
    pub(super) fn paths(&self, point: &Point) -> [Path; 2] {
        [0, 4].map(|at| {
            let (low, high) = CAPACITY;
            Path {
                capacity: low + (high - low) * point[at],
                rtt: self.rtt * point[at + 1],
                queueing: self.queueing * point[at + 2],
                loss: self.loss * point[at + 3],
            }
        })
    }
}

/// The design of `all` points, or `few` chosen from them in the same way.
pub(super) fn design(all: usize, few: Option<usize>) -> Vec<Point> {
    let mut random = SEED.stream("papers/wsp");
    let point = |_| std::array::from_fn(|_| random.uniform());
    let candidates: Vec<Point> = (0..CANDIDATES).map(point).collect();
    let chosen = choose(&candidates, all);
    few.map_or_else(|| chosen.clone(), |few| choose(&chosen, few))
}

/// So many of `points`, as far from each other as WSP gets: the distance is sought by halving.
pub(super) fn choose(points: &[Point], many: usize) -> Vec<Point> {
    let (mut near, mut far) = (0.0, (FACTORS as f64).sqrt());
    let mut best = points.to_vec();
    for _ in 0..40 {
        let distance = (near + far) / 2.0;
        let chosen = wsp(points, distance);
        if chosen.len() < many {
            far = distance;
        } else {
            near = distance;
            best = chosen;
        }
    }
    // The number falls in steps: the end of the walk goes if no distance leaves just so many.
    best.truncate(many);
    best
}

/// WSP: from the point nearest to the centre on, those nearer than `distance` are struck out, and
/// the walk goes on at the nearest that is left.
fn wsp(points: &[Point], distance: f64) -> Vec<Point> {
    let mut left = points.to_vec();
    let mut chosen = Vec::new();
    let mut here = [0.5; FACTORS];
    let nearest = |left: &[Point], here: &Point| {
        (0..left.len()).min_by(|&a, &b| square(&left[a], here).total_cmp(&square(&left[b], here)))
    };
    while let Some(next) = nearest(&left, &here) {
        here = left.swap_remove(next);
        chosen.push(here);
        left.retain(|point| square(point, &here) >= distance * distance);
    }
    chosen
}

fn square(a: &Point, b: &Point) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn least_distance(points: &[Point]) -> f64 {
        let others = |n: usize| points[n + 1..].iter().map(move |b| square(&points[n], b).sqrt());
        (0..points.len()).flat_map(others).fold(f64::MAX, f64::min)
    }

    #[test]
    fn the_design_fills_the_cube() {
        let points = design(253, None);
        assert_eq!(points.len(), 253);
        assert_eq!(points, design(253, None), "the same every time");
        let mut random = SEED.stream("by chance");
        let chance: Vec<Point> =
            (0..253).map(|_| std::array::from_fn(|_| random.uniform())).collect();
        let (chosen, chance) = (least_distance(&points), least_distance(&chance));
        assert!(chosen > 2.0 * chance, "{chosen} apart, by chance {chance}");
        let few = design(253, Some(8));
        assert_eq!(few.len(), 8);
        assert!(few.iter().all(|point| points.contains(point)), "they are some of them");
        assert!(least_distance(&few) > chosen);
    }

    #[test]
    fn factors_span_the_published_ranges() {
        let ends = |class: &Class, at: f64| class.paths(&[at; FACTORS])[1];
        let low = Path { capacity: 0.1, rtt: 0.0, queueing: 0.0, loss: 0.0 };
        assert_eq!(ends(&CLASSES[3], 0.0), low);
        let high = Path { capacity: 100.0, rtt: 400.0, queueing: 2000.0, loss: 2.5 };
        assert_eq!(ends(&CLASSES[3], 1.0), high);
        assert_eq!(ends(&CLASSES[0], 1.0).loss, 0.0);
        let queue = |path: Path| path.sets("first")[2].1.clone();
        assert_eq!(queue(low), "15000B", "ten packets at least");
        assert_eq!(queue(high), "25000000B");
    }
}
