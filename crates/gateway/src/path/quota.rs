//! Quotas: bytes that a path may carry in a period, remembered in a file.
//!
//! Periods are days and months of UTC, or so many days, counted from the first of January 1970.
//! The file is JSON, one entry a path; it is replaced as a whole (written beside, then renamed),
//! so that a crash leaves the old one or the new one. What was carried since the last save is
//! forgotten by a crash: the agent saves every [`SAVE_EVERY`] and at its end.

use crate::whole_file::{self, Access};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use tabane_config::bounded;
use tabane_engine::Duration;
use thiserror::Error;

/// The quota of one path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Quota {
    limit: u64,
    period: Period,
    used: Used,
}

/// How long a quota lasts.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) enum Period {
    /// From midnight to midnight.
    Day,
    /// From the first day on.
    #[default]
    Month,
    /// So many days.
    Days(u32),
}

/// What a path has carried; an entry of the file.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, Debug)]
pub(crate) struct Used {
    /// When the period began, in seconds since 1970: that says it whatever the period is now.
    #[serde(default)]
    pub(crate) since: u64,
    /// Instead, in files of version 0.1.0: the number of the period.
    #[serde(default, skip_serializing)]
    pub(crate) period: Option<u64>,
    /// Bytes in it.
    pub(crate) bytes: u64,
}

/// Where the quotas of all paths are remembered, by the paths' names.
#[derive(Debug)]
pub(crate) struct QuotaFile {
    path: PathBuf,
    paths: BTreeMap<String, Used>,
    saved: BTreeMap<String, Used>,
}

/// The file cannot be used.
#[derive(Error, Debug)]
pub(crate) enum QuotaError {
    /// Not read.
    #[error("cannot read the quotas of {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It holds something else.
    #[error("{path} does not hold quotas: {source}; move it away to begin anew")]
    Content {
        /// The file.
        path: PathBuf,
        /// Why.
        source: serde_json::Error,
    },
    /// Not written.
    #[error("cannot save the quotas to {path}: {source}")]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Between saves.
pub(crate) const SAVE_EVERY: Duration = Duration::from_secs(30);
const DAY: u64 = 86_400;
/// No clock is set back by so many seconds in order.
const FAR: u64 = 366 * DAY;
/// 2025-01-01: a clock that says it is earlier has not been set.
const SET: u64 = 20_089 * DAY;

impl Quota {
    /// `limit` bytes in each period, of which `used` were carried before.
    #[must_use]
    pub(crate) fn new(limit: u64, period: Period, mut used: Used) -> Self {
        if let Some(number) = used.period.take() {
            used.since = period.start(number);
            // A number of days says nothing of months: what it counted is of no time.
            if used.since == 0 {
                used.bytes = 0;
            }
        }
        Self { limit, period, used }
    }

    /// Counts bytes of either direction; `unix` is the time in seconds since 1970.
    pub(crate) fn add(&mut self, unix: u64, bytes: u64) {
        self.roll(unix);
        self.used.bytes = self.used.bytes.saturating_add(bytes);
    }

    /// Bytes that are left in this period.
    pub(crate) fn left(&mut self, unix: u64) -> u64 {
        self.roll(unix);
        self.limit.saturating_sub(self.used.bytes)
    }

    /// Why the path may carry nothing any more, for people.
    pub(crate) fn spent(&mut self, unix: u64) -> Option<String> {
        if self.left(unix) > 0 {
            return None;
        }
        let next = self.period.number(self.used.since) + 1;
        let (year, month, day) = date(self.period.start(next));
        let limit = tabane_config::quantity::Size(self.limit);
        Some(format!("its quota of {limit} is used up until {year}-{month:02}-{day:02}"))
    }

    /// What is to be remembered.
    #[must_use]
    pub(crate) fn used(&self) -> Used {
        self.used
    }

    /// A clock that was set back does not give a period anew. What was carried in a period of
    /// another kind counts where that began in the present one. A period that begins years from
    /// now comes from a clock that was wrong. A clock that has not been set yet says nothing: a
    /// board that has none of its own would get a new period by each start.
    fn roll(&mut self, unix: u64) {
        if unix < SET {
            return;
        }
        let since = self.period.start(self.period.number(unix));
        if self.used.since > unix + FAR {
            self.used.since = since;
        }
        if self.used.since == 0 {
            self.used.since = since;
        } else if since > self.used.since {
            self.used = Used { since, ..Used::default() };
        }
    }
}

impl std::str::FromStr for Period {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "day" => Ok(Self::Day),
            "month" => Ok(Self::Month),
            _ => text
                .trim_end_matches("days")
                .trim()
                .parse()
                .ok()
                .filter(|&days| days > 0)
                .map(Self::Days)
                .ok_or_else(|| format!("'{text}' is no period: day, month or a number of days")),
        }
    }
}

impl Period {
    /// Number of the period that a time belongs to.
    fn number(self, unix: u64) -> u64 {
        match self {
            Self::Day => unix / DAY,
            Self::Days(days) => unix / DAY / u64::from(days.max(1)),
            Self::Month => {
                let (year, month, _) = date(unix);
                year * 12 + month - 1
            }
        }
    }

    /// When the period with that number begins.
    fn start(self, number: u64) -> u64 {
        match self {
            Self::Day => number * DAY,
            Self::Days(days) => number * u64::from(days.max(1)) * DAY,
            Self::Month if number < 1970 * 12 => 0,
            Self::Month => days_before(number / 12, number % 12 + 1) * DAY,
        }
    }
}

/// Year, month and day of a time (proleptic Gregorian calendar, UTC).
fn date(unix: u64) -> (u64, u64, u64) {
    let days = unix / DAY;
    // Never too late, and a year early every 1500 years.
    let mut year = 1970 + days / 366;
    while days_before(year + 1, 1) <= days {
        year += 1;
    }
    let mut month = 1;
    while month < 12 && days_before(year, month + 1) <= days {
        month += 1;
    }
    (year, month, days - days_before(year, month) + 1)
}

/// Days from the first of January 1970 to the first day of a month.
fn days_before(year: u64, month: u64) -> u64 {
    const BEFORE: [u64; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
    let leap_days = |year: u64| year / 4 - year / 100 + year / 400;
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let years = (year - 1970) * 365 + leap_days(year - 1) - leap_days(1969);
    years + BEFORE[month as usize - 1] + u64::from(leap && month > 2)
}

impl QuotaFile {
    /// Reads the file; one that is not there yet is empty.
    ///
    /// # Errors
    /// [`QuotaError::Read`] and [`QuotaError::Content`].
    pub(crate) fn open(path: &Path) -> Result<Self, QuotaError> {
        let paths: BTreeMap<String, Used> = match bounded::bytes(path, bounded::SOURCE_DOCUMENT) {
            Ok(bytes) => serde_json::from_slice(&bytes)
                .map_err(|source| QuotaError::Content { path: path.into(), source })?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => BTreeMap::new(),
            Err(source) => return Err(QuotaError::Read { path: path.into(), source }),
        };
        Ok(Self { path: path.into(), saved: paths.clone(), paths })
    }

    /// What a path has used.
    #[must_use]
    pub(crate) fn used(&self, path: &str) -> Used {
        self.paths.get(path).copied().unwrap_or_default()
    }

    /// Notes what a path has used; paths that are not noted keep what they had.
    pub(crate) fn note(&mut self, path: &str, used: Used) {
        self.paths.insert(path.into(), used);
    }

    /// Writes the file if anything has changed since it was written.
    ///
    /// # Errors
    /// [`QuotaError::Write`]; the old file is then still there.
    pub(crate) fn save(&mut self) -> Result<(), QuotaError> {
        if self.paths == self.saved {
            return Ok(());
        }
        self.write().map_err(|source| QuotaError::Write { path: self.path.clone(), source })?;
        self.saved.clone_from(&self.paths);
        Ok(())
    }

    fn write(&self) -> io::Result<()> {
        let bytes = serde_json::to_vec_pretty(&self.paths)?;
        whole_file::replace(&self.path, &bytes, Access::Usual)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::fs;

    /// 2026-11-30 23:59:59 UTC.
    const NOVEMBER: u64 = 1_796_083_199;

    #[test]
    fn a_month_is_used_up_and_begins_anew() {
        let mut quota = Quota::new(1_000_000_000, Period::Month, Used::default());
        quota.add(NOVEMBER, 999_999_999);
        assert_eq!((quota.left(NOVEMBER), quota.spent(NOVEMBER)), (1, None));
        quota.add(NOVEMBER, 5_000);
        let why = quota.spent(NOVEMBER).unwrap();
        assert_eq!(why, "its quota of 1GB is used up until 2026-12-01");
        assert_eq!(quota.spent(NOVEMBER + 1), None);
        assert_eq!(quota.left(NOVEMBER + 1), 1_000_000_000);
        // The clock is set back: December stays.
        quota.add(NOVEMBER + 1, 400_000_000);
        assert_eq!(quota.left(NOVEMBER), 600_000_000);
    }

    #[test]
    fn days_and_spans_of_days() {
        let mut quota = Quota::new(100, Period::Day, Used::default());
        quota.add(NOVEMBER, 100);
        assert!(quota.spent(NOVEMBER).unwrap().ends_with("2026-12-01"));
        assert_eq!(quota.spent(NOVEMBER + 1), None);
        let period: Period = "7".parse().unwrap();
        assert_eq!(period, Period::Days(7));
        let week = period.number(NOVEMBER);
        assert_eq!(period.number(period.start(week + 1)), week + 1);
        assert_eq!(period.number(period.start(week + 1) - 1), week);
        assert_eq!("30 days".parse(), Ok(Period::Days(30)));
        assert!("0".parse::<Period>().is_err() && "week".parse::<Period>().is_err());
    }

    /// A board without a clock starts in 1970, and is told the time later.
    #[test]
    fn a_clock_that_is_not_set_begins_no_period() {
        let mut quota = Quota::new(100, Period::Month, Used::default());
        quota.add(5, 30);
        quota.add(NOVEMBER, 30);
        assert_eq!(quota.left(NOVEMBER), 40, "what was carried before the time was known");
        let mut quota = Quota::new(100, Period::Month, quota.used());
        quota.add(5, 40);
        assert!(quota.spent(5).is_some_and(|why| why.ends_with("2026-12-01")));
        assert_eq!((quota.left(NOVEMBER), quota.left(NOVEMBER + 1)), (0, 100));
    }

    /// `quota_period` changes at a reload or a restart.
    #[test]
    fn what_was_used_counts_in_a_period_of_another_kind() {
        let used = |period, used| {
            let mut quota = Quota::new(100, period, used);
            quota.add(NOVEMBER, 70);
            quota.used()
        };
        let of_month = used(Period::Month, Used::default());
        for (period, unix) in [(Period::Day, NOVEMBER + 1), (Period::Days(30), NOVEMBER + 31 * DAY)]
        {
            assert_eq!(Quota::new(100, period, of_month).left(unix), 100, "{period:?}");
        }
        let of_day = used(Period::Day, Used::default());
        let mut quota = Quota::new(100, Period::Month, of_day);
        assert_eq!((quota.left(NOVEMBER), quota.left(NOVEMBER + 1)), (30, 100));
        // A file of version 0.1.0, and what is written now.
        let old: Used = serde_json::from_str(r#"{"period":24322,"bytes":70}"#).unwrap();
        let mut quota = Quota::new(100, Period::Month, old);
        assert_eq!((quota.left(NOVEMBER), quota.left(NOVEMBER + 1)), (30, 100));
        // The numbers of days say nothing of months, nor the other way round.
        for (number, period, left) in [(24_322, Period::Day, 30), (20_787, Period::Month, 100)] {
            let used = Used { period: Some(number), bytes: 70, ..Used::default() };
            assert_eq!(Quota::new(100, period, used).left(NOVEMBER + 1), left, "{period:?}");
        }
        let text = serde_json::to_string(&of_month).unwrap();
        assert_eq!(text, r#"{"since":1793491200,"bytes":70}"#);
        assert_eq!(serde_json::from_str::<Used>(&text).unwrap(), of_month);
    }

    #[test]
    fn dates_of_the_calendar() {
        for (unix, expected) in [
            (0, (1970, 1, 1)),
            (951_782_399, (2000, 2, 28)),
            (951_782_400, (2000, 2, 29)),
            (951_868_800, (2000, 3, 1)),
            (4_107_542_400, (2100, 3, 1)),
            (NOVEMBER, (2026, 11, 30)),
        ] {
            assert_eq!(date(unix), expected, "{unix}");
        }
    }

    #[test]
    fn the_file_survives() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("quota.json");
        let mut file = QuotaFile::open(&path).unwrap();
        assert_eq!(file.used("lte"), Used::default());
        file.save().unwrap();
        assert!(!path.exists(), "nothing to say");
        let used = Used { since: 1_793_491_200, period: None, bytes: 77 };
        file.note("lte", used);
        file.save().unwrap();
        let again = QuotaFile::open(&path).unwrap();
        assert_eq!(again.used("lte"), used);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left beside");
        fs::write(&path, "{").unwrap();
        assert!(matches!(QuotaFile::open(&path), Err(QuotaError::Content { .. })));
        // A folder that is gone: an error, and the count goes on.
        let lost = folder.path().join("gone/quota.json");
        let mut file = QuotaFile::open(&lost).unwrap();
        file.note("lte", used);
        assert!(matches!(file.save(), Err(QuotaError::Write { .. })));
        fs::create_dir(folder.path().join("gone")).unwrap();
        file.save().unwrap();
        assert_eq!(QuotaFile::open(&lost).unwrap().used("lte"), used);
    }

    proptest! {
        #[test]
        fn periods_follow_each_other(unix in 0u64..10_000_000_000, days in 1u32..400) {
            for period in [Period::Day, Period::Month, Period::Days(days)] {
                let number = period.number(unix);
                prop_assert!(period.start(number) <= unix && unix < period.start(number + 1));
            }
        }
    }
}
