//! Which kinds of links points are generated with.

use super::AccessPath;
use super::point::scale;
use crate::seed::Rng;
use serde::Serialize;
use std::fmt;
use std::str::FromStr;

/// Kinds of links.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Links {
    /// Constant rates and delays, losses each by itself, queues of a quarter to four times the
    /// bandwidth-delay product.
    #[default]
    Steady,
    /// Losses in bursts that last as long as 3 to 30 packets (the model `bursts`), 0.05 to 2 %.
    Bursty,
    /// The models `leo` and `cellular`.
    Varying,
    /// Queues of half a second to three seconds.
    Bloated,
    /// The four in turn, by the number of the point.
    All,
}

/// Their names.
const NAMES: [(&str, Links); 5] = [
    ("steady", Links::Steady),
    ("bursty", Links::Bursty),
    ("varying", Links::Varying),
    ("bloated", Links::Bloated),
    ("all", Links::All),
];

/// Paths of a point that are of the kind; one at least is.
const SHARE: f64 = 0.7;

impl Links {
    /// Whether points are what they were before there were other kinds.
    pub fn is_steady(&self) -> bool {
        *self == Self::Steady
    }

    /// The kind of this point.
    pub(super) fn of_point(self, number: u32) -> Self {
        const TURN: [Links; 4] = [Links::Steady, Links::Bursty, Links::Varying, Links::Bloated];
        match self {
            Self::All => TURN[number as usize % TURN.len()],
            one => one,
        }
    }

    /// Makes paths of the kind out of steady ones.
    pub(super) fn change(self, paths: &mut [AccessPath], rng: &mut Rng) {
        let sure = rng.between(0, paths.len() as u64 - 1) as usize;
        for (n, path) in paths.iter_mut().enumerate() {
            if !rng.chance(SHARE) && n != sure {
                continue;
            }
            match self {
                Self::Steady | Self::All => {}
                Self::Bursty => {
                    path.loss = scale(rng, 500, 20_000) as f64 / 1e6;
                    path.burst = Some(scale(rng, 3_000, 30_000) as f64 / 1e3);
                }
                Self::Varying if rng.chance(0.5) => path.conditions = Some("leo".into()),
                Self::Varying => {
                    let (dwell, queue) = (scale(rng, 100, 2_000), scale(rng, 250, 2_000));
                    let queue = queue as f64 / 1e3;
                    let model = format!("cellular:dwell_ms={dwell},queue_s={queue}");
                    path.conditions = Some(model);
                }
                Self::Bloated => {
                    path.queue_bytes = path.rate_bps / 8 * scale(rng, 500, 3_000) / 1_000
                }
            }
        }
    }
}

impl fmt::Display for Links {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = NAMES.iter().find(|(_, links)| links == self).map_or("", |(name, _)| name);
        f.write_str(name)
    }
}

impl FromStr for Links {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let found = NAMES.iter().find(|(name, _)| *name == text).map(|(_, links)| *links);
        found.ok_or_else(|| "there are steady, bursty, varying, bloated, all".to_owned())
    }
}
