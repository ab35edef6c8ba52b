//! Which kinds of links points are generated with.

use super::AccessPath;
use super::point::scale;
use crate::seed::Rng;
use serde::Serialize;
use std::fmt;
use std::str::FromStr;
use tabane_engine::Duration;

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
    /// Each packet later or sooner by some milliseconds, as over radio (in order; a standard
    /// deviation of 0.5 to 8 ms, at most half of the delay), and losses of 0.05 to 2 %, each by
    /// itself.
    Jittery,
    /// The five in turn, by the number of the point.
    All,
}

/// Their names.
const NAMES: [(&str, Links); 6] = [
    ("steady", Links::Steady),
    ("bursty", Links::Bursty),
    ("varying", Links::Varying),
    ("bloated", Links::Bloated),
    ("jittery", Links::Jittery),
    ("all", Links::All),
];

/// Paths of a point that are of the kind; one at least is.
const SHARE: f64 = 0.7;

impl Links {
    /// Those that `All` takes.
    pub const TURN: [Self; 5] =
        [Self::Steady, Self::Bursty, Self::Varying, Self::Bloated, Self::Jittery];

    /// Whether points are what they were before there were other kinds.
    pub fn is_steady(&self) -> bool {
        *self == Self::Steady
    }

    /// The kind of this point.
    pub(super) fn of_point(self, number: u32) -> Self {
        match self {
            Self::All => Self::TURN[number as usize % Self::TURN.len()],
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
                Self::Jittery => {
                    path.loss = scale(rng, 500, 20_000) as f64 / 1e6;
                    path.jitter = Duration::from_micros(scale(rng, 500, 8_000)).min(path.delay / 2);
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
        found.ok_or_else(|| format!("there are {}", NAMES.map(|(name, _)| name).join(", ")))
    }
}
