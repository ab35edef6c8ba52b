//! Times as people write them on the command line: a date and a time of day in UTC, or how long
//! ago.

use tabane_config::quantity::Time;

/// Milliseconds since 1970 of `text`, at `now_ms`: `2026-11-24 18:00`, `2026-11-24T18:00:30Z`,
/// `18:00` (today), `yesterday`, `yesterday 18:00`, `2h ago`, `3d ago`, `now`.
///
/// # Errors
/// What to write, for people.
pub(super) fn parse(text: &str, now_ms: u64) -> Result<u64, String> {
    let wrong = || {
        format!(
            "'{text}' is no time: 2026-11-24 18:00 (UTC), 18:00, yesterday 18:00, 2h ago, 3d ago, \
             now"
        )
    };
    let text = text.trim();
    if text == "now" {
        return Ok(now_ms);
    }
    if let Some(ago) = text.strip_suffix("ago") {
        let ago = ago.trim();
        let days = ago.strip_suffix('d').and_then(|days| days.trim().parse::<u64>().ok());
        let ms = match days {
            Some(days) => days.saturating_mul(86_400_000),
            None => ago.parse::<Time>().map_err(|_| wrong())?.0.0 / 1_000_000,
        };
        return Ok(now_ms.saturating_sub(ms));
    }
    let today = now_ms / 86_400_000;
    let plain = text.strip_suffix('Z').unwrap_or(text);
    let (day, time) = match plain.split_once([' ', 'T']) {
        Some((day, time)) => (day, Some(time)),
        None if plain.contains(':') => ("today", Some(plain)),
        None => (plain, None),
    };
    let days = match day {
        "today" => today,
        "yesterday" => today.saturating_sub(1),
        date => days(date).ok_or_else(wrong)?,
    };
    let ms = time.map_or(Some(0), of_day).ok_or_else(wrong)?;
    Ok(days * 86_400_000 + ms)
}

/// Milliseconds of `18:00`, `18:00:30` or `18:00:30.5`.
fn of_day(text: &str) -> Option<u64> {
    let mut parts = text.split(':');
    let (hours, minutes): (u64, u64) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    let seconds: f64 = parts.next().map_or(Ok(0.0), str::parse).ok()?;
    let sound = hours < 24 && minutes < 60 && (0.0..60.0).contains(&seconds);
    (sound && parts.next().is_none())
        .then(|| hours * 3_600_000 + minutes * 60_000 + (seconds * 1e3) as u64)
}

/// Days since 1970 of `2026-11-24` in the Gregorian calendar.
fn days(date: &str) -> Option<u64> {
    let mut parts = date.split('-').map(str::parse::<u64>);
    let [year, month, day] = [parts.next()?.ok()?, parts.next()?.ok()?, parts.next()?.ok()?];
    let sound = (1970..10_000).contains(&year) && (1..=12).contains(&month);
    let leap = year % 4 == 0 && year % 100 != 0 || year % 400 == 0;
    let last = match month {
        2 => 28 + u64::from(leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    if !sound || !(1..=last).contains(&day) || parts.next().is_some() {
        return None;
    }
    // Years begin in March, so that the leap day is the last of its year.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let of_era = year % 400;
    let in_year = (153 * month + 2) / 5 + day - 1;
    let days = year / 400 * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + in_year;
    days.checked_sub(719_468)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::utc;

    #[test]
    fn times_of_people() {
        // 2026-11-24 22:48:21.
        let now = 1_795_560_501_000;
        let at = |text: &str| utc(parse(text, now).unwrap());
        assert_eq!(at("now"), "2026-11-24 22:48:21.000");
        assert_eq!(at("2026-02-28T23:59:59Z"), "2026-02-28 23:59:59.000");
        assert_eq!(at("2028-02-29"), "2028-02-29 00:00:00.000");
        assert_eq!(at("18:00"), "2026-11-24 18:00:00.000");
        assert_eq!(at("yesterday"), "2026-11-23 00:00:00.000");
        assert_eq!(at("yesterday 6:30"), "2026-11-23 06:30:00.000");
        assert_eq!(at("2h ago"), "2026-11-24 20:48:21.000");
        assert_eq!(at("3d ago"), "2026-11-21 22:48:21.000");
        for wrong in ["", "tomorrow", "25:00", "2026-13-01", "1960-01-01", "18", "3 ago"] {
            assert!(parse(wrong, now).is_err(), "{wrong}");
        }
        for no_day in ["2026-02-30", "2026-04-31", "2026-02-29", "2100-02-29", "2026-01-00"] {
            assert!(parse(no_day, now).is_err(), "{no_day}");
        }
        assert_eq!(at("2000-02-29"), "2000-02-29 00:00:00.000");
    }
}
