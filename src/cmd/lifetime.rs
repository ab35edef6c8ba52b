//! Times of day and more, as options take them: `30min`, `24h`, `7d`.

use tabane_config::quantity::Time;

/// Seconds, up to 30 days.
///
/// # Errors
/// A human-readable message when it is no duration in that range.
pub(super) fn seconds(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let whole = |unit| text.strip_suffix(unit).and_then(|number| number.trim().parse().ok());
    let seconds = match (whole("d"), whole("h")) {
        (Some(days), _) => u64::saturating_mul(days, 86_400),
        (None, Some(hours)) => u64::saturating_mul(hours, 3600),
        (None, None) => text.parse::<Time>()?.0.as_secs_f64() as u64,
    };
    match seconds {
        0..=MAX_S => Ok(seconds),
        _ => Err("at most 30 days".into()),
    }
}

/// As [`seconds`], of what would be over at once with none.
///
/// # Errors
/// As there.
pub(super) fn some_seconds(text: &str) -> Result<u64, String> {
    match seconds(text)? {
        0 => Err("at least a second".into()),
        some => Ok(some),
    }
}

const MAX_S: u64 = 30 * 86_400;

/// Human-readable.
pub(super) fn text(seconds: u64) -> String {
    let units = [(86_400, 2, "days"), (3600, 1, "h"), (60, 1, "min")];
    let whole = |&(unit, least, _): &(u64, u64, &str)| {
        seconds.is_multiple_of(unit) && seconds >= least * unit
    };
    match units.iter().find(|unit| whole(unit)) {
        Some((unit, _, name)) => format!("{} {name}", seconds / unit),
        None => format!("{seconds} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hours_and_days_are_times_too() {
        for (given, expected) in [("24h", 86_400), ("7d", 604_800), ("30min", 1800), ("5s", 5)] {
            assert_eq!(seconds(given), Ok(expected));
        }
        assert!(seconds("31d").is_err() && seconds("h").is_err() && seconds("1y").is_err());
        assert!(some_seconds("0s").is_err() && some_seconds("0.2s").is_err());
        assert_eq!((seconds("0s"), some_seconds("5s")), (Ok(0), Ok(5)));
        assert_eq!([text(59), text(86_400), text(604_800)], ["59 s", "24 h", "7 days"]);
        assert_eq!([text(5400), text(90_000), text(61)], ["90 min", "25 h", "61 s"]);
    }
}
