//! Loss models: which packets never arrive although they were sent.

mod bernoulli;
mod gilbert;

use crate::seed::Rng;
use tabane_engine::policy::{Entry, Params, PolicyError, Spec};

/// Decides packet by packet, in order.
pub trait Loss: Send {
    /// Whether the next packet is lost.
    fn lost(&mut self, rng: &mut Rng) -> bool;
}

/// Signature of a row's constructor. `None` loses nothing and costs nothing.
pub type Build = fn(&Params) -> Result<Option<Box<dyn Loss>>, PolicyError>;

/// Every loss model.
pub const ALL: &[Entry<Build>] = &[
    Entry { name: "none", aliases: &[], summary: "no loss", params: &[], build: |_| Ok(None) },
    Entry {
        name: "bernoulli",
        aliases: &["random"],
        summary: "each packet by itself, with the same probability",
        params: &[("p", 0.01, "probability, 0 to 1")],
        build: bernoulli::Bernoulli::build,
    },
    Entry {
        name: "gilbert",
        aliases: &["gilbert-elliott"],
        summary: "bursts: a good and a bad state, each with its own loss",
        params: &[
            ("p", 0.01, "probability per packet to go from good to bad"),
            ("r", 0.25, "probability per packet to go from bad to good"),
            ("good", 0.0, "loss in the good state"),
            ("bad", 1.0, "loss in the bad state"),
        ],
        build: gilbert::Gilbert::build,
    },
];

/// Makes the model that `spec` names.
///
/// # Errors
/// [`PolicyError`] for unknown names and parameters, and values out of range.
pub fn build(spec: &Spec) -> Result<Option<Box<dyn Loss>>, PolicyError> {
    (spec.find("loss model", ALL)?.build)(&spec.params)
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
    fn nonsense_is_refused() {
        for spec in ["bernoulli:p=1.1", "gilbert:p=-1", "bernoulli:q=1", "lossy"] {
            assert!(build(&spec.parse().unwrap()).is_err(), "{spec}");
        }
    }
}
