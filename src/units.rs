//! Figures with units that people read: two digits after the point, the largest unit that fits.

/// `94.90 Mbit/s`.
pub(crate) fn rate(bps: f64) -> String {
    scaled(bps, &[(1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s"), (1.0, "bit/s")])
}

/// `20.00 MB`.
pub(crate) fn bytes(bytes: f64) -> String {
    scaled(bytes, &[(1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B")])
}

/// `83.62 ms`.
pub(crate) fn time(s: f64) -> String {
    scaled(s, &[(1.0, "s"), (1e-3, "ms"), (1e-6, "µs")])
}

/// `2 h 14 min`: a span for people, two units.
pub(crate) fn span(s: f64) -> String {
    let s = s.max(0.0) as u64;
    match (s / 86_400, s / 3600 % 24, s / 60 % 60, s % 60) {
        (0, 0, 0, s) => format!("{s} s"),
        (0, 0, min, s) => format!("{min} min {s} s"),
        (0, h, min, _) => format!("{h} h {min} min"),
        (days, h, _, _) => format!("{days} d {h} h"),
    }
}

/// `2026-01-31 23:59:58.123`, UTC, of a Unix time in milliseconds.
pub(crate) fn utc(unix_ms: u64) -> String {
    let (days, ms) = (unix_ms / 86_400_000, unix_ms % 86_400_000);
    let (year, month, day) = date(days);
    let (h, min, s, ms) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60, ms % 1000);
    format!("{year:04}-{month:02}-{day:02} {h:02}:{min:02}:{s:02}.{ms:03}")
}

/// Year, month and day of a number of days since 1970 in the Gregorian calendar: years begin in
/// March, so that the leap day is the last of its year.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + u64::from(month <= 2), month, day)
}

fn scaled(value: f64, units: &[(f64, &str)]) -> String {
    let found = units.iter().find(|u| value >= u.0).or(units.last());
    let (divisor, unit) = found.copied().unwrap_or((1.0, ""));
    format!("{:.2} {unit}", value / divisor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_and_dates() {
        assert_eq!(
            [0.9, 75.0, 8123.0, 90_000.0].map(span),
            ["0 s", "1 min 15 s", "2 h 15 min", "1 d 1 h"]
        );
        // `date -u -d @N`
        for (s, text) in [
            (0, "1970-01-01 00:00:00.000"),
            (951_782_399, "2000-02-28 23:59:59.000"),
            (951_782_400, "2000-02-29 00:00:00.000"),
            (1_709_164_800, "2024-02-29 00:00:00.000"),
            (4_107_542_400, "2100-03-01 00:00:00.000"),
        ] {
            assert_eq!(utc(s * 1000), text);
        }
    }
}
