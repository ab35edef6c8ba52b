//! The rows of the table.

use super::probe::Setting;
use super::{queues, windows};

/// A formula and what the simulator does.
pub(crate) struct Row {
    /// By which the page speaks of it.
    pub(crate) name: &'static str,
    /// What is compared, with its unit.
    pub(crate) what: &'static str,
    /// The formula.
    pub(crate) formula: &'static str,
    pub(crate) source: &'static str,
    pub(crate) setting: Setting,
    pub(crate) theory: f64,
    pub(crate) ours: f64,
    /// How far apart they may be: a factor.
    pub(crate) within: f64,
}

impl Row {
    /// Ours over theory.
    pub(crate) fn ratio(&self) -> f64 {
        self.ours / self.theory
    }
}

/// Runs, in the order of the table; one may make several rows.
pub(crate) const ALL: &[fn() -> Vec<Row>] = &[
    windows::mathis_periodic,
    windows::mathis_random,
    windows::pftk_1,
    windows::pftk_5,
    windows::cubic,
    windows::highspeed_10000,
    windows::highspeed_50000,
    windows::reno_rtt,
    windows::cubic_rtt,
    queues::waiting,
    windows::lia,
    windows::olia,
    windows::balia,
    windows::uncoupled,
    windows::lia_tail,
    windows::olia_tail,
    windows::balia_tail,
    windows::uncoupled_tail,
    queues::bbr_startup,
    queues::bbr_probe,
];
