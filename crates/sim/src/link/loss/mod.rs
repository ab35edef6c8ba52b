//! Loss models: which packets never arrive although they were sent.

mod bernoulli;
mod gilbert;
mod periodic;

use crate::seed::Rng;
use tabane_engine::policy::{Entry, Param, PolicyError, Registry, Spec, Values};

/// Decides packet by packet, in order.
pub trait Loss: Send {
    /// Whether the next packet is lost.
    fn lost(&mut self, rng: &mut Rng) -> bool;
}

/// Signature of a row's constructor. `None` loses nothing and costs nothing.
pub type Build = dyn Fn(&Values<'_>) -> Result<Option<Box<dyn Loss>>, PolicyError> + Send + Sync;

/// Every loss model.
pub const ALL: &[Entry<Build>] = &[
    Entry { name: "none", aliases: &[], summary: "no loss", params: &[], build: &|_| Ok(None) },
    Entry {
        name: "bernoulli",
        aliases: &["random"],
        summary: "each packet by itself, with the same probability",
        params: &[Param::new("p", 0.01, 0.0..=1.0, "probability")],
        build: &bernoulli::Bernoulli::build,
    },
    Entry {
        name: "gilbert",
        aliases: &["gilbert-elliott"],
        summary: "bursts: a good and a bad state, each with its own loss",
        params: &[
            Param::new("p", 0.01, 0.0..=1.0, "probability per packet to go from good to bad"),
            Param::new("r", 0.25, 0.0..=1.0, "probability per packet to go from bad to good"),
            Param::new("good", 0.0, 0.0..=1.0, "loss in the good state"),
            Param::new("bad", 1.0, 0.0..=1.0, "loss in the bad state"),
        ],
        build: &gilbert::Gilbert::build,
    },
    Entry {
        name: "periodic",
        aliases: &[],
        summary: "each n-th packet",
        params: periodic::PARAMS,
        build: &periodic::Periodic::build,
    },
];

/// What can be named: [`ALL`], and what a program registers.
pub static REGISTRY: Registry<Build> = Registry::new("loss model", ALL);

/// Makes the model that `spec` names.
///
/// # Errors
/// [`PolicyError`] for unknown names and parameters, and values out of range.
pub fn build(spec: &Spec) -> Result<Option<Box<dyn Loss>>, PolicyError> {
    let (entry, values) = REGISTRY.find(spec)?;
    (entry.build)(&values)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed::Seed;

    const N: usize = 400_000;

    fn sample(spec: &str) -> Vec<bool> {
        let mut model = build(&spec.parse().unwrap()).unwrap().unwrap();
        let mut rng = Seed(11).stream(spec);
        (0..N).map(|_| model.lost(&mut rng)).collect()
    }

    fn share(lost: &[bool]) -> f64 {
        lost.iter().filter(|l| **l).count() as f64 / lost.len() as f64
    }

    /// Mean length of runs of losses.
    fn burst(lost: &[bool]) -> f64 {
        let starts = lost.windows(2).filter(|w| !w[0] && w[1]).count();
        lost.iter().filter(|l| **l).count() as f64 / starts as f64
    }

    #[test]
    fn bernoulli_loses_its_share_in_no_bursts() {
        let lost = sample("bernoulli:p=0.02");
        assert!((share(&lost) - 0.02).abs() < 0.001, "{}", share(&lost));
        assert!((burst(&lost) - 1.0 / 0.98).abs() < 0.02, "{}", burst(&lost));
        assert_eq!(share(&sample("bernoulli:p=0")), 0.0);
        assert_eq!(share(&sample("bernoulli:p=1")), 1.0);
    }

    #[test]
    fn gilbert_has_the_mean_and_the_bursts_of_its_chain() {
        let lost = sample("gilbert:p=0.01,r=0.25");
        assert!((share(&lost) - 0.01 / 0.26).abs() < 0.002, "{}", share(&lost));
        assert!((burst(&lost) - 4.0).abs() < 0.15, "{}", burst(&lost));
        let lost = sample("gilbert:p=0.05,r=0.2,good=0.01,bad=0.5");
        let mean = (0.05 * 0.5 + 0.2 * 0.01) / 0.25;
        assert!((share(&lost) - mean).abs() < 0.004, "{} {mean}", share(&lost));
    }

    #[test]
    fn periodic_loses_each_nth_packet() {
        let lost = sample("periodic:n=100");
        assert_eq!(lost.iter().filter(|l| **l).count(), N / 100);
        assert!(lost.iter().skip(99).step_by(100).all(|l| *l));
        assert_eq!(share(&sample("periodic:n=1")), 1.0);
    }

    #[test]
    fn nonsense_is_refused() {
        for spec in [
            "periodic:n=0",
            "periodic:n=1.9",
            "bernoulli:p=1.1",
            "gilbert:p=-1",
            "bernoulli:q=1",
            "lossy",
        ] {
            assert!(build(&spec.parse().unwrap()).is_err(), "{spec}");
        }
    }
}
