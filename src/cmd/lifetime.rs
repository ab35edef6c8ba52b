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

const MAX_S: u64 = 30 * 86_400;

/// Human-readable.
pub(super) fn text(seconds: u64) -> String {
    match seconds {
        0..3600 => format!("{seconds} s"),
        3600..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
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
        assert_eq!([text(59), text(86_400), text(604_800)], ["59 s", "24 h", "7 days"]);
    }
}
