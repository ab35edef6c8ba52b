//! A figure of the table: what was measured, beside what it is to be.

use crate::units;
use serde::Serialize;

/// One line of the table.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(super) struct Figure {
    /// Name of the row that it belongs to.
    pub(super) row: &'static str,
    pub(super) what: String,
    /// In the base unit; none if it was not measured.
    pub(super) value: Option<f64>,
    /// See [`Unit`].
    pub(super) unit: Unit,
    /// What it must be and should be.
    #[serde(flatten)]
    pub(super) target: Target,
    /// See [`Verdict`].
    pub(super) verdict: Verdict,
    /// What something else gave over the same links, in the same unit: see [`super::beside`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) beside: Option<f64>,
    /// What it was made of, or why it was not measured.
    pub(super) note: String,
}

/// Of values and targets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Unit {
    /// 1 is all of it.
    Share,
    /// Bits per second.
    Bps,
    Seconds,
    Bytes,
    /// Processor time of client and server.
    SecondsPerGb,
    /// So many.
    Count,
}

/// What a figure is to be.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub(super) struct Target {
    must: f64,
    aim: f64,
}

/// How a figure stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Verdict {
    /// As good as it should be.
    Aim,
    /// As good as it must be.
    Must,
    /// Not that.
    Missed,
    /// Not measured.
    Skipped,
}

impl Figure {
    /// A measured one.
    pub(super) fn new(
        row: &'static str,
        what: impl Into<String>,
        (value, unit): (f64, Unit),
        target: Target,
    ) -> Self {
        Self {
            row,
            what: what.into(),
            value: Some(value),
            unit,
            target,
            verdict: target.verdict(value),
            beside: None,
            note: String::new(),
        }
    }

    /// With what it was made of.
    pub(super) fn note(mut self, note: impl Into<String>) -> Self {
        self.note = note.into();
        self
    }

    /// With what something else gave.
    pub(super) fn beside(mut self, value: f64) -> Self {
        self.beside = Some(value);
        self
    }

    /// One that could not be measured, and why.
    pub(super) fn skipped(
        row: &'static str,
        what: impl Into<String>,
        unit: Unit,
        target: Target,
        why: &str,
    ) -> Self {
        let verdict = Verdict::Skipped;
        let (what, note) = (what.into(), why.into());
        Self { row, what, value: None, unit, target, verdict, beside: None, note }
    }
}

impl Target {
    /// At least `must`, better `aim`; at most, if `aim` is the smaller one.
    pub(super) const fn new(must: f64, aim: f64) -> Self {
        Self { must, aim }
    }

    /// A share of it: what a part of the whole may take.
    pub(super) fn part(self, share: f64) -> Self {
        Self { must: self.must * share, aim: self.aim * share }
    }

    fn verdict(self, value: f64) -> Verdict {
        let reaches = |goal: f64| if self.aim < self.must { value <= goal } else { value >= goal };
        match (reaches(self.aim), reaches(self.must)) {
            (true, _) => Verdict::Aim,
            (_, true) => Verdict::Must,
            _ => Verdict::Missed,
        }
    }

    /// Both, for the table: `must` and `aim`.
    pub(super) fn words(self, unit: Unit) -> [String; 2] {
        let sign = if self.aim < self.must { "<=" } else { ">=" };
        [self.must, self.aim].map(|goal| format!("{sign} {}", unit.text(goal)))
    }
}

impl Unit {
    /// A human-readable value.
    pub(super) fn text(self, value: f64) -> String {
        match self {
            Self::Share => format!("{:.1} %", value * 100.0),
            Self::Bps => units::rate(value),
            Self::Seconds if value < 0.0 => format!("-{}", units::time(-value)),
            Self::Seconds => units::time(value),
            Self::Bytes => units::bytes(value),
            Self::SecondsPerGb => format!("{value:.2} s/GB"),
            Self::Count => format!("{value:.0}"),
        }
    }
}

impl Verdict {
    /// For the table.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Aim => "aim met",
            Self::Must => "must met",
            Self::Missed => "MISSED",
            Self::Skipped => "skipped",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_way_is_better_follows_from_the_aim() {
        let more = Target::new(0.90, 0.95);
        let verdicts = [0.96, 0.95, 0.91, 0.89].map(|value| more.verdict(value));
        assert_eq!(verdicts, [Verdict::Aim, Verdict::Aim, Verdict::Must, Verdict::Missed]);
        let less = Target::new(1.0, 0.3);
        let verdicts = [0.2, 0.9, 1.1].map(|value| less.verdict(value));
        assert_eq!(verdicts, [Verdict::Aim, Verdict::Must, Verdict::Missed]);
        assert_eq!(more.verdict(f64::NAN), Verdict::Missed);
        assert_eq!(less.words(Unit::Seconds), ["<= 1.00 s", "<= 300.00 ms"]);
    }
}
